package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// Execute runs a program or a module and waits until it ends. The error is a *Error; Result.Logs
// and Result.Usage are set in either case. Waiting for a worker does not count against the limits.
// A run started from a host call of another run does not wait for a worker, since its caller
// already has one.
func (e *Engine) Execute(ctx context.Context, r Runnable, c Call) (Result, error) {
	res := Result{Logs: []LogLine{}, Tier: tierOf(r, c), Isolation: IsolationInProcess, Reasons: []string{}}
	p, program := r.(*Program)
	m, module := r.(*Module)
	if p == nil && m == nil {
		return res, failf(ClassUnavailable, "Nothing to run.")
	}
	if err := e.begin(); err != nil {
		return res, err
	}
	defer e.runs.Done()
	limits := c.Limits.effective(module)
	if err := checkInput(&c, limits); err != nil {
		return res, err
	}
	if _, inner := ctx.Value(runKey{}).(*control); !inner {
		key := workerKey{c.Meta.User, r}
		if err := e.queue.acquire(ctx, key); err != nil {
			return res, err
		}
		defer e.queue.release(key)
	}
	if ctx.Err() != nil {
		return res, contextError(ctx)
	}
	run := newControl(ctx, e, c, limits)
	defer run.cancel()
	var out outcome
	switch {
	case res.Tier == tier1:
		out = e.tier1(run, r, &res)
	case program:
		out = p.run(run)
	default:
		out = m.run(run)
	}
	res.Logs, res.Usage, res.Output = run.logs.lines, run.usage, out.output
	if out.err != nil {
		if program {
			out.err.Stack = p.positions(out.err.Stack)
		}
		return res, out.err
	}
	return res, nil
}

func checkInput(c *Call, l Limits) *Error {
	if len(c.Input) == 0 {
		c.Input = json.RawMessage("{}")
	}
	if int64(len(c.Input)) > l.InputBytes {
		return &Error{
			Class: ClassInput, Message: fmt.Sprintf("The input is larger than %s.", size(l.InputBytes)),
			Details: LimitDetail{"inputBytes", l.InputBytes, int64(len(c.Input))},
		}
	}
	if !json.Valid(c.Input) {
		return failf(ClassInput, "The input is not valid JSON.")
	}
	return nil
}

// contextError returns how a run ends when its caller's context has ended.
func contextError(ctx context.Context) *Error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &Error{Class: ClassTimeout, Message: "The caller's time for the run was over.", Err: ctx.Err()}
	}
	return &Error{Class: ClassCanceled, Message: "The run was canceled.", Err: ctx.Err()}
}

// size formats a number of bytes for people.
func size(n int64) string {
	switch {
	case n >= mebibyte && n%mebibyte == 0:
		return fmt.Sprintf("%d MiB", n/mebibyte)
	case n >= kibibyte && n%kibibyte == 0:
		return fmt.Sprintf("%d KiB", n/kibibyte)
	}
	return fmt.Sprintf("%d bytes", n)
}

// jsonObject returns v as JSON; v is one of this package's types, which can always be marshaled.
func jsonObject(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
