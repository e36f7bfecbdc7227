package main

import (
	"slices"
	"time"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/loadgen/record"
)

// listener is a timeline that also notes what its events carry.
type listener struct {
	*record.Timeline
	output, reasoning, ids, running int // events that carry it
	read                            uint64
	inRead, mostPerRead             int // events that carry output
	text                            []byte
}

// maxHeard bounds the text that is kept, in bytes.
const maxHeard = 64 << 10

func newListener(id string, asked, input int) *listener {
	l := &listener{Timeline: record.NewTimeline()}
	l.Reset(id, 0, asked)
	l.InputAsked = input
	return l
}

// Event implements backends.Sink.
func (l *listener) Event(e backends.Event) {
	l.Timeline.Event(e)
	if e.Kind&backends.KindUsageStep != 0 {
		l.running++
	}
	if e.Kind&backends.KindOutput == 0 {
		return
	}
	l.output++
	if e.Kind&backends.KindReasoning != 0 {
		l.reasoning++
	}
	if e.TokenIDs > 0 {
		l.ids++
	}
	if e.Read != l.read {
		l.read, l.inRead = e.Read, 0
	}
	l.inRead++
	l.mostPerRead = max(l.mostPerRead, l.inRead)
	if e.Kind&backends.KindText != 0 && len(l.text)+len(e.Text) <= maxHeard {
		l.text = append(l.text, e.Text...)
	}
}

// listened is what was heard of one answer.
type listened struct {
	output, reasoning, ids, running, mostPerRead int
	text                                         []byte
	tokens                                       int
	tokensKnown                                  bool
	source                                       string
	judgeable, bursty                            bool
	ttft, itl, e2e                               time.Duration
	ttftKnown, itlKnown, e2eKnown                bool
	out                                          backends.Outcome
	warnings                                     []string
}

// listened is called after Finish; it outlives the timeline.
func (l *listener) listened() listened {
	out := listened{output: l.output, reasoning: l.reasoning, ids: l.ids, running: l.running, mostPerRead: l.mostPerRead,
		text: l.text, source: l.Source().String(), judgeable: l.Judgeable(), bursty: l.Bursty(), out: l.Outcome, warnings: slices.Clone(l.Warnings())}
	out.tokens, out.tokensKnown = l.OutputTokens()
	out.ttft, out.ttftKnown = l.TTFT()
	out.itl, out.itlKnown = l.MeanITL()
	out.e2e, out.e2eKnown = l.E2E()
	return out
}
