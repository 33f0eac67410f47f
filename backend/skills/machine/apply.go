package machine

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"helix/backend/duration"
	"helix/backend/jcs"
	"helix/backend/skills/definition"
	"helix/backend/skills/expr"
)

// The delays between attempts: 1 s, 2 s, 4 s and so on up to 30 s, each multiplied by its jitter,
// and at most two minutes in total.
const (
	firstDelay = time.Second
	mostDelay  = 30 * time.Second
	allDelays  = 120 * time.Second
)

func (s *State) applyIntent(f *frame, e Event) error {
	w := f.cur
	if w.phase != phaseNew && w.phase != phaseBackoff {
		return errEvent(e, "the step has begun already")
	}
	var d IntentData
	if err := read(e, &d); err != nil {
		return err
	}
	s.show(w.res)
	w.res.Attempts = max(e.Attempt, 1)
	switch w.res.Step.ToolType {
	case definition.Branch:
		return s.openArm(f, e, d)
	case definition.Map:
		return s.openItems(f, e, d)
	}
	if d.Input != nil {
		w.input = d.Input
	}
	w.res.InputHash = d.Hash
	w.key, w.phase, w.due, w.paused, w.plan = d.Key, phaseCalling, e.At, "", nil
	return nil
}

func (s *State) openArm(f *frame, e Event, d IntentData) error {
	w := f.cur
	def := w.res.Step
	if d.Case == nil || *d.Case >= len(def.Cases) {
		return errEvent(e, "names no arm")
	}
	arm := func(steps []definition.Step) *frame {
		return &frame{steps: steps, prefix: w.res.Path + "/", iteration: f.iteration, doc: f.doc}
	}
	w.phase, w.plan = phaseArm, nil
	w.arm = arm(def.Else)
	for i, c := range def.Cases {
		if i == *d.Case {
			w.arm = arm(c.Steps)
		} else {
			w.skips = append(w.skips, arm(c.Steps))
		}
	}
	if *d.Case >= 0 {
		w.skips = append(w.skips, arm(def.Else))
	}
	s.enter(w.arm)
	return nil
}

func (s *State) openItems(f *frame, e Event, d IntentData) error {
	w := f.cur
	items, err := s.items(f)
	if err != nil || d.Count == nil || *d.Count != len(items) {
		return errEvent(e, "the items are others")
	}
	w.phase, w.plan = phaseItems, nil
	w.each = &mapping{items: items, out: make([]json.RawMessage, len(items)), errs: make([]*Failure, len(items))}
	s.beginItems(f)
	return nil
}

// beginItems starts items up to the concurrency limit.
func (s *State) beginItems(f *frame) {
	w := f.cur
	m := w.each
	for m.stop == nil && m.next < len(m.items) && len(m.active) < w.res.Step.Parallel() {
		i := m.next
		m.next++
		it := &item{index: i, frame: &frame{
			steps: w.res.Step.Steps, prefix: w.res.Path + "/", iteration: join(f.iteration, i), doc: inner(f.doc, m.items[i], i),
		}}
		s.enter(it.frame)
		m.active = append(m.active, it)
	}
}

// applyItem ends one item of a map.
func (s *State) applyItem(e Event) error {
	var d ItemData
	if err := read(e, &d); err != nil {
		return err
	}
	f := s.frameOf(e.StepPath, e.Iteration)
	if f == nil || f.cur.each == nil {
		return errEvent(e, "no such map is running")
	}
	m := f.cur.each
	at := slices.IndexFunc(m.active, func(it *item) bool { return it.index == d.Index })
	if at < 0 {
		return errEvent(e, "no such item is running")
	}
	m.active = slices.Delete(m.active, at, at+1)
	m.done++
	m.out[d.Index], m.errs[d.Index] = d.Output, d.Error
	if d.Error != nil && f.cur.res.Step.ItemError() == definition.Stop && m.stop == nil {
		m.stop = d.Error.Within(fmt.Sprintf("item %d", d.Index))
	}
	s.beginItems(f)
	return nil
}

// applyBranchSkip applies the skipping of a step in an arm that was not taken.
func (s *State) applyBranchSkip(e Event) (done bool, err error) {
	var d SkippedData
	if err := read(e, &d); err != nil {
		return false, err
	}
	if d.Reason != ReasonBranch {
		return false, nil
	}
	s.eachFrame(s.root, func(f *frame) {
		if done || f.cur == nil || f.cur.phase != phaseArm {
			return
		}
		if def, skipped := f.cur.nextSkip(); def != nil && skipped.prefix+def.StepID == e.StepPath && f.iteration == e.Iteration {
			done = true
			f.cur.reported++
			res := &StepResult{Step: def, Path: e.StepPath, Iteration: e.Iteration, Status: Skipped, Reason: ReasonBranch, StartedAt: e.At, EndedAt: e.At}
			s.show(res)
			s.note(f, res, nil, false)
		}
	})
	if !done {
		return false, errEvent(e, "no such arm was left out")
	}
	return true, nil
}

// nextSkip returns the next unreported step of the arms that were not taken, with its arm.
func (w *work) nextSkip() (*definition.Step, *frame) {
	n := w.reported
	for _, arm := range w.skips {
		if n < len(arm.steps) {
			return &arm.steps[n], arm
		}
		n -= len(arm.steps)
	}
	return nil, nil
}

func (s *State) applyOutcome(f *frame, e Event) error {
	var d OutcomeData
	if err := read(e, &d); err != nil {
		return err
	}
	w := f.cur
	called := w.phase == phaseCalling
	if called && e.Attempt != w.res.Attempts {
		return errEvent(e, "is of another attempt")
	}
	if w.phase == phaseEnded || w.phase == phaseRetry || w.phase == phaseBackoff {
		return errEvent(e, "nothing was begun")
	}
	if w.res.Attempts == 0 {
		w.res.Attempts = 1
	}
	w.res.TookMs, w.res.Source, w.res.Unknown = w.res.TookMs+d.TookMs, d.Source, d.Unknown
	switch {
	case d.Unmocked:
		w.res.Status, w.res.EndedAt = Unmocked, e.At
		s.show(w.res)
		f.unmocked = true
		s.failure = &Failure{Kind: "unmocked", Message: fmt.Sprintf("step %q: this dry run has no mock for it", w.res.Step.StepID)}
		f.cur = nil
		return nil
	case d.Error != nil:
		w.res.Error = d.Error
		if d.Preview != "" {
			if b, err := jcs.Marshal(map[string]string{"preview": d.Preview}); err == nil {
				w.res.Output = b
			}
		}
		if called && s.mayRetry(w, d) {
			w.phase, w.delay = phaseRetry, retryDelay(e.Attempt-w.again, d)
			return nil
		}
		s.settle(f, e.At, d.Error)
		return nil
	}
	output, failure := s.mapped(w.res.Step, d.Output)
	if failure == nil && s.start.MaxDocument > 0 && s.size+len(output) > s.start.MaxDocument {
		s.settle(f, e.At, &Failure{Kind: "limit", Message: fmt.Sprintf("the outputs of the run are more than %d MiB", s.start.MaxDocument>>20)})
		return nil
	}
	if failure != nil {
		w.res.Output = d.Output // the call took effect, so keep its output
		s.settle(f, e.At, failure)
		return nil
	}
	return s.complete(f, e.At, output)
}

// mapped applies a step's outputMapping, in which $ is the result.
func (s *State) mapped(def *definition.Step, raw json.RawMessage) (json.RawMessage, *Failure) {
	if !def.OutputMapping.Set {
		return orNull(raw), nil
	}
	v, err := expr.Decode(orNull(raw))
	var out json.RawMessage
	if err == nil {
		out, err = fill(s.start.Program.of(def).output, v)
	}
	switch {
	case err != nil:
		return nil, prefixed("outputMapping", err)
	case len(out) > MaxOutput:
		return nil, TooLarge(len(out))
	}
	return out, nil
}

func (s *State) mayRetry(w *work, d OutcomeData) bool {
	def := w.res.Step
	if def.OnError() != definition.Retry || w.res.Attempts-w.again >= def.Attempts() || !slices.Contains(def.RetryKinds(), d.Error.Kind) {
		return false
	}
	if d.Unknown && !s.start.Tools[def.StepID].Repeatable() && !def.RetryUnsafe {
		return false
	}
	return w.backoff+retryDelay(w.res.Attempts-w.again, d) <= allDelays
}

// retryDelay returns the delay after a failed attempt.
func retryDelay(attempt int, d OutcomeData) time.Duration {
	delay := mostDelay
	if n := attempt - 1; n < 5 {
		delay = min(firstDelay<<n, mostDelay)
	}
	if d.Jitter > 0 {
		delay = time.Duration(float64(delay) * min(max(d.Jitter, 0.5), 1))
	}
	return max(delay, duration.Of(d.RetryAfter, time.Millisecond))
}

func (s *State) applyAnswer(f *frame, e Event) error {
	var d AnswerData
	if err := read(e, &d); err != nil {
		return err
	}
	w := f.cur
	if w.phase != phaseAsking {
		return errEvent(e, "nothing was asked")
	}
	reason := w.request.Reason
	w.request = nil
	switch {
	case reason == WaitApproval && d.Decision == Approve:
		out, err := jcs.Marshal(map[string]any{"decision": d.Decision, "data": orNull(d.Data)})
		if err != nil {
			return err
		}
		return s.complete(f, e.At, out)
	case reason == WaitApproval && d.Decision == Decline:
		s.settle(f, e.At, &Failure{Kind: "denied", Message: "it was declined"})
	case reason == WaitApproval && d.Decision == TimeOver:
		why := &Failure{Kind: "timeout", Message: "nobody answered in time"}
		if w.res.Step.WaitOver() == definition.Skip {
			s.skip(f, e.At, SkippedData{Reason: ReasonError, Error: why})
		} else {
			s.settle(f, e.At, why)
		}
	case reason == WaitUnknown && d.Decision == Done:
		return s.completeAs(f, e.At, orNull(d.Output))
	case reason == WaitTimer && d.Decision == TimeOver:
		return s.completeAs(f, e.At, json.RawMessage(fmt.Sprintf(`{"waitedMs":%d}`, e.At.Sub(w.due).Milliseconds())))
	case (reason == WaitUnknown || reason == WaitPermission) && d.Decision == TryAgain:
		w.phase, w.due = phaseBackoff, e.At
		w.again++
	case reason == WaitUnknown && d.Decision == GiveUp:
		w.res.Unknown = true
		s.settle(f, e.At, &Failure{Kind: "internal", Message: "Helix stopped during this step, so its outcome is unknown"})
	case reason == WaitPermission && (d.Decision == GiveUp || d.Decision == Decline || d.Decision == TimeOver):
		s.settle(f, e.At, &Failure{Kind: "denied", Message: "it was not allowed"})
	default:
		return errEvent(e, fmt.Sprintf("%q does not answer %q", d.Decision, reason))
	}
	return nil
}

// completeAs completes a step with a result that did not come from a call.
func (s *State) completeAs(f *frame, at time.Time, raw json.RawMessage) error {
	out, failure := s.mapped(f.cur.res.Step, raw)
	if failure != nil {
		f.cur.res.Output = raw
		s.settle(f, at, failure)
		return nil
	}
	return s.complete(f, at, out)
}

func orNull(b json.RawMessage) json.RawMessage {
	if len(b) == 0 {
		return json.RawMessage("null")
	}
	return b
}
