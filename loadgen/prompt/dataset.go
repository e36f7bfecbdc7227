package prompt

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/headway-bench/headway/loadgen/internal/draw"
	"github.com/headway-bench/headway/profiles"
)

// row is one prompt of a data set.
type row struct {
	text   string
	output int // tokens of the answer, 0 where the file does not tell
}

// maxRow bounds one line of a data set, and maxDataset a file that is one JSON
// value, in bytes.
const (
	maxRow     = 16 << 20
	maxDataset = 1 << 30
)

// outputField holds the length of an answer in JSON lines.
const outputField = "output_tokens"

// fields are tried in JSON lines when none is named.
var fields = []string{"prompt", "text", "question", "instruction", "input", "content"}

// readDataset reads the prompts of a file: ShareGPT (a JSON array of
// conversations, of which the first human turn is taken), JSON lines with a
// field of text, or plain text with a prompt a line. A file without a usable
// prompt is an error at once.
func readDataset(d profiles.Dataset) ([]row, error) {
	f, err := os.Open(d.File)
	if err != nil {
		return nil, fmt.Errorf("workload.dataset.file: %w", err)
	}
	defer f.Close()
	rows, err := parseDataset(f, filepath.Base(d.File), d.Format, d.Field)
	if err != nil {
		return nil, fmt.Errorf("workload.dataset: %w", err)
	}
	return rows, nil
}

// answered checks that every row has the length of its answer.
func answered(rows []row) error {
	if n := slices.IndexFunc(rows, func(r row) bool { return r.output == 0 }); n >= 0 {
		return fmt.Errorf("workload.output_tokens: prompt %d of the data set has no length of its answer (%s, in JSON lines); "+
			"give one for all, such as output_tokens: 128", n+1, outputField)
	}
	return nil
}

func parseDataset(r io.Reader, name, format, field string) ([]row, error) {
	b := bufio.NewReader(r)
	if format == "" || format == "auto" {
		head, _ := b.Peek(512)
		switch text := strings.TrimLeft(string(head), "\ufeff \t\r\n"); {
		case strings.HasPrefix(text, "["):
			format = "sharegpt"
		case strings.HasPrefix(text, "{"):
			format = "jsonl"
		default:
			format = "text"
		}
	}
	var rows []row
	var err error
	switch format {
	case "sharegpt":
		rows, err = shareGPT(b, name)
	case "jsonl":
		rows, err = jsonLines(b, name, field)
	case "text":
		err = eachLine(b, name, func(_ int, line string) error {
			rows = append(rows, row{text: line})
			return nil
		})
	default:
		return nil, fmt.Errorf("format %q is unknown; use auto, sharegpt, jsonl or text", format)
	}
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("%s: holds no prompt that is not empty", name)
	}
	return rows, nil
}

// eachLine calls f with every line that is not blank, and its number.
func eachLine(r io.Reader, name string, f func(n int, line string) error) error {
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxRow)
	n := 0
	for s.Scan() {
		n++
		line := strings.TrimSpace(strings.TrimPrefix(s.Text(), "\ufeff"))
		if line == "" {
			continue
		}
		if err := f(n, line); err != nil {
			return fmt.Errorf("%s:%d: %w", name, n, err)
		}
	}
	if err := s.Err(); err != nil {
		return fmt.Errorf("%s:%d: %w", name, n+1, err)
	}
	return nil
}

func jsonLines(r io.Reader, name, field string) ([]row, error) {
	var rows []row
	err := eachLine(r, name, func(_ int, line string) error {
		var object map[string]json.RawMessage
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			return err
		}
		if field == "" {
			for _, f := range fields {
				if isText(object[f]) {
					field = f
					break
				}
			}
		}
		var text string
		if raw, ok := object[field]; !ok || json.Unmarshal(raw, &text) != nil {
			return fmt.Errorf("no field %s of text; its fields are %s: name one in workload.dataset.field", named(field), keys(object))
		}
		if text != "" {
			rows = append(rows, row{text, outputTokens(object[outputField])})
		}
		return nil
	})
	return rows, err
}

// outputTokens reads the length of an answer, 0 where it is none.
func outputTokens(raw json.RawMessage) int {
	var n int
	if json.Unmarshal(raw, &n) != nil || n < 0 || n > math.MaxInt32 {
		return 0
	}
	return n
}

func isText(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '"' }

func named(field string) string {
	if field == "" {
		return "(" + strings.Join(fields, ", ") + ")"
	}
	return strconv.Quote(field)
}

func keys(object map[string]json.RawMessage) string {
	var names []string
	for k := range object {
		names = append(names, k)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func shareGPT(r io.Reader, name string) ([]row, error) {
	var list []struct {
		Conversations []struct {
			From  string `json:"from"`
			Value string `json:"value"`
		} `json:"conversations"`
	}
	limited := &io.LimitedReader{R: r, N: maxDataset}
	if err := json.NewDecoder(limited).Decode(&list); err != nil {
		if limited.N == 0 {
			return nil, fmt.Errorf("%s: larger than %d bytes; use JSON lines", name, maxDataset)
		}
		return nil, fmt.Errorf("%s: no ShareGPT array: %w", name, err)
	}
	var rows []row
	for _, c := range list {
		for _, turn := range c.Conversations {
			if turn.From == "human" || turn.From == "user" {
				if turn.Value != "" {
					rows = append(rows, row{text: turn.Value})
				}
				break
			}
		}
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("%s: %w", name, errors.New(`no entry has "conversations" with a turn from "human"`))
	}
	return rows, nil
}

// fromRow takes row k of the rung's own order. Each pass over the file has a
// salt of its own, so that a repeated prompt finds no cached one.
func (s *Source) fromRow(it *Item, seed uint64, k int64) {
	n := int64(len(s.rows))
	r := s.rows[permute(draw.New(seed, streamTokens).Uint64(), k%n, n)]
	it.Prompt = s.prompt(r.text)
	if s.cfg.Workload.OutputTokens.Kind == profiles.LengthDataset {
		it.Output = r.output
	}
	it.CacheSalt = fmt.Sprintf("%016x", draw.Mix(s.salt, seed, uint64(k)))
}

// permute maps 0..n-1 onto itself: a four-round Feistel network on the next
// even number of bits, walked until it falls within n (cycle walking; Black
// and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002). It needs no
// memory, however long the data set.
func permute(key uint64, i, n int64) int64 {
	half := uint(1)
	for int64(1)<<(2*half) < n {
		half++
	}
	mask := uint64(1)<<half - 1
	for v := uint64(i); ; {
		l, r := v>>half, v&mask
		for round := range uint64(4) {
			l, r = r, l^(draw.Mix(key, round, r)&mask)
		}
		if v = l<<half | r; v < uint64(n) {
			return int64(v)
		}
	}
}
