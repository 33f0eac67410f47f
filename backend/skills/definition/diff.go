package definition

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"helix/backend/jcs"
)

// Diff is the difference between two bodies, ignoring the positions at which steps are drawn. Steps
// are matched by id. In a draft with duplicate ids, the second step is treated as id#2.
type Diff struct {
	Fields  []Change // of the body itself
	Added   []Place  // sorted by path, outer steps before inner ones
	Removed []Place
	Moved   []Move
	Changed []Change
}

// Place is a step and its path: in the new body if the step was added, in the old one if it was
// removed. Steps inside it have Places of their own.
type Place struct {
	Step string          // its id
	Path string          // such as steps[2].cases[0].steps[1]
	Body json.RawMessage // without the steps inside it
}

// Move is a step that moved to another list or to another position relative to other steps.
type Move struct {
	Step     string
	From, To string // paths
}

// Change is a field that differs; nil means absent.
type Change struct {
	Step          string // empty for a field of the body
	Path          string // within the step, such as condition or parameters.query
	Before, After json.RawMessage
}

// Compare returns the difference between two bodies.
func Compare(from, to *Body) (*Diff, error) {
	a, err := flatten(from)
	if err != nil {
		return nil, err
	}
	b, err := flatten(to)
	if err != nil {
		return nil, err
	}
	d := &Diff{Fields: changes("", a.fields, b.fields)}
	for _, n := range a.order {
		if b.byKey[n.key] == nil {
			d.Removed = append(d.Removed, Place{n.key, n.path, n.text})
		}
	}
	stay := map[string]bool{} // steps that keep their list and their relative order
	for list, keys := range b.lists {
		for _, k := range kept(a.lists[list], keys) {
			stay[k] = true
		}
	}
	for _, n := range b.order {
		old := a.byKey[n.key]
		if old == nil {
			d.Added = append(d.Added, Place{n.key, n.path, n.text})
			continue
		}
		if !stay[n.key] {
			d.Moved = append(d.Moved, Move{n.key, old.path, n.path})
		}
		d.Changed = append(d.Changed, changes(n.key, old.fields, n.fields)...)
	}
	return d, nil
}

// node is one step without the steps inside it.
type node struct {
	key    string
	path   string
	text   json.RawMessage
	fields map[string]json.RawMessage
}

// flat is a body as a table of steps. A list of steps is identified by the key of its parent step
// and its path in it, such as /pick/cases[0].steps.
type flat struct {
	fields map[string]json.RawMessage
	byKey  map[string]*node
	order  []*node // in the order of Walk
	lists  map[string][]string
}

func flatten(b *Body) (*flat, error) {
	f := &flat{byKey: map[string]*node{}, lists: map[string][]string{}}
	plain := *b
	plain.Steps = []Step{}
	var err error
	if f.fields, err = fieldsOf(plain); err != nil {
		return nil, err
	}
	delete(f.fields, "steps")
	return f, f.add("", "steps", "steps", b.Steps)
}

func (f *flat) add(owner, slot, path string, steps []Step) error {
	list := owner + "/" + slot
	for i := range steps {
		s := &steps[i]
		n := &node{key: s.StepID, path: index(path, i)}
		for j := 2; f.byKey[n.key] != nil; j++ {
			n.key = s.StepID + "#" + strconv.Itoa(j)
		}
		plain := *s
		plain.UI, plain.Steps, plain.Else, plain.Cases = nil, nil, nil, nil
		for _, c := range s.Cases {
			plain.Cases = append(plain.Cases, Case{When: c.When, Steps: []Step{}})
		}
		var err error
		if n.fields, err = fieldsOf(plain); err != nil {
			return err
		}
		if n.text, err = jcs.Marshal(n.fields); err != nil {
			return err
		}
		f.byKey[n.key] = n
		f.order = append(f.order, n)
		f.lists[list] = append(f.lists[list], n.key)
		if err := f.add("/"+n.key, "steps", n.path+".steps", s.Steps); err != nil {
			return err
		}
		for j, c := range s.Cases {
			slot := index("cases", j) + ".steps"
			if err := f.add("/"+n.key, slot, n.path+"."+slot, c.Steps); err != nil {
				return err
			}
		}
		if err := f.add("/"+n.key, "else", n.path+".else", s.Else); err != nil {
			return err
		}
	}
	return nil
}

func fieldsOf(v any) (map[string]json.RawMessage, error) {
	text, err := jcs.Marshal(v)
	if err != nil {
		return nil, err
	}
	var m map[string]json.RawMessage
	return m, json.Unmarshal(text, &m)
}

// changes compares fields by name, and those in open key by key.
func changes(step string, a, b map[string]json.RawMessage) (out []Change) {
	a, b = opened(a), opened(b)
	names := maps.Clone(a)
	maps.Copy(names, b)
	for _, k := range slices.Sorted(maps.Keys(names)) {
		if !same(a[k], b[k]) {
			out = append(out, Change{step, k, a[k], b[k]})
		}
	}
	return out
}

// open are the fields of a step whose members are compared one by one.
var open = []string{"parameters", "inputMapping"}

func opened(m map[string]json.RawMessage) map[string]json.RawMessage {
	out := maps.Clone(m)
	for _, k := range open {
		var inner map[string]json.RawMessage
		if m[k] == nil || json.Unmarshal(m[k], &inner) != nil {
			continue
		}
		delete(out, k)
		for name, v := range inner {
			out[k+"."+name] = v
		}
	}
	return out
}

func same(a, b json.RawMessage) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	if bytes.Equal(a, b) {
		return true
	}
	x, err := jcs.Canonicalize(a)
	if err != nil {
		return false
	}
	y, err := jcs.Canonicalize(b)
	return err == nil && bytes.Equal(x, y)
}

// kept returns the longest common subsequence of two lists of keys.
func kept(a, b []string) []string {
	at := make(map[string]int, len(a))
	for i, k := range a {
		at[k] = i
	}
	var ends []int // index into b of the last key of the best sequence of each length
	before := make([]int, len(b))
	for i, k := range b {
		x, ok := at[k]
		if !ok {
			continue
		}
		n, _ := slices.BinarySearchFunc(ends, x, func(j, x int) int { return at[b[j]] - x })
		before[i] = -1
		if n > 0 {
			before[i] = ends[n-1]
		}
		if n == len(ends) {
			ends = append(ends, i)
		} else {
			ends[n] = i
		}
	}
	if len(ends) == 0 {
		return nil
	}
	var out []string
	for i := ends[len(ends)-1]; i >= 0; i = before[i] {
		out = append(out, b[i])
	}
	slices.Reverse(out)
	return out
}
