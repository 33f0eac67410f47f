package sandbox

import (
	"errors"
	"slices"

	"helix/backend/sandbox/worker"
)

// The tiers: t0 runs in this process, t1 in a locked-down child process.
const (
	tier0 = "t0"
	tier1 = "t1"
)

// tierOf returns the tier of a run: the one in the call, or else the one for the module's trust.
func tierOf(r Runnable, c Call) string {
	switch c.Tier {
	case "":
	case tier0:
		return tier0
	default: // an unknown tier is refused there
		return tier1
	}
	if _, module := r.(*Module); module && c.Trust != TrustOwn && c.Trust != TrustSigned {
		return tier1
	}
	return tier0
}

// IsolationDetail is the Details of a run that was refused because it could not be isolated as
// required by Options.MinIsolation.
type IsolationDetail struct {
	Isolation string   `json:"isolation"`
	Required  string   `json:"required"`
	Reasons   []string `json:"reasons"`
}

// isolationRank orders the kinds of isolation. Unknown ones rank highest, so that an unknown
// requirement is never met.
func isolationRank(s string) int {
	if s == "" {
		s = IsolationProcess
	}
	i := slices.Index([]string{IsolationInProcess, IsolationProcess, IsolationLandlock, IsolationBwrap}, s)
	if i < 0 {
		return 1 << 10
	}
	return i
}

// isolationOf returns the isolation of a child. Bubblewrap without Landlock has no name of its own
// and counts as a plain process.
func isolationOf(landlock, bwrap bool) string {
	switch {
	case landlock && bwrap:
		return IsolationBwrap
	case landlock:
		return IsolationLandlock
	}
	return IsolationProcess
}

func tooWeak(have, want string, reasons []string) *Error {
	return &Error{
		Class: ClassUnavailable, Message: "This run needs stronger isolation (" + want + ") than this computer offers (" + have + ").",
		Details: IsolationDetail{Isolation: have, Required: want, Reasons: reasons},
	}
}

// known are the reasons that a result may contain, in order.
var known = []string{
	worker.ReasonLandlock, worker.ReasonLandlockPartial, worker.ReasonBwrapMissing, worker.ReasonBwrapBlocked, worker.ReasonJob,
}

// reasonsOf joins lists of reasons in the usual order; unknown ones are dropped.
func reasonsOf(lists ...[]string) []string {
	all := slices.Concat(lists...)
	out := []string{}
	for _, k := range known {
		if slices.Contains(all, k) {
			out = append(out, k)
		}
	}
	return out
}

// tier1 runs what in a child process and reports how it was isolated. It never falls back to this
// process.
func (e *Engine) tier1(r *control, what Runnable, res *Result) outcome {
	out, err := e.tryTier1(r, what, res)
	if err != nil {
		r.fail(err)
		return *r.ended.Load()
	}
	return out
}

func (e *Engine) tryTier1(r *control, what Runnable, res *Result) (outcome, *Error) {
	if t := r.c.Tier; t != "" && t != tier1 {
		return outcome{}, failf(ClassUnavailable, "Unknown tier %q; there are only t0 and t1.", t)
	}
	if err := e.children.refusal(&res.Isolation, &res.Reasons); err != nil {
		return outcome{}, err
	}
	w := wantedFor(what)
	t := &tierRun{control: r, what: what, lanes: map[string]int{}, refusals: map[int64]*Error{}}
	// A child may have died while it was waiting. It has run nothing, so another one is tried.
	for attempt := 0; ; attempt++ {
		var cause error
		if t.child, cause = e.children.take(r.caller, w); cause == nil {
			res.Isolation, res.Reasons = t.child.isolation, t.child.reasons
			if cause = t.sendRun(); cause == nil {
				return t.run(), nil
			}
			t.child.p.Kill()
			e.children.release(t.child, 0)
		}
		var final *Error
		switch {
		case r.caller.Err() != nil:
			return outcome{}, contextError(r.caller)
		case errors.As(cause, &final):
			return outcome{}, final
		case attempt > 0:
			return outcome{}, &Error{Class: ClassUnavailable, Message: "The separate process for this run could not be started.", Err: cause}
		}
	}
}
