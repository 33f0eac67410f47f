package cadence

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"
)

// Parts describes a cadence in a structured form, so that a client can translate it. Words
// describes it in English. Sunday is 0, January is 1.
type Parts struct {
	EverySecs    int64      `json:"everySecs,omitempty"`    // of an interval; the fields below are of a cron expression
	At           *time.Time `json:"at,omitempty"`           // of a single time
	Times        []string   `json:"times,omitempty"`        // times of day, 09:00 or 09:00:30; when empty, the three sets below
	Seconds      *Set       `json:"seconds,omitempty"`      // nil: at second 0
	Minutes      *Set       `json:"minutes,omitempty"`      //
	Hours        *Set       `json:"hours,omitempty"`        // nil: every hour
	DayStep      int        `json:"dayStep,omitempty"`      // every n-th day from the 1st
	Days         []int      `json:"days,omitempty"`         // of the month
	NearestDays  []int      `json:"nearestDays,omitempty"`  // the working days nearest to these days of the month
	LastDay      bool       `json:"lastDay,omitempty"`      //
	Weekdays     []int      `json:"weekdays,omitempty"`     //
	NthWeekdays  []NthDay   `json:"nthWeekdays,omitempty"`  //
	LastWeekdays []int      `json:"lastWeekdays,omitempty"` // the last such weekday of the month
	BothDays     bool       `json:"bothDays,omitempty"`     // a day must match both the days of the month and of the week; otherwise either
	Months       []int      `json:"months,omitempty"`       // empty: every month
	Timezone     string     `json:"timezone,omitempty"`
}

// Set is the seconds, minutes or hours of a cron expression. If it has no fields it matches all values.
type Set struct {
	Step   int   `json:"step,omitempty"` // every n-th value from 0
	First  int   `json:"first,omitempty"`
	Last   int   `json:"last,omitempty"`
	Values []int `json:"values,omitempty"`
}

// NthDay is, for example, the second Monday of the month.
type NthDay struct {
	Nth     int `json:"nth"`
	Weekday int `json:"weekday"`
}

// Parts returns the structured description of the cadence.
func (c *Cadence) Parts() Parts {
	switch c.spec.Type {
	case Interval:
		return Parts{EverySecs: c.spec.EverySecs}
	case Once:
		at := c.at.UTC()
		return Parts{At: &at}
	}
	p := c.cron.parts()
	p.Timezone = c.spec.Timezone
	return p
}

func (c *cron) parts() (p Parts) {
	if bits.OnesCount64(c.minute) == 1 && bits.OnesCount64(c.second) == 1 && bits.OnesCount64(c.hour) <= 4 {
		for _, h := range members(c.hour) {
			p.Times = append(p.Times, clock(h, bits.TrailingZeros64(c.minute), bits.TrailingZeros64(c.second)))
		}
	} else {
		if c.second != 1 {
			p.Seconds = setOf(c.second, 59)
		}
		p.Minutes = setOf(c.minute, 59)
		if !c.everyHour {
			p.Hours = setOf(c.hour, 23)
		}
	}
	const week, allDays, allMonths = 0x7F, uint64(1)<<32 - 2, 1<<13 - 2
	anyDay, anyWeekday := c.day == allDays && !c.lastDay && c.nearest == 0, c.weekday == week
	if !anyDay {
		if by := evenly(c.day, 31); by > 0 && c.day&2 != 0 {
			p.DayStep = by
		} else {
			p.Days = members(c.day)
		}
		p.NearestDays, p.LastDay = members(c.nearest), c.lastDay
	}
	if !anyWeekday {
		p.Weekdays = members(uint64(c.weekday))
		for d := range 7 {
			for k := 1; k <= 5; k++ {
				if c.nth[k]&(1<<d) != 0 {
					p.NthWeekdays = append(p.NthWeekdays, NthDay{k, d})
				}
			}
			if c.lastWeekday&(1<<d) != 0 {
				p.LastWeekdays = append(p.LastWeekdays, d)
			}
		}
	}
	p.BothDays = !anyDay && !anyWeekday && (c.dayFree || c.weekFree)
	if c.month != allMonths {
		p.Months = members(uint64(c.month))
	}
	return p
}

func members(set uint64) (all []int) {
	for ; set != 0; set &= set - 1 {
		all = append(all, bits.TrailingZeros64(set))
	}
	return all
}

func setOf(set uint64, hi int) *Set {
	all := members(set)
	n := len(all)
	switch by := evenly(set, hi); {
	case n == hi+1:
		return &Set{}
	case by > 0 && all[0] == 0:
		return &Set{Step: by}
	case n > 2 && all[n-1]-all[0] == n-1:
		return &Set{First: all[0], Last: all[n-1]}
	}
	return &Set{Values: all}
}

func clock(h, m, s int) string {
	if s == 0 {
		return fmt.Sprintf("%02d:%02d", h, m)
	}
	return fmt.Sprintf("%02d:%02d:%02d", h, m, s)
}

// evenly returns the step of a set of equally spaced values from 0 to hi, or 0 if it is not such a set.
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

// Words describes the cadence in plain English: "weekdays at 09:00, Berlin". A cron expression
// without a short description is described field by field.
func (c *Cadence) Words() string {
	p := c.Parts()
	switch c.spec.Type {
	case Interval:
		return "every " + span(p.EverySecs)
	case Once:
		return "once at " + p.At.Format("2006-01-02 15:04 UTC")
	}
	return p.cronWords() + ", " + place(p.Timezone)
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

func (p *Parts) cronWords() string {
	days := p.dayWords()
	if len(p.Times) > 0 {
		return days + " at " + and(p.Times)
	}
	if days == "every day" {
		return p.clockWords()
	}
	return p.clockWords() + ", " + days
}

// clockWords describes seconds, minutes and hours.
func (p *Parts) clockWords() string {
	if p.Hours == nil && p.Seconds == nil && len(p.Minutes.Values) == 1 {
		if p.Minutes.Values[0] == 0 {
			return "every hour"
		}
		return fmt.Sprintf("every hour at minute %d", p.Minutes.Values[0])
	}
	out := p.Minutes.words("minute")
	if p.Seconds != nil {
		out = p.Seconds.words("second") + " of " + out
	}
	if p.Hours != nil {
		out += " of " + p.Hours.words("hour")
	}
	return out
}

func (s *Set) words(unit string) string {
	switch {
	case s.Step > 0:
		return fmt.Sprintf("every %d %ss", s.Step, unit)
	case s.Last > 0:
		return fmt.Sprintf("%ss %d to %d", unit, s.First, s.Last)
	case len(s.Values) == 0:
		return "every " + unit
	case len(s.Values) > 1:
		unit += "s"
	}
	return unit + " " + and(each(s.Values, func(v int) string { return fmt.Sprint(v) }))
}

var ordinal = [...]string{"", "first", "second", "third", "fourth", "fifth"}

// dayWords describes days, weekdays and months.
func (p *Parts) dayWords() string {
	month, weekday := and(p.monthDays()), and(p.weekdays())
	out := "every day"
	switch {
	case month == "" && weekday == "":
	case month == "":
		out = weekday
	case weekday == "":
		out = "on " + month + " of the month"
	case p.BothDays:
		out = weekday + " that fall on " + month + " of the month"
	default:
		out = weekday + " and on " + month + " of the month"
	}
	if len(p.Months) > 0 {
		out += " in " + and(each(p.Months, func(m int) string { return time.Month(m).String() }))
	}
	return out
}

func (p *Parts) monthDays() []string {
	out := each(p.Days, func(d int) string { return fmt.Sprintf("day %d", d) })
	if p.DayStep > 0 {
		out = append(out, fmt.Sprintf("every %d days from the 1st", p.DayStep))
	}
	out = append(out, each(p.NearestDays, func(d int) string { return fmt.Sprintf("the working day nearest to day %d", d) })...)
	if p.LastDay {
		out = append(out, "the last day")
	}
	return out
}

func (p *Parts) weekdays() []string {
	var out []string
	switch {
	case slices.Equal(p.Weekdays, []int{1, 2, 3, 4, 5}):
		out = append(out, "weekdays")
	case slices.Equal(p.Weekdays, []int{0, 6}):
		out = append(out, "weekends")
	default:
		out = each(p.Weekdays, func(d int) string { return time.Weekday(d).String() + "s" })
	}
	out = append(out, each(p.NthWeekdays, func(n NthDay) string {
		return "the " + ordinal[n.Nth] + " " + time.Weekday(n.Weekday).String() + " of the month"
	})...)
	return append(out, each(p.LastWeekdays, func(d int) string { return "the last " + time.Weekday(d).String() + " of the month" })...)
}

func each[T any](all []T, say func(T) string) []string {
	var out []string
	for _, v := range all {
		out = append(out, say(v))
	}
	return out
}

func and(all []string) string {
	if len(all) < 2 {
		return strings.Join(all, "")
	}
	return strings.Join(all[:len(all)-1], ", ") + " and " + all[len(all)-1]
}
