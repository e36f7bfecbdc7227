package triton

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Names that models give their inputs and outputs, the usual first.
var (
	textNames    = []string{"text_input", "prompt", "text", "inputs", "INPUT_TEXT"}
	maxNames     = []string{"max_tokens", "max_new_tokens", "request_output_len", "max_output_tokens"}
	minNames     = []string{"min_tokens", "min_length", "min_new_tokens"}
	tempNames    = []string{"temperature"}
	topPNames    = []string{"top_p", "runtime_top_p"}
	topKNames    = []string{"top_k", "runtime_top_k"}
	seedNames    = []string{"seed", "random_seed"}
	stopNames    = []string{"stop_words", "stop"}
	ignoreNames  = []string{"ignore_eos"}
	streamNames  = []string{"stream", "streaming"}
	excludeNames = []string{"exclude_input_in_output"}
	paramsNames  = []string{"sampling_parameters"}
	textOutNames = []string{"text_output", "generated_text", "text", "outputs", "OUTPUT_TEXT"}
	idsOutNames  = []string{"token_id", "token_ids", "output_ids", "tokens"}
)

// tensor is an input or output as the metadata describe it.
type tensor struct {
	Name     string `json:"name"`
	Datatype string `json:"datatype"`
}

// Described is what a model's metadata say of it.
type Described struct {
	Model
	Platform string
	Versions []string
}

// Describe reads a model's metadata (GET /v2/models/NAME, KServe v2). The
// error says why the model generates no text.
func Describe(name, version string, metadata []byte) (Described, error) {
	var v struct {
		Platform string   `json:"platform"`
		Versions []string `json:"versions"`
		Inputs   []tensor `json:"inputs"`
		Outputs  []tensor `json:"outputs"`
	}
	if err := json.Unmarshal(metadata, &v); err != nil {
		return Described{}, fmt.Errorf("the metadata of Triton model %s: %w", name, err)
	}
	d := Described{Platform: v.Platform, Versions: v.Versions, Model: Model{
		Name: name, Version: version,
		Text:        textTensor(v.Inputs, textNames),
		MaxTokens:   named(v.Inputs, maxNames),
		MinTokens:   named(v.Inputs, minNames),
		Temperature: named(v.Inputs, tempNames), TopP: named(v.Inputs, topPNames), TopK: named(v.Inputs, topKNames),
		Seed: named(v.Inputs, seedNames), Stop: named(v.Inputs, stopNames),
		IgnoreEOS: named(v.Inputs, ignoreNames), Stream: named(v.Inputs, streamNames),
		ExcludeInput: named(v.Inputs, excludeNames), SamplingJSON: named(v.Inputs, paramsNames),
		TextOut: textTensor(v.Outputs, textOutNames), TokenIDsOut: named(v.Outputs, idsOutNames),
	}}
	switch {
	case d.Text == "":
		return d, fmt.Errorf("Triton model %s has no input of text (BYTES) that holds the prompt", name)
	case d.TextOut == "":
		return d, fmt.Errorf("Triton model %s has no output of text (BYTES)", name)
	}
	return d, nil
}

// named is the first of the names that a tensor has, "" for none.
func named(tensors []tensor, names []string) string {
	for _, n := range names {
		if slices.ContainsFunc(tensors, func(t tensor) bool { return t.Name == n }) {
			return n
		}
	}
	return ""
}

// textTensor is the tensor of text: one of the names, or the only one there is.
func textTensor(tensors []tensor, names []string) string {
	tensors = slices.DeleteFunc(slices.Clone(tensors), func(t tensor) bool { return t.Datatype != "BYTES" })
	if n := named(tensors, names); n != "" || len(tensors) != 1 {
		return n
	}
	return tensors[0].Name
}
