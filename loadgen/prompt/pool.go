package prompt

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/headway-bench/headway/loadgen/internal/draw"
)

// pool is what random prompts are made of: units that are one token each,
// wherever they stand.
type pool struct {
	tokens []int32  // of prompts as ids
	words  []string // of prompts as text
	// lead begins every text, so that no unit is the first, which a tokenizer
	// may cut differently; "" for ids.
	lead     string
	overhead int  // tokens of a prompt beyond its units: template, special tokens, lead
	additive bool // counts of texts were always overhead and units
	count    counter
}

// origin gives the random numbers that unit i of a prompt is drawn from. It is
// asked in the order of the units.
type origin func(i int) *draw.Source

// own is the origin of a prompt that shares nothing.
func own(d *draw.Source) origin { return func(int) *draw.Source { return d } }

// ids makes a prompt of n ids.
func (p *pool) ids(from origin, n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = p.tokens[from(i).IntN(len(p.tokens))]
	}
	return ids
}

// text makes a prompt of the lead and n words.
func (p *pool) text(from origin, n int) string {
	var b strings.Builder
	b.Grow(6*n + len(p.lead))
	b.WriteString(p.lead)
	for i := range n {
		b.WriteString(p.words[from(i).IntN(len(p.words))])
	}
	return b.String()
}

// FirstID and LastID bound the ids taken when nobody can say which are safe,
// which is when there is neither --tokenizer nor a tokenizer route. Vocabularies
// begin with up to 1,000 special tokens (Mistral's Tekken) or the bytes (SentencePiece);
// those in use have 32,000 ids or more, and models made for tests about 2,000.
// A thousand ids tell any two prompts apart within their first tokens.
const (
	FirstID = 1_000
	LastID  = 1_999
)

// idPool lists ids that are ordinary words of the vocabulary: those that the
// counter makes of the word list, without what it adds to every text.
func idPool(ctx context.Context, chat bool, count counter) (pool, error) {
	p := pool{count: count}
	if count == nil {
		for id := int32(FirstID); id <= LastID; id++ {
			p.tokens = append(p.tokens, id)
		}
		return p, nil
	}
	var sets [3]map[int32]bool
	for i, text := range []string{words[0], words[1], strings.Join(words, "")} {
		ids, err := count(ctx, wrap(text, chat))
		if err != nil {
			return p, fmt.Errorf("counting a text: %w", err)
		}
		sets[i] = map[int32]bool{}
		for _, id := range ids {
			sets[i][id] = true
		}
	}
	for id := range sets[2] {
		if !(sets[0][id] && sets[1][id]) {
			p.tokens = append(p.tokens, id)
		}
	}
	if len(p.tokens) < leastUnits {
		return p, fmt.Errorf("the tokenizer makes only %d different tokens of %d words; no prompts can be made of them",
			len(p.tokens), len(words))
	}
	slices.Sort(p.tokens)
	return p, nil
}

// wordPool takes each word for a token, which the server's usage corrects.
func wordPool() pool { return pool{words: words, lead: lead(words), overhead: 1} }

func lead(units []string) string { return strings.TrimSpace(units[0]) }

// textPool finds words, or else letters, that are one token each under the
// counter, and the overhead of a prompt.
func textPool(ctx context.Context, chat bool, count counter) (pool, error) {
	p := pool{count: count}
	length := func(text string) (int, error) {
		ids, err := count(ctx, wrap(text, chat))
		if err != nil {
			return 0, fmt.Errorf("counting a text: %w", err)
		}
		return len(ids), nil
	}
	for _, units := range [][]string{words, letters} {
		p.lead = lead(units)
		base, err := length(p.lead)
		if err != nil {
			return p, err
		}
		if p.words, err = singles(units, p.lead, base, length); err != nil {
			return p, err
		}
		if len(p.words) >= leastUnits {
			p.overhead = base
			p.additive, err = p.adds(length)
			return p, err
		}
	}
	return p, fmt.Errorf("the tokenizer cuts words and letters alike into several tokens; use --prompt token-ids")
}

// adds says whether the counts of random texts are what their units add up to.
func (p *pool) adds(length func(string) (int, error)) (bool, error) {
	d := draw.New(1)
	for range 8 {
		n := 1 + d.IntN(400)
		got, err := length(p.text(own(d), n))
		if err != nil || got != p.overhead+n {
			return false, err
		}
	}
	return true, nil
}

// leastUnits is the least number of different units to make prompts of.
const leastUnits = 10

// singles keeps the units that add one token to a lead of base tokens, twice.
func singles(units []string, lead string, base int, length func(string) (int, error)) ([]string, error) {
	if all, err := length(lead + strings.Join(units, "")); err != nil || all == base+len(units) {
		return units, err
	}
	var out []string
	for _, u := range units {
		n, err := length(lead + u + u)
		if err != nil {
			return nil, err
		}
		if n == base+2 {
			out = append(out, u)
		}
	}
	return out, nil
}
