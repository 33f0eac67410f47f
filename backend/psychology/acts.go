package psychology

import (
	"context"
	"slices"
	"strings"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/memory"
	"helix/backend/storage"
)

// act changes entries of the caller and, with of, memories. It returns the changed items and a
// token to undo the action. plan returns the change to an entry, or nil for none. The audit log
// records the action before anything changes.
func (s *Service) act(ctx context.Context, ids []uuid.UUID, action string, plan func(*storage.Tx, Settings, entryRow) func() error, of func([]uuid.UUID) (memory.ItemsResult, error)) (out ItemsResult, err error) {
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
		var changes []func() error
		for _, id := range ids {
			r, err := s.one(tx, conf, id)
			if fault.Is(err, fault.NotFound) {
				continue
			}
			if err != nil {
				return err
			}
			known[id] = true
			if change := plan(tx, conf, r); change != nil {
				undo, changes = append(undo, undoOf(r)), append(changes, change)
				touched, inLayers = append(touched, id), append(inLayers, r.LayerNumber)
			}
		}
		rest := slices.DeleteFunc(slices.Clone(ids), func(id uuid.UUID) bool { return known[id] })
		if subjects := append(slices.Clone(touched), rest...); len(subjects) > 0 {
			if err := audit.Append(tx, audit.Entry{Action: "psychology." + action, SubjectKind: "psychology", SubjectID: subjects[0].String(), Details: map[string]any{"entries": len(touched), "memories": len(rest)}}); err != nil {
				return err
			}
		}
		if len(rest) > 0 {
			found, err := s.memory.DecayingTx(ctx, tx, uuid.Nil, len(rest), rest...)
			if err != nil {
				return err
			}
			if len(found) < len(rest) || of == nil {
				return fault.NotFoundf("Entry not found. Nothing was changed.")
			}
			live := make([]memory.Retained, len(found)) // current retentions, not those of the last run
			for i, d := range found {
				live[i] = memory.Retained{ID: d.ID, Version: d.Version, Row: d.Row, Retention: conf.retention(itemOf(d), tx.Now)}
			}
			if _, err := s.memory.RetainTx(ctx, tx, live); err != nil {
				return err
			}
		}
		for _, change := range changes {
			if err := change(); err != nil {
				return err
			}
		}
		out.changed = len(changes)
		for _, id := range ids {
			if !known[id] {
				continue
			}
			if now, err := s.one(tx, conf, id); err == nil {
				out.Items = append(out.Items, itemOfEntry(now.Entry))
			}
		}
		if len(undo) == 0 {
			return nil
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

// Reinforce records that entries or memories were reviewed, confirmed, edited or used, which
// restores part of the lost retention and restarts the decay. A use counts once an hour.
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
	return s.act(ctx, p.IDs, "reinforce", func(tx *storage.Tx, conf Settings, e entryRow) func() error {
		if p.Kind == "use" && e.LastReinforcedAt != nil && tx.Now.Sub(*e.LastReinforcedAt) < useEvery {
			return nil
		}
		return func() error { return s.reinforce(tx, conf, e, gain) }
	}, func(ids []uuid.UUID) (memory.ItemsResult, error) {
		return s.memory.Reinforce(ctx, ids, gain, p.Kind == "use")
	})
}

// Pin pins entries or memories so that they keep their current retention, or unpins them so that
// they decay from it.
func (s *Service) Pin(ctx context.Context, p PinParams) (ItemsResult, error) {
	return s.act(ctx, p.IDs, "pin", func(tx *storage.Tx, conf Settings, e entryRow) func() error {
		if e.Pinned == p.On {
			return nil
		}
		now := conf.retention(e.item(), tx.Now)
		set := `pinned = 1, retention = ?1, decayed_at = ?2`
		if !p.On {
			set = `pinned = 0, retention = ?1, decayed_at = ?2, initial_strength = ?1, last_reinforced_at = ?2`
		}
		return func() error {
			_, err := tx.Exec(`UPDATE psychology_entries SET `+set+`, updated_at = ?2, version = version + 1 WHERE id = ?3`, now, tx.Now, e.ID)
			return err
		}
	}, func(ids []uuid.UUID) (memory.ItemsResult, error) {
		return s.memory.Pin(ctx, memory.PinParams{IDs: texts(ids), On: &p.On})
	})
}

// SetSalience sets the tier of entries or memories. Only a person can set critical.
func (s *Service) SetSalience(ctx context.Context, p SalienceParams) (ItemsResult, error) {
	if _, ok := tierPace[p.Tier]; !ok {
		return ItemsResult{}, fault.InvalidField("tier", fault.CodeInvalid, "The tier is critical, high, medium or low, not %q.", p.Tier)
	}
	if caller, _ := identity.From(ctx); p.Tier == "critical" && !caller.Person() {
		return ItemsResult{}, fault.Deniedf("Only a person can mark something as critical. Nothing was changed.")
	}
	return s.act(ctx, p.IDs, "set_salience", func(tx *storage.Tx, _ Settings, e entryRow) func() error {
		if e.SalienceTier == p.Tier {
			return nil
		}
		return func() error {
			_, err := tx.Exec(`UPDATE psychology_entries SET salience_tier = ?, updated_at = ?, version = version + 1 WHERE id = ?`, p.Tier, tx.Now, e.ID)
			return err
		}
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

// DeleteEntry moves entries to the trash. Undo and restore_from_decay restore them for 30 days.
func (s *Service) DeleteEntry(ctx context.Context, p IDsParams) (out UndoResult, err error) {
	r, err := s.act(ctx, p.IDs, "delete", func(tx *storage.Tx, _ Settings, e entryRow) func() error {
		return func() error {
			_, err := tx.Exec(`UPDATE psychology_entries SET deleted_at = ?1, updated_at = ?1, version = version + 1 WHERE id = ?2`, tx.Now, e.ID)
			return err
		}
	}, nil)
	return UndoResult{r.changed, r.UndoToken}, err
}
