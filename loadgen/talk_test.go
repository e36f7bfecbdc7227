package loadgen

import (
	"errors"
	"testing"
	"time"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/loadgen/prompt"
	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/profiles"
)

// chat is a fake that notes the messages of each request.
type chat struct {
	fake
	said [][]backends.Message
}

func (c *chat) Can() backends.Capabilities { return backends.Capabilities{Chat: true} }

func TestConversations(t *testing.T) {
	for _, c := range []struct {
		name string
		load profiles.Load
	}{
		{"closed loop", closed(3)},
		{"open loop", open(profiles.OpenLoad{Rate: []float64{2}, Arrivals: "constant"})},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := &chat{fake: fake{ttft: 100 * time.Millisecond, itl: 10 * time.Millisecond}}
				f.onRequest = func(r *backends.Request) { f.said = append(f.said, r.Prompt.Messages) }
				p := profile(func(p *profiles.Profile) {
					p.Load = c.load
					p.Workload.Prompt = "conversation"
					p.Workload.Conversation = &profiles.Conversation{Turns: fixed(3), ThinkTime: dur(300 * time.Millisecond)}
				})
				source, err := prompt.New(t.Context(), prompt.Config{Workload: &p.Workload, Client: f, Run: "test"})
				if err != nil {
					t.Fatal(err)
				}
				plan, err := NewPlan(p, 1)
				if err != nil {
					t.Fatal(err)
				}
				g := &Generator{Client: f, Source: source, RunID: "test", newPacer: func() pacer { return newTimerPacer() }}
				r, _, err := g.Run(t.Context(), plan.Rungs[0])
				if err != nil {
					t.Fatal(err)
				}
				turns := map[int]int{}
				answered := map[string]time.Duration{} // an answered turn by what the user said, and when it was
				for i, m := range f.said {
					turns[len(m)]++
					q := f.requests[i]
					if len(m) > 1 {
						before := m[len(m)-3].Content
						at, ok := answered[before]
						if !ok || m[len(m)-2] != (backends.Message{Role: "assistant", Content: "aaaa"}) {
							t.Fatalf("request %d does not follow the answer to %q: %v", i, before, m)
						}
						if think := time.Duration(q.start) - at; think < 300*time.Millisecond || think > 301*time.Millisecond {
							t.Errorf("the user thought %v, want 300 ms", think)
						}
					}
					answered[m[len(m)-1].Content] = time.Duration(q.end)
				}
				if turns[1] < turns[3] || turns[3] < turns[5] || turns[5] == 0 || len(turns) != 3 {
					t.Errorf("requests by messages: %v", turns)
				}
				if r.Requests.Failed != 0 {
					t.Errorf("%+v", r.Requests)
				}
			})
		})
	}
}

func TestRequestsCarryTheirProfile(t *testing.T) {
	bubble(t, func(t *testing.T) {
		temperature, k := 0.5, 7
		f := &fake{ttft: time.Millisecond, tokens: 1}
		var got backends.Request
		f.onRequest = func(r *backends.Request) { got = *r }
		_, err := climb(t, f, profile(func(p *profiles.Profile) {
			p.Workload.OutputTokens = fixed(1)
			p.Workload.Sampling = profiles.Sampling{Temperature: &temperature, TopK: &k, ForceLength: true}
		}), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got.MaxTokens != 1 || !got.ForceLength || *got.Sampling.Temperature != 0.5 || *got.Sampling.TopK != 7 || len(got.Prompt.IDs) != 16 {
			t.Errorf("%+v", got)
		}
	})
}

// full is a request log on a disk that fills up.
type full struct{ room int }

var errFull = errors.New("no space left on device")

func (l *full) Add(*record.Timeline) error {
	if l.room--; l.room < 0 {
		return errFull
	}
	return nil
}

func TestFullDiskEndsTheRung(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{ttft: 100 * time.Millisecond, tokens: 1}
		rungs, err := climb(t, f, profile(func(p *profiles.Profile) { p.Load = closed(1, 2) }),
			func(l *Ladder) { l.Generators[0].Log = &full{room: 50} })
		if !errors.Is(err, errFull) || len(f.requests) > 52 {
			t.Errorf("error %v after %d requests", err, len(f.requests))
		}
		if len(rungs) != 1 || rungs[0].Totals.Completed < 50 {
			t.Errorf("%d rungs kept of what was measured", len(rungs))
		}
	})
}
