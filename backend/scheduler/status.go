package scheduler

import (
	"context"
	"slices"
	"strings"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

// Status returns the status of the scheduler.
func (s *Service) Status(ctx context.Context, _ struct{}) (StatusResult, error) {
	user := identity.UserID(ctx)
	out := StatusResult{Lanes: []LaneStatus{}, Leases: []Lease{}, Targets: []TargetKind{}, Timezone: s.o.Zone()}
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		err := tx.QueryRow(`SELECT 1, until FROM schedule_pause WHERE user_id = ?`, user).Scan(&out.PausedAll, storage.TimePtr(&out.PausedUntil))
		if err := ignoreNoRows(err); err != nil {
			return err
		}
		if out.PausedAll {
			return nil
		}
		list, err := s.query(tx, `WHERE s.user_id = ? AND s.deleted_at IS NULL AND s.status = 'active' AND s.is_enabled = 1 AND t.next_run_at IS NOT NULL ORDER BY t.next_run_at, s.id LIMIT 1`, user)
		if err == nil && len(list) > 0 && list[0].NextRunAt != nil {
			out.NextDue = &NextDue{ScheduleID: list[0].ScheduleID, Name: list[0].Name, At: *list[0].NextRunAt}
		}
		return err
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	out.Enabled = s.running
	for _, l := range s.lanes {
		out.Lanes = append(out.Lanes, LaneStatus{Lane: l.name, Running: l.running, Capacity: l.capacity, Waiting: l.waiting()})
	}
	slices.SortFunc(out.Lanes, func(a, b LaneStatus) int { return strings.Compare(a.Lane, b.Lane) })
	out.Clock.SkewMs = s.skew
	for id, h := range s.held {
		if h.term > 0 && h.user == user {
			out.Leases = append(out.Leases, Lease{ScheduleID: id, DeviceID: s.device(), Term: h.term, ExpiresAt: h.expires})
		}
	}
	for _, k := range knownKinds {
		k.Reason = ""
		if r := s.kindLocked(k.Kind); r == nil {
			k.Reason = fault.As(unavailableKind(k.Kind)).Message
		} else if r.title != "" {
			k.Title = r.title
		}
		out.Targets = append(out.Targets, k)
	}
	return out, err
}
