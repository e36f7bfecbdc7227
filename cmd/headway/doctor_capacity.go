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

// clientCapacity is how much this client can read on this machine. It is
// flooded by a bundled server that takes no time but shares the processors, so
// that what is read is less than what can be: the processor time that an event
// and a request cost the client gives the most, with all processors its own.
// The bare figures are of net/http with go-sse that only counts events, in the
// same process and in turns: beside them the ratios say what headway's own
// reading costs.
type clientCapacity struct {
	MaxEventsPerS    record.Value `json:"max_events_per_s"`
	MaxRequestsPerS  record.Value `json:"max_requests_per_s"`
	EventCPUUS       record.Value `json:"event_cpu_us"`
	RequestCPUUS     record.Value `json:"request_cpu_us"`
	BareEventCPUUS   record.Value `json:"bare_event_cpu_us"`
	BareRequestCPUUS record.Value `json:"bare_request_cpu_us"`
	EventCPURatio    record.Value `json:"event_cpu_ratio"`   // headway's over the bare one's
	RequestCPURatio  record.Value `json:"request_cpu_ratio"` //
	EventsPerS       record.Value `json:"events_per_s"`      // read, beside the server
	RequestsPerS     record.Value `json:"requests_per_s"`
	BareEventsPerS   record.Value `json:"bare_events_per_s"`
	BareRequestsPerS record.Value `json:"bare_requests_per_s"`
	EventRatio       record.Value `json:"event_ratio"`
	RequestRatio     record.Value `json:"request_ratio"`
	Error            string       `json:"error,omitempty"`
}

const (
	floodUsers  = 8
	floodTime   = 400 * time.Millisecond // of each of the four measurements, twice
	floodTokens = 512                    // of a request for events
	floodModel  = "flood"
	floodLimit  = 10 * time.Second // of one answer
)

// measureCapacity floods the client from a bundled server in its own process.
// headway's client and the bare one take turns, so that both meet the same
// machine.
func measureCapacity(ctx context.Context) clientCapacity {
	server, err := startServer(ctx, map[string]string{"executor": "sim", "law": "ttft=0ms,itl=0ms", "served-model-name": floodModel})
	if err != nil {
		return clientCapacity{Error: err.Error()}
	}
	defer server.close()
	client, err := connect.Open(ctx, connect.Options{URL: server.url, Endpoint: "completions", Timeout: floodLimit})
	if err != nil {
		return clientCapacity{Error: err.Error()}
	}
	defer client.Close()
	bare := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: floodUsers}}
	defer bare.CloseIdleConnections()
	own := func(ctx context.Context, tokens int) (int64, error) { return readOwn(ctx, client, tokens) }
	other := func(ctx context.Context, tokens int) (int64, error) { return readBare(ctx, bare, server.url, tokens) }
	var events, requests, bareEvents, bareRequests rate
	for range 2 {
		for _, turn := range []struct {
			into   *rate
			read   reader
			tokens int
			events bool
		}{{&events, own, floodTokens, true}, {&bareEvents, other, floodTokens, true}, {&requests, own, 1, false}, {&bareRequests, other, 1, false}} {
			if err := turn.into.flood(ctx, turn.read, turn.tokens, turn.events); err != nil {
				return clientCapacity{Error: err.Error()}
			}
		}
	}
	return clientCapacity{
		MaxEventsPerS: events.most(), EventCPUUS: events.cost(), BareEventCPUUS: bareEvents.cost(), EventCPURatio: over(events.cost(), bareEvents.cost()),
		MaxRequestsPerS: requests.most(), RequestCPUUS: requests.cost(), BareRequestCPUUS: bareRequests.cost(), RequestCPURatio: over(requests.cost(), bareRequests.cost()),
		EventsPerS: events.perS(), BareEventsPerS: bareEvents.perS(), EventRatio: over(events.perS(), bareEvents.perS()),
		RequestsPerS: requests.perS(), BareRequestsPerS: bareRequests.perS(), RequestRatio: over(requests.perS(), bareRequests.perS()),
	}
}

// reader reads one answer of so many tokens and returns its events.
type reader func(ctx context.Context, tokens int) (events int64, err error)

// rate counts what was read in a time, and in which processor time of this
// process.
type rate struct {
	count int64
	took  time.Duration
	cpu   record.Value // seconds
}

// flood lets users read one answer after the other for floodTime, and counts
// the events, or the answers.
func (r *rate) flood(ctx context.Context, read reader, tokens int, events bool) error {
	var count atomic.Int64
	var users sync.WaitGroup
	errs := make(chan error, floodUsers)
	health := record.StartHealth()
	start := clock.Now()
	for range floodUsers {
		users.Go(func() {
			for clock.Now()-start < int64(floodTime) {
				n, err := read(ctx, tokens)
				if err != nil {
					errs <- err
					return
				}
				if !events {
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

// most is how much a second all processors can read when they do nothing else.
func (r rate) most() record.Value {
	return over(record.Known(1e6*float64(runtime.GOMAXPROCS(0))), r.cost())
}

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
