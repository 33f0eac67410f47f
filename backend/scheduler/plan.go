package scheduler

import (
	"slices"
	"time"

	"helix/backend/duration"
)

// Limits on catching up.
const (
	maxWalk    = 1000 // forward steps over missed times
	maxRows    = 100  // above this, missed times share one row
	maxCatchup = 24   // runs with policy all
)

// due is a due time to run.
type due struct {
	at      time.Time
	trigger string
}

// plan is what happens to the due times since the last one accounted for.
type plan struct {
	runs    []due       // oldest first
	missed  []time.Time // one row each, unless there are more than maxRows
	count   int         // number of missed times, at most maxWalk
	more    bool        // there are more than count
	first   time.Time   // first missed time
	latest  time.Time   // latest missed time
	through time.Time   // every due time up to here is included
}

// planMode is the mode of a plan.
type planMode int

const (
	fire   planMode = iota // run what can run
	miss                   // run nothing
	settle                 // run nothing, not even times still delayed by jitter
)

// due returns the plan for now. ok is false if nothing is due.
func (c *sched) due(now time.Time, mode planMode) (p plan, ok bool) {
	from, until := c.last, now
	if c.StartsAt != nil && from.Before(*c.StartsAt) {
		from = c.StartsAt.Add(-time.Microsecond)
	}
	if c.EndsAt != nil && until.After(*c.EndsAt) {
		until = *c.EndsAt
	}
	last, ok := c.cad.Last(from, until)
	if ok && mode != settle && c.JitterSecs > 0 && c.fireAt(last.At).After(now) {
		last, ok = c.cad.Last(from, last.At.Add(-time.Second))
	}
	if !ok {
		return p, false
	}
	p.through = last.At
	if mode == fire {
		c.choose(&p, from, last.At, now)
	}
	end := last.At
	if len(p.runs) > 0 {
		end = p.runs[0].at.Add(-time.Second)
		p.through = p.runs[len(p.runs)-1].at
	}
	c.walk(&p, from, end)
	return p, true
}

// choose selects the due times to run.
func (c *sched) choose(p *plan, from, last, now time.Time) {
	live := now.Sub(c.fireAt(last)) <= missedAfter
	oldest := now.Add(-duration.Of(c.GraceSecs, time.Second))
	if live {
		p.runs = []due{{last, "due"}}
	} else if c.MissedPolicy != "skip" && !last.Before(oldest) {
		p.runs = []due{{last, "catchup"}}
	}
	if c.MissedPolicy == "all" && len(p.runs) > 0 {
		for at := last; len(p.runs) < maxCatchup; {
			d, ok := c.cad.Last(from, at.Add(-time.Second))
			if !ok || d.At.Before(oldest) {
				break
			}
			p.runs = append(p.runs, due{d.At, "catchup"})
			at = d.At
		}
		slices.Reverse(p.runs)
	}
	if c.MaxRuns != nil {
		if left := *c.MaxRuns - c.RunCount; int64(len(p.runs)) > left {
			p.runs = p.runs[:max(left, 0)]
		}
	}
}

// walk lists the missed times after from up to end.
func (c *sched) walk(p *plan, from, end time.Time) {
	at := from
	for p.count < maxWalk {
		d, ok := c.cad.Next(at)
		if !ok || d.At.After(end) {
			return
		}
		at = d.At
		if p.count++; p.count == 1 {
			p.first = at
		}
		p.latest = at
		if p.count <= maxRows {
			p.missed = append(p.missed, at)
		}
	}
	if d, ok := c.cad.Last(at, end); ok {
		p.more, p.latest = true, d.At
	}
}
