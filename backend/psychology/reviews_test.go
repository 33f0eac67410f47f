package psychology

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/memory"
	"helix/backend/storage"
)

func TestPlannedReviewsShowInTheForecastUntilTheyAreMade(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.old(f.ctx, 240, "medium", 0)
	goal, err := f.UpsertEntry(f.ctx, UpsertParams{LayerNumber: 4, Kind: "goal", Data: json.RawMessage(`{"title":"Sail"}`)})
	if err != nil {
		t.Fatal(err)
	}
	noon := time.Now().UTC().Truncate(24 * time.Hour).Add(12 * time.Hour)
	at := func(days int) time.Time { return noon.AddDate(0, 0, days) }
	var token string
	for _, of := range []uuid.UUID{id, goal.ID} {
		without, err := f.Forecast(f.ctx, ForecastParams{ID: &of})
		if err != nil {
			t.Fatal(err)
		}
		p, err := f.PlanReviews(f.ctx, PlanReviewsParams{ID: of, At: []time.Time{at(60), at(30), at(30).Add(time.Second)}})
		if err != nil || len(p.Reviews) != 2 || !p.Reviews[0].Equal(at(30).Add(time.Second)) {
			t.Fatalf("one a day: %+v %v", p, err)
		}
		token = p.UndoToken
		with, err := f.Forecast(f.ctx, ForecastParams{ID: &of})
		if err != nil || len(with.PlannedReviews) != 2 || with.Points[25].Retention <= without.Points[25].Retention || with.Points[0].Retention > without.Points[0].Retention {
			t.Errorf("with a plan %v, without %v: %v", with.Points[25], without.Points[25], err)
		}
		none, err := f.Forecast(f.ctx, ForecastParams{ID: &of, WhatIf: &WhatIf{ReinforceAt: []time.Time{}}})
		if err != nil || len(none.PlannedReviews) != 2 || none.Points[25].Retention > without.Points[25].Retention+1e-6 {
			t.Errorf("what if there were none: %v, without %v: %v", none.Points[25], without.Points[25], err)
		}
	}
	if e, err := f.GetLayer(f.ctx, LayerParams{4}); err != nil || e.Entries[0].ReinforcementCount != 0 {
		t.Error("a plan reinforces", err)
	}
	if _, err := f.PlanReviews(f.ctx, PlanReviewsParams{ID: goal.ID}); err != nil {
		t.Fatal(err)
	}
	if out, err := f.Forecast(f.ctx, ForecastParams{ID: &goal.ID}); err != nil || len(out.PlannedReviews) != 0 {
		t.Errorf("%+v %v", out, err)
	}
	if _, err := f.Undo(f.ctx, memory.UndoParams{UndoToken: token}); err != nil {
		t.Fatal(err)
	}
	if out, err := f.Forecast(f.ctx, ForecastParams{ID: &goal.ID}); err != nil || len(out.PlannedReviews) != 0 {
		t.Errorf("before the first plan there was none: %+v %v", out, err)
	}
	if _, err := f.Undo(f.them, memory.UndoParams{UndoToken: token}); !fault.Is(err, fault.NotFound) {
		t.Error(err)
	}

	// The list of fading items contains the review of the memory until it is made.
	reviews := func() (n int) {
		t.Helper()
		soon, err := f.Fading(f.ctx, FadingParams{WithinDays: 61})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range soon.Items {
			if x.Review && x.ID == id {
				n++
			}
		}
		return n
	}
	if n := reviews(); n != 2 {
		t.Errorf("%d reviews are listed", n)
	}
	f.exec(`UPDATE planned_reviews SET at = ? WHERE item_id = ? AND at < ?`, time.Now().AddDate(0, 0, -2), id, at(45))
	if n := reviews(); n != 2 {
		t.Errorf("%d reviews are listed, one of them missed", n)
	}
	if _, err := f.Reinforce(f.ctx, ReinforceParams{IDs: []uuid.UUID{id}, Kind: "review"}); err != nil {
		t.Fatal(err)
	}
	if n := reviews(); n != 1 {
		t.Errorf("%d reviews are listed after one was made", n)
	}
	if err := f.db.Write(f.ctx, func(tx *storage.Tx) error { _, err := f.mem.TrashTx(f.ctx, tx, []uuid.UUID{id}); return err }); err != nil {
		t.Fatal(err)
	}
	if n := reviews(); n != 0 {
		t.Error("a review of what is in the trash is listed")
	}
}

func TestBadPlansStoreNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.old(f.ctx, 240, "medium", 0)
	soon := time.Now().AddDate(0, 0, 3)
	for name, c := range map[string]struct {
		p    PlanReviewsParams
		kind fault.Kind
	}{
		"past":    {PlanReviewsParams{ID: id, At: []time.Time{soon, time.Now().Add(-time.Hour)}}, fault.Invalid},
		"far":     {PlanReviewsParams{ID: id, At: []time.Time{time.Now().AddDate(3, 0, 0)}}, fault.Invalid},
		"many":    {PlanReviewsParams{ID: id, At: make([]time.Time, 51)}, fault.Invalid},
		"unknown": {PlanReviewsParams{ID: storage.NewID(), At: []time.Time{soon}}, fault.NotFound},
	} {
		if _, err := f.PlanReviews(f.ctx, c.p); !fault.Is(err, c.kind) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := f.PlanReviews(f.them, PlanReviewsParams{ID: id, At: []time.Time{soon}}); !fault.Is(err, fault.NotFound) {
		t.Error("of somebody else:", err)
	}
	if out, err := f.Forecast(f.ctx, ForecastParams{ID: &id}); err != nil || len(out.PlannedReviews) != 0 {
		t.Errorf("%+v %v", out, err)
	}
}
