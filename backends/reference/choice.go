package reference

import (
	"bytes"
	"strconv"
	"strings"
)

// choice is one sequence of a request: what is rendered of it.
type choice struct {
	stream  *stream
	index   int
	seq     Sequence
	tokens  int // delivered
	halfway int // tokens before a fault in mid-stream strikes
	reason  Finish
	stopped string // the stop string that ended it
	joiner  utf8Joiner
	held    []byte // text that may be the start of a stop string
	prefix  []byte // of each chunk, up to the text
	last    int64  // when the last token was ready

	// Of an answer in one piece.
	text     []byte
	ids      []int32
	logprobs logprobs
}

// emit takes one step of a sequence: it counts the token and renders its
// chunk. The engine's lock is held. It returns the stream to be flushed.
func (s *Server) emit(t Token, now int64) *stream {
	ch := t.Seq.Owner.(*choice)
	st := ch.stream
	if st.closed {
		return nil
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if t.Err != nil {
		ch.reason = FinishError
		s.metrics.ended(ch, now)
		st.fail(now, &apiError{status: 500, kind: "InternalServerError", message: t.Err.Error()})
		return st
	}
	if st.strikes(ch, now) {
		return st
	}
	ch.tokens++
	s.metrics.token(ch, t.At)
	ch.last = t.At
	text := ch.take(t.Slice.Next, now)
	if ch.seq.Finish != FinishNone && ch.reason == FinishNone {
		ch.reason = ch.seq.Finish
		if st.fault.Fault == EarlyEnd {
			ch.reason = FinishStop
		}
	}
	if st.plan.stream {
		ch.render(text, t)
	} else {
		ch.keep(text, t)
	}
	if ch.reason != FinishNone {
		s.metrics.ended(ch, now)
		if st.live--; st.live == 0 {
			st.complete(t.At)
		}
	}
	if len(st.buf)-st.sent > maxBacklog {
		st.broken, st.last = true, true
		st.abort(now)
	}
	return st
}

// take makes text of the next id: what can be shown now. With stop strings it
// may end the sequence.
func (ch *choice) take(id int32, now int64) []byte {
	st := ch.stream
	ended := ch.seq.Finish != FinishNone
	stops := st.plan.stop
	ch.held = ch.joiner.append(ch.held, st.server.pieces.of(id))
	if ended {
		ch.held = ch.joiner.flush(ch.held)
	}
	show := len(ch.held)
	if len(stops) > 0 && ch.tokens > st.plan.minTokens {
		at, stop := firstStop(ch.held, stops)
		switch {
		case at >= 0:
			show = at
			ch.reason, ch.stopped = FinishStop, stop
			st.server.engine.core.Sched.End(&ch.seq, FinishStop, now)
			ch.held = ch.held[:at]
		case !ended:
			show -= stopPrefix(ch.held, stops)
		}
	}
	text := ch.held[:show]
	ch.held = ch.held[show:]
	if len(ch.held) == 0 {
		ch.held = text[:0]
	}
	return text
}

// firstStop finds the first stop string in text, -1 when there is none.
func firstStop(text []byte, stops []string) (at int, stop string) {
	at = -1
	for _, s := range stops {
		if i := bytes.Index(text, []byte(s)); i >= 0 && (at < 0 || i < at) {
			at, stop = i, s
		}
	}
	return at, stop
}

// stopPrefix is the length of the longest end of text that a stop string
// starts with.
func stopPrefix(text []byte, stops []string) int {
	longest := 0
	for _, s := range stops {
		for n := min(len(s)-1, len(text)); n > longest; n-- {
			if strings.HasPrefix(s, string(text[len(text)-n:])) {
				longest = n
			}
		}
	}
	return longest
}

// strikes carries out a fault in mid-stream when its time has come, in place
// of the token at hand, and reports whether it did; mu is held.
func (st *stream) strikes(ch *choice, now int64) bool {
	first := ch.tokens == 0
	half := ch.tokens == ch.halfway
	switch st.fault.Fault {
	case ErrorFirst:
		if first {
			st.fail(now, onDemand(500, "InternalServerError", ErrorFirst))
			return true
		}
	case ErrorMid:
		if half {
			st.fail(now, onDemand(500, "InternalServerError", ErrorMid))
			return true
		}
	case Truncate, Cut:
		if half {
			st.abort(now)
			st.breakOff(st.fault.Fault == Cut)
			return true
		}
	case NoOutput:
		if first {
			for i := range st.choices {
				ch := &st.choices[i]
				ch.reason = FinishStop
				st.server.metrics.ended(ch, now)
				if st.plan.stream {
					ch.render(nil, Token{})
				}
			}
			st.abort(now)
			st.complete(now)
			return true
		}
	}
	return false
}

// abort ends the sequences that still run.
func (st *stream) abort(now int64) {
	for i := range st.choices {
		ch := &st.choices[i]
		st.server.engine.core.Sched.End(&ch.seq, FinishAbort, now)
		if ch.reason == FinishNone {
			ch.reason = FinishAbort
			st.server.metrics.ended(ch, now)
		}
	}
	st.closed = true
}

// usage are the counts of the whole request.
func (st *stream) usage() (prompt, completion int) {
	for i := range st.choices {
		if i%st.plan.n == 0 {
			prompt += len(st.choices[i].seq.Prompt)
		}
		completion += st.choices[i].tokens
	}
	return prompt, st.reported(completion)
}

// reported is what the server claims instead of n tokens.
func (st *stream) reported(n int) int {
	if st.fault.Fault == WrongUsage {
		return 2*n + 7
	}
	return n
}

func appendUsage(b []byte, prompt, completion int) []byte {
	b = append(b, `{"prompt_tokens":`...)
	b = strconv.AppendInt(b, int64(prompt), 10)
	b = append(b, `,"total_tokens":`...)
	b = strconv.AppendInt(b, int64(prompt+completion), 10)
	b = append(b, `,"completion_tokens":`...)
	b = strconv.AppendInt(b, int64(completion), 10)
	return append(b, '}')
}
