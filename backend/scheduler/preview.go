package scheduler

import (
	"context"
	"slices"
	"strings"
	"time"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/scheduler/cadence"
	"helix/backend/storage"
)

// Preview returns the due times of a cadence, with the effects of clock changes.
func (s *Service) Preview(_ context.Context, p PreviewParams) (PreviewResult, error) {
	out := PreviewResult{Times: []PreviewTime{}, Warnings: []string{}}
	if p.Count == 0 {
		p.Count = 10
	}
	if p.Count < 1 || p.Count > 100 {
		return out, fault.InvalidField("count", fault.CodeRange, "count is %d; it must be 1 to 100.", p.Count)
	}
	now := s.now()
	from := now
	if p.From != nil {
		if from = *p.From; from.Year() < 1971 || from.Year() > 9000 {
			return out, fault.InvalidField("from", fault.CodeRange, "from: the year %d is out of range", from.Year())
		}
	}
	spec, c, _, err := s.decodeCadence(p.Cadence, from)
	if err != nil {
		return out, err
	}
	out.Cadence, out.Description, out.Parts = spec, c.Words(), c.Parts()
	at := from
	for range p.Count {
		d, ok := c.Next(at)
		if !ok {
			break
		}
		local := c.Local(d.At)
		out.Times = append(out.Times, PreviewTime{At: d.At, Local: local.Format("2006-01-02 15:04:05"), Offset: local.Format("-07:00"), Note: d.Note})
		at = d.At
	}
	if len(out.Times) == 0 {
		return out, fault.InvalidField("cadence.at", fault.CodePast, "time has passed")
	}
	out.Warnings = warnings(c, out.Times)
	return out, nil
}

var previewWarnings = map[string]string{
	"both":                   "Day of the month and weekday must both hold, because one of them begins with *.",
	"either":                 "It runs on each day that matches either: the day of the month, or the weekday.",
	"day29":                  "Months without day 29 are skipped. Use L for the last day of each month.",
	"day30":                  "Months without day 30 are skipped. Use L for the last day of each month.",
	"day31":                  "Months without day 31 are skipped. Use L for the last day of each month.",
	cadence.NoteGap:          "If daylight saving skips this time, it runs right after the change.",
	cadence.NoteOverlapFirst: "If daylight saving repeats this time, it runs the first time only.",
	cadence.NoteOverlapBoth:  "If daylight saving repeats a time, it runs both times.",
}

// warnings returns hints about what is easily overlooked.
func warnings(c *cadence.Cadence, times []PreviewTime) []string {
	out := []string{}
	spec := c.Spec()
	if f := strings.Fields(spec.Expression); len(f) >= 5 {
		day, week := f[len(f)-3], f[len(f)-1]
		free := func(s string) bool { return s == "*" || s == "?" }
		if !free(day) && !free(week) {
			if strings.HasPrefix(day, "*") || strings.HasPrefix(week, "*") {
				out = append(out, previewWarnings["both"])
			} else {
				out = append(out, previewWarnings["either"])
			}
		}
		if w, short := previewWarnings["day"+day]; short {
			out = append(out, w)
		}
	}
	for _, note := range []string{cadence.NoteGap, cadence.NoteOverlapFirst, cadence.NoteOverlapBoth} {
		if slices.ContainsFunc(times, func(t PreviewTime) bool { return t.Note == note }) {
			out = append(out, previewWarnings[note])
		}
	}
	return out
}

// Limits of a calendar.
const (
	calendarDays = 62
	dayMarks     = 200 // above this, the marks of a day become counts
	maxItems     = 15_000
)

// calendarKinds maps the status of a run to its kind in the calendar. Active runs count as planned.
var calendarKinds = map[string]string{
	"success": "ran", "failed": "failed", "missed": "missed", "skipped": "skipped", "cancelled": "skipped",
	"queued": "planned", "running": "planned", "waiting": "planned", "interrupted": "planned",
}

// Calendar returns past and future due times in a range of days. A day is 24 hours, starting at the
// time of day of From. A day with more than 200 marks has one count per schedule and kind instead.
func (s *Service) Calendar(ctx context.Context, p CalendarParams) (CalendarResult, error) {
	out := CalendarResult{Items: []CalendarItem{}}
	switch {
	case !p.To.After(p.From):
		return out, fault.Invalidf("to: must be after from")
	case p.To.Sub(p.From) > (calendarDays+1)*24*time.Hour: // one day more because of clock changes
		return out, fault.Invalidf("to: at most %d days after from", calendarDays)
	case p.From.Year() < 1971 || p.To.Year() > 9000:
		return out, fault.Invalidf("from: the year %d is out of range", p.From.Year())
	}
	now, user := s.now(), identity.UserID(ctx)
	var past []CalendarItem
	var list []*sched
	err := s.db.Read(ctx, func(tx *storage.Tx) (err error) {
		rows, err := queryRuns(tx, `WHERE r.user_id = ? AND r.due_at >= ? AND r.due_at < ? AND s.deleted_at IS NULL AND NOT EXISTS (SELECT 1 FROM schedule_runs n
			WHERE n.schedule_id = r.schedule_id AND n.due_at = r.due_at AND n.attempt > r.attempt AND n.trigger <> 'manual')
			ORDER BY r.due_at, r.id LIMIT ?`, user, p.From, p.To, maxItems+1)
		for _, r := range rows {
			item := CalendarItem{ScheduleID: r.ScheduleID, At: r.DueAt, Kind: calendarKinds[r.Status], RunID: &r.RunID}
			if r.MissedCount != nil {
				item.Count = *r.MissedCount
			}
			past = append(past, item)
		}
		if err != nil {
			return err
		}
		list, err = s.query(tx, `WHERE s.user_id = ? AND s.deleted_at IS NULL AND s.status = 'active' AND t.next_run_at < ? ORDER BY s.created_at, s.id`, user, p.To)
		return err
	})
	if err != nil {
		return out, err
	}
	for day := p.From; day.Before(p.To); day = day.Add(24 * time.Hour) {
		end := day.Add(24 * time.Hour)
		if end.After(p.To) {
			end = p.To
		}
		n := 0
		for n < len(past) && past[n].At.Before(end) {
			n++
		}
		items := onDay(past[:n], list, day, end, now)
		past = past[n:]
		if len(out.Items)+len(items) > maxItems {
			out.Truncated = true
			return out, nil
		}
		out.Items = append(out.Items, items...)
	}
	return out, nil
}

// onDay returns the marks of one day: runs, then what is planned after now.
func onDay(past []CalendarItem, list []*sched, day, end, now time.Time) []CalendarItem {
	from := day.Add(-time.Microsecond)
	type part struct {
		c        *sched
		from, to time.Time
		n        int64
	}
	var plans []part
	total := int64(len(past))
	for _, c := range list {
		if c.cad == nil || c.NextRunAt == nil {
			continue
		}
		a, b := from, end.Add(-time.Microsecond)
		if before := c.NextRunAt.Add(-time.Second); before.After(a) {
			a = before
		}
		if now.After(a) && c.NextRunAt.Before(now) {
			a = now
		}
		if c.EndsAt != nil && c.EndsAt.Before(b) {
			b = *c.EndsAt
		}
		if n := c.cad.Count(a, b); n > 0 {
			plans = append(plans, part{c, a, b, n})
			total += n
		}
	}
	var out []CalendarItem
	if total > dayMarks {
		out = gathered(past)
	} else {
		out = slices.Clone(past)
	}
	for _, p := range plans {
		d, ok := p.c.cad.Next(p.from)
		if total > dayMarks && p.n > 1 {
			if ok {
				out = append(out, CalendarItem{ScheduleID: p.c.ScheduleID, At: d.At, Kind: "planned", Count: int(p.n)})
			}
			continue
		}
		for ; ok && !d.At.After(p.to); d, ok = p.c.cad.Next(d.At) {
			out = append(out, CalendarItem{ScheduleID: p.c.ScheduleID, At: d.At, Kind: "planned"})
		}
	}
	slices.SortStableFunc(out, func(a, b CalendarItem) int { return a.At.Compare(b.At) })
	return out
}

// gathered combines the marks of a day that have the same schedule and kind.
func gathered(past []CalendarItem) []CalendarItem {
	var out []CalendarItem
	at := map[string]int{}
	for _, it := range past {
		key := it.ScheduleID.String() + it.Kind
		i, ok := at[key]
		if !ok {
			at[key] = len(out)
			out = append(out, it)
			continue
		}
		out[i].Count = max(out[i].Count, 1) + max(it.Count, 1)
		out[i].RunID = nil
	}
	return out
}
