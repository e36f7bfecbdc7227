package prompt

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/tokenizer"
	"github.com/headway-bench/headway/loadgen/internal/draw"
	"github.com/headway-bench/headway/profiles"
)

// Config says what a Source makes prompts of.
type Config struct {
	Workload *profiles.Workload
	// Client is the target: what it takes decides the form of the prompts, and
	// its tokenizer route counts them.
	Client backends.Client
	// Tokenizer counts texts instead of the target's route; nil when there is
	// none.
	Tokenizer *tokenizer.Tokenizer
	// Run tells runs apart, so that no prompt of this run equals one of another.
	Run string
}

// Source makes the prompts of one run against one target. It is safe for
// concurrent use.
type Source struct {
	cfg  Config
	chat bool
	form Form
	salt uint64
	pool pool
	rows []row
	// scripts are the conversations of a file.
	scripts []script
	sizes   sizes        // by usage: what the server told so far
	checks  atomic.Int64 // prompts still to be counted by the server
}

// Form is how prompts get their length.
type Form string

// The forms.
const (
	ByIDs       Form = "token ids"
	ByTokenizer Form = "text counted by the tokenizer"
	ByServer    Form = "text counted by the server"
	ByUsage     Form = "text sized by the server's usage (estimated)"
	ByDataset   Form = "data set"
)

// New looks at the target and the workload, reads data sets and sizes prompts
// once. Its errors say which field of the workload asks for the impossible.
func New(ctx context.Context, c Config) (*Source, error) {
	s := &Source{cfg: c, chat: c.Client.Can().Chat, salt: saltOf(c.Run, c.Workload.Seed)}
	if c.Workload.Dataset != nil {
		rows, err := readDataset(*c.Workload.Dataset)
		if err != nil {
			return nil, err
		}
		s.rows, s.form = rows, ByDataset
		if c.Workload.OutputTokens.Kind == profiles.LengthDataset {
			return s, answered(rows)
		}
		return s, nil
	}
	if v := c.Workload.Conversation; v != nil && v.File != "" {
		scripts, err := readScripts(*v)
		if err != nil {
			return nil, err
		}
		s.scripts = scripts
	}
	if err := s.choose(ctx); err != nil {
		return nil, err
	}
	return s, s.fits()
}

// choose decides how lengths are made and calibrates it.
func (s *Source) choose(ctx context.Context) error {
	can := s.cfg.Client.Can()
	mode := s.cfg.Workload.Prompt
	if mode == "token-ids" && !can.TokenIDs {
		return errors.New("workload.prompt: the target's route takes no token ids; use text, or --endpoint completions")
	}
	form, count, err := s.counter(ctx)
	if err != nil {
		return err
	}
	s.form = form
	switch {
	case can.TokenIDs && !s.Talks() && (mode == "" || mode == "auto" || mode == "token-ids"):
		s.form = ByIDs
		s.pool, err = idPool(ctx, s.chat, count)
	case count == nil:
		s.pool = wordPool()
	default:
		s.pool, err = textPool(ctx, s.chat, count)
	}
	s.checks.Store(serverChecks)
	if form == ByServer && !s.pool.additive {
		s.checks.Store(math.MaxInt64)
	}
	return err
}

// serverChecks is the number of prompts that the server's tokenizer route
// counts again; more would be load of its own. Where the units of texts do not
// add up it counts every one.
const serverChecks = 16

// counter returns the ids of a prompt as the target will see them, template
// and special tokens included.
type counter func(ctx context.Context, p backends.Prompt) ([]int32, error)

// counter returns the best counter there is and the form that goes with it: the
// model's tokenizer, else the server's route, else none.
func (s *Source) counter(ctx context.Context) (Form, counter, error) {
	if t := s.cfg.Tokenizer; t != nil {
		count := func(_ context.Context, p backends.Prompt) ([]int32, error) { return encode(t, p) }
		_, err := count(ctx, s.prompt("a"))
		if err == nil {
			return ByTokenizer, count, nil
		}
		if !errors.Is(err, tokenizer.ErrNoTemplate) {
			return "", nil, fmt.Errorf("the tokenizer: %w", err)
		}
	}
	if !s.cfg.Client.Can().Tokenize {
		return ByUsage, nil, nil
	}
	if _, err := s.cfg.Client.Tokenize(ctx, s.prompt("a")); err != nil {
		if errors.Is(err, backends.ErrNoTokenizer) {
			return ByUsage, nil, nil
		}
		return "", nil, fmt.Errorf("the server's tokenizer route: %w", err)
	}
	return ByServer, s.cfg.Client.Tokenize, nil
}

// encode is the counter of a tokenizer: BOS once, and the chat template where
// the prompt is a chat.
func encode(t *tokenizer.Tokenizer, p backends.Prompt) ([]int32, error) {
	if p.Messages == nil {
		return t.Encode(p.Text, true), nil
	}
	turns := make([]tokenizer.Message, len(p.Messages))
	for i, m := range p.Messages {
		turns[i] = tokenizer.Message{Role: m.Role, Content: m.Content}
	}
	return t.Chat(turns)
}

// prompt wraps a text in the form that the target's route takes.
func (s *Source) prompt(text string) backends.Prompt { return wrap(text, s.chat) }

func wrap(text string, chat bool) backends.Prompt {
	if chat {
		return backends.Prompt{Messages: []backends.Message{{Role: "user", Content: text}}}
	}
	return backends.Prompt{Text: text}
}

// Form says how prompts get their length.
func (s *Source) Form() Form { return s.form }

// Counted says whether a tokenizer, the model's or the server's, told lengths
// and ids.
func (s *Source) Counted() bool { return s.pool.count != nil }

// Overhead is the number of tokens that template and special tokens add to
// every prompt, as far as known.
func (s *Source) Overhead() int {
	if s.pool.lead == "" {
		return 0
	}
	if s.form == ByUsage {
		return max(0, s.sizes.overhead()-1)
	}
	return max(0, s.pool.overhead-1)
}

// fits checks that the shortest prompt holds the overhead, the shared prefix
// and one token of its own.
func (s *Source) fits() error {
	w := s.cfg.Workload
	least := w.InputTokens.Min
	if w.InputTokens.Kind == "fixed" {
		least = w.InputTokens.Value
	}
	if least <= 0 {
		return nil
	}
	return s.fit(least)
}

func (s *Source) fit(input int) error {
	template, prefix := s.Overhead(), s.cfg.Workload.Prefix.SharedTokens
	if need := template + prefix + 1; input < need {
		field, remedy := "workload.input_tokens", fmt.Sprintf("ask for %d or more", need)
		if s.cfg.Workload.InputTokens.Kind == profiles.LengthTrace {
			field, remedy = "load.open.trace", fmt.Sprintf("take requests of %d or more", need)
		}
		return fmt.Errorf("%s: %d tokens cannot hold %d of template and special tokens, %d of shared prefix "+
			"and 1 of their own; %s, or use token ids on the completions route (--endpoint completions)", field, input, template, prefix, remedy)
	}
	return nil
}

// fill makes item k.
func (s *Source) fill(ctx context.Context, it *Item, seed uint64, k int64, l Lengths) error {
	it.Output = l.Output
	if s.form == ByDataset {
		s.fromRow(it, seed, k)
		return nil
	}
	if err := s.fit(l.Input); err != nil {
		return err
	}
	it.Input, it.Exact = l.Input, s.form != ByUsage
	it.units = max(0, l.Input-s.pool.overhead)
	if s.form == ByUsage {
		it.units = s.sizes.count(l.Input)
	}
	key := draw.Mix(seed, streamTokens, s.salt, uint64(k))
	if s.form == ByIDs {
		it.Prompt.IDs = s.pool.ids(s.origin(key, l.Blocks), it.units)
		return nil
	}
	it.Prompt = s.text(key, l.Blocks, it.units)
	if s.form == ByTokenizer || s.form == ByServer && s.checks.Add(-1) >= 0 {
		return s.exact(ctx, it, key, l.Blocks)
	}
	return nil
}

// text makes the text of n units that a key names. Fewer units of the same key
// are the beginning of more.
func (s *Source) text(key uint64, blocks []int64, n int) backends.Prompt {
	return s.prompt(s.pool.text(s.origin(key, blocks), n))
}

// blockTokens is the length of a trace's named blocks (Mooncake).
const blockTokens = 512

// origin is where the units of a prompt come from: the blocks that a trace
// names, or the prefix of the prompt's group, and after them the key.
func (s *Source) origin(key uint64, blocks []int64) origin {
	rest := draw.New(key)
	if len(blocks) > 0 {
		at, block := -1, rest
		return func(i int) *draw.Source {
			b := i / blockTokens
			if b >= len(blocks) {
				return rest
			}
			if b != at {
				at, block = b, draw.New(s.salt, streamBlocks, uint64(blocks[b]))
			}
			return block
		}
	}
	p := s.cfg.Workload.Prefix
	if p.SharedTokens <= 0 {
		return own(rest)
	}
	group := draw.New(key, streamPrefix).IntN(max(1, p.Groups))
	prefix := draw.New(s.salt, streamPrefix, uint64(group))
	return func(i int) *draw.Source {
		if i < p.SharedTokens {
			return prefix
		}
		return rest
	}
}

// exact counts a text prompt and lengthens or shortens it until its length is
// right; where no length of one text is, it tries others.
func (s *Source) exact(ctx context.Context, it *Item, key uint64, blocks []int64) error {
	nearest := 0
	for try := range uint64(8) {
		n := max(0, it.Input-s.pool.overhead)
		for range 12 {
			if try > 0 || n != it.units {
				it.Prompt, it.units = s.text(retry(key, try), blocks, n), n
			}
			ids, err := s.pool.count(ctx, it.Prompt)
			if err != nil {
				return fmt.Errorf("counting a prompt: %w", err)
			}
			got := len(ids)
			if got == it.Input {
				return nil
			}
			if distance(got, it.Input) < distance(nearest, it.Input) {
				nearest = got
			}
			n = max(0, n+it.Input-got)
		}
	}
	return fmt.Errorf("workload.input_tokens: no text of exactly %d tokens found, the nearest has %d; "+
		"use --prompt token-ids", it.Input, nearest)
}

// retry names another text for the same request, the same one at first.
func retry(key, try uint64) uint64 {
	if try == 0 {
		return key
	}
	return draw.Mix(key, try)
}

func distance(a, b int) int { return max(a-b, b-a) }

// Learn tells how many prompt tokens the server counted for an item. Lengths
// that are estimated follow it from the next prompt made on.
func (s *Source) Learn(it *Item, promptTokens int) {
	if s.form != ByUsage || promptTokens <= 0 || it.Input <= 0 {
		return
	}
	s.sizes.learn(it.units, promptTokens)
}

// saltOf makes a number of the run's name and the workload's seed.
func saltOf(run string, seed int64) uint64 {
	keys := make([]uint64, 0, len(run))
	for _, b := range []byte(run) {
		keys = append(keys, uint64(b))
	}
	return draw.Mix(uint64(seed), keys...)
}
