package cli

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/scheduler"
)

// scheduleFields are the fields that create and edit can set.
type scheduleFields struct {
	cadenceFlags
	Description string        `help:"Description."`
	Skill       string        `xor:"target" help:"ID or name of a skill to run."`
	Tool        string        `xor:"target" help:"ID or name of a tool to run."`
	Synthesis   string        `xor:"target" help:"Kind of memory synthesis." placeholder:"KIND"`
	Decay       bool          `xor:"target" help:"Run memory decay."`
	Agent       string        `xor:"target" help:"A task for the agent." placeholder:"TEXT"`
	Input       string        `help:"Input as a JSON object, @file or -." placeholder:"JSON"`
	Missed      string        `help:"Missed runs: skip, once or all."`
	Grace       time.Duration `default:"-1s" help:"Grace period: skip runs missed by more than this." placeholder:"24h"`
	Overlap     string        `help:"If the previous run hasn't finished: skip, queue or cancelPrevious."`
	Notify      string        `help:"always, conditional or never."`
	NotifyWhen  string        `help:"Condition over the run, such as '$.output.count > 5'."`
	MaxRun      time.Duration `help:"Time limit of a run." placeholder:"30m"`
	Starts      string        `help:"Start time."`
	Ends        string        `help:"End time."`
	MaxRuns     int64         `help:"Stop after this many runs."`
}

// put adds the given fields to p.
func (f *scheduleFields) put(c *command, p map[string]any) error {
	spec, err := f.cadence()
	if err != nil {
		return err
	}
	if spec != nil {
		p["cadence"] = spec
	}
	target := map[string]any{}
	for kind, ref := range map[string]string{"skill": f.Skill, "tool": f.Tool, "synthesis": f.Synthesis} {
		if ref == "" {
			continue
		}
		target["kind"] = kind
		if _, err := uuid.Parse(ref); err == nil {
			target["id"] = ref
		} else {
			target["name"] = ref
		}
	}
	if f.Decay {
		target["kind"] = "decay"
	}
	input, err := c.input(f.Input)
	if err != nil {
		return err
	}
	if f.Agent != "" {
		target["kind"] = "agent"
		if input == nil {
			input = json.RawMessage("{}")
		}
		task := map[string]any{}
		if err := json.Unmarshal(input, &task); err != nil {
			return fault.Invalidf("The input of an agent task must be a JSON object.")
		}
		task["prompt"] = f.Agent
		if input, err = json.Marshal(task); err != nil {
			return err
		}
	}
	if input != nil {
		target["input"] = input
	}
	if len(target) > 0 {
		p["target"] = target
	}
	for field, v := range map[string]string{"description": f.Description, "missedPolicy": f.Missed, "overlap": f.Overlap, "notification": f.Notify, "notifyWhen": f.NotifyWhen} {
		setIf(p, field, v)
	}
	if f.Grace >= 0 {
		p["graceSecs"] = int64(f.Grace / time.Second)
	}
	if f.MaxRun > 0 {
		p["maxRunMs"] = f.MaxRun.Milliseconds()
	}
	if f.MaxRuns > 0 {
		p["maxRuns"] = f.MaxRuns
	}
	for field, text := range map[string]string{"startsAt": f.Starts, "endsAt": f.Ends} {
		if text == "" {
			continue
		}
		at, err := moment(text)
		if err != nil {
			return err
		}
		p[field] = at
	}
	return nil
}

type scheduleCreateCmd struct {
	Name string `required:"" help:"Name."`
	scheduleFields
	Paused bool `help:"Create it paused."`
}

func (s *scheduleCreateCmd) Run(c *command) error {
	p := map[string]any{"name": s.Name}
	if err := s.put(c, p); err != nil {
		return err
	}
	switch {
	case p["cadence"] == nil:
		return fault.Invalidf("Set the times with --cron, --every or --at.")
	case s.Skill == "" && s.Tool == "" && s.Synthesis == "" && !s.Decay && s.Agent == "":
		return fault.Invalidf("Choose what to run with --skill, --tool, --synthesis, --decay or --agent.")
	}
	if s.Paused {
		p["paused"] = true
	}
	return show(c, "schedules.create", p, func(r scheduler.Schedule) {
		c.say("%s: %s, next %s.", r.Name, r.Words, first(nextTime(r.NextRunAt), "never while it is paused"))
		c.table([]string{"ID"}, [][]string{{r.ScheduleID.String()}})
	})
}

type scheduleEditCmd struct {
	scheduleRef
	Name string `help:"A new name."`
	scheduleFields
}

func (s *scheduleEditCmd) Run(c *command) error {
	patch := map[string]any{}
	setIf(patch, "name", s.Name)
	if err := s.put(c, patch); err != nil {
		return err
	}
	if len(patch) == 0 {
		return fault.Invalidf("Set something to change, such as --cron.")
	}
	was, err := s.find(c)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	p := map[string]any{"scheduleId": was.ScheduleID, "patch": json.RawMessage(raw), "expectedRevision": was.Revision}
	return show(c, "schedules.update", p, func(r scheduler.Schedule) {
		c.say("%s: %s, next %s.", r.Name, r.Words, first(nextTime(r.NextRunAt), "never"))
	})
}

type scheduleResumeCmd struct{ scheduleRef }

func (*scheduleResumeCmd) Run(c *command) error {
	return answer(c, "schedules.resume", func(s scheduler.Schedule) { c.say("%s: next %s.", plain(s.Name), nextTime(s.NextRunAt)) })
}

type schedulePauseAllCmd struct {
	Until string        `xor:"until" help:"Until this time."`
	For   time.Duration `xor:"until" help:"For this long, such as 1h."`
}

func (p *schedulePauseAllCmd) Run(c *command) error {
	in := map[string]any{}
	if p.Until != "" {
		at, err := moment(p.Until)
		if err != nil {
			return err
		}
		in["until"] = at
	} else if p.For > 0 {
		in["until"] = time.Now().Add(p.For).UTC()
	}
	return show(c, "schedules.pause_all", in, func(r scheduler.PauseAllResult) {
		c.say("All schedules are paused until %s.", first(nextTime(r.Until), "you resume"))
	})
}
