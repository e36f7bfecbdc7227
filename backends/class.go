package backends

import "fmt"

// Class says how a request ended: OK, or the kind of its failure. Failed
// requests are counted by class and enter no latency and no throughput.
type Class uint8

// The classes. Their names are the contract's.
const (
	OK          Class = iota
	Connect           // no connection: refused, unreachable, name not found
	TLS               // the handshake or the certificate failed
	HTTP4xx           // status 400 to 499 but 429
	HTTP429           // asked to slow down
	HTTP5xx           // status 500 to 599
	StreamError       // an error event, or an error body, under status 200
	Truncated         // the stream ended without a finish reason or end mark
	Timeout           // the request's own limit ran out
	Malformed         // bytes that are not the protocol, or an event over the limit
	NoOutput          // ended well but generated nothing
	TooLong           // generated more than was asked for, beyond tolerance
	ClientLimit       // a limit of this machine: no file descriptor, no free port, no memory, or a request that the dialect cannot say
	Cancelled         // ended by this client on purpose
	classes
)

var classNames = [classes]string{"ok", "connect", "tls", "http_4xx", "http_429", "http_5xx", "stream_error",
	"truncated", "timeout", "malformed", "no_output", "too_long", "client_limit", "cancelled"}

// String returns the contract's name of the class.
func (c Class) String() string {
	if int(c) < len(classNames) {
		return classNames[c]
	}
	return fmt.Sprintf("class(%d)", uint8(c))
}

// ParseClass is the inverse of String.
func ParseClass(s string) (Class, error) {
	for i, n := range classNames {
		if n == s {
			return Class(i), nil
		}
	}
	return 0, fmt.Errorf("unknown failure class %q", s)
}

// Failures lists every class but OK, in the contract's order.
func Failures() []Class {
	out := make([]Class, 0, classes-1)
	for c := Connect; c < classes; c++ {
		out = append(out, c)
	}
	return out
}
