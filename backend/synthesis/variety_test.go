package synthesis

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/memory"
)

// A person who writes often has many busy days. They don't hide the goal, which is less certain.
func TestVarietyStartsWithTheBestOfEachType(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	for day := range 4 {
		for i := range 6 {
			at := monday.AddDate(0, 0, 14*day+3).Add(time.Duration(i) * time.Minute)
			if _, err := f.mem.Add(f.ctx, memory.AddParams{Content: fmt.Sprintf("The train was late again, for the %dth time", 6*day+i), OccurredAt: &at}); err != nil {
				t.Fatal(err)
			}
		}
	}
	f.remember(t, time.Hour, goal)
	f.run(t, SynthesizeParams{})

	pages := func(sort string) (types []string, confidences []float64) {
		seen := map[uuid.UUID]bool{}
		for {
			page, err := f.Patterns(f.ctx, PatternsParams{Sort: sort, Limit: 2, Offset: len(seen)})
			if err != nil {
				t.Fatal(err)
			}
			if len(page.Patterns) == 0 {
				break
			}
			for _, p := range page.Patterns {
				if seen[p.ID] {
					t.Fatalf("%s lists %s twice", sort, p.Description)
				}
				seen[p.ID] = true
				types, confidences = append(types, p.Type), append(confidences, p.Confidence)
			}
		}
		return types, confidences
	}
	kinds := map[string]int{}
	all, _ := pages("confidence")
	for _, typ := range all {
		kinds[typ]++
	}
	if kinds["temporal_cluster"] < 3 || kinds["goal"] != 1 {
		t.Fatalf("found %v", kinds)
	}
	got, confidences := pages("variety")
	if len(got) != len(all) {
		t.Fatalf("%d of %d patterns", len(got), len(all))
	}
	first := map[string]bool{}
	for i, typ := range got[:len(kinds)] {
		if first[typ] || i > 0 && confidences[i] > confidences[i-1] {
			t.Fatalf("the list begins with %v, %v", got[:i+1], confidences[:i+1])
		}
		first[typ] = true
	}
}
