// Package bundle writes, opens and verifies what a run leaves behind: a
// directory with result.json, the requests, the histograms, the profile as
// run, a manifest of hashes, and the pages made of them. It is the only place
// that knows the bundle's files and the keys of result.json.
package bundle

import (
	"net/url"
	"slices"
	"strings"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/profiles"
	"github.com/headway-bench/headway/report/knee"
)

// Schema names the version of result.json that this package reads and writes.
const Schema = "headway.result/v1"

// Status says whether a run went through its whole ladder.
type Status string

// The statuses of a run.
const (
	Complete    Status = "complete"
	Interrupted Status = "interrupted"
	Failed      Status = "failed"
)

// Result is one ladder, as it stands in result.json. A unit is in every key;
// what was not measured is null.
type Result struct {
	Schema         string           `json:"schema"`
	Status         Status           `json:"status"`
	Headway        Build            `json:"headway"`
	StartedAt      string           `json:"started_at"` // RFC 3339, UTC; "" when unknown
	EpochUnixNS    int64            `json:"epoch_unix_ns"`
	DurationS      record.Value     `json:"duration_s"`
	Seed           int64            `json:"seed"`
	ScheduleSHA256 string           `json:"schedule_sha256"` // of the planned arrivals and lengths; "" when imported
	Profile        profiles.Profile `json:"profile"`
	Server         Server           `json:"server"`
	Client         Client           `json:"client"`
	Rungs          []record.Rung    `json:"rungs"`
	Knee           knee.Knee        `json:"knee"`
	OperatingPoint Point            `json:"operating_point"`
	Peak           Point            `json:"peak"`
	SingleUser     Point            `json:"single_user"`
	Warnings       []Warning        `json:"warnings"`
	// Imported is set when another tool measured this; nil when headway did.
	Imported *Imported `json:"imported,omitempty"`
}

// Point is one load of interest: the POINT of the contract.
type Point = knee.Operating

// Build identifies the program that wrote the result.
type Build struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
}

// Server is what is known of the target. IdentitySource names where it was
// read: the server's own answers, the profile, flags, or an imported file.
type Server struct {
	Engine         string            `json:"engine"`
	Version        string            `json:"version"`
	ModelID        string            `json:"model_id"`
	Settings       map[string]string `json:"settings"`
	IdentitySource string            `json:"identity_source"`
}

// Client is the machine that offered the load.
type Client struct {
	OS          string `json:"os"`
	Arch        string `json:"arch"`
	CPUs        int    `json:"cpus"`
	GoVersion   string `json:"go_version"`
	MemoryBytes int64  `json:"memory_bytes"`
	// Scheduling is what the system granted the client's threads, in words; ""
	// in results that do not tell.
	Scheduling string `json:"scheduling,omitempty"`
}

// Warning is a doubt that a reader of the whole result has to know of.
type Warning struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// LengthNotForced is the code of the warning that the dialect has no field that
// forces the output length which the profile wants forced.
const LengthNotForced = "length_not_forced"

// Imported says who measured and what its figures mean there.
type Imported struct {
	Tool    string `json:"tool"`    // such as "vllm-bench"
	Version string `json:"version"` // of the tool or its format; "" when it does not say
	// Files are the base names of what was read.
	Files []string `json:"files"`
	// Definitions say how the tool defines each of our metrics, by our key.
	Definitions map[string]string `json:"definitions"`
	// Metadata are further facts of the file, by its own names.
	Metadata map[string]string `json:"metadata"`
}

// normalise makes the result fit for writing: lists instead of null, and no
// credentials in a URL.
func (r *Result) normalise() {
	r.Schema = Schema
	if r.Rungs == nil {
		r.Rungs = []record.Rung{}
	}
	if r.Warnings == nil {
		r.Warnings = []Warning{}
	}
	if r.Server.Settings == nil {
		r.Server.Settings = map[string]string{}
	}
	for i := range r.Rungs {
		rung := &r.Rungs[i]
		if rung.Reasons == nil {
			rung.Reasons = []record.Reason{}
		}
		if rung.Warnings == nil {
			rung.Warnings = []record.Reason{}
		}
		if rung.Blocks == nil {
			rung.Blocks = []record.Block{}
		}
		if rung.Requests.Failures == nil {
			rung.Requests.Failures = map[string]int64{}
		}
	}
	r.Profile.Target.URL = withoutCredentials(r.Profile.Target.URL)
	r.Profile.Target.Metrics = slices.Clone(r.Profile.Target.Metrics)
	for i, u := range r.Profile.Target.Metrics {
		r.Profile.Target.Metrics[i] = withoutCredentials(u)
	}
}

// withoutCredentials drops user, password, query and fragment of a URL: keys
// travel there.
func withoutCredentials(raw string) string {
	if raw == "" {
		return ""
	}
	u, err := url.Parse(raw)
	if err != nil {
		return "unreadable"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// Warned says whether the result carries a warning of the code.
func (r *Result) Warned(code string) bool {
	return slices.ContainsFunc(r.Warnings, func(w Warning) bool { return w.Code == code })
}

// Sampling is what the server was asked for: the profile's sampling, without
// the forced length where the dialect has no field for it.
func (r *Result) Sampling() profiles.Sampling {
	s := r.Profile.Workload.Sampling
	s.ForceLength = s.ForceLength && !r.Warned(LengthNotForced)
	return s
}

// Labels lists what a reader must know before comparing the numbers with
// measured ones: "simulated" (a time law, no model), "emulated" (the GPU path
// on an emulated driver), "estimated" (tokens counted as events) and
// "imported" (measured by another tool).
func (r *Result) Labels() []string {
	var out []string
	told := func(name, word string) bool {
		return strings.Contains(strings.ToLower(r.Server.Settings[name]), word)
	}
	if r.Server.Settings["executor"] == "sim" || r.Server.Settings["simulated"] == "true" {
		out = append(out, "simulated")
	}
	if told("executor", "emulat") || told("device", "emulat") {
		out = append(out, "emulated")
	}
	for i := range r.Rungs {
		if r.Rungs[i].Tokens.Source == "events" {
			out = append(out, "estimated")
			break
		}
	}
	if r.Imported != nil {
		out = append(out, "imported")
	}
	return out
}
