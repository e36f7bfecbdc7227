package loadgen

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/headway-bench/headway/loadgen/record"
)

// Ladder runs the rungs of a plan, one after the other, against one target or
// several.
type Ladder struct {
	Plan *Plan
	// Generators hold one target each. With several, every rung is offered to
	// each of them in turn, the order reversed from one rung to the next
	// (A B B A ...), so that drift favours none.
	Generators []*Generator
	// Between runs before every rung but the first, for each target; nil does
	// nothing. Its error ends the ladder.
	Between func(ctx context.Context, target int, next Rung) error
	// Budget ends the ladder when it is spent, over all targets.
	Budget Budget
	// Next places further rungs after the planned ones, given what was
	// measured; false ends the ladder. Nil places none.
	Next func(done [][]record.Rung) (Rung, bool)
	// OnRung takes each rung as it is done, of the target with the given
	// number. Its error ends the ladder.
	OnRung func(target int, r record.Rung, h record.Histograms) error
	// OnNote is told why rungs are left out; nil is not.
	OnNote func(Note)

	done   [][]record.Rung
	failed int     // successive rungs in which most requests failed
	barred float64 // loads from here on are left out
	purse  *purse
}

// Note is something about a ladder that its reader must know.
type Note struct{ Code, Message string }

// maxFailed is the number of successive rungs in which most requests failed
// that ends the climb to higher loads.
const maxFailed = 2

// Run runs the ladder to its end. It returns nil when the plan was run as far
// as the target and the budget let it, ErrInterrupted after Stop or when ctx
// ends, or what else ended it: before the first rung, when this machine cannot
// hold as many connections as the plan needs. Rungs that were done stay done.
func (l *Ladder) Run(ctx context.Context) error {
	if err := CheckCapacity(l.Plan.Connections()); err != nil {
		return err
	}
	l.done = make([][]record.Rung, len(l.Generators))
	l.purse = &purse{budget: l.Budget, price: l.Plan.price}
	for _, g := range l.Generators {
		g.purse = l.purse
	}
	for _, r := range l.Plan.Rungs {
		if l.barred > 0 && r.load() >= l.barred {
			continue
		}
		if end, err := l.rung(ctx, r); end || err != nil {
			return err
		}
	}
	if l.Next == nil || l.barred > 0 && l.failed >= maxFailed {
		return nil
	}
	for index := len(l.Plan.Rungs); ; index++ {
		r, ok := l.Next(l.done)
		if !ok {
			return nil
		}
		r.Index = index
		if end, err := l.rung(ctx, r); end || err != nil {
			return err
		}
	}
}

// Stop ends the ladder after the drain of the rung that runs.
func (l *Ladder) Stop() {
	for _, g := range l.Generators {
		g.Stop()
	}
}

// Done returns the rungs done so far, by target.
func (l *Ladder) Done() [][]record.Rung { return l.done }

// rung offers one rung to every target. end says that the ladder is over.
func (l *Ladder) rung(ctx context.Context, r Rung) (end bool, err error) {
	order := make([]int, len(l.Generators))
	for i := range order {
		order[i] = i
	}
	if len(l.done) > 0 && len(l.done[0])%2 == 1 {
		slices.Reverse(order)
	}
	mostFailed := true
	for _, target := range order {
		if l.Generators[target].isStopped() {
			return true, ErrInterrupted
		}
		if l.Between != nil && len(l.done[target]) > 0 {
			if err := l.Between(ctx, target, r); err != nil {
				return true, fmt.Errorf("between rungs, before rung %d: %w", r.Index, err)
			}
		}
		result, histograms, err := l.Generators[target].Run(ctx, r)
		if err != nil && result.StartUnixNS == 0 {
			return true, err
		}
		l.done[target] = append(l.done[target], result)
		l.purse.time(result.Window.EndS)
		if err := errors.Join(err, l.OnRung(target, result, histograms)); err != nil {
			return true, err
		}
		if spent, empty := l.purse.state(); empty {
			l.note("budget", fmt.Sprintf("the budget is spent: %d tokens, %.2f USD; the ladder ends within rung %d", spent.Tokens, spent.USD, r.Index))
			return true, nil
		}
		mostFailed = mostFailed && result.Totals.Failed > result.Totals.Completed
	}
	l.judge(r, mostFailed)
	return false, nil
}

// judge counts successive failing rungs and bars their loads and higher ones.
func (l *Ladder) judge(r Rung, mostFailed bool) {
	if !mostFailed {
		l.failed = 0
		return
	}
	l.failed++
	if l.failed < maxFailed {
		return
	}
	for _, other := range l.Plan.Rungs {
		if other.Index == r.Index-1 {
			l.barred = min(r.load(), other.load())
		}
	}
	l.note("most_failed", fmt.Sprintf("most requests failed in %d successive rungs; loads of %v and above are left out", l.failed, l.barred))
}

func (l *Ladder) note(code, message string) {
	if l.OnNote != nil {
		l.OnNote(Note{Code: code, Message: message})
	}
}
