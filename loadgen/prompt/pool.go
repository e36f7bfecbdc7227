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
	tokens   []int32  // of prompts as ids
	words    []string // of prompts as text
	overhead int      // tokens that template and special tokens add
	count    counter
}

// shared is the part of a prompt that its group has in common.
type shared struct {
	units int
	draw  *draw.Source
	seed  uint64
}

// restart makes the next prompt begin with the same units again.
func (s shared) restart() {
	if s.draw != nil {
		s.draw.Seed(s.seed)
	}
}

// ids makes a prompt of n ids, the shared ones first.
func (p *pool) ids(prefix shared, own *draw.Source, n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		d := own
		if i < prefix.units {
			d = prefix.draw
		}
		ids[i] = p.tokens[d.IntN(len(p.tokens))]
	}
	return ids
}

// text makes a prompt of n words, the shared ones first.
func (p *pool) text(prefix shared, own *draw.Source, n int) string {
	var b strings.Builder
	b.Grow(6 * n)
	for i := range n {
		d := own
		if i < prefix.units {
			d = prefix.draw
		}
		b.WriteString(p.words[d.IntN(len(p.words))])
	}
	return b.String()
}

// The ids taken when nobody can say which are safe: past the bytes and the
// special tokens that vocabularies begin with, within the smallest one in use
// (32,000).
const firstID, lastID = 1_000, 31_000

// idPool lists ids that are ordinary words of the vocabulary: those that the
// counter makes of the word list, without what it adds to every text.
func idPool(ctx context.Context, chat bool, count counter) (pool, error) {
	p := pool{count: count}
	if count == nil {
		for id := int32(firstID); id < lastID; id++ {
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
func wordPool() pool { return pool{words: words} }

// textPool finds words, or else letters, that are one token each under the
// counter, and the overhead of a prompt. Both are seen in prompts of several
// words, since the first word of a text may be cut differently.
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
		lead := units[0] + units[1]
		base, err := length(lead)
		if err != nil {
			return p, err
		}
		joined, err := length(lead + strings.Join(units, ""))
		if err != nil {
			return p, err
		}
		if joined-base == len(units) {
			p.words = units
		} else if p.words, err = singles(units, lead, base, length); err != nil {
			return p, err
		}
		if len(p.words) >= leastUnits {
			ten, err := length(strings.Join(p.words[:leastUnits], ""))
			if err != nil {
				return p, err
			}
			p.overhead = max(0, ten-leastUnits)
			return p, nil
		}
	}
	return p, fmt.Errorf("the tokenizer cuts words and letters alike into several tokens; use --prompt token-ids")
}

// leastUnits is the least number of different units to make prompts of.
const leastUnits = 10

// singles keeps the units that add one token to a lead of base tokens, twice.
func singles(units []string, lead string, base int, length func(string) (int, error)) ([]string, error) {
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
