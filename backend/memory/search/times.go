package search

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// span is the time from from, inclusive, to to, exclusive, in microseconds.
type span struct{ from, to int64 }

// aftermath is how long after an event people still talk about it as if it were recent.
const aftermath = 7 * 24 * time.Hour

var monthNumbers = func() map[string]time.Month {
	m := map[string]time.Month{}
	for i := time.January; i <= time.December; i++ {
		name := strings.ToLower(i.String())
		m[name], m[name[:3]] = i, i
	}
	m["sept"] = time.September
	return m
}()

// anyYears is how many years back a month without a year may refer to.
const anyYears = 12

// spansIn returns the times that a text mentions: a day, a month with or without its year, a year,
// or a relative time such as "last week". Each span is extended by aftermath.
func spansIn(text string, ws []word, now time.Time) []span {
	var out []span
	add := func(from, to time.Time) {
		out = append(out, span{from.UnixMicro(), to.Add(aftermath).UnixMicro()})
	}
	date := func(y int, m time.Month, d int) time.Time { return time.Date(y, m, d, 0, 0, 0, 0, time.UTC) }
	used := map[int]bool{} // years that belong to a month
	for i, w := range ws {
		m, ok := monthNumbers[w.token]
		if !ok || !isMonth(text, ws, i) {
			continue
		}
		day, year := 0, 0
		for _, j := range []int{i + 1, i + 2, i - 1, i - 2} {
			if j < 0 || j >= len(ws) || ws[j].token == "of" && j != i-2 {
				continue
			}
			n := number(ws[j].token)
			switch {
			case n >= 1900 && n <= 2100 && year == 0 && j > i:
				year = n
				used[j] = true
			case n >= 1 && n <= 31 && day == 0 && (j == i+1 || j == i-1 || j == i-2 && ws[i-1].token == "of"):
				day = n
			}
		}
		years := []int{year}
		if year == 0 {
			years = years[:0]
			for y := now.Year(); y > now.Year()-anyYears; y-- {
				years = append(years, y)
			}
		}
		for _, y := range years {
			if day > 0 {
				add(date(y, m, day), date(y, m, day+1))
			} else {
				add(date(y, m, 1), date(y, m+1, 1))
			}
		}
	}
	for i, w := range ws {
		if n := number(w.token); n >= 1950 && n <= 2100 && len(w.token) == 4 && !used[i] && len(out) == 0 {
			add(date(n, 1, 1), date(n+1, 1, 1))
		}
	}
	today := date(now.UTC().Year(), now.UTC().Month(), now.UTC().Day())
	for i, w := range ws {
		switch w.token {
		case "today":
			add(today, today.AddDate(0, 0, 1))
		case "yesterday":
			add(today.AddDate(0, 0, -1), today)
		}
		if i == 0 || ws[i-1].token != "last" && ws[i-1].token != "this" {
			continue
		}
		back := 0
		if ws[i-1].token == "last" {
			back = 1
		}
		switch w.token {
		case "week":
			monday := today.AddDate(0, 0, -(int(today.Weekday())+6)%7-7*back)
			add(monday, monday.AddDate(0, 0, 7))
		case "month":
			first := date(today.Year(), today.Month()-time.Month(back), 1)
			add(first, first.AddDate(0, 1, 0))
		case "year":
			add(date(today.Year()-back, 1, 1), date(today.Year()-back+1, 1, 1))
		}
	}
	return out
}

// isMonth reports whether a word is a month in its context. "May" and "march" are usually other
// words: they need a capital and an adjacent number or preposition. An abbreviation needs a number.
func isMonth(text string, ws []word, i int) bool {
	w := ws[i].token
	beside := func(j int) bool { return j >= 0 && j < len(ws) && number(ws[j].token) > 0 }
	numbered := beside(i-1) || beside(i+1)
	switch w {
	case "may", "march":
		if c := text[ws[i].start]; c < 'A' || c > 'Z' {
			return false
		}
		return numbered || i > 0 && slices.Contains([]string{"in", "of", "on", "since", "until", "by", "during", "last", "this", "early", "late", "mid", "before", "after"}, ws[i-1].token)
	}
	return len(w) > 4 || w == "june" || w == "july" || numbered
}

// number parses 8, 8th, 2023. It returns 0 for anything else.
func number(token string) int {
	for _, end := range []string{"st", "nd", "rd", "th"} {
		if s, ok := strings.CutSuffix(token, end); ok {
			token = s
			break
		}
	}
	n, err := strconv.Atoi(token)
	if err != nil || n < 0 {
		return 0
	}
	return n
}
