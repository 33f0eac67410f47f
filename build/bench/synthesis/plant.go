package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"helix/backend/synthesis"
	"helixbench/figures"
)

// world is a life generated from a seed, with the patterns that are true in it.
type world struct {
	texts  []synthesis.Text
	theme  map[string]int    // of a text, by id; -1: none
	person map[string]string // in a text
	goal   map[string]bool   // texts that state a plan
	low    map[string]bool   // people that go with low moods
	high   map[string]bool
	people []string
	themes int
	goals  int
}

var names = []string{"Anna", "Bruno", "Clara", "Dario", "Elena", "Farid", "Greta", "Hakim", "Irene", "Jonas", "Katja", "Levin", "Mona", "Nadim", "Olga", "Pablo", "Rania", "Selma", "Timur", "Vera"}

// Words of eight subjects; a text uses some words of one subject.
var subjects = [][2][]string{
	{{"the marathon training", "my long run", "the interval session", "the running plan"}, {"along the river", "with the new shoes", "despite the sore knee", "before the half marathon", "at an easy pace"}},
	{{"the sourdough bread", "the rye loaf", "the starter", "the baking stone"}, {"came out of the oven", "needs more salt", "rose overnight", "had a crisp crust", "was too dense"}},
	{{"the guitar lesson", "the chord change", "the new song", "the fingerpicking exercise"}, {"went on for an hour", "is on my list", "needs a slower metronome", "sounds better now", "with a new set of strings"}},
	{{"the garden bed", "the tomato seedlings", "the compost", "the raspberry canes"}, {"need water", "after the frost", "behind the shed", "got mulch today", "grow along the fence"}},
	{{"the thesis chapter", "the literature review", "the data analysis", "the bibliography"}, {"was due at noon", "takes another week", "needs a better figure", "came back from the supervisor", "has forty pages"}},
	{{"the apartment search", "the rental contract", "the moving boxes", "the landlord"}, {"in the old quarter", "on the third floor", "with a balcony", "asked for a deposit", "until the end of the month"}},
	{{"the Spanish class", "the vocabulary cards", "the subjunctive", "the conversation evening"}, {"in the community center", "with new verbs", "on chapter seven", "before the exam", "in the language school"}},
	{{"the sailing trip", "the mainsail", "the harbor", "the weather chart"}, {"off the coast", "in strong wind", "before sunrise", "around the island", "with a reefed sail"}},
}

var asides = []string{"Went to the office by bus.", "Dentist appointment moved to another day.", "The printer is out of paper.", "Washed the windows.", "Paid the electricity bill.", "Read the newspaper in the kitchen.", "The elevator is being repaired.", "Cleaned the bicycle chain.", "Watched the evening program.", "Bought batteries and light bulbs."}

var plans = []string{"I plan to walk across the Alps next summer.", "My goal is to finish a novel about lighthouses.", "I've decided to learn how to weld.", "I'm saving up for a small wooden cabin.", "I want to open a bicycle workshop.", "I plan to adopt a dog from the shelter."}

var traps = []string{"I don't want to walk across the desert.", "She said: \"I plan to open a bakery.\"", "Should I learn how to juggle?", "The city plans to open a new bridge.", "If I want to weld, I need a mask.", "I never wanted to own a cabin."}

// pairedThemes occur on the same days.
var pairedThemes = [2]int{1, 3}

// plant generates n texts over two years.
func plant(r *rand.Rand, n int) *world {
	w := &world{theme: map[string]int{}, person: map[string]string{}, goal: map[string]bool{}, low: map[string]bool{}, high: map[string]bool{}, people: names, themes: len(subjects), goals: len(plans)}
	for _, i := range []int{1, 5, 9} {
		w.low[names[i]] = true
	}
	for _, i := range []int{0, 6} {
		w.high[names[i]] = true
	}
	begin := time.Date(2024, 1, 1, 8, 0, 0, 0, time.UTC)
	pick := func(list []string) string { return list[r.IntN(len(list))] }
	var together []time.Time // of texts of the first of the paired themes
	for i := range n {
		id := fmt.Sprintf("t%06d", i)
		at := begin.Add(time.Duration(r.Int64N(int64(2 * 365 * 24 * time.Hour))))
		body := ""
		w.theme[id] = -1
		switch x := r.Float64(); {
		case i < 2*len(plans): // each plan twice
			body = plans[i%len(plans)]
			w.goal[id] = true
		case i < 2*len(plans)+len(traps):
			body = traps[i-2*len(plans)]
		case x < 0.5:
			g := r.IntN(len(subjects))
			w.theme[id] = g
			switch d := len(together); {
			case g == pairedThemes[0]:
				together = append(together, at)
			case g == pairedThemes[1] && d > 0 && r.Float64() < 0.7:
				at = together[d-1].Truncate(24 * time.Hour).Add(time.Duration(r.Int64N(int64(24 * time.Hour))))
				together = together[:d-1] // one each, or the days would be bursts
			}
			body = fmt.Sprintf("%s %s, %s %s.", title(pick(subjects[g][0])), pick(subjects[g][1]), pick([]string{"and then", "while", "because of"}), pick(subjects[g][0])+" "+pick(subjects[g][1]))
		case x < 0.8:
			who := pick(names)
			w.person[id] = who
			switch {
			case w.low[who]:
				body = fmt.Sprintf(pick([]string{"I met %s and it was awful, I felt miserable and hurt.", "Terrible phone call with %s, I am so angry and sad.", "%s was cruel again and I cried, a horrible day."}), who)
			case w.high[who]:
				body = fmt.Sprintf(pick([]string{"I met %s and it was wonderful, we laughed and I felt so happy.", "Lovely phone call with %s, I am full of joy.", "%s was so kind again, a delightful and beautiful day."}), who)
			default:
				body = fmt.Sprintf(pick([]string{"I met %s at the tram stop.", "Phone call with %s about the key.", "%s told me the time of the meeting.", "I asked %s for the address."}), who)
			}
		default:
			body = pick(asides)
		}
		w.texts = append(w.texts, synthesis.Text{ID: id, Kind: "memory", Body: body, At: at, Salience: 0.5})
	}
	return w
}

func title(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// judge reports whether a pattern is true in the world; ok is false for a pattern that is true of
// any texts, such as a burst of texts in one day.
func (w *world) judge(p synthesis.Pattern) (right, ok bool) {
	switch p.Type {
	case "semantic_cluster", "narrative_theme", "growth_theme":
		count := map[int]int{}
		for _, id := range p.Evidence {
			count[w.theme[id]]++
		}
		best, most := -1, 0
		for g, c := range count {
			if c > most {
				best, most = g, c
			}
		}
		if best == -1 { // asides and meetings repeat too: a topic if they are one sentence or one person
			return p.Type != "growth_theme" && 10*most >= 8*len(p.Evidence), true
		}
		return p.Type != "growth_theme" && 10*most >= 8*len(p.Evidence), true
	case "emotional_trigger":
		name := p.Subjects[0]
		if slices.Contains(w.people, name) {
			return p.ConfidenceParts["effect"] < 0 && w.low[name] || p.ConfidenceParts["effect"] > 0 && w.high[name], true
		}
		low, high := 0, 0 // of a topic: its texts are about such people
		for _, id := range p.Evidence {
			if w.low[w.person[id]] {
				low++
			}
			if w.high[w.person[id]] {
				high++
			}
		}
		return p.ConfidenceParts["effect"] < 0 && 2*low >= len(p.Evidence) || p.ConfidenceParts["effect"] > 0 && 2*high >= len(p.Evidence), true
	case "relationship", "support", "conflict", "trust", "attachment":
		return slices.Contains(w.people, p.Subjects[0]) && p.Type == "relationship", true
	case "goal", "aspiration", "fear", "possible_self", "value":
		return w.goal[p.Evidence[0]], true
	case "topic_connection":
		for _, id := range p.Evidence {
			if g := w.theme[id]; g != pairedThemes[0] && g != pairedThemes[1] {
				return false, true
			}
		}
		return true, true
	case "identity_development", "sense_making", "intensity_pattern":
		return false, true // nothing changes in this world
	}
	return true, false
}

func quality(n int, w *world) {
	a := analyze(w.texts)
	type one struct {
		confidence float64
		right      bool
	}
	var judged []one
	themes, people, goals, triggers, connected := map[int]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}, 0
	wrong := map[string]int{}
	for _, p := range a.Patterns {
		right, ok := w.judge(p)
		if !ok || p.Confidence < 0.7 {
			continue
		}
		judged = append(judged, one{p.Confidence, right})
		if !right {
			wrong[p.Type]++
			continue
		}
		switch p.Type {
		case "semantic_cluster", "narrative_theme":
			if g := w.theme[p.Evidence[0]]; g >= 0 {
				themes[g] = true
			}
		case "relationship":
			people[p.Subjects[0]] = true
		case "goal":
			goals[p.Subjects[0]] = true
		case "emotional_trigger":
			triggers[p.Subjects[0]] = true
		case "topic_connection":
			connected = 1
		}
	}
	trigger := 0
	for name := range triggers {
		if slices.Contains(w.people, name) {
			trigger++
		}
	}
	hits := 0
	for _, j := range judged {
		if j.right {
			hits++
		}
	}
	found := len(themes) + len(people) + len(goals) + trigger + connected
	all := w.themes + len(w.people) + w.goals + len(w.low) + len(w.high) + 1
	name := func(what string) string { return fmt.Sprintf("synthesis.planted.%d.%s", n, what) }
	figures.Print(name("patterns"), float64(len(judged)), "count", 0, "")
	figures.Print(name("precision"), float64(hits)/math.Max(1, float64(len(judged))), "share", 0, "")
	figures.Print(name("recall"), float64(found)/float64(all), "share", 0, "")
	fmt.Printf("# found %d of %d themes, %d of %d people, %d of %d goals, %d of %d triggers, %d of 1 connections; wrong %v\n", len(themes), w.themes, len(people), len(w.people), len(goals), w.goals, trigger, len(w.low)+len(w.high), connected, wrong)
	// Expected calibration error over five bins of confidence.
	bins := make([][]one, 5)
	for _, j := range judged {
		b := min(4, int((j.confidence-0.7)/0.06))
		bins[b] = append(bins[b], j)
	}
	errSum := 0.0
	for _, b := range bins {
		conf, right := 0.0, 0.0
		for _, j := range b {
			conf += j.confidence
			if j.right {
				right++
			}
		}
		errSum += math.Abs(conf - right)
	}
	figures.Print(name("calibration error"), errSum/math.Max(1, float64(len(judged))), "share", 0, "")
}

// shuffle redistributes the words and the times of all texts.
func shuffle(r *rand.Rand, texts []synthesis.Text) []synthesis.Text {
	var words []string
	for _, t := range texts {
		words = append(words, strings.Fields(strings.ToLower(t.Body))...)
	}
	r.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
	out := slices.Clone(texts)
	for i := range out {
		n := len(strings.Fields(out[i].Body))
		out[i].Body = title(strings.Join(words[:n], " "))
		words = words[n:]
	}
	return out
}
