package scheduler

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

// RunNow starts a schedule's target now, even if the schedule is paused. The next due time
// is not affected.
func (s *Service) RunNow(ctx context.Context, p RunNowParams) (RunNowResult, error) {
	c, err := s.find(ctx, p.ScheduleID)
	if err != nil {
		return RunNowResult{}, err
	}
	if c.NeedsNewer {
		return RunNowResult{}, fault.Unavailablef("This schedule needs a newer version of Helix. It was not changed.")
	}
	input := c.Target.Input
	if len(p.Input) > 0 && string(p.Input) != "null" {
		input = p.Input
	}
	checked := *c
	target := c.Target
	target.Input = input
	if err := s.fillTarget(ctx, &checked, target); err != nil {
		return RunNowResult{}, err
	}
	now := s.now()
	row := runRow{user: c.user, revision: c.Revision, system: c.System}
	row.RunID, row.ScheduleID, row.TargetKind, row.DueAt, row.Trigger, row.Status = storage.NewID(), c.ScheduleID, c.Target.Kind, now, "manual", "queued"
	row.ClaimedAt = &now
	var made runRow
	err = s.again(ctx, c.user, func(tx *storage.Tx, fail *targetError, b *batch) error {
		c, err := s.ownUsable(tx, c.user, p.ScheduleID)
		if err != nil {
			return err
		}
		made = row
		return s.make(tx, c, &made, checked.Target.Input, now, fail, b)
	})
	return RunNowResult{RunID: made.RunID, TargetRunID: made.TargetRunID}, err
}

// Runs lists runs, newest first.
func (s *Service) Runs(ctx context.Context, p RunsParams) (RunsResult, error) {
	out := RunsResult{Runs: []Run{}}
	if err := storage.CheckPage(&p.Limit, nil, 20, 100); err != nil {
		return out, err
	}
	where, args := []string{"r.user_id = ?"}, []any{identity.UserID(ctx)}
	add := func(cond string, v ...any) { where, args = append(where, cond), append(args, v...) }
	if p.ScheduleID != nil {
		add("r.schedule_id = ?", *p.ScheduleID)
	}
	if p.Status != "" {
		add("r.status = ?", p.Status)
	}
	if p.From != nil {
		add("r.due_at >= ?", *p.From)
	}
	if p.To != nil {
		add("r.due_at < ?", *p.To)
	}
	after, err := storage.ReadCursor(p.Cursor, "created_at")
	if err != nil {
		return out, err
	}
	if after != nil {
		add("(r.created_at, r.id) < (?, ?)", after.Key, after.ID)
	}
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		rows, err := queryRuns(tx, `WHERE `+strings.Join(where, " AND ")+` ORDER BY r.created_at DESC, r.id DESC LIMIT ?`, append(args, p.Limit+1)...)
		if err != nil {
			return err
		}
		more := len(rows) > p.Limit
		if more {
			rows = rows[:p.Limit]
		}
		for _, r := range rows {
			out.Runs = append(out.Runs, r.Run)
		}
		if more {
			last := rows[len(rows)-1]
			var at int64
			if err := tx.QueryRow(`SELECT created_at FROM schedule_runs WHERE id = ?`, last.RunID).Scan(&at); err != nil {
				return err
			}
			out.NextCursor = storage.Cursor{Sort: "created_at", Key: at, ID: last.RunID}.String()
		}
		return nil
	})
	return out, err
}

// RunOutput returns the output of a run as text.
func (s *Service) RunOutput(ctx context.Context, p RunOutputParams) (RunOutputResult, error) {
	if p.MaxChars == 0 {
		p.MaxChars = 4000
	}
	if p.MaxChars < 200 || p.MaxChars > 8000 {
		return RunOutputResult{}, fault.Invalidf("maxChars is %d; it must be 200 to 8000.", p.MaxChars)
	}
	var r runRow
	var kept *string
	err := s.db.Read(ctx, func(tx *storage.Tx) (err error) {
		if r, err = ownRun(tx, identity.UserID(ctx), p.RunID); err != nil {
			return err
		}
		return tx.QueryRow(`SELECT output FROM schedule_runs WHERE id = ?`, p.RunID).Scan(&kept)
	})
	if err != nil {
		return RunOutputResult{}, err
	}
	text := r.OutputSummary
	if kept != nil {
		text = outputText(json.RawMessage(*kept))
	}
	if k := s.kind(r.TargetKind); r.TargetRunID != nil && k != nil && (kept == nil || len(*kept) >= maxOutput-16) {
		var st TargetState
		if fault.Catch(func() (err error) { st, err = k.State(ctx, *r.TargetRunID); return err }) == nil && len(st.Output) > 0 {
			text = outputText(st.Output)
		}
	}
	isError := text == "" && r.Error != nil
	if isError {
		text = r.Error.Message
	}
	out := RunOutputResult{TotalChars: utf8.RuneCountInString(text), IsError: isError}
	out.Text = clip(text, p.MaxChars)
	out.Truncated = len(out.Text) < len(text)
	return out, nil
}

// CancelRun cancels a run. If its target does not end it within 10 seconds it is closed regardless.
// The result is the current state.
func (s *Service) CancelRun(ctx context.Context, p RunParams) (Run, error) {
	user, now := identity.UserID(ctx), s.now()
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		r, err := ownRun(tx, user, p.RunID)
		if err != nil {
			return err
		}
		switch {
		case r.RetryAt != nil: // waits for the next attempt
			_, err := tx.Exec(`UPDATE schedule_runs SET retry_at = NULL, updated_at = ? WHERE id = ?`, now, r.RunID)
			if err != nil {
				return err
			}
			c, err := s.loadSched(tx, r.ScheduleID)
			if err != nil {
				return err
			}
			return s.complete(tx, c, now)
		case !isOpen(r.Status):
			return fault.Conflictf("The run is over.")
		case r.TargetRunID == nil:
			if err := s.closeRun(tx, r, "cancelled", "person", now); err != nil {
				return err
			}
			c, err := s.loadSched(tx, r.ScheduleID)
			if err != nil {
				return err
			}
			return s.complete(tx, c, now)
		}
		return s.requestCancel(tx, r, "person", now)
	})
	if err != nil {
		return Run{}, err
	}
	var out Run
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		r, err := ownRun(tx, user, p.RunID)
		out = r.Run
		return err
	})
	return out, err
}

// keepFull is how many runs of a schedule are kept whatever their age.
const keepFull = 20

// Retention returns the retention policy for runs of schedules: the last 20 of each schedule are
// kept, and one older success per day.
func Retention() storage.Retention {
	return storage.Retention{
		Table: "schedule_runs", Time: "due_at", Payloads: []string{"output"},
		Only: `NOT (` + open + `) AND retry_at IS NULL AND id IN (SELECT id FROM
			(SELECT id, row_number() OVER (PARTITION BY schedule_id ORDER BY due_at DESC, id DESC) AS number FROM schedule_runs) WHERE number > ` + strconv.Itoa(keepFull) + `)`,
		Also: `status = 'success' AND id NOT IN (SELECT min(id) FROM schedule_runs WHERE status = 'success' GROUP BY schedule_id, due_at / 86400000000)`,
	}
}
