package skills

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/jcs"
	"helix/backend/skills/definition"
	"helix/backend/skills/machine"
)

// previewBytes is the size of the excerpt kept of an invalid output.
const previewBytes = 4 << 10

// errAttempt is the cause when a call exceeds the time limit of its step.
var errAttempt = errors.New("the attempt is out of time")

// start starts the calls that are not in progress yet.
func (r *live) start(todo machine.Todo) {
	for _, c := range slices.Concat(todo.Calls, todo.Paused) {
		key := callKey(c)
		if r.calls[key] != nil {
			continue
		}
		if r.crashed[key] && !canRepeat(c.Tool) {
			continue // its outcome is unknown; see unknown
		}
		nested := r.made.Tools[c.Step.StepID].Kind == definition.SkillCall
		if nested && r.quiet() {
			continue
		}
		delete(r.crashed, key)
		ctx, cancel := context.WithCancelCause(r.ctx)
		r.calls[key] = &attempt{call: c, cancel: cancel}
		r.s.background("make a call of a run", func() {
			defer cancel(nil)
			if !nested {
				r.perform(ctx, c, func(e machine.Event, known bool) { r.send(message{key: key, outcome: &e, known: known}) })
				return
			}
			var out *machine.Event
			var known bool
			err := fault.Catch(func() error {
				out, known = r.nested(ctx, c)
				return nil
			})
			if err != nil {
				r.s.log.Error("a call of a nested skill failed", "run", r.row.id, "step", c.Path, "error", err)
				out, known = end(machine.Outcome(c, r.s.failed(err))), true
			}
			r.send(message{key: key, outcome: out, known: known})
		})
	}
}

// canRepeat reports whether a call that a crash interrupted can be repeated.
func canRepeat(t machine.Tool) bool { return t.Repeatable() || t.Resumes }

// without returns the event for a call that is handled without calling anything: the durable timer,
// and a missing callable.
func (r *live) without(c *machine.Call) (machine.Event, bool) {
	t := r.made.Tools[c.Step.StepID]
	switch {
	case t.Missing != nil:
		return machine.Outcome(c, machine.OutcomeData{Error: t.Missing, Jitter: r.s.jitter()}), true
	case t.Kind == definition.Builtin && t.Name == waitName:
		d, err := waitTime(c.Input, c.At)
		if err != nil {
			return machine.Outcome(c, r.s.failed(err)), true
		}
		if d < time.Millisecond {
			return machine.Outcome(c, machine.OutcomeData{Output: json.RawMessage(`{"waitedMs":0}`)}), true
		}
		return machine.Ask(c, machine.RequestData{Reason: machine.WaitTimer, Title: c.Step.StepID, WaitMs: (d + time.Millisecond - 1).Milliseconds()}), true
	}
	return machine.Event{}, false
}

// jitter returns a random factor for a back-off.
func (s *Service) jitter() float64 { return 0.5 + s.o.Rand()/2 }

// failed returns the outcome of a call that failed.
func (s *Service) failed(err error) machine.OutcomeData {
	f := fault.As(err)
	return machine.OutcomeData{
		Error:  &machine.Failure{Kind: string(f.Kind), Message: strings.TrimSuffix(f.Message, ".")},
		Jitter: s.jitter(), RetryAfter: f.RetryAfter.Milliseconds(),
	}
}

// reply is the result of a callable.
type reply struct {
	callable.Result
	err error
}

// perform makes one attempt and reports its outcome exactly once: when the callable returns, or
// CancelPatience after the time limit of the step has expired.
func (r *live) perform(ctx context.Context, c *machine.Call, tell func(out machine.Event, known bool)) {
	limit := c.Step.Timeout()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errAttempt)
	defer cancel()
	begun := time.Now()
	var once sync.Once
	settle := func(res reply) {
		once.Do(func() {
			var out machine.Event
			var known bool
			err := fault.Catch(func() error {
				out, known = r.outcome(ctx, c, res, limit, time.Since(begun))
				return nil
			})
			if err != nil { // the step may have taken effect
				r.s.log.Error("the result of a step cannot be read", "run", r.row.id, "step", c.Path, "error", err)
				d := r.s.failed(err)
				d.Unknown = !c.Tool.Repeatable()
				out, known = machine.Outcome(c, d), true
			}
			tell(out, known)
		})
	}
	answered, left := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(left)
		timer := time.NewTimer(r.s.limits.CancelPatience)
		defer timer.Stop()
		select {
		case <-answered:
		case <-timer.C:
			settle(reply{err: ctx.Err()})
		}
	})
	out, err := r.s.call(ctx, &r.made, c, limit, callable.Caller{Run: r.row.id, Attended: r.made.Attended, Authority: r.authority}, r.budget)
	close(answered)
	if !stop() {
		<-left
	}
	settle(reply{out, err})
}

// outcome returns the outcome of an attempt. known is false if the attempt was stopped with the run.
func (r *live) outcome(ctx context.Context, c *machine.Call, res reply, limit, took time.Duration) (out machine.Event, known bool) {
	var d machine.OutcomeData
	refused, isRefused := refusal(res.err)
	switch cause := context.Cause(ctx); {
	case res.err == nil:
		d = r.s.output(res.Output)
	case ctx.Err() != nil && errors.Is(cause, errAttempt):
		d = r.s.failed(fault.New(fault.Timeout, "it took longer than %s", limit))
		d.Unknown = !c.Tool.Repeatable()
	case ctx.Err() != nil:
		return machine.Outcome(c, machine.OutcomeData{Error: &machine.Failure{Kind: string(fault.Canceled), Message: "it was canceled"}}), false
	case isRefused && r.made.Attended && r.s.o.Gate != nil && refused.PendingApprovalID != uuid.Nil:
		return machine.Ask(c, machine.RequestData{
			Reason: machine.WaitPermission, Title: c.Step.StepID, Message: fault.As(res.err).Message, ID: refused.PendingApprovalID.String(),
		}), true
	default:
		d = r.s.failed(res.err)
		if refused.PendingApprovalID != uuid.Nil {
			d.Error.ApprovalID = &refused.PendingApprovalID
		}
		d.Unknown = fault.Is(res.err, fault.Timeout) && !c.Tool.Repeatable() // after a timeout within the callable, its effect is unknown too
	}
	d.TookMs = took.Milliseconds()
	return machine.Outcome(c, d), true
}

func end(e machine.Event) *machine.Event { return &e }

// refusal returns why a call was denied before it started. ok is false if it was not.
func refusal(err error) (callable.Refusal, bool) {
	r, ok := callable.RefusalOf(err)
	return r, ok && fault.Is(err, fault.Denied)
}

// output returns the outcome of a call that returned raw.
func (s *Service) output(raw json.RawMessage) machine.OutcomeData {
	raw = bytes.TrimSpace(raw)
	d := machine.OutcomeData{Output: raw}
	switch {
	case len(raw) == 0:
		d.Output = json.RawMessage("null")
		return d
	case len(raw) > machine.MaxOutput:
		d.Error = machine.TooLarge(len(raw))
	case !json.Valid(raw):
		d.Error = &machine.Failure{Kind: string(fault.Invalid), Message: "output is not JSON"}
	default:
		err := jcs.CheckNumbers(raw)
		if err == nil {
			return d
		}
		p, _ := fault.As(err).Details.(jcs.NumberProblem)
		d.Error = &machine.Failure{Kind: string(fault.Invalid), Message: "output" + p.Path + ": " + p.Message}
	}
	d.Output, d.Jitter = nil, s.jitter()
	d.Preview = strings.ToValidUTF8(string(raw[:min(len(raw), previewBytes)]), "\uFFFD")
	return d
}

// call executes the call of a step, except steps that call skills.
func (s *Service) call(ctx context.Context, made *created, c *machine.Call, limit time.Duration, by callable.Caller, budget callable.Budget) (callable.Result, error) {
	t := made.callable(c.Step.StepID)
	if t.Kind == callable.Builtin {
		t.Hash = "" // a built-in is part of Helix, and a run continues across updates of Helix
	}
	by.Kind, by.Label, by.Step = "skill", cmp.Or(made.Name, "that was not saved"), c.Path
	if c.Iteration != "" {
		by.Step += "[" + c.Iteration + "]"
	}
	out, err := s.o.Callables.Call(ctx, t.Ref, callable.Request{Input: c.Input, Key: c.Key, Attempt: c.Attempt, Timeout: limit, Hash: t.Hash, Caller: by, Budget: budget})
	if r, ok := callable.RefusalOf(err); ok && r.Reason == callable.ReasonGone {
		err = fault.NotFoundf("tool %q no longer exists", t.Name).WithDetails(r).WithCause(err)
	}
	return out, err
}
