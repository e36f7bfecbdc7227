package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/headway-bench/headway/backends/reference"
	"github.com/headway-bench/headway/backends/reference/cpu"
	"github.com/headway-bench/headway/backends/reference/sim"
	"github.com/headway-bench/headway/backends/sched"
	"github.com/headway-bench/headway/backends/tokenizer"
)

// drainTime is how long requests in progress may take to end after a signal.
const drainTime = 2 * time.Second

// promptTokens are the prompt tokens that a step of the cpu executor computes
// at most beside a full batch, so that a long prompt holds up no stream.
const promptTokens = 64

// maxThreads bounds --threads and --lanes.
const maxThreads = 1024

// serveFlags are the flags of `headway serve`.
type serveFlags struct {
	addr, model, served              string
	law, gpu, faults, tokenizer      string
	kvMemory, apiKeyEnv, emissionLog string
	executor, kv, batching           *choice
	maxNumSeqs, maxModelLen          int
	blockSize, batchSize, chunked    int
	threads, lanes                   int
	batchWindow                      time.Duration
	seed                             int64
}

func newServeCommand() *cobra.Command {
	f := &serveFlags{}
	cmd := &cobra.Command{
		Use:   "serve --executor cpu|sim --model DIR|NAME",
		Short: "Serve a model, computed or simulated, by vLLM's API",
		Long: `serve answers vLLM's HTTP API: completions and chat, streamed and not, models,
health, version, tokenize and metrics. The cpu executor computes a Llama model;
the sim executor computes nothing and takes the time that a law or the roofline
of a GPU predicts.`,
		Example: `  headway serve --executor cpu --model tiny-llama-3.1
  headway serve --executor sim --law slots=16,ttft=50ms,itl=10ms+0.1ms*n
  headway serve --executor sim --model llama-3.1-8b --gpu H100-SXM-80GB`,
		Args: takes(0, 0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error { return serve(cmd, f) },
	}
	f.add(cmd.Flags())
	return cmd
}

// add defines the flags.
func (f *serveFlags) add(fl *pflag.FlagSet) {
	f.executor = &choice{value: "cpu", allowed: []string{"cpu", "sim"}}
	f.kv = &choice{value: "paged", allowed: []string{"paged", "contiguous"}}
	f.batching = &choice{value: "continuous", allowed: []string{"continuous", "static"}}
	fl.StringVar(&f.addr, "addr", "127.0.0.1:8000", "address to listen on; with port 0 a free one, printed on stdout")
	fl.Var(f.executor, "executor", "what computes")
	fl.StringVar(&f.model, "model", "tiny-llama-3.1", "a model's directory, or its name")
	fl.StringVar(&f.served, "served-model-name", "", "the model's id in the API (default: --model)")
	fl.StringVar(&f.law, "law", "", "times of a simulated server (sim), as slots=16,ttft=50ms,itl=10ms+0.1ms*n")
	fl.StringVar(&f.gpu, "gpu", "", "GPU whose roofline gives the times (sim), as H100-SXM-80GB or 4xH100-SXM-80GB")
	fl.StringVar(&f.faults, "faults", "", "faults on demand (sim), as truncate=10%,stall=5%:2s,seed=7; there are "+strings.Join(reference.FaultNames(), ", "))
	fl.StringVar(&f.tokenizer, "tokenizer", "", "tokenizer of the simulated model (sim): its directory or tokenizer.json (default: one of bytes)")
	fl.IntVar(&f.maxNumSeqs, "max-num-seqs", 0, "sequences that run at once (default: 256; with --law its slots)")
	fl.IntVar(&f.maxModelLen, "max-model-len", 0, "tokens of prompt and output together (default: the model's)")
	fl.StringVar(&f.kvMemory, "kv-cache-memory", "", "memory of the KV cache, as 512MiB (default: 512MiB; for sim what is needed or the GPU leaves)")
	fl.IntVar(&f.blockSize, "block-size", 16, "positions in a block of the KV cache")
	fl.Var(f.kv, "kv", "how sequences get their KV cache: block by block, or all at once for the longest output")
	fl.Var(f.batching, "batching", "when sequences join: at each step, or in fixed batches")
	fl.IntVar(&f.batchSize, "batch-size", 8, "sequences of a static batch")
	fl.DurationVar(&f.batchWindow, "batch-window", 5*time.Millisecond, "how long a static batch waits to be full")
	fl.IntVar(&f.chunked, "chunked-prefill", -1, "tokens computed in a step at most, prompts cut to fit; 0 sets no limit, -1 is 64 beyond --max-num-seqs on the cpu and no limit else")
	fl.StringVar(&f.apiKeyEnv, "api-key-env", "", "variable that holds the key that clients must send")
	fl.StringVar(&f.emissionLog, "emission-log", "", "file for a JSON line a request: when its tokens really left")
	fl.IntVar(&f.threads, "threads", 0, "threads that compute (cpu; default: all processors)")
	fl.IntVar(&f.lanes, "lanes", 0, "threads that write (sim; default: half the processors, at most 4)")
	fl.Int64Var(&f.seed, "seed", 0, "seed of made-up weights and of sampling")
}

// serve runs a server until the context ends or a signal comes.
func serve(cmd *cobra.Command, f *serveFlags) error {
	reference.RaiseFileLimit()
	cfg, err := f.config()
	if err != nil {
		return err
	}
	defer cfg.Executor.Close()
	if f.emissionLog != "" {
		file, err := os.Create(f.emissionLog)
		if err != nil {
			return usagef("--emission-log: %w", err)
		}
		defer file.Close()
		cfg.EmissionLog = file
	}
	// Until here a signal ends the program at once: a large model takes long to
	// read.
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	info := cfg.Executor.Info()
	if info.Simulated {
		// A thread that sleeps to a time must find a processor when it wakes, and
		// memory is cheaper than a collection in between.
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 2)
		debug.SetGCPercent(400)
		sched.ShortenSlices()
	}
	s, err := reference.Start(cfg)
	if err != nil {
		return listenError(f.addr, err)
	}
	what := fmt.Sprintf("%s by %s on %s", info.Name, info.Executor, info.Device)
	if info.Simulated {
		what += "; SIMULATED: no model is computed"
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "headway: serving %s at %s\n", what, s.URL())
	if strings.HasSuffix(f.addr, ":0") {
		line, err := json.Marshal(map[string]string{"addr": s.Addr()})
		if err != nil {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s\n", line)
	}
	<-ctx.Done()
	drain, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	return s.Shutdown(drain)
}

// listenError says what to do about a server that could not start.
func listenError(addr string, err error) error {
	var network *net.OpError
	switch {
	case !errors.As(err, &network):
		return usagef("%w", err)
	case errors.Is(err, syscall.EADDRINUSE):
		return exitWith(exitNoResult, fmt.Errorf("%s is in use by another program; end it, or choose another with --addr HOST:PORT, where port 0 is a free one", addr))
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EADDRNOTAVAIL):
		return exitWith(exitNoResult, fmt.Errorf("--addr %s can't be listened on: %w; choose another HOST:PORT, as 127.0.0.1:0", addr, network.Err))
	}
	return usagef("--addr %s: %w; an address is HOST:PORT, as 127.0.0.1:8000", addr, network.Err)
}

// config makes the server's configuration of the flags.
func (f *serveFlags) config() (reference.Config, error) {
	cfg := reference.Config{
		Addr: f.addr, ServedModelName: f.served, MaxModelLen: f.maxModelLen, MaxNumSeqs: cmp.Or(f.maxNumSeqs, 256),
		ChunkedPrefill: max(0, f.chunked), Contiguous: f.kv.value == "contiguous", Static: f.batching.value == "static",
		BatchSize: f.batchSize, BatchWindow: int64(f.batchWindow), Lanes: f.lanes, Seed: uint64(f.seed), Version: thisBuild().Version,
	}
	cfg.KV.BlockSize = f.blockSize
	switch {
	case f.maxNumSeqs < 0:
		return cfg, usagef("--max-num-seqs must be at least 1, not %d", f.maxNumSeqs)
	case f.blockSize < 1:
		return cfg, usagef("--block-size must be at least 1, not %d", f.blockSize)
	case f.batchSize < 1:
		return cfg, usagef("--batch-size must be at least 1, not %d", f.batchSize)
	case f.chunked < -1:
		return cfg, usagef("--chunked-prefill must be a number of tokens, 0 or -1, not %d", f.chunked)
	case f.threads < 0 || f.threads > maxThreads:
		return cfg, usagef("--threads must be between 1 and %d, or 0 for all processors, not %d", maxThreads, f.threads)
	case f.lanes < 0 || f.lanes > maxThreads:
		return cfg, usagef("--lanes must be between 1 and %d, or 0 for the default, not %d", maxThreads, f.lanes)
	case f.maxModelLen < 0 || f.batchWindow < 0:
		return cfg, usagef("--max-model-len and --batch-window can't be negative")
	case f.chunked > 0 && cfg.Static:
		return cfg, usagef("--chunked-prefill needs --batching continuous")
	case f.executor.value != "sim" && (f.law != "" || f.gpu != "" || f.faults != "" || f.tokenizer != ""):
		return cfg, usagef("--law, --gpu, --faults and --tokenizer need --executor sim")
	}
	if f.apiKeyEnv != "" {
		if cfg.APIKey = os.Getenv(f.apiKeyEnv); cfg.APIKey == "" {
			return cfg, usagef("--api-key-env: the variable %s is not set", f.apiKeyEnv)
		}
	}
	var memory int64
	if f.kvMemory != "" {
		var err error
		if memory, err = parseBytes(f.kvMemory); err != nil {
			return cfg, usagef("--kv-cache-memory: %w", err)
		}
	}
	if f.executor.value == "sim" {
		return f.simulated(cfg, memory)
	}
	return f.computed(cfg, memory)
}

// computed opens a model on the CPU.
func (f *serveFlags) computed(cfg reference.Config, memory int64) (reference.Config, error) {
	m, err := cpu.Open(f.model, f.seed)
	if err != nil {
		return cfg, usagef("--model: %w", err)
	}
	if cfg.Tokenizer, err = m.Tokenizer(); err != nil {
		return cfg, usagef("--model: %w", err)
	}
	if memory == 0 {
		memory = 512 << 20
	}
	if f.chunked < 0 && !cfg.Static {
		cfg.ChunkedPrefill = cfg.MaxNumSeqs + promptTokens
	}
	if cfg.KV.Blocks = blocks(memory, m.KVBytesPerToken(), f.blockSize); cfg.KV.Blocks < 1 {
		return cfg, usagef("--kv-cache-memory: %d bytes hold no block of %d positions", memory, f.blockSize)
	}
	cfg.Executor, err = cpu.New(m, cfg.KV, f.threads)
	return cfg, err
}

// simulated makes a simulating executor.
func (f *serveFlags) simulated(cfg reference.Config, memory int64) (reference.Config, error) {
	if (f.law == "") == (f.gpu == "") {
		return cfg, usagef("--executor sim needs one of --law slots=16,ttft=50ms,itl=10ms and --gpu H100-SXM-80GB")
	}
	shape, err := sim.Model(f.model)
	if err != nil {
		return cfg, usagef("--model: %w", err)
	}
	t := tokenizer.Bytes(shape.Vocab)
	if f.tokenizer != "" {
		if t, err = tokenizer.Load(f.tokenizer); err != nil {
			return cfg, usagef("--tokenizer: %w", err)
		}
		if shape, err = shape.Speaking(t); err != nil {
			return cfg, usagef("--tokenizer: %w", err)
		}
	}
	cfg.Tokenizer = t
	info := shape.Info(f.model)
	if f.law != "" {
		law, err := sim.ParseLaw(f.law)
		if err != nil {
			return cfg, usagef("--law: %w", err)
		}
		cfg.Executor = sim.NewLaw(law, info)
		if cfg.MaxNumSeqs = f.maxNumSeqs; law.Slots > 0 && (f.maxNumSeqs == 0 || law.Slots < f.maxNumSeqs) {
			cfg.MaxNumSeqs = law.Slots
		}
		if memory == 0 {
			memory = 1 << 40
		}
	} else {
		gpu, err := sim.ParseGPU(f.gpu)
		if err != nil {
			return cfg, usagef("--gpu: %w", err)
		}
		r, err := sim.NewRoofline(gpu, f.model, shape)
		if err != nil {
			return cfg, usagef("--gpu: %w", err)
		}
		cfg.Executor = r
		if memory == 0 {
			memory = r.KVMemory()
		}
	}
	if f.faults != "" {
		if cfg.Faults, err = reference.ParseFaults(f.faults); err != nil {
			return cfg, usagef("--faults: %w", err)
		}
	}
	if cfg.KV.Blocks = blocks(memory, info.KVBytesPerToken, f.blockSize); cfg.KV.Blocks < 1 {
		return cfg, usagef("--kv-cache-memory: %d bytes hold no block of %d positions", memory, f.blockSize)
	}
	return cfg, nil
}

// blocks is the number of KV blocks that memory holds, at most a million.
func blocks(memory, perToken int64, size int) int {
	return int(min(1<<20, memory/(perToken*int64(size))))
}

// parseBytes reads a size such as 512MiB or 2GB.
func parseBytes(text string) (int64, error) {
	units := []struct {
		name  string
		bytes float64
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}}
	for _, u := range units {
		if number, ok := strings.CutSuffix(text, u.name); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
			if err != nil || !(v > 0) || v*u.bytes > 1<<60 {
				break
			}
			return int64(v * u.bytes), nil
		}
	}
	return 0, errors.New(strconv.Quote(text) + " is no size with a unit, as 512MiB or 2GB")
}
