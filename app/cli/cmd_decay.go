package cli

import (
	"fmt"
	"time"

	"helix/backend/psychology"
)

type decayCmd struct {
	Run      decayRunCmd      `cmd:"" default:"withargs" help:"Evaluate how far memories have faded. Helix does it every hour."`
	Forecast decayForecastCmd `cmd:"" help:"Show how a memory will fade."`
	Fading   decayFadingCmd   `cmd:"" help:"List memories that fade soon."`
	History  decayHistoryCmd  `cmd:"" help:"List runs and what crossed a threshold."`
}

type decayRunCmd struct {
	Once   bool `help:"Evaluate once. This is the default."`
	DryRun bool `help:"Show what would change, without changes."`
}

func (d *decayRunCmd) Run(c *command) error {
	return show(c, "psychology.decay_run", map[string]any{"dryRun": d.DryRun}, func(r psychology.RunResult) {
		for _, s := range r.Skipped {
			c.say("skipped %s: %s", s.ID, s.Reason)
		}
		verb := "changed"
		if d.DryRun {
			verb = "would change"
		}
		fmt.Fprintf(c.env.Stdout, "%d memories, %d %s, %d below 0.3\n", r.Items, r.Changed, verb, r.Fading)
	})
}

type decayForecastCmd struct {
	ID     string `arg:"" help:"Id of the memory."`
	Days   int    `default:"90" help:"How far to look ahead, at most 731."`
	Points int    `default:"10" help:"How many values, 2 to 500."`
	Pinned bool   `help:"As if it were pinned."`
	Tier   string `default:"" enum:",critical,high,medium,low" placeholder:"TIER" help:"As if its salience were this."`
}

func (d *decayForecastCmd) Run(c *command) error {
	p := map[string]any{"id": d.ID, "points": d.Points, "to": time.Now().AddDate(0, 0, d.Days)}
	what := map[string]any{}
	if d.Pinned {
		what["pinned"] = true
	}
	setIf(what, "tier", d.Tier)
	if len(what) > 0 {
		p["whatIf"] = what
	}
	return show(c, "psychology.forecast", p, func(r psychology.ForecastResult) {
		rows := [][]string{}
		for _, x := range r.Points {
			rows = append(rows, []string{x.At.Local().Format(time.DateOnly), fmt.Sprintf("%.3f", x.Retention)})
		}
		c.table([]string{"DAY", "RETENTION"}, rows)
		for _, x := range r.Crossings {
			fmt.Fprintf(c.env.Stdout, "falls below %.2f on %s\n", x.Threshold, x.At.Local().Format(time.DateOnly))
		}
		fmt.Fprintln(c.env.Stdout, r.Reason)
	})
}

type decayFadingCmd struct {
	Days   int `default:"30" help:"Within how many days, 1 to 365."`
	Limit  int `default:"50"`
	Offset int `default:"0"`
}

func (d *decayFadingCmd) Run(c *command) error {
	return show(c, "psychology.fading", map[string]any{"withinDays": d.Days, "limit": d.Limit, "offset": d.Offset}, func(r psychology.FadingResult) {
		if len(r.Items) == 0 {
			c.say("Nothing fades within %d days.", d.Days)
			return
		}
		rows := [][]string{}
		for _, x := range r.Items {
			rows = append(rows, []string{x.ID.String(), fmt.Sprintf("%.2f", x.Retention), x.At.Local().Format(time.DateOnly), x.Reason})
		}
		c.table([]string{"MEMORY", "RETENTION", "BELOW 0.3", "REASON"}, rows)
	})
}

type decayHistoryCmd struct {
	ID     string `arg:"" optional:"" help:"Only this memory."`
	Limit  int    `default:"50"`
	Offset int    `default:"0"`
}

func (d *decayHistoryCmd) Run(c *command) error {
	p := map[string]any{"limit": d.Limit, "offset": d.Offset}
	setIf(p, "id", d.ID)
	return show(c, "psychology.decay_history", p, func(r psychology.HistoryResult) {
		rows := [][]string{}
		for _, x := range r.Crossings {
			rows = append(rows, []string{x.At.Local().Format("2006-01-02 15:04"), x.ID.String(), fmt.Sprintf("%.2f", x.Previous), fmt.Sprintf("%.2f", x.Retention), fmt.Sprintf("%.2f", x.Threshold)})
		}
		c.table([]string{"AT", "MEMORY", "BEFORE", "AFTER", "CROSSED"}, rows)
	})
}
