package synthesis

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

func TestMapFollowsEveryChangeOfItsTexts(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	f.remember(t, 7*time.Hour, aboutPeople...)
	look := func() MapResult {
		t.Helper()
		m, err := f.ClusterMap(f.ctx, MapParams{})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	first := look()
	if again := look(); !reflect.DeepEqual(first, again) || first.Skipped != len(aboutPeople) {
		t.Errorf("%+v, then %+v", first, again)
	}
	f.remember(t, time.Hour, "A new text")
	if m := look(); m.Skipped != len(aboutPeople)+1 {
		t.Errorf("after a new text: %+v", m)
	}
	if theirs, err := f.ClusterMap(f.them, MapParams{}); err != nil || theirs.Skipped != 0 {
		t.Error(theirs, err)
	}
	in := Input{Texts: []Text{{ID: "a", Body: "b", Vector: []float32{1, 2}}}, Names: []Alias{{"x", ""}}}
	keys := map[[32]byte]bool{mapKey(in): true}
	for _, change := range []func(*Input){
		func(in *Input) { in.Names = nil }, func(in *Input) { in.Names = []Alias{{"", "x"}} },
		func(in *Input) { in.Texts = []Text{{ID: "ab", Vector: []float32{1, 2}}} }, func(in *Input) { in.Texts = []Text{{ID: "a", Body: "b", Vector: []float32{2, 1}}} },
	} {
		other := in
		change(&other)
		keys[mapKey(other)] = true
	}
	if len(keys) != 5 {
		t.Errorf("%d keys of 5 inputs", len(keys))
	}
}

// The axes are computed from a sample of the texts; groups that differ are nevertheless
// separated on the plane.
func TestPlaneKeepsGroupsApart(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 5))
	var vectors [][]float32
	for i := range 3000 {
		v := make([]float32, 32)
		for k := range v {
			v[k] = float32(0.1 * r.NormFloat64())
		}
		v[i%3]++
		vectors = append(vectors, v)
	}
	x, y := plane(vectors)
	var cx, cy [3]float64
	for i := range vectors {
		if x[i] < -1 || x[i] > 1 || y[i] < -1 || y[i] > 1 {
			t.Fatal(x[i], y[i])
		}
		cx[i%3] += x[i] / 1000
		cy[i%3] += y[i] / 1000
	}
	wrong := 0
	for i := range vectors {
		for g := range 3 {
			near := func(k int) float64 { return (x[i]-cx[k])*(x[i]-cx[k]) + (y[i]-cy[k])*(y[i]-cy[k]) }
			if g != i%3 && near(g) < near(i%3) {
				wrong++
			}
		}
	}
	if wrong > 3 {
		t.Errorf("%d of 3000 points stand in another group", wrong)
	}
}
