package definition

import (
	"bytes"
	"encoding/json"
	"fmt"

	"helix/backend/jcs"
	"helix/backend/skills/expr"
)

// UnmarshalJSON decodes a value and keeps numbers as json.Number. null sets the value to nil.
func (v *Value) UnmarshalJSON(b []byte) error {
	x, err := expr.Decode(b)
	if err != nil {
		return err
	}
	*v = Value{Set: true, V: x}
	return nil
}

// Parse decodes a body in canonical form, such as a stored version. It checks only the types; use
// Read for definitions written by people.
func Parse(raw json.RawMessage) (*Body, error) {
	b := &Body{}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(b); err != nil {
		return nil, fmt.Errorf("read a definition: %w", err)
	}
	if b.Steps == nil {
		b.Steps = []Step{}
	}
	return b, nil
}

// Text encodes the body in canonical form, without the fields of the skill around it.
func (b *Body) Text() (json.RawMessage, error) {
	if b.Steps == nil {
		c := *b
		c.Steps = []Step{}
		b = &c
	}
	return jcs.Marshal(b)
}

// Count returns the number of steps, including those of nested bodies.
func (b *Body) Count() (n int) {
	b.Walk(func(string, *Step) { n++ })
	return n
}

// Text encodes the skill in canonical form.
func (s *Skill) Text() (json.RawMessage, error) {
	if s.Steps == nil {
		c := *s
		c.Steps = []Step{}
		s = &c
	}
	return jcs.Marshal(s)
}

// Versions is an optional interface of a Catalog that provides earlier versions of skills.
type Versions interface {
	// FindVersion returns the skill with an id at a version, or nothing if it has no such version.
	FindVersion(id, version string) ([]Callable, error)
}
