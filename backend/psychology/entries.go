package psychology

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/memory"
	"helix/backend/storage"
	"helix/backend/synthesis"
)

const (
	maxData    = 64 << 10
	maxEntries = 10_000 // of one person
	maxIDs     = 1000
	useEvery   = time.Hour     // a use counts once in this time
	openFor    = 6 * time.Hour // how long an entry stays open after it was reopened
	openBelow  = 0.5           // the retention under which a review reopens an entry
	maxNote    = 4000          // bytes
	maxEarlier = 20            // earlier texts that an entry keeps
	undoPrefix = "psychology-"
	undoAct    = "psychology"
)

// gains say how much of what was lost each kind of reinforcement brings back.
var gains = map[string]float64{"review": reviewGain, "confirm": 0.5, "edit": 0.5, "use": 0.2}

// decayRow is an entry as decay sees it.
type decayRow struct {
	item
	id      uuid.UUID
	version int64
	row     int64 // of a memory
}

// decaying reads what the retention of entries is computed from.
func decaying(tx *storage.Tx, user uuid.UUID, where string, args ...any) ([]decayRow, error) {
	return storage.Collect(tx.Select(`SELECT id, version, layer_number, initial_strength, salience_tier, pinned, coalesce(last_reinforced_at, created_at), retention FROM psychology_entries
		WHERE +user_id = ? AND +deleted_at IS NULL AND `+where, append([]any{user}, args...)...), func(r storage.Row) (d decayRow, err error) {
		err = r.Scan(&d.id, &d.version, &d.layer, &d.strength, &d.tier, &d.pinned, storage.Time(&d.anchor), &d.stored)
		return d, err
	})
}

// entryRow is the stored part of an entry.
type entryRow struct {
	Entry
	sealed []byte
	stored *float64
}

func (r entryRow) item() item {
	anchor := r.CreatedAt
	if r.LastReinforcedAt != nil {
		anchor = *r.LastReinforcedAt
	}
	return item{layer: r.LayerNumber, strength: r.InitialStrength, tier: r.SalienceTier, pinned: r.Pinned, anchor: anchor, stored: r.stored}
}

const entryColumns = `id, layer_number, kind, data, memory_ids, origin, pattern_id, initial_strength, last_reinforced_at, reinforcement_count, open_until, salience_tier, pinned, retention, version, created_at, updated_at`

// rows reads entries of the caller that are not deleted, newest first, with what can be read of their data.
func (s *Service) rows(tx *storage.Tx, conf Settings, where string, args ...any) ([]entryRow, error) {
	user := identity.UserID(tx.Context())
	return storage.Collect(tx.Select(`SELECT `+entryColumns+` FROM psychology_entries WHERE user_id = ? AND deleted_at IS NULL AND `+where+` ORDER BY created_at DESC, id DESC`, append([]any{user}, args...)...), func(r storage.Row) (e entryRow, err error) {
		var open *time.Time
		if err := r.Scan(&e.ID, &e.LayerNumber, &e.Kind, &e.sealed, storage.JSON(&e.MemoryIDs), &e.Origin, &e.PatternID, &e.InitialStrength, storage.TimePtr(&e.LastReinforcedAt), &e.ReinforcementCount,
			storage.TimePtr(&open), &e.SalienceTier, &e.Pinned, &e.stored, &e.Version, storage.Time(&e.CreatedAt), storage.Time(&e.UpdatedAt)); err != nil {
			return e, err
		}
		e.Open = open != nil && tx.Now.Before(*open)
		e.Retention = conf.retention(e.item(), tx.Now)
		return e, s.unseal(&e.Entry, e.sealed)
	})
}

// unseal reads the data of an entry, or says why it can't be read.
func (s *Service) unseal(e *Entry, sealed []byte) error {
	plain, err := s.db.Keys().Unseal("psychology_entries", "data", e.ID, sealed)
	switch {
	case fault.Is(err, fault.Unavailable): // the keys are locked, which is true of all entries
		return err
	case err != nil:
		e.Problem = "This entry can't be decrypted."
	case !json.Valid(plain):
		e.Problem, e.Raw = "The data of this entry is not valid JSON.", string(plain)
	default:
		e.Data = plain
	}
	if e.Problem != "" {
		e.Data = json.RawMessage("{}")
	}
	return nil
}

// brief visits all entries of the caller with what an overview shows of them: id, kind, data, retention and last
// reinforcement. It takes a third of the time of rows. The entry is of the visit only.
func (s *Service) brief(tx *storage.Tx, conf Settings, visit func(layer int, e *Entry)) error {
	return tx.Select(`SELECT id, layer_number, kind, data, initial_strength, coalesce(last_reinforced_at, created_at), last_reinforced_at IS NOT NULL, salience_tier, pinned, retention FROM psychology_entries
		WHERE user_id = ? AND deleted_at IS NULL`, identity.UserID(tx.Context())).Each(func(r storage.Row) error {
		var x item
		var e Entry
		var sealed sql.RawBytes
		var anchor int64
		var reinforced bool
		if err := r.Scan(&e.ID, &x.layer, &e.Kind, &sealed, &x.strength, &anchor, &reinforced, &x.tier, &x.pinned, &x.stored); err != nil {
			return err
		}
		x.anchor = time.UnixMicro(anchor).UTC()
		if reinforced {
			at := x.anchor
			e.LastReinforcedAt = &at
		}
		e.Retention = conf.retention(x, tx.Now)
		if err := s.unseal(&e, sealed); err != nil {
			return err
		}
		visit(x.layer, &e)
		return nil
	})
}

func (s *Service) entries(tx *storage.Tx, conf Settings, where string, args ...any) ([]Entry, error) {
	rows, err := s.rows(tx, conf, where, args...)
	out := make([]Entry, len(rows))
	for i, r := range rows {
		out[i] = r.Entry
	}
	return out, err
}

// one reads one entry.
func (s *Service) one(tx *storage.Tx, conf Settings, id uuid.UUID) (entryRow, error) {
	rows, err := s.rows(tx, conf, "id = ?", id)
	if err == nil && len(rows) == 0 {
		err = fault.NotFoundf("Entry not found.")
	}
	if err != nil {
		return entryRow{}, err
	}
	return rows[0], nil
}

// title is how an entry is named in a list.
func (e Entry) title() string {
	var d struct{ Title, Name, Emotion, Text, Dimension, Cadence string }
	_ = json.Unmarshal(e.Data, &d) // checked when it was stored; an unreadable one has no title
	for _, t := range []string{d.Title, d.Name, d.Emotion, d.Text, d.Dimension, d.Cadence} {
		if t != "" {
			return t
		}
	}
	return e.Kind
}

// UpsertEntry adds an entry, or with an id replaces its data. An edit reinforces it.
func (s *Service) UpsertEntry(ctx context.Context, p UpsertParams) (out Entry, err error) {
	kind, err := s.kindOf(p.LayerNumber, p.Kind)
	if err != nil {
		return out, err
	}
	if err := kind.checkData(ctx, p.Data); err != nil {
		return out, err
	}
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		out, err = s.upsert(tx, p, "person", nil)
		return err
	})
	return out, err
}

// upsert stores checked data.
func (s *Service) upsert(tx *storage.Tx, p UpsertParams, origin string, pattern *uuid.UUID) (out Entry, err error) {
	ctx := tx.Context()
	user := identity.UserID(ctx)
	if err := s.ensureLayers(tx, user); err != nil {
		return out, err
	}
	conf, err := settings(tx, user)
	if err != nil {
		return out, err
	}
	ids := slices.Compact(slices.SortedFunc(slices.Values(p.MemoryIDs), func(a, b uuid.UUID) int { return strings.Compare(a.String(), b.String()) }))
	if len(ids) > 0 {
		found, err := s.memory.DecayingTx(ctx, tx, uuid.Nil, len(ids), ids...)
		if err != nil {
			return out, err
		}
		if len(found) < len(ids) {
			return out, fault.InvalidField("memoryIds", fault.CodeInvalid, "%d of the memories don't exist.", len(ids)-len(found))
		}
	}
	list, err := json.Marshal(append([]uuid.UUID{}, ids...))
	if err != nil {
		return out, err
	}
	id := storage.NewID()
	if p.ID != nil {
		id = *p.ID
		old, err := s.one(tx, conf, id)
		if err != nil {
			return out, err
		}
		if old.LayerNumber != p.LayerNumber || old.Kind != p.Kind {
			return out, fault.InvalidField("kind", fault.CodeInvalid, "The layer and kind of an entry can't be changed.")
		}
		if p.Version != 0 && p.Version != old.Version {
			return out, fault.Conflictf("This entry has changed since you opened it. Nothing was overwritten.").WithDetails(old.Entry)
		}
		data, err := withEarlier(p.Data, old.Data, old.Open, tx.Now)
		if err == nil && p.Kind == "person" {
			data, err = s.computedTrust(tx, id, data)
		}
		if err != nil {
			return out, err
		}
		sealed, err := s.db.Keys().SealChanged("psychology_entries", "data", id, old.sealed, data)
		if err != nil {
			return out, err
		}
		if p.MemoryIDs == nil {
			list, _ = json.Marshal(old.MemoryIDs)
		}
		if _, err := tx.Exec(`UPDATE psychology_entries SET data = ?, memory_ids = ?, updated_at = ? WHERE id = ? AND user_id = ?`, sealed, string(list), tx.Now, id, user); err != nil {
			return out, err
		}
		if err := s.reinforce(tx, conf, old, gains["edit"]); err != nil {
			return out, err
		}
	} else {
		var n int
		if err := tx.QueryRow(`SELECT count(*) FROM psychology_entries WHERE user_id = ? AND deleted_at IS NULL`, user).Scan(&n); err != nil {
			return out, err
		}
		if n >= maxEntries {
			return out, fault.Limitf("There are %d entries, the most that are possible. Delete some first.", n)
		}
		data := p.Data
		if p.Kind == "person" {
			if data, err = s.computedTrust(tx, id, data); err != nil {
				return out, err
			}
		}
		sealed, err := s.db.Keys().Seal("psychology_entries", "data", id, data)
		if err != nil {
			return out, err
		}
		if _, err := tx.Exec(`INSERT INTO psychology_entries (id, user_id, layer_number, kind, data, memory_ids, origin, pattern_id, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9)`,
			id, user, p.LayerNumber, p.Kind, sealed, string(list), origin, pattern, tx.Now); err != nil {
			return out, err
		}
		if err := touchLayer(tx, user, p.LayerNumber); err != nil {
			return out, err
		}
	}
	s.changed(tx, user, []int{p.LayerNumber}, id)
	r, err := s.one(tx, conf, id)
	return r.Entry, err
}

// withEarlier keeps the earlier texts of an entry over an edit, under the key earlier, and adds what
// an open entry says now.
func withEarlier(data, old json.RawMessage, open bool, now time.Time) (json.RawMessage, error) {
	var next, was map[string]json.RawMessage
	if err := json.Unmarshal(data, &next); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(old, &was); err != nil {
		return nil, err
	}
	var list []json.RawMessage
	if raw, ok := was["earlier"]; ok {
		_ = json.Unmarshal(raw, &list) // another shape under this key is replaced
	}
	delete(was, "earlier")
	delete(next, "earlier")
	if maps.EqualFunc(was, next, func(a, b json.RawMessage) bool { return string(a) == string(b) }) {
		return old, nil
	}
	if !open {
		if raw, ok := earlier(list); ok {
			next["earlier"] = raw
		}
		return json.Marshal(next)
	}
	one, err := json.Marshal(map[string]any{"until": now.UTC(), "data": was})
	if err != nil {
		return nil, err
	}
	next["earlier"], _ = earlier(append([]json.RawMessage{one}, list...))
	return json.Marshal(next)
}

// earlier is the newest of the earlier texts, as many as there is room for.
func earlier(list []json.RawMessage) (json.RawMessage, bool) {
	list = list[:min(len(list), maxEarlier)]
	for len(list) > 1 && len(bytes.Join(rawBytes(list), nil)) > maxData {
		list = list[:len(list)-1]
	}
	raw, err := json.Marshal(list)
	return raw, err == nil && len(list) > 0
}

func rawBytes(list []json.RawMessage) (out [][]byte) {
	for _, r := range list {
		out = append(out, r)
	}
	return out
}

// touchLayer reinforces a layer, whose entry was added or reinforced.
func touchLayer(tx *storage.Tx, user uuid.UUID, layer int) error {
	_, err := tx.Exec(`UPDATE psychology_layers SET last_reinforced_at = ?1, updated_at = ?1, version = version + 1 WHERE user_id = ?2 AND layer_number = ?3`, tx.Now, user, layer)
	return err
}

// reinforce brings back a share of what an entry has lost.
func (s *Service) reinforce(tx *storage.Tx, conf Settings, e entryRow, gain float64) error {
	now := conf.retention(e.item(), tx.Now)
	strength := min(1, now+gain*(1-now))
	var open *time.Time
	if now < openBelow && !e.Pinned {
		until := tx.Now.Add(openFor)
		open = &until
	}
	if _, err := tx.Exec(`UPDATE psychology_entries SET initial_strength = ?1, last_reinforced_at = ?2, reinforcement_count = reinforcement_count + 1, retention = ?1, decayed_at = ?2,
		open_until = coalesce(?3, open_until), updated_at = ?2, version = version + 1 WHERE id = ?4 AND user_id = ?5`, strength, tx.Now, open, e.ID, identity.UserID(tx.Context())); err != nil {
		return err
	}
	return touchLayer(tx, identity.UserID(tx.Context()), e.LayerNumber)
}

// entryUndo is what an entry was before an act.
type entryUndo struct {
	ID         uuid.UUID  `json:"id"`
	Set        int64      `json:"set"`  // the version that the act made
	Data       string     `json:"data"` // sealed, in base64
	Strength   float64    `json:"strength"`
	Reinforced *time.Time `json:"reinforced,omitempty"`
	Count      int64      `json:"count"`
	Tier       string     `json:"tier"`
	Pinned     bool       `json:"pinned"`
	Retention  *float64   `json:"retention,omitempty"`
	Deleted    *time.Time `json:"deleted,omitempty"` // it was in the trash
}

// undoOf keeps an entry as it is, before an act that raises its version by one.
func undoOf(r entryRow) entryUndo {
	return entryUndo{r.ID, r.Version + 1, base64.StdEncoding.EncodeToString(r.sealed), r.InitialStrength, r.LastReinforcedAt, r.ReinforcementCount, r.SalienceTier, r.Pinned, r.stored, nil}
}

// act changes entries of the caller with fn, and memories with of, and returns all of them and a
// token that takes the act back.
func (s *Service) act(ctx context.Context, ids []uuid.UUID, action string, fn func(*storage.Tx, Settings, entryRow) (bool, error), of func([]uuid.UUID) (memory.ItemsResult, error)) (out ItemsResult, err error) {
	out.Items = []Item{}
	seen := map[uuid.UUID]bool{}
	ids = slices.DeleteFunc(slices.Clone(ids), func(id uuid.UUID) bool { again := seen[id]; seen[id] = true; return again })
	if len(ids) == 0 || len(ids) > maxIDs {
		return out, fault.InvalidField("ids", fault.CodeRange, "Give 1 to %d ids.", maxIDs)
	}
	known := map[uuid.UUID]bool{}
	var tokens []string
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		user := identity.UserID(ctx)
		conf, err := settings(tx, user)
		if err != nil {
			return err
		}
		var undo []entryUndo
		var touched []uuid.UUID
		var inLayers []int
		for _, id := range ids {
			r, err := s.one(tx, conf, id)
			if fault.Is(err, fault.NotFound) {
				continue
			}
			if err != nil {
				return err
			}
			known[id] = true
			changed, err := fn(tx, conf, r)
			if err != nil {
				return err
			}
			if changed {
				undo = append(undo, undoOf(r))
				out.changed++
				touched, inLayers = append(touched, id), append(inLayers, r.LayerNumber)
			}
			if now, err := s.one(tx, conf, id); err == nil {
				out.Items = append(out.Items, itemOfEntry(now.Entry))
			}
		}
		if len(known) < len(ids) {
			rest := slices.DeleteFunc(slices.Clone(ids), func(id uuid.UUID) bool { return known[id] })
			found, err := s.memory.DecayingTx(ctx, tx, uuid.Nil, len(rest), rest...)
			if err != nil {
				return err
			}
			if len(found) < len(rest) || of == nil {
				return fault.NotFoundf("Entry not found. Nothing was changed.")
			}
			live := make([]memory.Retained, len(found)) // what they have now, not at the last run
			for i, d := range found {
				live[i] = memory.Retained{ID: d.ID, Version: d.Version, Row: d.Row, Retention: conf.retention(itemOf(d), tx.Now)}
			}
			if _, err := s.memory.RetainTx(ctx, tx, live); err != nil {
				return err
			}
		}
		if len(undo) == 0 {
			return nil
		}
		if err := audit.Append(tx, audit.Entry{Action: "psychology." + action, SubjectKind: "psychology", SubjectID: touched[0].String(), Details: map[string]any{"entries": len(touched)}}); err != nil {
			return err
		}
		token, err := tx.KeepUndo(user, undoAct, undo)
		tokens = append(tokens, undoPrefix+token)
		s.changed(tx, user, inLayers, touched...)
		return err
	})
	if rest := slices.DeleteFunc(slices.Clone(ids), func(id uuid.UUID) bool { return known[id] }); err == nil && len(rest) > 0 {
		r, memErr := of(rest)
		if memErr != nil {
			return out, memErr
		}
		for _, m := range r.Items {
			out.Items = append(out.Items, s.itemOfMemory(ctx, m))
		}
		if r.UndoToken != "" {
			tokens = append(tokens, r.UndoToken)
		}
	}
	out.UndoToken = strings.Join(tokens, ".")
	return out, err
}

func itemOfEntry(e Entry) Item {
	return Item{ID: e.ID, Kind: "entry", LayerNumber: e.LayerNumber, Title: e.title(), Retention: e.Retention, Pinned: e.Pinned, SalienceTier: e.SalienceTier}
}

func (s *Service) itemOfMemory(ctx context.Context, m memory.Item) Item {
	it := Item{ID: m.ID, Kind: "memory", Title: firstLine(m.Content), Retention: m.InitialStrength, Pinned: m.Pinned, SalienceTier: m.SalienceTier}
	_ = s.db.Read(ctx, func(tx *storage.Tx) error { // the retention is shown, not stored: without it, the strength is
		conf, err := settings(tx, identity.UserID(ctx))
		if err != nil {
			return err
		}
		found, err := s.memory.DecayingTx(ctx, tx, uuid.Nil, 1, m.ID)
		if err == nil && len(found) == 1 {
			it.LayerNumber, it.Retention = layerOf(found[0]), conf.retention(itemOf(found[0]), tx.Now)
		}
		return err
	})
	return it
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if r := []rune(line); len(r) > 120 {
		return string(r[:119]) + "…"
	}
	return line
}

// Reinforce counts that entries or memories were reviewed, confirmed, edited or used: part of what
// was forgotten comes back, and time counts from now. A use counts once an hour.
func (s *Service) Reinforce(ctx context.Context, p ReinforceParams) (ItemsResult, error) {
	gain, ok := gains[p.Kind]
	if !ok {
		return ItemsResult{}, fault.InvalidField("kind", fault.CodeInvalid, "The kind is review, confirm, edit or use, not %q.", p.Kind)
	}
	if p.Strength != nil {
		if !(*p.Strength >= 0 && *p.Strength <= 1) {
			return ItemsResult{}, fault.InvalidField("strength", fault.CodeRange, "strength must be between 0 and 1.")
		}
		gain = *p.Strength
	}
	return s.act(ctx, p.IDs, "reinforce", func(tx *storage.Tx, conf Settings, e entryRow) (bool, error) {
		if p.Kind == "use" && e.LastReinforcedAt != nil && tx.Now.Sub(*e.LastReinforcedAt) < useEvery {
			return false, nil
		}
		return true, s.reinforce(tx, conf, e, gain)
	}, func(ids []uuid.UUID) (memory.ItemsResult, error) {
		return s.memory.Reinforce(ctx, ids, gain, p.Kind == "use")
	})
}

// Pin makes entries or memories keep the retention that they have; unpinned, they fade from there.
func (s *Service) Pin(ctx context.Context, p PinParams) (ItemsResult, error) {
	return s.act(ctx, p.IDs, "pin", func(tx *storage.Tx, conf Settings, e entryRow) (bool, error) {
		if e.Pinned == p.On {
			return false, nil
		}
		now := conf.retention(e.item(), tx.Now)
		set := `pinned = 1, retention = ?1, decayed_at = ?2`
		if !p.On {
			set = `pinned = 0, retention = ?1, decayed_at = ?2, initial_strength = ?1, last_reinforced_at = ?2`
		}
		_, err := tx.Exec(`UPDATE psychology_entries SET `+set+`, updated_at = ?2, version = version + 1 WHERE id = ?3`, now, tx.Now, e.ID)
		return true, err
	}, func(ids []uuid.UUID) (memory.ItemsResult, error) {
		return s.memory.Pin(ctx, memory.PinParams{IDs: texts(ids), On: &p.On})
	})
}

// SetSalience sets how important entries or memories are. Only a person can set critical.
func (s *Service) SetSalience(ctx context.Context, p SalienceParams) (ItemsResult, error) {
	if _, ok := tierPace[p.Tier]; !ok {
		return ItemsResult{}, fault.InvalidField("tier", fault.CodeInvalid, "The tier is critical, high, medium or low, not %q.", p.Tier)
	}
	if caller, _ := identity.From(ctx); p.Tier == "critical" && !caller.Person() {
		return ItemsResult{}, fault.Deniedf("Only a person can mark something as critical. Nothing was changed.")
	}
	return s.act(ctx, p.IDs, "set_salience", func(tx *storage.Tx, _ Settings, e entryRow) (bool, error) {
		if e.SalienceTier == p.Tier {
			return false, nil
		}
		_, err := tx.Exec(`UPDATE psychology_entries SET salience_tier = ?, updated_at = ?, version = version + 1 WHERE id = ?`, p.Tier, tx.Now, e.ID)
		return true, err
	}, func(ids []uuid.UUID) (memory.ItemsResult, error) {
		return s.memory.SetSalience(ctx, memory.SalienceParams{IDs: texts(ids), Tier: p.Tier})
	})
}

func texts(ids []uuid.UUID) (out []string) {
	for _, id := range ids {
		out = append(out, id.String())
	}
	return out
}

// DeleteEntry moves entries to the trash, from where Undo and restore_from_decay bring them back
// for 30 days.
func (s *Service) DeleteEntry(ctx context.Context, p IDsParams) (out UndoResult, err error) {
	r, err := s.act(ctx, p.IDs, "delete", func(tx *storage.Tx, _ Settings, e entryRow) (bool, error) {
		_, err := tx.Exec(`UPDATE psychology_entries SET deleted_at = ?1, updated_at = ?1, version = version + 1 WHERE id = ?2`, tx.Now, e.ID)
		return true, err
	}, nil)
	return UndoResult{r.changed, r.UndoToken}, err
}

// Undo takes back an act on entries or memories, for ten minutes. What was changed again since
// stays as it is.
func (s *Service) Undo(ctx context.Context, p memory.UndoParams) (out UndoResult, err error) {
	var failed error
	for token := range strings.SplitSeq(p.UndoToken, ".") {
		own, is := strings.CutPrefix(token, undoPrefix)
		if !is {
			undo := s.memory.Undo
			if strings.HasPrefix(token, synthesis.UndoPrefix) && s.o.Patterns != nil {
				undo = s.o.Patterns.Undo
			}
			r, err := undo(ctx, memory.UndoParams{UndoToken: token})
			failed = errors.Join(failed, err)
			out.Count += r.Count
			continue
		}
		n, err := s.undo(ctx, own)
		failed = errors.Join(failed, err)
		out.Count += n
	}
	if out.Count > 0 {
		failed = nil // what was changed again since stays as it is
	}
	return out, failed
}

func (s *Service) undo(ctx context.Context, token string) (n int, err error) {
	return n, s.db.Write(ctx, func(tx *storage.Tx) error {
		user := identity.UserID(ctx)
		_, state, err := tx.TakeUndo(user, token)
		if err != nil {
			return err
		}
		var list []entryUndo
		if err := json.Unmarshal(state, &list); err != nil {
			return err
		}
		var ids []uuid.UUID
		for _, u := range list {
			sealed, err := base64.StdEncoding.DecodeString(u.Data)
			if err != nil {
				return err
			}
			r, err := tx.Exec(`UPDATE psychology_entries SET data = ?, initial_strength = ?, last_reinforced_at = ?, reinforcement_count = ?, salience_tier = ?, pinned = ?, retention = ?, deleted_at = ?, updated_at = ?, version = version + 1
				WHERE id = ? AND user_id = ? AND version = ?`, sealed, u.Strength, u.Reinforced, u.Count, u.Tier, u.Pinned, u.Retention, u.Deleted, tx.Now, u.ID, user, u.Set)
			if err != nil {
				return err
			}
			if k, err := r.RowsAffected(); err != nil || k == 0 {
				continue
			}
			ids = append(ids, u.ID)
		}
		if n = len(ids); n == 0 {
			return fault.Conflictf("This has changed again, so it can no longer be undone.")
		}
		s.changed(tx, user, nil, ids...)
		return nil
	})
}

// changed publishes that entries have changed, once the transaction is committed.
func (s *Service) changed(tx *storage.Tx, user uuid.UUID, layers []int, ids ...uuid.UUID) {
	slices.Sort(layers)
	e := Changed{Layers: append([]int{}, slices.Compact(layers)...), IDs: append([]uuid.UUID{}, ids...)}
	tx.AfterCommit(func() { bus.Publish(tx.Bus(), user, e) })
}
