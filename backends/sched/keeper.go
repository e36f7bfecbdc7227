package sched

import (
	"sync"
	"time"
)

// Keeper keeps the threads of this process prompt. It begins with short time
// slices, which cost nothing, and watches how late a thread of the process
// wakes up; once that is too late it asks for all that Raise does. On an idle
// machine it never comes to that: threads of real-time priority are woken for
// every event instead of finding several, which takes a third more processor
// time. A Keeper is safe for concurrent use.
type Keeper struct {
	mu    sync.Mutex
	grant Grant
	stop  chan struct{}
	done  chan struct{}
}

const (
	// watchEvery is the time between two wake-ups of the watch.
	watchEvery = 5 * time.Millisecond
	// tooLate is a wake-up that harms: half of the lag at which a rung is no
	// longer valid.
	tooLate = 500 * time.Microsecond
	// Of the last watched wake-ups so many may be too late: one in a hundred.
	watched  = 200
	mostLate = 1
)

// Keep begins to watch.
func Keep() *Keeper {
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

// lateness remembers which of the last wake-ups were too late.
type lateness struct {
	late [watched]bool
	next int
	sum  int
}

// add notes a wake-up and says whether too many were late.
func (l *lateness) add(by time.Duration) bool {
	if l.late[l.next] {
		l.sum--
	}
	late := by > tooLate
	if late {
		l.sum++
	}
	l.late[l.next] = late
	l.next = (l.next + 1) % watched
	return l.sum > mostLate
}
