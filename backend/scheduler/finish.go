package scheduler

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"time"

	"helix/backend/fault"
	"helix/backend/storage"
)

// settleOutcomes stores the outcomes reported by targets.
func (s *Service) settleOutcomes(ctx context.Context, now time.Time) (refused bool) {
	s.mu.Lock()
	list := s.outcomes
	s.outcomes = nil
	s.mu.Unlock()
	for _, o := range list {
		s.mu.Lock()
		l := s.live[o.run]
		s.mu.Unlock()
		if l == nil {
			continue
		}
		if err := fault.Catch(func() error { return s.settleOutcome(ctx, l, o.state, now) }); err != nil {
			s.log.Warn("the end of a run cannot be written; it is tried again", "run", o.run, "err", err)
			s.mu.Lock()
			l.look = true
			s.mu.Unlock()
			refused = true
		}
	}
	return refused
}

func (s *Service) settleOutcome(ctx context.Context, l *live, st TargetState, now time.Time) error {
	mono := s.clock.Mono()
	switch st.Status {
	case "queued":
		s.mu.Lock()
		if l.phase == parked { // it was already running before a restart
			l.phase = pending
			l.home.push(l)
		}
		s.mu.Unlock()
		return nil
	case "running":
		s.mu.Lock()
		resumed := l.phase == parked
		if resumed {
			l.take(s.lanes[longLane], mono) // it is already running, so it does not wait for a slot
		}
		s.mu.Unlock()
		if !resumed {
			return nil
		}
		return s.db.Write(s.as(ctx, l.user), func(tx *storage.Tx) error { return s.begun(tx, l.runRow, now) })
	case "waiting":
		s.mu.Lock()
		was := l.phase
		if was != parked {
			if was == pending {
				l.home.drop(l)
			}
			l.free(mono)
			l.phase = parked
		}
		same := was == parked && l.Reason == st.WaitReason
		s.mu.Unlock()
		if same {
			return nil
		}
		err := s.db.Write(s.as(ctx, l.user), func(tx *storage.Tx) error {
			s.runEvent(tx, l.user, l.RunID, l.ScheduleID, "waiting", now)
			_, err := tx.Exec(`UPDATE schedule_runs SET status = 'waiting', reason = ?, updated_at = ? WHERE id = ? AND `+open, orNull(st.WaitReason), now, l.RunID)
			if err != nil || !slices.Contains(questionReasons, st.WaitReason) {
				return err
			}
			return s.notifyQuestion(tx, l, now)
		})
		if err == nil {
			s.mu.Lock()
			l.Reason = st.WaitReason
			s.mu.Unlock()
		}
		return err
	}
	err := s.db.Write(s.as(ctx, l.user), func(tx *storage.Tx) error {
		r, err := loadRun(tx, l.RunID)
		if err != nil {
			return ignoreNotFound(err)
		}
		if !isOpen(r.Status) {
			return nil
		}
		c, err := s.loadSched(tx, l.ScheduleID)
		if err != nil {
			return err
		}
		return s.finish(tx, c, r, ended(st, l.ending), now)
	})
	if err == nil {
		s.forget(l, mono)
	}
	return err
}

func isOpen(status string) bool {
	return slices.Contains([]string{"queued", "running", "waiting", "interrupted"}, status)
}

// ended returns the final state of a run that was asked to end for a reason.
func ended(st TargetState, why string) TargetState {
	if st.Status == "success" { // it finished before the request
		return st
	}
	switch why {
	case "timeout":
		return TargetState{Status: "failed", Error: &RunError{Kind: "timeout", Message: "It took longer than the time limit of its schedule and was canceled."}, Unknown: st.Unknown, StartedAt: st.StartedAt}
	case "person", "overlap":
		st.Status, st.Error = "cancelled", nil
	}
	return st
}

// forget drops a run that has ended.
func (s *Service) forget(l *live, mono time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live[l.RunID] != l {
		return
	}
	l.free(mono)
	l.home.drop(l)
	delete(s.live, l.RunID)
	delete(s.targets, *l.TargetRunID)
	s.kick()
}

// maxOutput is the maximum size of the output stored with a run.
const maxOutput = 64 << 10

// summaryChars is the maximum length of a summary.
const summaryChars = 500

// finish stores the end of a run and handles its consequences: further attempts, failure counts,
// notifications, disabling.
func (s *Service) finish(tx *storage.Tx, c *sched, r runRow, st TargetState, now time.Time) error {
	reason := r.Reason
	switch st.Status {
	case "success":
		reason = ""
	case "failed", "cancelled":
	default:
		st = TargetState{Status: "failed", Error: &RunError{Kind: "internal", Message: "The target ended in an unknown state."}}
	}
	if st.Status == "failed" && st.Error == nil {
		st.Error = &RunError{Kind: "internal", Message: "It failed without giving a reason."}
	}
	gone := r.TargetRunID == nil && st.Error != nil && st.Error.Kind == "not_found"
	switch {
	case st.NeedsApproval:
		reason = "needs_approval"
	case gone:
		reason = "target_gone"
	case st.Status == "failed" && st.Unknown:
		reason = "unknown_outcome"
	}
	r.Status, r.Reason, r.FinishedAt, r.Error = st.Status, reason, &now, st.Error
	if st.Error != nil {
		st.Error.Message = clip(st.Error.Message, 2000)
	}
	text := outputText(st.Output)
	r.OutputSummary = clip(text, summaryChars)
	if r.Status == "failed" && !gone && r.Trigger != "manual" {
		r.RetryAt = retryAt(c, r, st, now)
	}
	if r.StartedAt == nil && r.TargetRunID != nil {
		r.StartedAt = &now
	}
	note := s.noticeFor(tx, c, r, st)
	r.Notified = note != nil
	var kind, msg any
	if st.Error != nil && st.Status == "failed" {
		kind, msg = st.Error.Kind, st.Error.Message
	}
	var output any
	if len(st.Output) > 0 && len(st.Output) <= maxOutput {
		output = string(st.Output)
	} else if len(st.Output) > maxOutput {
		output = string(mustJSON(clipBytes(text, maxOutput)))
	}
	err := withCapture(tx, r.system, func() error {
		_, err := tx.Exec(`UPDATE schedule_runs SET status = ?, reason = ?, started_at = ?, finished_at = ?, output_summary = ?, output = ?, error_kind = ?, error_message = ?,
			retry_at = ?, notified = ?, turn_count = ?, cost_micros = ?, updated_at = ? WHERE id = ?`, r.Status, orNull(r.Reason), r.StartedAt, now, orNull(r.OutputSummary), output, kind, msg, r.RetryAt, r.Notified, st.Turns, st.CostMicros, now, r.RunID)
		return err
	})
	if err != nil {
		return err
	}
	s.runEvent(tx, r.user, r.RunID, r.ScheduleID, r.Status, now)
	if note != nil {
		if err := s.addNotice(tx, c, &r.RunID, *note, now); err != nil {
			return err
		}
	}
	if gone && c.Status == "active" {
		if err := s.disable(tx, c, "target_gone", now); err != nil {
			return err
		}
		return nil
	}
	switch {
	case r.Status == "success":
		c.ConsecutiveFailures = 0
	case r.Status == "failed" && r.RetryAt == nil && r.Trigger != "manual":
		return s.failedFor(tx, c, r, now)
	}
	if err := s.saveState(tx, c); err != nil {
		return err
	}
	return s.complete(tx, c, now)
}

// failedFor counts a due time that has failed after all attempts.
func (s *Service) failedFor(tx *storage.Tx, c *sched, r runRow, now time.Time) error {
	c.ConsecutiveFailures++
	if c.Status == "active" && c.AutoDisableAfter > 0 && c.ConsecutiveFailures >= c.AutoDisableAfter {
		return s.disable(tx, c, "failures", now)
	}
	if c.NotifyAfterFailures > 0 && c.ConsecutiveFailures == c.NotifyAfterFailures && c.Notification != "never" {
		message := ""
		if r.Error != nil {
			message = r.Error.Message
		}
		if err := s.addNotice(tx, c, &r.RunID, Notice{Title: c.Name + " keeps failing", Body: message, Level: "warning"}, now); err != nil {
			return err
		}
	}
	if err := s.saveState(tx, c); err != nil {
		return err
	}
	return s.complete(tx, c, now)
}

// disable disables a schedule for a reason and notifies the user, whatever the schedule's policy.
func (s *Service) disable(tx *storage.Tx, c *sched, reason string, now time.Time) error {
	if err := s.setStatus(tx, c, "disabled", reason, now); err != nil {
		return err
	}
	if err := s.dropWaiting(tx, c, "disabled", now); err != nil {
		return err
	}
	s.changed(tx, c.user, c.ScheduleID, "disabled")
	if err := s.audit(tx, c, "system", "disabled"); err != nil {
		return err
	}
	return s.disabledNotice(tx, c, reason, now)
}

// dropWaiting ends runs that are queued or wait for their next attempt.
func (s *Service) dropWaiting(tx *storage.Tx, c *sched, reason string, now time.Time) error {
	list, err := queryRuns(tx, `WHERE r.schedule_id = ? AND r.status = 'queued' AND r.target_run_id IS NULL`, c.ScheduleID)
	if err != nil {
		return err
	}
	for _, r := range list {
		if err := s.closeRun(tx, r, "skipped", reason, now); err != nil {
			return err
		}
	}
	_, err = tx.Exec(`UPDATE schedule_runs SET retry_at = NULL, updated_at = ? WHERE schedule_id = ? AND retry_at IS NOT NULL`, now, c.ScheduleID)
	return err
}

// closeRun ends a run for which the target has not created one.
func (s *Service) closeRun(tx *storage.Tx, r runRow, status, reason string, now time.Time) error {
	s.runEvent(tx, r.user, r.RunID, r.ScheduleID, status, now)
	return withCapture(tx, r.system, func() error {
		_, err := tx.Exec(`UPDATE schedule_runs SET status = ?, reason = ?, finished_at = ?, updated_at = ? WHERE id = ? AND `+open, status, reason, now, now, r.RunID)
		return err
	})
}

// retried lists the kinds of failures that are retried.
var retried = []string{"unavailable", "timeout", "limit", "internal"}

// retryAt returns when to retry a failed run, or nil.
func retryAt(c *sched, r runRow, st TargetState, now time.Time) *time.Time {
	if r.Attempt >= c.Retry.Max || st.Unknown || st.NeedsApproval || !slices.Contains(retried, st.Error.Kind) {
		return nil
	}
	secs := float64(c.Retry.CapSecs)
	if r.Attempt < 40 {
		secs = min(secs, float64(c.Retry.BaseSecs)*float64(int64(1)<<r.Attempt))
	}
	secs *= 0.5 + 0.5*rand.Float64()
	at := now.Add(time.Duration(secs * float64(time.Second))).Truncate(time.Microsecond)
	if c.NextRunAt != nil && !at.Before(*c.NextRunAt) {
		return nil
	}
	return &at
}

// document returns the document for the condition of a notification.
func document(status string, output json.RawMessage, e *RunError) map[string]any {
	doc := map[string]any{"status": status, "output": decode(output), "error": nil}
	if e != nil {
		doc["error"] = map[string]any{"kind": e.Kind, "message": e.Message}
	}
	return doc
}
