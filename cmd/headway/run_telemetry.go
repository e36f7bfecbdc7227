package main

import (
	"context"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/connect"
	"github.com/headway-bench/headway/backends/telemetry"
	"github.com/headway-bench/headway/loadgen"
	"github.com/headway-bench/headway/loadgen/record"
)

// observer watches a target's telemetry while rungs run.
type observer struct {
	ctx     context.Context
	sources []telemetry.Source
	pages   []*connect.Page
}

// nvidiaSMI stands in the place of a URL for the nvidia-smi of this machine.
const nvidiaSMI = "nvidia-smi"

// newObserver makes ready to read the target's own metrics page and further
// ones. nvidia-smi is read when it is asked for, or there and the target is a
// server on this machine that may use its accelerators.
func newObserver(ctx context.Context, options connect.Options, server backends.Server, further []string) (*observer, error) {
	o := &observer{ctx: ctx}
	smi := local(options.URL) && !computesElsewhere(server)
	urls := further
	if server.Metrics != "" && !slices.Contains(further, server.Metrics) {
		urls = append([]string{server.Metrics}, further...)
	}
	for _, at := range urls {
		if at == nvidiaSMI {
			smi = true
			continue
		}
		page, err := connect.OpenPage(options, at)
		if err != nil {
			o.close()
			return nil, usagef("--metrics: %w", err)
		}
		o.pages = append(o.pages, page)
		o.sources = append(o.sources, telemetry.Page(page.Name(), page.Get))
	}
	if source, ok := telemetry.NvidiaSMI(); ok && smi {
		o.sources = append(o.sources, source)
	} else if slices.Contains(further, nvidiaSMI) {
		o.close()
		return nil, usagef("--metrics nvidia-smi: this machine has no nvidia-smi; name a DCGM exporter's URL instead")
	}
	return o, nil
}

// local says whether a target is this machine.
func local(target string) bool {
	if strings.HasPrefix(target, "unix:") {
		return true
	}
	if !strings.Contains(target, "://") {
		target = "http://" + target
	}
	u, err := url.Parse(target)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// computesElsewhere says whether a server told that it computes on no
// accelerator.
func computesElsewhere(s backends.Server) bool {
	executor := s.Settings["executor"]
	return executor != "" && executor != "cuda"
}

// observe watches the sources over one rung.
func (o *observer) observe(r loadgen.Rung) func(start, end int64) record.Evidence {
	if len(o.sources) == 0 {
		return func(int64, int64) record.Evidence { return record.Evidence{} }
	}
	watch := telemetry.Start(o.ctx, o.sources, scrapeEvery(r.Stage.Measure.Std()))
	return func(start, end int64) record.Evidence {
		f := watch.Stop(start, end)
		return record.Evidence{Telemetry: recorded(f), BlockSize: f.BlockSize}
	}
}

// scrapeEvery is the time between two scrapes in a window of that length: a
// short one must have some, too.
func scrapeEvery(window time.Duration) time.Duration {
	const least = 50 * time.Millisecond
	return max(least, min(telemetry.Interval, window/10))
}

// recorded is what a rung keeps of its telemetry.
func recorded(f telemetry.Figures) *record.Telemetry {
	known := record.Known // NaN is unknown there, too
	return &record.Telemetry{
		Source: strings.Join(f.Sources, ", "), Scrapes: f.Scrapes, ScrapeFailures: f.Failures,
		KVCacheUsageMax:     known(f.KVUsageMax),
		RequestsRunningMean: known(f.RunningMean), RequestsRunningMax: known(f.RunningMax), RequestsWaitingMean: known(f.WaitingMean),
		Preemptions: known(f.Preemptions), PrefixCacheHitRatio: known(f.PrefixHitRatio),
		QueueTimeMeanMS: known(f.QueueTimeMean).Scale(1e3), ServerTTFTMeanMS: known(f.TTFTMean).Scale(1e3),
		ServerRequests: known(f.Requests), ServerOutputTokens: known(f.OutputTokens), SpecDecodeAcceptance: known(f.DraftAcceptance),
		GPUPowerWMean: known(f.GPUPowerMean), GPUUtilisationMean: known(f.GPUUtilisation), GPUMemoryUsedMaxMiB: known(f.GPUMemoryMaxMiB),
	}
}

// close releases the connections.
func (o *observer) close() {
	for _, p := range o.pages {
		p.Close()
	}
}
