package lifecycle

import (
	"fmt"
	"strings"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

// OnConflict says what an import does with a definition whose name is taken.
type OnConflict string

// What to do when the name is taken.
const (
	Rename  OnConflict = "rename"  // add it under a free name
	Replace OnConflict = "replace" // make it a new version of the definition that has the name
	Skip    OnConflict = "skip"    // do not import it
	Reuse   OnConflict = "reuse"   // do not import it when it is the definition that has the name; else Rename. Not on the wire
)

// Enum lists the values for the generated client.
func (OnConflict) Enum() []string { return []string{"rename", "replace", "skip"} }

// Action is what an import does with one definition.
type Action int

// The actions.
const (
	Create Action = iota
	Update
	Leave
)

// Incoming is one definition of a file, after all checks that need no database.
type Incoming struct {
	Name, Author string
	Hash         string           // of the definition, 64 hex digits
	Signature    *BundleSignature // its own or that of its file; nil: none
	State        SignatureState   // of the signature, before it is known who is trusted
	Warnings     []string
}

// Review is what an import shows of one definition before it does anything, and what it then does.
type Review struct {
	Action    Action
	Name      string // that it gets
	Old       *Item  // the definition of the user that has the name; nil when the name is free
	Same      bool   // Old is this definition
	Signature SignatureInfo
	Warnings  []string
}

// BundleProblem are the details of the error about a file of definitions: which definition, from
// 0, and which field; Item is -1 when the file as a whole is wrong.
type BundleProblem struct {
	Item  int    `json:"item"`
	Field string `json:"field"`
}

// Review decides what an import would do with each definition of a file, without doing it.
func (k *Kind) Review(tx *storage.Tx, db *storage.DB, list []Incoming, on OnConflict) ([]Review, error) {
	user := identity.UserID(tx.Context())
	taken := map[string]bool{} // by other definitions of the same import
	for _, in := range list {
		taken[strings.ToLower(in.Name)] = true
	}
	out := make([]Review, len(list))
	for i, in := range list {
		r := &out[i]
		r.Name, r.Warnings = in.Name, append([]string{}, in.Warnings...)
		var err error
		if r.Signature, err = Trust(tx, db, user, in.Signature, in.State); err != nil {
			return nil, err
		}
		if r.Signature.State == SignatureUnknown {
			r.Warnings = append(r.Warnings, "The signature is valid, but its key is new here. Compare the fingerprint with the signer before you trust it.")
		}
		known, err := authorHasOtherKey(tx, user, in.Author, r.Signature.Fingerprint)
		if err != nil {
			return nil, err
		}
		if known {
			r.Warnings = append(r.Warnings, fmt.Sprintf("You know an author named \"%s\" with another key. This may be someone else.", in.Author))
		}
		if r.Old, err = k.Named(tx, user, in.Name, uuid.Nil); err != nil {
			return nil, err
		}
		r.Same = r.Old != nil && r.Old.Hash == in.Hash
		switch {
		case r.Old == nil:
		case on == Replace:
			r.Action, r.Name = Update, r.Old.Name
		case on == Skip, on == Reuse && r.Same:
			r.Action, r.Name = Leave, r.Old.Name
		default:
			if r.Name, err = k.FreeName(tx, user, in.Name, taken); err != nil {
				return nil, err
			}
			taken[strings.ToLower(r.Name)] = true
		}
	}
	return out, nil
}

// Import carries reviews out in their order: put stores the definition at i as its review says. A
// definition with an invalid signature refuses the import; the caller's transaction makes it all
// or nothing.
func Import(reviews []Review, put func(i int, r *Review) error) error {
	for i := range reviews {
		r := &reviews[i]
		if r.Signature.State == SignatureInvalid {
			return fault.Invalidf("The signature of %q doesn't match its content. To import it as unsigned, remove the signature from the file first. Nothing was imported.", r.Name).
				WithDetails(BundleProblem{i, "signature"})
		}
		if r.Action == Leave {
			continue
		}
		if err := put(i, r); err != nil {
			return err
		}
	}
	return nil
}
