package main

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/headway-bench/headway/backends/connect"
	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/profiles"
	"github.com/headway-bench/headway/report/bundle"
)

// runFlags are the flags of `headway run`.
type runFlags struct {
	overrides
	set     *[]string
	headers []string
	metrics []string
	against string
	// maxRegression is how much worse the second target may be.
	maxRegression percent
	out           string
	format        *choice
	gate          bool
	dryRun        bool
	noView        bool
	// userStamps leaves the kernel's arrival stamps unused.
	userStamps bool
	quiet      bool
	repeats    *bundle.Bundle // the bundle that is run again, nil for a profile
}

// add defines the flags.
func (f *runFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	f.field(fl, "target", "target.url", "server to load, as http://localhost:8000; a /v1 or a whole route means the same")
	f.field(fl, "backend", "target.backend", "wire dialect (default: the server is asked)")
	f.field(fl, "backend-file", "target.backend_file", "a dialect of your own, described in YAML")
	f.field(fl, "endpoint", "target.endpoint", "route: chat, completions or native (default: chat)")
	f.field(fl, "model", "model.id", "model id to send (default: the only one the server lists)")
	f.workload(fl)
	f.field(fl, "retries", "stage.retries", "how often a failed request is sent again; shown when on")
	f.field(fl, "max-tokens", "cost.max_tokens", "budget of tokens; the ladder stops there")
	f.field(fl, "max-usd", "cost.max_usd", "budget of money; the ladder stops there")
	f.field(fl, "tokenizer", "target.tokenizer", "the model's tokenizer: its directory or tokenizer.json")
	f.field(fl, "prompt", "workload.prompt", "auto, token-ids or text: how exact input lengths are made")
	f.field(fl, "api-key-env", "target.api_key_env", "variable that holds the key")
	f.field(fl, "cacert", "target.cacert", "file of certificates to trust")
	fl.Bool("insecure", false, "accept any certificate")
	fl.BoolVar(&f.userStamps, "user-stamps", false, "stamp arrivals as reads return, not by the kernel")
	fl.StringArrayVar(&f.metrics, "metrics", nil, "further telemetry of --target: the URL of a metrics page (another replica, a DCGM exporter), or nvidia-smi; may be given again")
	fl.StringArrayVar(&f.headers, "header", nil, "further header, as 'name: value'; it is kept nowhere")
	f.set = addSet(cmd)
	fl.StringVar(&f.against, "against", "", "a second server, interleaved with the first rung by rung")
	fl.Var(&f.maxRegression, "max-regression", "with --against: how much worse the second server may be")
	fl.BoolVar(&f.gate, "gate", false, "judge the limits as headway gate does, and take its exit code")
	fl.BoolVar(&f.dryRun, "dry-run", false, "say what would be sent, and send nothing")
	fl.StringVar(&f.out, "out", "", "directory of the bundle (default: headway-runs/PROFILE-TIME)")
	f.format = addFormat(cmd, "table", "json", "markdown", "csv")
	fl.BoolVar(&f.noView, "no-progress", false, "plain lines instead of the live view")
	fl.BoolVar(&f.quiet, "quiet", false, "no progress at all")
}

// profile opens what is to be run and lays the flags over it.
func (f *runFlags) profile(cmd *cobra.Command, args []string) (*profiles.Profile, error) {
	p, err := f.open(cmd, args)
	if err != nil {
		return nil, err
	}
	if cmd.Flags().Changed("target") {
		// A server that is named stands in for the one to be started.
		p.Target.Serve = nil
	}
	if err := f.override(cmd, p); err != nil {
		return nil, err
	}
	if insecure, err := cmd.Flags().GetBool("insecure"); err == nil && insecure {
		if err := p.Set("target.insecure", strconv.FormatBool(insecure)); err != nil {
			return nil, err
		}
	}
	p.Target.Metrics = append(p.Target.Metrics, f.metrics...)
	if err := applySet(p, *f.set); err != nil {
		return nil, err
	}
	if p.Target.URL == "" && len(p.Target.Serve) == 0 {
		return nil, usagef("no server to load: name one with --target http://HOST:PORT, or run `headway run quickstart`, which brings its own")
	}
	if f.against != "" && p.Target.URL == "" {
		return nil, usagef("--against needs --target beside it")
	}
	if f.against == "" && cmd.Flags().Changed("max-regression") {
		return nil, usagef("--max-regression needs --against: a second server to hold against the first")
	}
	if f.gate && len(p.SLO) == 0 && f.against == "" {
		return nil, usagef("--gate has no limit to judge: give --slo, such as ttft_p95=500ms")
	}
	return p, nil
}

// open opens the profile, the bundle to repeat, or the default for a target.
func (f *runFlags) open(cmd *cobra.Command, args []string) (*profiles.Profile, error) {
	if len(args) == 0 {
		if !cmd.Flags().Changed("target") {
			return nil, usagef("nothing to run: name a profile (`headway profile list`), or a server with --target")
		}
		return profiles.Default(), nil
	}
	if info, err := os.Stat(args[0]); err == nil && info.IsDir() {
		b, err := bundle.Open(args[0])
		if err != nil {
			return nil, exitWith(exitUsage, err)
		}
		f.repeats = b
		return profiles.Open(filepath.Join(args[0], bundle.ProfileFile))
	}
	if filepath.Base(args[0]) == bundle.ResultFile {
		return nil, usagef("%s is a result; to repeat its run name the bundle: headway run %s", args[0], filepath.Dir(args[0]))
	}
	return openProfile(cmd.InOrStdin(), args[0])
}

// options say how a target is opened.
func (f *runFlags) options(p *profiles.Profile, url string) (connect.Options, error) {
	o := connect.Options{
		URL: url, Dialect: p.Target.Backend, BackendFile: p.Target.BackendFile, Endpoint: p.Target.Endpoint,
		Headers: f.headers, CACert: p.Target.CACert, Insecure: p.Target.Insecure, HTTP2: p.Target.HTTP2,
		Timeout: p.Stage.Timeout.Std(), Retries: p.Stage.Retries, UserStamps: f.userStamps,
	}
	if p.Model.ID != profiles.Unknown {
		o.Model = p.Model.ID
	}
	if name := p.Target.APIKeyEnv; name != "" {
		key, ok := os.LookupEnv(name)
		if !ok || key == "" {
			return o, usagef("--api-key-env: the variable %s is not set", name)
		}
		o.APIKey = key
	}
	return o, nil
}

// targetError gives the errors of opening a target their exit codes.
func targetError(err error) error {
	if usage, ok := errors.AsType[*connect.UsageError](err); ok {
		return exitWith(exitUsage, usage)
	}
	return exitWith(exitNoResult, err)
}

// atMost words a bound, or why there is none.
func atMost(v record.Value, why string) string {
	n, ok := v.Float()
	if !ok {
		return why
	}
	return "at most " + strconv.FormatFloat(n, 'f', -1, 64)
}
