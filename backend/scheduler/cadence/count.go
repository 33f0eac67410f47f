package cadence

import (
	"math/bits"
	"time"
)

// Count returns the number of due times in (from, until]. Its cost does not depend on that number.
func (c *Cadence) Count(from, until time.Time) int64 {
	a, b := from.Unix(), until.Unix()
	if b <= a {
		return 0
	}
	switch c.spec.Type {
	case Interval:
		before, _ := floorDiv(a-c.anchor, c.spec.EverySecs)
		upTo, _ := floorDiv(b-c.anchor, c.spec.EverySecs)
		return upTo - before
	case Once:
		if c.at.After(from) && !c.at.After(until) {
			return 1
		}
		return 0
	}
	var n int64
	for a < b {
		r := regimeAt(a, c.loc)
		end := min(b, r.until-1)
		first := a + r.offset
		if !c.cron.everyHour && r.from > startOfTime {
			// Skip civil times that occurred before the clocks were set back.
			first = max(first, r.from+regimeAt(r.from-1, c.loc).offset-1)
		}
		n += c.cron.count(first, end+r.offset)
		if r.until > b {
			break
		}
		// The first instant after a change may stand for a time in the gap.
		if at, _, ok := c.cron.nextInstant(r.until-1, c.loc); ok && at == r.until {
			n++
		}
		a = r.until
	}
	return n
}

// count returns the number of matching civil times in (a, b].
func (c *cron) count(a, b int64) int64 {
	if b <= a {
		return 0
	}
	day, rest := floorDiv(a, 86400)
	last, end := floorDiv(b, 86400)
	var n int64
	all := int64(c.upTo(86399))
	at := civilDate(day)
	days := c.daysOf(at)
	for ; day <= last; day++ {
		if days&(1<<at.day) != 0 {
			n += all
			if rest >= 0 {
				n -= int64(c.upTo(int(rest)))
			}
			if day == last {
				n -= all - int64(c.upTo(int(end)))
			}
		}
		rest = -1
		if at.day++; at.day > daysIn(at.year, at.month) {
			at = firstOfNext(at)
			days = c.daysOf(at)
		}
	}
	return n
}

func (c *cron) daysOf(d date) uint64 {
	if c.month&(1<<d.month) == 0 {
		return 0
	}
	return c.days(d.year, d.month)
}

// upTo returns the number of matching times of day up to and including the second sec.
func (c *cron) upTo(sec int) int {
	h, m, s := sec/3600, sec/60%60, sec%60
	minutes, seconds := bits.OnesCount64(c.minute), bits.OnesCount64(c.second)
	n := bits.OnesCount64(c.hour&(1<<h-1)) * minutes * seconds
	if c.hour&(1<<h) == 0 {
		return n
	}
	n += bits.OnesCount64(c.minute&(1<<m-1)) * seconds
	if c.minute&(1<<m) == 0 {
		return n
	}
	return n + bits.OnesCount64(c.second&(1<<(s+1)-1))
}
