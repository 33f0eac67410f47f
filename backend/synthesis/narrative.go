package synthesis

import (
	"fmt"
	"math"
	"time"
)

const (
	themeWeeks  = 3
	growthP     = 0.05
	leastGrowth = 6
	maxSeries   = 400
)

// narrative finds themes that recur over weeks, changes of mood or of the share of a theme, and
// themes whose mood improves.
func (a *analysis) narrative() {
	explained := map[int]bool{}
	var trends []themeTrend
	for _, g := range a.topics() {
		weeks := map[string]bool{}
		for _, m := range g.members {
			y, w := a.in.Texts[m].At.In(a.in.Zone).ISOWeek()
			weeks[fmt.Sprint(y, "-", w)] = true
		}
		if len(weeks) < themeWeeks {
			continue
		}
		for _, m := range g.members {
			explained[m] = true
		}
		a.theme(g, len(weeks))
		if r, ok := a.themeTrend(g); ok {
			trends = append(trends, r)
		}
		a.shift(g)
	}
	a.growth(trends)
	a.out.IdentityCoherence = round(float64(len(explained)) / float64(len(a.in.Texts)))
	a.moodShift()
}

func (a *analysis) theme(g group, weeks int) {
	first, last := a.in.Texts[g.members[0]].At, a.in.Texts[g.members[len(g.members)-1]].At
	a.out.NarrativeThemes = append(a.out.NarrativeThemes, g.name)
	mood, _ := a.meanValence(g.members)
	a.add(finding{
		typ: "narrative_theme", core: g.key, subjects: g.terms, members: g.members, weights: g.weights,
		description: fmt.Sprintf("*%s* comes back in %d different weeks %s: %s%s", g.name, weeks, a.span(first, last), a.number(g.members), a.mood(g.members)),
		confidence:  g.confidence * (1 + 0.25*(1-math.Exp(-float64(weeks-2)/4))), // recurrence is less likely by chance
		parts:       map[string]float64{"cluster": g.confidence, "weeks": float64(weeks), "mood": mood - a.usual}, series: a.perMonth(g.members),
	})
}

// themeTrend is the trend of a theme's mood.
type themeTrend struct {
	group
	members  []int // texts with a known mood
	days     float64
	slope, p float64
}

func (a *analysis) themeTrend(g group) (r themeTrend, ok bool) {
	var days, moods []float64
	for _, m := range g.members {
		if a.texts[m].known {
			days, moods, r.members = append(days, a.in.Texts[m].At.Sub(a.in.Texts[g.members[0]].At).Hours()/24), append(moods, a.texts[m].valence), append(r.members, m)
		}
	}
	if len(days) < leastGrowth {
		return r, false
	}
	r.group, r.days = g, days[len(days)-1]
	r.slope, r.p = trend(days, moods)
	return r, true
}

// growth reports the themes whose mood improves over time, with Holm's correction over all themes.
func (a *analysis) growth(list []themeTrend) {
	ps := make([]float64, len(list))
	for i, r := range list {
		ps[i] = r.p
	}
	for i, p := range holm(ps) {
		r := list[i]
		if r.slope <= 0 || p > growthP {
			continue
		}
		n := len(r.members)
		a.add(finding{
			typ: "growth_theme", core: r.key, subjects: r.terms, members: r.members,
			description: fmt.Sprintf("The mood of *%s* rose %s: by about %+.2f in %d days", r.name, a.span(a.in.Texts[r.members[0]].At, a.in.Texts[r.members[n-1]].At), r.slope*r.days, int(r.days)),
			confidence:  (1 - 2*p) * (0.7 + 0.3*(1-math.Exp(-float64(n)/15))), parts: map[string]float64{"slopePerDay": r.slope, "p": p, "size": float64(n)}, series: a.moods(r.members),
		})
	}
}

// shift reports a change in the share of texts that belong to a theme.
func (a *analysis) shift(g group) {
	share := make([]float64, len(a.in.Texts))
	for _, m := range g.members {
		share[m] = 1
	}
	at, before, after, p, ok := change(share)
	if !ok || math.Abs(after-before) < 0.05 {
		return
	}
	word := "more"
	if after < before {
		word = "less"
	}
	a.add(finding{
		typ: "identity_development", core: g.key + " " + word, subjects: g.terms, members: g.members,
		description: fmt.Sprintf("From %s on you wrote %s about *%s*: %.0f %% of texts before, %.0f %% after", a.in.Texts[at].At.In(a.in.Zone).Format("2 January 2006"), word, g.name, 100*before, 100*after),
		confidence:  min(0.95, (1-p)*(0.6+min(0.35, math.Abs(after-before)))*(0.5+g.confidence/2)), parts: map[string]float64{"before": before, "after": after, "p": p}, series: a.perMonth(g.members),
	})
}

// moodShift reports a change in the mood of all texts.
func (a *analysis) moodShift() {
	var moods []float64
	var known []int
	for i, t := range a.texts {
		if t.known {
			moods, known = append(moods, t.valence), append(known, i)
		}
	}
	at, before, after, p, ok := change(moods)
	if !ok || math.Abs(after-before) < 0.1 {
		return
	}
	word := "rose"
	if after < before {
		word = "fell"
	}
	// The evidence is the texts around the change.
	members := known[max(0, at-25):min(len(known), at+25)]
	a.add(finding{
		typ: "sense_making", core: "mood " + word, members: members,
		description: fmt.Sprintf("Your mood %s around %s: mean %+.2f before, %+.2f after", word, a.in.Texts[known[at]].At.In(a.in.Zone).Format("2 January 2006"), before, after),
		confidence:  min(0.95, (1-p)*(0.7+min(0.25, math.Abs(after-before)))), parts: map[string]float64{"before": before, "after": after, "p": p}, series: a.perMonthMood(known),
	})
}

// change returns the significant change point of a series with the largest effect: its index, the
// means before and after it, and the p-value of their difference after Holm's correction over all
// change points.
func change(x []float64) (at int, before, after, p float64, ok bool) {
	// Long series are averaged in groups, so shorter changes than a group are not detected.
	step := (len(x) + maxSeries - 1) / maxSeries
	grouped := make([]float64, 0, maxSeries)
	for i := 0; i < len(x); i += step {
		grouped = append(grouped, mean(x[i:min(i+step, len(x))]))
	}
	points := turningPoints(grouped)
	for i := range points {
		points[i] *= step
	}
	ps, effect := make([]float64, len(points)), make([]float64, len(points))
	for i, t := range points {
		effect[i], ps[i] = welch(x[t:], x[:t])
	}
	best := -1
	for i, q := range holm(ps) {
		if q <= significant && math.Abs(effect[i]) >= triggerEffect && (best < 0 || math.Abs(effect[i]) > math.Abs(effect[best])) {
			best, p = i, q
		}
	}
	if best < 0 {
		return 0, 0, 0, 1, false
	}
	at = points[best]
	return at, mean(x[:at]), mean(x[at:]), p, true
}

// perMonth counts texts per month.
func (a *analysis) perMonth(members []int) (out []Point) {
	for _, m := range members {
		at := a.in.Texts[m].At.In(a.in.Zone)
		month := time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, a.in.Zone).UTC()
		if n := len(out); n > 0 && out[n-1].At.Equal(month) {
			out[n-1].Value++
		} else {
			out = append(out, Point{month, 1})
		}
	}
	return out
}

// perMonthMood returns the mean valence per month.
func (a *analysis) perMonthMood(members []int) []Point {
	out := a.perMonth(members)
	k := 0
	for i := range out {
		n := int(out[i].Value)
		m, _ := a.meanValence(members[k : k+n])
		out[i].Value = round(m)
		k += n
	}
	return out
}
