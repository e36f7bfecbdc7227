package wiretest

import (
	"net/url"
	"testing"

	"github.com/headway-bench/headway/backends/internal/transport"
	"github.com/headway-bench/headway/backends/internal/wire"
)

// Wire is a way to a server of the test.
func Wire(t testing.TB, target string) wire.Config {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := transport.New(transport.Config{Base: u})
	if err != nil {
		t.Fatal(err)
	}
	return wire.Config{Transport: tr, Target: target}
}

// NoAllocs fails the test when a decoder allocates on the events, which come
// again and again.
func NoAllocs(t *testing.T, d wire.Decoder, events ...string) {
	t.Helper()
	d.Reset(nil)
	data := make([][]byte, len(events))
	for i, e := range events {
		data[i] = []byte(e)
	}
	var out wire.Decoded
	if n := testing.AllocsPerRun(100, func() {
		for _, e := range data {
			out = wire.Decoded{Completion: -1}
			if err := d.Event("", e, &out); err != nil {
				t.Fatal(err)
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
