package search

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"helix/backend/vector"
)

func TestTimesNamedInAQuestion(t *testing.T) {
	t.Parallel()
	now := time.Date(2024, 3, 13, 15, 0, 0, 0, time.UTC) // a Wednesday
	for _, c := range []struct {
		text    string
		in, not []string
	}{
		{text: "Where were we in May 2023?", in: []string{"2023-05-01", "2023-05-31", "2023-06-05"}, not: []string{"2023-04-30", "2022-05-10", "2023-06-09"}},
		{text: "What did she buy on 8 May, 2023?", in: []string{"2023-05-08", "2023-05-12"}, not: []string{"2023-05-07", "2023-05-17"}},
		{text: "on July 4th", in: []string{"2023-07-04", "2019-07-05"}, not: []string{"2023-07-20"}},
		{text: "the 3rd of October 2022", in: []string{"2022-10-03"}, not: []string{"2022-10-20"}},
		{text: "What happened in 2021?", in: []string{"2021-01-01", "2021-12-31"}, not: []string{"2022-02-01"}},
		{text: "what did I say last week", in: []string{"2024-03-04", "2024-03-10"}, not: []string{"2024-03-03"}},
		{text: "yesterday", in: []string{"2024-03-12"}, not: []string{"2024-03-11"}},
		{text: "last month", in: []string{"2024-02-01", "2024-02-29"}, not: []string{"2024-01-31"}},
		{text: "last year", in: []string{"2023-06-01"}, not: []string{"2022-12-31"}},
		{text: "You may march on. What may I do? May it help.", not: []string{"2023-05-10", "2023-03-10"}},
		{text: "Room 2 has 30 dec boxes mar", not: []string{"2023-03-01"}},
	} {
		q := cues{spans: spansIn(c.text, tokenize(c.text), now)}
		has := func(day string) bool {
			at, err := time.Parse(time.DateOnly, day)
			if err != nil {
				t.Fatal(err)
			}
			return q.factor(&row{occurred: at.UnixMicro()}, CueWeights{Time: 1}) > 1
		}
		for _, d := range c.in {
			if !has(d) {
				t.Errorf("%q does not mean %s", c.text, d)
			}
		}
		for _, d := range c.not {
			if has(d) {
				t.Errorf("%q means %s", c.text, d)
			}
		}
	}
	if q := (cues{spans: []span{{math.MinInt64, math.MaxInt64}}}); q.factor(&row{occurred: noTime}, CueWeights{Time: 1}) != 1 {
		t.Error("what has no time fits one")
	}
}

func TestFusion(t *testing.T) {
	t.Parallel()
	tu := DefaultTuning(Weights{Keyword: 1, Vector: 0.4, Window: 0.5})
	cs := tu.fuse(rankings{keyword: []scored{{1, 9}, {2, 8}}, window: []scored{{2, 5}}, meaning: []scored{{3, 0.9}, {1, 0.8}}}, tu.weightsOf(ModeHybrid))
	want := map[uint32]float64{1: 1.0/61 + 0.4/62, 2: 1.0/62 + 0.5/61, 3: 0.4 / 61}
	for _, c := range cs {
		if math.Abs(c.fused-want[c.item]) > 1e-12 {
			t.Errorf("item %d has %g, want %g", c.item, c.fused, want[c.item])
		}
	}
	if tu.noise(&candidate{vector: place{1, 0.36}}) || tu.noise(&candidate{keyword: place{1, 1}}) || !tu.noise(&candidate{vector: place{1, 0.34}}) {
		t.Error("the floor is elsewhere")
	}
	if d := DefaultTuning(Weights{}); d.Weights != defaultWeights {
		t.Errorf("the defaults are %+v", d.Weights)
	}
}

func TestPriorsStayNearOne(t *testing.T) {
	t.Parallel()
	now := time.Date(2024, 1, 31, 12, 0, 0, 0, time.UTC)
	at := func(days int) int64 { return now.AddDate(0, 0, -days).UnixMicro() }
	for _, c := range []struct {
		row  row
		want float64
	}{
		{row{occurred: at(0), salience: 50, retention: -1}, 1.1},
		{row{occurred: at(30), salience: 50, retention: -1}, 1.05},
		{row{occurred: noTime, kind: 1, salience: 50, retention: -1}, 1},
		{row{occurred: noTime, created: at(30), salience: 50, retention: -1}, 1.05},
		{row{occurred: at(3000), salience: 100, retention: 1, pinned: true}, 1.1 * 1.05},
		{row{occurred: at(3000), salience: 0, retention: 0}, 0.9 * 0.9},
	} {
		if got := priorsOf(&c.row, now).product(); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%+v has %g, want %g", c.row, got, c.want)
		}
	}
}

func TestLeadingIsASort(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 8))
	for range 200 {
		list := make([]int, r.IntN(400))
		for i := range list {
			list[i] = r.IntN(1000)*1000 + i
		}
		want := slices.Clone(list)
		slices.Sort(want)
		n := 1 + r.IntN(40)
		l := leading[int]{limit: n, less: func(a, b int) int { return a - b }}
		for _, x := range list {
			l.add(x)
		}
		if got := l.sorted(); !slices.Equal(got, want[:min(n, len(want))]) {
			t.Fatalf("the first %d of %d", n, len(want))
		}
	}
}

// TestDiversify computes one order by hand: relevance is weighted by half, and so is the greatest
// cosine with a preceding item.
func TestDiversify(t *testing.T) {
	t.Parallel()
	index, err := vector.Open(t.TempDir(), 64, "test")
	if err != nil {
		t.Fatal(err)
	}
	defer index.Close()
	for id, v := range [][2]float32{{1, 0}, {1, 0}, {0, 1}, {0.8, 0.6}} {
		vec := make([]float32, 64)
		vec[0], vec[1] = v[0], v[1]
		if err := index.Add(uint32(id), 1, vec); err != nil {
			t.Fatal(err)
		}
	}
	cs := []candidate{{item: 0, score: 1}, {item: 1, score: 0.7}, {item: 2, score: 0.5}, {item: 3, score: 0.6}}
	for _, c := range []struct {
		lambda float64
		want   []uint32
	}{{0.5, []uint32{0, 2, 3, 1}}, {1, []uint32{0, 1, 3, 2}}, {0, []uint32{0, 2, 3, 1}}} {
		var got []uint32
		for _, x := range diversify(slices.Clone(cs), c.lambda, index) {
			got = append(got, x.item)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("lambda %v: %v, want %v", c.lambda, got, c.want)
		}
	}
}

func TestQueryWithTwoSpeakersPrefersNeither(t *testing.T) {
	t.Parallel()
	var c catalog
	for _, name := range []string{"", "Ann", "Bob"} {
		c.speakerID(name)
	}
	for query, want := range map[string]int{"What do Ann and Bob love?": 0, "What does Ann love?": 1, "What do they love?": 0} {
		if got := c.speakersIn(tokenize(query)); len(got) != want {
			t.Errorf("%q prefers %v", query, got)
		}
	}
}
