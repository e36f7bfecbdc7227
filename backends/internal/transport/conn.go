// Package transport carries requests to one target over HTTP and stamps what
// passes: when the last bytes of a request were handed to the socket, and when
// each byte of the answer arrived. It keeps its own HTTP/1.1 connections, read
// by the caller's goroutine, because net/http's body reader may wait for the
// next chunk before it hands out the last one, and because a load generator
// has to see every reconnect.
package transport

import (
	"net"

	"github.com/headway-bench/headway/backends/clock"
	"github.com/headway-bench/headway/backends/sched"
)

// Stamp says when bytes arrived. The times are those of package clock.
type Stamp struct {
	At       int64  // when the kernel received the bytes, or Returned where it did not say
	Returned int64  // when the read that brought them returned
	Read     uint64 // number of that read on its connection
}

// writePiece is the most that is given to the socket at once, in bytes, so that
// the stamp of a large request's last write is close to its last byte.
const writePiece = 64 << 10

// stampedConn is a socket that notes when bytes come and go. One goroutine
// may read while another writes.
type stampedConn struct {
	net.Conn
	kernel bool // the kernel stamps arrivals

	last Stamp // of the latest read
	sent int64 // just before the latest write

	rx receiver // how the kernel's stamps are read
}

// newStampedConn wraps c; with kernel, arrivals are stamped by the kernel
// where the system can.
func newStampedConn(c net.Conn, kernel bool) *stampedConn {
	s := &stampedConn{Conn: c}
	if kernel {
		s.kernel = s.askStamps()
	}
	return s
}

// Read reads once from the socket and notes the arrival.
func (s *stampedConn) Read(p []byte) (int, error) {
	if !s.kernel || len(p) == 0 {
		n, err := s.Conn.Read(p)
		now := clock.Now()
		s.last = Stamp{At: now, Returned: now, Read: s.last.Read + 1}
		return n, err
	}
	n, real, err := s.readStamped(p)
	now := clock.Now()
	s.last = Stamp{At: arrival(real, s.last.At, now), Returned: now, Read: s.last.Read + 1}
	sched.NoteLag(now - s.last.At)
	return n, err
}

// Write writes p and notes the time just before its last piece.
func (s *stampedConn) Write(p []byte) (int, error) {
	done := 0
	for len(p) > writePiece {
		n, err := s.Conn.Write(p[:writePiece])
		done += n
		if err != nil {
			return done, err
		}
		p = p[writePiece:]
	}
	s.sent = clock.Now()
	n, err := s.Conn.Write(p)
	return done + n, err
}
