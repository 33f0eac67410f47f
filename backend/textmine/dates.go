package textmine

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// Date is a time that a text names. To is the first moment after it: a day, a week, a month.
type Date struct {
	Span
	From, To time.Time
}

var (
	weekdays = numbered("sunday sun monday mon tuesday tue wednesday wed thursday thu friday fri saturday sat", 2,
		"sonntag", "montag", "dienstag", "mittwoch", "donnerstag", "freitag", "samstag")
	months = numbered("january jan february feb march mar april apr may may june jun july jul august aug september sep october oct november nov december dec", 2,
		"januar", "februar", "märz", "april", "mai", "juni", "juli", "august", "september", "oktober", "november", "dezember")
	numbers = map[string]int{
		"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10,
		"eleven": 11, "twelve": 12, "couple": 2, "few": 3,
		"einem": 1, "einer": 1, "zwei": 2, "drei": 3, "vier": 4, "fünf": 5, "sechs": 6,
	}
	units = map[string]string{
		"day": "day", "week": "week", "month": "month", "year": "year", "weekend": "weekend", "fortnight": "fortnight",
		"tag": "day", "tagen": "day", "woche": "week", "wochen": "week", "monat": "month", "monaten": "month", "jahr": "year", "jahren": "year",
	}
	seasons = map[string]time.Month{"spring": time.March, "summer": time.June, "fall": time.September, "autumn": time.September, "winter": time.December}
	before  = set("last past letzten letzte letztes letzter")
	after   = set("next coming upcoming nächsten nächste nächstes nächster kommenden kommende")
	this    = set("this diesen diese dieses dieser")
)

// numbered gives each group of words its number, from 1, and the same to further words in order.
func numbered(words string, group int, more ...string) map[string]int {
	out := map[string]int{}
	for i, w := range strings.Fields(words) {
		out[w] = i/group + 1
	}
	for i, w := range more {
		out[w] = i + 1
	}
	return out
}

// Dates finds the dates of a sentence, seen from the text's own time and zone. A month or a
// weekday without more is the coming one, or today's.
func Dates(s Sentence, at time.Time) (out []Date) {
	t := s.Tokens
	for i := 0; i < len(t); {
		from, to, n := dateAt(t[i:], at)
		if n == 0 {
			i++
			continue
		}
		out = append(out, Date{Span{t[i].Start, t[i+n-1].End}, from, to})
		i += n
	}
	return out
}

func lower(t []Token, i int) string {
	if i < len(t) {
		return t[i].Lower
	}
	return ""
}

// dateAt reads the date that begins with the first token, and how many tokens it has.
func dateAt(t []Token, at time.Time) (from, to time.Time, n int) {
	y, m, d := at.Date()
	day := func(offset int) time.Time { return time.Date(y, m, d+offset, 0, 0, 0, 0, at.Location()) }
	month := func(year int, month time.Month) time.Time {
		return time.Date(year, month, 1, 0, 0, 0, 0, at.Location())
	}
	days := func(offset, length, tokens int) (time.Time, time.Time, int) {
		return day(offset), day(offset + length), tokens
	}
	weekStart := -((int(at.Weekday()) + 6) % 7) // Monday
	w := t[0].Lower
	switch w {
	case "today", "tonight", "heute":
		return days(0, 1, 1)
	case "tomorrow", "morgen":
		return days(1, 1, 1)
	case "yesterday", "gestern":
		return days(-1, 1, 1)
	}
	if from, ok := isoDay(w, at); ok {
		return from, from.AddDate(0, 0, 1), 1
	}
	// next Friday, last month, this summer
	step := 0
	switch {
	case before[w]:
		step = -1
	case after[w]:
		step = 1
	}
	if step != 0 || this[w] {
		next := lower(t, 1)
		if wd := weekdays[next]; wd > 0 && len(next) > 3 || wd > 0 && t[1].Text != next {
			return days(weekday(at, wd, step), 1, 2)
		}
		if mo := months[next]; mo > 0 {
			year := y
			if step > 0 && time.Month(mo) <= m {
				year++
			} else if step < 0 && time.Month(mo) >= m {
				year--
			}
			return month(year, time.Month(mo)), month(year, time.Month(mo)+1), 2
		}
		if start, ok := seasons[next]; ok {
			year := y
			if step > 0 && start <= m {
				year++
			} else if step < 0 && start >= m {
				year--
			}
			return month(year, start), month(year, start+3), 2
		}
		switch units[Lemma(next)] {
		case "week":
			return days(weekStart+7*step, 7, 2)
		case "weekend":
			return days(weekStart+5+7*step, 2, 2)
		case "month":
			return month(y, m+time.Month(step)), month(y, m+time.Month(step)+1), 2
		case "year":
			return month(y+step, 1), month(y+step+1, 1), 2
		}
		return
	}
	// in two weeks, in May, in 2024, in the spring
	if w == "in" || w == "im" {
		i := 1
		for lower(t, i) == "the" || lower(t, i) == "about" || lower(t, i) == "early" || lower(t, i) == "late" {
			i++
		}
		if from, to, n := distance(t[i:], at, 1); n > 0 && lower(t, i+n) != "ago" {
			return from, to, i + n
		}
		if start, ok := seasons[lower(t, i)]; ok {
			year := y
			if start+3 <= m {
				year++
			}
			return month(year, start), month(year, start+3), i + 1
		}
		if year, err := strconv.Atoi(lower(t, i)); err == nil && year >= 1900 && year < 2200 {
			return month(year, 1), month(year+1, 1), i + 1
		}
		if _, named := months[lower(t, i)]; named {
			if from, to, n := calendarDay(t[i:], at); n > 0 {
				return from, to, i + n
			}
		}
		return
	}
	if from, to, n := distance(t, at, -1); n > 0 && lower(t, n) == "ago" {
		return from, to, n + 1
	}
	// on Friday, by Monday, at the weekend; a short form only with its capital
	if slices.Contains([]string{"on", "by", "until", "before", "am", "bis"}, w) {
		if wd := weekdays[lower(t, 1)]; wd > 0 {
			return days(weekday(at, wd, 0), 1, 2)
		}
	}
	if wd := weekdays[w]; wd > 0 && len(w) > 3 {
		return days(weekday(at, wd, 0), 1, 1)
	}
	return calendarDay(t, at)
}

// weekday is how many days from at the named one is: the latest before today for a step of -1, the
// coming one for 1, and that or today for 0.
func weekday(at time.Time, wd, step int) int {
	ahead := (wd - 1 - int(at.Weekday()) + 7) % 7
	switch {
	case step < 0:
		return ahead - 7
	case step > 0 && ahead == 0:
		return 7
	}
	return ahead
}

// distance reads "two weeks" as a day so far from at, or the week or month there.
func distance(t []Token, at time.Time, sign int) (from, to time.Time, n int) {
	count, i := 0, 0
	if c, err := strconv.Atoi(lower(t, 0)); err == nil && c > 0 && c < 1000 {
		count, i = c, 1
	} else if c := numbers[lower(t, 0)]; c > 0 {
		count, i = c, 1
		if c == 1 && numbers[lower(t, 1)] > 1 { // a few, a couple of
			count, i = numbers[lower(t, 1)], 2
		}
		if lower(t, i) == "of" {
			i++
		}
	}
	unit := units[Lemma(lower(t, i))]
	if unit == "" {
		unit = units[lower(t, i)]
	}
	if count == 0 || unit == "" || unit == "weekend" {
		return
	}
	y, m, d := at.Date()
	day := func(y int, m time.Month, d int) time.Time { return time.Date(y, m, d, 0, 0, 0, 0, at.Location()) }
	switch count *= sign; unit {
	case "day":
		from = day(y, m, d+count)
	case "week":
		from = day(y, m, d+7*count)
	case "fortnight":
		from = day(y, m, d+14*count)
	case "month":
		return day(y, m+time.Month(count), 1), day(y, m+time.Month(count)+1, 1), i + 1
	case "year":
		return day(y+count, 1, 1), day(y+count+1, 1, 1), i + 1
	}
	return from, from.AddDate(0, 0, 1), i + 1
}

// calendarDay reads "May", "May 3rd", "3 May 2024" and the like. "may" and "march" need a capital.
func calendarDay(t []Token, at time.Time) (from, to time.Time, n int) {
	i, dayOf := 0, 0
	if d := ordinal(lower(t, 0)); d > 0 {
		dayOf, i = d, 1
		if lower(t, i) == "of" {
			i++
		}
	}
	mo := months[lower(t, i)]
	if mo == 0 || t[i].Text == t[i].Lower {
		return
	}
	i++
	if d := ordinal(lower(t, i)); d > 0 && dayOf == 0 && i < len(t) && !t[i].Break {
		dayOf = d
		i++
	}
	if i == 1 && dayOf == 0 && !t[0].Inner {
		return // "May I …", "March on!"
	}
	year, fixed := at.Year(), false
	if c, err := strconv.Atoi(lower(t, i)); err == nil && c >= 1900 && c < 2200 {
		year, fixed = c, true
		i++
	}
	first := func(year int) (time.Time, time.Time) {
		if dayOf > 0 {
			f := time.Date(year, time.Month(mo), dayOf, 0, 0, 0, 0, at.Location())
			return f, f.AddDate(0, 0, 1)
		}
		f := time.Date(year, time.Month(mo), 1, 0, 0, 0, 0, at.Location())
		return f, f.AddDate(0, 1, 0)
	}
	if from, to = first(year); !fixed && !to.After(at) {
		from, to = first(year + 1)
	}
	return from, to, i
}

// ordinal reads the day of a month: 3, 3rd.
func ordinal(w string) int {
	for _, suffix := range []string{"st", "nd", "rd", "th"} {
		w = strings.TrimSuffix(w, suffix)
	}
	if d, err := strconv.Atoi(w); err == nil && d >= 1 && d <= 31 {
		return d
	}
	return 0
}

func isoDay(w string, at time.Time) (time.Time, bool) {
	d, err := time.ParseInLocation(time.DateOnly, w, at.Location())
	return d, err == nil
}
