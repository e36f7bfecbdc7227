package sim

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/headway-bench/headway/backends/reference"
)

// TestParameters holds shapes to the sizes that their model cards state.
func TestParameters(t *testing.T) {
	for name, billions := range map[string]float64{
		"llama-2-7b": 6.738, "llama-2-13b": 13.016, "llama-2-70b": 68.977,
		"llama-3-8b": 8.030, "llama-3.1-8b": 8.030, "llama-3.1-70b": 70.554, "llama-3.1-405b": 405.85,
		"llama-3.2-1b": 1.236, "llama-3.2-3b": 3.213, "llama-3.3-70b": 70.554,
	} {
		s, err := Model(name)
		if err != nil {
			t.Error(err)
			continue
		}
		if got := float64(s.Parameters()) / 1e9; math.Abs(got-billions) > 0.001*billions {
			t.Errorf("%s has %.3f billion parameters, want %.3f", name, got, billions)
		}
	}
	if s, _ := Model("llama-3.1-8b"); s.Info("").KVBytesPerToken != 131072 {
		t.Errorf("llama-3.1-8b keeps %d bytes a token, want 128 KiB", s.Info("").KVBytesPerToken)
	}
	if _, err := Model("llama-9"); err == nil || !strings.Contains(err.Error(), "llama-3.1-8b") {
		t.Errorf("an unknown model gave %v, want the list of names", err)
	}
}

func TestParseGPU(t *testing.T) {
	g, err := ParseGPU("4xH100-SXM-80GB")
	if err != nil || g.Count != 4 || g.Bandwidth != 3350e9 {
		t.Errorf("got %+v, %v", g, err)
	}
	for _, text := range []string{"", "H100", "0xH100-SXM-80GB", "2xMI300X", "-1xL4-24GB"} {
		if g, err := ParseGPU(text); err == nil {
			t.Errorf("ParseGPU(%q) gave %+v, want an error", text, g)
		}
	}
}

// TestStepTimes checks the two floors by hand for Llama 3.1 8B on an H100:
// decoding one sequence reads 15 GB of weights, 4.48 ms at 3.35 TB/s; a prompt
// of 8192 tokens needs 2 FLOP a weight and token, and attention besides.
func TestStepTimes(t *testing.T) {
	shape, err := Model("llama-3.1-8b")
	if err != nil {
		t.Fatal(err)
	}
	gpu, err := ParseGPU("H100-SXM-80GB")
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewRoofline(gpu, "llama-3.1-8b", shape)
	if err != nil {
		t.Fatal(err)
	}
	weights := 8.030261248e9 - 128256*4096 - 4096
	decode := &reference.Slice{Tokens: make([]int32, 1), Start: 999, At: 100, Want: true}
	prefill := &reference.Slice{Tokens: make([]int32, 8192), Prefill: true, Want: true}
	attention := 4.0 * 32 * 32 * 128 * (8192 * 8193 / 2)
	for _, tt := range []struct {
		name   string
		slices []*reference.Slice
		want   float64 // seconds
	}{
		{"one decoding", []*reference.Slice{decode}, (2*weights + 1000*131072) / 3.35e12},
		{"two decoding", []*reference.Slice{decode, {Tokens: make([]int32, 1), Start: 999}}, (2*weights + 2*1000*131072) / 3.35e12},
		{"prefill", []*reference.Slice{prefill}, (2*weights*8192 + attention) / 989e12},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := r.Step(context.Background(), &reference.Batch{At: 50, Slices: tt.slices}); err != nil {
				t.Fatal(err)
			}
			for _, sl := range tt.slices {
				got := float64(sl.Done-max(50, tt.slices[0].At)) / 1e9
				if math.Abs(got-tt.want) > 1e-3*tt.want {
					t.Errorf("took %.6f s, want %.6f s", got, tt.want)
				}
			}
		})
	}
	big, err := Model("llama-3.1-70b")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewRoofline(gpu, "llama-3.1-70b", big); err == nil || !strings.Contains(err.Error(), "does not fit") {
		t.Errorf("70B on one H100 gave %v, want that it does not fit", err)
	}
}

// TestBatchingPays: weights are read once for a whole batch, so that 32 users
// get far more than twice the tokens of one.
func TestBatchingPays(t *testing.T) {
	shape, err := Model("llama-3.1-8b")
	if err != nil {
		t.Fatal(err)
	}
	gpu, err := ParseGPU("H100-SXM-80GB")
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewRoofline(gpu, "llama-3.1-8b", shape)
	if err != nil {
		t.Fatal(err)
	}
	one, many := closedLoop(r, 0, 1, 100), closedLoop(r, 0, 32, 100)
	if one < 180 || one > 225 {
		t.Errorf("one user gets %.0f tokens/s, want about 3.35e12/15e9 = 223 less the prefill", one)
	}
	if many < 15*one {
		t.Errorf("32 users get %.0f tokens/s, one gets %.0f", many, one)
	}
}
