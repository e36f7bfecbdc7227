package reference

import (
	"sync"
	"time"

	"github.com/headway-bench/headway/backends/clock"
)

// maxBacklog is how many bytes a client may leave unread, beyond what its
// socket takes, before its request is ended.
const maxBacklog = 64 << 20

// writeTimeout is how long one write may wait for a client to read.
const writeTimeout = 2 * time.Minute

// stream is one request being answered. Chunks are rendered under the engine's
// lock and written without it, one write a chunk.
type stream struct {
	server            *Server
	conn              *conn
	plan              *plan
	id, requestID     string
	created           int64
	accepted, arrival int64
	choices           []choice
	fault             FaultRule

	// Under the engine's lock.
	live   int  // choices that go on
	closed bool // the last chunk has been rendered

	mu     sync.Mutex
	buf    []byte
	chunks []chunk
	sent   int // bytes of buf that are written
	next   int // the chunk to be written next
	busy   bool
	hold   bool // chunks wait for the last one
	last   bool // the last chunk is in chunks
	broken bool // the client is gone
	ended  bool // finish has been called
	reset  bool // the connection is to be reset rather than kept
	times  []int64
	done   chan struct{}
}

// chunk is what one write sends.
type chunk struct {
	end    int   // in buf
	due    int64 // when the executor had its tokens ready; 0 when it has none
	tokens int
}

// push ends the chunk that has been appended to buf; mu is held.
func (st *stream) push(due int64, tokens int) {
	if st.hold && len(st.chunks) > 0 {
		c := &st.chunks[0]
		c.end, c.tokens = len(st.buf), c.tokens+tokens
		return
	}
	st.chunks = append(st.chunks, chunk{end: len(st.buf), due: due, tokens: tokens})
}

// flush writes the chunks that are ready, unless another thread is at it,
// which then takes these too.
func (st *stream) flush() {
	st.mu.Lock()
	if st.busy || st.hold && !st.last {
		st.mu.Unlock()
		return
	}
	st.busy = true
	st.mu.Unlock()
	if !st.writeChunks(st.conn.tryWrite) {
		go st.writeChunks(st.conn.write)
	}
}

// writeChunks writes until no chunk is left and reports true, or false when
// write would block; the stream then stays busy and the rest of the chunk is
// still to be written.
func (st *stream) writeChunks(write func([]byte) (n int, blocked bool, err error)) bool {
	for {
		st.mu.Lock()
		if st.next == len(st.chunks) || st.broken {
			st.buf, st.chunks, st.sent, st.next, st.busy = st.buf[:0], st.chunks[:0], 0, 0, false
			finish := st.last && !st.ended
			st.ended = st.ended || finish
			st.mu.Unlock()
			if finish {
				st.finish()
			}
			return true
		}
		c := st.chunks[st.next]
		b := st.buf[st.sent:c.end]
		st.mu.Unlock()

		now := clock.Now()
		n, blocked, err := write(b)
		if c.tokens > 0 && err == nil {
			st.stamp(c, now)
		}
		st.mu.Lock()
		st.sent += n
		if blocked {
			st.chunks[st.next].tokens = 0 // they are stamped
		} else {
			st.next++
		}
		st.mu.Unlock()
		if err != nil {
			st.server.cancel(st)
		}
		if blocked {
			return false
		}
	}
}

// stamp records when the tokens of a chunk were written and how late.
func (st *stream) stamp(c chunk, now int64) {
	for range c.tokens {
		st.times = append(st.times, now)
	}
	st.server.metrics.late(now - c.due)
}

// finish ends the request once everything is written: the log, then the
// connection.
func (st *stream) finish() {
	st.server.emission.log(st.emission(clock.Now()))
	st.server.leave(st)
	if st.reset {
		st.conn.reset()
	} else if st.conn.closing {
		st.conn.nc.Close()
	}
	close(st.done)
}
