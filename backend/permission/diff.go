package permission

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/jcs"
	"helix/backend/storage"
)

// Diff compares two definitions of a subject, by default the last approved one with the current one.
func (s *Service) Diff(ctx context.Context, p DiffParams) (DiffResult, error) {
	d, err := s.diff(ctx, identity.UserID(ctx), p.SubjectKind, p.SubjectID, p.From, p.To)
	if err != nil {
		return DiffResult{Changes: []DiffChange{}}, err
	}
	return *d, nil
}

func (s *Service) diff(ctx context.Context, user uuid.UUID, kind, id, from, to string) (*DiffResult, error) {
	info, err := s.lookup(ctx, kind, id)
	if err != nil {
		return nil, err
	}
	var before, after json.RawMessage
	out := &DiffResult{From: from, To: to}
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		var hash [32]byte
		var err error
		if from == "" {
			if before, hash, err = lastApproved(tx, user, kind, id); err == nil && before != nil {
				out.From = hexHash(hash)
			}
		} else {
			before, err = definition(tx, user, kind, id, from)
		}
		if err != nil {
			return err
		}
		if to == "" || info.State != "" && to == hexHash(info.DefinitionHash) {
			after, out.To = info.Definition, hexHash(info.DefinitionHash)
			if info.State == "" {
				return fault.NotFoundf("No such %s.", clip(Sanitize(kind), 40))
			}
			return nil
		}
		after, err = definition(tx, user, kind, id, to)
		return err
	})
	if err != nil {
		return nil, err
	}
	out.Changes, out.Capabilities, err = Compare(before, after)
	return out, err
}

// Compare returns where two definitions differ, and which declared capabilities were added and removed.
func Compare(before, after json.RawMessage) (changes []DiffChange, caps DiffCapabilities, err error) {
	changes, err = compareJSON(before, after)
	return changes, compareWants(declaredIn(before), declaredIn(after)), err
}

func definition(tx *storage.Tx, user uuid.UUID, kind, id, hash string) (doc json.RawMessage, err error) {
	h, err := hex.DecodeString(hash)
	if err != nil || len(h) != 32 {
		return nil, fault.Invalidf("A definition hash has 64 hexadecimal digits.")
	}
	var d []byte
	err = tx.QueryRow(`SELECT document FROM definitions WHERE user_id = ? AND subject_kind = ? AND subject_id = ? AND hash = ?`, user, kind, id, h).Scan(&d)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fault.NotFoundf("Definition not found.")
	}
	return d, err
}

func compareWants(before, after []Want) DiffCapabilities {
	key := func(ws []Want) []string {
		out := []string{}
		for _, w := range ws {
			out = append(out, FormatCapability(w.Capability, w.Resource))
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	b, a := key(before), key(after)
	minus := func(x, y []string) []string {
		return slices.DeleteFunc(slices.Clone(x), func(s string) bool { return slices.Contains(y, s) })
	}
	return DiffCapabilities{Added: minus(a, b), Removed: minus(b, a)}
}

// compareJSON returns where two documents differ, ordered by path. Arrays are compared index by index.
func compareJSON(before, after json.RawMessage) ([]DiffChange, error) {
	var a, b any
	var err error
	if a, err = decodeDoc(before); err == nil {
		b, err = decodeDoc(after)
	}
	if err != nil {
		return nil, err
	}
	out := []DiffChange{}
	walkDiff("", a, b, len(before) > 0, len(after) > 0, &out)
	return out, nil
}

func decodeDoc(doc json.RawMessage) (v any, err error) {
	if len(doc) == 0 {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	return v, d.Decode(&v)
}

func walkDiff(path string, a, b any, hasA, hasB bool, out *[]DiffChange) {
	if hasA && hasB {
		if ma, ok := a.(map[string]any); ok {
			if mb, ok := b.(map[string]any); ok {
				keys := slices.Sorted(maps.Keys(ma))
				for k := range mb {
					if _, ok := ma[k]; !ok {
						keys = append(keys, k)
					}
				}
				slices.Sort(keys)
				for _, k := range keys {
					va, ina := ma[k]
					vb, inb := mb[k]
					walkDiff(path+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(k), va, vb, ina, inb, out)
				}
				return
			}
		}
		if la, ok := a.([]any); ok {
			if lb, ok := b.([]any); ok {
				for i := range max(len(la), len(lb)) {
					var va, vb any
					if i < len(la) {
						va = la[i]
					}
					if i < len(lb) {
						vb = lb[i]
					}
					walkDiff(path+"/"+strconv.Itoa(i), va, vb, i < len(la), i < len(lb), out)
				}
				return
			}
		}
	}
	ra, rb := rawOf(a, hasA), rawOf(b, hasB)
	switch {
	case hasA && !hasB:
		*out = append(*out, DiffChange{Path: path, Kind: "removed", Before: ra})
	case !hasA && hasB:
		*out = append(*out, DiffChange{Path: path, Kind: "added", After: rb})
	case hasA && !sameJSON(ra, rb):
		*out = append(*out, DiffChange{Path: path, Kind: "changed", Before: ra, After: rb})
	}
}

func rawOf(v any, has bool) json.RawMessage {
	if !has {
		return nil
	}
	return mustJSON(v)
}

func sameJSON(a, b json.RawMessage) bool {
	x, err := jcs.Canonicalize(a)
	y, err2 := jcs.Canonicalize(b)
	if err != nil || err2 != nil {
		return bytes.Equal(a, b)
	}
	return bytes.Equal(x, y)
}
