package synthesis

import (
	"fmt"
	"math"
	"sort"
	"time"
)

const (
	day           = 24 * time.Hour
	leastWindow   = 3
	aroundWindow  = 30 // days over which the usual density is computed
	leastRhythm   = 12 // minimum number of days, or hours, with texts for a rhythm
	rhythmP       = 0.01
	rhythmShare   = 1.8 // ratio to what would be expected without rhythm
	hoursOfRhythm = 3
)

// temporal finds bursts: a text that is not in a window yet, and all texts within 24 hours after
// it. Windows do not overlap, so they never chain.
func (a *analysis) temporal() {
	texts := a.in.Texts
	type window struct{ from, to int } // to is exclusive
	var windows []window
	for i := 0; i < len(texts); {
		j := i + 1
		for j < len(texts) && texts[j].At.Sub(texts[i].At) <= day {
			j++
		}
		if j-i >= leastWindow {
			windows = append(windows, window{i, j})
		}
		i = j
	}
	for _, w := range windows {
		members := make([]int, 0, w.to-w.from)
		for i := w.from; i < w.to; i++ {
			members = append(members, i)
		}
		n := float64(len(members))
		first, last := texts[w.from].At, texts[w.to-1].At
		// The usual number of texts in 24 hours, from the 30 days around, excluding the window.
		middle := first.Add(last.Sub(first) / 2)
		from, to := middle.Add(-aroundWindow/2*day), middle.Add(aroundWindow/2*day)
		near := sort.Search(len(texts), func(i int) bool { return texts[i].At.After(to) }) - sort.Search(len(texts), func(i int) bool { return !texts[i].At.Before(from) }) - len(members)
		expected := max(0, float64(near)) / (aroundWindow - 1)
		if poissonTail(len(members), expected)*float64(len(windows)) > significant {
			continue // at this rate some windows are as full by chance
		}
		span := last.Sub(first).Hours() / 24
		terms, have := a.burstTerms(members, 3)
		what := a.number(members) + about(terms) + " " + a.span(first, last)
		if 2*have < len(members) && have > 0 {
			what = fmt.Sprintf("%s %s, %d of them%s", a.number(members), a.span(first, last), have, about(terms))
		}
		a.add(finding{
			typ: "temporal_cluster", core: texts[w.from].ID, members: members,
			description: what + a.mood(members),
			confidence:  0.3*(1-math.Exp(-n/3)) + 0.1*(1-span) + 0.6*max(0, 1-expected/n),
			parts:       map[string]float64{"size": n, "spanDays": span, "usualPerDay": expected},
			series:      a.moods(members),
		})
	}
	a.rhythms()
}

// rhythms finds the weekdays and the hours at which a person writes. Each day, or hour of a day,
// counts once, so that a burst is not a rhythm.
func (a *analysis) rhythms() {
	weekdays, hours := make([]int, 7), make([]int, 24)
	days, slots := map[string]bool{}, map[string]bool{}
	for _, t := range a.in.Texts {
		at := t.At.In(a.in.Zone)
		if key := at.Format(time.DateOnly); !days[key] {
			days[key] = true
			weekdays[at.Weekday()]++
		}
		if key := at.Format("2006-01-02 15"); !slots[key] {
			slots[key] = true
			hours[at.Hour()]++
		}
	}
	wAt, wShare, wP := rhythm(weekdays, 1, 1)
	span := hoursOfRhythm
	hAt, hShare, hP := rhythm(hours, span, 2)
	for span > 1 { // the shortest window with as many
		at, most := fullest(hours, span-1)
		if float64(most) < hShare*float64(len(slots)) {
			break
		}
		hAt, span = at, span-1
	}
	p := holm([]float64{wP, hP})
	if len(days) >= leastRhythm && p[0] <= rhythmP && wShare*7 >= rhythmShare {
		members := a.members(func(at time.Time) bool { return int(at.Weekday()) == wAt })
		a.add(finding{
			typ: "temporal_cluster", subject: "weekday", core: time.Weekday(wAt).String(), members: members,
			description: fmt.Sprintf("%d of the %d days on which you wrote were %ss", weekdays[wAt], len(days), time.Weekday(wAt)),
			confidence:  rhythmConfidence(p[0], wShare*7), parts: map[string]float64{"share": wShare, "p": p[0], "days": float64(len(days))},
		})
	}
	if len(slots) >= leastRhythm && len(days) >= leastRhythm && p[1] <= rhythmP && hShare*24/hoursOfRhythm >= rhythmShare {
		to := (hAt + span) % 24
		members := a.members(func(at time.Time) bool { return (at.Hour()-hAt+24)%24 < span })
		a.add(finding{
			typ: "temporal_cluster", subject: "hours", core: fmt.Sprint(hAt), members: members,
			description: fmt.Sprintf("%.0f %% of the hours in which you wrote were between %02d:00 and %02d:00", 100*hShare, hAt, to),
			confidence:  rhythmConfidence(p[1], hShare*24/hoursOfRhythm), parts: map[string]float64{"share": hShare, "p": p[1], "days": float64(len(days))},
		})
	}
}

// rhythmConfidence grows with the improbability of the rhythm and with its strength.
func rhythmConfidence(p, lift float64) float64 {
	return (1 - 10*p) * min(1, 0.5+lift/4)
}

func (a *analysis) members(in func(time.Time) bool) (out []int) {
	for i, t := range a.in.Texts {
		if in(t.At.In(a.in.Zone)) {
			out = append(out, i)
		}
	}
	return out
}

// moods returns the valence of texts over time.
func (a *analysis) moods(members []int) (out []Point) {
	step := (len(members) + 199) / 200
	for k := 0; k < len(members); k += step {
		if m := members[k]; a.texts[m].known {
			out = append(out, Point{a.in.Texts[m].At.UTC(), round(a.texts[m].valence)})
		}
	}
	return out
}

// meanValence returns the mean valence of the texts for which it is known, and their number.
func (a *analysis) meanValence(members []int) (float64, int) {
	v := a.valences(members)
	return mean(v), len(v)
}

func (a *analysis) valences(members []int) (out []float64) {
	for _, m := range members {
		if a.texts[m].known {
			out = append(out, a.texts[m].valence)
		}
	}
	return out
}
