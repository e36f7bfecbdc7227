package wiretest

import (
	"io"
	"strings"
	"testing"
)

// MostFlood is what a flood sends at most, in bytes: who takes it all has no
// limit.
const MostFlood = 64 << 20

// Flood answers each request with head, and then piece again and again until
// the client leaves. Each answer's bytes that were written go to taken; some of
// them, 16 MiB at most, stood in the sockets' buffers.
func Flood(t testing.TB, head, piece string) (s *Server, taken <-chan int) {
	t.Helper()
	written := make(chan int, 64)
	s = Serve(t, func(c *Conn) bool {
		written <- Pour(c, head, piece)
		return false
	})
	return s, written
}

// Pour writes head and then piece without an end, and returns how many bytes
// were taken.
func Pour(w io.Writer, head, piece string) int {
	n, err := io.WriteString(w, head)
	block := strings.Repeat(piece, 1+(64<<10)/len(piece))
	for err == nil && n < MostFlood {
		var more int
		more, err = io.WriteString(w, block)
		n += more
	}
	return n
}

// Buffered is what sockets may hold of a flood that nobody read.
const Buffered = 16 << 20
