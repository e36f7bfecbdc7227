package reference

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/headway-bench/headway/backends/clock"
)

// Config is what a server serves and how. Executor, Tokenizer and KV are
// needed; the zero value of everything else is a default.
type Config struct {
	Executor  Executor
	Tokenizer Tokenizer
	// KV is the executor's KV cache.
	KV KVConfig
	// Addr is where to listen; "" is a free port of 127.0.0.1.
	Addr string
	// ServedModelName is the model's id in the API; "" is the executor's name.
	ServedModelName string
	// MaxModelLen bounds prompt and output together; 0 is the model's own. It
	// is never more than the KV cache holds.
	MaxModelLen int
	// MaxNumSeqs, ChunkedPrefill, Contiguous, Static, BatchSize and BatchWindow
	// are SchedulerConfig's.
	MaxNumSeqs     int
	ChunkedPrefill int
	Contiguous     bool
	Static         bool
	BatchSize      int
	BatchWindow    int64
	// Lanes is the number of threads that write; 0 lets the server choose.
	Lanes int
	// Faults are faults on demand, for a simulating executor.
	Faults Faults
	// APIKey is asked for on /v1 routes unless it is "".
	APIKey string
	// Version is reported by /version.
	Version string
	// Seed fixes the sampling of requests that bring no seed.
	Seed uint64
	// EmissionLog gets a JSON line a request when it is not nil.
	EmissionLog io.Writer
}

// Server is a running server. It is safe for concurrent use.
type Server struct {
	cfg       Config
	info      ModelInfo
	maxLen    int
	modelJSON []byte
	pieces    *pieces
	engine    *engine
	metrics   *metrics
	registry  *prometheus.Registry
	emission  *emissionLog
	ln        net.Listener
	started   int64 // Unix seconds
	ordinal   atomic.Uint64
	sequences atomic.Uint64
	accepting sync.WaitGroup

	mu       sync.Mutex
	conns    map[*conn]struct{}
	active   map[*stream]struct{} // requests being answered
	draining chan struct{}        // closed when none is active; nil while serving
	down     bool
}

// Start listens, starts the engine and serves. When it returns the server is
// ready: connections to Addr are answered.
func Start(cfg Config) (*Server, error) {
	if cfg.Executor == nil || cfg.Tokenizer == nil || cfg.KV.Blocks < 1 || cfg.KV.BlockSize < 1 {
		return nil, errors.New("reference server: an executor, a tokenizer and a KV cache of at least one block are needed")
	}
	s := &Server{cfg: cfg, info: cfg.Executor.Info(), conns: map[*conn]struct{}{}, active: map[*stream]struct{}{}}
	if s.cfg.ServedModelName == "" {
		s.cfg.ServedModelName = s.info.Name
	}
	if s.cfg.Addr == "" {
		s.cfg.Addr = "127.0.0.1:0"
	}
	if len(cfg.Faults.Rules) > 0 && !s.info.Simulated {
		return nil, errors.New("reference server: faults on demand need a simulating executor")
	}
	s.maxLen = s.info.MaxModelLen
	if cfg.MaxModelLen > 0 {
		if cfg.MaxModelLen > s.maxLen {
			return nil, fmt.Errorf("reference server: max_model_len %d is more than the %d positions of %s", cfg.MaxModelLen, s.maxLen, s.info.Name)
		}
		s.maxLen = cfg.MaxModelLen
	}
	s.maxLen = min(s.maxLen, cfg.KV.Blocks*cfg.KV.BlockSize)
	s.modelJSON = quoted(s.cfg.ServedModelName)
	s.pieces = newPieces(cfg.Tokenizer, s.info.VocabSize)
	s.started = clock.Wall(clock.Now()).Unix()
	s.metrics = newMetrics(s)
	s.registry = prometheus.NewRegistry()
	if err := s.registry.Register(s.metrics); err != nil {
		return nil, err
	}
	var err error
	if s.emission, err = newEmissionLog(cfg.EmissionLog, s.info); err != nil {
		return nil, fmt.Errorf("emission log: %w", err)
	}
	if s.ln, err = net.Listen("tcp", s.cfg.Addr); err != nil {
		return nil, err
	}
	core := NewCore(NewScheduler(SchedulerConfig{
		MaxNumSeqs: cfg.MaxNumSeqs, KV: cfg.KV, Contiguous: cfg.Contiguous, MaxModelLen: s.maxLen, ChunkedPrefill: cfg.ChunkedPrefill,
		Static: cfg.Static, BatchSize: cfg.BatchSize, BatchWindow: cfg.BatchWindow, Independent: s.info.Independent, EOS: s.info.EOS,
	}), cfg.Executor)
	if s.engine, err = newEngine(s, core, cfg.Executor, s.lanes()); err != nil {
		s.ln.Close()
		return nil, err
	}
	s.accepting.Go(s.accept)
	return s, nil
}

// lanes is the number of writing threads: one for an executor that computes
// step by step, half the processors up to four for independent sequences.
func (s *Server) lanes() int {
	switch {
	case !s.info.Independent:
		return 1
	case s.cfg.Lanes > 0:
		return s.cfg.Lanes
	default:
		return min(4, max(1, runtime.NumCPU()/2))
	}
}

// Addr is the address that the server listens on.
func (s *Server) Addr() string { return s.ln.Addr().String() }

// URL is the base of its routes.
func (s *Server) URL() string { return "http://" + s.Addr() }

// accept takes connections until the listener is closed.
func (s *Server) accept() {
	again := rate.NewLimiter(rate.Every(5*time.Millisecond), 1)
	for {
		nc, err := s.ln.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			// Out of file descriptors: wait for some to be given back. Without a
			// deadline waiting does not fail.
			_ = again.Wait(context.Background())
			continue
		}
		c := newConn(s, nc)
		s.mu.Lock()
		if s.down {
			s.mu.Unlock()
			nc.Close()
			continue
		}
		s.conns[c] = struct{}{}
		s.mu.Unlock()
		s.accepting.Go(func() {
			c.serve()
			s.mu.Lock()
			delete(s.conns, c)
			s.mu.Unlock()
		})
	}
}

// Shutdown stops listening, lets the requests in progress end until ctx is
// done (new ones are refused), then ends everything and flushes the emission
// log, whose first error it returns. The executor stays open: it is the
// caller's. Shutdown must be called once.
func (s *Server) Shutdown(ctx context.Context) error {
	s.ln.Close()
	drained := make(chan struct{})
	s.mu.Lock()
	s.draining = drained
	if len(s.active) == 0 {
		close(drained)
	}
	s.mu.Unlock()
	select {
	case <-drained:
	case <-ctx.Done():
	}
	s.mu.Lock()
	s.down = true
	for c := range s.conns {
		c.nc.Close()
	}
	left := slices.Collect(maps.Keys(s.active))
	s.mu.Unlock()
	for _, st := range left {
		s.cancel(st)
	}
	s.accepting.Wait()
	s.engine.close()
	if err := s.emission.flush(); err != nil {
		return fmt.Errorf("emission log: %w", err)
	}
	return nil
}

// Close is Shutdown without waiting for requests.
func (s *Server) Close() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return s.Shutdown(ctx)
}

// cancel ends a request whose client is gone.
func (s *Server) cancel(st *stream) {
	s.engine.locked(func(c *Core, now int64, emit func(Token)) {
		st.mu.Lock()
		st.broken = true
		if !st.closed {
			st.abort(now)
			st.last = true
		}
		st.mu.Unlock()
		c.follow(now, emit)
	})
	st.flush()
}

// enter counts a request in, unless the server is shutting down.
func (s *Server) enter(st *stream) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining == nil {
		s.active[st] = struct{}{}
		return true
	}
	return false
}

// leave counts a request out.
func (s *Server) leave(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.active, st)
	if len(s.active) == 0 && s.draining != nil {
		close(s.draining)
	}
}
