package loadgen

import (
	"context"
	"errors"
	"strconv"
	"time"

	"golang.org/x/time/rate"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/clock"
	"github.com/headway-bench/headway/loadgen/prompt"
	"github.com/headway-bench/headway/loadgen/record"
)

// errBudget is why a request that the budget does not hold is not sent.
var errBudget = errors.New("the budget holds no further request")

// worker is one user's goroutine. It sends one request at a time and reads its
// answer to the end.
type worker struct {
	run   *run
	work  chan Send
	req   backends.Request
	watch watch
	// refused paces a user of a closed loop whose connections cannot be made.
	refused *rate.Limiter
	talk    *prompt.Talk // the user's conversations; nil without
	said    ready        // the next turn of them, made beforehand
}

// ready is an item or why there is none.
type ready struct {
	item *prompt.Item
	err  error
}

func (w *worker) loop() {
	w.prepare()
	for s := range w.work {
		for own := true; own; {
			s, own = w.serve(s)
		}
	}
}

// serve sends one request, records it, and returns the user's next one when it
// is due at once.
func (w *worker) serve(s Send) (next Send, own bool) {
	u := w.run
	item, err := w.take(s.Seq)
	t := record.NewTimeline()
	defer t.Release()
	t.Reset(w.id(s.Seq), u.begin+int64(s.Intended), 0)
	t.Rung, t.Index, t.Count, t.Due = u.rung.Index, int(s.Seq), u.g.Count, u.begin+int64(s.Due)
	if err == nil && u.g.purse != nil && !u.g.purse.reserve(item) {
		u.broke()
		err = errBudget
	}
	if err != nil {
		if u.ctx.Err() == nil && !errors.Is(err, errBudget) {
			u.fail(err)
		}
		t.Censored = true
		t.Finish(backends.Outcome{Class: backends.Cancelled, Err: err.Error(), Usage: backends.NoUsage, End: clock.Now()})
		u.recorder.Add(t)
		return u.done(s.User, false, 0)
	}
	t.Asked, t.Forced, t.InputAsked, t.InputExact = item.Output, u.forced, item.Input, item.Exact
	out := w.send(item, t)
	t.Censored = out.Class == backends.Cancelled && u.ctx.Err() != nil
	t.Finish(out)
	u.recorder.Add(t)
	if u.g.purse != nil {
		u.g.purse.settle(item, t)
	}
	if u.g.Log != nil {
		if err := u.g.Log.Add(t); err != nil {
			u.fail(err)
		}
	}
	u.g.Source.Learn(item, out.Usage.Prompt)
	more, delay := w.reply(t)
	if out.Class == backends.Connect {
		delay = max(delay, w.refused.Reserve().Delay())
	}
	return u.done(s.User, more, delay)
}

// refusedPerS is how often a second each user of a closed loop tries again to
// connect to a server that is down: it would be asked tens of thousands of times
// otherwise, and every failure is a line of the log.
const refusedPerS = 10

// take returns what to ask in request seq: the user's next turn, or the next
// item of the rung.
func (w *worker) take(seq int64) (*prompt.Item, error) {
	if w.talk != nil {
		return w.said.item, w.said.err
	}
	return w.run.items.Take(w.run.ctx, seq)
}

// prepare makes the user's next turn, ahead of its sending.
func (w *worker) prepare() {
	if w.talk != nil {
		w.said.item, w.said.err = w.talk.Turn(w.run.ctx)
	}
}

// reply hands the answer to the user's conversation and prepares the next turn.
func (w *worker) reply(t *record.Timeline) (more bool, delay time.Duration) {
	if w.talk == nil {
		return false, 0
	}
	more, delay = w.talk.Reply(string(w.watch.text), t.Outcome.Usage, t.Good())
	w.prepare()
	return more, delay
}

// send asks the target for one item.
func (w *worker) send(item *prompt.Item, t *record.Timeline) backends.Outcome {
	u := w.run
	sampling := &u.rung.Workload.Sampling
	w.req = backends.Request{ID: t.ID, Prompt: item.Prompt, MaxTokens: item.Output, ForceLength: sampling.ForceLength,
		Sampling:  backends.Sampling{Temperature: sampling.Temperature, TopP: sampling.TopP, TopK: sampling.TopK},
		CacheSalt: item.CacheSalt}
	ctx := u.ctx
	if limit := u.rung.Stage.Timeout.Std(); limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	if item.CancelAfter == 0 && item.CancelTokens == 0 && w.talk == nil {
		return u.g.Client.Stream(ctx, &w.req, t)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if item.CancelAfter > 0 {
		defer time.AfterFunc(item.CancelAfter, cancel).Stop()
	}
	w.watch = watch{Timeline: t, limit: item.CancelTokens, cancel: cancel, keep: w.talk != nil, text: w.watch.text[:0]}
	return u.g.Client.Stream(ctx, &w.req, &w.watch)
}

// id names a request within the run.
func (w *worker) id(seq int64) string {
	var b [64]byte
	return string(strconv.AppendInt(append(b[:0], w.run.prefix...), seq, 10))
}

// maxAnswer bounds the answer that a conversation carries on, in bytes.
const maxAnswer = 4 << 20

// watch is a timeline that gives its request up once it has so many tokens, or
// keeps the text of its answer.
type watch struct {
	*record.Timeline
	limit  int // 0 is none
	cancel context.CancelFunc
	keep   bool
	text   []byte
}

// Event implements backends.Sink.
func (w *watch) Event(e backends.Event) {
	w.Timeline.Event(e)
	if w.keep && e.Kind&backends.KindText != 0 && len(w.text) < maxAnswer {
		w.text = append(w.text, e.Text...)
	}
	if w.limit > 0 && w.Timeline.TokensSoFar() >= w.limit {
		w.cancel()
	}
}
