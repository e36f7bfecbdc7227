package wiretest

import (
	"context"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/headway-bench/headway/backends"
)

// EverySplit has a client read the same answer however its bytes come: a byte
// at a time, and then split in two at every boundary. check sees what came of
// each, and all must have the same timeline and class. An answer that is cut is
// one whose connection the server closes after it.
func EverySplit(t *testing.T, answer string, cut bool, open func(url string) backends.Client, r *backends.Request, check func(*Sink, backends.Outcome)) {
	t.Helper()
	s := Serve(t, func(c *Conn) bool {
		if c.Number == 0 {
			return ByteByByte(c, answer) && !cut
		}
		_, err := io.WriteString(c, answer[:c.Number-1])
		runtime.Gosched() // so that the client reads it by itself
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
		out := client.Stream(context.Background(), r, &sink)
		check(&sink, out)
		if split < 0 {
			reference = told(&sink, out)
		}
		if got := told(&sink, out); got != reference {
			t.Fatalf("split at %d it says\n%s\nnot\n%s", split, got, reference)
		}
		if t.Failed() {
			t.Fatalf("split at %d", split)
		}
	}
}

// told is what came of an answer, without times.
func told(sink *Sink, out backends.Outcome) string {
	return sink.Timeline() + "ended as " + out.Class.String()
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
			EveryForm(t, g.Body, g.Cut, sse, open, r, func(sink *Sink, out backends.Outcome) { g.Want.Check(t, sink, out) })
		})
	}
}

// EveryForm has a client read the same body in each of its forms: as it is and
// with CRLF split at every boundary, the others a byte at a time. check sees
// what came of each, and all must have the same timeline and class.
func EveryForm(t *testing.T, body string, cut, sse bool, open func(url string) backends.Client, r *backends.Request, check func(*Sink, backends.Outcome)) {
	t.Helper()
	reference := ""
	for form, body := range forms(body, sse) {
		answer := Head
		if body != "" {
			answer += Chunk(body)
		}
		if !cut {
			answer += End
		}
		same := func(sink *Sink, out backends.Outcome) {
			t.Helper()
			check(sink, out)
			if reference == "" {
				reference = told(sink, out)
			}
			if got := told(sink, out); got != reference {
				t.Fatalf("%s: it says\n%s\nnot\n%s", form, got, reference)
			}
			if t.Failed() {
				t.Fatal(form)
			}
		}
		if form == "as it is" || form == "CRLF" {
			EverySplit(t, answer, cut, open, r, same)
			continue
		}
		s := Serve(t, func(c *Conn) bool { return ByteByByte(c, answer) && !cut })
		client := open(s.URL)
		var sink Sink
		same(&sink, client.Stream(context.Background(), r, &sink))
		client.Close()
	}
}

// forms are the ways to write the same events.
func forms(body string, sse bool) map[string]string {
	if !sse {
		return map[string]string{
			"as it is":        body,
			"CRLF":            strings.ReplaceAll(body, "\n", "\r\n"),
			"byte order mark": "\uFEFF" + body,
			"blank lines":     strings.ReplaceAll(body, "\n", "\n\n"),
		}
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
