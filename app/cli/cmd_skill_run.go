package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
)

type skillRunCmd struct {
	Skill   string `arg:"" help:"ID, name, or a skill file."`
	Input   string `help:"JSON, @file or -." placeholder:"JSON"`
	Version string `help:"Run this version of a saved skill." placeholder:"V"`
	Async   bool   `help:"Print the run's ID and don't wait."`
	DryRun  bool   `help:"Dry run: simulate the steps without side effects."`
	From    string `help:"With --dry-run: use the recorded results of this run." placeholder:"EXEC"`
	Mocks   string `help:"With --dry-run: mocks by step path, as JSON, @file or -." placeholder:"@FILE"`
}

type skillFailure struct{ Kind, Message string }

// skillExecution is the part of a run that the command line uses.
type skillExecution struct {
	ExecutionID, SkillName, Status, WaitReason, Trigger string
	Success                                             bool
	FinalOutput                                         json.RawMessage
	ExecutionTimeMs                                     float64
	StepsCompleted, TotalSteps                          int
	Error                                               *skillFailure
	StepResults                                         []skillStep
	Waits                                               []skillWait
	Warnings                                            []string
	CreatedAt                                           time.Time
}

type skillStep struct {
	StepPath, Iteration, Status, Reason, Source string
	Error                                       *skillFailure
	WouldDo                                     *struct {
		Tier   string
		Rights []string
		Input  json.RawMessage
	}
}

type skillWait struct {
	StepPath, Iteration, ApprovalID string
	Request                         struct{ Reason, Title, Message string }
}

func (r *skillRunCmd) Run(c *command) error {
	c.runsCode = true
	if (r.From != "" || r.Mocks != "") && !r.DryRun {
		return fault.Invalidf("--from and --mocks only work with --dry-run.")
	}
	if r.Async && r.DryRun {
		return fault.Invalidf("A dry run can't run in the background.")
	}
	p := map[string]any{}
	input, err := c.input(r.Input)
	if err != nil {
		return err
	}
	if input != nil {
		p["input"] = input
	}
	if err := r.name(c, p); err != nil {
		return err
	}
	if r.DryRun {
		return r.rehearse(c, p)
	}
	setIf(p, "version", r.Version)
	return r.live(c, p)
}

// name adds the skill to p: the id of a saved one, or a definition from a file.
func (r *skillRunCmd) name(c *command, p map[string]any) error {
	if _, err := uuid.Parse(r.Skill); err == nil {
		p["skillId"] = r.Skill
		return nil
	}
	if info, err := os.Stat(r.Skill); err == nil && !info.IsDir() {
		skill, err := c.skillFile(r.Skill)
		if err != nil {
			return err
		}
		if r.Version != "" {
			return fault.Invalidf("A file has only one version: leave out --version.")
		}
		p["skill"] = skill
		return nil
	}
	id, err := c.skillID(r.Skill)
	if fault.Is(err, fault.NotFound) && filepath.Ext(r.Skill) == ".json" {
		return fault.NotFoundf("No skill or file is named %q.", r.Skill)
	}
	p["skillId"] = id
	return err
}

// rehearse makes a dry run and prints what each step would have done.
func (r *skillRunCmd) rehearse(c *command, p map[string]any) error {
	mocks, err := c.input(r.Mocks)
	if err != nil {
		return err
	}
	if mocks != nil {
		p["mocks"] = mocks
	}
	setIf(p, "executionId", r.From)
	if r.Version != "" {
		if p["versionId"], err = c.versionID(p["skillId"], r.Version); err != nil {
			return err
		}
	}
	var e skillExecution
	raw, err := c.call("skills.dry_run", p, &e)
	if err != nil {
		return c.invalidSkill(err, p["skillId"])
	}
	for _, s := range e.StepResults {
		line := s.Status
		if s.Source != "" {
			line += ", answered by " + s.Source
		}
		if w := s.WouldDo; w != nil {
			line += fmt.Sprintf("; would call it (%s", w.Tier)
			if len(w.Rights) > 0 {
				line += ": " + strings.Join(w.Rights, ", ")
			}
			line += ")"
		}
		c.say("%s: %s", stepName(s.StepPath, s.Iteration), plain(line))
	}
	return c.ended(&e, raw)
}

func (c *command) versionID(skill any, label string) (string, error) {
	var r struct {
		Versions []struct{ VersionID, Version string }
	}
	if _, err := c.call("skills.list_versions", map[string]any{"skillId": skill}, &r); err != nil {
		return "", err
	}
	for _, v := range r.Versions {
		if v.Version == label {
			return v.VersionID, nil
		}
	}
	return "", fault.NotFoundf("The skill doesn't have a version %s.", label)
}

// live starts the run and follows it. Ctrl-C cancels it.
func (r *skillRunCmd) live(c *command, p map[string]any) error {
	if err := c.connect(); err != nil {
		return err
	}
	if _, ok := c.conn.(*own); ok && r.Async {
		return fault.Unavailablef("Couldn't start the run: Helix is not running. Start it with `helix serve`.")
	}
	follow, stop := context.WithCancel(c.ctx)
	events := make(chan struct{}, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.conn.Events(follow, []string{"skills.run_event"}, -1, func(event) error { // without it the ticker polls
			select {
			case events <- struct{}{}:
			default:
			}
			return nil
		})
	}()
	defer func() { stop(); <-ended }()
	p["async"], p["requestId"] = true, uuid.NewString()
	var begun skillExecution
	raw, err := c.call("skills.execute_composite", p, &begun)
	if err != nil {
		return c.invalidSkill(err, p["skillId"])
	}
	for _, w := range begun.Warnings {
		c.say("warning: %s", plain(w))
	}
	if r.Async {
		if c.JSON {
			return c.printJSON(raw)
		}
		fmt.Fprintln(c.env.Stdout, begun.ExecutionID)
		return nil
	}
	_, alone := c.conn.(*own)
	e, raw, err := c.followRun(begun.ExecutionID, events, alone)
	if c.ctx.Err() != nil {
		return c.cancelRun(begun.ExecutionID)
	}
	if err != nil {
		return err
	}
	return c.ended(e, raw)
}

// aloneWait is how long a run may wait for its timer in a process that was opened for one command.
// Runs that wait longer leave the process and continue in a running Helix.
const aloneWait = 50 * time.Second

// followRun prints the run's events until it has ended or waits for a person.
func (c *command) followRun(id string, events <-chan struct{}, alone bool) (*skillExecution, json.RawMessage, error) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	seq := int64(0)
	var waits time.Time
	for {
		var page struct {
			Events  []runEvent
			LastSeq int64
		}
		if _, err := c.call("skills.events", map[string]any{"executionId": id, "afterSeq": seq}, &page); err != nil {
			return nil, nil, err
		}
		stopped := false
		for _, ev := range page.Events {
			seq = ev.Seq
			c.progress(&ev)
			stopped = ev.Type == "run.finished" || ev.Type == "run.waiting"
		}
		if stopped && seq >= page.LastSeq {
			var e skillExecution
			raw, err := c.call("skills.get_execution", map[string]any{"executionId": id}, &e)
			if err != nil {
				return nil, nil, err
			}
			if e.Status != "running" && e.Status != "queued" && (e.Status != "waiting" || e.WaitReason != "timer") {
				return &e, raw, nil
			}
			if waits = time.Now(); e.Status != "waiting" {
				waits = time.Time{}
			}
		} else if len(page.Events) > 0 {
			waits = time.Time{}
		}
		if alone && !waits.IsZero() && time.Since(waits) > aloneWait {
			return nil, nil, fault.Unavailablef("The run %s is waiting for its time. It continues while Helix is running: `helix serve`.", id)
		}
		if len(page.Events) > 0 && seq < page.LastSeq {
			continue
		}
		select {
		case <-events:
		case <-tick.C:
		case <-c.ctx.Done():
			return nil, nil, c.ctx.Err()
		}
	}
}

type runEvent struct {
	Seq                       int64
	Type, StepPath, Iteration string
	Attempt                   int
	Data                      struct {
		Reason, Status string
		Error          *skillFailure
		DelayMs        int64
		TookMs         int64
		Unknown        bool
		Title, Message string
		Decision       string
	}
}

func stepName(path, iteration string) string {
	if iteration != "" {
		return plain(path + "[" + iteration + "]")
	}
	return plain(path)
}

// progress prints one event.
func (c *command) progress(e *runEvent) {
	step, d := stepName(e.StepPath, e.Iteration), &e.Data
	switch e.Type {
	case "step.intent":
		if e.Attempt > 1 {
			c.say("%s: attempt %d", step, e.Attempt)
			return
		}
		c.say("%s …", step)
	case "step.outcome":
		switch {
		case d.Error != nil && d.Unknown:
			c.say("%s: %s (it may have happened anyway)", step, plain(d.Error.Message))
		case d.Error != nil:
			c.say("%s: %s", step, plain(d.Error.Message))
		default:
			c.say("%s: done in %d ms", step, d.TookMs)
		}
	case "step.retry":
		c.say("%s: retry in %d ms", step, d.DelayMs)
	case "step.skipped":
		c.say("%s: skipped (%s)", step, d.Reason)
	case "step.reused":
		c.say("%s: reused from the earlier run", step)
	case "approval.requested":
		c.say("%s: waiting (%s) %s", step, d.Reason, plain(first(d.Title, d.Message)))
	case "approval.answered":
		c.say("%s: answered: %s", step, d.Decision)
	}
}

// cancelRun stops the run that Ctrl-C interrupted.
func (c *command) cancelRun(id string) error {
	var r struct{ Status string }
	if err := c.callAfterInterrupt("skills.cancel", map[string]any{"executionId": id, "reason": "Ctrl-C"}, &r); err != nil {
		fmt.Fprintf(c.env.Stderr, "helix: Couldn't cancel the run %s: %s\n", id, fault.As(err).Message)
	} else {
		c.say("The run %s is %s.", id, r.Status)
	}
	return failed{ExitCode(fault.Canceled)}
}

// ended prints how the run ended, or what it waits for, and returns the exit code.
func (c *command) ended(e *skillExecution, raw json.RawMessage) error {
	if c.JSON {
		if err := c.printJSON(raw); err != nil {
			return err
		}
	} else if e.Status == "completed" {
		out := e.FinalOutput
		if len(out) == 0 {
			out = json.RawMessage("null")
		}
		if err := c.printJSON(out); err != nil {
			return err
		}
	}
	switch e.Status {
	case "completed":
		return nil
	case "cancelled":
		c.say("The run was canceled.")
		return failed{ExitCode(fault.Canceled)}
	case "waiting":
		for _, w := range e.Waits {
			c.say("%s: %s", stepName(w.StepPath, w.Iteration), plain(first(w.Request.Title, w.Request.Message, w.Request.Reason)))
			if w.ApprovalID != "" {
				c.say("Answer it with: helix approvals decide %s --approve", w.ApprovalID)
			}
		}
		fmt.Fprintf(c.env.Stderr, "helix: The run %s is waiting for you (%s). Nothing else happens until you answer.\n", e.ExecutionID, e.WaitReason)
		return failed{ExitCode(fault.Denied)}
	}
	kind, message := fault.Internal, "The run failed."
	if e.Error != nil {
		kind, message = fault.Kind(e.Error.Kind), e.Error.Message
	}
	fmt.Fprintf(c.env.Stderr, "helix: %s\n", plain(message))
	switch kind {
	case fault.Denied, fault.Timeout, fault.Limit:
		return failed{ExitCode(kind)}
	}
	return failed{1}
}

// invalidSkill prints the problems of a definition that cannot run: those in the error, or those of
// the saved draft with the given id.
func (c *command) invalidSkill(err error, id any) error {
	var d struct{ Errors []problem }
	e := fault.As(err)
	switch e.Kind {
	case fault.Invalid:
		b, jerr := json.Marshal(e.Details)
		if jerr != nil || json.Unmarshal(b, &d) != nil {
			return err
		}
	case fault.Conflict:
		var saved struct{ Valid bool }
		raw, cerr := c.call("skills.get_metadata", map[string]any{"skillId": id}, &saved)
		if cerr != nil || saved.Valid {
			return err
		}
		if _, cerr := c.call("skills.validate_composite", map[string]any{"skill": raw}, &d); cerr != nil {
			return err
		}
	}
	if len(d.Errors) == 0 {
		return err
	}
	c.skillProblems("error", d.Errors)
	fmt.Fprintln(c.env.Stderr, "helix:", e.Message)
	return failed{ExitCode(e.Kind)}
}
