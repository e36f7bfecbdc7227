package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/headway-bench/headway/backends/reference"
)

// GPU is what a roofline needs of an accelerator, from its data sheet.
type GPU struct {
	Name string
	// Memory is in bytes; Bandwidth in bytes/s; Compute in dense bfloat16
	// FLOP/s.
	Memory             int64
	Bandwidth, Compute float64
	// Count is how many share the model by tensor parallelism; memory,
	// bandwidth and compute are taken times Count, links as free.
	Count int
}

// gpus are the accelerators by name.
var gpus = map[string]GPU{
	"A10-24GB":       {Memory: 24e9, Bandwidth: 600e9, Compute: 125e12},
	"A100-PCIE-40GB": {Memory: 40e9, Bandwidth: 1555e9, Compute: 312e12},
	"A100-SXM-40GB":  {Memory: 40e9, Bandwidth: 1555e9, Compute: 312e12},
	"A100-PCIE-80GB": {Memory: 80e9, Bandwidth: 1935e9, Compute: 312e12},
	"A100-SXM-80GB":  {Memory: 80e9, Bandwidth: 2039e9, Compute: 312e12},
	"L4-24GB":        {Memory: 24e9, Bandwidth: 300e9, Compute: 121e12},
	"L40S-48GB":      {Memory: 48e9, Bandwidth: 864e9, Compute: 362e12},
	"H100-PCIE-80GB": {Memory: 80e9, Bandwidth: 2000e9, Compute: 756e12},
	"H100-SXM-80GB":  {Memory: 80e9, Bandwidth: 3350e9, Compute: 989e12},
	"H200-SXM-141GB": {Memory: 141e9, Bandwidth: 4800e9, Compute: 989e12},
	"B200-SXM-180GB": {Memory: 180e9, Bandwidth: 8000e9, Compute: 2250e12},
	"MI300X-192GB":   {Memory: 192e9, Bandwidth: 5300e9, Compute: 1307e12},
}

// GPUs lists the names that ParseGPU knows.
func GPUs() []string { return slices.Sorted(maps.Keys(gpus)) }

// ParseGPU reads a name such as "H100-SXM-80GB" or "4xH100-SXM-80GB".
func ParseGPU(text string) (GPU, error) {
	name, count := text, 1
	if n, rest, ok := strings.Cut(text, "x"); ok {
		if v, err := strconv.Atoi(n); err == nil {
			name, count = rest, v
		}
	}
	g, ok := gpus[name]
	if !ok {
		return g, fmt.Errorf("no data of a GPU %q; there are %s, with a count before as in 4xH100-SXM-80GB", name, strings.Join(GPUs(), ", "))
	}
	if count < 1 || count > 1024 {
		return g, fmt.Errorf("%d GPUs in %q; give 1 to 1024", count, text)
	}
	g.Name, g.Count = text, count
	return g, nil
}

// Roofline predicts the time of a step as the larger of two floors: the bytes
// that must be read (all weights once, and the KV cache of every sequence) at
// the GPU's bandwidth, and the arithmetic at its peak (Williams, Waterman,
// Patterson 2009). It is what the hardware allows, not what an engine reaches.
type Roofline struct {
	gpu   GPU
	shape Shape
	info  reference.ModelInfo
}

// NewRoofline returns an executor of a model on a GPU. It is an error when
// the weights do not fit.
func NewRoofline(g GPU, name string, s Shape) (*Roofline, error) {
	info := s.Info(name)
	info.Executor, info.Device, info.Simulated = "sim", g.Name+" (simulated)", true
	r := &Roofline{gpu: g, shape: s, info: info}
	if free := r.KVMemory(); free < info.KVBytesPerToken*16 {
		return nil, fmt.Errorf("%s has %.0f GB of weights and does not fit into %s (%.0f GB); give more GPUs, as in 4xH100-SXM-80GB",
			name, float64(s.Parameters()*weightBytes)/1e9, g.Name, float64(g.Memory*int64(g.Count))/1e9)
	}
	return r, nil
}

// KVMemory is what the weights leave of nine tenths of the GPU's memory, in
// bytes: the share that engines take by default.
func (r *Roofline) KVMemory() int64 {
	return int64(0.9*float64(r.gpu.Memory)*float64(r.gpu.Count)) - r.shape.Parameters()*weightBytes
}

// Info describes the model that is pretended.
func (r *Roofline) Info() reference.ModelInfo { return r.info }

// Step sets each result, all to be there at the end of one step.
func (r *Roofline) Step(_ context.Context, b *reference.Batch) error {
	start := b.At
	for _, sl := range b.Slices {
		start = max(start, sl.At)
	}
	done := start + int64(1e9*r.seconds(b))
	for _, sl := range b.Slices {
		sl.Done = done
		if sl.Want {
			pretend(sl, &r.info)
		}
	}
	return nil
}

// seconds is the time of one step.
func (r *Roofline) seconds(b *reference.Batch) float64 {
	var tokens, reads, pairs float64 // pairs: (query, key) positions of attention
	for _, sl := range b.Slices {
		n, before := float64(len(sl.Tokens)), float64(sl.Start)
		tokens += n
		reads += before + n
		pairs += n*before + n*(n+1)/2
	}
	s := r.shape
	bytes := float64(s.multiplied()*weightBytes) + reads*float64(r.info.KVBytesPerToken)
	flops := 2*float64(s.multiplied())*tokens + 4*float64(s.Layers*s.Heads*s.HeadDim)*pairs
	count := float64(r.gpu.Count)
	return max(bytes/(r.gpu.Bandwidth*count), flops/(r.gpu.Compute*count))
}

// Close does nothing.
func (r *Roofline) Close() error { return nil }
