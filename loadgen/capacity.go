package loadgen

import (
	"fmt"
	"os"
	"strings"
)

// spareFiles are the descriptors that a run needs beside its connections:
// standard streams, the bundle's files, telemetry, the runtime's own.
const spareFiles = 64

// Connections is the largest number of connections that a plan holds open at
// once, 0 where only the server's speed can tell: an open loop without a cap.
func (p *Plan) Connections() int {
	most := 0
	for _, r := range p.Rungs {
		n := max(r.Users, r.MaxInFlight)
		if n == 0 {
			n = int(r.Limit)
		}
		most = max(most, n)
	}
	return most
}

// CheckCapacity makes sure that this process may hold so many connections to
// one target at once, raising the soft limit on open files when it has to. Its
// error says which limit is too low and how to raise it.
func CheckCapacity(connections int) error {
	if err := allowFiles(uint64(connections + spareFiles)); err != nil {
		return fmt.Errorf("%d connections: %w", connections, err)
	}
	if ports, ok := localPorts(); ok && connections > ports {
		return fmt.Errorf("%d connections to one address need as many local ports, and this machine has %d: "+
			"widen net.ipv4.ip_local_port_range, or give the target several addresses", connections, ports)
	}
	return nil
}

// localPorts is the number of ports that outgoing connections may use, where
// the system tells.
func localPorts() (int, bool) {
	b, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return 0, false
	}
	return portRange(string(b))
}

// portRange reads "first last".
func portRange(s string) (int, bool) {
	var first, last int
	if n, err := fmt.Sscan(strings.TrimSpace(s), &first, &last); n != 2 || err != nil || last < first {
		return 0, false
	}
	return last - first + 1, true
}
