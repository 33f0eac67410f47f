package voice

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxValue is the largest number of words of a value other than text.
const maxValue = 8

// parse returns the value of a slot: a string for text and enum, a number, a date such as
// 2026-03-05, a time such as 19:30, or a duration in seconds.
func (s *Slot) parse(w []word, now time.Time) (any, bool) {
	if len(w) == 0 {
		return nil, false
	}
	plain := make([]string, len(w))
	for i := range w {
		plain[i] = w[i].plain
	}
	switch s.Type {
	case "number":
		return number(plain)
	case "date":
		return date(plain, now)
	case "time":
		return clock(plain)
	case "duration":
		return length(plain)
	case "enum":
		for _, v := range s.Values {
			if joined(words(v)) == strings.Join(plain, " ") {
				return v, true
			}
		}
		return nil, false
	}
	said := make([]string, len(w))
	for i := range w {
		said[i] = w[i].said
	}
	return strings.Join(said, " "), true
}

func number(w []string) (any, bool) {
	sign := 1.0
	if len(w) > 1 && w[0] == "minus" {
		sign, w = -1, w[1:]
	}
	if len(w) == 3 && w[1] == "point" {
		w = []string{w[0] + "." + w[2]}
	}
	if len(w) != 1 {
		return nil, false
	}
	v, err := strconv.ParseFloat(w[0], 64)
	if err != nil || math.IsInf(v, 0) || math.IsNaN(v) || strings.ContainsAny(w[0], "xXpPeEiIn_") {
		return nil, false
	}
	return sign * v, true
}

var months = []string{"january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december"}

var weekdays = []string{"sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"}

func date(w []string, now time.Time) (any, bool) {
	day := func(t time.Time) (any, bool) { return t.Format(time.DateOnly), true }
	text := strings.Join(w, " ")
	switch text {
	case "today":
		return day(now)
	case "tomorrow":
		return day(now.AddDate(0, 0, 1))
	case "yesterday":
		return day(now.AddDate(0, 0, -1))
	case "the day after tomorrow":
		return day(now.AddDate(0, 0, 2))
	}
	if len(w) == 3 && len(w[0]) == 4 { // the dashes of 2026-03-05 separate words
		if t, err := time.Parse("2006 1 2", text); err == nil {
			return day(t)
		}
	}
	name := w
	if len(w) == 2 && (w[0] == "on" || w[0] == "next" || w[0] == "this") {
		name = w[1:]
	}
	if len(name) == 1 {
		if i := slices.Index(weekdays, name[0]); i >= 0 {
			ahead := (i - int(now.Weekday()) + 7) % 7
			if ahead == 0 {
				ahead = 7 // the next one, also if it is that day today
			}
			return day(now.AddDate(0, 0, ahead))
		}
	}
	w = slices.DeleteFunc(slices.Clone(w), func(x string) bool { return x == "the" || x == "of" || x == "on" })
	if len(w) < 2 || len(w) > 3 {
		return nil, false
	}
	m, d := slices.Index(months, w[0]), w[1]
	if m < 0 {
		m, d = slices.Index(months, w[1]), w[0]
	}
	n, err := strconv.Atoi(strings.TrimRight(d, "stndrh"))
	if m < 0 || err != nil || n < 1 || n > 31 {
		return nil, false
	}
	year := now.Year()
	if len(w) == 3 {
		if year, err = strconv.Atoi(w[2]); err != nil || year < 1900 || year > 9999 {
			return nil, false
		}
	}
	t := time.Date(year, time.Month(m+1), n, 0, 0, 0, 0, now.Location())
	if t.Day() != n {
		return nil, false
	}
	if len(w) == 2 && t.Before(time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location())) {
		t = t.AddDate(1, 0, 0)
	}
	return day(t)
}

func clock(w []string) (any, bool) {
	half := -1 // 0: am, 1: pm
	switch last := w[len(w)-1]; last {
	case "noon":
		return "12:00", len(w) == 1
	case "midnight":
		return "00:00", len(w) == 1
	case "am", "pm":
		half, w = map[string]int{"am": 0, "pm": 1}[last], w[:len(w)-1]
	case "oclock":
		w = w[:len(w)-1]
	default:
		if n := len(last) - 2; n > 0 && (last[n:] == "am" || last[n:] == "pm") {
			half, w = map[string]int{"am": 0, "pm": 1}[last[n:]], append(slices.Clone(w[:len(w)-1]), last[:n])
		}
	}
	shift := 0
	if len(w) == 3 && w[1] == "past" || len(w) == 3 && w[1] == "to" {
		m := map[string]int{"half": 30, "quarter": 15}[w[0]]
		if m == 0 {
			m, _ = strconv.Atoi(w[0])
		}
		if m < 1 || m > 59 {
			return nil, false
		}
		if shift = m; w[1] == "to" {
			shift = -m
		}
		w = w[2:]
	}
	var h, m int
	var err error
	switch {
	case len(w) == 1 && strings.Contains(w[0], ":"):
		a, b, _ := strings.Cut(w[0], ":")
		var err2 error
		h, err = strconv.Atoi(a)
		if m, err2 = strconv.Atoi(b); err2 != nil || len(b) != 2 {
			return nil, false
		}
	case len(w) == 1:
		h, err = strconv.Atoi(w[0])
	case len(w) == 2:
		var err2 error
		h, err = strconv.Atoi(w[0])
		if m, err2 = strconv.Atoi(w[1]); err2 != nil || m < 10 {
			return nil, false
		}
	default:
		return nil, false
	}
	if err != nil || h < 0 || h > 23 || m < 0 || m > 59 || half >= 0 && (h < 1 || h > 12) {
		return nil, false
	}
	if half >= 0 {
		h = h%12 + 12*half
	}
	at := (h*60 + m + shift + 24*60) % (24 * 60)
	return fmt.Sprintf("%02d:%02d", at/60, at%60), true
}

var lengths = map[string]float64{"second": 1, "sec": 1, "minute": 60, "min": 60, "hour": 3600, "day": 86400, "week": 604800}

func length(w []string) (any, bool) {
	total := 0.0
	for len(w) > 0 {
		if w[0] == "and" && total > 0 {
			w = w[1:]
		}
		n, used := 0.0, 1
		switch {
		case len(w) >= 3 && w[0] == "half" && (w[1] == "a" || w[1] == "an"):
			n, used = 0.5, 2
		case len(w) >= 2 && (w[0] == "a" || w[0] == "an"):
			n = 1
		case len(w) >= 2:
			v, ok := number(w[:1])
			if !ok || v.(float64) <= 0 {
				return nil, false
			}
			n = v.(float64)
		default:
			return nil, false
		}
		unit := lengths[w[used]]
		if unit == 0 {
			unit = lengths[strings.TrimSuffix(w[used], "s")]
		}
		if unit == 0 {
			return nil, false
		}
		total += n * unit
		w = w[used+1:]
	}
	return total, total > 0
}
