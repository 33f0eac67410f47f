package psychology

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/storage"
	"helix/backend/storage/storagetest"
)

// Two devices reinforce and edit the same entry independently: the counts are added, the later
// anchor is used, and both compute the same retention for the same time.
func TestTwoDevicesAgreeAfterAnExchange(t *testing.T) {
	t.Parallel()
	a, b := newFixture(t), newFixture(t)
	e := must(a.UpsertEntry(a.ctx, UpsertParams{LayerNumber: 4, Kind: "goal", Data: json.RawMessage(`{"title":"the sea"}`)}))(t)
	a.exec(`UPDATE psychology_entries SET created_at = created_at - ?, initial_strength = 0.9`, int64(1000*3600e6))
	base := storagetest.Exchange(t, "psychology_entries", nil, a.db, b.db)
	ids := []uuid.UUID{e.ID}
	for range 2 {
		must(a.Reinforce(a.ctx, ReinforceParams{IDs: ids, Kind: "review"}))(t)
	}
	must(b.Reinforce(b.ctx, ReinforceParams{IDs: ids, Kind: "confirm"}))(t)
	edited := must(a.UpsertEntry(a.ctx, UpsertParams{ID: &e.ID, LayerNumber: 4, Kind: "goal", Data: json.RawMessage(`{"title":"the lake"}`)}))(t)
	must(b.Reinforce(b.ctx, ReinforceParams{IDs: ids, Kind: "review"}))(t)
	log := func(f *fixture) (n int) {
		must(0, f.db.Read(f.ctx, func(tx *storage.Tx) error { return tx.QueryRow(`SELECT count(*) FROM change_log`).Scan(&n) }))(t)
		return n
	}
	before := log(a)
	a.exec(`UPDATE psychology_entries SET retention = 0.2`)
	if r := a.run(RunParams{}); r.Changed != 1 || log(a) != before {
		t.Errorf("%d entries changed, and %d changes were captured", r.Changed, log(a)-before)
	}
	storagetest.Exchange(t, "psychology_entries", base, a.db, b.db)
	at := time.Now().Add(500 * time.Hour)
	var got [2]struct {
		entry Entry
		then  float64
	}
	for i, f := range []*fixture{a, b} {
		must(0, f.db.Read(f.ctx, func(tx *storage.Tx) error {
			r, err := f.one(tx, defaults(), e.ID)
			got[i].entry, got[i].then = r.Entry, defaults().retention(r.item(), at)
			return err
		}))(t)
	}
	x, y := got[0].entry, got[1].entry
	if x.ReinforcementCount != 5 || y.ReinforcementCount != 5 {
		t.Errorf("%d and %d reinforcements, want 5", x.ReinforcementCount, y.ReinforcementCount)
	}
	if !x.LastReinforcedAt.Equal(*y.LastReinforcedAt) || x.LastReinforcedAt.Before(edited.UpdatedAt) {
		t.Errorf("anchors %s and %s; the last reinforcement was after %s", x.LastReinforcedAt, y.LastReinforcedAt, edited.UpdatedAt)
	}
	if x.title() != "the lake" || y.title() != "the lake" || x.InitialStrength != y.InitialStrength {
		t.Errorf("%+v\n%+v", x, y)
	}
	if math.Abs(got[0].then-got[1].then) > 1e-12 || got[0].then <= 0 {
		t.Errorf("retention %v and %v", got[0].then, got[1].then)
	}
}
