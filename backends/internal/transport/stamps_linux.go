package transport

import (
	"io"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// wallNow reads the clock that the kernel stamps with.
func wallNow() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME, &ts); err != nil {
		return time.Now().UnixNano()
	}
	return ts.Nano()
}

// askStamps asks the socket for software receive stamps (the kernel's
// Documentation/networking/timestamping.rst) and says whether it will give
// them.
func (s *stampedConn) askStamps() bool {
	sc, ok := s.Conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	var refused error
	const flags = unix.SOF_TIMESTAMPING_RX_SOFTWARE | unix.SOF_TIMESTAMPING_SOFTWARE
	err = raw.Control(func(fd uintptr) {
		var family int
		if family, refused = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DOMAIN); refused != nil {
			return
		}
		if family == unix.AF_UNIX {
			refused = unix.ENOTSUP // the kernel does not stamp Unix sockets
			return
		}
		refused = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPING, flags)
	})
	if err != nil || refused != nil {
		return false
	}
	s.raw, s.receive = raw, s.recvmsg
	return true
}

// readStamped reads once and returns the kernel's stamp of the last byte, in
// wall-clock nanoseconds, 0 when there is none.
func (s *stampedConn) readStamped(p []byte) (n int, wall int64, err error) {
	s.into, s.n, s.err, s.stamp = p, 0, nil, 0
	err = s.raw.Read(s.receive)
	s.into = nil
	switch {
	case err != nil:
		return 0, 0, err
	case s.err != nil:
		return 0, 0, os.NewSyscallError("recvmsg", s.err)
	case s.n == 0:
		return 0, 0, io.EOF
	}
	return s.n, s.stamp, nil
}

// recvmsg receives without waiting; false asks the poller to wait.
func (s *stampedConn) recvmsg(fd uintptr) bool {
	for {
		n, controlLen, _, _, err := unix.Recvmsg(int(fd), s.into, s.control[:], unix.MSG_DONTWAIT)
		switch err {
		case nil:
			s.n, s.stamp = n, softwareStamp(s.control[:controlLen])
			return true
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			return false
		default:
			s.err = err
			return true
		}
	}
}

// softwareStamp finds the software stamp among control messages, 0 when it is
// not there.
func softwareStamp(control []byte) int64 {
	const header, body = unix.SizeofCmsghdr, int(unsafe.Sizeof(unix.ScmTimestamping{}))
	for len(control) >= header {
		h := (*unix.Cmsghdr)(unsafe.Pointer(unsafe.SliceData(control)))
		size := int(h.Len)
		if size < header || size > len(control) {
			return 0
		}
		if h.Level == unix.SOL_SOCKET && h.Type == unix.SO_TIMESTAMPING && size >= unix.CmsgLen(body) {
			ts := (*unix.ScmTimestamping)(unsafe.Pointer(&control[unix.CmsgLen(0)]))
			return ts.Ts[0].Nano()
		}
		control = control[min(len(control), unix.CmsgSpace(size-unix.CmsgLen(0))):]
	}
	return 0
}

// closed says whether the peer has closed the socket, or sent bytes that
// nobody asked for, without waiting.
func (s *stampedConn) closed() (eof, pending bool) {
	sc, ok := s.Conn.(syscall.Conn)
	if !ok {
		return false, false
	}
	raw := s.raw
	if raw == nil {
		var err error
		if raw, err = sc.SyscallConn(); err != nil {
			return true, false
		}
		s.raw = raw
	}
	err := raw.Read(s.peek)
	if err != nil {
		return true, false
	}
	switch {
	case s.err == unix.EAGAIN || s.err == unix.EINTR:
		return false, false
	case s.err != nil || s.n == 0:
		return true, false
	}
	return false, true
}

// peek looks at the socket's next byte without taking it.
func (s *stampedConn) peek(fd uintptr) bool {
	s.n, _, s.err = unix.Recvfrom(int(fd), s.control[:1], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	return true
}
