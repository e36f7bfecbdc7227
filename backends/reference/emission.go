package reference

import (
	"bufio"
	"encoding/json"
	"io"
	"strconv"
	"sync"

	"github.com/headway-bench/headway/backends/clock"
)

// emissionLog writes a line a request: when its tokens really left. A nil
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

// log writes the line of a request that has ended.
func (l *emissionLog) log(st *stream, end int64) {
	if l == nil {
		return
	}
	first := int64(0)
	for i := range st.choices {
		if at := st.choices[i].seq.FirstScheduled; at != 0 && (first == 0 || at < first) {
			first = at
		}
	}
	prompt, output := 0, 0
	for i := range st.choices {
		if i%st.plan.n == 0 {
			prompt += len(st.choices[i].seq.Prompt)
		}
		output += st.choices[i].tokens
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	b := append(l.line[:0], `{"id":"`...)
	b = append(b, st.id...)
	b = append(b, `","request_id":`...)
	b = append(b, quoted(st.requestID)...)
	for _, f := range [...]struct {
		name  string
		value int64
	}{{"accepted_ns", st.accepted}, {"arrival_ns", st.arrival}, {"first_scheduled_ns", first},
		{"prompt_tokens", int64(prompt)}, {"output_tokens", int64(output)}} {
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
	for i, t := range st.times {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, t, 10)
	}
	b = append(b, `],"end_ns":`...)
	b = strconv.AppendInt(b, end, 10)
	b = append(b, `,"finish_reason":"`...)
	b = append(b, st.choices[0].reason...)
	b = append(b, '"')
	if st.fault.Fault != NoFault {
		b = append(b, `,"fault":"`...)
		b = append(b, st.fault.Fault...)
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
