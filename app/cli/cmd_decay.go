package cli

import (
	"cmp"
	"fmt"
	"time"

	"helix/backend/fault"
	"helix/backend/psychology"
	"helix/backend/scheduler"
	"helix/backend/scheduler/cadence"
)

type decayCmd struct {
	Run      decayRunCmd      `cmd:"" default:"withargs" help:"Evaluate how far memories and entries have faded, once or on a schedule."`
	Forecast decayForecastCmd `cmd:"" help:"Show how a memory, an entry or a layer will fade."`
	Fading   decayFadingCmd   `cmd:"" help:"List what will fade soon, and planned reviews."`
	Plan     decayPlanCmd     `cmd:"" help:"Plan days to review a memory or an entry."`
	History  decayHistoryCmd  `cmd:"" help:"List what crossed a threshold."`
	Restore  decayRestoreCmd  `cmd:"" help:"Restore what decay moved to the trash."`
}

type decayRunCmd struct {
	Once     bool   `xor:"when" help:"Evaluate once and exit."`
	Schedule string `xor:"when" placeholder:"CRON" help:"Evaluate at these times until Ctrl-C, as 5 or 6 cron fields. Default: every hour."`
	DryRun   bool   `help:"Show what would change, without changes."`
}

func (d *decayRunCmd) Run(c *command) error {
	if d.Once {
		return d.evaluate(c)
	}
	times, err := cadence.New(cadence.Spec{Type: cadence.Cron, Expression: cmp.Or(d.Schedule, "0 0 * * * *"), Timezone: scheduler.SystemZone()}, time.Now(), time.Second)
	if err != nil {
		return fault.Invalidf("--schedule: %s", fault.As(err).Message)
	}
	for {
		due, ok := times.Next(time.Now())
		if !ok {
			return fault.Invalidf("--schedule: this never happens again.")
		}
		c.say("next evaluation at %s; press Ctrl-C to stop", due.At.Local().Format(time.DateTime))
		select {
		case <-c.ctx.Done():
			return nil
		case <-time.After(time.Until(due.At)):
		}
		if err := d.evaluate(c); c.ctx.Err() != nil {
			return nil
		} else if err != nil {
			c.say("%s", fault.As(err).Message) // a later one may succeed
		}
	}
}

// evaluate runs the evaluation once. If another one is running, it does the same work.
func (d *decayRunCmd) evaluate(c *command) error {
	err := show(c, "psychology.decay_run", map[string]any{"dryRun": d.DryRun}, func(r psychology.RunResult) {
		for _, s := range r.Skipped {
			c.say("skipped %s: %s", s.ID, s.Reason)
		}
		verb := "changed"
		if d.DryRun {
			verb = "would change"
		}
		fmt.Fprintf(c.env.Stdout, "%d memories and entries, %d %s, %d below 0.3, %d to the trash\n", r.Items, r.Changed, verb, r.Fading, len(r.Trashed))
	})
	if fault.Is(err, fault.Conflict) {
		c.say("A decay run is already in progress.")
		return nil
	}
	return err
}

type decayRestoreCmd struct {
	IDs []string `arg:"" optional:"" name:"id" param:"ids" help:"IDs of memories or entries."`
	Of  string   `name:"run" param:"runId" placeholder:"ID" help:"Everything this run moved to the trash."`
}

func (*decayRestoreCmd) Run(c *command) error {
	return answer(c, "psychology.restore_from_decay", func(r psychology.UndoResult) {
		fmt.Fprintf(c.env.Stdout, "restored %d\n", r.Count)
	})
}

type decayForecastCmd struct {
	ID     string `arg:"" optional:"" help:"ID of a memory or an entry."`
	Layer  int    `placeholder:"N" help:"A layer, 1 to 7, instead of an ID."`
	Days   int    `default:"90" help:"How far to look ahead, at most 731."`
	Points int    `default:"10" help:"How many values, 2 to 500."`
	Pinned bool   `help:"Forecast as if it were pinned."`
	Tier   string `default:"" enum:",critical,high,medium,low" placeholder:"TIER" help:"Forecast as if its salience were this."`
}

func (d *decayForecastCmd) Run(c *command) error {
	p := map[string]any{"points": d.Points, "to": time.Now().AddDate(0, 0, d.Days)}
	setIf(p, "id", d.ID)
	if d.Layer != 0 {
		p["layerNumber"] = d.Layer
	}
	what := map[string]any{}
	if d.Pinned {
		what["pinned"] = true
	}
	setIf(what, "tier", d.Tier)
	if len(what) > 0 {
		p["whatIf"] = what
	}
	return show(c, "psychology.forecast", p, func(r psychology.ForecastResult) {
		list(c, r.Points, "", []string{"DAY", "RETENTION"}, func(x psychology.Point) []string {
			return []string{x.At.Local().Format(time.DateOnly), fmt.Sprintf("%.3f", x.Retention)}
		})
		for _, x := range r.Crossings {
			fmt.Fprintf(c.env.Stdout, "falls below %.2f on %s\n", x.Threshold, x.At.Local().Format(time.DateOnly))
		}
		fmt.Fprintln(c.env.Stdout, r.Reason)
	})
}

type decayPlanCmd struct {
	ID   string   `arg:"" help:"ID of a memory or an entry."`
	Days []string `arg:"" optional:"" help:"Days such as 2026-06-01. They replace the reviews planned before. Without any days, all planned reviews are removed."`
}

func (d *decayPlanCmd) Run(c *command) error {
	at := make([]time.Time, len(d.Days))
	for i, day := range d.Days {
		t, err := time.Parse(time.DateOnly, day)
		if err != nil {
			return fault.Invalidf("%q isn't a day such as 2026-06-01.", day)
		}
		at[i] = t.Add(12 * time.Hour)
	}
	return show(c, "psychology.plan_reviews", map[string]any{"id": d.ID, "at": at}, func(r psychology.PlanReviewsResult) {
		for _, at := range r.Reviews {
			fmt.Fprintf(c.env.Stdout, "review on %s\n", at.Format(time.DateOnly))
		}
		if len(r.Reviews) == 0 {
			fmt.Fprintln(c.env.Stdout, "no review planned")
		}
	})
}

type decayFadingCmd struct {
	Days   int `default:"30" param:"withinDays" help:"Within how many days, 1 to 365."`
	Limit  int `default:"50"`
	Offset int `default:"0"`
}

func (d *decayFadingCmd) Run(c *command) error {
	return answer(c, "psychology.fading", func(r psychology.FadingResult) {
		if len(r.Items) == 0 {
			c.say("Nothing fades within %d days.", d.Days)
			return
		}
		list(c, r.Items, "", []string{"ID", "TITLE", "RETENTION", "ON", "REASON"}, func(x psychology.FadingItem) []string {
			return []string{x.ID.String(), x.Title, fmt.Sprintf("%.2f", x.Retention), x.At.Local().Format(time.DateOnly), x.Reason}
		})
	})
}

type decayHistoryCmd struct {
	ID     string `arg:"" optional:"" help:"Only this memory or entry."`
	Limit  int    `default:"50"`
	Offset int    `default:"0"`
}

func (*decayHistoryCmd) Run(c *command) error {
	return answer(c, "psychology.decay_history", func(r psychology.HistoryResult) {
		list(c, r.Crossings, "", []string{"AT", "ID", "BEFORE", "AFTER", "CROSSED"}, func(x psychology.Crossing) []string {
			return []string{x.At.Local().Format("2006-01-02 15:04"), x.ID.String(), fmt.Sprintf("%.2f", x.Previous), fmt.Sprintf("%.2f", x.Retention), fmt.Sprintf("%.2f", x.Threshold)}
		})
	})
}
