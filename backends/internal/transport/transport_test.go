package transport

import (
	"bufio"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/headway-bench/headway/backends/clock"
)

// TestOffsetSample keeps the reading that took the least time.
func TestOffsetSample(t *testing.T) {
	var w wallOffset
	delays := []int64{500, 90, 10, 200, 70, 300, 40} // of one reading
	mono, i := int64(1000), 0
	w.sample(func() int64 { return mono }, func() int64 {
		wall := mono + 7_000_000 + delays[i]/2
		mono += delays[i]
		i++
		return wall
	})
	if got := w.offset.Load(); got != -7_000_000 {
		t.Errorf("offset %d, want -7000000", got)
	}
}

// TestArrival: stamps are converted, and those that can't be, for a step of
// the wall clock, are replaced.
func TestArrival(t *testing.T) {
	now, wall := clock.Now(), wallNow()
	if at := arrival(wall-int64(time.Millisecond), now-int64(time.Second), now); math.Abs(float64(at-(now-int64(time.Millisecond)))) > 1e6 {
		t.Errorf("a stamp of a millisecond ago is %d ns old", now-at)
	}
	for name, stamp := range map[string]int64{
		"none": 0, "an hour ahead": wall + int64(time.Hour), "an hour back": wall - int64(time.Hour),
	} {
		if at := arrival(stamp, now-int64(time.Second), now); at != now {
			t.Errorf("%s: %d ns from the return", name, at-now)
		}
	}
	// The wall clock steps: the sampled offset is wrong, and a fresh one right.
	offset.offset.Add(int64(time.Hour))
	if at := arrival(wall-int64(time.Millisecond), now-int64(time.Second), now); at >= now || at < now-int64(time.Second) {
		t.Errorf("after a step the stamp is %d ns old", now-at)
	}
	// Small errors of the offset never break the order.
	if at, ok := between(99, 100, 200); at != 100 || !ok {
		t.Errorf("%d, %v", at, ok)
	}
	if at, ok := between(201, 100, 200); at != 200 || !ok {
		t.Errorf("%d, %v", at, ok)
	}
}

// pipe is a connected pair of TCP sockets.
func pipe(t testing.TB) (client, server net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err = net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

func TestStampedConn(t *testing.T) {
	for _, kernel := range []bool{true, false} {
		client, server := pipe(t)
		c := newStampedConn(client, kernel)
		if kernel && !c.kernel {
			t.Log("the kernel gives no stamps here")
		}
		before := clock.Now()
		if _, err := c.Write(make([]byte, 3*writePiece)); err != nil {
			t.Fatal(err)
		}
		if c.sent <= before || c.sent > clock.Now() {
			t.Errorf("sent at %d, between %d and now", c.sent, before)
		}
		io.ReadFull(server, make([]byte, 3*writePiece))
		buf := make([]byte, 16)
		for i := range uint64(3) {
			written := clock.Now()
			server.Write([]byte("hi"))
			n, err := c.Read(buf)
			if n != 2 || err != nil || c.last.Read != i+1 || c.last.At < written || c.last.Returned < c.last.At {
				t.Errorf("read %d of %d bytes at %d, returned %d, written %d: %v", c.last.Read, n, c.last.At, c.last.Returned, written, err)
			}
		}
		c.SetReadDeadline(time.Unix(1, 0))
		if _, err := c.Read(buf); !errors.Is(err, net.ErrClosed) && !isTimeout(err) {
			t.Errorf("a deadline gives %v", err)
		}
		c.SetReadDeadline(time.Time{})
		server.Close()
		if _, err := c.Read(buf); err != io.EOF {
			t.Errorf("the end gives %v", err)
		}
	}
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// TestReadAllocatesNothing: a stamped read costs no allocation.
func TestReadAllocatesNothing(t *testing.T) {
	client, server := pipe(t)
	c := newStampedConn(client, true)
	data, buf := []byte("data: x\n\n"), make([]byte, 64)
	if n := testing.AllocsPerRun(200, func() {
		server.Write(data)
		if _, err := c.Read(buf); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations a read", n)
	}
}

func TestClosed(t *testing.T) {
	client, server := pipe(t)
	c := newStampedConn(client, true)
	if eof, pending := c.closed(); eof || pending {
		t.Errorf("an idle connection: closed %v, pending %v", eof, pending)
	}
	server.Write([]byte("x"))
	buf := make([]byte, 1)
	io.ReadFull(c, buf)
	server.Close()
	for range 1000 { // the end may take a moment to cross the loopback
		if eof, _ := c.closed(); eof {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Skip("this system does not tell a closed connection")
}

// TestChunked reads bodies as servers frame them.
func TestChunked(t *testing.T) {
	cases := []struct {
		name, in, want string
		err            error
	}{
		{"plain", "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", "abcde", io.EOF},
		{"upper case, extension", "A;x=1\r\n0123456789\r\n0\r\n\r\n", "0123456789", io.EOF},
		{"newlines alone", "1\na\n0\n\n", "a", io.EOF},
		{"trailer", "1\r\na\r\n0\r\nX-A: b\r\n\r\n", "a", io.EOF},
		{"empty", "0\r\n\r\n", "", io.EOF},
		{"cut in a chunk", "5\r\nabc", "abc", io.ErrUnexpectedEOF},
		{"cut after a chunk", "3\r\nabc\r\n", "abc", io.ErrUnexpectedEOF},
		{"cut in the last header", "3\r\nabc\r\n0", "abc", io.ErrUnexpectedEOF},
		{"cut before the trailer's end", "3\r\nabc\r\n0\r\n", "abc", io.ErrUnexpectedEOF},
		{"no size", "\r\nabc", "", ErrFraming},
		{"not hexadecimal", "zz\r\n", "", ErrFraming},
		{"negative", "-1\r\n", "", ErrFraming},
		{"huge", "FFFFFFFFFFFFFFFFF\r\n", "", ErrFraming},
		{"bytes beyond a chunk", "1\r\nabc\r\n", "a", ErrFraming},
		{"endless header", strings.Repeat("1", 10_000), "", ErrFraming},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for n := 1; n <= len(c.in); n += 1 + len(c.in)/64 {
				body := &chunkedReader{br: bufio.NewReaderSize(&parts{c.in, n}, 4096)}
				got, err := io.ReadAll(body)
				if err == nil {
					err = io.EOF
				}
				if string(got) != c.want || !errors.Is(err, c.err) {
					t.Fatalf("%d bytes a read: %q, %v; want %q, %v", n, got, err, c.want, c.err)
				}
			}
		})
	}
}

// parts hands out n bytes a read.
type parts struct {
	rest string
	n    int
}

func (p *parts) Read(b []byte) (int, error) {
	if p.rest == "" {
		return 0, io.EOF
	}
	n := copy(b, p.rest[:min(p.n, len(p.rest))])
	p.rest = p.rest[n:]
	return n, nil
}

// TestChunkedNeverWaits: what has arrived is handed out even when the next
// chunk's header has come without its data.
func TestChunkedNeverWaits(t *testing.T) {
	r, w := io.Pipe()
	defer w.Close()
	body := &chunkedReader{br: bufio.NewReader(r)}
	for _, c := range []struct{ write, read string }{
		{"3\r\nabc\r\n5\r\n", "abc"}, {"de", "de"}, {"fgh\r\n0\r\n", "fgh"},
	} {
		go io.WriteString(w, c.write)
		buf := make([]byte, 64)
		n, err := body.Read(buf)
		if string(buf[:n]) != c.read || err != nil {
			t.Errorf("read %q, %v; want %q", buf[:n], err, c.read)
		}
	}
	go io.WriteString(w, "\r\n")
	if _, err := body.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the end gives %v", err)
	}
}

func FuzzChunked(f *testing.F) {
	f.Add([]byte("3\r\nabc\r\n0\r\n\r\n"), uint8(2))
	f.Fuzz(func(t *testing.T, in []byte, n uint8) {
		whole, err := io.ReadAll(&chunkedReader{br: bufio.NewReader(&parts{string(in), len(in) + 1})})
		split, err2 := io.ReadAll(&chunkedReader{br: bufio.NewReader(&parts{string(in), int(n) + 1})})
		if string(whole) != string(split) || (err == nil) != (err2 == nil) {
			t.Fatalf("%q, %v at once; %q, %v in parts", whole, err, split, err2)
		}
	})
}

// TestEndlessHeader: a header has a limit.
func TestEndlessHeader(t *testing.T) {
	client, server := pipe(t)
	c := newConn(newStampedConn(client, false))
	go func() {
		io.WriteString(server, "HTTP/1.1 200 OK\r\n")
		for {
			if _, err := io.WriteString(server, "X-Filler: "+strings.Repeat("x", 1000)+"\r\n"); err != nil {
				return
			}
		}
	}()
	tr := &Transport{host: "h", cfg: Config{Base: &url.URL{Scheme: "http", Host: "h"}}}
	_, early, err := tr.exchange(t.Context(), c, &Request{Method: http.MethodPost, Path: "/"})
	if early || !errors.Is(err, errHead) {
		t.Errorf("early %v, error %v", early, err)
	}
	server.Close()
}

// TestAddresses is vegeta#677 and kserve#894: new connections are spread over
// the addresses of a name, and the next one is tried when one does not answer.
func TestAddresses(t *testing.T) {
	one, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	_, port, _ := net.SplitHostPort(one.Addr().String())
	two, err := net.Listen("tcp", "127.0.0.2:"+port)
	if err != nil {
		t.Skipf("one loopback address only: %v", err)
	}
	defer two.Close()
	tr, err := New(Config{Base: &url.URL{Scheme: "http", Host: "replicas.test:" + port}})
	if err != nil {
		t.Fatal(err)
	}
	addrs := []string{"127.0.0.1", "127.0.0.2"}
	tr.lookup = func(context.Context, string) ([]string, error) { return addrs, nil }
	dial := func(n int) map[string]int {
		count := map[string]int{}
		for range n {
			c, err := tr.dialTarget(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
			count[host]++
			c.Close()
		}
		return count
	}
	if got := dial(10); got["127.0.0.1"] != 5 || got["127.0.0.2"] != 5 {
		t.Errorf("connections to %v", got)
	}
	two.Close()
	if got := dial(10); got["127.0.0.1"] != 10 {
		t.Errorf("with one down, connections to %v", got)
	}
}
