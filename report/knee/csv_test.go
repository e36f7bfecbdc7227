package knee

import (
	"errors"
	"strings"
	"testing"
)

func TestReadCSVErrors(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"empty", "", "it is empty"},
		{"header only", "concurrency,output_token_throughput_per_s\n", "no rung"},
		{"unknown column", "concurency,output_token_throughput_per_s\n1,2\n", `s.csv:1:1: not a sweep table: unknown column "concurency"; the nearest name is "concurrency"`},
		{"column twice", "concurrency,concurrency\n1,2\n", "s.csv:1:13:"},
		{"no load", "output_token_throughput_per_s\n1\n", "no column says the load"},
		{"no throughput", "concurrency\n1\n", "no column says the throughput"},
		{"text in a cell", "concurrency,output_token_throughput_per_s\n1,50\n2,fast\n", `s.csv:3:3: not a sweep table: output_token_throughput_per_s is "fast"`},
		{"negative", "concurrency,output_token_throughput_per_s\n-1,50\n", "s.csv:2:1:"},
		{"NaN", "concurrency,output_token_throughput_per_s\nNaN,50\n", "s.csv:2:1:"},
		{"infinite", "concurrency,output_token_throughput_per_s\n1,1e999\n", "s.csv:2:3:"},
		{"short row", "concurrency,output_token_throughput_per_s\n1\n", "s.csv:2:1: not a sweep table: the row does not have the 2 cells of the header"},
		{"open quote", "concurrency,output_token_throughput_per_s\n\"1,2\n", "s.csv:2:"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := ReadCSV(strings.NewReader(tt.in), "s.csv")
			if err == nil || !strings.Contains(err.Error(), tt.want) || !errors.Is(err, ErrTable) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

func TestReadCSV(t *testing.T) {
	points, warnings, err := ReadCSV(strings.NewReader("\ufeffconcurrency, request_throughput_per_s, e2e_mean_ms, in_flight\r\n8,4,1500,-\r\n16,5,,12\r\n"), "s.csv")
	if err != nil {
		t.Fatal(err)
	}
	if len(points) != 2 || points[0].InFlight.Or(0) != 6 || points[1].InFlight.Or(0) != 12 || points[1].E2EMeanMS.OK() {
		t.Errorf("points %+v", points)
	}
	if len(warnings) != 1 || warnings[0].Code != "in_flight_derived" {
		t.Errorf("Little's law is used without a word: %+v", warnings)
	}
}

// What reads is fitted without a panic, and every reading is a known name.
func FuzzReadCSV(f *testing.F) {
	f.Add("concurrency,output_token_throughput_per_s\n1,51.67\n5,218.48\n25,623.4\n50,814.37\n100,917\n250,920\n")
	f.Add("rate_req_per_s,request_throughput_per_s,e2e_mean_ms\n1,1,480\n40,40,560\n80,79,3000\n120,79,4000\n160,78,4200\n")
	f.Add("in_flight,request_throughput_per_s\n-,1\n1,-\n1e300,1e300\n1e-300,1\n0,0\n2,3\n")
	f.Add("\"concurrency\",itl_mean_ms,output_token_throughput_per_s\n1,,2\n")
	f.Fuzz(func(t *testing.T, in string) {
		points, _, err := ReadCSV(strings.NewReader(in), "fuzz.csv")
		if err != nil {
			if !errors.Is(err, ErrTable) {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		if len(points) == 0 || len(points) > 40 {
			return
		}
		k := Fit(points, Options{Resamples: 3})
		if at, ok := k.InFlight.Float(); ok && !(at > 0) {
			t.Fatalf("knee at %v", at)
		}
		if k.Status == Found && !k.InFlight.OK() && !k.RatePerS.OK() {
			t.Fatal("found nowhere")
		}
	})
}
