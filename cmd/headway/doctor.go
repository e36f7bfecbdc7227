package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/headway-bench/headway/backends/connect"
	"github.com/headway-bench/headway/loadgen/prompt"
	"github.com/headway-bench/headway/profiles"
)

// askTime is how long the questions to the target may take, unless --timeout
// says otherwise, and clientTime how long the look at this machine may.
const (
	askTime    = time.Minute
	clientTime = 20 * time.Second
)

// doctorFlags are the flags of `headway doctor`.
type doctorFlags struct {
	target, backend, backendFile, endpoint, model string
	tokenizer, apiKeyEnv, cacert                  string
	headers, metrics                              []string
	insecure                                      bool
	timeout                                       time.Duration
	format                                        *choice
}

// checkup is what doctor found out: about this client, and about the target
// when there is one. Unknown is null.
type checkup struct {
	Headway build         `json:"headway"`
	Client  clientCheckup `json:"client"`
	Target  *targetState  `json:"target"`
	// Advice is what to change, or to know, the most important first.
	Advice []string `json:"advice"`
}

func newDoctorCommand() *cobra.Command {
	f := &doctorFlags{}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what a server streams and what this client can measure",
		Long: `doctor prints one page to paste into a bug report: how well this machine
keeps time and how much load it can offer, and, with --target, what the server
is, what it streams, whether it obeys lengths, whether counts of tokens agree,
whether it caches prefixes, and what to change. It sends the server six short
requests, eight where it has to estimate lengths, one after the other, and takes
six seconds more than they do. Keys and headers are not in the page.

Exit codes: 0 the target was examined; 2 usage, as a model to choose; 3 it could
not be reached, or a request failed: the page says why.`,
		Example: `  headway doctor
  headway doctor --target http://localhost:8000
  headway doctor --target http://localhost:8000 --format json
  headway doctor --target http://localhost:8000 --metrics http://localhost:8002/metrics`,
		Args: takes(0, 0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.target, "target", "", "server to look at, as http://localhost:8000")
	fl.StringVar(&f.backend, "backend", "", "wire dialect (default: the server is asked)")
	fl.StringVar(&f.backendFile, "backend-file", "", "a dialect of your own, described in YAML")
	fl.StringVar(&f.endpoint, "endpoint", "", "route: chat, completions or native (default: chat)")
	fl.StringVar(&f.model, "model", "", "model id to send (default: the only one the server lists)")
	fl.StringVar(&f.tokenizer, "tokenizer", "", "the model's tokenizer, to hold the server's counts against: its directory or tokenizer.json")
	fl.StringVar(&f.apiKeyEnv, "api-key-env", "", "variable that holds the key")
	fl.StringArrayVar(&f.headers, "header", nil, "further header, as 'name: value'; it is kept nowhere")
	fl.StringArrayVar(&f.metrics, "metrics", nil, "further telemetry: the URL of a metrics page, or nvidia-smi; may be given again")
	fl.DurationVar(&f.timeout, "timeout", askTime, "how long the requests to the server may take together")
	fl.StringVar(&f.cacert, "cacert", "", "file of certificates to trust")
	fl.BoolVar(&f.insecure, "insecure", false, "accept any certificate")
	f.format = addFormat(cmd, "text", "json")
	return cmd
}

// errTarget is what the exit code says of a target that did not answer; the
// page says why.
var errTarget = errors.New("the target could not be examined in full; the page says why")

func (f *doctorFlags) run(cmd *cobra.Command) error {
	if f.timeout <= 0 {
		return usagef("--timeout: %v is no time to wait; leave it out for %v", f.timeout, askTime)
	}
	options, err := f.options()
	if err != nil {
		return err
	}
	c := checkup{Headway: thisBuild()}
	if f.target != "" {
		c.Target, err = f.examineTarget(cmd.Context(), options)
		if usage, ok := errors.AsType[*exitError](err); ok && usage.code == exitUsage {
			return usage
		}
		if err != nil {
			c.Target = &targetState{URL: redacted(f.target), Error: err.Error()}
		}
	}
	c.Client = examineClient(cmd.Context())
	c.Advice = advise(&c)
	if f.format.value == "json" {
		err = printJSON(cmd, c)
	} else {
		_, err = cmd.OutOrStdout().Write(c.text())
	}
	if t := c.Target; err == nil && t != nil && (t.Error != "" || t.Failed != "") {
		return exitWith(exitNoResult, errTarget)
	}
	return err
}

// options say how the target is opened, as those of a run do.
func (f *doctorFlags) options() (connect.Options, error) {
	p := profiles.Default()
	p.Target.URL, p.Target.Backend, p.Target.BackendFile, p.Target.Endpoint = f.target, f.backend, f.backendFile, f.endpoint
	p.Target.APIKeyEnv, p.Target.CACert, p.Target.Insecure = f.apiKeyEnv, f.cacert, f.insecure
	if f.model != "" {
		p.Model.ID = f.model
	}
	p.Stage.Timeout = profiles.Duration(f.timeout)
	run := runFlags{headers: f.headers}
	return run.options(p, f.target)
}

// advise says what to change, from what was found.
func advise(c *checkup) []string {
	var out []string
	say := func(when bool, format string, args ...any) {
		if when {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	if c.Target != nil {
		c.Target.advise(say)
	}
	m := c.Client
	say(m.Timer.WakeUpP99MS.Or(0) > 1, "This machine wakes up %.3g ms late at p99: something else uses its processors; schedules will be late.", m.Timer.WakeUpP99MS.Or(0))
	say(m.Capacity.Error != "", "The client's capacity is not known: %s", m.Capacity.Error)
	say(m.CPUs < 4, "%d processors are few for client and server on one machine; run the client on another.", m.CPUs)
	say(m.OpenFiles.Or(1<<20) < 4096, "%s open files allow about as many connections: raise the limit with ulimit -n.", digits(m.OpenFiles))
	say(len(out) == 0, "Nothing to change.")
	return out
}

// advise says what to change at the target or in how it is measured.
func (t *targetState) advise(say func(when bool, format string, args ...any)) {
	say(t.Error != "", "The target could not be examined: %s", t.Error)
	say(t.Failed != "", "A request failed: %s", t.Failed)
	if s := t.Stream; s != nil {
		say(s.NotStreamed, "The server answered a streamed request at once: no TTFT can be measured. Ask its route for streams, or name another one with --endpoint.")
		say(!s.NotStreamed && s.Buffered != nil && *s.Buffered, "The stream is buffered on its way: tokens come in bursts after silence, and ITL can't be measured. "+
			"Turn buffering off in the proxy (nginx: proxy_buffering off), or measure the server itself.")
		say(s.TokenSource == "events", "Tokens are counted as events, an estimate: the server reports no usage. Name the model's tokenizer with --tokenizer.")
	}
	if l := t.Lengths; l != nil {
		say(l.Obeyed != nil && !*l.Obeyed, "Output lengths are not obeyed: compare throughputs by tokens, not by requests, "+
			"or choose a dialect that can force lengths (--backend).")
		say(!l.Forced && l.Obeyed == nil, "Output lengths can't be forced here and answers end early: compare throughputs by tokens, not by requests.")
	}
	if k := t.Tokenizer; k != nil {
		say(k.Agrees != nil && !*k.Agrees, "Prompts have not the length asked for by the server's count: name the model's tokenizer with --tokenizer, or use --prompt token-ids.")
		say(k.By == string(prompt.ByUsage), "Input lengths are estimated: the server has no tokenizer route. Name the model's tokenizer with --tokenizer.")
	}
	if p := t.Cache; p != nil {
		say(p.On != nil && *p.On, "Prefixes are cached. headway's prompts are unique, so that runs are not flattered; "+
			"ask for shared prefixes with workload.prefix.shared_tokens.")
	}
	engine := false
	for _, m := range t.Metrics {
		say(m.Error != "", "Telemetry can't be read: %s", m.Error)
		say(m.Error == "" && len(m.Kinds) == 0, "%s has no metric of an engine or exporter that is known: is it the right page?", m.Source)
		engine = engine || len(m.Tells) > 0 && m.Source != nvidiaSMI
	}
	silent := t.Error == "" && !engine
	say(silent && t.Engine != "triton", "The server has no metrics page: the cause of a knee, preemptions and KV cache use stay unknown. "+
		"Turn it on (llama-server: --metrics; trtllm-serve: return_perf_metrics), or name one with --metrics URL, here and in a run.")
	say(silent && t.Engine == "triton", "Triton's metrics are on a port of their own, 8002 unless --metrics-port says otherwise: "+
		"name them with --metrics http://HOST:8002/metrics, here and in a run.")
	say(t.Stamps == "user", "Arrivals are stamped when reads return, not by the kernel: keep the client's processors free.")
}
