package reference

import (
	"bytes"
	"crypto/subtle"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"

	"github.com/prometheus/common/expfmt"

	"github.com/headway-bench/headway/backends/clock"
)

// jsonBody is the content type of most answers.
const jsonBody = "application/json"

// call is one request at hand: when its first byte was seen and when it had
// been read.
type call struct {
	conn              *conn
	http              *http.Request
	body              []byte
	accepted, arrival int64
}

// routes are the paths with their method and handler.
var routes = map[string]struct {
	method string
	serve  func(*Server, *call)
}{
	"/v1/completions":      {http.MethodPost, func(s *Server, c *call) { s.generate(c, false) }},
	"/v1/chat/completions": {http.MethodPost, func(s *Server, c *call) { s.generate(c, true) }},
	"/tokenize":            {http.MethodPost, (*Server).tokenize},
	"/detokenize":          {http.MethodPost, (*Server).detokenize},
	"/v1/models":           {http.MethodGet, (*Server).models},
	"/version":             {http.MethodGet, (*Server).version},
	"/metrics":             {http.MethodGet, (*Server).exposition},
	"/health":              {http.MethodGet, (*Server).healthy},
	"/ping":                {http.MethodGet, (*Server).healthy},
}

// route answers a request, or starts a stream that will.
func (s *Server) route(c *call) {
	r, ok := routes[c.http.URL.Path]
	method := c.http.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	switch {
	case !ok:
		c.conn.reply(404, jsonBody, []byte(`{"detail":"Not Found"}`))
	case method != r.method:
		c.conn.reply(405, jsonBody, []byte(`{"detail":"Method Not Allowed"}`))
	case strings.HasPrefix(c.http.URL.Path, "/v1/") && !s.authorized(c.http):
		c.conn.reply(401, jsonBody, []byte(`{"error":"Unauthorized"}`))
	default:
		r.serve(s, c)
	}
}

// refuse answers with an error.
func (c *call) refuse(e *apiError, header ...string) {
	c.conn.reply(e.status, jsonBody, e.body(), header...)
}

func (s *Server) authorized(r *http.Request) bool {
	if s.cfg.APIKey == "" {
		return true
	}
	key, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && subtle.ConstantTimeCompare([]byte(key), []byte(s.cfg.APIKey)) == 1
}

// generate starts the sequences of a completion or chat request.
func (s *Server) generate(c *call, chat bool) {
	var r apiRequest
	if e := decodeBody(c.body, &r); e != nil {
		c.refuse(e)
		return
	}
	p, e := s.newPlan(&r, chat)
	if e != nil {
		c.refuse(e)
		return
	}
	n := s.ordinal.Add(1) - 1
	fault := s.cfg.Faults.Draw(n)
	if fault.Fault != NoFault {
		s.engine.mu.Lock()
		s.metrics.faults[fault.Fault]++
		s.engine.mu.Unlock()
	}
	if fault.Fault == HTTP429 || fault.Fault == HTTP500 {
		s.refuseOnDemand(c, p, fault)
		return
	}
	st := s.newStream(c, p, n, fault)
	if !s.enter(st) {
		c.refuse(&apiError{status: 503, kind: "Service Unavailable", message: "the server is shutting down"})
		return
	}
	if p.stream && c.conn.openStream() != nil {
		c.conn.closing = true
		s.leave(st)
		return
	}
	c.conn.cur = st
	s.engine.locked(func(core *Core, _ int64, emit func(Token)) {
		for i := range st.choices {
			core.Add(&st.choices[i].seq, c.arrival, emit)
		}
	})
}

// refuseOnDemand answers with the status that the fault asks for. The log has
// the request all the same.
func (s *Server) refuseOnDemand(c *call, p *plan, fault FaultRule) {
	e := emission{requestID: c.conn.requestID, accepted: c.accepted, arrival: c.arrival, ended: clock.Now(), reason: FinishError, fault: fault.Fault}
	for _, ids := range p.prompts {
		e.prompt += len(ids)
	}
	s.emission.log(e)
	if fault.Fault == HTTP429 {
		wait := max(1, int(math.Ceil(fault.Duration.Seconds())))
		c.refuse(onDemand(429, "RateLimitError", HTTP429), fmt.Sprintf("retry-after: %d", wait))
		return
	}
	c.refuse(onDemand(500, "InternalServerError", HTTP500))
}

// newStream sets up the n-th request.
func (s *Server) newStream(c *call, p *plan, n uint64, fault FaultRule) *stream {
	kind := "cmpl"
	if p.chat {
		kind = "chatcmpl"
	}
	st := &stream{server: s, conn: c.conn, plan: p, requestID: c.conn.requestID, accepted: c.accepted, arrival: c.arrival, fault: fault,
		id: fmt.Sprintf("%s-%016x", kind, mix(uint64(s.started)<<32+n)), created: clock.Wall(c.arrival).Unix(),
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

// healthy answers that the server is up.
func (s *Server) healthy(c *call) { c.conn.reply(200, "", nil) }

// models answers with the one model that is served.
func (s *Server) models(c *call) {
	c.conn.replyJSON(map[string]any{"object": "list", "data": []any{map[string]any{
		"id": s.cfg.ServedModelName, "object": "model", "created": s.started, "owned_by": "headway", "root": s.info.Name,
		"parent": nil, "max_model_len": s.maxLen, "executor": s.info.Executor, "device": s.info.Device, "simulated": s.info.Simulated,
	}}})
}

// version answers with what serves.
func (s *Server) version(c *call) {
	c.conn.replyJSON(map[string]any{"version": s.cfg.Version, "engine": "headway", "executor": s.info.Executor,
		"device": s.info.Device, "simulated": s.info.Simulated})
}

// exposition answers with the metrics in Prometheus' text format.
func (s *Server) exposition(c *call) {
	families, err := s.registry.Gather()
	format := expfmt.NewFormat(expfmt.TypeTextPlain)
	var b bytes.Buffer
	enc := expfmt.NewEncoder(&b, format)
	for _, f := range families {
		err = errors.Join(err, enc.Encode(f))
	}
	if err != nil {
		c.refuse(&apiError{status: 500, kind: "InternalServerError", message: err.Error()})
		return
	}
	c.conn.reply(200, string(format), b.Bytes())
}

// tokenize answers with the ids of a prompt or of messages.
func (s *Server) tokenize(c *call) {
	var r struct {
		Prompt           *string      `json:"prompt"`
		Messages         []apiMessage `json:"messages"`
		AddSpecialTokens *bool        `json:"add_special_tokens"`
	}
	if e := decodeBody(c.body, &r); e != nil {
		c.refuse(e)
		return
	}
	var ids []int32
	if r.Prompt != nil {
		ids = s.cfg.Tokenizer.Encode(*r.Prompt, r.AddSpecialTokens == nil || *r.AddSpecialTokens)
	} else {
		var e *apiError
		if ids, e = s.chatPrompt(r.Messages); e != nil {
			c.refuse(e)
			return
		}
	}
	b := fmt.Appendf(nil, `{"count":%d,"max_model_len":%d,"tokens":`, len(ids), s.maxLen)
	c.conn.reply(200, jsonBody, append(appendIDs(b, ids), `,"token_strs":null}`...))
}

// detokenize answers with the text of ids.
func (s *Server) detokenize(c *call) {
	var r struct {
		Tokens []int32 `json:"tokens"`
	}
	if e := decodeBody(c.body, &r); e != nil {
		c.refuse(e)
		return
	}
	var text []byte
	var j utf8Joiner
	for _, id := range r.Tokens {
		if id < 0 || int(id) >= s.info.VocabSize {
			c.refuse(badValue("tokens", "token id %d is outside the vocabulary of %d", id, s.info.VocabSize))
			return
		}
		text = j.append(text, s.pieces.of(id))
	}
	b := appendQuoted([]byte(`{"prompt":`), j.flush(text))
	c.conn.reply(200, jsonBody, append(b, '}'))
}
