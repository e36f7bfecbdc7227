package sched

import (
	"sync"
	"sync/atomic"
	"time"
)

// Keeper keeps the threads of this process prompt. It begins with short time
// slices, which cost nothing, and watches how late a thread of the process
// wakes up and what NoteLag is told; the first time that is too late it asks
// for all that Raise does. On an idle machine it never comes to that: threads
// of real-time priority are woken for every event instead of finding several,
// which takes a third more processor time. A Keeper is safe for concurrent use.
type Keeper struct {
	mu    sync.Mutex
	grant Grant
	stop  chan struct{}
	done  chan struct{}
}

const (
	// watchEvery is the time between two wake-ups of the watch.
	watchEvery = 2 * time.Millisecond
	// tooLate is a wake-up that shows a busy machine: a fifth of the lag at
	// which a rung is no longer valid.
	tooLate = 200 * time.Microsecond
)

// lagged says that something in the process ran too late.
var lagged atomic.Bool

// NoteLag tells the process's Keeper, if it has one, by how many nanoseconds
// something ran later than it could have. It is for the paths that the watch
// stands for, and costs a comparison.
func NoteLag(ns int64) {
	if ns > int64(tooLate) {
		lagged.Store(true)
	}
}

// Keep begins to watch.
func Keep() *Keeper {
	lagged.Store(false)
	k := &Keeper{grant: ShortenSlices(), stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(k.done)
		if k.untilLate() {
			grant := Raise()
			k.mu.Lock()
			k.grant = grant
			k.mu.Unlock()
		}
	}()
	return k
}

// Grant is what the threads have at present.
func (k *Keeper) Grant() Grant {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.grant
}

// Close ends the watch. What was granted stays.
func (k *Keeper) Close() {
	close(k.stop)
	<-k.done
}
