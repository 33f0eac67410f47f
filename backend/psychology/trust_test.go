package psychology

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
)

func randomInteractions(seed uint64, n int) (list []interaction) {
	r := rand.New(rand.NewPCG(seed, 1))
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range n {
		x := interaction{id: uuid.New(), at: at.Add(time.Duration(i) * time.Hour), tier: []string{"critical", "high", "medium", "low"}[r.IntN(4)]}
		if r.IntN(3) == 0 {
			x.dimension = trustDimensions[r.IntN(5)].name
		}
		if r.IntN(5) > 0 {
			x.evidence = ptr(2*r.Float64() - 0.8)
		}
		list = append(list, x)
	}
	return list
}

func TestTrustStaysInBoundsAndReplays(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		list := randomInteractions(seed, 300)
		s := newTrust()
		for i, x := range list {
			s.apply(x)
			for _, d := range s.Trust.dimensions() {
				if !(*d >= 0 && *d <= 1) {
					t.Fatalf("seed %d: %g", seed, *d)
				}
			}
			if i%50 == 0 && replay(list[:i+1]) != s {
				t.Fatalf("seed %d: replay of %d differs", seed, i+1)
			}
		}
	}
}

func TestTrustStep(t *testing.T) {
	t.Parallel()
	s := newTrust()
	if !near(s.Trust.Overall, 0.1) || s.Stage != "pre_attachment" {
		t.Errorf("%+v", s)
	}
	s.apply(interaction{evidence: ptr(1.0), tier: "critical"})
	if want := 0.1 + 0.05*1*0.5*0.9; !near(s.Trust.Overall, want) || !near(s.Trust.Integrity, want) {
		t.Errorf("%+v, want %g", s.Trust, want)
	}
	before := s.Trust
	s.apply(interaction{tier: "high"}) // a promise with unknown outcome
	if s.Trust != before || s.Interactions != 2 || s.HighSalienceInteractions != 2 {
		t.Errorf("%+v", s)
	}
	s.apply(interaction{evidence: ptr(-1.0), tier: "low", dimension: "integrity"})
	if want := before.Integrity * (1 - 0.05*0.25*0.5); !near(s.Trust.Integrity, want) || s.Trust.Competence != before.Competence {
		t.Errorf("%+v", s.Trust)
	}
}

// A stage requires trust, interactions and high-salience interactions together, and is left only
// well below its minimum.
func TestTrustStages(t *testing.T) {
	t.Parallel()
	s := newTrust()
	for range 9 {
		s.apply(interaction{evidence: ptr(1.0), tier: "critical"})
	}
	if s.Stage != "pre_attachment" || s.Trust.Overall < 0.15 || s.needs().Interactions != 1 {
		t.Errorf("%+v %+v", s, s.needs())
	}
	s.apply(interaction{tier: "low"})
	if s.Stage != "early_trust" {
		t.Errorf("%+v", s)
	}
	for s.Trust.Overall > 0.15-stageMargin/2 {
		s.apply(interaction{evidence: ptr(-1.0), tier: "critical"})
	}
	if s.Stage != "early_trust" {
		t.Error("the stage is left just below its line")
	}
	for s.Trust.Overall > 0.15-stageMargin-0.001 {
		s.apply(interaction{evidence: ptr(-1.0), tier: "critical"})
	}
	if s.Stage != "pre_attachment" {
		t.Errorf("%+v", s)
	}
	low := newTrust()
	for range 200 {
		low.apply(interaction{evidence: ptr(1.0), tier: "low"})
	}
	if low.stage > 1 {
		t.Errorf("a stage without high-salience interactions: %+v", low)
	}
}

func TestInteractionsCanBeCorrected(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.entry(f.ctx, 3, "person", `{"name":"Ada","relationship":"sister"}`, 0)
	record := func(e float64, replaces *uuid.UUID, at time.Time) InteractionResult {
		return must(f.RecordInteraction(f.ctx, InteractionParams{PersonID: p.ID, At: at, Evidence: &e, SalienceTier: "high", Replaces: replaces, Note: "a note"}))(t)
	}
	now := time.Now().Truncate(time.Microsecond)
	wrong := record(-1, nil, now.Add(-2*time.Hour))
	record(1, nil, now.Add(-time.Hour))
	right := record(1, &wrong.InteractionID, now.Add(-2*time.Hour))
	want := replay([]interaction{{evidence: ptr(1.0), tier: "high"}, {evidence: ptr(1.0), tier: "high"}})
	if !near(right.After, want.Trust.Overall) || trustOf(right.Person).Interactions != 2 {
		t.Errorf("%+v, want %g", right, want.Trust.Overall)
	}
	m := must(f.TrustMap(f.ctx, TrustMapParams{PersonID: &p.ID}))(t)
	if len(m.People) != 1 || len(m.Interactions) != 2 || m.Interactions[0].Note != "a note" || m.People[0].Needs == nil || m.People[0].Needs.Interactions != 8 {
		t.Errorf("%+v", m)
	}
	if got := f.get(p.ID); got.title() != "Ada" {
		t.Errorf("%s", got.Data)
	}
	for name, q := range map[string]InteractionParams{
		"tier":      {PersonID: p.ID, SalienceTier: "huge"},
		"dimension": {PersonID: p.ID, SalienceTier: "low", Dimension: "charm"},
		"evidence":  {PersonID: p.ID, SalienceTier: "low", Evidence: ptr(1.5)},
		"NaN":       {PersonID: p.ID, SalienceTier: "low", Evidence: ptr(math.NaN())},
		"future":    {PersonID: p.ID, SalienceTier: "low", At: time.Now().AddDate(1, 0, 0)},
	} {
		if _, err := f.RecordInteraction(f.ctx, q); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := f.RecordInteraction(f.them, InteractionParams{PersonID: p.ID, SalienceTier: "low"}); !fault.Is(err, fault.NotFound) {
		t.Error(err)
	}
}

func TestTrustFades(t *testing.T) {
	t.Parallel()
	conf := defaults()
	list := randomInteractions(1, 400)
	for i := range list {
		list[i].evidence = ptr(1.0)
	}
	s := replay(list)
	if got := s.faded(conf, s.last.AddDate(1, 0, 0)); got != s.Trust {
		t.Error("trust fades although that is off")
	}
	conf.TrustDecay = true
	near, far := s.faded(conf, s.last.AddDate(0, 0, 1)), s.faded(conf, s.last.AddDate(9, 0, 0))
	if !(near.Overall < s.Trust.Overall && far.Overall <= near.Overall && far.Overall >= s.peak/2-1e-9) {
		t.Errorf("%g, %g, %g of a peak of %g", s.Trust.Overall, near.Overall, far.Overall, s.peak)
	}
}

func BenchmarkTrustReplay(b *testing.B) {
	list := randomInteractions(1, 10_000)
	for b.Loop() {
		replay(list)
	}
}
