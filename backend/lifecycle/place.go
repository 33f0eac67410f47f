package lifecycle

import (
	"strings"

	"github.com/google/uuid"

	"helix/backend/storage"
)

// OnConflict says what an import does with a definition whose name is taken.
type OnConflict string

// What to do when the name is taken.
const (
	Rename  OnConflict = "rename"  // add it under a free name
	Replace OnConflict = "replace" // make it a new version of the definition that has the name
	Skip    OnConflict = "skip"    // do not import it
)

// Action is what an import does with one definition.
type Action int

// The actions.
const (
	Create Action = iota
	Update
	Leave
)

// Place is where an import puts one definition.
type Place struct {
	Action Action
	Name   string // that it gets
	Old    *Item  // the definition of the user that has the name; nil when the name is free
}

// Place decides what an import does with a name. Names in reserved, in lower case, are used by
// other definitions of the same import; the name of a copy is added to it unless it is nil.
func (k *Kind) Place(tx *storage.Tx, user uuid.UUID, name string, on OnConflict, reserved map[string]bool) (Place, error) {
	old, err := k.Named(tx, user, name, uuid.Nil)
	p := Place{Name: name, Old: old}
	switch {
	case err != nil || old == nil:
	case on == Replace:
		p.Action, p.Name = Update, old.Name
	case on == Skip:
		p.Action, p.Name = Leave, old.Name
	default:
		p.Name, err = k.FreeName(tx, user, name, reserved)
		if reserved != nil {
			reserved[strings.ToLower(p.Name)] = true
		}
	}
	return p, err
}
