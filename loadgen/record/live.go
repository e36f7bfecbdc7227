package record

import (
	"sync"
	"time"
)

// LiveStats is a rung as it runs, for a progress view. It is about what ended
// in the last two seconds and is not a result.
type LiveStats struct {
	InFlight            int64
	Completed           int64 // since the rung's start
	Failed              int64
	RequestsPerS        float64
	OutputTokPerS       float64
	TTFTP95MS, ITLP95MS Value
	Failures            map[string]int64
	// Measuring says that the window has begun, Left how long it lasts at
	// least.
	Measuring bool
	Left      time.Duration
	// Missing is how many requests the window waits for when it has lasted as
	// long as asked, Settling that it waits for percentiles.
	Missing  int64
	Settling bool
}

const (
	liveSlot  = int64(250 * time.Millisecond)
	liveSlots = 8
)

// live keeps the last two seconds in slots that are used in turn.
type live struct {
	mu        sync.Mutex
	slots     [liveSlots]liveTime
	completed int64
	failed    int64
	failures  map[string]int64
	ttft, itl *distribution // of all young slots, made anew at each question
}

type liveTime struct {
	number           int64
	requests, tokens int64
	ttft, itl        *distribution
}

// slot returns the slot of a time, emptied when it was used for an older one.
func (l *live) slot(at int64) *liveTime {
	number := at / liveSlot
	s := &l.slots[((number%liveSlots)+liveSlots)%liveSlots]
	if s.ttft == nil {
		s.ttft, s.itl = newBlockLatency(), newBlockLatency()
	}
	if s.number < number {
		s.number, s.requests, s.tokens = number, 0, 0
		s.ttft.reset()
		s.itl.reset()
	}
	return s
}

// add notes a request that ended.
func (l *live) add(t *Timeline) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !t.Good() {
		if !t.Censored {
			l.failed++
			if l.failures == nil {
				l.failures = map[string]int64{}
			}
			l.failures[t.class.String()]++
		}
		return
	}
	l.completed++
	s := l.slot(t.end)
	s.requests++
	s.ttft.duration(t.TTFT())
	s.itl.duration(t.MeanITL())
	t.Arrivals(func(at int64, tokens int) {
		if at/liveSlot > t.end/liveSlot-liveSlots {
			l.slot(at).tokens += int64(tokens)
		}
	})
}

// stats reports the slots that are younger than two seconds at now.
func (l *live) stats(now int64) LiveStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := LiveStats{Completed: l.completed, Failed: l.failed, Failures: make(map[string]int64, len(l.failures))}
	for c, n := range l.failures {
		out.Failures[c] = n
	}
	if l.ttft == nil {
		l.ttft, l.itl = newBlockLatency(), newBlockLatency()
	}
	l.ttft.reset()
	l.itl.reset()
	// The youngest slot has only begun.
	span := time.Duration((liveSlots-1)*liveSlot + now%liveSlot).Seconds()
	for i := range l.slots {
		s := &l.slots[i]
		if s.ttft == nil || s.number <= now/liveSlot-liveSlots {
			continue
		}
		out.RequestsPerS += float64(s.requests) / span
		out.OutputTokPerS += float64(s.tokens) / span
		l.ttft.merge(s.ttft)
		l.itl.merge(s.itl)
	}
	out.TTFTP95MS, out.ITLP95MS = l.ttft.quantile(0.95), l.itl.quantile(0.95)
	return out
}
