package reference

// Finish is why a sequence ended, by vLLM's names.
type Finish string

// The finish reasons. FinishNone is a sequence that goes on.
const (
	FinishNone   Finish = ""
	FinishStop   Finish = "stop"
	FinishLength Finish = "length"
	FinishAbort  Finish = "abort"
	FinishError  Finish = "error"
)

// Sequence is one generation: a prompt and what follows it. The exported
// fields up to Owner are set before Scheduler.Add and then left alone.
type Sequence struct {
	ID     uint64
	Prompt []int32
	// MaxTokens is the output length at most; the prompt and it fit into the
	// model's length. No EOS is sampled before MinTokens. With IgnoreEOS an EOS
	// does not end the sequence and is not sampled.
	MaxTokens, MinTokens int
	IgnoreEOS            bool
	Sampling             SamplingParams
	// StallAt and Stall delay one output token (0 is the first) by Stall
	// nanoseconds: a fault on demand.
	StallAt int
	Stall   int64
	// Owner is the server's, for finding its way back from a sequence.
	Owner any

	// Arrival, FirstScheduled and Ended are times on the scheduler's clock, 0
	// before they happen.
	Arrival, FirstScheduled, Ended int64
	// Preemptions counts how often the sequence lost its KV cache.
	Preemptions int
	// Finish is set once, when the sequence has ended.
	Finish Finish

	tokens   []int32 // prompt and output
	computed int     // positions in the KV cache
	blocks   []int32
	slice    Slice
	state    sequenceState
	inFlight bool // slice is in an unfinished step
	order    uint64

	list       *sequenceList
	prev, next *Sequence
}

type sequenceState uint8

const (
	stateNew sequenceState = iota
	stateWaiting
	stateRunning
	stateEnded
)

// Output returns the ids generated so far, lent until the next step.
func (q *Sequence) Output() []int32 { return q.tokens[min(len(q.Prompt), len(q.tokens)):] }

// sequenceList is a doubly linked list: removal from the middle is constant.
type sequenceList struct {
	head, tail *Sequence
	len        int
}

func (l *sequenceList) pushBack(q *Sequence)  { l.insert(q, l.tail, nil) }
func (l *sequenceList) pushFront(q *Sequence) { l.insert(q, nil, l.head) }

func (l *sequenceList) insert(q, prev, next *Sequence) {
	q.list, q.prev, q.next = l, prev, next
	if prev != nil {
		prev.next = q
	} else {
		l.head = q
	}
	if next != nil {
		next.prev = q
	} else {
		l.tail = q
	}
	l.len++
}

func (l *sequenceList) remove(q *Sequence) {
	if q.prev != nil {
		q.prev.next = q.next
	} else {
		l.head = q.next
	}
	if q.next != nil {
		q.next.prev = q.prev
	} else {
		l.tail = q.prev
	}
	q.list, q.prev, q.next = nil, nil, nil
	l.len--
}
