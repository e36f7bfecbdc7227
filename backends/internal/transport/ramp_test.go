package transport

import (
	"context"
	"errors"
	"net"
	"net/url"
	"testing"
	"testing/synctest"
	"time"
)

// ramped runs f in a bubble of fake time, in which only waiting takes any, with
// a transport to a server that accepts all connections.
func ramped(t *testing.T, f func(*testing.T, *Transport)) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		tr, err := New(Config{Base: &url.URL{Scheme: "http", Host: l.Addr().String()}, UserStamps: true})
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		f(t, tr)
	})
}

// connect takes a connection and keeps it until the test has ended.
func connect(t *testing.T, tr *Transport) *conn {
	t.Helper()
	c, err := tr.connection(t.Context(), &Cost{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestConnectionsAreOpenedInTurn(t *testing.T) {
	ramped(t, func(t *testing.T, tr *Transport) {
		began := time.Now()
		for range rampBurst {
			connect(t, tr)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("the first %d took %v", rampBurst, took)
		}
		for range 40 {
			connect(t, tr)
		}
		if took, want := time.Since(began), 40*time.Second/rampPerS; took < want-time.Microsecond || took > want+time.Microsecond {
			t.Errorf("40 more took %v, want %v", took, want)
		}
	})
}

func TestFreedConnectionIsUsedBeforeANewOne(t *testing.T) {
	ramped(t, func(t *testing.T, tr *Transport) {
		used := connect(t, tr)
		tr.ramp.SetLimit(1)
		tr.ramp.ReserveN(time.Now(), rampBurst)
		got := make(chan *conn)
		go func() { got <- connect(t, tr) }()
		synctest.Wait()
		tr.checkin(used)
		if c := <-got; c != used {
			t.Error("a new connection was opened beside an idle one")
		}
	})
}

func TestTurnAfterTheDeadline(t *testing.T) {
	ramped(t, func(t *testing.T, tr *Transport) {
		tr.ramp.SetLimit(1)
		tr.ramp.ReserveN(time.Now(), rampBurst)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err := tr.connection(ctx, &Cost{})
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != 300*time.Millisecond {
			t.Errorf("%v after %v", err, took)
		}
	})
}
