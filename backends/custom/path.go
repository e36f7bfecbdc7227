package custom

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/headway-bench/headway/backends/internal/jsonscan"
)

// action is what a value at the end of a path means.
type action uint8

const (
	text action = iota
	noTextIf
	reasoning
	tool
	tokenIDs
	finish
	fault
	usagePrompt
	usageCompletion
	usageCached
	usageReasoning
	running
	end
)

// node is a place in an event. The paths of a file make one tree, so that an
// event is walked once.
type node struct {
	actions []action
	members []member
	items   []item
	each    *node // every element of an array, nil for none
}

type member struct {
	name string // as JSON writes it
	node *node
}

type item struct {
	index int
	node  *node
}

// add puts an action at the end of a path: names joined by dots, [3] for an
// element of an array, [*] for each, and ["a.b"] for a name with a dot.
func (n *node) add(path string, do action) error {
	rest := path
	for first := true; rest != ""; first = false {
		var err error
		switch {
		case rest[0] == '[':
			n, rest, err = n.bracket(rest)
		case rest[0] == '.' && !first:
			n, rest, err = n.name(rest[1:])
		case first:
			n, rest, err = n.name(rest)
		default:
			err = errors.New("a name follows a bracket after a dot: [0].text")
		}
		if err != nil {
			return fmt.Errorf("path %q: %w", path, err)
		}
	}
	n.actions = append(n.actions, do)
	return nil
}

// name steps to a member whose name stands at the start of s.
func (n *node) name(s string) (*node, string, error) {
	stop := strings.IndexAny(s, ".[")
	if stop < 0 {
		stop = len(s)
	}
	if stop == 0 || strings.ContainsAny(s[:stop], "]\"* ") {
		return nil, "", errors.New(`write names joined by dots, [0] or [*] for elements, ["a b"] for other names`)
	}
	return n.child(s[:stop]), s[stop:], nil
}

// bracket steps to what stands in brackets at the start of s.
func (n *node) bracket(s string) (*node, string, error) {
	if strings.HasPrefix(s, `["`) {
		name, rest, ok := strings.Cut(s[2:], `"]`)
		if !ok {
			return nil, "", errors.New(`a name in brackets ends with "]`)
		}
		return n.child(name), rest, nil
	}
	inner, rest, ok := strings.Cut(s[1:], "]")
	if !ok {
		return nil, "", errors.New("a bracket is not closed")
	}
	if inner == "*" {
		if n.each == nil {
			n.each = &node{}
		}
		return n.each, rest, nil
	}
	index, err := strconv.Atoi(inner)
	if err != nil || index < 0 {
		return nil, "", fmt.Errorf("[%s] is no element: write a number from 0, or *", inner)
	}
	for _, i := range n.items {
		if i.index == index {
			return i.node, rest, nil
		}
	}
	n.items = append(n.items, item{index, &node{}})
	return n.items[len(n.items)-1].node, rest, nil
}

// child is the node of a member, made when there is none.
func (n *node) child(name string) *node {
	raw := jsonscan.AppendString(nil, name)
	name = string(raw[1 : len(raw)-1])
	for _, m := range n.members {
		if m.name == name {
			return m.node
		}
	}
	n.members = append(n.members, member{name, &node{}})
	return n.members[len(n.members)-1].node
}

// find is the node of a member, nil for none.
func (n *node) find(name []byte) *node {
	for i := range n.members {
		if string(name) == n.members[i].name {
			return n.members[i].node
		}
	}
	return nil
}

// at is the node of an element, nil for none.
func (n *node) at(index int) *node {
	for i := range n.items {
		if n.items[i].index == index {
			return n.items[i].node
		}
	}
	return nil
}
