package machine

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"helix/backend/skills/definition"
	"helix/backend/skills/expr"
)

// finish returns the end of a run whose steps have all ended.
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

// notice returns the notification of the skill, or nil if its condition does not hold or its texts
// cannot be evaluated.
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

// maxNotice is the maximum size of a text in a notification, in bytes.
const maxNotice = 4 << 10

func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// End returns the event that ends a run from outside: canceled or timed out.
func End(status Status, why *Failure) Event {
	return event(RunFinished, "", "", 0, FinishedData{Status: status, Error: why})
}

// Unknown returns the event for a call that a crash interrupted and that must not be repeated.
// Depending on the step it asks a person or fails.
func Unknown(c *Call) Event {
	const message = "Helix stopped during this step, so its outcome is unknown"
	if c.Step.Unknown() == definition.Fail {
		return event(StepOutcome, c.Path, c.Iteration, c.Attempt, OutcomeData{Error: &Failure{Kind: "internal", Message: message}, Unknown: true})
	}
	return event(ApprovalRequested, c.Path, c.Iteration, c.Attempt, RequestData{Reason: WaitUnknown, Title: c.Step.StepID, Message: message})
}

// Outcome returns the event for the outcome of a call.
func Outcome(c *Call, d OutcomeData) Event {
	return event(StepOutcome, c.Path, c.Iteration, c.Attempt, d)
}

// Ask returns the event for a question instead of an outcome of a call.
func Ask(c *Call, d RequestData) Event {
	return event(ApprovalRequested, c.Path, c.Iteration, c.Attempt, d)
}

// Progress returns the event for the progress of a call.
func Progress(c *Call, d ProgressData) Event {
	return event(StepProgress, c.Path, c.Iteration, c.Attempt, d)
}

// Stopped returns the event for a period in which Helix was not running.
func Stopped(d time.Duration) Event {
	return event(StepProgress, "", "", 0, ProgressData{StoppedMs: d.Milliseconds()})
}

// Created returns the first event of a journal. Its data is defined by the caller.
func Created(data any) Event { return event(RunCreated, "", "", 0, data) }

// Answer returns the event for the answer to a wait.
func Answer(w Wait, d AnswerData) Event {
	return event(ApprovalAnswered, w.Path, w.Iteration, 0, d)
}
