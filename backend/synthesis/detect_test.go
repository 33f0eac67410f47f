package synthesis

import (
	"crypto/sha256"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestTemporalWindows(t *testing.T) {
	t.Parallel()
	windows := func(offsets ...time.Duration) (sizes []int) {
		var texts []Text
		for i, d := range offsets {
			texts = append(texts, Text{ID: fmt.Sprint("t", i), Kind: "memory", Body: "x", At: monday.Add(d)})
		}
		a := analyze(t, Input{Texts: texts})
		for _, p := range ofType(a.Patterns, "temporal_cluster") {
			sizes = append(sizes, len(p.Evidence))
			first, last := p.EvidenceDetail[0].OccurredAt, p.EvidenceDetail[len(p.EvidenceDetail)-1].OccurredAt
			if last.Sub(first) > day {
				t.Errorf("a cluster of %s", last.Sub(first))
			}
		}
		slices.Sort(sizes)
		return sizes
	}
	const h = time.Hour
	var far []time.Duration
	for i := range time.Duration(10) {
		far = append(far, i*23*h)
	}
	for _, c := range []struct {
		offsets []time.Duration
		want    []int
	}{
		{[]time.Duration{0, 2 * h, 5 * h}, []int{3}},
		{[]time.Duration{0, h, 24 * h}, []int{3}},
		{[]time.Duration{0, h, 24*h + time.Minute}, nil},
		{[]time.Duration{0, h, 2 * h, 100 * h, 101 * h, 102 * h, 103 * h}, []int{3, 4}}, // the last one too
		{far, nil},
	} {
		if got := windows(c.offsets...); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.offsets, got, c.want)
		}
	}
}

// planted returns texts on synthetic subjects with vectors around synthetic centers.
func planted(r *rand.Rand, each int, spread float64) (texts []Text) {
	words := []string{"marathon training knee", "sourdough bread oven", "guitar chords song"}
	for g, w := range words {
		center := make([]float32, 64)
		for k := range center {
			center[k] = float32(r.NormFloat64())
		}
		for i := range each {
			v := make([]float32, 64)
			for k := range v {
				v[k] = center[k] + float32(spread*r.NormFloat64())
			}
			texts = append(texts, Text{ID: fmt.Sprintf("g%d-%02d", g, i), Kind: "memory", Body: fmt.Sprintf("note %s %d", w, i), At: monday.Add(time.Duration(i*50+g*7) * time.Hour), Vector: v, Salience: 0.5})
		}
	}
	return texts
}

func TestSemanticClusters(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 1))
	tight, loose := analyze(t, Input{Texts: planted(r, 8, 0.15)}), analyze(t, Input{Texts: planted(r, 8, 0.45)})
	a, b := ofType(tight.Patterns, "semantic_cluster"), ofType(loose.Patterns, "semantic_cluster")
	if len(a) != 3 || len(b) != 3 {
		t.Fatalf("%d and %d clusters", len(a), len(b))
	}
	if a[0].Confidence <= b[0].Confidence {
		t.Errorf("a tight cluster has %f, a loose one %f", a[0].Confidence, b[0].Confidence)
	}
	if !strings.Contains(a[0].Description, "8 memories about") {
		t.Error(a[0].Description)
	}
	// Vectors ten times as long yield the same clusters; those of other lengths, zero or NaN are skipped.
	texts := planted(rand.New(rand.NewPCG(1, 1)), 8, 0.15)
	for i := range texts {
		for k := range texts[i].Vector {
			texts[i].Vector[k] *= 10
		}
	}
	nan := make([]float32, 64)
	nan[3] = float32(math.NaN())
	for i, v := range [][]float32{make([]float32, 96), make([]float32, 64), nan, nil} {
		texts = append(texts, Text{ID: fmt.Sprint("odd", i), Kind: "memory", Body: "marathon training knee again", At: monday.Add(time.Duration(i) * 90 * time.Hour), Vector: v})
	}
	long := analyze(t, Input{Texts: texts})
	var ids [][]string
	for _, p := range ofType(long.Patterns, "semantic_cluster") {
		ids = append(ids, p.Evidence)
	}
	for _, p := range a {
		if !slices.ContainsFunc(ids, func(other []string) bool { return slices.Equal(other, p.Evidence) }) {
			t.Errorf("%v is not among %v", p.Evidence, ids)
		}
	}
	if len(long.Warnings) == 0 {
		t.Error("nothing says that texts were left out")
	}
	for i := range texts { // random vectors
		for k := range texts[i].Vector {
			texts[i].Vector[k] = float32(r.NormFloat64())
		}
	}
	if got := ofType(analyze(t, Input{Texts: texts}).Patterns, "semantic_cluster"); len(got) != 0 {
		t.Errorf("random vectors make %d clusters", len(got))
	}
	if got := ofType(analyze(t, Input{Texts: texts[:2]}).Patterns, "semantic_cluster"); len(got) != 0 {
		t.Error("two texts make a cluster")
	}
}

func TestAnalysisDependsOnTheTextsAlone(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 3))
	texts := planted(r, 40, 0.6)
	for i := range texts {
		texts[i].Body += []string{" Anna called me.", " I told Anna that I plan to leave the city.", " We argued with Ben.", ""}[i%4]
	}
	want := compactJSON(analyze(t, Input{Texts: texts}))
	for range 3 {
		r.Shuffle(len(texts), func(i, j int) { texts[i], texts[j] = texts[j], texts[i] })
		if compactJSON(analyze(t, Input{Texts: texts})) != want {
			t.Fatal("the order of the texts changes the result")
		}
	}
	old := runtime.GOMAXPROCS(1)
	one := compactJSON(analyze(t, Input{Texts: texts}))
	runtime.GOMAXPROCS(8)
	eight := compactJSON(analyze(t, Input{Texts: texts}))
	runtime.GOMAXPROCS(old)
	if one != want || eight != want {
		t.Error("the number of threads changes the result")
	}
}

func TestStatements(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"I plan to run a marathon in Hamburg.":                                "goal: run a marathon in Hamburg",
		"My goal is to finish the book by May.":                               "goal: finish the book by May",
		"Next year I want to learn Spanish, because why not.":                 "goal: learn Spanish",
		"I've decided to quit smoking.":                                       "goal: quit smoking",
		"We're saving up for a house.":                                        "goal: saving up for a house",
		"I'm really afraid of losing my job.":                                 "fear: losing my job",
		"I worry about my mother's health.":                                   "fear: my mother's health",
		"I've always wanted to see the northern lights.":                      "aspiration: see the northern lights",
		"I want to become a nurse.":                                           "possible_self: nurse",
		"Honesty is really important to me.":                                  "value: Honesty",
		"I don't want to run a marathon.":                                     "",
		"I never want to see that place again.":                               "",
		"She said: \"I want to run a marathon.\"":                             "",
		"He told me I should plan to sell the car.":                           "",
		"Do I want to run a marathon?":                                        "",
		"If I plan to travel to Peru, I need vaccinations.":                   "",
		"> I plan to run a marathon":                                          "",
		"Your friendship means a lot to me.":                                  "",
		"I want to see you.":                                                  "",
		"I no longer want to study law.":                                      "",
		"The library plans to open a new branch.":                             "",
		"I'm not afraid of spiders.":                                          "",
		"Must have been such a rush on the summit!":                           "",
		"My sister thinks I should learn Spanish.":                            "",
		"The thought of moving abroad scares me.":                             "fear: The thought of moving abroad",
		"It's important to me to keep old friends.":                           "value: keep old friends",
		"Ich möchte endlich Klavier lernen.":                                  "goal: Klavier lernen",
		"I'm training for a half marathon and I bought new shoes for it.":     "goal: training for a half marathon",
		"I am planning to visit my brother in Lisbon when the weather is ok.": "goal: visit my brother in Lisbon",
	} {
		got := ""
		for _, s := range sentences(text) {
			if st, ok := readStatement(s); ok {
				got = st.typ + ": " + st.object
			}
		}
		if got != want {
			t.Errorf("%s\n  got  %q\n  want %q", text, got, want)
		}
	}
}

func TestOutcomeOfPlans(t *testing.T) {
	t.Parallel()
	a := analyze(t, Input{Texts: made(100*time.Hour,
		"I plan to run a marathon in Hamburg next year", "nothing new", "I finally finished my first marathon in Hamburg!",
		"I plan to learn the accordion from Otto", "nothing again", "I gave up the accordion, Otto was right",
		"I want to build a garden shed", "still no garden shed, but I want to build a shed", "bye")})
	got := map[string]string{}
	for _, p := range ofType(a.Patterns, "goal") {
		got[p.Subjects[0]] = p.Description
	}
	for object, words := range map[string]string{"run a marathon in Hamburg next year": "it was done", "learn the accordion from Otto": "given up", "build a garden shed": "came up again"} {
		if !strings.Contains(got[object], words) {
			t.Errorf("%s: %q does not say %q", object, got[object], words)
		}
	}
	if !strings.Contains(got["run a marathon in Hamburg next year"], "meant for 2027") {
		t.Error(got)
	}
}

func TestPeople(t *testing.T) {
	t.Parallel()
	texts := made(30*time.Hour,
		"I met Anna at the station", "I called Anna and she said that all is fine", "Dinner with Anna in Paris", "We flew to Paris. I love Paris", "Anna told me about the time in Paris",
		"My sister Nora helped me with the move", "Nora was there for me again", "Nora helped me, and then we laughed", "My mother called", "My mother is ill", "I visited my mother", "my mother was happy", "My mother sent a cake",
		"I argued with Ben and We've had enough", "Ben yelled at me, and We've had enough", "I had a fight with Ben", "Ben never helped me", "In Paris it rained")
	a := &analysis{in: Input{Texts: texts, Zone: time.UTC}, texts: make([]scored, len(texts))}
	got := map[string]int{}
	for _, p := range a.people() {
		got[p.name] = len(p.mentions)
	}
	for name, n := range map[string]int{"Anna": 4, "Nora": 3, "your mother": 5, "Ben": 4, "Paris": 0, "We've": 0} {
		if got[name] != n {
			t.Errorf("%s: %d mentions, want %d (%v)", name, got[name], n, got)
		}
	}
	full := analyze(t, Input{Texts: texts})
	for typ, name := range map[string]string{"support": "Nora", "conflict": "Ben", "relationship": "your mother"} {
		if !slices.ContainsFunc(ofType(full.Patterns, typ), func(p Pattern) bool { return p.Subjects[0] == name }) {
			t.Errorf("no %s with %s", typ, name)
		}
	}
	if slices.ContainsFunc(ofType(full.Patterns, "support"), func(p Pattern) bool { return p.Subjects[0] == "Ben" }) {
		t.Error("a negated cue counts")
	}
}

func TestStatistics(t *testing.T) {
	t.Parallel()
	// Reference values: R 4.3, t.test and cor.test(method = "kendall", exact = FALSE, continuity = TRUE).
	d, p := welch([]float64{2.1, 2.5, 3.0, 3.4, 2.8}, []float64{1.0, 1.4, 1.2, 0.9, 1.6, 1.1})
	if p > 0.001 || p < 0.00005 || d < 3 {
		t.Errorf("welch %f %g", d, p)
	}
	if got := studentTail(2.228, 10); math.Abs(got-0.05) > 1e-4 {
		t.Errorf("two-sided p of t = 2.228 with 10 degrees is %f", got)
	}
	if got := studentTail(1.96, 1e6); math.Abs(got-0.05) > 1e-4 {
		t.Errorf("p of the normal limit is %f", got)
	}
	h := holm([]float64{0.01, 0.04, 0.03, 0.005})
	for i, want := range []float64{0.03, 0.06, 0.06, 0.02} {
		if math.Abs(h[i]-want) > 1e-12 {
			t.Errorf("holm %v", h)
		}
	}
	var x, y []float64
	for i := range 30 {
		x, y = append(x, float64(i)), append(y, 0.5*float64(i)+float64(i%3))
	}
	if s, p := trend(x, y); math.Abs(s-0.5) > 0.05 || p > 1e-6 {
		t.Errorf("trend %f %g", s, p)
	}
	r := rand.New(rand.NewPCG(4, 4))
	hits := 0
	for range 400 {
		for i := range y {
			y[i] = r.NormFloat64()
		}
		if _, p := trend(x, y); p < 0.05 {
			hits++
		}
	}
	if hits > 40 {
		t.Errorf("%d of 400 random series have a trend at 0.05", hits)
	}
	step := make([]float64, 60)
	for i := range step {
		step[i] = 0.1*r.NormFloat64() + float64(i/30)
	}
	if got := turningPoints(step); len(got) != 1 || got[0] < 28 || got[0] > 32 {
		t.Errorf("turning points %v", got)
	}
	if _, _, p := rhythm([]int{20, 1, 0, 2, 1, 0, 1}, 1, 1); p > 0.01 {
		t.Errorf("rhythm p %f", p)
	}
	if _, _, p := rhythm([]int{4, 3, 4, 3, 4, 3, 4}, 1, 1); p < 0.1 {
		t.Errorf("no rhythm, p %f", p)
	}
}

// Valences that are NaN or out of range are unknown.
func TestUnknownValences(t *testing.T) {
	t.Parallel()
	texts := made(time.Hour, "a", "b", "c", "d", "e", "f")
	for i, v := range []float64{math.NaN(), 3, -7, math.Inf(1), 0.2, 0.4} {
		texts[i].Valence = &v
	}
	a := analyze(t, Input{Texts: texts})
	if a.EmotionalProfile.EmotionalRange[1] > 0.4 || a.EmotionalProfile.EmotionalRange[0] < 0.2 {
		t.Errorf("%+v", a.EmotionalProfile)
	}
}

func TestEmotionalPatterns(t *testing.T) {
	t.Parallel()
	var texts []Text
	for i := range 60 {
		v, body := 0.1*float64(i%3), "a day at the office with spreadsheets"
		if i%4 == 0 {
			v, body = -0.6+0.05*float64(i%3), "I argued with Ben about money"
		}
		if i%4 == 2 {
			body = "I called Ben? no, I met Clara in the park"
		}
		texts = append(texts, Text{ID: fmt.Sprintf("t%02d", i), Kind: "memory", Body: body, At: monday.Add(time.Duration(i) * 30 * time.Hour), Valence: &v})
	}
	a := analyze(t, Input{Texts: texts, Type: Emotional})
	neg := ofType(a.Patterns, "emotional_negative")
	if len(neg) != 1 || len(neg[0].Evidence) != 15 || !strings.Contains(neg[0].Description, "low mood") {
		t.Errorf("%+v", neg)
	}
	if len(ofType(a.Patterns, "emotional_regulation")) != 1 {
		t.Error("no recovery")
	}
	// The same moods in random order are not recoveries, although most lows are followed by
	// something better.
	found := 0
	for seed := range uint64(20) {
		mixed := slices.Clone(texts)
		rand.New(rand.NewPCG(seed, 1)).Shuffle(len(mixed), func(i, j int) { mixed[i].Valence, mixed[j].Valence = mixed[j].Valence, mixed[i].Valence })
		found += len(ofType(analyze(t, Input{Texts: mixed, Type: Emotional}).Patterns, "emotional_regulation"))
	}
	if found > 1 {
		t.Errorf("%d of 20 random orders recover", found)
	}
	for _, p := range a.Patterns {
		if patternKinds[p.Type].detector != "emotional" {
			t.Errorf("%s in a synthesis of emotions", p.Type)
		}
	}
}

// The local engine cannot open sockets, because none of its dependencies can.
func TestLocalEngineCannotReachANetwork(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Skip("no go command:", err)
	}
	for dep := range strings.FieldsSeq(string(out)) {
		if dep == "helix/backend/safehttp" || strings.HasPrefix(dep, "helix/backend/gateway") {
			t.Errorf("it depends on %s", dep)
		}
	}
}

// Two processes produce the same bytes.
func TestTwoProcessesAgree(t *testing.T) {
	t.Parallel()
	texts := planted(rand.New(rand.NewPCG(6, 6)), 30, 0.6)
	for i := range texts {
		texts[i].Body += []string{" Anna called me.", " I told Anna that I plan to leave the city.", " We argued with Ben.", ""}[i%4]
	}
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(compactJSON(analyze(t, Input{Texts: texts})))))
	if os.Getenv("SYNTHESIS_CHILD") != "" {
		fmt.Println("sum", sum)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^TestTwoProcessesAgree$", "-test.v")
	cmd.Env = append(os.Environ(), "SYNTHESIS_CHILD=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "sum "+sum) {
		t.Errorf("%v, want %s in\n%s", err, sum, out)
	}
}
