package machine

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"helix/backend/skills/definition"
	"helix/backend/skills/expr"
)

// finish is how the run ends now that its steps have.
func (s *State) finish() FinishedData {
	if s.failure != nil {
		return FinishedData{Status: Failed, Error: s.failure}
	}
	d := FinishedData{Status: Completed, Output: orNull(s.root.last)}
	if s.root.failed != nil {
		step := s.root.steps[s.root.at-1].StepID
		d = FinishedData{Status: Failed, Error: s.root.failed.Within(fmt.Sprintf("step %q", step))}
	} else if m := s.start.Body.OutputMapping; m.Set {
		v, err := eval(m.V, s.root.doc)
		switch {
		case err != nil:
			d = FinishedData{Status: Failed, Error: prefixed("outputMapping", err)}
		case len(v) > MaxOutput:
			d = FinishedData{Status: Failed, Error: TooLarge(len(v))}
		default:
			d.Output = v
		}
	}
	d.Notice = s.notice()
	return d
}

func eval(template any, doc map[string]any) (json.RawMessage, error) {
	t, err := expr.ParseTemplate(template)
	if err != nil {
		return nil, err
	}
	return fill(parse(t, nil), doc)
}

// notice is what the skill asks to show; nil when its condition does not hold, or when what
// it says cannot be made from this run.
func (s *State) notice() *Notice {
	n := s.start.Body.Notification
	if n == nil {
		return nil
	}
	if n.When != "" {
		if ok, err := holds(parse(expr.ParseCondition(n.When)), s.root.doc); err != nil || !ok {
			return nil
		}
	}
	out := &Notice{Level: n.Level}
	if out.Level == "" {
		out.Level = "info"
	}
	for template, to := range map[*any]*string{&n.Title: &out.Title, &n.Body: &out.Body} {
		if *template == nil {
			continue
		}
		v, err := eval(*template, s.root.doc)
		if err != nil {
			return nil
		}
		*to = cut(plain(v), maxNotice)
	}
	return out
}

// maxNotice is the most bytes of a text that is shown as a notification.
const maxNotice = 4 << 10

func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// End is the event that ends a run from outside: canceled, or out of time.
func End(status Status, why *Failure) Event {
	return event(RunFinished, "", "", 0, FinishedData{Status: status, Error: why})
}

// Unknown is the event for a call that a crash interrupted and that must not be made again:
// it asks a person, or fails when the step says so.
func Unknown(c *Call) Event {
	const message = "Helix stopped during this step, so its outcome is unknown"
	if c.Step.Unknown() == definition.Fail {
		return event(StepOutcome, c.Path, c.Iteration, c.Attempt, OutcomeData{Error: &Failure{Kind: "internal", Message: message}, Unknown: true})
	}
	return event(ApprovalRequested, c.Path, c.Iteration, c.Attempt, RequestData{Reason: WaitUnknown, Title: c.Step.StepID, Message: message})
}

// Outcome is the event for what came of a call.
func Outcome(c *Call, d OutcomeData) Event {
	return event(StepOutcome, c.Path, c.Iteration, c.Attempt, d)
}

// Ask is the event for a question in the place of a call's outcome.
func Ask(c *Call, d RequestData) Event {
	return event(ApprovalRequested, c.Path, c.Iteration, c.Attempt, d)
}

// Progress is the event for news of a call.
func Progress(c *Call, d ProgressData) Event {
	return event(StepProgress, c.Path, c.Iteration, c.Attempt, d)
}

// Stopped is the event for a time in which Helix did not run.
func Stopped(d time.Duration) Event {
	return event(StepProgress, "", "", 0, ProgressData{StoppedMs: d.Milliseconds()})
}

// Created is the event that begins a journal. Its data is the caller's.
func Created(data any) Event { return event(RunCreated, "", "", 0, data) }

// Answer is the event for the answer to a wait.
func Answer(w Wait, d AnswerData) Event {
	return event(ApprovalAnswered, w.Path, w.Iteration, 0, d)
}
