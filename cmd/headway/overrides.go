package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/headway-bench/headway/profiles"
)

// overrides are flags that set one field of a profile each.
type overrides []override

type override struct{ flag, path string }

// field adds a flag for the field at path.
func (o *overrides) field(fl *pflag.FlagSet, flag, path, help string) {
	fl.String(flag, "", help)
	*o = append(*o, override{flag, path})
}

// workload adds the flags that say what is sent, how and for how long. The load
// comes first, since a trace has lengths of its own.
func (o *overrides) workload(fl *pflag.FlagSet) {
	o.field(fl, "concurrency", "load.closed.concurrency", "closed loop: users of each rung, as 1,2,4,8")
	o.field(fl, "rate", "load.open.rate", "open loop: requests per second of each rung, as 1,2,4")
	o.field(fl, "arrivals", "load.open.arrivals", "open loop: constant, poisson or gamma")
	o.field(fl, "max-in-flight", "load.open.max_in_flight", "open loop: requests in flight at most; waiting counts in the response time")
	o.field(fl, "offline", "load.offline.requests", "send so many requests at once")
	o.field(fl, "input-tokens", "workload.input_tokens", "input length in tokens")
	o.field(fl, "output-tokens", "workload.output_tokens", "output length in tokens")
	o.field(fl, "measure", "stage.measure", "length of a rung's measured window, as 30s; longer where --min-requests takes longer")
	o.field(fl, "warmup", "stage.warmup", "auto, or a time before the window, as 5s")
	o.field(fl, "drain", "stage.drain", "how long requests may still end after the window")
	o.field(fl, "min-requests", "stage.min_requests", "requests that a window holds at least")
	o.field(fl, "repeats", "stage.repeats", "measurements of each rung")
	o.field(fl, "timeout", "stage.timeout", "limit of one request")
	o.field(fl, "slo", "slo", "limits, as ttft_p95=500ms,tps_p05>=20,error_rate=0.5%")
	o.field(fl, "refine", "load.refine.rungs", "further rungs around the knee and the limits")
	o.field(fl, "seed", "workload.seed", "seed of every random choice")
}

// override lays the flags that were given over a profile.
func (o overrides) override(cmd *cobra.Command, p *profiles.Profile) error {
	var loads []string
	for _, flag := range []string{"concurrency", "rate", "offline"} {
		if cmd.Flags().Changed(flag) {
			loads = append(loads, "--"+flag)
		}
	}
	if len(loads) > 1 {
		return usagef("%s exclude each other; keep one of them", strings.Join(loads, " and "))
	}
	if len(loads) == 1 && !cmd.Flags().Changed("refine") {
		// Loads that the user names are the loads that are run.
		p.Load.Refine.Rungs = 0
	}
	for _, v := range o {
		if !cmd.Flags().Changed(v.flag) {
			continue
		}
		value, err := cmd.Flags().GetString(v.flag)
		if err != nil {
			return err
		}
		if err := p.Set(v.path, value); err != nil {
			return fmt.Errorf("--%s: %w", v.flag, err)
		}
	}
	return nil
}
