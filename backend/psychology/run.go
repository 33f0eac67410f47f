package psychology

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
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

// decayRun is one evaluation of everything of a user that decays.
type decayRun struct {
	s       *Service
	user    uuid.UUID
	conf    Settings
	dry     bool
	out     RunResult
	expired []uuid.UUID // memories to move to the trash in mode hard
	access  func(context.Context, func(*storage.Tx) error) error
}

// update is an item whose retention must be stored.
type update struct {
	decayRow
	now float64
}

// DecayRun computes the retention of all memories, entries and layers of the caller. It is
// idempotent, because retention depends only on the time since the last reinforcement. In mode hard
// it moves items that have been at their floor for the grace period to the trash.
func (s *Service) DecayRun(ctx context.Context, p RunParams) (RunResult, error) {
	user := identity.UserID(ctx)
	s.mu.Lock()
	if s.running[user] {
		s.mu.Unlock()
		return RunResult{}, fault.Conflictf("A decay run is already under way.")
	}
	s.running[user] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.running, user)
		s.mu.Unlock()
	}()
	begin := time.Now()
	r := &decayRun{s: s, user: user, dry: p.DryRun, access: s.db.Write, out: RunResult{RunID: storage.NewID(), Skipped: []Skipped{}, Trashed: []uuid.UUID{}}}
	if p.DryRun {
		r.access = s.db.Read
	}
	err := r.run(ctx)
	r.out.TookMs = time.Since(begin).Milliseconds()
	if p.DryRun {
		return r.out, err
	}
	return r.out, errors.Join(err, r.finish(context.WithoutCancel(ctx), err))
}

func (r *decayRun) run(ctx context.Context) error {
	err := r.access(ctx, func(tx *storage.Tx) (err error) {
		if r.conf, err = settings(tx, r.user); err != nil || r.dry {
			return err
		}
		_, err = tx.Exec(`INSERT INTO decay_runs (id, user_id, started_at) VALUES (?, ?, ?)`, r.out.RunID, r.user, tx.Now)
		return err
	})
	if err == nil {
		err = r.access(ctx, r.layers)
	}
	for _, batch := range []func(*storage.Tx, uuid.UUID) (uuid.UUID, bool, error){r.entries, r.memories} {
		if err == nil {
			err = r.batches(ctx, batch)
		}
	}
	for ids := range slices.Chunk(r.expired, 100) {
		if err == nil {
			err = r.access(ctx, func(tx *storage.Tx) error { return r.trash(tx, ids) })
		}
	}
	return err
}

// batches runs all batches, several per transaction while nobody else wants to write, because most of the
// time of a batch is its commit. A batch that fails is rolled back alone; those before it are kept.
func (r *decayRun) batches(ctx context.Context, batch func(*storage.Tx, uuid.UUID) (uuid.UUID, bool, error)) error {
	for after, more := uuid.Nil, true; more; {
		var failed error
		err := r.access(ctx, func(tx *storage.Tx) error {
			for n := 0; n < batchesHeld && more && (n == 0 || !tx.Wanted()); n++ {
				if _, err := tx.Exec(`SAVEPOINT batch`); err != nil {
					return err
				}
				if after, more, failed = batch(tx, after); failed != nil {
					_, err := tx.Exec(`ROLLBACK TO batch`)
					return err
				}
				if _, err := tx.Exec(`RELEASE batch`); err != nil {
					return err
				}
			}
			return nil
		})
		if err = errors.Join(failed, err); err != nil {
			return err
		}
	}
	return nil
}

// trash moves memories to the trash, except those that were pinned or reinforced since they were read.
func (r *decayRun) trash(tx *storage.Tx, ids []uuid.UUID) error {
	now, err := r.s.memory.DecayingTx(tx.Context(), tx, uuid.Nil, len(ids), ids...)
	if err != nil {
		return err
	}
	ids = nil
	for _, d := range now {
		if r.conf.expired(itemOf(d), tx.Now) {
			ids = append(ids, d.ID)
		}
	}
	if !r.dry && len(ids) > 0 {
		if ids, err = r.s.memory.TrashTx(tx.Context(), tx, ids); err != nil {
			return err
		}
	}
	r.out.Trashed = append(r.out.Trashed, ids...)
	return nil
}

// finish stores the end of the run and publishes it.
func (r *decayRun) finish(ctx context.Context, failed error) error {
	return r.s.db.Write(ctx, func(tx *storage.Tx) error {
		skipped, err := json.Marshal(r.out.Skipped[:min(100, len(r.out.Skipped))])
		if err != nil {
			return err
		}
		trashed, err := json.Marshal(r.out.Trashed)
		if err != nil {
			return err
		}
		var message *string
		if failed != nil {
			m := fault.As(failed).Message
			message = &m
		}
		var soon int
		if err := tx.QueryRow(`SELECT count(DISTINCT item_id) FROM memory_decay_history WHERE user_id = ?1 AND threshold <= ?2 AND new_retention < previous_retention
			AND at > coalesce((SELECT max(finished_at) FROM decay_runs WHERE user_id = ?1 AND announced), 0)
			AND NOT EXISTS (SELECT 1 FROM decay_runs WHERE user_id = ?1 AND announced AND finished_at > ?3)`, r.user, fadingLine, tx.Now.Add(-24*time.Hour)).Scan(&soon); err != nil {
			return err
		}
		if _, err := tx.Exec(`UPDATE decay_runs SET finished_at = ?, layers = ?, items = ?, changed = ?, skipped = ?, trashed = ?, errors = ?, announced = ? WHERE id = ?`,
			tx.Now, r.out.Layers, r.out.Items, r.out.Changed, string(skipped), string(trashed), message, soon > 0, r.out.RunID); err != nil {
			return err
		}
		tx.AfterCommit(func() {
			bus.Publish(tx.Bus(), r.user, Done{r.out.RunID, r.out.Changed, len(r.out.Trashed)})
			if soon > 0 {
				bus.Publish(tx.Bus(), r.user, FadingSoon{soon})
			}
		})
		return nil
	})
}

// evaluate computes the retention of items, records threshold crossings, and returns what must be
// stored: items whose retention changed by more than least or crossed a threshold, and items to
// move to the trash.
func (r *decayRun) evaluate(tx *storage.Tx, rows []decayRow, least float64) (write []update, trash []uuid.UUID, err error) {
	var crossings [][6]any
	for _, d := range rows {
		r.out.Items++
		if d.anchor.After(tx.Now.Add(time.Minute)) {
			r.out.Skipped = append(r.out.Skipped, Skipped{d.id, "its date is in the future, so no time has passed"})
		}
		now := r.conf.retention(d.item, tx.Now)
		if math.IsNaN(now) {
			r.out.Skipped = append(r.out.Skipped, Skipped{d.id, "its strength is not between 0 and 1"})
			continue
		}
		if now < fadingLine {
			r.out.Fading++
		}
		if r.conf.expired(d.item, tx.Now) {
			trash = append(trash, d.id)
		}
		was := d.strength
		if d.stored != nil {
			was = *d.stored
		}
		crossed := crossing(was, now, r.conf.floor(d.item))
		if d.stored == nil && now == d.strength || math.Abs(now-was) <= least && crossed == 0 {
			continue
		}
		r.out.Changed++
		write = append(write, update{d, now})
		if crossed > 0 {
			id := storage.NewID()
			crossings = append(crossings, [6]any{hex.EncodeToString(id[:]), hex.EncodeToString(d.id[:]), d.layer, was, now, crossed})
		}
	}
	if r.dry || len(crossings) == 0 {
		return write, trash, nil
	}
	list, err := json.Marshal(crossings)
	if err != nil {
		return nil, nil, err
	}
	_, err = tx.Exec(`INSERT INTO memory_decay_history (id, user_id, item_id, layer_number, previous_retention, new_retention, threshold, at, run_id)
		SELECT unhex(value ->> 0), ?2, unhex(value ->> 1), value ->> 2, value ->> 3, value ->> 4, value ->> 5, ?3, ?4 FROM json_each(?1)`, string(list), r.user, tx.Now, r.out.RunID)
	return write, trash, err
}

func (r *decayRun) layers(tx *storage.Tx) error {
	if !r.dry {
		// While the keys are locked no layer can be created, but memories decay anyway.
		if err := r.s.ensureLayers(tx, r.user); err != nil && !fault.Is(err, fault.Unavailable) {
			return err
		}
	}
	rows, err := layerRows(tx, r.user)
	if err != nil {
		return err
	}
	for _, l := range rows[1:] {
		r.out.Layers++
		now := r.conf.retention(l.item(), tx.Now)
		if r.dry || l.stored != nil && *l.stored == now {
			continue
		}
		if _, err := tx.Exec(`UPDATE psychology_layers SET retention = ?, decayed_at = ? WHERE id = ? AND user_id = ? AND version = ?`, now, tx.Now, l.id, r.user, max(1, l.version)); err != nil {
			return err
		}
	}
	return nil
}

// entries evaluates a batch of entries after an id, and returns the last id.
func (r *decayRun) entries(tx *storage.Tx, after uuid.UUID) (uuid.UUID, bool, error) {
	rows, err := decaying(tx, r.user, "id > ? ORDER BY id LIMIT ?", after[:], batchSize)
	if err != nil || len(rows) == 0 {
		return after, false, err
	}
	write, trash, err := r.evaluate(tx, rows, 0)
	if err != nil {
		return after, false, err
	}
	if !r.dry {
		values := make([][3]any, len(write))
		for i, m := range write {
			values[i] = [3]any{hex.EncodeToString(m.id[:]), m.version, m.now}
		}
		list, err := json.Marshal(values)
		if err != nil {
			return after, false, err
		}
		if _, err := tx.Exec(`UPDATE psychology_entries SET retention = j.value ->> 2, decayed_at = ?2 FROM json_each(?1) j WHERE psychology_entries.id = unhex(j.value ->> 0) AND version = j.value ->> 1 AND +user_id = ?3`,
			string(list), tx.Now, r.user); err != nil {
			return after, false, err
		}
		for _, id := range trash {
			if _, err := tx.Exec(`UPDATE psychology_entries SET deleted_at = ?1, updated_at = ?1, version = version + 1 WHERE id = ?2 AND user_id = ?3`, tx.Now, id, r.user); err != nil {
				return after, false, err
			}
		}
	}
	r.out.Trashed = append(r.out.Trashed, trash...)
	return rows[len(rows)-1].id, len(rows) == batchSize, nil
}

// memories evaluates a batch of memories after an id, and returns the last id.
func (r *decayRun) memories(tx *storage.Tx, after uuid.UUID) (uuid.UUID, bool, error) {
	ctx := tx.Context()
	list, err := r.s.memory.DecayingTx(ctx, tx, after, batchSize)
	if err != nil || len(list) == 0 {
		return after, false, err
	}
	rows := make([]decayRow, len(list))
	for i, d := range list {
		rows[i] = decayRow{itemOf(d), d.ID, d.Version, d.Row}
	}
	write, trash, err := r.evaluate(tx, rows, leastChange)
	if err != nil {
		return after, false, err
	}
	if !r.dry {
		kept := make([]memory.Retained, len(write))
		for i, m := range write {
			kept[i] = memory.Retained{ID: m.id, Version: m.version, Row: m.row, Retention: m.now}
		}
		if _, err := r.s.memory.RetainTx(ctx, tx, kept); err != nil {
			return after, false, err
		}
	}
	r.expired = append(r.expired, trash...)
	return rows[len(rows)-1].id, len(rows) == batchSize, nil
}

// expired reports whether mode hard moves x to the trash, because it has been at its floor
// for the grace period.
func (s Settings) expired(x item, now time.Time) bool {
	if s.Mode != "hard" || s.frozen(x) || x.tier == "critical" || x.tier == "high" && s.PreserveHighSalience {
		return false
	}
	at, ok := s.crosses(x, s.floor(x))
	return ok && !now.Before(at.AddDate(0, 0, s.HardGraceDays))
}

// RestoreFromDecay restores and reinforces items that decay, or a person, moved to the trash.
func (s *Service) RestoreFromDecay(ctx context.Context, p RestoreParams) (out UndoResult, err error) {
	ids := p.IDs
	if p.RunID != nil {
		if err := s.db.Read(ctx, func(tx *storage.Tx) error {
			return tx.QueryRow(`SELECT trashed FROM decay_runs WHERE id = ? AND user_id = ?`, *p.RunID, identity.UserID(ctx)).Scan(storage.JSON(&ids))
		}); err != nil {
			return out, fault.NotFoundf("Run not found.").WithCause(err)
		}
	}
	if len(ids) == 0 || p.RunID == nil && len(ids) > maxIDs {
		return out, fault.InvalidField("ids", fault.CodeRange, "Give 1 to %d ids, or a run that moved something to the trash.", maxIDs)
	}
	var rest []uuid.UUID
	var tokens []string
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		user := identity.UserID(ctx)
		conf, err := settings(tx, user)
		if err != nil {
			return err
		}
		var undo []entryUndo
		for _, id := range ids {
			var deleted *time.Time
			err := tx.QueryRow(`SELECT deleted_at FROM psychology_entries WHERE id = ? AND user_id = ?`, id, user).Scan(storage.TimePtr(&deleted))
			switch {
			case errors.Is(err, sql.ErrNoRows):
				rest = append(rest, id)
				continue
			case err != nil:
				return err
			case deleted == nil: // already restored
				continue
			}
			if _, err := tx.Exec(`UPDATE psychology_entries SET deleted_at = NULL, updated_at = ?, version = version + 1 WHERE id = ?`, tx.Now, id); err != nil {
				return err
			}
			r, err := s.one(tx, conf, id)
			if err != nil {
				return err
			}
			if err := s.reinforce(tx, conf, r, gains["confirm"]); err != nil {
				return err
			}
			u := undoOf(r)
			u.Deleted = deleted
			undo = append(undo, u)
		}
		live, err := s.memory.DecayingTx(ctx, tx, uuid.Nil, max(1, len(rest)), rest...)
		if err != nil || len(rest) == 0 {
			live = nil
		}
		rest = slices.DeleteFunc(rest, func(id uuid.UUID) bool {
			return slices.ContainsFunc(live, func(d memory.Decaying) bool { return d.ID == id })
		})
		if err != nil || len(undo) == 0 {
			return err
		}
		out.Count = len(undo)
		token, err := tx.KeepUndo(user, undoAct, undo)
		tokens = append(tokens, undoPrefix+token)
		s.changed(tx, user, nil)
		return err
	})
	if err != nil {
		return out, err
	}
	for chunk := range slices.Chunk(rest, 100) {
		r, err := s.memory.Restore(ctx, memory.IDsParams{IDs: texts(chunk)})
		if fault.Is(err, fault.NotFound) && p.RunID != nil {
			continue // purged in the meantime
		}
		if err != nil {
			return out, err
		}
		if _, err := s.memory.Reinforce(ctx, chunk, gains["confirm"], false); err != nil && !fault.Is(err, fault.NotFound) {
			return out, err
		}
		out.Count += r.Count
		tokens = append(tokens, r.UndoToken)
	}
	out.UndoToken = strings.Join(tokens, ".")
	return out, nil
}

// crossing returns the lowest threshold between two retentions, including the floor; 0 if none.
func crossing(was, now, floor float64) (crossed float64) {
	low, high := min(was, now), max(was, now)
	for _, t := range append(slices.Clone(thresholds), floor) {
		if low <= t && t < high && t > 0 && (crossed == 0 || t < crossed) {
			crossed = t
		}
	}
	return crossed
}

// DecayHistory lists threshold crossings and the last runs.
func (s *Service) DecayHistory(ctx context.Context, p HistoryParams) (HistoryResult, error) {
	out := HistoryResult{}
	if err := storage.CheckPage(&p.Limit, &p.Offset, 50, 100); err != nil {
		return out, err
	}
	where, args := "user_id = ?", []any{identity.UserID(ctx)}
	if p.ID != nil {
		where, args = where+" AND item_id = ?", append(args, *p.ID)
	}
	return out, s.db.Read(ctx, func(tx *storage.Tx) (err error) {
		if err = tx.QueryRow(`SELECT count(*) FROM memory_decay_history WHERE `+where, args...).Scan(&out.Total); err != nil {
			return err
		}
		if out.Crossings, err = storage.Collect(tx.Select(`SELECT item_id, layer_number, previous_retention, new_retention, threshold, at, run_id FROM memory_decay_history WHERE `+where+` ORDER BY at DESC, id DESC LIMIT ? OFFSET ?`,
			append(args, p.Limit, p.Offset)...), func(r storage.Row) (c Crossing, err error) {
			err = r.Scan(&c.ID, &c.Layer, &c.Previous, &c.Retention, &c.Threshold, storage.Time(&c.At), &c.RunID)
			return c, err
		}); err != nil {
			return err
		}
		out.Runs, err = storage.Collect(tx.Select(`SELECT id, started_at, finished_at, items, changed, json_array_length(trashed), coalesce(errors, '') FROM decay_runs WHERE user_id = ? ORDER BY started_at DESC, id DESC LIMIT 20`, identity.UserID(ctx)), func(r storage.Row) (x Run, err error) {
			err = r.Scan(&x.RunID, storage.Time(&x.StartedAt), storage.TimePtr(&x.FinishedAt), &x.Items, &x.Changed, &x.Trashed, &x.Error)
			return x, err
		})
		return err
	})
}
