package reference

import (
	"strings"
	"testing"
	"time"
)

func TestParseFaults(t *testing.T) {
	f, err := ParseFaults("truncate=10%, stall=2.5%:200ms ,http_429=1%,seed=7")
	if err != nil {
		t.Fatal(err)
	}
	want := []FaultRule{{Truncate, 0.1, 0}, {StallMid, 0.025, 200 * time.Millisecond}, {HTTP429, 0.01, time.Second}}
	if f.Seed != 7 || len(f.Rules) != 3 || f.Rules[0] != want[0] || f.Rules[1] != want[1] || f.Rules[2] != want[2] {
		t.Errorf("got %+v, want %v", f, want)
	}
	for text, wrong := range map[string]string{
		"":                          "is not name=rate",
		"truncate":                  "is not name=rate",
		"trunkate=10%":              "unknown fault",
		"truncate=10":               "percentage",
		"truncate=-1%":              "percentage",
		"truncate=NaN%":             "percentage",
		"truncate=101%":             "percentage",
		"truncate=10%:1s":           "takes no duration",
		"stall=10%:soon":            "duration of stall",
		"stall=10%:-1s":             "duration of stall",
		"truncate=1%,truncate=2%":   "given twice",
		"truncate=60%,http_500=41%": "more than 100%",
		"seed=x":                    "seed must be",
	} {
		if _, err := ParseFaults(text); err == nil || !strings.Contains(err.Error(), wrong) {
			t.Errorf("ParseFaults(%q) gave %v, want an error with %q", text, err, wrong)
		}
	}
}

func TestFaultsAreDrawnAtTheirRate(t *testing.T) {
	f, err := ParseFaults("truncate=10%,cut=5%,seed=3")
	if err != nil {
		t.Fatal(err)
	}
	count := map[Fault]int{}
	for n := range uint64(10000) {
		r := f.Draw(n)
		if again := f.Draw(n); again != r {
			t.Fatalf("request %d meets %v, then %v", n, r, again)
		}
		count[r.Fault]++
	}
	// Three standard deviations of a binomial count.
	if c := count[Truncate]; c < 910 || c > 1090 {
		t.Errorf("%d of 10000 requests truncate, want about 1000", c)
	}
	if c := count[Cut]; c < 435 || c > 565 {
		t.Errorf("%d of 10000 requests are cut, want about 500", c)
	}
}

func FuzzParseFaults(f *testing.F) {
	f.Add("truncate=10%,stall=5%:2s,seed=7")
	f.Fuzz(func(t *testing.T, text string) {
		faults, err := ParseFaults(text)
		if err != nil {
			return
		}
		sum := 0.0
		for _, r := range faults.Rules {
			if !(r.Rate >= 0 && r.Rate <= 1) || r.Duration < 0 {
				t.Fatalf("%q gave %+v", text, r)
			}
			sum += r.Rate
		}
		if sum > 1.0001 {
			t.Fatalf("%q gave rates of %v in all", text, sum)
		}
	})
}
