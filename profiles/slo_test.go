package profiles

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseSLOs(t *testing.T) {
	for _, test := range []struct {
		list string
		want []SLO
	}{
		{"ttft_p95=500ms", []SLO{{"ttft", "p95", false, 500, "500ms"}}},
		{"ttft_p95<=0.5s", []SLO{{"ttft", "p95", false, 500, "0.5s"}}},
		{"itl_mean=800us", []SLO{{"itl", "mean", false, 0.8, "800us"}}},
		{"tps_p05>=20", []SLO{{"tps", "p05", true, 20, "20"}}},
		{"tps_p05=20", []SLO{{"tps", "p05", true, 20, "20"}}},
		{"tps_mean >= 20 tok/s", []SLO{{"tps", "mean", true, 20, "20 tok/s"}}},
		{"goodput>=4req/s", []SLO{{"goodput", "", true, 4, "4req/s"}}},
		{"request_throughput>=0.5", []SLO{{"request_throughput", "", true, 0.5, "0.5"}}},
		{"output_token_throughput>=1000/s", []SLO{{"output_token_throughput", "", true, 1000, "1000/s"}}},
		{"error_rate=0.5%", []SLO{{"error_rate", "", false, 0.005, "0.5%"}}},
		{"error_rate=0", []SLO{{"error_rate", "", false, 0, "0"}}},
		{"kv_cache_usage<=95%", []SLO{{"kv_cache_usage", "", false, 0.95, "95%"}}},
		{"preemptions=0", []SLO{{"preemptions", "", false, 0, "0"}}},
		{"ttfo_p99=2s,e2e_p50=1m,icl_p90=9ms", []SLO{{"e2e", "p50", false, 60000, "1m"}, {"icl", "p90", false, 9, "9ms"}, {"ttfo", "p99", false, 2000, "2s"}}},
		{" tpot_p99 = 200ms , error_rate = 1 % ", []SLO{{"error_rate", "", false, 0.01, "1 %"}, {"tpot", "p99", false, 200, "200ms"}}},
	} {
		t.Run(test.list, func(t *testing.T) {
			got, err := ParseSLOs(test.list)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, limit := range got {
				again, err := ParseSLOs(limit.String())
				if err != nil || len(again) != 1 || again[0] != limit {
					t.Errorf("%s reads as %v, %v", limit, again, err)
				}
			}
		})
	}
}

func TestParseSLOFaults(t *testing.T) {
	for list, want := range map[string]string{
		"":                              `slo: "" is no limit; write ttft_p95=500ms or tps_p05>=20, joined by commas`,
		"ttft_p95":                      `slo: "ttft_p95" is no limit`,
		"ttft_p95=500":                  `slo.ttft_p95: "500" is no limit for it; write a time above 0 with its unit: 500ms or 2s`,
		"ttft_p95=-1ms":                 `write a time above 0`,
		"ttft_p95=5%":                   `slo.ttft_p95: "5%" is no limit for it`,
		"ttft_p95>=500ms":               `slo.ttft_p95: is limited from the wrong side: less is better; write ttft_p95<=500ms`,
		"ttft_p95<500ms":                `"<500ms" is no limit for it`,
		"tps_p05<=20":                   `slo.tps_p05: is limited from the wrong side: more is better; write tps_p05>=20`,
		"tps_p05>=20ms":                 `"20ms" is no limit for it; write a number above 0 per second: 20 or 20tok/s`,
		"tps_p05>=0":                    `write a number above 0 per second`,
		"tps_p95>=20":                   `slo.tps_p95: unknown metric; did you mean "tps_p05"?`,
		"ttft_p0=1s":                    `slo.ttft_p0: unknown metric`,
		"ttft_p100=1s":                  `slo.ttft_p100: unknown metric`,
		"ttft_p-5=1s":                   `slo.ttft_p-5: unknown metric`,
		"ttft=500ms":                    `slo.ttft: ttft needs a statistic; write ttft_mean, ttft_p50, ttft_p90, ttft_p95, ttft_p99`,
		"error_rate=0.005":              `write a percentage from 0% to 100%: 0.5%`,
		"error_rate=101%":               `write a percentage from 0% to 100%`,
		"error_rate=NaN%":               `write a percentage from 0% to 100%`,
		"preemptions=0.5":               `write a count: 0`,
		"latency_p95=1s":                `slo.latency_p95: unknown metric; known are ttft_mean,`,
		"ttft_p95=1s,ttft_p95=2s":       `slo.ttft_p95: stands twice`,
		"ttft_p95=1,tps_p05<=2,x_p95=3": "slo.tps_p05: is limited",
	} {
		t.Run(list, func(t *testing.T) {
			_, err := ParseSLOs(list)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
	_, err := ParseSLOs("ttft_p95=1,tps_p05<=2,x_p95=3")
	if lines := strings.Split(err.Error(), "\n"); len(lines) != 3 {
		t.Errorf("%d of 3 faults told: %v", len(lines), err)
	}
}

func TestSLOName(t *testing.T) {
	for want, s := range map[string]SLO{"ttft_p95": {Metric: "ttft", Stat: "p95"}, "error_rate": {Metric: "error_rate"}} {
		if got := s.Name(); got != want {
			t.Errorf("Name() = %q, want %q", got, want)
		}
	}
}
