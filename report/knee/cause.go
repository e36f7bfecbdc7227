package knee

import (
	"fmt"
	"math"
	"slices"

	"github.com/headway-bench/headway/loadgen/record"
)

// findCause names what stops the growth, from the rungs at and beyond the
// knee. Signs that the server was not the limit come first: a knee of the
// client says nothing about the server.
func findCause(l *ladder, f ladderFit) (Cause, []record.Reason) {
	saturated := saturatedRungs(l, f.law.kink)
	if reason, ok := clientFault(l.invalid, f.law.kink); ok {
		return CauseClient, append([]record.Reason{reason}, growth(f, saturated)...)
	}
	evidence := []record.Reason{}
	for _, rule := range []func([]*record.Rung) (Cause, record.Reason, bool){rateLimited, clientBound, networkBound, kvBound} {
		if cause, reason, ok := rule(saturated); ok {
			evidence = append(evidence, reason)
			return cause, append(evidence, growth(f, saturated)...)
		}
	}
	evidence = append(evidence, growth(f, saturated)...)
	if len(evidence) == 0 {
		return CauseUnknown, evidence
	}
	return CauseServer, evidence
}

func saturatedRungs(l *ladder, kink float64) []*record.Rung {
	var out []*record.Rung
	for _, d := range l.loads {
		for _, p := range d.points {
			if p.Rung != nil && d.n >= kink {
				out = append(out, p.Rung)
			}
		}
	}
	return out
}

// growth says whether requests wait or all of them slow down: by the server's
// own count of waiting requests where it was scraped, else by the running
// signal, which cannot tell a wait for slots or memory from one for prefill.
func growth(f ladderFit, saturated []*record.Rung) []record.Reason {
	if reason, ok := queued(saturated); ok {
		return []record.Reason{reason}
	}
	if f.run == nil {
		return nil
	}
	m := len(f.run)
	flat := criterion(f.running.rss, m, 2) < criterion(hingeAt(f.run, math.Inf(1)).rss, m, 1)
	last := f.run[m-1].n
	if flat && f.running.kink < last/sameLoad {
		return []record.Reason{{
			Code:    "running_flat",
			Message: fmt.Sprintf("running requests stop growing at %.4g while more are in flight: the others wait for slots, KV memory or their prefill", f.running.cap()),
			Value:   record.Known(f.running.cap()),
		}}
	}
	return []record.Reason{{
		Code:    "running_grows",
		Message: "running requests still grow where throughput is flat: compute or memory bandwidth is used up, every request slows",
		Value:   record.Known(math.Exp(f.run[m-1].y)),
	}}
}

// queued looks at the share of requests that the server counted as waiting at
// the saturated rung of the most in flight.
func queued(saturated []*record.Rung) (record.Reason, bool) {
	const limit = 0.1
	most, share, ok := 0.0, 0.0, false
	for _, r := range saturated {
		n := r.InFlightMean.Or(0)
		if r.Telemetry == nil || n <= most {
			continue
		}
		if waiting, known := r.Telemetry.RequestsWaitingMean.Float(); known {
			most, share, ok = n, waiting/n, true
		}
	}
	out := record.Reason{
		Code:    "server_running",
		Message: fmt.Sprintf("the server runs nearly all of %.4g requests in flight, %.2g %% wait: compute or memory bandwidth is used up, every request slows", most, 100*share),
		Value:   record.Known(share), Limit: record.Known(limit),
	}
	if share >= limit {
		out.Code = "server_waiting"
		out.Message = fmt.Sprintf("by the server's own count %.3g %% of %.4g requests in flight wait for slots or KV memory", 100*share, most)
	}
	return out, ok
}

// rateLimited: over 1 % of the requests were answered 429.
func rateLimited(rungs []*record.Rung) (Cause, record.Reason, bool) {
	return failures(rungs, CauseRateLimit, "http_429", "%.3g %% of requests at the cap were answered 429: a rate limit, not the server, sets it", "http_429")
}

// networkBound: over 1 % of the requests could not connect.
func networkBound(rungs []*record.Rung) (Cause, record.Reason, bool) {
	return failures(rungs, CauseNetwork, "connect", "%.3g %% of requests at the cap failed to connect", "connect", "tls")
}

func failures(rungs []*record.Rung, cause Cause, code, format string, classes ...string) (Cause, record.Reason, bool) {
	const limit = 0.01
	var sent, failed int64
	for _, r := range rungs {
		sent += r.Requests.Sent
		for _, c := range classes {
			failed += r.Requests.Failures[c]
		}
	}
	share := float64(failed) / math.Max(float64(sent), 1)
	return cause, record.Reason{
		Code: code, Message: fmt.Sprintf(format, 100*share),
		Value: record.Known(share), Limit: record.Known(limit),
	}, share > limit
}

// clientBound: the client used up its processor at the cap.
func clientBound(rungs []*record.Rung) (Cause, record.Reason, bool) {
	const limit = 0.85
	most := 0.0
	for _, r := range rungs {
		most = max(most, r.Client.CPURatio.Or(0))
	}
	return CauseClient, record.Reason{
		Code: "client_cpu", Message: fmt.Sprintf("the client used %.3g %% of its processors at the cap", 100*most),
		Value: record.Known(most), Limit: record.Known(limit),
	}, most > limit
}

// clientFaults are the reasons of an invalid rung that lie with this machine.
var clientFaults = []string{"send_lag", "receive_lag", "sent_ratio", "client_cpu", "client_limit", "merged_reads"}

// clientFault: a rung near the knee or beyond it is invalid because this
// machine could not keep up, so the cap may be its own.
func clientFault(invalid []Point, kink float64) (record.Reason, bool) {
	for _, p := range invalid {
		if p.Rung == nil || p.InFlight.Or(0) < kink/2 {
			continue
		}
		for _, r := range p.Rung.Reasons {
			if slices.Contains(clientFaults, r.Code) {
				return r, true
			}
		}
	}
	return record.Reason{}, false
}

// kvBound: the KV cache was full or requests were preempted.
func kvBound(rungs []*record.Rung) (Cause, record.Reason, bool) {
	const limit = 0.95
	usage, preempted := 0.0, 0.0
	for _, r := range rungs {
		if r.Telemetry != nil {
			usage = max(usage, r.Telemetry.KVCacheUsageMax.Or(0))
			preempted += r.Telemetry.Preemptions.Or(0)
		}
	}
	return CauseKVMemory, record.Reason{
		Code:    "kv_cache",
		Message: fmt.Sprintf("KV cache usage reached %.3g %% and %.4g requests were preempted", 100*usage, preempted),
		Value:   record.Known(usage), Limit: record.Known(limit),
	}, usage >= limit || preempted > 0
}
