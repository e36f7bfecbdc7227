package wiretest

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/headway-bench/headway/backends"
)

// EverySplit has a client read the same answer however its bytes come: a byte
// at a time, and then split in two at every boundary. check sees what came of
// each, and all must have the same timeline. An answer that is cut is one whose
// connection the server closes after it.
func EverySplit(t *testing.T, answer string, cut bool, open func(url string) backends.Client, r *backends.Request, check func(*Sink, backends.Outcome)) {
	t.Helper()
	s := Serve(t, func(c *Conn) bool {
		if c.Number == 0 {
			return ByteByByte(c, answer) && !cut
		}
		_, err := io.WriteString(c, answer[:c.Number-1])
		if err == nil {
			_, err = io.WriteString(c, answer[c.Number-1:])
		}
		return err == nil && !cut
	})
	client := open(s.URL)
	defer client.Close()
	reference := ""
	for split := -1; split < len(answer); split++ {
		var sink Sink
		check(&sink, client.Stream(context.Background(), r, &sink))
		if split < 0 {
			reference = sink.Timeline()
		}
		if got := sink.Timeline(); got != reference {
			t.Fatalf("split at %d the timeline is\n%snot\n%s", split, got, reference)
		}
		if t.Failed() {
			t.Fatalf("split at %d", split)
		}
	}
}

// ByteByByte writes an answer one byte a segment, and says whether it could.
func ByteByByte(w io.Writer, answer string) bool {
	for i := range len(answer) {
		if _, err := io.WriteString(w, answer[i:i+1]); err != nil {
			return false
		}
	}
	return true
}

// Golden is a body and what is to come of it.
type Golden struct {
	Name string
	// Body is written as it stands; its lines end with a newline.
	Body string
	// Cut says that the connection closes where the end of the body is due.
	Cut  bool
	Want Want
}

// Conform sends each golden body through a raw socket, split at every
// boundary, and, when they are server-sent events, in each form that the
// standard allows for the same events.
func Conform(t *testing.T, goldens []Golden, sse bool, open func(url string) backends.Client, r *backends.Request) {
	t.Helper()
	for _, g := range goldens {
		t.Run(g.Name, func(t *testing.T) {
			reference := ""
			for form, body := range forms(g.Body, sse) {
				answer := Head
				if body != "" {
					answer += Chunk(body)
				}
				if !g.Cut {
					answer += End
				}
				check := func(sink *Sink, out backends.Outcome) {
					t.Helper()
					g.Want.Check(t, sink, out)
					if reference == "" {
						reference = sink.Timeline()
					}
					if got := sink.Timeline(); got != reference {
						t.Fatalf("%s: the timeline is\n%snot\n%s", form, got, reference)
					}
				}
				if form == "as it is" || form == "CRLF" {
					EverySplit(t, answer, g.Cut, open, r, check)
					continue
				}
				s := Serve(t, func(c *Conn) bool { return ByteByByte(c, answer) && !g.Cut })
				client := open(s.URL)
				var sink Sink
				check(&sink, client.Stream(context.Background(), r, &sink))
				client.Close()
			}
		})
	}
}

// forms are the ways to write the same events.
func forms(body string, sse bool) map[string]string {
	if !sse {
		return map[string]string{"as it is": body, "CRLF": strings.ReplaceAll(body, "\n", "\r\n"), "blank lines": strings.ReplaceAll(body, "\n", "\n\n")}
	}
	return map[string]string{
		"as it is":         body,
		"CRLF":             strings.ReplaceAll(body, "\n", "\r\n"),
		"CR":               strings.ReplaceAll(body, "\n", "\r"),
		"byte order mark":  "\uFEFF" + body,
		"comments":         ": keep-alive\n\n" + strings.ReplaceAll(body, "data:", ": ping\ndata:"),
		"no blank":         strings.ReplaceAll(body, "data: ", "data:"),
		"ids and retries":  strings.ReplaceAll(body, "data:", "id: 7\nretry: 10\ndata:"),
		"blank at the end": strings.ReplaceAll(body, "\n\n", " \n\n"),
	}
}
