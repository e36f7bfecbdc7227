package loadgen

// Machine is what this machine allows a process that opens connections; 0 is
// unknown.
type Machine struct {
	OpenFiles, OpenFilesHard uint64 // limits on open files, soft and hard
	LocalPorts               int    // for outgoing connections to one address
}

// ThisMachine reads the limits of this process.
func ThisMachine() Machine {
	m := Machine{}
	m.OpenFiles, m.OpenFilesHard = openFiles()
	m.LocalPorts, _ = localPorts()
	return m
}
