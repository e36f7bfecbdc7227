// Package custom speaks a protocol that a file describes: where requests go,
// what they hold, and where text, counts, errors and the end stand in the
// events of an answer. docs/dialects.md documents the file.
package custom

// Spec is a backend file. The zero value of a field is what a file that leaves
// it out says.
type Spec struct {
	APIVersion string    `yaml:"apiVersion"`
	Name       string    `yaml:"name"`
	Request    Request   `yaml:"request"`
	Answer     Answer    `yaml:"answer"`
	Tokenizer  Tokenizer `yaml:"tokenizer"`
	Server     Server    `yaml:"server"`
}

// Request describes what is sent.
type Request struct {
	// Method is POST or PUT; "" is POST.
	Method string `yaml:"method"`
	// Path is the route from the target's path; {{.Model}} in it is the model's
	// id, escaped.
	Path    string            `yaml:"path"`
	Headers map[string]string `yaml:"headers"`
	Key     Key               `yaml:"key"`
	// Prompt is the form that the body gives prompts: text, messages or
	// token-ids.
	Prompt string `yaml:"prompt"`
	// Body is a template (text/template) of a JSON object.
	Body string `yaml:"body"`
}

// Key says how the API key is sent: as prefix and key in a header.
type Key struct {
	Header string `yaml:"header"`
	Prefix string `yaml:"prefix"`
}

// Answer describes what comes back. Text to Error are paths in an event's
// JSON, such as choices[0].delta.content or parts[*].text.
type Answer struct {
	Framing string `yaml:"framing"` // sse or ndjson
	Text    string `yaml:"text"`
	// Cumulative says that each text repeats what came before.
	Cumulative bool `yaml:"cumulative"`
	// NoTextIf is a path that is true where the text is a mark of the model.
	NoTextIf  string `yaml:"no_text_if"`
	Reasoning string `yaml:"reasoning"`
	Tool      string `yaml:"tool"`
	TokenIDs  string `yaml:"token_ids"`
	Finish    string `yaml:"finish"`
	Error     string `yaml:"error"`
	Usage     Usage  `yaml:"usage"`
	End       End    `yaml:"end"`
}

// Usage has the paths of the server's counts of tokens.
type Usage struct {
	Prompt     string `yaml:"prompt"`
	Completion string `yaml:"completion"`
	Cached     string `yaml:"cached"`
	Reasoning  string `yaml:"reasoning"`
	// Running is a count of the output so far, on events as they come.
	Running string `yaml:"running"`
}

// End says what ends an answer: any of its fields that is set.
type End struct {
	Data  string `yaml:"data"`  // an event whose data begins so, as [DONE]
	Event string `yaml:"event"` // an SSE event of this type
	// Path is a value that is there and is neither null nor false, or that is
	// Equals where that is set: JSON, or else the text of a string.
	Path   string `yaml:"path"`
	Equals string `yaml:"equals"`
	Body   bool   `yaml:"body"` // the end of the body
}

// Tokenizer describes a route that makes token ids of a prompt, with what the
// model adds to it.
type Tokenizer struct {
	Path string `yaml:"path"` // from the server's root
	// Body is a template of a JSON object, with .Prompt or .Messages.
	Body string `yaml:"body"`
	IDs  string `yaml:"ids"` // the list of ids in the answer: names joined by dots
}

// Server describes what else the server tells.
type Server struct {
	Engine string `yaml:"engine"`
	// Version is a route that answers with JSON, and VersionField a path in it.
	Version      string `yaml:"version"`
	VersionField string `yaml:"version_field"`
	Metrics      string `yaml:"metrics"`
	// Models is a route that lists the models as OpenAI's /v1/models does.
	Models string `yaml:"models"`
}

// apiVersion is the version of the format.
const apiVersion = "headway-backend/v1"
