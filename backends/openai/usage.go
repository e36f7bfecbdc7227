package openai

import "github.com/headway-bench/headway/backends"

// usage is one usage object as read; counts are -1 where they are absent.
type usage struct {
	backends.Usage
	told bool // there was one
	last bool // it is final by where it stands
}

// readUsage reads a usage object; null is none. A second one in the same
// chunk, one per choice, is added; Groq's own gives way to it.
func (d *decoder) readUsage() {
	s := &d.answer
	if !s.Opens('{') {
		return
	}
	u := backends.NoUsage
	for s.Object(); s.More('}'); {
		switch string(s.Key()) {
		case "prompt_tokens":
			u.Prompt = s.Tokens()
		case "completion_tokens":
			u.Completion = s.Tokens()
		case "prompt_tokens_details":
			d.detail("cached_tokens", &u.Cached)
		case "completion_tokens_details":
			d.detail("reasoning_tokens", &u.Reasoning)
		case "reasoning_tokens":
			u.Reasoning = s.Tokens()
		default:
			s.Skip()
		}
	}
	if d.usage.told && !d.usage.last {
		u.Completion = plus(d.usage.Completion, u.Completion)
		u.Reasoning = plus(d.usage.Reasoning, u.Reasoning)
		u.Prompt = max(d.usage.Prompt, u.Prompt)
		u.Cached = max(d.usage.Cached, u.Cached)
	}
	d.usage.Usage, d.usage.told, d.usage.last = u, true, false
}

// plus adds counts of which either may be unknown.
func plus(a, b int) int {
	switch {
	case a < 0:
		return b
	case b < 0:
		return a
	}
	return a + b
}

// detail reads one count of a details object.
func (d *decoder) detail(name string, to *int) {
	s := &d.answer
	if !s.Opens('{') {
		return
	}
	for s.Object(); s.More('}'); {
		if string(s.Key()) == name {
			*to = s.Tokens()
		} else {
			s.Skip()
		}
	}
}

// maxChoices bounds the choices whose usage is told apart.
const maxChoices = 16

// tally adds up the usage of an answer, whichever events it stands on.
type tally struct {
	running    bool // a running usage was seen
	unbelieved bool // a usage was 0 beside seen output

	current    int // choice that the event under way is about
	choices    int // how many were seen
	steps      [maxChoices]int
	runningSum int // sum of steps

	last   backends.Usage // final usage, added up
	finals int            // how many final usages it is made of
	step   backends.Usage // the latest running usage
}

// choice notes which choice the event is about.
func (t *tally) choice(index int) {
	if index < 0 || index >= maxChoices {
		return
	}
	t.current = index
	t.choices = max(t.choices, index+1)
}

// add takes a usage. It returns the running count of output tokens, -1 for
// none, and whether it grew or the usage is the final one. A usage is a running
// one when it stands on a choice, before the answer finished; on the finishing
// chunk itself it runs on when it ran before.
func (t *tally) add(u *usage, empty, finishes, finished, output bool) (running int, grew, final bool) {
	if u.Completion == 0 && output {
		t.unbelieved = true
		u.Completion = -1
	}
	if empty || u.last || finished && !(finishes && t.running) {
		t.addFinal(u.Usage)
		return -1, false, true
	}
	if u.Completion < 0 {
		return -1, false, false
	}
	t.running = true
	t.step = u.Usage
	before := t.runningSum
	t.runningSum += u.Completion - t.steps[t.current]
	t.steps[t.current] = u.Completion
	return t.runningSum, t.runningSum > before, false
}

// addFinal takes a final usage. A server that sends one per choice sends as
// many as there are choices, and they are added up; a further one of a single
// choice replaces the one before.
func (t *tally) addFinal(u backends.Usage) {
	if t.finals == 0 || t.choices <= 1 {
		t.last, t.finals = u, 1
		return
	}
	t.finals++
	t.last.Completion = plus(t.last.Completion, u.Completion)
	t.last.Reasoning = plus(t.last.Reasoning, u.Reasoning)
	t.last.Prompt = max(t.last.Prompt, u.Prompt)
	t.last.Cached = max(t.last.Cached, u.Cached)
}

// final is the answer's usage: the final one where it counts output, else the
// running one.
func (t *tally) final() backends.Usage {
	u := backends.NoUsage
	if t.finals > 0 {
		u = t.last
	}
	if !t.running {
		return u
	}
	if u.Completion < 0 {
		u.Completion = t.runningSum
	}
	if u.Prompt < 0 {
		u.Prompt = t.step.Prompt
	}
	if u.Cached < 0 {
		u.Cached = t.step.Cached
	}
	if u.Reasoning < 0 {
		u.Reasoning = t.step.Reasoning
	}
	return u
}
