package cadence

import (
	"fmt"
	"math/bits"
	"strings"
	"time"
)

// Words says a cadence in plain English: "weekdays at 09:00, Berlin". A cron text that has
// no short description is told field by field.
func (c *Cadence) Words() string {
	switch c.spec.Type {
	case Interval:
		return "every " + span(c.spec.EverySecs)
	case Once:
		return "once at " + c.at.UTC().Format("2006-01-02 15:04 UTC")
	}
	return c.cron.words() + ", " + place(c.spec.Timezone)
}

func span(secs int64) string {
	for _, u := range []struct {
		secs int64
		name string
	}{{7 * 86400, "week"}, {86400, "day"}, {3600, "hour"}, {60, "minute"}, {1, "second"}} {
		if secs%u.secs != 0 {
			continue
		}
		if n := secs / u.secs; n > 1 {
			return fmt.Sprintf("%d %ss", n, u.name)
		}
		return u.name
	}
	return ""
}

func (c *cron) words() string {
	days := c.dayWords()
	if bits.OnesCount64(c.minute) == 1 && bits.OnesCount64(c.second) == 1 && bits.OnesCount64(c.hour) <= 4 {
		var at []string
		for h := c.hour; h != 0; h &= h - 1 {
			at = append(at, clock(bits.TrailingZeros64(h), bits.TrailingZeros64(c.minute), bits.TrailingZeros64(c.second)))
		}
		return days + " at " + and(at)
	}
	if days == "every day" {
		return c.partWords()
	}
	return c.partWords() + ", " + days
}

func clock(h, m, s int) string {
	if s == 0 {
		return fmt.Sprintf("%02d:%02d", h, m)
	}
	return fmt.Sprintf("%02d:%02d:%02d", h, m, s)
}

// partWords tells seconds, minutes and hours.
func (c *cron) partWords() string {
	if c.everyHour && c.second == 1 && bits.OnesCount64(c.minute) == 1 {
		if c.minute == 1 {
			return "every hour"
		}
		return fmt.Sprintf("every hour at minute %d", bits.TrailingZeros64(c.minute))
	}
	out := ""
	if c.second != 1 {
		out = setWords(c.second, 0, 59, "second") + " of "
	}
	out += setWords(c.minute, 0, 59, "minute")
	if c.everyHour {
		return out
	}
	return out + " of " + setWords(c.hour, 0, 23, "hour")
}

// setWords tells a set of numbers.
func setWords(set uint64, lo, hi int, unit string) string {
	n := bits.OnesCount64(set)
	if n == hi-lo+1 {
		return "every " + unit
	}
	first := bits.TrailingZeros64(set)
	if by := evenly(set, hi); by > 0 && first == lo {
		return fmt.Sprintf("every %d %ss", by, unit)
	}
	var all []string
	for s := set; s != 0; s &= s - 1 {
		all = append(all, fmt.Sprint(bits.TrailingZeros64(s)))
	}
	if last := 63 - bits.LeadingZeros64(set); n > 2 && last-first == n-1 {
		all = []string{fmt.Sprintf("%d to %d", first, last)}
	}
	if n > 1 {
		unit += "s"
	}
	return unit + " " + and(all)
}

// evenly is the step of a set that reaches to its end in equal steps, or 0.
func evenly(set uint64, hi int) int {
	if bits.OnesCount64(set) < 2 {
		return 0
	}
	first := bits.TrailingZeros64(set)
	by := bits.TrailingZeros64(set&(set-1)) - first
	if by < 2 {
		return 0
	}
	for v := first; v <= hi; v += by {
		if set&(1<<v) == 0 {
			return 0
		}
		set &^= 1 << v
	}
	if set != 0 {
		return 0
	}
	return by
}

var ordinal = [...]string{"", "first", "second", "third", "fourth", "fifth"}

// dayWords tells days, weekdays and months.
func (c *cron) dayWords() string {
	const week, allDays = 0x7F, uint64(1)<<32 - 2
	free := c.day == allDays && !c.lastDay && c.nearest == 0
	anyWeekday := c.weekday == week
	var month, weekday []string
	if !free {
		month = c.monthDays()
	}
	if !anyWeekday {
		weekday = c.weekdays()
	}
	out := "every day"
	switch {
	case free && anyWeekday:
	case free:
		out = and(weekday)
	case anyWeekday:
		out = "on " + and(month) + " of the month"
	case c.dayFree || c.weekFree:
		out = and(weekday) + " that fall on " + and(month) + " of the month"
	default:
		out = and(weekday) + " and on " + and(month) + " of the month"
	}
	if c.month != 1<<13-2 {
		var names []string
		for m := c.month; m != 0; m &= m - 1 {
			names = append(names, time.Month(bits.TrailingZeros64(m)).String())
		}
		out += " in " + and(names)
	}
	return out
}

func (c *cron) monthDays() []string {
	var out []string
	if by := evenly(c.day, 31); by > 0 && c.day&2 != 0 {
		out = append(out, fmt.Sprintf("every %d days from the 1st", by))
	} else {
		for d := c.day; d != 0; d &= d - 1 {
			out = append(out, fmt.Sprintf("day %d", bits.TrailingZeros64(d)))
		}
	}
	for d := c.nearest; d != 0; d &= d - 1 {
		out = append(out, fmt.Sprintf("the working day nearest to day %d", bits.TrailingZeros64(d)))
	}
	if c.lastDay {
		out = append(out, "the last day")
	}
	return out
}

func (c *cron) weekdays() []string {
	var out []string
	switch c.weekday {
	case 0x3E:
		out = append(out, "weekdays")
	case 0x41:
		out = append(out, "weekends")
	default:
		for d := range 7 {
			if c.weekday&(1<<d) != 0 {
				out = append(out, time.Weekday(d).String()+"s")
			}
		}
	}
	for d := range 7 {
		for k := 1; k <= 5; k++ {
			if c.nth[k]&(1<<d) != 0 {
				out = append(out, "the "+ordinal[k]+" "+time.Weekday(d).String()+" of the month")
			}
		}
		if c.lastWeekday&(1<<d) != 0 {
			out = append(out, "the last "+time.Weekday(d).String()+" of the month")
		}
	}
	return out
}

func and(all []string) string {
	if len(all) < 2 {
		return strings.Join(all, "")
	}
	return strings.Join(all[:len(all)-1], ", ") + " and " + all[len(all)-1]
}
