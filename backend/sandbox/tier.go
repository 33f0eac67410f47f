package sandbox

// The tiers: t0 runs in this process, t1 in a child that is locked down.
const (
	tier0 = "t0"
	tier1 = "t1"
)

// tierOf is where a run takes place: the module's trust decides, unless the call names a
// tier.
func tierOf(r Runnable, c Call) string {
	if c.Tier != "" {
		return c.Tier
	}
	if _, module := r.(*Module); module && c.Trust == TrustForeign {
		return tier1
	}
	return tier0
}

// tier1 runs r in a child process and reports how it was isolated.
func (e *Engine) tier1(r *control, what Runnable, res *Result) outcome {
	o := outcome{err: failf(ClassUnavailable, "This version cannot run code in a separate process.")}
	r.end(o)
	return o
}
