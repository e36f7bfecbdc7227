package reference

import "strconv"

// logprobs collects the probabilities of a choice's tokens as JSON: one list
// for a chat, four for a completion.
type logprobs struct {
	chat                         []byte
	tokens, values, tops, offset []byte
	length                       int // bytes of text so far
}

// reset forgets the tokens, but not how much text they were.
func (l *logprobs) reset() {
	l.chat, l.tokens, l.values, l.tops, l.offset = l.chat[:0], l.tokens[:0], l.values[:0], l.tops[:0], l.offset[:0]
}

// add appends one token.
func (l *logprobs) add(st *stream, sl *Slice) {
	if st.plan.chat {
		l.chat = comma(l.chat)
		l.chat = appendChatLogprob(l.chat, st.server.pieces, TokenLogprob{sl.Next, sl.Logprob})
		l.chat = append(l.chat, `,"top_logprobs":[`...)
		for i, t := range sl.Top {
			if i > 0 {
				l.chat = append(l.chat, ',')
			}
			l.chat = append(appendChatLogprob(l.chat, st.server.pieces, t), '}')
		}
		l.chat = append(l.chat, "]}"...)
		return
	}
	piece := st.server.pieces.of(sl.Next)
	l.tokens = appendToken(comma(l.tokens), piece)
	l.values = appendFloat(comma(l.values), sl.Logprob)
	l.offset = strconv.AppendInt(comma(l.offset), int64(l.length), 10)
	l.length += len(piece)
	l.tops = append(comma(l.tops), '{')
	for i, t := range sl.Top {
		if i > 0 {
			l.tops = append(l.tops, ',')
		}
		l.tops = append(appendToken(l.tops, st.server.pieces.of(t.ID)), ':')
		l.tops = appendFloat(l.tops, t.Logprob)
	}
	l.tops = append(l.tops, '}')
}

// append appends the object of the route.
func (l *logprobs) append(b []byte, chat bool) []byte {
	if chat {
		b = append(b, `{"content":[`...)
		return append(append(b, l.chat...), "]}"...)
	}
	for _, part := range []struct {
		name string
		list []byte
	}{{`{"text_offset":[`, l.offset}, {`],"token_logprobs":[`, l.values}, {`],"tokens":[`, l.tokens}, {`],"top_logprobs":[`, l.tops}} {
		b = append(b, part.name...)
		b = append(b, part.list...)
	}
	return append(b, "]}"...)
}

func comma(b []byte) []byte {
	if len(b) > 0 {
		return append(b, ',')
	}
	return b
}

// appendChatLogprob appends an entry without its closing brace.
func appendChatLogprob(b []byte, p *pieces, t TokenLogprob) []byte {
	piece := p.of(t.ID)
	b = append(b, `{"token":`...)
	b = appendToken(b, piece)
	b = append(b, `,"logprob":`...)
	b = appendFloat(b, t.Logprob)
	b = append(b, `,"bytes":[`...)
	for i, c := range piece {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, uint64(c), 10)
	}
	return append(b, ']')
}

// appendToken appends the text of one token, which may be no UTF-8 by itself.
func appendToken(b, piece []byte) []byte {
	var j utf8Joiner
	return appendQuoted(b, j.flush(j.append(nil, piece)))
}

// appendFloat appends a log probability; JSON has no infinity, and vLLM puts
// -9999 in its place.
func appendFloat(b []byte, v float32) []byte {
	return strconv.AppendFloat(b, float64(max(v, -9999)), 'g', -1, 32)
}
