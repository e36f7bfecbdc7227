package wiretest

import (
	"strings"
	"testing"

	"github.com/headway-bench/headway/backends"
)

// Want is what a test asserts of an answer.
type Want struct {
	Class    backends.Class
	Text     string
	Outputs  int    // events that carry output
	IDs      int    // token ids on the events
	Tokens   int    // the usage's completion, -1 for unknown
	Prompt   int    // the usage's prompt, 0 for not looked at
	Finish   string // finish reason
	Err      string // part of the error
	Warnings string // joined by a blank
}

// Check reports what differs.
func (w Want) Check(t testing.TB, sink *Sink, out backends.Outcome) {
	t.Helper()
	if out.Class != w.Class || !strings.Contains(out.Err, w.Err) || w.Err == "" && out.Err != "" && w.Class == backends.OK {
		t.Errorf("class %v, error %q; want %v, %q", out.Class, out.Err, w.Class, w.Err)
	}
	if sink.Text() != w.Text {
		t.Errorf("text %q, want %q", sink.Text(), w.Text)
	}
	if n := len(sink.Outputs()); n != w.Outputs {
		t.Errorf("%d events with output, want %d:\n%s", n, w.Outputs, sink.Timeline())
	}
	ids := 0
	for _, e := range sink.Events {
		ids += e.TokenIDs
	}
	if w.IDs != 0 && ids != w.IDs {
		t.Errorf("%d token ids, want %d", ids, w.IDs)
	}
	if out.Usage.Completion != w.Tokens {
		t.Errorf("usage of %d tokens, want %d", out.Usage.Completion, w.Tokens)
	}
	if w.Prompt != 0 && out.Usage.Prompt != w.Prompt {
		t.Errorf("usage of %d prompt tokens, want %d", out.Usage.Prompt, w.Prompt)
	}
	if out.Finish != w.Finish {
		t.Errorf("finish %q, want %q", out.Finish, w.Finish)
	}
	if got := strings.Join(out.Warnings, " "); got != w.Warnings {
		t.Errorf("warnings %q, want %q", got, w.Warnings)
	}
	CheckTimes(t, sink, out)
}

// CheckTimes reports what does not hold of the times of any request.
func CheckTimes(t testing.TB, sink *Sink, out backends.Outcome) {
	t.Helper()
	if out.Status == 0 {
		return
	}
	last := sink.SentAt
	if sink.SentAt == 0 || sink.FirstByteAt < sink.SentAt {
		t.Errorf("sent at %d, first byte at %d", sink.SentAt, sink.FirstByteAt)
	}
	for i, e := range sink.Events {
		if e.At < last || e.Returned < e.At || e.At < sink.FirstByteAt {
			t.Errorf("event %d arrived at %d and was read at %d, after one at %d", i, e.At, e.Returned, last)
		}
		last = e.At
	}
	if out.End < last {
		t.Errorf("end %d is before the last event %d", out.End, last)
	}
}
