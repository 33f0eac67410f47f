package synthesis

import (
	"testing"
	"time"

	"helix/backend/storage/storagetest"
)

// Two devices find the same pattern in the same texts: it becomes one row, its observations are
// added, and a verdict on one device applies to both.
func TestPatternsOfTwoDevicesAreOne(t *testing.T) {
	t.Parallel()
	a, b := newFixture(t, Options{}), newFixture(t, Options{})
	for _, f := range []*fixture{a, b} {
		f.remember(t, time.Hour, goal, "I want to learn Spanish next year", "dinner was good")
	}
	mine := ofType(a.run(t, SynthesizeParams{}).Analysis.Patterns, "goal")
	theirs := ofType(b.run(t, SynthesizeParams{}).Analysis.Patterns, "goal")
	b.run(t, SynthesizeParams{})
	if len(mine) != 2 || len(theirs) != 2 || mine[0].ID != theirs[0].ID || mine[1].ID != theirs[1].ID {
		t.Fatalf("%+v\n%+v", mine, theirs)
	}
	no, err := a.Feedback(a.ctx, FeedbackParams{ID: mine[0].ID, Verdict: "reject", Note: ptr("not me")})
	if err != nil {
		t.Fatal(err)
	}
	storagetest.Exchange(t, "memory_patterns", nil, a.db, b.db)
	storagetest.Exchange(t, "memory_synthesis", nil, a.db, b.db)
	storagetest.Exchange(t, "synthesis_recommendations", nil, a.db, b.db)
	for _, f := range []*fixture{a, b} {
		if n := f.rows(t, "memory_patterns"); n != len(a.patterns(t, ""))+1 {
			t.Errorf("%d rows", n)
		}
		p, err := f.Pattern(f.ctx, PatternParams{mine[0].ID})
		if err != nil || p.Status != "rejected" || p.UserNotes != "not me" || p.ObservationCount != 3 || !p.FirstDetected.Equal(no.Pattern.FirstDetected) || !p.LastObserved.After(no.Pattern.LastObserved) {
			t.Errorf("%+v %v", p, err)
		}
		if got := ofType(f.run(t, SynthesizeParams{}).Analysis.Patterns, "goal"); len(got) != 1 || got[0].ID != mine[1].ID {
			t.Errorf("after the exchange: %+v", got)
		}
	}
}

func (f *fixture) patterns(t *testing.T, status string) []Pattern {
	t.Helper()
	r, err := f.Patterns(f.ctx, PatternsParams{Status: status})
	if err != nil {
		t.Fatal(err)
	}
	return r.Patterns
}
