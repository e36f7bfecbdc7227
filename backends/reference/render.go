package reference

import (
	"fmt"
	"strconv"
)

// doneEvent ends a stream of events.
const doneEvent = "data: [DONE]\n\n"

// prepare builds what the chunks of a choice have in common.
func (ch *choice) prepare() {
	st := ch.stream
	b := st.open(nil)
	b = append(b, `{"index":`...)
	b = strconv.AppendInt(b, int64(ch.index), 10)
	if st.plan.chat {
		b = append(b, `,"delta":{"content":"`...)
	} else {
		b = append(b, `,"text":"`...)
	}
	ch.prefix = b
}

// open appends an event up to the inside of its choices.
func (st *stream) open(b []byte) []byte {
	object := "text_completion"
	if st.plan.chat {
		object = "chat.completion.chunk"
	}
	b = append(b, `data: {"id":"`...)
	b = append(b, st.id...)
	b = append(b, `","object":"`...)
	b = append(b, object...)
	b = append(b, `","created":`...)
	b = strconv.AppendInt(b, st.created, 10)
	b = append(b, `,"model":`...)
	b = append(b, st.server.modelJSON...)
	return append(b, `,"choices":[`...)
}

// begin starts a chunk of the body and returns where; end closes it. The
// length of nearly every chunk fits into three hexadecimal digits (leading
// zeros are allowed: RFC 9112, 7.1), for which begin leaves room.
func (st *stream) begin() int {
	if !st.conn.chunked {
		return len(st.buf)
	}
	st.buf = append(st.buf, "000\r\n"...)
	return len(st.buf)
}

func (st *stream) end(start int) {
	if !st.conn.chunked {
		return
	}
	const hex = "0123456789abcdef"
	n := len(st.buf) - start
	if n <= 0xfff {
		head := st.buf[start-5:]
		head[0], head[1], head[2] = hex[n>>8], hex[n>>4&15], hex[n&15]
		st.buf = append(st.buf, "\r\n"...)
		return
	}
	body := append([]byte(nil), st.buf[start:]...)
	st.buf = fmt.Appendf(st.buf[:start-5], "%x\r\n%s\r\n", n, body)
}

// render appends the chunk of one token, with the role chunk before the first
// of a chat. A Token without slice renders the finish alone. mu is held.
func (ch *choice) render(text []byte, t Token) {
	st := ch.stream
	first := ch.tokens <= 1
	if first && st.plan.chat {
		ch.renderRole()
	}
	start := st.begin()
	b := append(st.buf, ch.prefix...)
	b = appendEscaped(b, text)
	if st.plan.chat {
		b = append(b, `"},"logprobs":`...)
	} else {
		b = append(b, `","logprobs":`...)
	}
	if st.plan.logprobs && t.Slice != nil {
		ch.logprobs.reset()
		ch.logprobs.add(st, t.Slice)
		b = ch.logprobs.append(b, st.plan.chat)
	} else {
		b = append(b, "null"...)
	}
	b = ch.appendReason(b, !st.plan.chat || ch.reason != FinishNone)
	if !st.plan.chat {
		b = append(b, `,"prompt_token_ids":`...)
		if first && st.plan.tokenIDs {
			b = appendIDs(b, ch.seq.Prompt)
		} else {
			b = append(b, "null"...)
		}
	}
	b = append(b, `,"token_ids":`...)
	tokens := 0
	if t.Slice != nil {
		tokens = 1
	}
	if st.plan.tokenIDs && tokens > 0 {
		b = append(b, '[')
		b = strconv.AppendInt(b, int64(t.Slice.Next), 10)
		b = append(b, ']')
	} else {
		b = append(b, "null"...)
	}
	b = append(b, "}]"...)
	if st.plan.contUsed {
		b = append(b, `,"usage":`...)
		b = appendUsage(b, len(ch.seq.Prompt), st.reported(ch.tokens))
	}
	st.buf = append(b, "}\n\n"...)
	st.end(start)
	st.push(t.At, tokens)
}

// renderRole appends the chunk that opens a chat message. It goes out in one
// write with the first token, as it has none of its own.
func (ch *choice) renderRole() {
	st := ch.stream
	start := st.begin()
	b := st.open(st.buf)
	b = append(b, `{"index":`...)
	b = strconv.AppendInt(b, int64(ch.index), 10)
	b = append(b, `,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]`...)
	if st.plan.contUsed {
		b = append(b, `,"usage":`...)
		b = appendUsage(b, len(ch.seq.Prompt), 0)
	}
	b = append(b, `,"prompt_token_ids":`...)
	if st.plan.tokenIDs {
		b = appendIDs(b, ch.seq.Prompt)
	} else {
		b = append(b, "null"...)
	}
	st.buf = append(b, "}\n\n"...)
	st.end(start)
}

// appendReason appends finish_reason, and stop_reason where the route has it.
func (ch *choice) appendReason(b []byte, stopReason bool) []byte {
	if ch.reason == FinishNone {
		b = append(b, `,"finish_reason":null`...)
	} else {
		b = append(b, `,"finish_reason":"`...)
		b = append(b, ch.reason...)
		b = append(b, '"')
	}
	switch {
	case !stopReason:
		return b
	case ch.stopped == "":
		return append(b, `,"stop_reason":null`...)
	default:
		b = append(b, `,"stop_reason":`...)
		return appendQuoted(b, []byte(ch.stopped))
	}
}

// complete renders what ends the answer; mu is held.
func (st *stream) complete(at int64) {
	st.closed, st.last = true, true
	if !st.plan.stream {
		st.renderWhole(at)
		return
	}
	if st.plan.usage {
		start := st.begin()
		b := st.open(st.buf)
		b = append(b, `],"usage":`...)
		prompt, completion := st.usage()
		b = appendUsage(b, prompt, completion)
		st.buf = append(b, "}\n\n"...)
		st.end(start)
	}
	st.endBody(true)
	st.push(0, 0)
}

// endBody appends [DONE], where asked for, and the end of the body.
func (st *stream) endBody(done bool) {
	if done {
		start := st.begin()
		st.buf = append(st.buf, doneEvent...)
		st.end(start)
	}
	if st.conn.chunked {
		st.buf = append(st.buf, "0\r\n\r\n"...)
	}
}

// fail ends the answer with an error: an event where the head is out, a status
// otherwise. mu is held.
func (st *stream) fail(now int64, e *apiError) {
	st.abort(now)
	st.last = true
	if st.plan.stream {
		start := st.begin()
		st.buf = append(st.buf, "data: "...)
		st.buf = append(st.buf, e.body()...)
		st.buf = append(st.buf, "\n\n"...)
		st.end(start)
		st.endBody(true)
	} else {
		st.buf = st.conn.appendReply(st.buf, e.status, jsonBody, e.body())
	}
	st.push(0, 0)
}

// breakOff ends the answer without its end: a body that just ends, or a reset.
func (st *stream) breakOff(reset bool) {
	st.last, st.reset = true, reset
	switch {
	case st.plan.stream && !reset:
		st.endBody(false)
	case !st.plan.stream:
		st.buf = append(st.buf, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{\"id\":"...)
		st.reset = true
	}
	st.push(0, 0)
}

// keep adds one token to an answer in one piece.
func (ch *choice) keep(text []byte, t Token) {
	ch.text = append(ch.text, text...)
	ch.ids = append(ch.ids, t.Slice.Next)
	if ch.stream.plan.logprobs {
		ch.logprobs.add(ch.stream, t.Slice)
	}
}

// renderWhole appends an answer in one piece.
func (st *stream) renderWhole(at int64) {
	object := "text_completion"
	if st.plan.chat {
		object = "chat.completion"
	}
	b := fmt.Appendf(nil, `{"id":"%s","object":"%s","created":%d,"model":%s,"choices":[`, st.id, object, st.created, st.server.modelJSON)
	tokens := 0
	for i := range st.choices {
		ch := &st.choices[i]
		tokens += ch.tokens
		if i > 0 {
			b = append(b, ',')
		}
		b = ch.appendWhole(b)
	}
	prompt, completion := st.usage()
	b = append(b, `],"usage":`...)
	b = append(appendUsage(b, prompt, completion), '}')
	st.buf = st.conn.appendReply(st.buf, 200, jsonBody, b)
	st.push(at, tokens)
}

func (ch *choice) appendWhole(b []byte) []byte {
	p := ch.stream.plan
	b = fmt.Appendf(b, `{"index":%d,`, ch.index)
	if p.chat {
		b = append(b, `"message":{"role":"assistant","content":`...)
		b = append(appendQuoted(b, ch.text), `,"refusal":null,"reasoning":null}`...)
	} else {
		b = append(b, `"text":`...)
		b = appendQuoted(b, ch.text)
	}
	b = append(b, `,"logprobs":`...)
	if p.logprobs {
		b = ch.logprobs.append(b, p.chat)
	} else {
		b = append(b, "null"...)
	}
	b = ch.appendReason(b, true)
	if !p.tokenIDs {
		return append(b, `,"token_ids":null,"prompt_token_ids":null}`...)
	}
	b = append(b, `,"token_ids":`...)
	b = appendIDs(b, ch.ids)
	b = append(b, `,"prompt_token_ids":`...)
	return append(appendIDs(b, ch.seq.Prompt), '}')
}
