package connect_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/headway-bench/headway/backends/clock"
	"github.com/headway-bench/headway/backends/connect"
	"github.com/headway-bench/headway/backends/internal/wiretest"
	"github.com/headway-bench/headway/backends/tokenizer"
	"github.com/headway-bench/headway/loadgen"
	"github.com/headway-bench/headway/loadgen/prompt"
	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/profiles"
)

// trial is a ladder against a server that answers each request by a rule.
type trial struct {
	dialect, endpoint string // "" for vllm
	input             int    // tokens of the prompt; 0 for 8
	asked             int    // output tokens; 0 for 1
	answer            func(asked) script
	edit              func(*profiles.Profile) // sets the load
	// ours makes the prompts and counts the texts of answers, theirs is behind
	// the server's tokenizer route; nil where there is none.
	ours, theirs *tokenizer.Tokenizer
}

// asked is one request as the server saw it, in times of package clock.
type asked struct {
	id          string
	rung, index int // as the id says
	body        []byte
	at          int64 // it had been read
	answered    int64 // the last of the answer was about to be written; in no time for one that hangs
	gaveUp      bool  // the client closed the connection of an answer that hangs
}

// tried is what the rungs of a trial say, and what its server saw.
type tried struct {
	record.Rung // the first
	rungs       []record.Rung
	notes       []loadgen.Note
	plan        *loadgen.Plan
	lines       []record.RequestRecord
	asked       []asked // in the order of arrival
}

// run climbs from the raw bytes of a socket to the rungs' results.
func (x trial) run(t *testing.T) tried {
	t.Helper()
	got, err := x.try(t)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// try is run, and returns the error that kept the load from being offered.
func (x trial) try(t *testing.T) (tried, error) {
	t.Helper()
	s := &trialServer{t: t, x: x, reported: make(chan struct{}, 1<<16), over: make(chan struct{})}
	s.arrived.L = &s.mu
	server := wiretest.Serve(t, s.serve)
	client, err := connect.Open(t.Context(), connect.Options{URL: server.URL, Dialect: cmp.Or(x.dialect, "vllm"), Endpoint: x.endpoint, Model: "m", UserStamps: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	t.Cleanup(s.end)
	got, err := x.offer(t, reporting{client, s.reported, new(sync.Map)})
	s.hanging.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.asked {
		got.asked = append(got.asked, *a)
	}
	return got, err
}

// offer climbs the ladder.
func (x trial) offer(t *testing.T, client reporting) (got tried, err error) {
	t.Helper()
	fixed := func(n int) profiles.Length { return profiles.Length{Kind: "fixed", Value: n} }
	p := &profiles.Profile{
		Workload: profiles.Workload{InputTokens: fixed(cmp.Or(x.input, 8)), OutputTokens: fixed(cmp.Or(x.asked, 1)), Prompt: "text"},
		Stage:    profiles.Stage{Drain: profiles.Duration(time.Minute), Repeats: 1, Timeout: profiles.Duration(time.Minute)},
	}
	x.edit(p)
	source, err := prompt.New(t.Context(), prompt.Config{Workload: &p.Workload, Client: client, Tokenizer: x.ours, Run: "r"})
	if err != nil {
		return got, err
	}
	if got.plan, err = loadgen.NewPlan(p, 1); err != nil {
		return got, err
	}
	var log bytes.Buffer
	g := &loadgen.Generator{Client: client, Source: source, Log: record.NewRequestLog(&log, true), RunID: "run"}
	if x.ours != nil {
		g.Count = func(text []byte) int { return x.ours.Count(string(text), false) }
	}
	ladder := loadgen.Ladder{
		Plan: got.plan, Generators: []*loadgen.Generator{g},
		OnRung: func(_ int, r record.Rung, _ record.Histograms) error {
			got.rungs = append(got.rungs, r)
			return nil
		},
		OnNote: func(n loadgen.Note) { got.notes = append(got.notes, n) },
	}
	if err := ladder.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	got.Rung = got.rungs[0]
	for line, err := range record.ReadRequests(&log) {
		if err != nil {
			t.Fatal(err)
		}
		got.lines = append(got.lines, line)
	}
	return got, nil
}

// trialServer is the server of a trial.
type trialServer struct {
	t        *testing.T
	x        trial
	reported chan struct{} // the client has handed an event on
	over     chan struct{}

	mu      sync.Mutex
	asked   []*asked
	arrived sync.Cond // one more has, or the test has ended
	ended   bool
	hanging sync.WaitGroup // answers whose connection the client is to close
}

// end lets go of every request that still waits.
func (s *trialServer) end() {
	close(s.over)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.arrived.Broadcast()
}

// serve answers one request.
func (s *trialServer) serve(c *wiretest.Conn) bool {
	if !generates(c.Request) {
		page := about(c.Request)
		if s.x.theirs != nil && c.Request.URL.Path == "/tokenize" {
			ids, err := json.Marshal(map[string]any{"tokens": read(s.t, c.Body).ids(s.t, s.x.theirs)})
			if err != nil {
				s.t.Error(err)
			}
			page = wiretest.Plain(200, "application/json", string(ids))
		}
		_, err := io.WriteString(c, page)
		return err == nil
	}
	a := &asked{id: c.Request.Header.Get("X-Request-Id"), body: c.Body, at: clock.Now(), answered: math.MaxInt64}
	if _, err := fmt.Sscanf(a.id, "run-%d-%d", &a.rung, &a.index); err != nil {
		s.t.Errorf("request id %q: %v", a.id, err)
	}
	s.mu.Lock()
	s.asked = append(s.asked, a)
	s.arrived.Broadcast()
	s.mu.Unlock()
	answer := s.x.answer(*a)
	s.mu.Lock()
	for len(s.asked) < answer.together && !s.ended {
		s.arrived.Wait()
	}
	s.mu.Unlock()
	return s.play(c, a, answer)
}

// play writes the answer and says whether the connection is kept.
func (s *trialServer) play(c *wiretest.Conn, a *asked, answer script) bool {
	for i, p := range answer.pieces {
		for until := clock.Now() + int64(answer.works[i]); clock.Now() < until; {
			<-time.After(time.Duration(until - clock.Now()))
		}
		if i == len(answer.pieces)-1 {
			s.mu.Lock()
			a.answered = clock.Now()
			s.mu.Unlock()
		}
		if _, err := io.WriteString(c, p.bytes); err != nil {
			return false
		}
		for range p.events {
			select {
			case <-s.reported:
			case <-s.over:
				return false
			}
		}
	}
	if !answer.hangs {
		return !answer.closes
	}
	s.hanging.Add(1)
	defer s.hanging.Done()
	_, err := c.Read(make([]byte, 1)) // until the client closes the connection
	s.mu.Lock()
	a.gaveUp = err != nil
	s.mu.Unlock()
	return false
}
