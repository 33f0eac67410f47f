// Package cadence computes when scheduled work is due: cron expressions, intervals and single
// times, in time zones with clock changes. It is pure: it uses no clock and has no state.
package cadence

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"helix/backend/fault"
)

// cron is a parsed cron expression. Sets of values are bit masks.
type cron struct {
	text              string
	second, minute    uint64
	hour, day, month  uint64
	weekday           uint64 // 0 is Sunday
	lastDay           bool   // L
	nearest           uint64 // days with W: the nearest working day
	lastWeekday       uint64 // 5L: the last Friday
	nth               [6]uint64
	seconds           bool // the expression has a field for seconds
	everyHour         bool // the hour field is *
	dayFree, weekFree bool // the field begins with * or ?
}

type field struct {
	name     string
	min, max int
	names    []string
}

var fields = [...]field{
	{"second", 0, 59, nil},
	{"minute", 0, 59, nil},
	{"hour", 0, 23, nil},
	{"day", 1, 31, nil},
	{"month", 1, 12, []string{"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"}},
	{"weekday", 0, 7, []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}},
}

// shorthand maps shorthands such as @daily to expressions.
var shorthand = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *",
	"@weekly": "0 0 * * 0", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

// maxCron is the maximum length of a cron expression, in bytes.
const maxCron = 512

// parseCron parses five fields (minute, hour, day, month, weekday), or six with seconds first. It
// does not check that the expression is ever due.
func parseCron(text string) (*cron, error) {
	if len(text) > maxCron {
		return nil, fault.InvalidField("expression", fault.CodeTooLong, "The cron expression is longer than %d characters.", maxCron)
	}
	line := strings.TrimSpace(text)
	if strings.HasPrefix(line, "@") {
		full, ok := shorthand[strings.ToLower(line)]
		if !ok {
			return nil, fault.InvalidField("expression", fault.CodeUnknownValue, "%s is not supported. Use @hourly, @daily, @weekly, @monthly or @yearly.", line)
		}
		line = full
	}
	parts := strings.Fields(strings.ToUpper(line))
	c := &cron{text: text, seconds: len(parts) == 6}
	switch len(parts) {
	case 5:
		parts = append([]string{"0"}, parts...)
	case 6:
	default:
		return nil, fault.InvalidField("expression", fault.CodeSyntax, "A cron expression has 5 fields, or 6 with seconds first; this one has %d.", len(parts))
	}
	sets := [...]*uint64{&c.second, &c.minute, &c.hour, &c.day, &c.month, &c.weekday}
	for i, p := range parts {
		at := i // in the original text
		if !c.seconds {
			at = max(i-1, 0)
		}
		if err := c.field(i, p, sets[i]); err != nil {
			return nil, fault.InvalidField(fmt.Sprintf("expression[%d]", at), fault.CodeSyntax, "field %d (%s): %s", at+1, fields[i].name, err)
		}
	}
	c.everyHour = parts[2] == "*"
	c.dayFree = strings.HasPrefix(parts[3], "*") || parts[3] == "?"
	c.weekFree = strings.HasPrefix(parts[5], "*") || parts[5] == "?"
	if c.weekday&(1<<7) != 0 { // both 0 and 7 are Sunday
		c.weekday = c.weekday&^(1<<7) | 1
	}
	return c, nil
}

func (c *cron) field(i int, text string, set *uint64) error {
	for _, part := range strings.Split(text, ",") {
		if err := c.part(i, part, set); err != nil {
			return err
		}
	}
	return nil
}

func (c *cron) part(i int, part string, set *uint64) error {
	f := fields[i]
	special := i == 3 || i == 5
	switch {
	case part == "":
		return fmt.Errorf("a value is missing")
	case special && part == "LW", special && part == "WL":
		return fmt.Errorf("LW is not supported")
	case i == 3 && part == "L":
		c.lastDay = true
		return nil
	case i == 3 && strings.HasSuffix(part, "W"):
		n, err := f.value(strings.TrimSuffix(part, "W"))
		c.nearest |= 1 << n
		return err
	case i == 5 && len(part) > 1 && strings.HasSuffix(part, "L"):
		n, err := f.value(strings.TrimSuffix(part, "L"))
		c.lastWeekday |= 1 << (n % 7)
		return err
	case i == 5 && strings.Contains(part, "#"):
		day, nth, _ := strings.Cut(part, "#")
		n, err := f.value(day)
		if err != nil {
			return err
		}
		k, err := strconv.Atoi(nth)
		if err != nil || k < 1 || k > 5 {
			return fmt.Errorf("#%s is outside 1–5", nth)
		}
		c.nth[k] |= 1 << (n % 7)
		return nil
	}
	return f.span(part, set)
}

// span parses *, n, n-m, and each of them with /step.
func (f field) span(part string, set *uint64) error {
	body, stepText, stepped := strings.Cut(part, "/")
	step := 1
	if stepped {
		var err error
		if step, err = number(stepText); err != nil || step < 1 {
			return fmt.Errorf("%q is not a step", "/"+stepText)
		}
	}
	lo, hi := f.min, f.max
	if f.name == "weekday" {
		hi = 6
	}
	switch from, to, isRange := strings.Cut(body, "-"); {
	case body == "*" || body == "?":
	case isRange:
		var err error
		if lo, err = f.value(from); err != nil {
			return err
		}
		if hi, err = f.value(to); err != nil {
			return err
		}
		if f.name == "weekday" && lo == 7 && hi != 7 {
			lo = 0
		}
		if lo > hi {
			return fmt.Errorf("the range %s is reversed", body)
		}
	default:
		n, err := f.value(body)
		if err != nil {
			return err
		}
		lo = n
		if !stepped {
			hi = n
		} else if f.name == "weekday" && n == 7 {
			lo = 0
		}
	}
	for v := lo; v <= hi; v += step {
		*set |= 1 << v
	}
	return nil
}

func (f field) value(text string) (int, error) {
	for i, n := range f.names {
		if text == n {
			return f.min + i, nil
		}
	}
	n, err := number(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a value", text)
	}
	if n < f.min || n > f.max {
		return 0, fmt.Errorf("%d is outside %d–%d", n, f.min, f.max)
	}
	return n, nil
}

// number is strconv.Atoi for digits only.
func number(text string) (int, error) {
	if len(text) == 0 || len(text) > 6 || strings.Trim(text, "0123456789") != "" {
		return 0, strconv.ErrSyntax
	}
	return strconv.Atoi(text)
}

// searchYears limits the search for the next time. 29 February on a given weekday occurs every 28
// years, or after 40 across 2100.
const searchYears = 50

// next returns the first matching civil time after t. Civil times are seconds of a clock without
// changes. ok is false if there is none.
func (c *cron) next(t int64) (int64, bool) {
	t++
	day, rest := floorDiv(t, 86400)
	date := civilDate(day)
	limit := date.year + searchYears
	today := true
	for date.year <= limit {
		if c.month&(1<<date.month) == 0 {
			date, today = c.nextMonth(date), false
			continue
		}
		days := c.days(date.year, date.month)
		for d := days >> date.day << date.day; d != 0; d &= d - 1 {
			n := bits.TrailingZeros64(d)
			from := 0
			if today && n == date.day {
				from = int(rest)
			}
			if s, ok := c.timeOfDay(from); ok {
				return dayNumber(date.year, date.month, n)*86400 + int64(s), true
			}
		}
		date, today = firstOfNext(date), false
	}
	return 0, false
}

// timeOfDay returns the first matching second of a day, starting at from.
func (c *cron) timeOfDay(from int) (int, bool) {
	h, m, s := from/3600, from/60%60, from%60
	for hh := atLeast(c.hour, h); hh < 24; hh = atLeast(c.hour, hh+1) {
		mm := 0
		if hh == h {
			mm = m
		}
		for mm = atLeast(c.minute, mm); mm < 60; mm = atLeast(c.minute, mm+1) {
			ss := 0
			if hh == h && mm == m {
				ss = s
			}
			if ss = atLeast(c.second, ss); ss < 60 {
				return hh*3600 + mm*60 + ss, true
			}
		}
	}
	return 0, false
}

// atLeast returns the smallest member of set that is at least n, or 64 if there is none.
func atLeast(set uint64, n int) int {
	return bits.TrailingZeros64(set >> n << n)
}

// days returns the matching days of a month.
func (c *cron) days(year, month int) uint64 {
	last := daysIn(year, month)
	all := uint64(1)<<(last+1) - 2
	first := weekdayOf(dayNumber(year, month, 1)) // weekday of the 1st
	byDay := c.day & all
	if c.lastDay {
		byDay |= 1 << last
	}
	for set := c.nearest & all; set != 0; set &= set - 1 {
		byDay |= 1 << nearestWorkingDay(bits.TrailingZeros64(set), last, first)
	}
	var byWeek uint64
	for d := 1; d <= last; d++ {
		w := uint64(1) << ((first + d - 1) % 7)
		if c.weekday&w != 0 || d > last-7 && c.lastWeekday&w != 0 || c.nth[(d-1)/7+1]&w != 0 {
			byWeek |= 1 << d
		}
	}
	if c.dayFree || c.weekFree {
		return byDay & byWeek
	}
	return byDay | byWeek
}

func nearestWorkingDay(day, last, first int) int {
	for _, by := range [...]int{0, -1, 1, -2, 2} {
		d := day + by
		if w := (first + d + 6) % 7; d >= 1 && d <= last && w != 0 && w != 6 {
			return d
		}
	}
	return day
}

type date struct{ year, month, day int }

func (c *cron) nextMonth(d date) date {
	if m := atLeast(c.month, d.month+1); m <= 12 {
		return date{d.year, m, 1}
	}
	return date{d.year + 1, atLeast(c.month, 1), 1}
}

func firstOfNext(d date) date {
	if d.month == 12 {
		return date{d.year + 1, 1, 1}
	}
	return date{d.year, d.month + 1, 1}
}

// civilDate and dayNumber convert between days since 1970 and dates.
func civilDate(day int64) date {
	y, m, d := time.Unix(day*86400, 0).UTC().Date()
	return date{y, int(m), d}
}

func dayNumber(year, month, day int) int64 {
	return time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC).Unix() / 86400
}

func weekdayOf(day int64) int {
	_, w := floorDiv(day+4, 7) // 1 January 1970 was a Thursday
	return int(w)
}

func daysIn(year, month int) int {
	switch month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

func floorDiv(a, b int64) (q, r int64) {
	q, r = a/b, a%b
	if r < 0 {
		q, r = q-1, r+b
	}
	return q, r
}
