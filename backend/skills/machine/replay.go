package machine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"helix/backend/jcs"
	"helix/backend/skills/definition"
)

// Difference is the point where a replay deviates from a journal.
type Difference struct {
	Seq      int64           `json:"seq"`
	Expected json.RawMessage `json:"expected"` // what the machine would record now
	Actual   json.RawMessage `json:"actual"`   // what the journal contains
}

// Replay applies the recorded outcomes of a journal to a new run and compares, byte for byte, each
// event that the machine decides. It returns a nil Difference if they are identical. The error
// means that the journal is invalid.
func Replay(start Start, events []Event) (*State, *Difference, error) {
	s, err := New(start)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range events {
		if want, decided := s.decides(e); decided && !same(want, e) {
			return s, &Difference{e.Seq, line(want), line(&e)}, nil
		}
		if err := s.Apply(e); err != nil {
			return s, nil, err
		}
	}
	return s, nil, nil
}

// decides returns the event that the machine expects instead of e. decided is false if e
// comes from outside.
func (s *State) decides(e Event) (want *Event, decided bool) {
	todo := s.Next()
	switch e.Type {
	case RunCreated, StepProgress, ApprovalAnswered:
		return nil, false
	case RunFinished:
		if fromOutside(e) {
			return nil, false
		}
	case StepOutcome, ApprovalRequested: // the outcome of a call, or a question instead
		for _, c := range slices.Concat(todo.Calls, todo.Paused) {
			if c.Path == e.StepPath && c.Iteration == e.Iteration && (e.Type == ApprovalRequested || c.Attempt == e.Attempt) {
				return nil, false
			}
		}
		for _, w := range todo.Waits { // in a dry run, instead of an answer
			if e.Type == StepOutcome && w.Path == e.StepPath && w.Iteration == e.Iteration {
				return nil, false
			}
		}
	}
	if len(todo.Records) > 0 {
		return &todo.Records[0], true
	}
	for _, l := range todo.Later {
		if e.Type == StepIntent && l.Event.StepPath == e.StepPath && l.Event.Iteration == e.Iteration && !e.At.Before(l.NotBefore.Truncate(time.Microsecond)) {
			return &l.Event, true
		}
	}
	return nil, true
}

// fromOutside reports whether the run was ended by its deadline or by a person.
func fromOutside(e Event) bool {
	var d FinishedData
	return json.Unmarshal(e.Data, &d) == nil && (d.Status == Cancelled || d.Error != nil && d.Error.Kind == "timeout")
}

func same(want *Event, e Event) bool {
	return want != nil && want.Type == e.Type && want.StepPath == e.StepPath && want.Iteration == e.Iteration &&
		want.Attempt == e.Attempt && bytes.Equal(want.Data, e.Data)
}

func line(e *Event) json.RawMessage {
	if e == nil {
		return json.RawMessage("null")
	}
	b, err := jcs.Marshal(map[string]any{"type": e.Type, "stepPath": e.StepPath, "iteration": e.Iteration, "attempt": e.Attempt, "data": e.Data})
	if err != nil {
		return json.RawMessage(fmt.Sprintf("%q", err.Error()))
	}
	return b
}

// Summary counts the steps at the top level.
type Summary struct {
	Completed, Failed, Skipped, Total int
}

// Summary counts the steps at the top level.
func (s *State) Summary() Summary {
	n := Summary{Total: len(s.start.Body.Steps)}
	top := map[*definition.Step]bool{}
	for i := range s.start.Body.Steps {
		top[&s.start.Body.Steps[i]] = true
	}
	for _, r := range s.results {
		if !top[r.Step] {
			continue
		}
		switch r.Status {
		case Completed:
			n.Completed++
		case Failed:
			n.Failed++
		case Skipped:
			n.Skipped++
		}
	}
	return n
}
