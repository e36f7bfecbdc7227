package reference

import (
	"bytes"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/prometheus/common/expfmt"

	"github.com/headway-bench/headway/backends/clock"
)

// jsonBody is the content type of most answers.
const jsonBody = "application/json"

// route answers a request, or starts a stream that will.
func (s *Server) route(c *conn, r *http.Request, body []byte, accepted, arrival int64) {
	path := r.URL.Path
	post := map[string]func(){
		"/v1/completions":      func() { s.generate(c, body, false, accepted, arrival) },
		"/v1/chat/completions": func() { s.generate(c, body, true, accepted, arrival) },
		"/tokenize":            func() { s.tokenize(c, body) },
		"/detokenize":          func() { s.detokenize(c, body) },
	}
	get := map[string]func(){
		"/v1/models": func() { c.reply(200, jsonBody, s.models()) },
		"/health":    func() { c.reply(200, "", nil) },
		"/ping":      func() { c.reply(200, "", nil) },
		"/version":   func() { c.reply(200, jsonBody, s.version()) },
		"/metrics":   func() { s.exposition(c) },
	}
	handler, other := post[path], get[path]
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		handler, other = other, handler
	}
	switch {
	case handler == nil && other == nil:
		c.reply(404, jsonBody, []byte(`{"detail":"Not Found"}`))
	case handler == nil || r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodPost:
		c.reply(405, jsonBody, []byte(`{"detail":"Method Not Allowed"}`))
	case strings.HasPrefix(path, "/v1/") && !s.authorized(r):
		c.reply(401, jsonBody, []byte(`{"error":"Unauthorized"}`))
	default:
		handler()
	}
}

func (s *Server) authorized(r *http.Request) bool {
	if s.cfg.APIKey == "" {
		return true
	}
	key, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && subtle.ConstantTimeCompare([]byte(key), []byte(s.cfg.APIKey)) == 1
}

// generate starts the sequences of a completion or chat request.
func (s *Server) generate(c *conn, body []byte, chat bool, accepted, arrival int64) {
	var r apiRequest
	apiErr := decodeBody(body, &r)
	var p *plan
	if apiErr == nil {
		p, apiErr = s.newPlan(&r, chat)
	}
	if apiErr != nil {
		c.reply(apiErr.status, jsonBody, apiErr.body())
		return
	}
	n := s.ordinal.Add(1) - 1
	fault := s.cfg.Faults.Draw(n)
	if fault.Fault != NoFault {
		s.engine.mu.Lock()
		s.metrics.faults[fault.Fault]++
		s.engine.mu.Unlock()
	}
	switch fault.Fault {
	case HTTP429:
		seconds := max(1, int(fault.Duration.Seconds()+0.5))
		e := apiError{status: 429, kind: "RateLimitError", message: "fault on demand: http_429"}
		c.reply(429, jsonBody, e.body(), fmt.Sprintf("retry-after: %d", seconds))
		return
	case HTTP500:
		e := apiError{status: 500, kind: "InternalServerError", message: "fault on demand: http_500"}
		c.reply(500, jsonBody, e.body())
		return
	}
	st := s.newStream(c, p, n, fault, accepted, arrival)
	if p.stream && c.openStream() != nil {
		c.closing = true
		return
	}
	c.cur = st
	s.streams.Add(1)
	s.engine.locked(func(core *Core, _ int64, emit func(Token)) {
		for i := range st.choices {
			core.Add(&st.choices[i].seq, arrival, emit)
		}
	})
}

// newStream sets up the n-th request.
func (s *Server) newStream(c *conn, p *plan, n uint64, fault FaultRule, accepted, arrival int64) *stream {
	kind := "cmpl"
	if p.chat {
		kind = "chatcmpl"
	}
	st := &stream{server: s, conn: c, plan: p, requestID: c.requestID, accepted: accepted, arrival: arrival, fault: fault,
		id: fmt.Sprintf("%s-%016x", kind, mix(uint64(s.started)<<32+n)), created: clock.Wall(arrival).Unix(),
		choices: make([]choice, len(p.prompts)*p.n), done: make(chan struct{}), hold: fault.Fault == Buffered && p.stream}
	st.live = len(st.choices)
	for i := range st.choices {
		ch := &st.choices[i]
		prompt := i / p.n
		limit := p.maxTokens[prompt]
		ch.stream, ch.index, ch.halfway = st, i, limit/2
		q := &ch.seq
		q.ID, q.Owner = s.sequences.Add(1), ch
		q.Prompt, q.MaxTokens, q.MinTokens, q.IgnoreEOS = p.prompts[prompt], limit, p.minTokens, p.ignoreEOS
		q.Sampling = p.sampling
		if p.seeded {
			q.Sampling.Seed += uint64(i % p.n)
		} else {
			q.Sampling.Seed = mix(s.cfg.Seed ^ mix(q.ID))
		}
		switch fault.Fault {
		case SlowStart:
			q.Stall = int64(fault.Duration)
		case StallMid:
			q.StallAt, q.Stall = ch.halfway, int64(fault.Duration)
		case EarlyEnd:
			q.MaxTokens, q.MinTokens = max(1, ch.halfway), 0
		}
		if p.stream {
			ch.prepare()
		}
	}
	return st
}

// models is the answer of /v1/models.
func (s *Server) models() []byte {
	b, _ := json.Marshal(map[string]any{"object": "list", "data": []any{map[string]any{
		"id": s.cfg.ServedModelName, "object": "model", "created": s.started, "owned_by": "headway", "root": s.info.Name,
		"parent": nil, "max_model_len": s.maxLen, "executor": s.info.Executor, "device": s.info.Device, "simulated": s.info.Simulated,
	}}})
	return b
}

// version is the answer of /version.
func (s *Server) version() []byte {
	b, _ := json.Marshal(map[string]any{"version": s.cfg.Version, "engine": "headway", "executor": s.info.Executor,
		"device": s.info.Device, "simulated": s.info.Simulated})
	return b
}

// exposition is the answer of /metrics.
func (s *Server) exposition(c *conn) {
	families, err := s.registry.Gather()
	if err != nil {
		c.reply(500, jsonBody, (&apiError{status: 500, kind: "InternalServerError", message: err.Error()}).body())
		return
	}
	format := expfmt.NewFormat(expfmt.TypeTextPlain)
	var b bytes.Buffer
	enc := expfmt.NewEncoder(&b, format)
	for _, f := range families {
		if err := enc.Encode(f); err != nil {
			c.reply(500, jsonBody, (&apiError{status: 500, kind: "InternalServerError", message: err.Error()}).body())
			return
		}
	}
	c.reply(200, string(format), b.Bytes())
}

// tokenize answers with the ids of a prompt or of messages.
func (s *Server) tokenize(c *conn, body []byte) {
	var r struct {
		apiRequest
		Prompt *string `json:"prompt"`
	}
	apiErr := decodeBody(body, &r)
	var ids []int32
	if apiErr == nil {
		ids, apiErr = s.tokens(&r.apiRequest, r.Prompt)
	}
	if apiErr != nil {
		c.reply(apiErr.status, jsonBody, apiErr.body())
		return
	}
	b := fmt.Appendf(nil, `{"count":%d,"max_model_len":%d,"tokens":`, len(ids), s.maxLen)
	c.reply(200, jsonBody, append(appendIDs(b, ids), `,"token_strs":null}`...))
}

func (s *Server) tokens(r *apiRequest, prompt *string) ([]int32, *apiError) {
	if prompt != nil {
		return s.cfg.Tokenizer.Encode(*prompt, r.AddSpecialTokens == nil || *r.AddSpecialTokens), nil
	}
	if len(r.Messages) == 0 {
		return nil, badShape("body.prompt", "body.prompt is missing; give prompt or messages")
	}
	lists, err := s.prompts(r, true)
	if err != nil {
		return nil, err
	}
	return lists[0], nil
}

// detokenize answers with the text of ids.
func (s *Server) detokenize(c *conn, body []byte) {
	var r struct {
		Tokens []int32 `json:"tokens"`
	}
	if apiErr := decodeBody(body, &r); apiErr != nil {
		c.reply(apiErr.status, jsonBody, apiErr.body())
		return
	}
	var text []byte
	var j utf8Joiner
	for _, id := range r.Tokens {
		text = j.append(text, s.pieces.of(id))
	}
	b := appendQuoted([]byte(`{"prompt":`), j.flush(text))
	c.reply(200, jsonBody, append(b, '}'))
}
