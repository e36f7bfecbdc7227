package knee

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/headway-bench/headway/loadgen/record"
	"github.com/headway-bench/headway/report/sweep"
)

func readSweep(t *testing.T, name string) []Point {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "testdata", "sweeps", name))
	if err != nil {
		t.Fatal(err)
	}
	sweeps, err := sweep.Read(bytes.NewReader(raw), name)
	if err != nil {
		t.Fatal(err)
	}
	return FromRungs(sweeps[0].Rungs)
}

func TestPublishedSweeps(t *testing.T) {
	tests := []struct {
		file   string
		status Status
		value  func(Knee) record.Value
		lo, hi float64
	}{
		{"t1.csv", Found, func(k Knee) record.Value { return k.InFlight }, 75, 92},
		{"t18.csv", Found, func(k Knee) record.Value { return k.InFlight }, 5, 6},
		{"t14.csv", NotReached, nil, 0, 0},
		{"t6.csv", Found, func(k Knee) record.Value { return k.RatePerS }, 117 * 0.97, 117 * 1.03},
		{"t8.csv", Found, func(k Knee) record.Value { return k.RatePerS }, 73 * 0.97, 73 * 1.03},
		{"t10.csv", Found, func(k Knee) record.Value { return k.RatePerS }, 79 * 0.97, 79 * 1.03},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			k := Fit(readSweep(t, tt.file), Options{})
			t.Logf("%+v", k)
			if k.Status != tt.status {
				t.Fatalf("status %s, want %s", k.Status, tt.status)
			}
			if tt.value == nil {
				return
			}
			if v, ok := tt.value(k).Float(); !ok || v < tt.lo || v > tt.hi {
				t.Errorf("knee %v, want %v to %v", v, tt.lo, tt.hi)
			}
		})
	}
}
