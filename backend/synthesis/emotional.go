package synthesis

import (
	"fmt"
	"math"
	"slices"
	"time"
)

const (
	moodLine       = 0.3 // valence above which a text is positive, and below the negative of which it is negative
	leastMoods     = 5
	triggerEffect  = 0.5 // Cohen's d
	significant    = 0.01
	recovery       = 72 * time.Hour
	leastRecovered = 3
)

// score computes the valence and arousal of every text. Values set by a person take precedence.
func (a *analysis) score() {
	a.texts = make([]scored, len(a.in.Texts))
	lexicon := 0
	for i, t := range a.in.Texts {
		if i%64 == 0 {
			if a.ctx.Err() != nil {
				a.err = errCanceled
				return
			}
			a.progress("valence", 0.05+0.2*float64(i)/float64(len(a.in.Texts)))
		}
		s := &a.texts[i]
		var words bool
		if s.valence, s.arousal, words = mood(t.Body, t.Vector); words {
			lexicon++
		}
		if t.Valence != nil {
			s.valence = *t.Valence
		}
		s.known = s.valence >= -1 && s.valence <= 1 // false for NaN
	}
	if lexicon > 0 {
		a.out.Warnings = append(a.out.Warnings, fmt.Sprintf("The mood of %s was read from their words alone: they are not embedded yet.", count(lexicon, "text", "texts")))
	}
	all := make([]int, len(a.in.Texts))
	for i := range all {
		all[i] = i
	}
	a.usual, _ = a.meanValence(all)
}

// emotional finds prevailing moods, subjects with an unusual mood, recoveries and times of strong emotion.
func (a *analysis) emotional() {
	var pos, neg, all []int
	var moods []float64
	for i, t := range a.texts {
		if !t.known {
			continue
		}
		all, moods = append(all, i), append(moods, t.valence)
		switch {
		case t.valence > moodLine:
			pos = append(pos, i)
		case t.valence < -moodLine:
			neg = append(neg, i)
		}
	}
	profile := &EmotionalProfile{DominantEmotions: []string{}, EmotionalTriggers: []string{}}
	a.out.EmotionalProfile = profile
	if len(all) == 0 {
		return
	}
	profile.EmotionalRange = [2]float64{round(quantile(moods, 0.1)), round(quantile(moods, 0.9))}
	profile.EmotionalStability = round(max(0, 1-math.Sqrt(variance(moods))))
	shares := []struct {
		name string
		n    int
	}{{"positive", len(pos)}, {"neutral", len(all) - len(pos) - len(neg)}, {"negative", len(neg)}}
	slices.SortStableFunc(shares, func(x, y struct {
		name string
		n    int
	}) int {
		return y.n - x.n
	})
	for _, s := range shares {
		if s.n > 0 {
			profile.DominantEmotions = append(profile.DominantEmotions, s.name)
		}
	}
	a.prevailing("emotional_positive", "good", pos)
	a.prevailing("emotional_negative", "low", neg)
	profile.EmotionalTriggers = a.triggers(all)
	a.recoveries(all)
	a.intensity(all)
	a.connections()
}

func (a *analysis) prevailing(typ, word string, members []int) {
	if len(members) < leastMoods {
		return
	}
	var strength []float64
	for _, m := range members {
		strength = append(strength, math.Abs(a.texts[m].valence))
	}
	n := float64(len(members))
	low := mean(strength) - 1.96*math.Sqrt(variance(strength)/n)
	mood, _ := a.meanValence(members)
	a.add(finding{
		typ: typ, core: "all", members: members, weights: strength,
		description: fmt.Sprintf("%s in a %s mood%s %s%s", a.number(members), word, about(a.terms(members, 3)),
			a.span(a.in.Texts[members[0]].At, a.in.Texts[members[len(members)-1]].At), a.mood(members)),
		confidence: (1 - math.Exp(-n/4)) * min(1, low/0.6), parts: map[string]float64{"size": n, "lowerBound": low, "mood": mood}, series: a.moods(members),
	})
}

// subject is a topic or a person that texts are about.
type subject struct {
	key, name string
	members   []int
}

// triggers finds the subjects whose mood differs from that of all other texts.
func (a *analysis) triggers(all []int) []string {
	type tested struct {
		subject
		in, rest []float64
		d, p     float64
	}
	var list []tested
	for _, s := range a.subjects() {
		t := tested{subject: s}
		inside := make(map[int]bool, len(s.members))
		for _, m := range s.members {
			inside[m] = true
		}
		for _, m := range all {
			if inside[m] {
				t.in = append(t.in, a.texts[m].valence)
			} else {
				t.rest = append(t.rest, a.texts[m].valence)
			}
		}
		if len(t.in) >= leastMoods && len(t.rest) >= leastMoods {
			t.d, t.p = welch(t.in, t.rest)
			list = append(list, t)
		}
	}
	p := make([]float64, len(list))
	for i := range list {
		p[i] = list[i].p
	}
	names := []string{}
	for i, q := range holm(p) {
		t := list[i]
		if q > significant || math.Abs(t.d) < triggerEffect {
			continue
		}
		direction := "better"
		if t.d < 0 {
			direction = "lower"
		}
		names = append(names, t.name)
		m := mean(t.in)
		a.add(finding{
			typ: "emotional_trigger", subject: t.key, core: direction, subjects: []string{t.name}, members: t.members,
			description: fmt.Sprintf("*%s* is often together with a %s mood: %s with a mean of %+.2f (your usual %+.2f)", t.name, direction, a.number(t.members), m, a.usual),
			confidence:  0.55 + 0.25*min(1, math.Abs(t.d)/1.2) + 0.18*(1-math.Exp(-float64(len(t.in))/10)),
			parts:       map[string]float64{"effect": t.d, "p": q, "size": float64(len(t.in)), "mood": m - a.usual}, series: a.moods(t.members),
		})
	}
	return names
}

// recoveries finds low moods after which the mood rose again by at least half of the drop within 72
// hours. If moods are in random order, the text after a low one is usually an ordinary one, which
// is not a recovery. Therefore the next texts must differ from all others: lower, because the mood
// persisted, or higher.
func (a *analysis) recoveries(all []int) {
	var low, back, members []int
	var after, first, rest []float64
	next1 := map[int]bool{}
	for k := 0; k < len(all); k++ {
		i := all[k]
		v := a.texts[i].valence
		if v >= -moodLine {
			continue
		}
		at := a.in.Texts[i].At
		var next []float64
		end := k
		for e := k + 1; e < len(all) && a.in.Texts[all[e]].At.Sub(at) <= recovery; e++ {
			next, end = append(next, a.texts[all[e]].valence), e
		}
		if len(next) < 2 {
			continue
		}
		low, next1[all[k+1]] = append(low, i), true
		if m := mean(next); m >= v+(a.usual-v)/2 {
			back, members, after = append(back, i), append(members, i), append(after, m)
		}
		k = end // one low per window: what follows belongs to the same episode
	}
	for _, i := range all {
		if next1[i] {
			first = append(first, a.texts[i].valence)
		} else {
			rest = append(rest, a.texts[i].valence)
		}
	}
	effect, p := welch(first, rest)
	if len(back) < leastRecovered || p > significant {
		return
	}
	share := float64(len(back)) / float64(len(low))
	a.add(finding{
		typ: "emotional_regulation", core: "72h", members: members,
		description: fmt.Sprintf("After %d of %d low moments your mood came back at least half-way within 72 hours; on average to %+.2f (your usual %+.2f)", len(back), len(low), mean(after), a.usual),
		confidence:  wilson(len(back), len(low)) * (1 - math.Exp(-float64(len(low))/2)), parts: map[string]float64{"share": share, "size": float64(len(low)), "next": effect, "p": p}, series: a.moods(members),
	})
}

// wilson returns the lower 90 % bound of a proportion (Wilson 1927).
func wilson(hits, n int) float64 {
	const z = 1.2816
	p, nf := float64(hits)/float64(n), float64(n)
	return (p + z*z/(2*nf) - z*math.Sqrt(p*(1-p)/nf+z*z/(4*nf*nf))) / (1 + z*z/nf)
}

// intensity finds times of day and days of the week with stronger emotion.
func (a *analysis) intensity(all []int) {
	type part struct {
		name string
		in   func(time.Time) bool
	}
	var parts []part
	for h, name := range []string{"at night", "in the morning", "in the afternoon", "in the evening"} {
		parts = append(parts, part{name, func(at time.Time) bool { return at.Hour()/6 == h }})
	}
	for d := range 7 {
		parts = append(parts, part{"on " + time.Weekday(d).String() + "s", func(at time.Time) bool { return int(at.Weekday()) == d }})
	}
	var p, d []float64
	var members [][]int
	for _, x := range parts {
		var in, rest []float64
		var mine []int
		days := map[string]bool{}
		for _, m := range all {
			at := a.in.Texts[m].At.In(a.in.Zone)
			if x.in(at) {
				in, mine = append(in, a.texts[m].arousal), append(mine, m)
				days[at.Format(time.DateOnly)] = true
			} else {
				rest = append(rest, a.texts[m].arousal)
			}
		}
		effect, q := 0.0, 1.0
		if len(days) >= leastMoods && len(in) >= 8 && len(rest) >= 8 {
			effect, q = welch(in, rest)
		}
		p, d, members = append(p, q), append(d, effect), append(members, mine)
	}
	for i, q := range holm(p) {
		if q > significant || d[i] < triggerEffect {
			continue
		}
		a.add(finding{
			typ: "intensity_pattern", core: parts[i].name, members: members[i],
			description: fmt.Sprintf("What you write %s is stronger in feeling than at other times: %s", parts[i].name, a.number(members[i])),
			confidence:  0.6 + 0.35*min(1, d[i]), parts: map[string]float64{"effect": d[i], "p": q, "size": float64(len(members[i]))}, series: a.moods(members[i]),
		})
	}
}
