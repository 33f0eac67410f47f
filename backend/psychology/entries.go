package psychology

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/memory"
	"helix/backend/storage"
)

const (
	maxData    = 64 << 10
	maxEntries = 10_000 // per person
	maxIDs     = 1000
	useEvery   = time.Hour     // minimum time between two reinforcements by use
	openFor    = 6 * time.Hour // how long an entry stays open after it was reopened
	openBelow  = 0.5           // the retention below which a review reopens an entry
	maxNote    = 4000          // bytes
	maxEarlier = 20            // earlier texts kept per entry
	undoPrefix = "psychology-"
	undoAct    = "psychology"
)

// gains maps each kind of reinforcement to the fraction of the lost retention that it restores.
var gains = map[string]float64{"review": reviewGain, "confirm": 0.5, "edit": 0.5, "use": 0.2}

// decayRow is an entry with the fields that decay depends on.
type decayRow struct {
	item
	id      uuid.UUID
	version int64
	row     int64 // rowid of a memory
}

// decaying reads the fields of entries that their retention is computed from.
func decaying(tx *storage.Tx, user uuid.UUID, where string, args ...any) ([]decayRow, error) {
	return storage.Collect(tx.Select(`SELECT id, version, layer_number, initial_strength, salience_tier, pinned, coalesce(last_reinforced_at, created_at), retention FROM psychology_entries
		WHERE +user_id = ? AND +deleted_at IS NULL AND `+where, append([]any{user}, args...)...), func(r storage.Row) (d decayRow, err error) {
		err = r.Scan(&d.id, &d.version, &d.layer, &d.strength, &d.tier, &d.pinned, storage.Time(&d.anchor), &d.stored)
		return d, err
	})
}

// entryRow is a stored entry.
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

// rows reads entries of the caller that are not deleted, newest first, with their data as far as it
// can be decrypted.
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

// unseal decrypts the data of an entry, or sets its Problem.
func (s *Service) unseal(e *Entry, sealed []byte) error {
	plain, err := s.db.Keys().Unseal("psychology_entries", "data", e.ID, sealed)
	switch {
	case fault.Is(err, fault.Unavailable): // the keys are locked, so no entry can be read
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

// visitEntries calls visit for all entries of the caller with the fields of an overview: id, kind, data,
// retention and last reinforcement. It takes a third of the time of rows. The entry is only valid
// during the call.
func (s *Service) visitEntries(tx *storage.Tx, conf Settings, visit func(layer int, e *Entry)) error {
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

// one returns one entry.
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

// title returns the title of an entry in a list.
func (e Entry) title() string {
	var d struct{ Title, Name, Emotion, Text, Dimension, Cadence string }
	_ = json.Unmarshal(e.Data, &d) // validated when stored; an unreadable entry has no title
	for _, t := range []string{d.Title, d.Name, d.Emotion, d.Text, d.Dimension, d.Cadence} {
		if t != "" {
			return t
		}
	}
	return e.Kind
}

// UpsertEntry adds an entry or, with an id, replaces its data. An edit reinforces it.
func (s *Service) UpsertEntry(ctx context.Context, p UpsertParams) (out Entry, err error) {
	kind, err := s.kindOf(p.LayerNumber, p.Kind)
	if err != nil {
		return out, err
	}
	if err := kind.checkData(ctx, p.Data); err != nil {
		return out, err
	}
	return storage.Result(ctx, s.db.Write, func(tx *storage.Tx) (Entry, error) { return s.upsert(tx, p, "person", nil) })
}

// upsert stores validated data.
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
			return out, fault.InvalidField("memoryIds", fault.CodeInvalid, "%d of these memories don't exist.", len(ids)-len(found))
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
			return out, fault.Limitf("You can have at most %d entries. Delete some first.", n)
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

// withEarlier preserves the earlier texts of an entry in an edit, under the key earlier. If the
// entry is open it adds the current text.
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
		_ = json.Unmarshal(raw, &list) // a value of another type under this key is replaced
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

// earlier encodes the newest of the earlier texts, as many as fit. ok is false if none does.
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

// touchLayer reinforces the layer of an entry that was added or reinforced.
func touchLayer(tx *storage.Tx, user uuid.UUID, layer int) error {
	_, err := tx.Exec(`UPDATE psychology_layers SET last_reinforced_at = ?1, updated_at = ?1, version = version + 1 WHERE user_id = ?2 AND layer_number = ?3`, tx.Now, user, layer)
	return err
}

// reinforce restores a fraction of the retention that an entry has lost.
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

// changed publishes psychology.changed once the transaction is committed.
func (s *Service) changed(tx *storage.Tx, user uuid.UUID, layers []int, ids ...uuid.UUID) {
	slices.Sort(layers)
	e := Changed{Layers: append([]int{}, slices.Compact(layers)...), IDs: append([]uuid.UUID{}, ids...)}
	tx.AfterCommit(func() { bus.Publish(tx.Bus(), user, e) })
}
