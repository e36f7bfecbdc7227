package loadgen

import (
	"sync"

	"github.com/headway-bench/headway/loadgen/prompt"
	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/profiles"
)

// Budget bounds what a ladder sends, over all targets; 0 is no bound.
type Budget struct {
	Tokens int64 // input and output
	USD    float64
}

// BudgetOf returns the budget of a profile.
func BudgetOf(c profiles.Cost) Budget { return Budget{Tokens: c.MaxTokens, USD: c.MaxUSD} }

// purse keeps a budget. Each request reserves what it can cost at most before
// it is sent, and gives back what it did not use, so that the budget is never
// overdrawn but by prompts of unknown length and by hardware time, which is
// paid after each rung. It is safe for concurrent use.
type purse struct {
	budget Budget
	price  profiles.Cost

	mu    sync.Mutex
	spent Budget
	empty bool // a request was refused, or the time used it up
}

// usd is the price of tokens.
func (p *purse) usd(in, out int) float64 {
	return (float64(in)*p.price.USDPerMIn + float64(out)*p.price.USDPerMOut) / 1e6
}

// reserve takes what an item can cost; false when the budget does not hold it.
func (p *purse) reserve(it *prompt.Item) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	tokens, usd := p.spent.Tokens+int64(it.Input+it.Output), p.spent.USD+p.usd(it.Input, it.Output)
	if p.budget.Tokens > 0 && tokens > p.budget.Tokens || p.budget.USD > 0 && usd > p.budget.USD {
		p.empty = true
		return false
	}
	p.spent = Budget{tokens, usd}
	return true
}

// settle replaces what an item reserved by what it used.
func (p *purse) settle(it *prompt.Item, t *record.Timeline) {
	in, okIn := t.InputTokens()
	out, okOut := t.OutputTokens()
	if !okIn {
		in = it.Input
	}
	if !okOut {
		out = 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spent.Tokens += int64(in + out - it.Input - it.Output)
	p.spent.USD += p.usd(in, out) - p.usd(it.Input, it.Output)
}

// time pays for the hardware.
func (p *purse) time(seconds float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spent.USD += p.price.USDPerHour * seconds / 3600
	p.empty = p.empty || p.budget.USD > 0 && p.spent.USD >= p.budget.USD
}

// state returns what is spent and whether that is all there was.
func (p *purse) state() (spent Budget, empty bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.spent, p.empty
}
