package synthesis

import (
	"fmt"
	"strings"
	"time"
)

// Descriptions consist of numbers and terms. They state neither causes nor diagnoses.

// span describes the period from first to last.
func (a *analysis) span(first, last time.Time) string {
	f, l := first.In(a.in.Zone), last.In(a.in.Zone)
	switch {
	case f.Format(time.DateOnly) == l.Format(time.DateOnly):
		return "on " + f.Format("2 January 2006")
	case f.Year() != l.Year():
		return fmt.Sprintf("between %s and %s", f.Format("2 January 2006"), l.Format("2 January 2006"))
	case f.Month() != l.Month():
		return fmt.Sprintf("between %s and %s", f.Format("2 January"), l.Format("2 January 2006"))
	}
	return fmt.Sprintf("between %s and %s", f.Format("2"), l.Format("2 January 2006"))
}

// mood compares the mean valence of texts with that of all texts.
func (a *analysis) mood(members []int) string {
	m, n := a.meanValence(members)
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("; mean mood %+.2f (your usual %+.2f)", m, a.usual)
}

// number describes how many texts of which kinds there are.
func (a *analysis) number(members []int) string {
	memories := 0
	for _, m := range members {
		if a.in.Texts[m].Kind == "memory" {
			memories++
		}
	}
	switch n := len(members); {
	case memories == n:
		return count(n, "memory", "memories")
	case memories == 0 && a.in.Texts[members[0]].Kind == "conversation":
		return count(n, "conversation", "conversations")
	case memories == 0:
		return count(n, "message", "messages")
	default:
		return count(n, "text", "texts")
	}
}

// about describes the terms of a group, or returns "".
func about(terms []string) string {
	if len(terms) == 0 {
		return ""
	}
	return " about *" + strings.Join(terms, ", ") + "*"
}

// author returns the author of a text for a description: you, or a name.
func (a *analysis) author(m int) string {
	if s := a.in.Texts[m].Speaker; s != "" {
		return s
	}
	return "you"
}
