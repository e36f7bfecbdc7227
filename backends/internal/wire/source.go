package wire

import (
	"bytes"

	"github.com/headway-bench/headway/backends/internal/transport"
)

// source is an answer's body that keeps its head for diagnosis.
type source struct {
	resp   *transport.Response
	head   []byte // at most maxBody bytes
	served int    // of head
	err    error  // met while looking ahead
}

func (s *source) reset(resp *transport.Response) {
	*s = source{resp: resp, head: s.head[:0]}
}

// Stamp says when the bytes of the last Read arrived.
func (s *source) Stamp() transport.Stamp { return s.resp.Stamp() }

// Read reads the body.
func (s *source) Read(p []byte) (int, error) {
	if s.served < len(s.head) {
		n := copy(p, s.head[s.served:])
		s.served += n
		return n, nil
	}
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.resp.Read(p)
	if room := maxBody - len(s.head); room > 0 {
		s.head = append(s.head, p[:min(n, room)]...)
		s.served = len(s.head)
	}
	return n, err
}

// ahead reads once into the head.
func (s *source) ahead() bool {
	if s.err != nil || len(s.head) >= maxBody {
		return false
	}
	if cap(s.head) == 0 {
		s.head = make([]byte, 0, maxBody)
	}
	n, err := s.resp.Read(s.head[len(s.head):maxBody])
	s.head = s.head[:len(s.head)+n]
	s.err = err
	return err == nil
}

// fill reads the head whole.
func (s *source) fill() {
	for s.ahead() {
	}
}

// firstByte returns the first byte that is no blank and no byte order mark, 0
// for none.
func (s *source) firstByte() byte {
	for {
		b := bytes.TrimLeft(bytes.TrimPrefix(s.head, []byte("\xEF\xBB\xBF")), " \t\r\n")
		if len(b) > 0 && (len(s.head) >= 3 || b[0] != 0xEF) {
			return b[0]
		}
		if !s.ahead() {
			return 0
		}
	}
}
