package wire

import (
	"fmt"

	"github.com/headway-bench/headway/backends"
)

// counter watches how much an answer has generated.
type counter struct {
	asked   int // 0 for no limit
	all     int // events
	events  int // with output
	bytes   int // of text
	ids     int
	running int
}

func newCounter(asked int) counter { return counter{asked: asked} }

// add counts an event and says whether the output is clearly more than was
// asked for.
func (c *counter) add(d *Decoded) bool {
	c.all++
	if d.Kind&backends.KindOutput != 0 {
		c.events++
		c.bytes += len(d.Text)
		c.ids += d.TokenIDs
	}
	c.running = max(c.running, d.Completion)
	return c.over(0)
}

// generated is how many tokens were generated so far, at least: a token an id
// or else an event with output, unless events are so short that the server, or
// a gateway, sends single characters: then a token has four bytes. The server's
// running usage is better, and so is the count it told, as far as the text bears
// them out: few tokens have more than eight bytes.
func (c *counter) generated(told int) int {
	sent, text := c.events, c.bytes/8
	switch {
	case c.ids > 0:
		sent = c.ids
	case c.bytes < 2*c.events:
		sent = c.bytes / 4
	}
	if c.running > 0 {
		sent = min(c.running, max(sent, text))
	}
	return max(sent, min(told, text))
}

// over says whether the output exceeds what was asked for by more than 10 % and
// more than 16 tokens, or whether there are far more events than tokens asked
// for, whatever they count.
func (c *counter) over(told int) bool {
	return c.asked > 0 && (c.generated(told) > c.asked+max(16, c.asked/10) || c.flooded())
}

// flooded says whether the stream has so many events that it may have no end:
// no server sends more than a few for each token.
func (c *counter) flooded() bool { return c.all > 16*c.asked+1<<16 }

// tooLong is the error of a counter that is over.
func (c *counter) tooLong(told int) error {
	if got := c.generated(told); !c.flooded() || got > c.asked {
		return &tooLongError{fmt.Sprintf("the server generated %d tokens or more where %d were asked for", got, c.asked)}
	}
	return &tooLongError{fmt.Sprintf("the server sent %d events or more where %d tokens were asked for", c.all, c.asked)}
}

// tooLongError is an output longer than was asked for.
type tooLongError struct{ what string }

func (e *tooLongError) Error() string {
	return e.what + "; it may not know the field that limits the output: name the server's dialect"
}
