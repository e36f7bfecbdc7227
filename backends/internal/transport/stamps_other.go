//go:build !linux

package transport

import (
	"io"
	"time"
)

// receiver is empty: only Linux stamps arrivals in a way that is read here.
type receiver struct{}

func holdStamps() io.Closer { return nil }

func wallNow() int64 { return time.Now().UnixNano() }

func (s *stampedConn) askStamps() bool { return false }

func (s *stampedConn) readStamped(p []byte) (int, int64, error) {
	n, err := s.Conn.Read(p)
	return n, 0, err
}

// closed cannot tell outside Linux; a connection found closed is replaced when
// its first read fails.
func (s *stampedConn) closed() (eof, pending bool) { return false, false }
