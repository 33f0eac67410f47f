package definition

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"helix/backend/fault"
	"helix/backend/jcs"
)

// Apply applies the difference to a body. The error is Invalid if the difference is from another body.
func (d *Diff) Apply(from *Body) (*Body, error) {
	f, err := flatten(from)
	if err != nil {
		return nil, err
	}
	b := &builder{f: f, at: map[string]string{}, gone: map[string]bool{}}
	if f.fields, err = edit(f.fields, d.Fields); err != nil {
		return nil, err
	}
	for _, p := range d.Removed {
		if f.byKey[p.Step] == nil {
			return nil, unfit("step %q is not there", p.Step)
		}
		b.gone[p.Step] = true
	}
	for _, p := range d.Added {
		if f.byKey[p.Step] != nil {
			return nil, unfit("step %q is there already", p.Step)
		}
		n := &node{key: p.Step}
		if err := json.Unmarshal(p.Body, &n.fields); err != nil {
			return nil, unfit("step %q cannot be read", p.Step)
		}
		f.byKey[p.Step], b.at[p.Path] = n, p.Step
	}
	for _, m := range d.Moved {
		if f.byKey[m.Step] == nil {
			return nil, unfit("step %q is not there", m.Step)
		}
		b.gone[m.Step], b.at[m.To] = true, m.Step
	}
	byStep := map[string][]Change{}
	for _, c := range d.Changed {
		byStep[c.Step] = append(byStep[c.Step], c)
	}
	for key, list := range byStep {
		n := f.byKey[key]
		if n == nil {
			return nil, unfit("step %q is not there", key)
		}
		if n.fields, err = edit(n.fields, list); err != nil {
			return nil, err
		}
	}
	steps, err := b.list("", "steps", "steps", 0)
	if err != nil {
		return nil, err
	}
	if b.used != len(f.byKey)-len(d.Removed) {
		return nil, unfit("%d steps have no place", len(f.byKey)-len(d.Removed)-b.used)
	}
	f.fields["steps"] = steps
	text, err := jcs.Marshal(f.fields)
	if err != nil {
		return nil, err
	}
	return Parse(text)
}

func unfit(format string, args ...any) error {
	return fault.Invalidf("The difference does not fit this definition: %s.", fmt.Sprintf(format, args...))
}

func edit(fields map[string]json.RawMessage, list []Change) (map[string]json.RawMessage, error) {
	out := opened(fields)
	for _, c := range list {
		if !same(out[c.Path], c.Before) {
			return nil, unfit("%s of step %q is another", c.Path, c.Step)
		}
		if c.After == nil {
			delete(out, c.Path)
		} else {
			out[c.Path] = c.After
		}
	}
	return closed(out)
}

// builder assembles a body.
type builder struct {
	f    *flat
	at   map[string]string // key of the step that was added or moved to a path
	gone map[string]bool   // steps that are no longer at their old path
	used int
}

// list returns the steps of one list: those added or moved to a position and, in between, those
// that stayed, in order.
func (b *builder) list(owner, slot, path string, depth int) (json.RawMessage, error) {
	if depth > MaxSteps {
		return nil, unfit("steps are inside themselves")
	}
	var stay []string
	for _, k := range b.f.lists[owner+"/"+slot] {
		if !b.gone[k] {
			stay = append(stay, k)
		}
	}
	out := []json.RawMessage{}
	for i := 0; ; i++ {
		key, came := b.at[index(path, i)]
		if !came {
			if len(stay) == 0 {
				break
			}
			key, stay = stay[0], stay[1:]
		}
		text, err := b.step(b.f.byKey[key], index(path, i), depth)
		if err != nil {
			return nil, err
		}
		out = append(out, text)
	}
	return jcs.Marshal(out)
}

func (b *builder) step(n *node, path string, depth int) (json.RawMessage, error) {
	b.used++
	fields := maps.Clone(n.fields)
	put := func(slot string) (json.RawMessage, error) {
		return b.list("/"+n.key, slot, path+"."+slot, depth+1)
	}
	for _, slot := range []string{"steps", "else"} {
		text, err := put(slot)
		if err != nil {
			return nil, err
		}
		if string(text) != "[]" {
			fields[slot] = text
		}
	}
	if fields["cases"] != nil {
		var cases []map[string]json.RawMessage
		if err := json.Unmarshal(fields["cases"], &cases); err != nil {
			return nil, unfit("the cases of step %q cannot be read", n.key)
		}
		for i := range cases {
			text, err := put(index("cases", i) + ".steps")
			if err != nil {
				return nil, err
			}
			cases[i]["steps"] = text
		}
		text, err := jcs.Marshal(cases)
		if err != nil {
			return nil, err
		}
		fields["cases"] = text
	}
	return jcs.Marshal(fields)
}

func closed(m map[string]json.RawMessage) (map[string]json.RawMessage, error) {
	out := map[string]json.RawMessage{}
	inner := map[string]map[string]json.RawMessage{}
	for name, v := range m {
		k, member, found := strings.Cut(name, ".")
		if !found || !slices.Contains(open, k) {
			out[name] = v
			continue
		}
		if inner[k] == nil {
			inner[k] = map[string]json.RawMessage{}
		}
		inner[k][member] = v
	}
	for k, v := range inner {
		text, err := jcs.Marshal(v)
		if err != nil {
			return nil, err
		}
		out[k] = text
	}
	return out, nil
}
