package lifecycle

import (
	"fmt"
	"strings"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

// OnConflict is what an import does with a definition whose name is taken.
type OnConflict string

// The ways to handle a taken name.
const (
	Rename  OnConflict = "rename"  // add it under a free name
	Replace OnConflict = "replace" // make it a new version of the definition with that name
	Skip    OnConflict = "skip"    // do not import it
	Reuse   OnConflict = "reuse"   // skip it if it is identical to the definition with that name; else Rename. Not on the wire
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

// Incoming is one definition in a file, after all checks that need no database.
type Incoming struct {
	Name, Author string
	Hash         string           // of the definition, 64 hex digits
	Signature    *BundleSignature // its own or that of its file; nil: none
	State        SignatureState   // of the signature, before trust is checked
	Warnings     []string
}

// Review is the preview of the import of one definition, and what Import then does.
type Review struct {
	Action    Action
	Name      string // the name it gets
	Old       *Item  // the user's definition with that name; nil if the name is free
	Same      bool   // Old is identical to this definition
	Signature SignatureInfo
	Warnings  []string
}

// BundleProblem is the details of an error about a file of definitions: the index of the
// definition, from 0, and the field; Item is -1 if the whole file is invalid.
type BundleProblem struct {
	Item  int    `json:"item"`
	Field string `json:"field"`
}

// Review determines what an import would do with each definition in a file, without doing it.
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

// Import carries out reviews in order: put stores the definition at i according to its review. A
// definition with an invalid signature fails the whole import, which the caller's transaction then
// rolls back.
func Import(reviews []Review, put func(i int, r *Review) error) error {
	for i := range reviews {
		r := &reviews[i]
		if r.Signature.State == SignatureInvalid {
			return fault.Invalidf("The signature of %q does not match it. To import it as unsigned, remove the signature from the file first. Nothing was imported.", r.Name).
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
