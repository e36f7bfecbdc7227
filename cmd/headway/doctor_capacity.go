package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tmaxmax/go-sse"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/clock"
	"github.com/headway-bench/headway/backends/connect"
	"github.com/headway-bench/headway/loadgen/record"
)

// clientCapacity is how much this client can read on this machine.
type clientCapacity struct {
	Events   readCapacity `json:"events"`         // that come one by one, as from a server that computes
	Flooded  readCapacity `json:"flooded_events"` // that come as fast as they can, many in one read
	Requests readCapacity `json:"requests"`       // of one token
	Error    string       `json:"error,omitempty"`
}

// readCapacity is what one kind of reading takes. The bundled server that is
// read shares the processors, so that what is read is less than what can be: the
// processor time that one costs the client gives the most, with all processors
// its own. The bare figures are of net/http with go-sse that only counts
// events, in the same process and in turns: beside them the ratio says what
// headway's own reading costs.
type readCapacity struct {
	MaxPerS   record.Value `json:"max_per_s"`
	CPUUS     record.Value `json:"cpu_us"` // of one
	BareCPUUS record.Value `json:"bare_cpu_us"`
	CPURatio  record.Value `json:"cpu_ratio"`  // headway's over the bare one's
	ReadPerS  record.Value `json:"read_per_s"` // in the measurement
	BarePerS  record.Value `json:"bare_read_per_s"`
}

// flood is a load that is read for a time, twice by each client.
type flood struct {
	into   *readCapacity
	law    string // of the bundled server
	users  int
	tokens int  // of a request
	events bool // are counted, and not requests
}

const (
	floodTime  = 400 * time.Millisecond
	floodLimit = 10 * time.Second // of one answer
	floodModel = "flood"
)

// measureCapacity reads from bundled servers, each a process of its own.
// headway's client and the bare one take turns, so that both meet the same
// machine.
func measureCapacity(ctx context.Context) clientCapacity {
	c := clientCapacity{}
	for _, f := range []flood{
		{&c.Events, "ttft=5ms,itl=5ms", 100, 64, true},
		{&c.Flooded, "ttft=0ms,itl=0ms", 8, 512, true},
		{&c.Requests, "ttft=0ms,itl=0ms", 8, 1, false},
	} {
		if err := f.measure(ctx); err != nil {
			c.Error = err.Error()
		}
	}
	return c
}

// measure starts a server and lets both clients read it.
func (f flood) measure(ctx context.Context) error {
	server, err := startServer(ctx, map[string]string{"executor": "sim", "law": f.law, "served-model-name": floodModel})
	if err != nil {
		return err
	}
	defer server.close()
	client, err := connect.Open(ctx, connect.Options{URL: server.url, Endpoint: "completions", Timeout: floodLimit})
	if err != nil {
		return err
	}
	defer client.Close()
	bare := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: f.users}}
	defer bare.CloseIdleConnections()
	var own, other rate
	for range 2 {
		if err := f.read(ctx, &own, func(ctx context.Context) (int64, error) { return readOwn(ctx, client, f.tokens) }); err != nil {
			return err
		}
		if err := f.read(ctx, &other, func(ctx context.Context) (int64, error) { return readBare(ctx, bare, server.url, f.tokens) }); err != nil {
			return err
		}
	}
	*f.into = readCapacity{MaxPerS: over(record.Known(1e6*float64(runtime.GOMAXPROCS(0))), own.cost()), CPUUS: own.cost(), BareCPUUS: other.cost(),
		CPURatio: over(own.cost(), other.cost()), ReadPerS: own.perS(), BarePerS: other.perS()}
	return nil
}

// rate counts what was read in a time, and in which processor time of this
// process.
type rate struct {
	count int64
	took  time.Duration
	cpu   record.Value // seconds
}

// read lets the users read one answer after the other for floodTime, each of
// which returns its events, and adds to what a client has read.
func (f flood) read(ctx context.Context, r *rate, answer func(context.Context) (events int64, err error)) error {
	var count atomic.Int64
	var users sync.WaitGroup
	errs := make(chan error, f.users)
	health := record.StartHealth()
	start := clock.Now()
	for range f.users {
		users.Go(func() {
			for clock.Now()-start < int64(floodTime) {
				n, err := answer(ctx)
				if err != nil {
					errs <- err
					return
				}
				if !f.events {
					n = 1
				}
				count.Add(n)
			}
		})
	}
	users.Wait()
	r.count += count.Load()
	took := time.Duration(clock.Now() - start)
	r.took += took
	cpu := health.Stop().CPURatio.Scale(took.Seconds() * float64(runtime.GOMAXPROCS(0)))
	if before, ok := r.cpu.Float(); ok && cpu.OK() {
		cpu = record.Known(before + cpu.Or(0))
	}
	r.cpu = cpu
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

// perS is how much was read a second.
func (r rate) perS() record.Value { return record.Known(float64(r.count) / r.took.Seconds()) }

// cost is the processor time of one of what was read, in microseconds.
func (r rate) cost() record.Value { return r.cpu.Scale(1e6 / float64(r.count)) }

// over is a in parts of b.
func over(a, b record.Value) record.Value {
	n, ok := b.Float()
	if !ok {
		return record.Value{}
	}
	return a.Scale(1 / n)
}

// readOwn reads an answer as a run does. The bundled server sends each token
// in an event of its own.
func readOwn(ctx context.Context, client backends.Client, tokens int) (int64, error) {
	t := record.NewTimeline()
	defer t.Release()
	t.Reset("doctor", clock.Now(), tokens)
	t.Finish(client.Stream(ctx, &backends.Request{ID: t.ID, Prompt: backends.Prompt{IDs: []int32{7}}, MaxTokens: tokens, ForceLength: true}, t))
	if !t.Good() {
		return 0, fmt.Errorf("the flood of the bundled server: %s: %s", t.Class(), t.Outcome.Err)
	}
	return int64(t.TokensSoFar()), nil
}

// readBare reads an answer with net/http and go-sse, and does nothing with it.
func readBare(ctx context.Context, client *http.Client, url string, tokens int) (int64, error) {
	body := fmt.Appendf(nil, `{"model":%q,"prompt":[7],"max_tokens":%d,"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`, floodModel, tokens)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/completions", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	events := int64(0)
	for event, err := range sse.Read(resp.Body, nil) {
		if err != nil {
			return 0, err
		}
		if event.Data != "[DONE]" {
			events++
		}
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return events, err
}
