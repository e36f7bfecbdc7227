package connect_test

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/clock"
	"github.com/headway-bench/headway/backends/connect"
	"github.com/headway-bench/headway/backends/internal/wiretest"
	"github.com/headway-bench/headway/loadgen"
	"github.com/headway-bench/headway/loadgen/prompt"
	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/profiles"
)

// piece is a part of an answer, written in one go. The next one is not written
// before the client has reported the events that this one brings.
type piece struct {
	bytes  string
	events int
}

// script is the answer to one request. The connection closes after it when
// closes says so, and stays open and silent when hangs does.
type script struct {
	pieces []piece
	closes bool
	hangs  bool
	// works is how long the server works on a piece before it writes it.
	works map[int]time.Duration
	// together holds the answer back until so many requests are there.
	together int
}

// framed is a stream of chunks, a piece each, and what ends the body.
func framed(pieces ...piece) script {
	all := []piece{{bytes: wiretest.Head}}
	for _, p := range pieces {
		all = append(all, piece{wiretest.Chunk(p.bytes), p.events})
	}
	return script{pieces: append(all, piece{bytes: wiretest.End})}
}

// slow has the server work on a piece for at least so long.
func (s script) slow(piece int, d time.Duration) script {
	s.works = map[int]time.Duration{piece: d}
	return s
}

// at once is an answer in one piece.
func atOnce(answer string, events int) script { return script{pieces: []piece{{answer, events}}} }

// observed is a rung as its result tells it and as the server saw it.
type observed struct {
	record.Rung
	lines []record.RequestRecord
	heard map[string]heard // of each answer, by the request's id
	wrote [][]int64        // of each request, when each piece was about to be written
	paths []string         // of each request
	most  int              // requests that the server had at once
}

// heard is what a client handed on of an answer.
type heard struct {
	text    string
	outputs int // events that carry output
}

// experiment is one rung against scripted answers, one request after the other.
type experiment struct {
	dialect, endpoint string
	input             int // tokens of the prompt; 0 for 8
	asked             int // output tokens
	scripts           []script
	timeout           time.Duration // of a request; 0 for half a minute
	inFlight          int           // 0 for one
	requests          int           // 0 for one a script
	settle            []record.Asked
	unlogged          bool // no line of a request is kept
	listeners         []net.Listener
	options           func(*connect.Options) // changes how the server is opened
}

// run plays the experiment from the raw bytes of a socket to the rung's result.
func (x experiment) run(t *testing.T) observed {
	t.Helper()
	var mu sync.Mutex
	reported := make(chan struct{}, 1<<16)
	over, gathered := make(chan struct{}), make(chan struct{})
	wrote := make([][]int64, len(x.scripts))
	var paths []string
	number, present, most := 0, 0, 0
	answer := func(c *wiretest.Conn) bool {
		if !generates(c.Request) {
			_, err := io.WriteString(c, about(c.Request))
			return err == nil
		}
		mu.Lock()
		n := number
		number++
		paths = append(paths, c.Request.URL.Path)
		present++
		most = max(most, present)
		mu.Unlock()
		if n >= len(x.scripts) {
			t.Errorf("request %d was not expected", n)
			return false
		}
		if n+1 == x.scripts[n].together {
			close(gathered)
		} else if x.scripts[n].together > 0 {
			<-gathered
		}
		for i, p := range x.scripts[n].pieces {
			if d := x.scripts[n].works[i]; d > 0 {
				<-time.After(d)
			}
			mu.Lock()
			wrote[n] = append(wrote[n], clock.Now())
			if i == len(x.scripts[n].pieces)-1 {
				present-- // the client may ask again before this returns
			}
			mu.Unlock()
			if _, err := io.WriteString(c, p.bytes); err != nil {
				return false
			}
			if i > 0 && p.events == 0 {
				<-time.After(20 * time.Millisecond) // so that the client reads it by itself
			}
			for range p.events {
				select {
				case <-reported:
				case <-over:
					return false
				}
			}
		}
		if x.scripts[n].hangs {
			<-over
		}
		return !x.scripts[n].closes
	}
	o := connect.Options{Dialect: x.dialect, Endpoint: x.endpoint, Model: "m", UserStamps: true}
	if len(x.listeners) == 0 {
		o.URL = wiretest.Serve(t, answer).URL
	}
	for _, l := range x.listeners {
		o.URL = wiretest.ServeOn(t, l, answer).URL
	}
	if x.options != nil {
		x.options(&o)
	}
	client, err := connect.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	t.Cleanup(func() { close(over) })
	listener := reporting{client, reported, new(sync.Map)}
	result := x.offer(t, listener)
	result.heard = map[string]heard{}
	for id, h := range listener.heard.Range {
		result.heard[id.(string)] = h.(heard)
	}
	mu.Lock()
	defer mu.Unlock()
	result.wrote, result.paths, result.most = wrote, paths, most
	if number != len(x.scripts) {
		t.Errorf("the server was asked %d times, want %d", number, len(x.scripts))
	}
	return result
}

// pages are what every server of these tests tells of itself.
var pages = map[string]string{
	"/v1/models":       `{"data":[{"id":"m"}]}`,
	"/v2":              `{"name":"triton","version":"2.51.0"}`,
	"/v2/health/ready": "",
	"/v2/models/m": `{"name":"m","versions":["1"],"platform":"python",
		"inputs":[{"name":"text_input","datatype":"BYTES"},{"name":"max_tokens","datatype":"INT32"}],
		"outputs":[{"name":"text_output","datatype":"BYTES"},{"name":"token_id","datatype":"INT32"},{"name":"sequence_end","datatype":"BOOL"}]}`,
}

// about is the answer to a question about the server.
func about(r *http.Request) string {
	if page, ok := pages[r.URL.Path]; ok {
		return wiretest.Plain(200, "application/json", page)
	}
	return wiretest.Plain(404, "application/json", `{"detail":"Not Found"}`)
}

// generates says whether a request makes tokens.
func generates(r *http.Request) bool {
	for _, end := range []string{"completions", "/messages", "/completion", "/api/chat", "/api/generate", "/generate_stream"} {
		if r.Method != http.MethodGet && strings.HasSuffix(r.URL.Path, end) {
			return true
		}
	}
	return false
}

// offer sends the requests of the rung.
func (x experiment) offer(t *testing.T, client backends.Client) observed {
	t.Helper()
	span := func(d time.Duration) profiles.Duration { return profiles.Duration(d) }
	p := &profiles.Profile{
		Workload: profiles.Workload{
			InputTokens: profiles.Length{Kind: "fixed", Value: cmp.Or(x.input, 8)}, OutputTokens: profiles.Length{Kind: "fixed", Value: x.asked}, Prompt: "text",
		},
		Load:  profiles.Load{Offline: &profiles.OfflineLoad{Requests: cmp.Or(x.requests, len(x.scripts)), MaxInFlight: max(1, x.inFlight)}},
		Stage: profiles.Stage{Drain: span(time.Minute), Repeats: 1, Timeout: span(cmp.Or(x.timeout, 30*time.Second))},
	}
	source, err := prompt.New(t.Context(), prompt.Config{Workload: &p.Workload, Client: client, Run: "r"})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := loadgen.NewPlan(p, 1)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	g := &loadgen.Generator{Client: client, Source: source, RunID: "run", Settle: x.settle}
	if !x.unlogged {
		g.Log = record.NewRequestLog(&log, true)
	}
	rung, _, err := g.Run(t.Context(), plan.Rungs[0])
	if err != nil {
		t.Fatal(err)
	}
	result := observed{Rung: rung}
	for line, err := range record.ReadRequests(&log) {
		if err != nil {
			t.Fatal(err)
		}
		result.lines = append(result.lines, line)
	}
	return result
}

// reporting is a client that says so when it has handed an event on, and keeps
// what it handed on by the requests' ids.
type reporting struct {
	backends.Client
	reported chan<- struct{}
	heard    *sync.Map
}

func (r reporting) Stream(ctx context.Context, q *backends.Request, sink backends.Sink) backends.Outcome {
	s := reportingSink{Sink: sink, reported: r.reported}
	out := r.Client.Stream(ctx, q, &s)
	r.heard.Store(q.ID, heard{string(s.text), s.outputs})
	return out
}

type reportingSink struct {
	backends.Sink
	reported chan<- struct{}
	text     []byte
	outputs  int
}

func (r *reportingSink) Event(e backends.Event) {
	r.text = append(r.text, e.Text...)
	if e.Kind&backends.KindOutput != 0 {
		r.outputs++
	}
	r.Sink.Event(e)
	r.reported <- struct{}{}
}
