package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/scheduler"
)

type scheduleRunCmd struct {
	scheduleRef
	Input  string `help:"Input instead of the schedule's: a JSON object, @file or -." placeholder:"JSON"`
	NoWait bool   `help:"Don't wait for it to finish. If Helix isn't running, it starts when Helix does."`
}

func (r *scheduleRunCmd) Run(c *command) error {
	input, err := c.input(r.Input)
	if err != nil {
		return err
	}
	c.background = !r.NoWait
	s, err := r.find(c)
	if err != nil {
		return err
	}
	p := map[string]any{"scheduleId": s.ScheduleID}
	if input != nil {
		p["input"] = input
	}
	var begun scheduler.RunNowResult
	raw, err := c.call("schedules.run_now", p, &begun)
	if err != nil {
		return err
	}
	if r.NoWait {
		if c.JSON {
			return c.printJSON(raw)
		}
		fmt.Fprintln(c.env.Stdout, begun.RunID)
		return nil
	}
	run, err := c.awaitRun(s.ScheduleID, begun.RunID)
	if err != nil {
		return err
	}
	if c.JSON {
		if err := c.printJSON(run); err != nil {
			return err
		}
	} else if run.OutputSummary != "" {
		fmt.Fprintln(c.env.Stdout, plain(run.OutputSummary))
	}
	switch run.Status {
	case "success":
		return nil
	case "waiting":
		c.say("Waiting: %s.", first(run.Reason, "for an answer"))
		return failed{ExitCode(fault.Denied)}
	case "cancelled":
		c.say("Canceled.")
		return failed{ExitCode(fault.Canceled)}
	}
	if run.Error != nil {
		c.say("%s: %s", run.Error.Kind, plain(run.Error.Message))
	}
	if run.Reason == "needs_approval" {
		return failed{ExitCode(fault.Denied)}
	}
	return failed{1}
}

// awaitRun polls a run until it has ended or waits for a person.
func (c *command) awaitRun(schedule, id uuid.UUID) (scheduler.Run, error) {
	limit := time.NewTimer(c.Timeout)
	defer limit.Stop()
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	for {
		var r scheduler.RunsResult
		if _, err := c.call("schedules.runs", map[string]any{"scheduleId": schedule, "limit": 100}, &r); err != nil {
			return scheduler.Run{}, err
		}
		for _, run := range r.Runs {
			if run.RunID == id && run.Status != "queued" && run.Status != "running" && run.Status != "interrupted" {
				return run, nil
			}
		}
		select {
		case <-again.C:
		case <-c.ctx.Done():
			return scheduler.Run{}, c.ctx.Err()
		case <-limit.C:
			return scheduler.Run{}, fault.New(fault.Timeout, "Not finished within %s. It continues; see `helix schedule history`.", c.Timeout)
		}
	}
}

type scheduleHistoryCmd struct {
	Schedule string `arg:"" optional:"" param:"scheduleId" ref:"schedule" help:"ID or name; default all."`
	Status   string `help:"Only runs in this state, such as missed."`
	Limit    int    `default:"20"`
	Cursor   string `help:"Continue from this cursor."`
	Output   string `param:"-" help:"Print the output of the run." placeholder:"RUN"`
}

func (h *scheduleHistoryCmd) Run(c *command) error {
	if h.Output != "" {
		return show(c, "schedules.run_output", map[string]any{"runId": h.Output, "maxChars": 8000}, func(r scheduler.RunOutputResult) {
			for line := range strings.SplitSeq(r.Text, "\n") {
				fmt.Fprintln(c.env.Stdout, plain(line))
			}
			if r.Truncated {
				c.say("The first of %d characters.", r.TotalChars)
			}
		})
	}
	if h.Schedule != "" { // of a schedule that doesn't exist, schedules.runs lists no runs
		if _, err := (scheduleRef{h.Schedule}).find(c); err != nil {
			return err
		}
	}
	return answer(c, "schedules.runs", func(r scheduler.RunsResult) {
		if len(r.Runs) == 0 {
			c.say("No runs yet.")
			return
		}
		list(c, r.Runs, "", []string{"RUN", "SCHEDULE", "DUE", "BY", "STATE", "WHAT"}, func(run scheduler.Run) []string {
			why := run.Reason
			if run.Error != nil {
				why = run.Error.Message
			}
			if run.MissedCount != nil {
				why = fmt.Sprintf("%d times until %s", *run.MissedCount, nextTime(run.LastMissedAt))
			}
			return []string{run.RunID.String(), run.ScheduleName, nextTime(&run.DueAt), run.Trigger, run.Status, cut(first(why, run.OutputSummary), 60)}
		})
		if r.NextCursor != "" {
			c.say("More: --cursor %s", r.NextCursor)
		}
	})
}

type scheduleCancelCmd struct {
	RunID string `arg:"" name:"run" help:"ID of the run."`
}

func (s *scheduleCancelCmd) Run(c *command) error {
	id, err := uuid.Parse(s.RunID)
	if err != nil {
		return fault.Invalidf("%q isn't the ID of a run. `helix schedule history` lists them.", s.RunID)
	}
	return show(c, "schedules.cancel_run", map[string]any{"runId": id}, func(r scheduler.Run) { c.say("%s: %s.", plain(r.ScheduleName), r.Status) })
}
