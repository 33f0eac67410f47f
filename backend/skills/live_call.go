package skills

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/skills/definition"
	"helix/backend/skills/machine"
)

// previewBytes is how much is kept of an output that cannot be taken.
const previewBytes = 4 << 10

// errAttempt ends a call that takes longer than its step allows.
var errAttempt = errors.New("the attempt is out of time")

// start begins the calls that are not on their way yet.
func (r *live) start(todo machine.Todo) {
	for _, c := range slices.Concat(todo.Calls, todo.Paused) {
		key := callKey(c)
		if r.calls[key] != nil {
			continue
		}
		if r.crashed[key] && !again(c.Tool) {
			continue // nobody knows whether it happened; see unknown
		}
		nested := r.made.Tools[c.Step.StepID].Kind == definition.SkillCall
		if nested && r.quiet() {
			continue
		}
		delete(r.crashed, key)
		ctx, cancel := context.WithCancelCause(r.ctx)
		r.calls[key] = &attempt{call: c, cancel: cancel}
		r.s.wg.Go(func() {
			defer cancel(nil)
			if !nested {
				r.perform(ctx, c, func(e machine.Event, known bool) { r.send(message{key: key, outcome: &e, known: known}) })
				return
			}
			out, known := r.nested(ctx, c)
			r.send(message{key: key, outcome: out, known: known})
		})
	}
}

// again reports whether a call that a crash interrupted can be made again.
func again(t machine.Tool) bool { return t.Repeatable() || t.Resumes }

// without gives the event for a call that needs none: the durable timer, and what is not
// there.
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

// jitter is the factor of a back-off.
func (s *Service) jitter() float64 { return 0.5 + s.o.Rand()/2 }

// failed is the outcome of a call with an error.
func (s *Service) failed(err error) machine.OutcomeData {
	f := fault.As(err)
	return machine.OutcomeData{
		Error:  &machine.Failure{Kind: string(f.Kind), Message: strings.TrimSuffix(f.Message, ".")},
		Jitter: s.jitter(), RetryAfter: f.RetryAfter.Milliseconds(),
	}
}

// reply is what a callee said.
type reply struct {
	Reply
	err error
}

// perform makes one attempt and tells its outcome, once: when the callee answers, or when the
// step allows no more time and a moment more has passed for the callee to notice.
func (r *live) perform(ctx context.Context, c *machine.Call, tell func(out machine.Event, known bool)) {
	limit := c.Step.Timeout()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errAttempt)
	defer cancel()
	begun := time.Now()
	var once sync.Once
	settle := func(res reply) {
		once.Do(func() { tell(r.outcome(ctx, c, res, limit, time.Since(begun))) })
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
	out, err := r.s.call(ctx, r.call(c, limit))
	close(answered)
	if !stop() {
		<-left
	}
	settle(reply{out, err})
}

// outcome is what an attempt came to. known is false when it was stopped with the run.
func (r *live) outcome(ctx context.Context, c *machine.Call, res reply, limit, took time.Duration) (out machine.Event, known bool) {
	var d machine.OutcomeData
	var refused Refused
	switch cause := context.Cause(ctx); {
	case res.err == nil:
		d = r.s.output(res.Output)
	case ctx.Err() != nil && errors.Is(cause, errAttempt):
		d = r.s.failed(fault.New(fault.Timeout, "it took longer than %s", limit))
		d.Unknown = !c.Tool.Repeatable()
	case ctx.Err() != nil:
		return machine.Outcome(c, machine.OutcomeData{Error: &machine.Failure{Kind: string(fault.Canceled), Message: "it was canceled"}}), false
	case isRefused(res.err, &refused) && r.made.Attended && r.s.o.Gate != nil && refused.PendingApprovalID != uuid.Nil:
		return machine.Ask(c, machine.RequestData{
			Reason: machine.WaitPermission, Title: c.Step.StepID, Message: fault.As(res.err).Message, ID: refused.PendingApprovalID.String(),
		}), true
	default:
		d = r.s.failed(res.err)
		d.Unknown = fault.Is(res.err, fault.Timeout) && !c.Tool.Repeatable() // the callee's own limit leaves the same doubt
	}
	d.TookMs = took.Milliseconds()
	return machine.Outcome(c, d), true
}

func end(e machine.Event) *machine.Event { return &e }

func isRefused(err error, to *Refused) bool {
	f := fault.As(err)
	if f.Kind != fault.Denied {
		return false
	}
	switch d := f.Details.(type) {
	case Refused:
		*to = d
	case *Refused:
		*to = *d
	default:
		return false
	}
	if to.Reason == "" {
		to.Reason = f.Message
	}
	return true
}

// output is the outcome of a call that gave something.
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
		return d
	}
	d.Output, d.Jitter = nil, s.jitter()
	d.Preview = strings.ToValidUTF8(string(raw[:min(len(raw), previewBytes)]), "\uFFFD")
	return d
}

// call is what a runner gets.
func (r *live) call(c *machine.Call, limit time.Duration) Call {
	return Call{
		Target: r.made.callable(c.Step.StepID), Input: c.Input, Key: c.Key, Timeout: limit, Run: r.row.id, Skill: r.made.Name,
		StepPath: c.Path, Iteration: c.Iteration, Attempt: c.Attempt, StartedAt: c.At, Trigger: r.made.Trigger, Attended: r.made.Attended,
	}
}

// call carries a call out. A panic of the callee is an error.
func (s *Service) call(ctx context.Context, c Call) (out Reply, err error) {
	defer func() {
		if x := recover(); x != nil {
			err = fault.Internalf(fmt.Errorf("panic in %s: %v", c.Target.Name, x), "Something went wrong inside the step.")
		}
	}()
	if c.Target.Kind == definition.Builtin {
		b, ok := s.builtins[c.Target.Name]
		if !ok {
			return Reply{}, fault.NotFoundf("tool %q no longer exists", c.Target.Name)
		}
		out, err := b.Run(ctx, c)
		return Reply{Output: out}, err
	}
	run := s.runner(c.Target.Kind)
	if run == nil {
		return Reply{}, fault.Unavailablef("Steps of kind %s are not available here.", c.Target.Kind)
	}
	return run.Call(ctx, c)
}
