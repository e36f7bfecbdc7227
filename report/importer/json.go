package importer

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"unicode/utf8"
)

// Bounds of what is kept of a file. Lists of details may be long, so the file
// itself has no bound.
const (
	maxDepth   = 64
	maxWord    = 40
	maxString  = 1 << 20  // bytes of a text that is kept
	maxValues  = 2 << 20  // texts, objects and the like
	maxNumbers = 32 << 20 // numbers of number lists
)

// unread are the keys whose values are passed over: texts of answers and
// details that no figure is taken from.
var unread = map[string]bool{
	"generated_texts": true, "errors": true, "latencies": true, "queue_times": true, "rps_change_events": true,
	"pdf": true, "requests": true, "telemetry_data": true, "telemetry_stats": true, "cache_report": true,
}

// gaps is what is kept of a list of each request's gaps: their sums and
// counts, and all gaps as one distribution. Seconds.
type gaps struct {
	sums, counts []float64
	all          digest
}

// parser reads JSON values one after the other from a stream and keeps their
// parts in the usual Go types, lists of numbers as []float64. It takes the NaN
// and Infinity that Python writes as null. Memory is bounded by the constants
// above.
type parser struct {
	r       *bufio.Reader
	word    []byte // the last word read
	line    int
	values  int
	numbers int
}

func newParser(r io.Reader) *parser { return &parser{r: bufio.NewReaderSize(r, 64<<10), line: 1} }

func (p *parser) wrong(format string, args ...any) error {
	return fmt.Errorf("line %d: %s", p.line, fmt.Sprintf(format, args...))
}

// next returns the next byte after white space without taking it; io.EOF at
// the end.
func (p *parser) next() (byte, error) {
	for {
		c, err := p.r.ReadByte()
		if err != nil {
			return 0, err
		}
		switch c {
		case '\n':
			p.line++
		case ' ', '\t', '\r':
		default:
			return c, p.r.UnreadByte()
		}
	}
}

// take takes the byte c after white space.
func (p *parser) take(c byte) error {
	got, err := p.next()
	if err != nil {
		return p.wrong("the file ends where %q is expected", c)
	}
	if got != c {
		return p.wrong("%q is expected, not %q", c, got)
	}
	_, err = p.r.ReadByte()
	return err
}

// value reads one value; key is the one it stands under.
func (p *parser) value(key string, depth int) (any, error) {
	if depth > maxDepth {
		return nil, p.wrong("nested deeper than %d", maxDepth)
	}
	if p.values++; p.values > maxValues {
		return nil, p.wrong("more than %d values: not a result file", maxValues)
	}
	c, err := p.next()
	if err != nil {
		return nil, p.wrong("the file ends within a value")
	}
	switch c {
	case '{':
		return p.object(depth)
	case '[':
		if key == "itls" {
			return p.gaps()
		}
		return p.list(depth)
	case '"':
		return p.text(true)
	default:
		return p.literal()
	}
}

func (p *parser) object(depth int) (map[string]any, error) {
	out := map[string]any{}
	err := p.members(func(key string) error {
		if unread[key] {
			return p.skip(depth + 1)
		}
		v, err := p.value(key, depth+1)
		out[key] = v
		return err
	})
	return out, err
}

// members calls each after every key of an object.
func (p *parser) members(each func(key string) error) error {
	return p.sequence('{', '}', func() error {
		key, err := p.text(true)
		if err != nil {
			return err
		}
		if err := p.take(':'); err != nil {
			return err
		}
		return each(key)
	})
}

// sequence calls each before every element between open and shut.
func (p *parser) sequence(open, shut byte, each func() error) error {
	if err := p.take(open); err != nil {
		return err
	}
	if c, err := p.next(); err == nil && c == shut {
		return p.take(shut)
	}
	for {
		if err := each(); err != nil {
			return err
		}
		c, err := p.next()
		if err != nil {
			return p.wrong("the file ends within a value")
		}
		if c == shut {
			return p.take(shut)
		}
		if err := p.take(','); err != nil {
			return err
		}
	}
}

// list reads an array: []float64 when it has numbers and nulls only, else []any.
// A null becomes NaN, and so does a number below 0: nothing measured is.
func (p *parser) list(depth int) (any, error) {
	numbers, mixed := []float64{}, []any(nil)
	err := p.sequence('[', ']', func() error {
		if c, err := p.next(); err == nil && mixed == nil && c != '{' && c != '[' && c != '"' {
			f, known, err := p.number()
			if word := string(p.word); err != nil && (word == "true" || word == "false") {
				mixed = append(boxed(numbers), word == "true")
				return nil
			}
			if !known || f < 0 {
				f = math.NaN()
			}
			if p.numbers++; p.numbers > maxNumbers {
				return p.wrong("more than %d numbers", maxNumbers)
			}
			numbers = append(numbers, f)
			return err
		}
		if mixed == nil {
			mixed = boxed(numbers)
		}
		v, err := p.value("", depth+1)
		mixed = append(mixed, v)
		return err
	})
	if mixed != nil {
		return mixed, err
	}
	return numbers, err
}

func boxed(numbers []float64) []any {
	out := make([]any, len(numbers), len(numbers)+1)
	for i, f := range numbers {
		out[i] = f
	}
	return out
}

// gaps reads a list of number lists and keeps its sums.
func (p *parser) gaps() (*gaps, error) {
	g := &gaps{}
	err := p.sequence('[', ']', func() error {
		sum, n := 0.0, 0.0
		if c, err := p.next(); err == nil && c != '[' {
			g.sums, g.counts = append(g.sums, math.NaN()), append(g.counts, 0)
			return p.skip(1)
		}
		err := p.sequence('[', ']', func() error {
			f, known, err := p.number()
			if known && f >= 0 {
				sum, n = sum+f, n+1
				g.all.add(f)
			}
			return err
		})
		if p.numbers++; p.numbers > maxNumbers {
			return p.wrong("more than %d numbers", maxNumbers)
		}
		g.sums, g.counts = append(g.sums, sum), append(g.counts, n)
		return err
	})
	return g, err
}

// literal reads a number, true, false, null, NaN or Infinity; the last three
// are nil.
func (p *parser) literal() (any, error) {
	f, known, err := p.number()
	switch {
	case err == nil && known:
		return f, nil
	case err == nil:
		return nil, nil
	case string(p.word) == "true":
		return true, nil
	case string(p.word) == "false":
		return false, nil
	default:
		return nil, err
	}
}

// number reads a number without allocating; known is false for null, NaN and
// Infinity.
func (p *parser) number() (f float64, known bool, err error) {
	if err := p.readWord(); err != nil {
		return 0, false, err
	}
	switch string(p.word) {
	case "null", "NaN", "Infinity", "-Infinity":
		return 0, false, nil
	}
	f, err = strconv.ParseFloat(string(p.word), 64)
	if err != nil || p.word[0] > '9' {
		return 0, false, p.wrong("%q is no JSON value", p.word)
	}
	return f, true, nil
}

// readWord reads letters, digits and signs into p.word.
func (p *parser) readWord() error {
	p.word = p.word[:0]
	if _, err := p.next(); err != nil {
		return p.wrong("the file ends within a value")
	}
	for {
		c, err := p.r.ReadByte()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '.' || c == '-' || c == '+') {
			return p.r.UnreadByte()
		}
		if len(p.word) == maxWord {
			return p.wrong("%s... is no JSON value", p.word)
		}
		p.word = append(p.word, c)
	}
}

// text reads a string; what is not kept is only stepped over.
func (p *parser) text(keep bool) (string, error) {
	if err := p.take('"'); err != nil {
		return "", err
	}
	var b []byte
	for {
		c, err := p.r.ReadByte()
		if err != nil {
			return "", p.wrong("the file ends within a text")
		}
		switch {
		case c == '"':
			return string(b), nil
		case c == '\n':
			return "", p.wrong("a text runs over the end of the line")
		case c == '\\':
			if b, err = p.escape(b); err != nil {
				return "", err
			}
		case keep:
			b = append(b, c)
		}
		if !keep {
			b = b[:0]
		}
		if len(b) > maxString {
			return "", p.wrong("a text of more than %d bytes", maxString)
		}
	}
}

// escape reads what follows a backslash.
func (p *parser) escape(b []byte) ([]byte, error) {
	c, err := p.r.ReadByte()
	if err != nil {
		return b, p.wrong("the file ends within a text")
	}
	switch c {
	case 'n':
		return append(b, '\n'), nil
	case 't':
		return append(b, '\t'), nil
	case 'r':
		return append(b, '\r'), nil
	case 'b', 'f':
		return append(b, ' '), nil
	case '"', '\\', '/':
		return append(b, c), nil
	case 'u':
		var hex [4]byte
		if _, err := io.ReadFull(p.r, hex[:]); err != nil {
			return b, p.wrong("the file ends within a text")
		}
		n, err := strconv.ParseUint(string(hex[:]), 16, 16)
		if err != nil {
			return b, p.wrong("\\u%s is no character", hex[:])
		}
		return utf8.AppendRune(b, rune(n)), nil
	default:
		return b, p.wrong("\\%c is no escape", c)
	}
}

// skip passes over one value.
func (p *parser) skip(depth int) error {
	if depth > maxDepth {
		return p.wrong("nested deeper than %d", maxDepth)
	}
	c, err := p.next()
	if err != nil {
		return p.wrong("the file ends within a value")
	}
	switch c {
	case '{':
		return p.sequence('{', '}', func() error {
			if _, err := p.text(false); err != nil {
				return err
			}
			if err := p.take(':'); err != nil {
				return err
			}
			return p.skip(depth + 1)
		})
	case '[':
		return p.sequence('[', ']', func() error { return p.skip(depth + 1) })
	case '"':
		_, err := p.text(false)
		return err
	default:
		_, err := p.literal()
		return err
	}
}
