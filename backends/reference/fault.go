package reference

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Fault is a way in which a simulated server misbehaves on demand.
type Fault string

// The faults. "Half way" is after half of the tokens asked for.
const (
	NoFault    Fault = ""
	SlowStart  Fault = "slow_start"  // the first token comes late by the fault's duration
	StallMid   Fault = "stall"       // the stream pauses half way for the fault's duration
	ErrorMid   Fault = "error_mid"   // an error event half way, then [DONE]
	ErrorFirst Fault = "error_first" // an error event in place of the first token, then [DONE]
	Truncate   Fault = "truncate"    // the body ends well half way, without finish reason or [DONE]
	Cut        Fault = "cut"         // the connection is reset half way
	HTTP429    Fault = "http_429"    // status 429 with Retry-After of the fault's duration
	HTTP500    Fault = "http_500"    // status 500
	WrongUsage Fault = "wrong_usage" // completion_tokens is twice the truth plus 7
	EarlyEnd   Fault = "early_end"   // finish reason stop half way
	Buffered   Fault = "buffered"    // writes are held back and sent together at the end
	NoOutput   Fault = "no_output"   // finish reason stop at once, no token, usage 0
)

// faultDurations are the faults, with the duration that each has unless it is
// given; 0 where it has none.
var faultDurations = map[Fault]time.Duration{
	SlowStart: time.Second, StallMid: time.Second, HTTP429: time.Second,
	ErrorMid: 0, ErrorFirst: 0, Truncate: 0, Cut: 0, HTTP500: 0, WrongUsage: 0, EarlyEnd: 0, Buffered: 0, NoOutput: 0,
}

// Faults say which requests misbehave and how. The n-th request that a server
// takes meets the same fault whenever the seed is the same.
type Faults struct {
	Seed  uint64
	Rules []FaultRule
}

// FaultRule is one fault, met by the share Rate of requests (0 to 1).
type FaultRule struct {
	Fault    Fault
	Rate     float64
	Duration time.Duration
}

// ParseFaults reads a list such as "truncate=10%,stall=5%:2s,seed=7": rates
// are percentages that add up to 100 at most; a duration may follow a colon
// where the fault has one.
func ParseFaults(text string) (Faults, error) {
	var f Faults
	var sum float64
	for _, field := range strings.Split(text, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(field), "=")
		if !ok {
			return f, fmt.Errorf("faults %q: %q is not name=rate, as truncate=10%%", text, field)
		}
		if name == "seed" {
			seed, err := strconv.ParseUint(value, 10, 64)
			if err != nil {
				return f, fmt.Errorf("faults %q: seed must be a whole number, not %q", text, value)
			}
			f.Seed = seed
			continue
		}
		r := FaultRule{Fault: Fault(name)}
		if r.Duration, ok = faultDurations[r.Fault]; !ok {
			return f, fmt.Errorf("faults %q: unknown fault %q; there are %s", text, name, strings.Join(FaultNames(), ", "))
		}
		rate, duration, timed := strings.Cut(value, ":")
		percent, isPercent := strings.CutSuffix(rate, "%")
		n, err := strconv.ParseFloat(percent, 64)
		if err != nil || !isPercent || !(n >= 0 && n <= 100) {
			return f, fmt.Errorf("faults %q: the rate of %s must be a percentage from 0%% to 100%%, not %q", text, name, rate)
		}
		if timed {
			if r.Duration == 0 {
				return f, fmt.Errorf("faults %q: %s takes no duration", text, name)
			}
			if r.Duration, err = time.ParseDuration(duration); err != nil || r.Duration <= 0 {
				return f, fmt.Errorf("faults %q: the duration of %s must be like 500ms, not %q", text, name, duration)
			}
		}
		for _, other := range f.Rules {
			if other.Fault == r.Fault {
				return f, fmt.Errorf("faults %q: %s is given twice", text, name)
			}
		}
		r.Rate = n / 100
		sum += n
		f.Rules = append(f.Rules, r)
	}
	if sum > 100+1e-9 {
		return f, fmt.Errorf("faults %q: the rates add up to %g%%, more than 100%%", text, sum)
	}
	return f, nil
}

// FaultNames lists the faults by name.
func FaultNames() []string {
	names := make([]string, 0, len(faultDurations))
	for f := range faultDurations {
		names = append(names, string(f))
	}
	slices.Sort(names)
	return names
}

// Draw returns the fault that the n-th request meets, with Fault NoFault for
// none.
func (f Faults) Draw(n uint64) FaultRule {
	if len(f.Rules) == 0 {
		return FaultRule{}
	}
	u := uniform(f.Seed, int(n))
	for _, r := range f.Rules {
		if u < r.Rate {
			return r
		}
		u -= r.Rate
	}
	return FaultRule{}
}
