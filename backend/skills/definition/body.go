package definition

import (
	"bytes"
	"encoding/json"
	"fmt"

	"helix/backend/jcs"
	"helix/backend/skills/expr"
)

// UnmarshalJSON reads a value with its numbers as they are written; null is a value.
func (v *Value) UnmarshalJSON(b []byte) error {
	x, err := expr.Decode(b)
	if err != nil {
		return err
	}
	*v = Value{Set: true, V: x}
	return nil
}

// Parse reads a body that was written in canonical form, such as a stored version. It checks
// nothing but the types; Read is for what people write.
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

// Text writes the body in canonical form, without what the skill around it holds.
func (b *Body) Text() (json.RawMessage, error) {
	if b.Steps == nil {
		c := *b
		c.Steps = []Step{}
		b = &c
	}
	return jcs.Marshal(b)
}

// Count is how many steps the body has, with those of nested bodies.
func (b *Body) Count() (n int) {
	b.Walk(func(string, *Step) { n++ })
	return n
}

// Text writes the skill in canonical form.
func (s *Skill) Text() (json.RawMessage, error) {
	if s.Steps == nil {
		c := *s
		c.Steps = []Step{}
		s = &c
	}
	return jcs.Marshal(s)
}

// Versions is what a Catalog may also offer: skills as they were at a version.
type Versions interface {
	// FindVersion gives the skill of an id as it was at a version; nothing when it had none.
	FindVersion(id, version string) ([]Callable, error)
}
