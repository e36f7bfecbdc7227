package wire

import (
	"strconv"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/internal/jsonscan"
)

// The functions below write members of a JSON object whose first byte, or
// first member, is written already. Names are plain: nothing in them is
// escaped.

// AppendName writes a comma, unless the member is an object's first, the name
// and a colon.
func AppendName(b []byte, name string) []byte {
	if len(b) > 0 && b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	b = append(b, '"')
	b = append(b, name...)
	return append(b, '"', ':')
}

// AppendText writes a member that is a string.
func AppendText(b []byte, name, text string) []byte {
	return jsonscan.AppendString(AppendName(b, name), text)
}

// AppendTexts writes a member that is a list of strings.
func AppendTexts(b []byte, name string, texts []string) []byte {
	b = append(AppendName(b, name), '[')
	for i, t := range texts {
		if i > 0 {
			b = append(b, ',')
		}
		b = jsonscan.AppendString(b, t)
	}
	return append(b, ']')
}

// AppendInt writes a member that is a whole number.
func AppendInt(b []byte, name string, v int64) []byte {
	return strconv.AppendInt(AppendName(b, name), v, 10)
}

// AppendFloat writes a member that is a finite number.
func AppendFloat(b []byte, name string, v float64) []byte {
	return strconv.AppendFloat(AppendName(b, name), v, 'g', -1, 64)
}

// AppendIDs writes a member that is a list of token ids.
func AppendIDs(b []byte, name string, ids []int32) []byte {
	b = append(AppendName(b, name), '[')
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(id), 10)
	}
	return append(b, ']')
}

// AppendMessages writes a member that is a list of chat messages.
func AppendMessages(b []byte, name string, messages []backends.Message) []byte {
	b = append(AppendName(b, name), '[')
	for i, m := range messages {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '{')
		b = AppendText(b, "role", m.Role)
		b = AppendText(b, "content", m.Content)
		b = append(b, '}')
	}
	return append(b, ']')
}

// Turns are the messages of a prompt; a text is one of the user.
func Turns(p backends.Prompt) []backends.Message {
	if p.Messages != nil {
		return p.Messages
	}
	return []backends.Message{{Role: "user", Content: p.Text}}
}
