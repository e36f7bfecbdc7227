// Package knee finds where a server saturates: the load from which more work
// in flight only waits longer. It fits the batching law of a token server to
// the points of a ladder, weighs it with the running signal from inter-token
// latency, and says with what confidence and on what evidence.
//
// Everything is a pure function of the points; resampling is seeded.
package knee

import "github.com/headway-bench/headway/loadgen/record"

// Status says what a ladder could show.
type Status string

// The statuses.
const (
	Found        Status = "found"        // the cap is seen, and growth below it
	NotReached   Status = "not_reached"  // the cap is not seen
	NotLinear    Status = "not_linear"   // the first rung is already saturated
	Insufficient Status = "insufficient" // fewer than 4 distinct loads
)

// Method names the law that the data chose.
type Method string

// The methods.
const (
	Batching Method = "batching" // X = min(N/(a+b*N), C) with b > 0
	Hinge    Method = "hinge"    // the same with b = 0
)

// Cause is what stops the growth.
type Cause string

// The causes.
const (
	CauseServer    Cause = "server"
	CauseKVMemory  Cause = "kv_memory"
	CauseClient    Cause = "client"
	CauseNetwork   Cause = "network"
	CauseRateLimit Cause = "rate_limit"
	CauseUnknown   Cause = "unknown"
)

// Knee is the KNEE of a result: the saturation point of one ladder.
type Knee struct {
	Status Status `json:"status"`
	Method Method `json:"method"`
	// Mode is closed or open. In open loop the knee is RatePerS.
	Mode record.Mode `json:"mode"`
	// InFlight is the mean number of requests in flight at the knee: the median
	// over the resamples, of all signals that agree.
	InFlight record.Value `json:"in_flight"`
	// RatePerS is the offered rate from which achieved stays below offered,
	// requests/s; unknown in closed loop.
	RatePerS                  record.Value     `json:"rate_req_per_s"`
	RequestThroughputPerS     record.Value     `json:"request_throughput_per_s"`
	OutputTokenThroughputPerS record.Value     `json:"output_token_throughput_per_s"`
	InFlightCI95              *[2]record.Value `json:"in_flight_ci95"`
	RateCI95                  *[2]record.Value `json:"rate_ci95"`
	// HalfSaturationInFlight is a/b, where throughput is half of what the law
	// without a cap would reach; unknown where b is 0.
	HalfSaturationInFlight record.Value `json:"half_saturation_in_flight"`
	Running                Running      `json:"running"`
	// LawInFlight is the least-squares estimate of the law alone.
	LawInFlight record.Value `json:"law_in_flight"`
	// HingeInFlight is the estimate of the plain hinge X_max/X_1, in requests.
	HingeInFlight record.Value    `json:"hinge_in_flight"`
	Law           Law             `json:"law"`
	Retrograde    bool            `json:"retrograde"`
	Cause         Cause           `json:"cause"`
	Evidence      []record.Reason `json:"evidence"`
	Others        Others          `json:"others"`
	DistinctLoads int             `json:"distinct_loads"`
	// Warnings are doubts that travel with the figure.
	Warnings []record.Reason `json:"warnings"`
}

// Running is the second signal: output tok/s times mean ITL, the requests that
// are decoding by Little's law.
type Running struct {
	// InFlight is the load at which the number of running requests stops
	// growing.
	InFlight record.Value `json:"in_flight"`
	// Plateau is the number of running requests there.
	Plateau record.Value `json:"plateau"`
	// Server is the in-flight at which the server's own count of running
	// requests stops growing.
	Server record.Value `json:"server_in_flight"`
}

// Law is the fitted curve X(N) = min(N/(A + B*N), Cap).
type Law struct {
	// Unit of X: "output_tokens_per_s" or "requests_per_s".
	Unit string       `json:"unit"`
	A    record.Value `json:"a_s"`   // seconds a unit of work at N = 0
	B    record.Value `json:"b_s"`   // seconds a unit of work, more for each request in flight
	Cap  record.Value `json:"cap"`   // in Unit; unknown when not reached
	Rel  record.Value `json:"error"` // standard deviation of log X around the curve
}

// Others are estimates by other methods, for comparison only.
type Others struct {
	USL *USL `json:"usl"`
	// Kneedle is the in-flight of greatest distance from the chord.
	Kneedle record.Value `json:"kneedle"`
	// Power is the in-flight that maximises Kleinrock's power, throughput over
	// response time.
	Power record.Value `json:"power"`
}

// Options steer a fit. The zero value is the default.
type Options struct {
	// Resamples of the bootstrap; 0 is 400.
	Resamples int
	// Seed of the bootstrap.
	Seed uint64
}

func (o Options) resamples() int {
	if o.Resamples > 0 {
		return o.Resamples
	}
	return 400
}

// Fit finds the knee of a ladder. Points may come in any order, with repeats;
// those without a load or a throughput, and invalid ones, are passed over.
func Fit(points []Point, o Options) Knee {
	k := fit(points, o)
	k.doubtVerdicts(points)
	return k
}

func fit(points []Point, o Options) Knee {
	l := newLadder(points)
	k := Knee{
		Status: Insufficient, Method: Hinge, Mode: l.mode, Cause: CauseUnknown,
		Evidence: []record.Reason{}, Warnings: l.warnings,
		DistinctLoads: len(l.loads), Law: Law{Unit: l.unit},
	}
	if l.mode == record.Open {
		k.fitOpen(l, points, o)
		return k
	}
	if len(l.loads) < minLoads {
		k.warn("few_loads", "%d distinct loads (within 5 %% counts as one); a knee takes at least %d", len(l.loads), minLoads)
		return k
	}
	f := fitLadder(l)
	k.describe(l, f)
	k.others(l.loads)
	if k.Status == Found {
		k.locate(l, f, o)
		k.Cause, k.Evidence = findCause(l, f)
	}
	return k
}
