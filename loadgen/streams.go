package loadgen

// Streams of random numbers that one rung's seed is split into, so that no
// choice depends on how many of another kind were made.
const (
	streamThink = 0xc1
	streamRung  = 0xc2
)
