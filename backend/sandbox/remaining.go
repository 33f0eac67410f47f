package sandbox

import (
	"context"
)

type runKey struct{}

// Remaining returns what is left of the limits of the run in whose host call ctx was
// given; ok is false outside a host call. A host that starts an inner run should lower the inner
// limits with it.
func Remaining(ctx context.Context) (l Limits, ok bool) {
	r, ok := ctx.Value(runKey{}).(*control)
	if !ok {
		return Limits{}, false
	}
	return r.remaining(), true
}

// Charge adds the usage of an inner run to the run in whose host call ctx was given: its host calls
// and its CPU time count against the limits of the outer run.
func Charge(ctx context.Context, u Usage) {
	if r, ok := ctx.Value(runKey{}).(*control); ok {
		r.charge(u)
	}
}
