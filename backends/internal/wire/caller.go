package wire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/clock"
	"github.com/headway-bench/headway/backends/internal/stream"
	"github.com/headway-bench/headway/backends/internal/transport"
)

const (
	// maxBody bounds what is kept of a failed answer, in bytes.
	maxBody = 2 << 10
	// drainBytes and drainTime bound the reading on after the end mark.
	drainBytes = 1 << 20
	drainTime  = time.Second
	// failedDrain is drainTime after a failure.
	failedDrain = 100 * time.Millisecond
)

// Config is what a Caller needs beside a protocol.
type Config struct {
	Transport *transport.Transport
	// Target is the server's URL as it stands in messages, without secrets.
	Target string
	// Method is that of streamed requests; "" is POST.
	Method string
	// Header goes with every request.
	Header []transport.Field
	// Secrets are strings that must not appear in anything reported.
	Secrets []string
	// Timeout bounds one attempt, from its start to its last byte; 0 for none.
	Timeout time.Duration
	// Retries is how often a request is sent again after a failure to connect,
	// a 429 or a 5xx, before any of its output was seen.
	Retries int
	// MaxEvent is the largest event accepted, in bytes; 0 for the default.
	MaxEvent int
}

// Caller sends requests in one protocol. It is safe for concurrent use.
type Caller struct {
	cfg      Config
	protocol Protocol
	scrub    scrubber
	states   sync.Pool
}

// NewCaller returns a Caller.
func NewCaller(cfg Config, p Protocol) *Caller {
	c := &Caller{cfg: cfg, protocol: p, scrub: newScrubber(cfg.Secrets)}
	c.states.New = func() any { return &call{decoder: p.NewDecoder()} }
	return c
}

// call is the state of one request, reused.
type call struct {
	decoder Decoder
	decoded Decoded
	body    []byte // of the request
	header  []transport.Field
	source  source
	count   counter
	out     backends.Outcome
}

// Stream sends the request and reads its answer to the end; see
// backends.Client.
func (c *Caller) Stream(ctx context.Context, r *backends.Request, sink backends.Sink) backends.Outcome {
	k := c.states.Get().(*call)
	defer c.states.Put(k)
	path, body, err := c.protocol.Request(k.body[:0], r)
	if err != nil {
		return backends.Outcome{Class: backends.ClientLimit, Err: err.Error(), Usage: backends.NoUsage, End: clock.Now()}
	}
	k.body = body
	k.header = append(k.header[:0], c.cfg.Header...)
	if r.ID != "" {
		k.header = append(k.header, transport.Field{Name: "X-Request-Id", Value: r.ID})
	}
	var total backends.Outcome
	for {
		out := c.attempt(ctx, k, path, r, sink)
		out.Connect += total.Connect
		out.Reconnects += total.Reconnects
		out.Retries, out.RetryWait = total.Retries, total.RetryWait
		if out.Retries >= c.cfg.Retries || !retryable(out) {
			return out
		}
		waited, ok := wait(ctx, retryDelay(out))
		total = out
		total.Retries++
		total.RetryWait += waited
		if !ok {
			out.RetryWait = total.RetryWait
			return out
		}
	}
}

// attempt sends the request once.
func (c *Caller) attempt(ctx context.Context, k *call, path string, r *backends.Request, sink backends.Sink) backends.Outcome {
	if c.cfg.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.cfg.Timeout)
		defer cancel()
	}
	k.out = backends.Outcome{Usage: backends.NoUsage}
	k.decoder.Reset(r)
	k.count = newCounter(r.MaxTokens)
	resp, cost, err := c.cfg.Transport.Do(ctx, &transport.Request{
		Method: cmp.Or(c.cfg.Method, http.MethodPost), Path: path, Header: k.header, Body: k.body,
		Sent: sink.Sent, FirstByte: sink.FirstByte,
	})
	out := &k.out
	out.Connect, out.Reconnects, out.Remote = cost.Connect, cost.Reconnects, cost.Remote
	out.Stamps = "user"
	if cost.Kernel {
		out.Stamps = "kernel"
	}
	if err != nil {
		out.End = clock.Now()
		out.Class, out.Err = sendFailure(ctx, err)
		out.Err = c.scrub.text(fmt.Sprintf("%s%s: %s", c.cfg.Target, path, out.Err))
		return *out
	}
	k.source.reset(resp)
	out.Status = resp.Status
	if resp.Status/100 == 2 {
		c.readAnswer(ctx, k, sink)
	} else {
		c.readRefusal(ctx, k, resp)
	}
	switch out.Class {
	case backends.OK:
		if ctx.Err() != nil {
			k.warn("open_after_end")
		} else if err := resp.Drain(drainBytes, drainTime); errors.Is(err, transport.ErrOpen) {
			k.warn("open_after_end")
		} else if err != nil {
			k.warn("cut_after_end")
		}
	case backends.NoOutput, backends.StreamError, backends.HTTP4xx, backends.HTTP429, backends.HTTP5xx:
		_ = resp.Drain(drainBytes, failedDrain) // the failure is known; this only saves the connection
	}
	out.End = max(out.End, resp.Stamp().At)
	if out.Class != backends.OK {
		out.Err = c.scrub.text(fmt.Sprintf("%s%s: %s", c.cfg.Target, path, out.Err))
		out.Body = c.scrub.bytes(k.source.head)
		if out.Class == backends.Timeout || out.Class == backends.Cancelled || out.Class == backends.Truncated {
			out.End = max(out.End, clock.Now())
		}
	}
	resp.Close()
	return *out
}

// readAnswer reads the answer under a good status.
func (c *Caller) readAnswer(ctx context.Context, k *call, sink backends.Sink) {
	out := &k.out
	var ended bool
	var err error
	switch first := k.source.firstByte(); {
	case compression(k.source.resp.Header) != "":
		err = fmt.Errorf("%w: %s", errProtocol, compressed(k.source.resp.Header))
	case c.protocol.Framing() == SSE && first == '{':
		out.NotStreamed = true
		ended, err = c.readWhole(k, sink)
	case first == '<':
		k.source.fill()
		err = fmt.Errorf("%w: the answer is a page, not a stream: %s", errProtocol, Snippet(k.source.head))
	case c.protocol.Framing() == NDJSON:
		ended, err = k.readEvents(stream.NDJSON(&k.source, c.cfg.MaxEvent), sink)
	default:
		ended, err = k.readEvents(stream.SSE(&k.source, c.cfg.MaxEvent), sink)
	}
	sum := k.decoder.Sum()
	out.Finish, out.Usage = sum.Finish, sum.Usage
	out.Warnings = append(out.Warnings, sum.Warnings...)
	out.Class, out.Err = c.judge(ctx, k, sum, ended, err)
}

// judge says how an answer ended that was read until ended, the protocol's end
// mark or a clean end of the body that counts as one, or until err. What
// happens after a finish reason does not undo it.
func (c *Caller) judge(ctx context.Context, k *call, sum Sum, ended bool, err error) (backends.Class, string) {
	var failure *serverError
	var tooLong *tooLongError
	complete := ended || sum.Finish != ""
	switch {
	case errors.As(err, &failure):
		return backends.StreamError, failure.Error()
	case errors.As(err, &tooLong):
		return backends.TooLong, tooLong.Error()
	case errors.Is(err, errProtocol), errors.As(err, new(*stream.TooLargeError)):
		return backends.Malformed, err.Error()
	case !complete && err != nil && ctx.Err() != nil:
		return interrupted(ctx)
	case !complete && errors.Is(err, transport.ErrFraming):
		return backends.Malformed, err.Error()
	case !complete && err != nil:
		return backends.Truncated, "the stream was cut without a finish reason or end mark: " + err.Error()
	case !complete && k.count.events == 0 && len(k.source.head) > 0:
		return backends.Truncated, "the stream ended without a finish reason or end mark; it began: " + Snippet(k.source.head)
	case !complete:
		return backends.Truncated, "the stream ended without a finish reason or end mark"
	case k.count.over(sum.Usage.Completion):
		return backends.TooLong, k.count.tooLong(sum.Usage.Completion).Error()
	case k.count.events == 0 && sum.Usage.Completion <= 0:
		return backends.NoOutput, "the answer ended well but holds no output and no usage above 0"
	}
	return backends.OK, ""
}

// readEvents hands the events of a stream to the sink; ended says that the
// protocol's end was seen.
func (k *call) readEvents(events func(func(stream.Event, error) bool), sink backends.Sink) (ended bool, err error) {
	d := &k.decoded
	for e, err := range events {
		if err != nil {
			return false, err
		}
		*d = Decoded{Completion: -1}
		if err := k.decoder.Event(e.Type, e.Data, d); err != nil {
			if e.Unterminated {
				return false, io.ErrUnexpectedEOF // a cut event
			}
			return false, fmt.Errorf("%w: %w: %s", errProtocol, err, Snippet(e.Data))
		}
		if e.Unterminated {
			k.warn("unterminated_event")
		}
		if d.Failure != "" {
			return false, &serverError{d.Failure}
		}
		if d.Kind != 0 || d.Completion >= 0 {
			sink.Event(backends.Event{
				At: e.At, Returned: e.Returned, Read: e.Read,
				Kind: d.Kind, Text: d.Text, TokenIDs: d.TokenIDs, Completion: d.Completion,
			})
		}
		if k.count.add(d) {
			return false, k.count.tooLong(0)
		}
		if d.End {
			// One event that has all of several tokens is an answer at once.
			k.out.NotStreamed = k.count.events == 1 && len(d.Text) > 0 && k.decoder.Sum().Usage.Completion > 1
			return true, nil
		}
	}
	return k.decoder.EndsWithBody(), nil
}

// readWhole reads an answer that was not streamed as one event.
func (c *Caller) readWhole(k *call, sink backends.Sink) (ended bool, err error) {
	limit := c.cfg.MaxEvent
	if limit <= 0 {
		limit = stream.DefaultMaxEvent
	}
	data, err := io.ReadAll(io.LimitReader(&k.source, int64(limit)+1))
	if err != nil {
		return false, err
	}
	if len(data) > limit {
		return false, &stream.TooLargeError{Limit: limit}
	}
	d := &k.decoded
	*d = Decoded{Completion: -1}
	if err := k.decoder.Whole(data, d); err != nil {
		return false, fmt.Errorf("%w: %w: %s", errProtocol, err, Snippet(data))
	}
	if d.Failure != "" {
		return false, &serverError{d.Failure}
	}
	s := k.source.Stamp()
	sink.Event(backends.Event{
		At: s.At, Returned: s.Returned, Read: s.Read,
		Kind: d.Kind, Text: d.Text, TokenIDs: d.TokenIDs, Completion: d.Completion,
	})
	k.count.add(d)
	return true, nil
}

// readRefusal reads the body of an answer under a bad status.
func (c *Caller) readRefusal(ctx context.Context, k *call, resp *transport.Response) {
	out := &k.out
	k.source.fill()
	out.RetryAfter = retryAfter(resp.Header, time.Now())
	out.Class = statusClass(resp.Status)
	message := Message(k.source.head)
	if to := resp.Header.Get("Location"); to != "" {
		message = "the server points to " + to
	} else if compression(resp.Header) != "" {
		message = compressed(resp.Header)
	}
	if ctx.Err() != nil {
		out.Class, message = interrupted(ctx)
	}
	out.Err = fmt.Sprintf("HTTP %d %s: %s", resp.Status, http.StatusText(resp.Status), message)
}

func (k *call) warn(code string) {
	if !slices.Contains(k.out.Warnings, code) {
		k.out.Warnings = append(k.out.Warnings, code)
	}
}
