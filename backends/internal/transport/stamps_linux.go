package transport

import (
	"io"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// receiver holds the arguments and results of a socket's receive calls, so that
// a read does not allocate.
type receiver struct {
	raw     syscall.RawConn
	receive func(fd uintptr) bool // stampedConn.recvmsg
	message unix.Msghdr
	vector  unix.Iovec
	control [128]byte
	n       int
	err     error
	stamp   int64 // wall-clock nanoseconds, 0 when the kernel gave none
}

// wallNow reads the clock that the kernel stamps with.
func wallNow() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME, &ts); err != nil {
		return time.Now().UnixNano()
	}
	return ts.Nano()
}

const stampFlags = unix.SOF_TIMESTAMPING_RX_SOFTWARE | unix.SOF_TIMESTAMPING_SOFTWARE

// stampsWait bounds the wait for the kernel to begin stamping.
const stampsWait = 50 * time.Millisecond

// holdStamps keeps the kernel stamping: it turns that on for the machine, a
// few milliseconds later, when the first socket asks, and off when the last
// one closes, so that without a socket held open the first arrivals have no
// stamp. It returns once a datagram to itself comes with one, and nil when the
// kernel refuses.
func holdStamps() io.Closer {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	if !stampsBegin(fd) {
		unix.Close(fd)
		return nil
	}
	return os.NewFile(uintptr(fd), "receive stamps")
}

// stampsBegin asks a datagram socket for stamps and waits for the first.
func stampsBegin(fd int) bool {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPING, stampFlags) != nil {
		return false
	}
	if unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}) != nil {
		return true
	}
	self, err := unix.Getsockname(fd)
	if err != nil {
		return true
	}
	var data, control [128]byte
	for deadline := time.Now().Add(stampsWait); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if unix.Sendto(fd, data[:1], unix.MSG_DONTWAIT, self) != nil {
			return true
		}
		_, n, _, _, err := unix.Recvmsg(fd, data[:], control[:], unix.MSG_DONTWAIT)
		if err == nil && softwareStamp(control[:n]) != 0 {
			return true
		}
	}
	return true
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
	err = raw.Control(func(fd uintptr) {
		var family int
		if family, refused = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DOMAIN); refused != nil {
			return
		}
		if family == unix.AF_UNIX {
			refused = unix.ENOTSUP // the kernel does not stamp Unix sockets
			return
		}
		refused = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPING, stampFlags)
	})
	if err != nil || refused != nil {
		return false
	}
	s.rx.raw, s.rx.receive = raw, s.recvmsg
	s.rx.message.Iov = &s.rx.vector
	s.rx.message.SetIovlen(1)
	return true
}

// readStamped reads once and returns the kernel's stamp of the last byte, in
// wall-clock nanoseconds, 0 when there is none.
func (s *stampedConn) readStamped(p []byte) (n int, wall int64, err error) {
	rx := &s.rx
	rx.n, rx.err, rx.stamp = 0, nil, 0
	rx.vector.Base = unsafe.SliceData(p)
	rx.vector.SetLen(len(p))
	err = rx.raw.Read(rx.receive)
	rx.vector.Base = nil
	switch {
	case err != nil:
		return 0, 0, err
	case rx.err != nil:
		return 0, 0, os.NewSyscallError("recvmsg", rx.err)
	case rx.n == 0:
		return 0, 0, io.EOF
	}
	return rx.n, rx.stamp, nil
}

// recvmsg receives without waiting; false asks the poller to wait.
func (s *stampedConn) recvmsg(fd uintptr) bool {
	rx := &s.rx
	for {
		rx.message.Control = &rx.control[0]
		rx.message.SetControllen(len(rx.control))
		n, _, errno := unix.Syscall(unix.SYS_RECVMSG, fd, uintptr(unsafe.Pointer(&rx.message)), unix.MSG_DONTWAIT)
		switch errno {
		case 0:
			rx.n, rx.stamp = int(n), softwareStamp(rx.control[:rx.message.Controllen])
			return true
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			return false
		default:
			rx.err = errno
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
	rx := &s.rx
	if rx.raw == nil {
		sc, ok := s.Conn.(syscall.Conn)
		if !ok {
			return false, false
		}
		raw, err := sc.SyscallConn()
		if err != nil {
			return true, false
		}
		rx.raw = raw
	}
	if err := rx.raw.Read(s.peek); err != nil {
		return true, false
	}
	switch {
	case rx.err == unix.EAGAIN || rx.err == unix.EINTR:
		return false, false
	case rx.err != nil || rx.n == 0:
		return true, false
	}
	return false, true
}

// peek looks at the socket's next byte without taking it.
func (s *stampedConn) peek(fd uintptr) bool {
	s.rx.n, _, s.rx.err = unix.Recvfrom(int(fd), s.rx.control[:1], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	return true
}
