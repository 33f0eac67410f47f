package synthesis

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// threeTopics returns texts of 60 days: bread on ten days, guitar on nine of these, and the
// marathon on the days for which marathon returns true.
func threeTopics(parents bool, marathon func(day int) bool) (texts []Text) {
	r := rand.New(rand.NewPCG(3, 9))
	centers := make([][]float32, 3)
	for g := range centers {
		centers[g] = make([]float32, 64)
		for k := range centers[g] {
			centers[g][k] = float32(r.NormFloat64())
		}
	}
	add := func(day, hour, topic int, body string) {
		t := Text{ID: fmt.Sprintf("t%02d-%d", day, hour), Kind: "memory", Body: fmt.Sprintf("%s %d", body, day), At: monday.AddDate(0, 0, day).Add(time.Duration(hour) * time.Hour), Salience: 0.5}
		if parents {
			t.Kind, t.Parent = "turn", fmt.Sprint("conversation ", day)
		}
		if topic >= 0 {
			t.Vector = make([]float32, 64)
			for k := range t.Vector {
				t.Vector[k] = centers[topic][k] + float32(0.2*r.NormFloat64())
			}
		}
		texts = append(texts, t)
	}
	for day := range 60 {
		add(day, 0, -1, "nothing much")
		if day%6 == 0 {
			add(day, 2, 0, "the sourdough bread oven crust")
			if day != 30 {
				add(day, 7, 1, "the guitar chords song practice")
			}
		}
		if marathon(day) {
			add(day, 4, 2, "the marathon training knee shoes")
		}
	}
	return texts
}

func otherDays(day int) bool { return day%6 == 3 }

func TestTopicsOnTheSameDaysAreConnected(t *testing.T) {
	t.Parallel()
	for _, spoken := range []bool{false, true} {
		a := analyze(t, Input{Texts: threeTopics(spoken, otherDays), Type: Emotional})
		got := ofType(a.Patterns, "topic_connection")
		if len(got) != 1 {
			t.Fatalf("%+v", got)
		}
		p := got[0]
		unit := "on 9 of 10 days with one of them"
		if spoken {
			unit = "in 9 of 10 conversations with one of them"
		}
		if p.Layer != 2 || p.PatternType != "emotional_topic_connection" || len(p.Evidence) != 18 || p.Confidence < 0.9 || !strings.Contains(p.Description, unit) || !strings.Contains(p.Subjects[0]+p.Subjects[1], "guitar") {
			t.Errorf("%+v", p)
		}
		for _, id := range p.Evidence {
			if !strings.HasSuffix(id, "-2") && !strings.HasSuffix(id, "-7") {
				t.Errorf("evidence %s", id)
			}
		}
	}
}

// The same texts at random times are not connected, and neither are topics that merely belong to
// the same weeks.
func TestTopicsOfTheSamePeriodAreNotConnected(t *testing.T) {
	t.Parallel()
	found := 0
	for seed := range uint64(30) {
		texts := threeTopics(false, otherDays)
		rand.New(rand.NewPCG(seed, 2)).Shuffle(len(texts), func(i, j int) { texts[i].At, texts[j].At = texts[j].At, texts[i].At })
		found += len(ofType(analyze(t, Input{Texts: texts, Type: Emotional}).Patterns, "topic_connection"))
	}
	if found > 1 {
		t.Errorf("%d connections in 30 shuffles", found)
	}
	texts := threeTopics(false, func(day int) bool { return day/6%2 == 0 }) // on half of the days, including half of those with bread
	for i := range 400 {
		at := monday.AddDate(0, 0, i-200)
		texts = append(texts, Text{ID: fmt.Sprintf("x%03d", i), Kind: "memory", Body: "nothing much", At: at})
	}
	got := ofType(analyze(t, Input{Texts: texts, Type: Emotional}).Patterns, "topic_connection")
	if len(got) != 1 || strings.Contains(strings.Join(got[0].Subjects, " "), "marathon") {
		t.Errorf("%+v", got)
	}
}

// The confidence of connections equals their precision, in simulated lives with other seeds and
// without texts: eight topics of random size, half of whose texts are seasonal, and pairs that
// share days at random.
func TestConnectionConfidenceFitsTheShareThatIsRight(t *testing.T) {
	t.Parallel()
	right, all, promised := 0, 0, 0.0
	for seed := range uint64(80) {
		r := rand.New(rand.NewPCG(seed, 40))
		a := newAnalysis(t.Context(), Input{Type: Emotional})
		a.groups = &grouping{}
		days := 120 + r.IntN(500)
		in := make([]map[int]bool, 8)
		for g := range in {
			in[g] = map[int]bool{}
			season := r.Float64()
			for range 10 + r.IntN(60) {
				day := r.Float64()
				if r.Float64() < 0.5 {
					day = 0.8*season + 0.2*r.Float64()
				}
				if g == 1 || g == 3 { // connected with the previous topic with random strength
					for other := range days {
						if in[g-1][other] && r.Float64() < 0.003*float64(g) {
							in[g][other] = true
						}
					}
				}
				in[g][int(day*float64(days))] = true
			}
		}
		for d := range days {
			a.in.Texts = append(a.in.Texts, Text{ID: fmt.Sprintf("d%04d", d), At: monday.AddDate(0, 0, d)})
		}
		for g := range in {
			x := group{key: fmt.Sprint(g), name: fmt.Sprint(g), confidence: 0.75}
			for d := range days {
				if in[g][d] {
					x.members = append(x.members, d)
				}
			}
			a.groups.list = append(a.groups.list, x)
		}
		a.texts = make([]scored, days)
		a.connections()
		for _, p := range a.out.Patterns {
			all++
			promised += p.Confidence
			if s := strings.Join(p.Subjects, ""); s == "01" || s == "23" {
				right++
			}
		}
	}
	got := float64(right) / float64(all)
	t.Logf("%d of %d connections are right", right, all)
	if all < 40 || math.Abs(promised/float64(all)-got) > 0.1 {
		t.Errorf("%.3f of %d connections are right, and their mean confidence is %.3f", got, all, promised/float64(all))
	}
}
