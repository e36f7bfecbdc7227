package reference

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// apiError is an error in vLLM's shape.
type apiError struct {
	status  int
	kind    string
	param   string // "" is null
	message string
}

func (e *apiError) Error() string { return e.message }

// body is {"error":{...}}.
func (e *apiError) body() []byte {
	b := append([]byte(`{"error":{"message":`), quoted(e.message)...)
	b = append(b, `,"type":`...)
	b = append(b, quoted(e.kind)...)
	b = append(b, `,"param":`...)
	if e.param == "" {
		b = append(b, "null"...)
	} else {
		b = append(b, quoted(e.param)...)
	}
	return fmt.Appendf(b, `,"code":%d}}`, e.status)
}

func quoted(s string) []byte { return appendQuoted(nil, []byte(strings.ToValidUTF8(s, "\uFFFD"))) }

// onDemand is the error of a fault.
func onDemand(status int, kind string, f Fault) *apiError {
	return &apiError{status: status, kind: kind, message: "fault on demand: " + string(f)}
}

// badValue is a field whose value can't be served.
func badValue(param, format string, args ...any) *apiError {
	return &apiError{status: 400, kind: "BadRequestError", param: param, message: fmt.Sprintf(format, args...)}
}

// badShape is a body, or a field of it, of the wrong JSON type.
func badShape(param, format string, args ...any) *apiError {
	return &apiError{status: 400, kind: "Bad Request", param: param, message: "1 validation error: " + fmt.Sprintf(format, args...)}
}

// apiRequest is the body of /v1/completions and /v1/chat/completions. Fields
// that are not here are accepted and have no effect, as with vLLM.
type apiRequest struct {
	Model               string          `json:"model"`
	Prompt              json.RawMessage `json:"prompt"`
	Messages            []apiMessage    `json:"messages"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	MinTokens           int             `json:"min_tokens"`
	IgnoreEOS           bool            `json:"ignore_eos"`
	Stop                stringList      `json:"stop"`
	Temperature         *float64        `json:"temperature"`
	TopP                *float64        `json:"top_p"`
	TopK                *int            `json:"top_k"`
	Seed                *int64          `json:"seed"`
	N                   *int            `json:"n"`
	Logprobs            json.RawMessage `json:"logprobs"`
	TopLogprobs         *int            `json:"top_logprobs"`
	ReturnTokenIDs      bool            `json:"return_token_ids"`
	Echo                bool            `json:"echo"`
	AddSpecialTokens    *bool           `json:"add_special_tokens"`
	Stream              bool            `json:"stream"`
	StreamOptions       *struct {
		IncludeUsage         bool `json:"include_usage"`
		ContinuousUsageStats bool `json:"continuous_usage_stats"`
	} `json:"stream_options"`
}

// apiMessage is a chat message whose content is text or a list of text parts.
type apiMessage struct {
	Role    string      `json:"role"`
	Content textContent `json:"content"`
}

type textContent string

func (t *textContent) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] != '[' {
		return json.Unmarshal(b, (*string)(t))
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if err := json.Unmarshal(b, &parts); err != nil {
		return err
	}
	for _, p := range parts {
		if p.Type != "text" {
			return badValue("messages", "content parts of type %q are not served, only text", p.Type)
		}
		*t += textContent(p.Text)
	}
	return nil
}

// stringList is one string or a list of them.
type stringList []string

func (l *stringList) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		*l = make(stringList, 1)
		return json.Unmarshal(b, &(*l)[0])
	}
	return json.Unmarshal(b, (*[]string)(l))
}

// decodeBody reads JSON into v; errors are in vLLM's shape.
func decodeBody(body []byte, v any) *apiError {
	err := json.Unmarshal(body, v)
	var syntax *json.SyntaxError
	var wrong *json.UnmarshalTypeError
	var own *apiError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &own):
		return own
	case errors.As(err, &syntax):
		return badShape(fmt.Sprintf("body.%d", syntax.Offset), "the body is not JSON: %v (at byte %d)", err, syntax.Offset)
	case errors.As(err, &wrong):
		param := "body"
		if wrong.Field != "" {
			param += "." + wrong.Field
		}
		return badShape(param, "%s should be %s, not %s", param, jsonType(wrong), wrong.Value)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return badShape(fmt.Sprintf("body.%d", len(body)), "the body is not JSON: it ends early")
	default:
		return badShape("body", "%v", err)
	}
}

func jsonType(e *json.UnmarshalTypeError) string {
	switch k := e.Type.Kind().String(); k {
	case "slice":
		return "a list"
	case "struct", "map", "ptr":
		return "an object"
	case "string":
		return "a string"
	case "bool":
		return "a boolean"
	case "float64":
		return "a number"
	default:
		return "an integer"
	}
}

// decodePrompt reads the four forms of a prompt: text, ids, or a list of
// either.
func decodePrompt(raw json.RawMessage, encode func(string) []int32) ([][]int32, *apiError) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return nil, badShape("body.prompt", "body.prompt is missing")
	}
	if raw[0] == '"' {
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, badShape("body.prompt", "%v", err)
		}
		return [][]int32{encode(s)}, nil
	}
	wrong := badShape("body.prompt", "body.prompt should be a string, a list of token ids, or a list of either")
	if raw[0] != '[' {
		return nil, wrong
	}
	inner := bytes.TrimSpace(raw[1:])
	switch inner[0] {
	case '"':
		var texts []string
		if json.Unmarshal(raw, &texts) != nil {
			return nil, wrong
		}
		out := make([][]int32, len(texts))
		for i, s := range texts {
			out[i] = encode(s)
		}
		return out, nil
	case '[':
		var lists [][]int32
		if json.Unmarshal(raw, &lists) != nil {
			return nil, wrong
		}
		return lists, nil
	case ']':
		return nil, badValue("prompt", "the prompt is empty; give at least one token")
	default:
		var ids []int32
		if json.Unmarshal(raw, &ids) != nil {
			return nil, wrong
		}
		return [][]int32{ids}, nil
	}
}

// plan is a checked request: what every one of its sequences is to do.
type plan struct {
	chat            bool
	prompts         [][]int32
	n               int
	maxTokens       []int // one a prompt
	minTokens       int
	ignoreEOS       bool
	stop            []string
	sampling        SamplingParams
	seeded          bool
	logprobs        bool
	tokenIDs        bool
	stream          bool
	usage, contUsed bool
}

// maxChoices bounds the sequences of one request.
const maxChoices = 4096

// newPlan checks a request against the model.
func (s *Server) newPlan(r *apiRequest, chat bool) (*plan, *apiError) {
	p := &plan{chat: chat, n: 1, minTokens: r.MinTokens, ignoreEOS: r.IgnoreEOS, stop: r.Stop, tokenIDs: r.ReturnTokenIDs, stream: r.Stream}
	if r.Model != "" && r.Model != s.cfg.ServedModelName {
		return nil, &apiError{status: 404, kind: "NotFoundError", param: "model",
			message: fmt.Sprintf("model %q is not served here; there is %s", r.Model, s.cfg.ServedModelName)}
	}
	if r.StreamOptions != nil {
		if !r.Stream {
			return nil, badValue("stream_options", "stream_options need stream to be true")
		}
		p.usage = r.StreamOptions.IncludeUsage
		p.contUsed = p.usage && r.StreamOptions.ContinuousUsageStats
	}
	if r.N != nil {
		if p.n = *r.N; p.n < 1 || p.n > 128 {
			return nil, badValue("n", "n must be 1 to 128, not %d", p.n)
		}
	}
	if err := p.readSampling(r); err != nil {
		return nil, err
	}
	var err *apiError
	if p.prompts, err = s.prompts(r, chat); err != nil {
		return nil, err
	}
	if len(p.prompts)*p.n > maxChoices {
		return nil, badValue("prompt", "%d prompts with n=%d are more than %d choices", len(p.prompts), p.n, maxChoices)
	}
	asked, name := r.MaxTokens, "max_tokens"
	if chat && r.MaxCompletionTokens != nil {
		asked, name = r.MaxCompletionTokens, "max_completion_tokens"
	}
	for _, prompt := range p.prompts {
		if err := s.checkPrompt(prompt); err != nil {
			return nil, err
		}
		room := s.maxLen - len(prompt)
		n := room
		switch {
		case asked != nil:
			n = *asked
		case !chat:
			n = min(16, room)
		}
		if n < 1 {
			return nil, badValue(name, "%s must be at least 1, not %d", name, n)
		}
		if n > room {
			return nil, badValue(name, "%s=%d and a prompt of %d tokens are more than the context length of %d tokens; ask for at most %d (max_model_len)", name, n, len(prompt), s.maxLen, room)
		}
		if p.minTokens < 0 || p.minTokens > n {
			return nil, badValue("min_tokens", "min_tokens must be 0 to %s=%d, not %d", name, n, p.minTokens)
		}
		p.maxTokens = append(p.maxTokens, n)
	}
	return p, nil
}

// prompts returns the token ids of the request's prompts.
func (s *Server) prompts(r *apiRequest, chat bool) ([][]int32, *apiError) {
	if !chat {
		if r.Echo {
			return nil, badValue("echo", "echo is not served")
		}
		special := r.AddSpecialTokens == nil || *r.AddSpecialTokens
		return decodePrompt(r.Prompt, func(text string) []int32 { return s.cfg.Tokenizer.Encode(text, special) })
	}
	ids, err := s.chatPrompt(r.Messages)
	return [][]int32{ids}, err
}

// chatPrompt returns the token ids of a conversation.
func (s *Server) chatPrompt(turns []apiMessage) ([]int32, *apiError) {
	if len(turns) == 0 {
		return nil, badShape("body.messages", "body.messages is missing or empty")
	}
	messages := make([]ChatMessage, len(turns))
	for i, m := range turns {
		messages[i] = ChatMessage{Role: m.Role, Content: string(m.Content)}
	}
	ids, err := s.cfg.Tokenizer.Chat(messages)
	if err != nil {
		return nil, badValue("messages", "%v", err)
	}
	return ids, nil
}

func (s *Server) checkPrompt(prompt []int32) *apiError {
	if len(prompt) == 0 {
		return badValue("prompt", "the prompt is empty; give at least one token")
	}
	if len(prompt) >= s.maxLen {
		return badValue("input_tokens", "the prompt has %d tokens, and the context length is %d tokens (max_model_len) with the output; shorten the prompt", len(prompt), s.maxLen)
	}
	for _, id := range prompt {
		if id < 0 || int(id) >= s.info.VocabSize {
			return badValue("prompt", "token id %d is outside the vocabulary of %d", id, s.info.VocabSize)
		}
	}
	return nil
}

// readSampling checks how tokens are to be chosen.
func (p *plan) readSampling(r *apiRequest) *apiError {
	p.sampling = SamplingParams{Temperature: 1, TopP: 1, Logprobs: -1}
	if r.Temperature != nil {
		if *r.Temperature < 0 || *r.Temperature > 100 {
			return badValue("temperature", "temperature must be 0 to 100, not %g", *r.Temperature)
		}
		p.sampling.Temperature = float32(*r.Temperature)
	}
	if r.TopP != nil {
		if *r.TopP <= 0 || *r.TopP > 1 {
			return badValue("top_p", "top_p must be above 0 and at most 1, not %g", *r.TopP)
		}
		p.sampling.TopP = float32(*r.TopP)
	}
	if r.TopK != nil {
		if *r.TopK < -1 {
			return badValue("top_k", "top_k must be at least 1, or 0 or -1 for no limit, not %d", *r.TopK)
		}
		p.sampling.TopK = *r.TopK
	}
	if r.Seed != nil {
		p.sampling.Seed, p.seeded = uint64(*r.Seed), true
	}
	for _, stop := range p.stop {
		if stop == "" {
			return badValue("stop", "a stop string is empty")
		}
	}
	return p.readLogprobs(r)
}

// readLogprobs reads logprobs, a number in completions and a switch in chat.
func (p *plan) readLogprobs(r *apiRequest) *apiError {
	n := 0
	if raw := string(bytes.TrimSpace(r.Logprobs)); raw != "" && raw != "null" && raw != "false" {
		if p.chat {
			if raw != "true" {
				return badShape("body.logprobs", "body.logprobs should be a boolean, not %s", raw)
			}
		} else if err := json.Unmarshal(r.Logprobs, &n); err != nil {
			return badShape("body.logprobs", "body.logprobs should be an integer, not %s", raw)
		}
		p.logprobs = true
	}
	name := "logprobs"
	if p.chat && r.TopLogprobs != nil {
		if name, n = "top_logprobs", *r.TopLogprobs; n > 0 && !p.logprobs {
			return badValue(name, "top_logprobs needs logprobs to be true")
		}
	}
	if n < 0 || n > 20 {
		return badValue(name, "%s must be 0 to 20, not %d", name, n)
	}
	if p.logprobs {
		p.sampling.Logprobs = n
	}
	return nil
}
