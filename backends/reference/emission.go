package reference

import (
	"bufio"
	"encoding/json"
	"io"
	"strconv"
	"sync"

	"github.com/headway-bench/headway/backends/clock"
)

// emissionLog writes a line a request: when its tokens really left, and the
// fault on demand that it met, a refusal included. A nil
// emissionLog writes nothing. It is safe for concurrent use.
type emissionLog struct {
	mu   sync.Mutex
	w    *bufio.Writer
	line []byte
	err  error
}

// emissionHead is the first line: it ties the monotonic clock of all times to
// the wall clock and says what answered.
type emissionHead struct {
	MonotonicNS int64  `json:"monotonic_ns"`
	UnixNS      int64  `json:"unix_ns"`
	Executor    string `json:"executor"`
	Device      string `json:"device"`
	Model       string `json:"model"`
	Simulated   bool   `json:"simulated"`
}

func newEmissionLog(w io.Writer, info ModelInfo) (*emissionLog, error) {
	if w == nil {
		return nil, nil
	}
	l := &emissionLog{w: bufio.NewWriterSize(w, 256<<10)}
	now := clock.Now()
	head, err := json.Marshal(emissionHead{MonotonicNS: now, UnixNS: clock.Wall(now).UnixNano(),
		Executor: info.Executor, Device: info.Device, Model: info.Name, Simulated: info.Simulated})
	if err != nil {
		return nil, err
	}
	if _, err = l.w.Write(append(head, '\n')); err == nil {
		err = l.w.Flush()
	}
	return l, err
}

// emission is what the log says of one request. Times are 0 where nothing
// happened.
type emission struct {
	id, requestID                            string
	accepted, arrival, firstScheduled, ended int64
	prompt, output                           int
	tokens                                   []int64 // when each token was written
	reason                                   Finish
	fault                                    Fault
}

// emission is the stream's, which has ended.
func (st *stream) emission(ended int64) emission {
	e := emission{id: st.id, requestID: st.requestID, accepted: st.accepted, arrival: st.arrival, ended: ended,
		tokens: st.times, reason: st.choices[0].reason, fault: st.fault.Fault}
	for i := range st.choices {
		if at := st.choices[i].seq.FirstScheduled; at != 0 && (e.firstScheduled == 0 || at < e.firstScheduled) {
			e.firstScheduled = at
		}
		if i%st.plan.n == 0 {
			e.prompt += len(st.choices[i].seq.Prompt)
		}
		e.output += st.choices[i].tokens
	}
	return e
}

// log writes a line.
func (l *emissionLog) log(e emission) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	b := append(l.line[:0], `{"id":"`...)
	b = append(b, e.id...)
	b = append(b, `","request_id":`...)
	b = append(b, quoted(e.requestID)...)
	for _, f := range [...]struct {
		name  string
		value int64
	}{{"accepted_ns", e.accepted}, {"arrival_ns", e.arrival}, {"first_scheduled_ns", e.firstScheduled},
		{"prompt_tokens", int64(e.prompt)}, {"output_tokens", int64(e.output)}} {
		b = append(b, `,"`...)
		b = append(b, f.name...)
		b = append(b, `":`...)
		if f.name == "first_scheduled_ns" && f.value == 0 {
			b = append(b, "null"...)
			continue
		}
		b = strconv.AppendInt(b, f.value, 10)
	}
	b = append(b, `,"token_ns":[`...)
	for i, t := range e.tokens {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, t, 10)
	}
	b = append(b, `],"end_ns":`...)
	b = strconv.AppendInt(b, e.ended, 10)
	b = append(b, `,"finish_reason":"`...)
	b = append(b, e.reason...)
	b = append(b, '"')
	if e.fault != NoFault {
		b = append(b, `,"fault":"`...)
		b = append(b, e.fault...)
		b = append(b, '"')
	}
	l.line = append(b, "}\n"...)
	if _, err := l.w.Write(l.line); err != nil && l.err == nil {
		l.err = err
	}
}

// flush writes what is buffered and returns the first error of the log.
func (l *emissionLog) flush() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.w.Flush(); l.err == nil {
		l.err = err
	}
	return l.err
}
