package connect_test

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/pem"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/clock"
	"github.com/headway-bench/headway/backends/connect"
	"github.com/headway-bench/headway/backends/internal/wiretest"
	"github.com/headway-bench/headway/loadgen/record"
)

// distracted is a client that is away after each event until the server has written
// the next piece, and for a while longer.
type distracted struct {
	backends.Client
	reported chan<- struct{}
	written  <-chan struct{}
	away     time.Duration
}

func (a distracted) Stream(ctx context.Context, q *backends.Request, sink backends.Sink) backends.Outcome {
	return a.Client.Stream(ctx, q, distractedSink{sink, a})
}

type distractedSink struct {
	backends.Sink
	distracted
}

func (a distractedSink) Event(e backends.Event) {
	a.Sink.Event(e)
	a.reported <- struct{}{}
	if e.Kind&backends.KindOutput != 0 {
		<-a.written
		<-time.After(a.away)
	}
}

// TestLateReader is vllm#39963: a client that has no time for its sockets slows
// no figure, since the kernel stamps what arrives, and the rung says that it was
// late and is not valid.
func TestLateReader(t *testing.T) {
	t.Parallel()
	const away, answers = 20 * time.Millisecond, 8
	reported, written, over := make(chan struct{}), make(chan struct{}, 1), make(chan struct{})
	wrote := make([]int64, 0, 4*answers)
	s := wiretest.Serve(t, func(c *wiretest.Conn) bool {
		if !generates(c.Request) {
			return wiretest.Write(about(c.Request))(c)
		}
		io.WriteString(c, wiretest.Head)
		for i, p := range []string{data(word("a")), data(word("b")), data(word("c")), data(usage(3))} {
			io.WriteString(c, wiretest.Chunk(p))
			wrote = append(wrote, clock.Now())
			if i > 0 {
				written <- struct{}{}
			}
			select {
			case <-reported:
			case <-over:
				return false
			}
		}
		io.WriteString(c, wiretest.Chunk(data(done))+wiretest.End)
		return true
	})
	t.Cleanup(func() { close(over) })
	client, err := connect.Open(t.Context(), connect.Options{URL: s.URL, Dialect: "vllm", Model: "m"})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	got := experiment{asked: 16, scripts: make([]script, answers)}.offer(t, distracted{client, reported, written, away})
	if got.Totals.Completed != answers || got.Totals.OutputTokens != 3*answers {
		t.Fatalf("totals %+v, failures %s", got.Totals, got.Requests.FailureText())
	}
	if got.Stamps != "kernel" {
		t.Skipf("stamps by %s: the kernel gives none here", got.Stamps)
	}
	for i, line := range got.lines {
		for k, c := range line.Chunks {
			if late := time.Duration(c.At - wrote[4*i+k]); late > away/2 {
				t.Errorf("answer %d: token %d is stamped %v after it was written", i, k, late)
			}
		}
	}
	lag, ok := got.ReceiveLag.P50.Float()
	if codes := warned(got.Rung); !ok || lag < away.Seconds()*1e3/2 || got.Verdict != record.Invalid || !strings.Contains(codes, "receive_lag") {
		t.Errorf("receive lag %v ms; %s for %s", got.ReceiveLag.P50, got.Verdict, codes)
	}
}

// TestCapCountsRequests is vegeta#475: what is capped are requests in flight,
// and the connections that they took are reported beside them.
func TestCapCountsRequests(t *testing.T) {
	for closes, connections := range map[bool]int64{true: 40, false: 4} {
		scripts := make([]script, 40)
		for i := range scripts {
			scripts[i] = atOnce(twoTokens, 0)
			scripts[i].closes = closes
			if i < 4 {
				scripts[i].together = 4
			}
		}
		got := experiment{dialect: "vllm", asked: 2, inFlight: 4, scripts: scripts}.run(t)
		if got.most != 4 || got.Concurrency != 4 || got.InFlightMax.Or(0) != 4 || got.Client.Connections != connections {
			t.Errorf("closes %v: the server had %d requests at once; the rung says at most %v of %d in flight over %d connections, want 4 of 4 over %d",
				closes, got.most, got.InFlightMax, got.Concurrency, got.Client.Connections, connections)
		}
		if got.Totals.Completed != 40 || got.Totals.OutputTokens != 80 {
			t.Errorf("totals %+v, failures %v", got.Totals, got.Requests.Failures)
		}
	}
}

// TestHandshake is vllm#21981, vllm#29042 and hey#69: a slow handshake is in the
// time to connect and in no latency, it happens once, it goes by the name that
// is asked for, and the server's own certificate is trusted when it is named.
func TestHandshake(t *testing.T) {
	const slow = 30 * time.Millisecond
	own := httptest.NewUnstartedServer(nil)
	own.StartTLS()
	defer own.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, trust := range map[string]func(*connect.Options){
		"any":   func(o *connect.Options) { o.Insecure, o.Host = true, "gateway.test" },
		"named": func(o *connect.Options) { o.CACert, o.Host = ca, "example.com" },
	} {
		t.Run(name, func(t *testing.T) {
			var shaken atomic.Int64
			names := make(chan string, 8)
			config := &tls.Config{Certificates: own.TLS.Certificates}
			config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
				names <- hello.ServerName
				<-time.After(slow)
				shaken.Store(clock.Now())
				return nil, nil
			}
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			host := ""
			scripts := make([]script, 5)
			for i := range scripts {
				scripts[i] = framed(say(word("a")), say(word("b")), say(stop, usage(2), done))
			}
			got := experiment{dialect: "vllm", asked: 16, scripts: scripts, listeners: []net.Listener{tls.NewListener(l, config)},
				options: func(o *connect.Options) {
					trust(o)
					o.URL, host = strings.Replace(o.URL, "http", "https", 1), o.Host
				}}.run(t)
			if got.Totals.Completed != 5 || got.Totals.OutputTokens != 10 {
				t.Fatalf("totals %+v, failures %s", got.Totals, got.Requests.FailureText())
			}
			took, ok := got.Connect.Mean.Float()
			if got.Client.Connections != 1 || got.Connect.Count != 1 || !ok || took < slow.Seconds()*1e3 {
				t.Errorf("%d connections in %v ms", got.Client.Connections, got.Connect.Mean)
			}
			ttft := 0.0
			for i, line := range got.lines {
				if *line.SentNS < shaken.Load() || line.Chunks[0].At < got.wrote[i][1] || line.Chunks[1].At > got.wrote[i][3] {
					t.Errorf("request %d was sent at %d, tokens came at %+v; the handshake ended at %d and the pieces were written at %v",
						i, *line.SentNS, line.Chunks, shaken.Load(), got.wrote[i])
				}
				ttft += float64(line.Chunks[0].At-*line.SentNS) / 5
			}
			same(t, "ttft", got.TTFT, ttft)
			for len(names) > 0 {
				if n := <-names; n != host {
					t.Errorf("the handshake is for %q, want %q", n, host)
				}
			}
		})
	}
}

// TestReplicas is vegeta#677 and kserve#894: new connections go to each address
// of a name in turn, and the rung tells how many answered.
func TestReplicas(t *testing.T) {
	one, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(one.Addr().String())
	two, err := net.Listen("tcp", "127.0.0.2:"+port)
	if err != nil {
		t.Skipf("one loopback address only: %v", err)
	}
	resolver := net.DefaultResolver
	defer func() { net.DefaultResolver = resolver }()
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go answerNames(server, []string{"127.0.0.1", "127.0.0.2"})
		return client, nil
	}}
	scripts := make([]script, 20)
	for i := range scripts {
		scripts[i] = framed(say(word("a")), say(word("b")), say(stop, usage(2), done)).shut()
	}
	got := experiment{dialect: "vllm", asked: 16, scripts: scripts, listeners: []net.Listener{one, two},
		options: func(o *connect.Options) { o.URL = "http://replicas.test:" + port }}.run(t)
	if got.Totals.Completed != 20 || got.Totals.OutputTokens != 40 || got.Client.RemoteAddresses != 2 {
		t.Errorf("totals %+v by %d addresses, failures %s", got.Totals, got.Client.RemoteAddresses, got.Requests.FailureText())
	}
	by := map[string]int{}
	for _, line := range got.lines {
		by[line.Remote]++
	}
	if by["127.0.0.1:"+port] != 10 || by["127.0.0.2:"+port] != 10 {
		t.Errorf("requests went to %v", by)
	}
}

// answerNames answers questions for names on a connection as a server of names
// does (RFC 1035 section 4): every name has the IPv4 addresses and no other.
func answerNames(c net.Conn, addresses []string) {
	defer c.Close()
	for {
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, query); err != nil {
			return
		}
		end := 12
		for query[end] != 0 {
			end += int(query[end]) + 1
		}
		question := query[12 : end+5]
		var answers []byte
		n := 0
		if binary.BigEndian.Uint16(query[end+1:]) == 1 { // addresses of IPv4
			for _, a := range addresses {
				answers = append(answers, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
				answers = append(answers, net.ParseIP(a).To4()...)
				n++
			}
		}
		reply := append([]byte{query[0], query[1], 0x81, 0x80, 0, 1, 0, byte(n), 0, 0, 0, 0}, question...)
		reply = append(reply, answers...)
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...)); err != nil {
			return
		}
	}
}

// TestRungOverIPv6 is vegeta 6fbe391.
func TestRungOverIPv6(t *testing.T) {
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skipf("no IPv6 here: %v", err)
	}
	got := experiment{dialect: "vllm", asked: 16, listeners: []net.Listener{l}, scripts: []script{
		framed(say(word("a")), say(word("b")), say(stop, usage(2), done)),
	}}.run(t)
	truth{output: 2, source: "usage", events: []tokens{{1, 1}, {2, 1}}}.check(t, got)
	if got.lines[0].Remote != l.Addr().String() || got.Client.RemoteAddresses != 1 {
		t.Errorf("answered by %s, of %d addresses", got.lines[0].Remote, got.Client.RemoteAddresses)
	}
}

// TestBuffered are c8s#140 and dstack#4269, a proxy that hands tokens on in
// bursts, imp#754, a server that only pretends to stream, and a stream that is
// one: the first three have no ITL.
func TestBuffered(t *testing.T) {
	const tokens, pause = 32, 5 * time.Millisecond
	words := func(n int) string { return strings.Repeat(data(word("w")), n) }
	tail := say(length, usage(tokens), done)
	bursts := framed(piece{words(tokens / 2), tokens / 2}, piece{words(tokens / 2), tokens / 2}, tail).slow(2, 8*pause)
	fake := framed(say(role), piece{words(tokens) + data(length, usage(tokens), done), tokens + 2}).slow(2, 8*pause)
	var even []piece
	works := map[int]time.Duration{}
	for i := range tokens {
		even = append(even, say(word("w")))
		works[i+1] = pause
	}
	stream := framed(append(even, tail)...)
	stream.works = works
	for _, c := range []struct {
		name   string
		script script
		bursty bool
	}{{"bursts", bursts, true}, {"all at once", fake, true}, {"a stream", stream, false}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := experiment{dialect: "vllm", asked: tokens, scripts: []script{c.script}}.run(t)
			if got.Totals.Completed != 1 || got.Totals.OutputTokens != tokens {
				t.Errorf("totals %+v, failures %s", got.Totals, got.Requests.FailureText())
			}
			if flagged := strings.Contains(warned(got.Rung), "buffered_stream"); flagged != c.bursty {
				t.Errorf("warnings %s", warned(got.Rung))
			}
			if got.ITL.Mean.OK() == c.bursty || !got.TTFT.Mean.OK() {
				t.Errorf("ITL %v, TTFT %v", got.ITL.Mean, got.TTFT.Mean)
			}
		})
	}
}

// TestResultsAreNotKept is hey#73: a rung does not hold the results of its
// requests. What it holds of each, for as long as one may take, is when it was
// in flight.
func TestResultsAreNotKept(t *testing.T) {
	const early, last = 200, 2000
	answer := wiretest.Stream(strings.Repeat(data(word("w")), 60), data(length, usage(60), done))
	var held [2]uint64
	number := 0
	s := wiretest.Serve(t, func(c *wiretest.Conn) bool {
		if !generates(c.Request) {
			return wiretest.Write(about(c.Request))(c)
		}
		number++
		if number == early || number == last {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			held[number/last] = m.HeapAlloc
		}
		return wiretest.Write(answer)(c)
	})
	client, err := connect.Open(t.Context(), connect.Options{URL: s.URL, Dialect: "vllm", Model: "m", UserStamps: true})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	got := experiment{asked: 60, requests: last, unlogged: true}.offer(t, client)
	if got.Totals.Completed != last || got.Totals.OutputTokens != 60*last {
		t.Fatalf("totals %+v, failures %s", got.Totals, got.Requests.FailureText())
	}
	if grown := int64(held[1]) - int64(held[0]); grown > 640*(last-early) {
		t.Errorf("%d requests more hold %d bytes more", last-early, grown)
	}
}
