package psychology

import (
	"context"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/memory"
	"helix/backend/memory/search"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helix/backend/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Run(m)) }

type fixture struct {
	*Service
	db        *storage.DB
	mem       *memory.Service
	ctx, them context.Context
	t         *testing.T
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	db := storagetest.Open(t)
	mem := memory.New(db, memory.Options{Retention: RetentionOf})
	t.Cleanup(func() {
		if err := mem.Close(); err != nil {
			t.Error(err)
		}
	})
	return &fixture{New(db, mem, Options{Dir: t.TempDir(), Owner: func() uuid.UUID { return db.LocalUser().ID }}), db, mem, storagetest.Ctx(t, db), storagetest.OtherUser(t, db), t}
}

// old stores a memory whose last reinforcement was hours ago.
func (f *fixture) old(ctx context.Context, hours float64, tier string, layer int) uuid.UUID {
	f.t.Helper()
	p := memory.AddParams{Content: "text " + uuid.NewString(), SalienceTier: tier}
	if layer > 0 {
		p.Layer = &layer
	}
	r, err := f.mem.Add(ctx, p)
	if err != nil {
		f.t.Fatal(err)
	}
	f.exec(`UPDATE memories SET created_at = created_at - ? WHERE id = ?`, int64(hours*3600e6), r.Item.ID)
	return r.Item.ID
}

func (f *fixture) exec(query string, args ...any) {
	f.t.Helper()
	if err := f.db.Write(f.ctx, func(tx *storage.Tx) error { _, err := tx.Exec(query, args...); return err }); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) run(p RunParams) RunResult {
	f.t.Helper()
	r, err := f.DecayRun(f.ctx, p)
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

// row returns what decay may change of a memory, and the rest, which it may not.
func (f *fixture) row(id uuid.UUID) (retention *float64, rest string) {
	f.t.Helper()
	if err := f.db.Read(f.ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT retention, json_array(initial_strength, last_reinforced_at, created_at, updated_at, version, salience_tier, pinned, hex(content)) FROM memories WHERE id = ?`, id).Scan(&retention, &rest)
	}); err != nil {
		f.t.Fatal(err)
	}
	return retention, rest
}

func TestDecayRunWritesRetentionAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	half := f.old(f.ctx, 720, "medium", 0)
	fresh := f.old(f.ctx, 0, "medium", 0)
	emotional := f.old(f.ctx, 168, "medium", 2)
	kept := f.old(f.ctx, 5000, "critical", 1)
	theirs := f.old(f.them, 5000, "medium", 0)
	_, before := f.row(half)
	if dry := f.run(RunParams{DryRun: true}); dry.Changed != 2 || dry.Items != 4 {
		t.Errorf("%+v", dry)
	}
	if r, _ := f.row(half); r != nil {
		t.Error("a dry run has written")
	}
	r := f.run(RunParams{})
	if r.Changed != 2 || r.Items != 4 || len(r.Skipped) != 0 {
		t.Errorf("%+v", r)
	}
	for id, want := range map[uuid.UUID]float64{half: 0.5, emotional: math.Exp(-1)} {
		if got, _ := f.row(id); got == nil || math.Abs(*got-want) > 1e-3 {
			t.Errorf("retention %v, want %g", got, want)
		}
	}
	for _, id := range []uuid.UUID{fresh, kept, theirs} {
		if got, _ := f.row(id); got != nil {
			t.Errorf("%s was written: %g", id, *got)
		}
	}
	if _, after := f.row(half); after != before {
		t.Errorf("the run changed %s to %s", before, after)
	}
	if again := f.run(RunParams{}); again.Changed != 0 {
		t.Errorf("a second run changes %d", again.Changed)
	}
	h, err := f.DecayHistory(f.ctx, HistoryParams{ID: &half})
	if err != nil || h.Total != 1 || h.Crossings[0].Threshold != 0.5 && h.Crossings[0].Threshold != 0.7 || h.Crossings[0].Previous != 1 || len(h.Runs) != 2 {
		t.Errorf("%+v %v", h, err)
	}
	if other, err := f.DecayHistory(f.them, HistoryParams{}); err != nil || other.Total != 0 || len(other.Runs) != 0 {
		t.Errorf("%+v %v", other, err)
	}
}

// Many runs have the same result as one.
func TestNumberOfRunsDoesNotMatter(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	often, once := f.old(f.ctx, 0, "medium", 0), f.old(f.ctx, 0, "medium", 0)
	for range 24 {
		f.exec(`UPDATE memories SET created_at = created_at - ? WHERE id = ?`, int64(30*3600e6), often)
		f.run(RunParams{})
	}
	f.exec(`UPDATE memories SET created_at = created_at - ? WHERE id = ?`, int64(720*3600e6), once)
	f.run(RunParams{})
	a, _ := f.row(often)
	b, _ := f.row(once)
	if math.Abs(*a-0.5) > 0.005+leastChange || math.Abs(*b-0.5) > 0.005 {
		t.Errorf("%g after 24 runs, %g after one", *a, *b)
	}
}

func TestBadRowsAreSkipped(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	good, future := f.old(f.ctx, 720, "medium", 0), f.old(f.ctx, -100, "medium", 0)
	r := f.run(RunParams{})
	if r.Changed != 1 || len(r.Skipped) != 1 || r.Skipped[0].ID != future || !strings.Contains(r.Skipped[0].Reason, "future") {
		t.Errorf("%+v", r)
	}
	if got, _ := f.row(good); got == nil {
		t.Error("a good row was not written")
	}
}

func TestForecast(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.old(f.ctx, 240, "medium", 0)
	f.run(RunParams{})
	out, err := f.Forecast(f.ctx, ForecastParams{ID: &id})
	if err != nil || len(out.Points) != 60 || out.Model != Exponential || out.Parameter != 720 || out.Floor != 0.1 || !strings.Contains(out.Reason, "Not revisited for 10 days") || out.Cause != (Cause{CauseDecays, 10, 720}) {
		t.Fatalf("%+v %v", out, err)
	}
	stored, _ := f.row(id)
	if math.Abs(out.Points[0].Retention-*stored) > 1e-3 {
		t.Errorf("the forecast for now is %g, a run has stored %g", out.Points[0].Retention, *stored)
	}
	for i := 1; i < len(out.Points); i++ {
		if out.Points[i].Retention > out.Points[i-1].Retention {
			t.Fatal("it rises by itself")
		}
	}
	if len(out.Crossings) < 2 || out.Crossings[0].Threshold != 0.7 {
		t.Errorf("%+v", out.Crossings)
	}
	pinned, err := f.Forecast(f.ctx, ForecastParams{ID: &id, WhatIf: &WhatIf{Pinned: ptr(true)}})
	if err != nil || math.Abs(pinned.Points[59].Retention-(1+out.Points[0].Retention)/2) > 1e-3 || len(pinned.Crossings) != 0 {
		t.Errorf("%+v %v", pinned.Points[59], err)
	}
	review := time.Now().AddDate(0, 0, 30)
	reviewed, err := f.Forecast(f.ctx, ForecastParams{ID: &id, WhatIf: &WhatIf{ReinforceAt: []time.Time{review}}})
	if err != nil || reviewed.Points[59].Retention <= out.Points[59].Retention {
		t.Errorf("a review changes nothing: %v", err)
	}
	for name, p := range map[string]ForecastParams{
		"too long":    {ID: &id, To: ptr(time.Now().AddDate(3, 0, 0))},
		"many points": {ID: &id, Points: 501},
	} {
		if _, err := f.Forecast(f.ctx, p); !fault.Is(err, fault.Limit) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := f.Forecast(f.them, ForecastParams{ID: &id}); !fault.Is(err, fault.NotFound) {
		t.Error("somebody else's memory:", err)
	}
	soon, err := f.Fading(f.ctx, FadingParams{WithinDays: 60})
	if err != nil || soon.Total != 1 || soon.Items[0].ID != id {
		t.Errorf("%+v %v", soon, err)
	}
}

func ptr[T any](v T) *T { return &v }

func TestSettings(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.old(f.ctx, 5000, "medium", 3)
	for name, p := range map[string]SettingsParams{
		"rate 1": {Rate: ptr(1.0)}, "no number": {Rate: ptr(math.NaN())}, "floor": {MinimumIntensity: ptr(0.6)}, "layer": {Layers: map[string]bool{"8": false}},
	} {
		if _, err := f.UpdateSettings(f.ctx, p); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	got, err := f.UpdateSettings(f.ctx, SettingsParams{Layers: map[string]bool{"3": false}, MinimumIntensity: ptr(0.2)})
	if err != nil || got.Layers["3"] || !got.Layers["2"] || got.Rate != defaultRate || got.MinimumIntensity != 0.2 {
		t.Fatalf("%+v %v", got, err)
	}
	if r := f.run(RunParams{}); r.Changed != 0 {
		t.Error("a layer that is off faded")
	}
	if _, err := f.UpdateSettings(f.ctx, SettingsParams{Layers: map[string]bool{"3": true}}); err != nil {
		t.Fatal(err)
	}
	f.run(RunParams{})
	if r, _ := f.row(id); r == nil || *r != defaultFloor {
		t.Errorf("it does not keep what it had when its layer was switched off: %v", r)
	}
	if theirs, err := f.Settings(f.them, struct{}{}); err != nil || theirs.MinimumIntensity != defaultFloor {
		t.Errorf("%+v %v", theirs, err)
	}
}

// Every read of a memory reports the current retention, whether or not there was a run: the forecast,
// memory.* and search agree. Pinning, reviews and edits use that value, not the one of the last run.
func TestMemoriesReportTheRetentionOfNow(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if _, err := f.UpdateSettings(f.ctx, SettingsParams{MinimumIntensity: ptr(0.0)}); err != nil {
		t.Fatal(err)
	}
	for _, evaluated := range []bool{false, true} {
		const hours = 10_000 // under a power law: the time between two calls does not matter
		id := f.old(f.ctx, hours, "low", 3)
		if evaluated { // long ago
			f.exec(`UPDATE memories SET retention = 0.9, decayed_at = created_at WHERE id = ?`, id)
		}
		fc, err := f.Forecast(f.ctx, ForecastParams{ID: &id, Points: 2})
		if err != nil {
			t.Fatal(err)
		}
		want := fc.Points[0].Retention
		same := func(what string, got *float64) {
			t.Helper()
			if got == nil || math.Abs(*got-want) > 1e-9 {
				t.Errorf("%s, evaluated %v: %v, want %v", what, evaluated, got, want)
			}
		}
		m, err := f.mem.Get(f.ctx, memory.GetParams{ID: id.String()})
		if err != nil {
			t.Fatal(err)
		}
		same("get", m.Retention)
		list, err := f.mem.List(f.ctx, memory.ListParams{Sort: "retention", Limit: 1})
		if err != nil || list.Items[0].ID != id {
			t.Fatal(list, err)
		}
		same("list", list.Items[0].Retention)
		found, err := f.mem.Search(f.ctx, search.Params{Query: m.Content})
		if err != nil || len(found.Results) == 0 || found.Results[0].ID != id {
			t.Fatal(found, err)
		}
		same("search", found.Results[0].Retention)
		one := []string{id.String()}
		pinned, err := f.mem.Pin(f.ctx, memory.PinParams{IDs: one})
		if err != nil {
			t.Fatal(err)
		}
		before := want
		want += 0.5 * (1 - want)
		same("pin", pinned.Items[0].Retention)
		if m, err = f.mem.Get(f.ctx, memory.GetParams{ID: id.String()}); err != nil {
			t.Fatal(err)
		}
		same("get of what is pinned", m.Retention)
		if _, err := f.mem.Undo(f.ctx, memory.UndoParams{UndoToken: pinned.UndoToken}); err != nil {
			t.Fatal(err)
		}
		want = before
		if m, err = f.mem.Get(f.ctx, memory.GetParams{ID: id.String()}); err != nil {
			t.Fatal(err)
		}
		same("get after undo", m.Retention)
		want += 0.3 * (1 - want)
		if m, err = f.mem.Get(f.ctx, memory.GetParams{ID: id.String(), Touch: true}); err != nil {
			t.Fatal(err)
		}
		same("review", m.Retention)
		same("strength after a review", &m.InitialStrength)
		if _, err := f.mem.Delete(f.ctx, memory.IDsParams{IDs: one}); err != nil {
			t.Fatal(err)
		}
	}
}
