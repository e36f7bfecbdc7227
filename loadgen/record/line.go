package record

import (
	"strconv"
	"unicode/utf8"
)

// maxError and maxBody bound the error text of a line and what it keeps of a
// failed answer, in bytes.
const (
	maxError = 512
	maxBody  = 1024
)

// appendLine appends the timeline as one line of requests.jsonl. Stamps are
// nanoseconds on the clock of package clock, null where nothing happened.
func appendLine(b []byte, t *Timeline, chunks bool) []byte {
	b = appendInt(append(b, `{"rung":`...), int64(t.Rung))
	b = appendInt(append(b, `,"index":`...), int64(t.Index))
	b = appendString(append(b, `,"request_id":`...), t.ID)
	b = appendInt(append(b, `,"intended_ns":`...), t.Intended)
	b = appendStamp(append(b, `,"sent_ns":`...), t.sent)
	b = appendStamp(append(b, `,"first_byte_ns":`...), t.firstByte)
	b = appendStamp(append(b, `,"first_token_ns":`...), t.FirstTokenAt())
	b = appendStamp(append(b, `,"last_token_ns":`...), t.LastTokenAt())
	b = appendStamp(append(b, `,"end_ns":`...), t.end)
	in, ok := t.InputTokens()
	b = appendKnown(append(b, `,"input_tokens":`...), in, ok)
	b = appendKnown(append(b, `,"input_requested":`...), t.InputAsked, t.InputAsked > 0)
	out, ok := t.OutputTokens()
	b = appendKnown(append(b, `,"output_tokens":`...), out, ok)
	b = appendString(append(b, `,"token_source":`...), t.tokens.source.String())
	if chunks {
		b = appendChunks(append(b, `,"chunks":[`...), t)
	}
	class := t.class.String()
	b = appendString(append(b, `,"class":`...), class)
	if t.Censored {
		b = append(b, `,"censored":true`...)
	}
	if e := t.Outcome.Err; e != "" {
		b = appendString(append(b, `,"error":`...), clip(e, maxError))
	}
	if body := t.Outcome.Body; len(body) > 0 && !t.Good() {
		b = appendString(append(b, `,"body":`...), clip(string(body[:min(len(body), maxBody+1)]), maxBody))
	}
	if r := t.Outcome.Remote; r != "" {
		b = appendString(append(b, `,"remote":`...), r)
	}
	return append(b, '}', '\n')
}

// appendChunks appends [t_ns,k] of each token event and the closing bracket;
// k is null where it is not known.
func appendChunks(b []byte, t *Timeline) []byte {
	for i := range t.events {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendInt(append(b, '['), t.events[i].at)
		b = appendKnown(append(b, ','), int(t.events[i].k), t.tokens.perEvent)
		b = append(b, ']')
	}
	return append(b, ']')
}

func appendInt(b []byte, v int64) []byte { return strconv.AppendInt(b, v, 10) }

func appendStamp(b []byte, at int64) []byte { return appendKnown(b, int(at), at != 0) }

func appendKnown(b []byte, v int, ok bool) []byte {
	if !ok {
		return append(b, "null"...)
	}
	return appendInt(b, int64(v))
}

// appendString appends a JSON string; bytes that are not UTF-8 become U+FFFD.
func appendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < 0x20:
			b = append(b, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}

// clip cuts a text to n bytes at a character.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
