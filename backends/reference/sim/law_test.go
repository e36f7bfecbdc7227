package sim

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/headway-bench/headway/backends/reference"
	"github.com/headway-bench/headway/backends/tokenizer"
)

func TestParseLaw(t *testing.T) {
	ms := float64(time.Millisecond)
	for _, tt := range []struct {
		text string
		want Law
	}{
		{"slots=16,ttft=50ms,itl=10ms+0.1ms*n", Law{16, Linear{50 * ms, 0}, Linear{10 * ms, 0.1 * ms}}},
		{"ttft=0s,itl=0.5ms*n", Law{0, Linear{}, Linear{0, 0.5 * ms}}},
		{" itl=1ms*n + 2ms, ttft=20ms ", Law{0, Linear{20 * ms, 0}, Linear{2 * ms, ms}}},
	} {
		got, err := ParseLaw(tt.text)
		if err != nil || got != tt.want {
			t.Errorf("ParseLaw(%q) = %+v, %v, want %+v", tt.text, got, err, tt.want)
		}
		if again, err := ParseLaw(got.String()); err != nil || again != got {
			t.Errorf("%q printed as %q, which reads as %+v, %v", tt.text, got, again, err)
		}
	}
	for text, wrong := range map[string]string{
		"":                                 "is not name=value",
		"ttft=50ms":                        "itl is missing",
		"itl=1ms":                          "ttft is missing",
		"slots=0,ttft=1ms,itl=1ms":         "slots must be",
		"slots=2.5,ttft=1ms,itl=1ms":       "slots must be",
		"ttft=50,itl=1ms":                  "no duration with a unit",
		"ttft=1ms,itl=1ms*m":               "no duration with a unit",
		"ttft=-1ms,itl=1ms":                "negative",
		"ttft=2h,itl=1ms":                  "more than an hour",
		"ttft=1ms,itl=1ms+2ms":             "two terms of one kind",
		"ttft=1ms,itl=1ms,itl=2ms":         "given twice",
		"ttft=1ms,itl=1ms,slotz=3":         "unknown name",
		"slots=3,,ttft=1ms,itl=1ms":        "is not name=value",
		"slots=3 ttft=1ms,itl=1ms":         "slots must be",
		"ttft=1ms,itl=1ms*n+1ms*n":         "two terms of one kind",
		"ttft=1ms,itl=" + "9999999999999h": "no duration with a unit",
	} {
		if _, err := ParseLaw(text); err == nil || !strings.Contains(err.Error(), wrong) {
			t.Errorf("ParseLaw(%q) gave %v, want an error with %q", text, err, wrong)
		}
	}
}

func FuzzParseLaw(f *testing.F) {
	f.Add("slots=16,ttft=50ms,itl=10ms+0.1ms*n")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := ParseLaw(text)
		if err != nil {
			return
		}
		if l.Slots < 0 || l.TTFT.At(5) < 0 || l.ITL.At(5) < 0 {
			t.Fatalf("%q gave %+v", text, l)
		}
	})
}

// model is the shape that tests pretend.
func model() reference.ModelInfo {
	return reference.ModelInfo{Name: "m", VocabSize: 4096, MaxModelLen: 4096, KVBytesPerToken: 1}
}

// closedLoop keeps users requests of tokens output tokens in flight for a
// while of virtual time and returns the tokens per second after the first
// half.
func closedLoop(e reference.Executor, slots, users, tokens int) float64 {
	info := e.Info()
	core := reference.NewCore(reference.NewScheduler(reference.SchedulerConfig{
		MaxNumSeqs: slots, KV: reference.KVConfig{Blocks: 1 << 16, BlockSize: 16}, MaxModelLen: info.MaxModelLen,
		Independent: info.Independent, EOS: info.EOS,
	}), e)
	const end = int64(40 * time.Second)
	var id uint64
	var counted int
	var emit func(reference.Token)
	var again int
	add := func(now int64) {
		id++
		core.Add(&reference.Sequence{ID: id, Prompt: make([]int32, 100), MaxTokens: tokens, IgnoreEOS: true}, now, emit)
	}
	emit = func(t reference.Token) {
		if t.At > end/2 && t.At <= end {
			counted++
		}
		if t.Seq.Finish != reference.FinishNone {
			again++
		}
	}
	for i := range users {
		// Arrivals are spread, as no two users start together.
		add(int64(i) * int64(time.Millisecond))
	}
	for {
		if b := core.Begin(0); b != nil {
			core.Complete(b, e.Step(context.Background(), b), b.At, emit)
		}
		at, ok := core.Wake()
		if !ok || at > end {
			return float64(counted) / (float64(end) / 2 / 1e9)
		}
		core.Advance(at, 1, emit)
		for ; again > 0; again-- {
			add(at)
		}
	}
}

// TestKneeIsWhereTheLawSays: with 12 slots throughput grows in proportion to
// the users up to 12 and not beyond; the value of both branches is arithmetic.
func TestKneeIsWhereTheLawSays(t *testing.T) {
	const tokens = 50
	law := Law{Slots: 12, TTFT: Linear{Base: 20e6}, ITL: Linear{Base: 5e6}}
	service := 0.020 + (tokens-1)*0.005
	for _, users := range []int{1, 2, 4, 8, 11, 12, 13, 16, 32, 64} {
		want := float64(min(users, 12)) * tokens / service
		got := closedLoop(NewLaw(law, model()), law.Slots, users, tokens)
		if math.Abs(got-want) > 0.01*want {
			t.Errorf("%d users: %.1f tokens/s, want %.1f", users, got, want)
		}
	}
}

// TestLoadSlowsEverySequence: ITL grows with the running sequences, so that
// throughput of n users is n tokens in each 5 ms + 0.5 ms * n.
func TestLoadSlowsEverySequence(t *testing.T) {
	const tokens = 200
	law := Law{Slots: 32, TTFT: Linear{Base: 20e6}, ITL: Linear{Base: 5e6, PerSeq: 0.5e6}}
	for _, users := range []int{1, 8, 32, 48} {
		n := float64(min(users, 32))
		want := n * tokens / (0.020 + (tokens-1)*(0.005+0.0005*n))
		got := closedLoop(NewLaw(law, model()), law.Slots, users, tokens)
		if math.Abs(got-want) > 0.015*want {
			t.Errorf("%d users: %.1f tokens/s, want %.1f", users, got, want)
		}
	}
}

// TestAnswersInATokenizersWords: every token of an answer has text of its own,
// and none ends it.
func TestAnswersInATokenizersWords(t *testing.T) {
	for _, name := range []string{"llama-2", "llama-3"} {
		tok, err := tokenizer.Load("../../../testdata/tokenizers/" + name)
		if err != nil {
			t.Fatal(err)
		}
		shape, err := Model("llama-3.1-8b")
		if err == nil {
			shape, err = shape.Speaking(tok)
		}
		if err != nil {
			t.Fatal(err)
		}
		e := NewLaw(Law{}, shape.Info(name))
		if got := e.Info(); got.VocabSize != tok.VocabSize() || len(got.EOS) != 1 || got.BOS < 0 {
			t.Errorf("%s: %+v", name, got)
		}
		distinct := map[int32]bool{}
		for i := range 1000 {
			sl := reference.Slice{Want: true, Output: i, Sampling: reference.SamplingParams{Logprobs: 3}}
			if err := e.Step(t.Context(), &reference.Batch{Slices: []*reference.Slice{&sl}}); err != nil {
				t.Fatal(err)
			}
			for _, id := range []int32{sl.Next, sl.Top[1].ID, sl.Top[2].ID} {
				if text := tok.Decode([]int32{id}); len(text) == 0 || !utf8.Valid(text) || slices.Contains(e.Info().EOS, id) {
					t.Errorf("%s: token %d is %q", name, id, text)
				}
			}
			distinct[sl.Next] = true
		}
		if len(distinct) < 300 {
			t.Errorf("%s: 1000 tokens had only %d different ids", name, len(distinct))
		}
	}
}

func TestAnswersRepeatThemselves(t *testing.T) {
	shape, err := Model("llama-3.1-8b")
	if err != nil {
		t.Fatal(err)
	}
	e := NewLaw(Law{}, shape.Info("llama-3.1-8b"))
	token := func(seed uint64, output int) int32 {
		sl := reference.Slice{Want: true, Output: output, Sampling: reference.SamplingParams{Seed: seed}}
		if err := e.Step(context.Background(), &reference.Batch{Slices: []*reference.Slice{&sl}}); err != nil {
			t.Fatal(err)
		}
		return sl.Next
	}
	distinct := map[int32]bool{}
	for i := range 1000 {
		first, again := token(1, i), token(1, i)
		if first != again {
			t.Fatal("the same seed and position gave two tokens")
		}
		distinct[first] = true
	}
	if len(distinct) < 500 {
		t.Errorf("1000 tokens had only %d different ids", len(distinct))
	}
	if token(1, 5) == token(2, 5) && token(1, 6) == token(2, 6) {
		t.Error("different seeds gave the same tokens")
	}
}
