package reference

import (
	"context"
	"runtime"
	"sync"

	"github.com/headway-bench/headway/backends/clock"
)

// turn is how many slices a lane applies before it writes.
const turn = 32

// engine runs a Core by the real clock. Its lanes are threads that take what
// is due from the core, under one lock, and write it out without the lock. One
// lane at a time sleeps until the next thing is due; the others are parked and
// help when it falls behind. A computing executor has one lane.
type engine struct {
	server *Server
	exec   Executor
	cancel context.CancelFunc
	ctx    context.Context
	wg     sync.WaitGroup

	mu       sync.Mutex
	core     *Core
	sleeper  *lane
	deadline int64 // when sleeper wakes, negative for never
	parked   []*lane
	lanes    []*lane
	closed   bool
}

// lane is one thread of an engine.
type lane struct {
	*waiter
	work []*stream
	emit func(Token)
	now  int64
}

func newEngine(s *Server, core *Core, exec Executor, lanes int) (*engine, error) {
	e := &engine{server: s, core: core, exec: exec}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	for range lanes {
		w, err := newWaiter()
		if err != nil {
			return nil, err
		}
		l := &lane{waiter: w}
		l.emit = func(t Token) {
			if st := s.emit(t, l.now); st != nil {
				l.work = append(l.work, st)
			}
		}
		e.lanes = append(e.lanes, l)
	}
	for _, l := range e.lanes {
		e.wg.Go(func() { e.run(l) })
	}
	return e, nil
}

// run is the life of a lane.
func (e *engine) run(l *lane) {
	runtime.LockOSThread()
	l.enter()
	defer l.close()
	for e.step(l) {
	}
}

// step does what is due, or waits for it; it reports false once the engine is
// closed.
func (e *engine) step(l *lane) bool {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return false
	}
	l.now = clock.Now()
	e.core.Advance(l.now, turn, l.emit)
	batch := e.core.Begin(l.now)
	at, ok := e.core.Wake()
	if !ok {
		at = -1
	}
	idle := len(l.work) == 0 && batch == nil && (!ok || at > l.now)
	var help *lane
	switch {
	case idle && e.sleeper == nil:
		e.sleeper, e.deadline = l, at
	case idle:
		e.parked = append(e.parked, l)
		at = -1
	case ok && at <= l.now && len(e.parked) > 0:
		help = e.parked[len(e.parked)-1]
		e.parked = e.parked[:len(e.parked)-1]
	}
	e.mu.Unlock()

	if help != nil {
		help.wake()
	}
	if idle {
		l.wait(at)
		e.mu.Lock()
		if e.sleeper == l {
			e.sleeper = nil
		}
		e.mu.Unlock()
		return true
	}
	l.write()
	if batch != nil {
		err := e.exec.Step(e.ctx, batch)
		e.mu.Lock()
		l.now = clock.Now()
		e.core.Complete(batch, err, l.now, l.emit)
		e.mu.Unlock()
		l.write()
	}
	return true
}

// write sends what the lane has made.
func (l *lane) write() {
	for i, st := range l.work {
		st.flush()
		l.work[i] = nil
	}
	l.work = l.work[:0]
}

// locked runs f on the core at the present time and sees to it that a lane
// wakes for whatever f has made due. What f emits is written by the caller.
func (e *engine) locked(f func(c *Core, now int64, emit func(Token))) {
	var work []*stream
	e.mu.Lock()
	now := clock.Now()
	f(e.core, now, func(t Token) {
		if st := e.server.emit(t, now); st != nil {
			work = append(work, st)
		}
	})
	at, ok := e.core.Wake()
	poke := e.sleeper
	if !e.core.indep && e.core.Sched.Waiting() > 0 && len(e.core.due) == 0 {
		at, ok = now, true
	}
	if poke != nil && ok && (e.deadline < 0 || at < e.deadline) {
		e.sleeper = nil
	} else {
		poke = nil
	}
	e.mu.Unlock()
	if poke != nil {
		poke.wake()
	}
	for _, st := range work {
		st.flush()
	}
}

// close ends the lanes; a step in progress is waited for.
func (e *engine) close() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.cancel()
	for _, l := range e.lanes {
		l.wake()
	}
	e.wg.Wait()
}
