package cli

import (
	"encoding/json"
	"fmt"
	"time"

	"helix/backend/duration"
	"helix/backend/fault"
	"helix/backend/scheduler"
)

type scheduleCmd struct {
	List      scheduleListCmd       `cmd:"" help:"List schedules with their next runs."`
	Show      scheduleShowCmd       `cmd:"" help:"Show one schedule in full."`
	Create    scheduleCreateCmd     `cmd:"" help:"Create a schedule."`
	Edit      scheduleEditCmd       `cmd:"" help:"Change a schedule. Earlier times don't run."`
	Delete    deleteCmd             `cmd:"" aliases:"rm,remove" help:"Delete a schedule; restore brings it back for 30 days."`
	Restore   restoreNamedCmd       `cmd:"" help:"Restore a deleted schedule."`
	Pause     struct{ scheduleRef } `cmd:"" help:"Pause a schedule." call:"schedules.pause" say:"$name is paused."`
	Resume    scheduleResumeCmd     `cmd:"" help:"Resume a schedule."`
	PauseAll  schedulePauseAllCmd   `cmd:"" help:"Pause all schedules. Current runs continue."`
	ResumeAll struct{}              `cmd:"" help:"Resume all schedules." call:"schedules.resume_all" say:"Schedules resumed."`
	Run       scheduleRunCmd        `cmd:"" help:"Run it now and wait. The schedule doesn't change."`
	History   scheduleHistoryCmd    `cmd:"" help:"List runs, with missed ones and reasons."`
	Next      scheduleNextCmd       `cmd:"" help:"Preview run times. Works without a running Helix."`
	Cancel    scheduleCancelCmd     `cmd:"" help:"Stop a run."`
}

type scheduleListCmd struct {
	Query  string `help:"Words in name, description or target."`
	Status string `help:"active, paused, completed or disabled."`
	Kind   string `help:"Kind of the target, such as skill."`
	Limit  int    `default:"50"`
	Offset int    `default:"0"`
}

func (*scheduleListCmd) Run(c *command) error {
	return answer(c, "schedules.list", func(r scheduler.ListResult) {
		if r.Total == 0 {
			c.say("No schedules. Create one: `helix schedule create --name Report --skill \"My skill\" --cron \"0 9 * * 1-5\"`.")
			return
		}
		list(c, r.Schedules, "", []string{"ID", "NAME", "STATE", "WHEN", "NEXT", "LAST", "TARGET"}, func(s scheduler.Schedule) []string {
			return []string{s.ScheduleID.String(), s.Name, scheduleState(s), s.Words, nextTime(s.NextRunAt), lastRun(s.LastRun), s.Target.Kind + " " + s.Target.Name}
		})
	})
}

func scheduleState(s scheduler.Schedule) string {
	switch {
	case s.NeedsNewer:
		return "needs a newer Helix"
	case s.DisabledReason != "":
		return s.Status + ": " + s.DisabledReason
	}
	return s.Status
}

func nextTime(at *time.Time) string {
	if at == nil {
		return ""
	}
	return at.Local().Format("2006-01-02 15:04:05")
}

func lastRun(r *scheduler.Run) string {
	if r == nil {
		return ""
	}
	return r.Status + " " + ago(r.DueAt)
}

// scheduleRef identifies a schedule.
type scheduleRef struct {
	Schedule string `arg:"" param:"scheduleId" ref:"schedule" help:"ID or name."`
}

// find resolves an id or a unique name of a schedule.
func (r scheduleRef) find(c *command) (s scheduler.Schedule, err error) {
	id, err := c.idOf(scheduleKind, r.Schedule, false)
	if err == nil {
		_, err = c.call("schedules.get", map[string]any{"scheduleId": id}, &s)
	}
	return s, err
}

type scheduleShowCmd struct{ scheduleRef }

func (*scheduleShowCmd) Run(c *command) error {
	return answer(c, "schedules.get", func(s scheduler.Schedule) {
		c.fields("id", s.ScheduleID.String(), "name", s.Name, "description", s.Description, "state", scheduleState(s), "when", s.Words, "next", nextTime(s.NextRunAt),
			"target", s.Target.Kind+" "+s.Target.Name, "input", string(s.Target.Input), "missed runs", s.MissedPolicy, "grace", (duration.Of(s.GraceSecs, time.Second)).String(),
			"overlap", s.Overlap, "notification", s.Notification, "notify when", s.NotifyWhen, "time limit", (duration.Of(s.MaxRunMs, time.Millisecond)).String(),
			"last", lastRun(s.LastRun), "failures in a row", fmt.Sprint(s.ConsecutiveFailures), "revision", fmt.Sprint(s.Revision))
	})
}

// cadenceFlags set when a schedule is due.
type cadenceFlags struct {
	Cron  string        `xor:"cadence" help:"Five cron fields, or six with seconds first." placeholder:"\"0 9 * * 1-5\""`
	Every time.Duration `xor:"cadence" help:"An interval, such as 1h."`
	At    string        `xor:"cadence" help:"One time: 2026-03-01T09:00:00Z, or '2026-03-01 09:00' by this computer's clock."`
	TZ    string        `name:"tz" help:"Time zone for --cron, such as Europe/Berlin. Default: the system's."`
}

// cadence returns the flags as JSON; nil: none was given.
func (f cadenceFlags) cadence() (map[string]any, error) {
	switch {
	case f.Cron != "":
		p := map[string]any{"type": "cron", "expression": f.Cron}
		setIf(p, "timezone", f.TZ)
		return p, nil
	case f.TZ != "":
		return nil, fault.Invalidf("--tz only works with --cron.")
	case f.Every != 0:
		if f.Every < 0 || f.Every%time.Second != 0 {
			return nil, fault.Invalidf("--every must be a whole number of seconds.")
		}
		return map[string]any{"type": "interval", "everySecs": int64(f.Every / time.Second)}, nil
	case f.At != "":
		at, err := moment(f.At)
		return map[string]any{"type": "once", "at": at}, err
	}
	return nil, nil
}

// moment parses a time with or without a time zone.
func moment(text string) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	for _, layout := range []string{"2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02T15:04"} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fault.Invalidf("%q isn't a time such as 2026-03-01T09:00:00Z or '2026-03-01 09:00'.", text)
}

type scheduleNextCmd struct {
	cadenceFlags
	Count int `short:"n" default:"10" help:"Number of times, up to 100."`
}

func (n *scheduleNextCmd) Run(c *command) error {
	spec, err := n.cadence()
	if err != nil {
		return err
	}
	if spec == nil {
		return fault.Invalidf("Set the times with --cron, --every or --at.")
	}
	raw, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	r, err := scheduler.New(nil, scheduler.Options{}).Preview(c.ctx, scheduler.PreviewParams{Cadence: raw, Count: n.Count})
	if err != nil {
		return err
	}
	if c.JSON {
		return c.printJSON(r)
	}
	c.say("%s", r.Description)
	notes := map[string]string{"gap_shifted": "skipped by daylight saving: runs right after the change", "overlap_first": "repeated by daylight saving: runs the first time", "overlap_both": "repeated by daylight saving: runs both times"}
	for _, t := range r.Times {
		line := t.Local + " " + t.Offset
		if t.Note != "" {
			line += "  " + notes[t.Note]
		}
		fmt.Fprintln(c.env.Stdout, line)
	}
	for _, w := range r.Warnings {
		c.say("%s", w)
	}
	return nil
}
