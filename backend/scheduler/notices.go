package scheduler

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/identity"
	"helix/backend/storage"
)

// maxNotices is the maximum number of notifications waiting for a client; the oldest are dropped.
const maxNotices = 200

// noticeFor returns the notification for the end of a run by the schedule's policy, or nil.
// Conditions use only the structure of the result; its text is never searched. An attempt that will
// be retried has no notification.
func (s *Service) noticeFor(tx *storage.Tx, c *sched, r runRow, st TargetState) *Notice {
	if c.Notification == "never" || r.RetryAt != nil {
		return nil
	}
	if st.NeedsApproval {
		return &Notice{Title: c.Name + " needs your approval", Body: st.Error.Message, Level: "warning"}
	}
	plain := Notice{Title: c.Name, Body: r.OutputSummary, Level: "info"}
	switch r.Status {
	case "failed":
		plain = Notice{Title: c.Name + " failed", Body: st.Error.Message, Level: "error"}
	case "cancelled":
		plain = Notice{Title: c.Name + " was canceled", Level: "info"}
	}
	if st.Notice != nil {
		n := *st.Notice
		if n.Title == "" {
			n.Title = c.Name
		}
		return &n
	}
	if c.Notification == "always" {
		return &plain
	}
	if c.NotifyWhen == "" || s.o.Condition == nil {
		return nil
	}
	holds, err := s.o.Condition(c.NotifyWhen)
	if err != nil {
		s.log.Warn("the condition of a notification cannot be read", "schedule", c.ScheduleID, "err", err)
		return nil
	}
	doc := document(r.Status, st.Output, st.Error)
	doc["previous"] = s.previous(tx, r)
	if ok, err := holds(doc); err != nil {
		s.log.Warn("the condition of a notification cannot be evaluated", "schedule", c.ScheduleID, "err", err)
	} else if ok {
		return &plain
	}
	return nil
}

// previous returns the run that ended before r, for conditions.
func (s *Service) previous(tx *storage.Tx, r runRow) any {
	var status string
	var output *string
	err := tx.QueryRow(`SELECT status, output FROM schedule_runs WHERE schedule_id = ? AND id <> ? AND status IN ('success', 'failed', 'cancelled')
		AND retry_at IS NULL ORDER BY finished_at DESC, id DESC LIMIT 1`, r.ScheduleID, r.RunID).Scan(&status, &output)
	if err != nil {
		if !errors.Is(err, sql.ErrNoRows) {
			s.log.Warn("the previous run cannot be read", "err", err)
		}
		return nil
	}
	var raw json.RawMessage
	if output != nil {
		raw = json.RawMessage(*output)
	}
	return map[string]any{"status": status, "output": decode(raw)}
}

var levels = []string{"info", "success", "warning", "error"}

// addNotice stores a notification until a client takes it, and publishes it.
func (s *Service) addNotice(tx *storage.Tx, c *sched, run *uuid.UUID, n Notice, now time.Time) error {
	if !slices.Contains(levels, n.Level) {
		n.Level = "info"
	}
	e := Notification{NoticeID: storage.NewID(), ScheduleID: c.ScheduleID, RunID: run, Title: clip(n.Title, 200), Body: clip(n.Body, 1000), Level: n.Level, At: now}
	if _, err := tx.Exec(`INSERT INTO schedule_notices (id, user_id, schedule_id, run_id, title, body, level, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
		e.NoticeID, c.user, e.ScheduleID, e.RunID, e.Title, e.Body, e.Level, now); err != nil {
		return err
	}
	if s.o.Deliver != nil {
		if err := s.o.Deliver(tx, c.user, e); err != nil { // the run has ended all the same
			s.log.Warn("a notification is not delivered over a channel", "schedule", c.ScheduleID, "err", err)
		}
	}
	tx.AfterCommit(func() { bus.Publish(tx.Bus(), c.user, e) })
	_, err := tx.Exec(`DELETE FROM schedule_notices WHERE user_id = ? AND id IN (SELECT id FROM schedule_notices WHERE user_id = ? ORDER BY created_at DESC, id DESC LIMIT -1 OFFSET ?)`, c.user, c.user, maxNotices)
	return err
}

// notifyQuestion notifies the user that a person has to decide about a run.
func (s *Service) notifyQuestion(tx *storage.Tx, l *live, now time.Time) error {
	c, err := s.loadSched(tx, l.ScheduleID)
	if err != nil || c.Notification == "never" {
		return ignoreNotFound(err)
	}
	if _, err := tx.Exec(`UPDATE schedule_runs SET notified = 1 WHERE id = ?`, l.RunID); err != nil {
		return err
	}
	return s.addNotice(tx, c, &l.RunID, Notice{
		Title: c.Name + " needs your decision", Level: "warning",
		Body: "Helix stopped during this run, so its outcome is unknown. It was not repeated. Open the run and decide how to continue; later runs of the schedule do not wait for it.",
	}, now)
}

// disabledNotice notifies the user that a schedule was disabled.
func (s *Service) disabledNotice(tx *storage.Tx, c *sched, reason string, now time.Time) error {
	body := map[string]string{
		"failures":    fmt.Sprintf("It failed %d times in a row. Fix the cause, then resume it.", max(c.ConsecutiveFailures, 1)),
		"missed":      "The scheduled time passed without a run.",
		"target_gone": "Its target was deleted.",
		"invalid":     "It cannot be read.",
	}[reason]
	return s.addNotice(tx, c, nil, Notice{Title: c.Name + " was turned off", Body: body, Level: "error"}, now)
}

// noticeMissed summarizes in one notification what was missed while Helix was not running.
func (s *Service) noticeMissed(ctx context.Context, user uuid.UUID, b *batch, now time.Time) {
	if len(b.ids) == 0 {
		return
	}
	err := s.db.Write(s.as(ctx, user), func(tx *storage.Tx) error {
		c, err := s.loadSched(tx, b.ids[0])
		if err != nil {
			return err
		}
		title, body := "1 scheduled time was missed", c.Name
		if b.missed > 1 {
			title = fmt.Sprintf("%d scheduled times were missed", b.missed)
		}
		if n := len(b.ids) - 1; n == 1 {
			body += " and 1 other schedule"
		} else if n > 1 {
			body += fmt.Sprintf(" and %d other schedules", n)
		}
		return s.addNotice(tx, c, nil, Notice{Title: title, Body: body + ". The run history has each of them.", Level: "info"}, now)
	})
	if err != nil {
		s.log.Warn("a notice of missed times cannot be kept", "err", err)
	}
}

// Notices returns the notifications that no client has shown yet, oldest first.
func (s *Service) Notices(ctx context.Context, _ struct{}) (NoticesResult, error) {
	return storage.Result(ctx, s.db.Read, func(tx *storage.Tx) (NoticesResult, error) { return notices(tx, identity.UserID(ctx)) })
}

func notices(tx *storage.Tx, user uuid.UUID) (NoticesResult, error) {
	out := NoticesResult{Notices: []Notification{}}
	err := tx.Select(`SELECT id, schedule_id, run_id, title, body, level, created_at FROM schedule_notices WHERE user_id = ? ORDER BY created_at, id`, user).Each(func(row storage.Row) error {
		var n Notification
		if err := row.Scan(&n.NoticeID, &n.ScheduleID, &n.RunID, &n.Title, &n.Body, &n.Level, storage.Time(&n.At)); err != nil {
			return err
		}
		out.Notices = append(out.Notices, n)
		return nil
	})
	return out, err
}

// TakeNotices marks notifications as shown and returns the others. If two clients take the same
// notification, the second one does not find it.
func (s *Service) TakeNotices(ctx context.Context, p TakeNoticesParams) (NoticesResult, error) {
	out := NoticesResult{Notices: []Notification{}}
	user := identity.UserID(ctx)
	err := s.db.Write(ctx, func(tx *storage.Tx) (err error) {
		for _, id := range p.NoticeIDs {
			if _, err := tx.Exec(`DELETE FROM schedule_notices WHERE id = ? AND user_id = ?`, id, user); err != nil {
				return err
			}
		}
		out, err = notices(tx, user)
		return err
	})
	return out, err
}
