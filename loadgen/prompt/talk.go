package prompt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/loadgen/internal/draw"
	"github.com/headway-bench/headway/profiles"
)

// turn is what a user says, after a pause.
type turn struct {
	text  string
	delay time.Duration
}

// script is a recorded conversation: an opening that the model is given and
// the user's turns. The model's own turns are not replayed: it gives them anew.
type script struct {
	system string
	turns  []turn
}

// Talk is one user's conversations within a rung, one after the other. Every
// request carries the history of its conversation, the model's answers
// included. What the user says depends on the rung's seed, the user, the
// conversation and the turn only. It belongs to one goroutine.
type Talk struct {
	source  *Source
	seed    uint64
	user    int
	number  int64 // of the conversation, from 0
	said    int   // turns of it so far
	script  script
	history []backends.Message
}

// Talks says whether the workload is made of conversations, which Talk makes
// and not Open.
func (s *Source) Talks() bool { return s.cfg.Workload.Conversation != nil }

// Talk opens a user's conversations in the rung of the given seed.
func (s *Source) Talk(seed uint64, user int) *Talk {
	return &Talk{source: s, seed: seed, user: user, number: -1}
}

// Turn returns the next request: of the conversation that goes on, or the first
// of a new one.
func (t *Talk) Turn(ctx context.Context) (*Item, error) {
	s := t.source
	if t.said >= len(t.script.turns) {
		t.number++
		t.said, t.history = 0, nil
		t.script = s.script(draw.New(t.seed, streamTurns, uint64(t.user), uint64(t.number)))
		if t.script.system != "" {
			t.history = append(t.history, backends.Message{Role: "system", Content: t.script.system})
		}
	}
	key := draw.Mix(t.seed, streamTurns, uint64(t.user), uint64(t.number))
	it := &Item{}
	l := DrawLengths(s.cfg.Workload, key, int64(t.said))
	it.Output = l.Output
	said := t.script.turns[t.said].text
	switch {
	case said != "":
	case t.said == 0:
		if err := s.fill(ctx, it, key, 0, l); err != nil {
			return nil, err
		}
		said = spoken(it.Prompt)
	default:
		said = s.pool.text(own(draw.New(key, streamTokens, s.salt, uint64(t.said))), l.Input)
	}
	t.said++
	t.history = append(t.history, backends.Message{Role: "user", Content: said})
	it.Prompt = s.history(t.history)
	s.cancellation(it, key, int64(t.said))
	return it, nil
}

// Reply takes the model's answer to the last turn, and the server's count of
// it. ok is false when there was none, which ends the conversation. more says
// that it goes on, after the user's pause delay.
func (t *Talk) Reply(text string, u backends.Usage, ok bool) (more bool, delay time.Duration) {
	limit := t.source.cfg.Client.Server().MaxModelLen
	if ok && t.said < len(t.script.turns) {
		w := t.source.cfg.Workload
		full := limit > 0 && u.Prompt >= 0 && u.Completion >= 0 &&
			u.Prompt+u.Completion+Most(w.InputTokens)+Most(w.OutputTokens)+t.source.Overhead() > limit
		if !full {
			t.history = append(t.history, backends.Message{Role: "assistant", Content: text})
			return true, t.script.turns[t.said].delay
		}
	}
	t.said = len(t.script.turns)
	return false, 0
}

// history puts a conversation into the form of the target's route: messages, or
// their texts one after the other.
func (s *Source) history(turns []backends.Message) backends.Prompt {
	if s.chat {
		return backends.Prompt{Messages: append([]backends.Message(nil), turns...)}
	}
	var b strings.Builder
	for i, m := range turns {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(m.Content)
	}
	return backends.Prompt{Text: b.String()}
}

// spoken is the text of a prompt that wrap made.
func spoken(p backends.Prompt) string {
	if len(p.Messages) > 0 {
		return p.Messages[0].Content
	}
	return p.Text
}

// script draws a conversation: one of the file's, or so many turns of text to
// be made.
func (s *Source) script(d *draw.Source) script {
	if len(s.scripts) > 0 {
		return s.scripts[d.IntN(len(s.scripts))]
	}
	c := s.cfg.Workload.Conversation
	turns := make([]turn, max(1, Draw(c.Turns, d)))
	for i := range turns[1:] {
		turns[i+1].delay = c.ThinkTime.Std()
	}
	return script{turns: turns}
}

// readScripts reads conversations from JSON lines, one a line:
//
//	{"messages": [{"role": "user", "content": "...", "delay_ms": 500}, ...]}
//
// or ShareGPT's {"conversations": [{"from": "human", "value": "..."}, ...]}. A
// turn's delay_ms is the user's pause before it, the profile's think time where
// it is absent.
func readScripts(c profiles.Conversation) ([]script, error) {
	f, err := os.Open(c.File)
	if err != nil {
		return nil, fmt.Errorf("workload.conversation.file: %w", err)
	}
	defer f.Close()
	var out []script
	name := filepath.Base(c.File)
	err = eachLine(f, name, func(_ int, line string) error {
		s, err := parseScript(line, c.ThinkTime.Std())
		if err == nil {
			out = append(out, s)
		}
		return err
	})
	if err == nil && len(out) == 0 {
		err = fmt.Errorf("%s: holds no conversation", name)
	}
	if err != nil {
		return nil, fmt.Errorf("workload.conversation: %w", err)
	}
	return out, nil
}

func parseScript(line string, think time.Duration) (script, error) {
	type message struct {
		Role    string   `json:"role"`
		From    string   `json:"from"`
		Content string   `json:"content"`
		Value   string   `json:"value"`
		Delay   *float64 `json:"delay_ms"`
	}
	var v struct {
		Messages      []message `json:"messages"`
		Conversations []message `json:"conversations"`
	}
	if err := json.Unmarshal([]byte(line), &v); err != nil {
		return script{}, err
	}
	var s script
	for _, m := range append(v.Messages, v.Conversations...) {
		switch m.Role + m.From {
		case "system":
			s.system += m.Content + m.Value
		case "user", "human":
			next := turn{text: m.Content + m.Value}
			if next.text == "" {
				continue
			}
			if len(s.turns) > 0 {
				next.delay = think
			}
			if m.Delay != nil {
				if !(*m.Delay >= 0 && *m.Delay <= 1e9) {
					return script{}, fmt.Errorf("delay_ms of %v is out of range", *m.Delay)
				}
				next.delay = time.Duration(*m.Delay * 1e6)
			}
			s.turns = append(s.turns, next)
		case "assistant", "gpt", "model":
		default:
			return script{}, fmt.Errorf("role %q is unknown; use system, user and assistant", m.Role+m.From)
		}
	}
	if len(s.turns) == 0 {
		return script{}, errors.New(`no turn of a user in "messages" or "conversations"`)
	}
	return s, nil
}
