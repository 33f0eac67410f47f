package psychology

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/memory"
	"helix/backend/storage"
	"helix/backend/synthesis"
)

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// entry adds an entry whose last reinforcement was hours ago.
func (f *fixture) entry(ctx context.Context, layer int, kind, data string, hours float64) Entry {
	f.t.Helper()
	e := must(f.UpsertEntry(ctx, UpsertParams{LayerNumber: layer, Kind: kind, Data: json.RawMessage(data)}))(f.t)
	f.exec(`UPDATE psychology_entries SET created_at = created_at - ? WHERE id = ?`, int64(hours*3600e6), e.ID)
	return e
}

func (f *fixture) get(id uuid.UUID) Entry {
	f.t.Helper()
	for _, l := range must(f.GetAllLayers(f.ctx, struct{}{}))(f.t).Layers {
		for _, e := range l.Entries {
			if e.ID == id {
				return e
			}
		}
	}
	f.t.Fatalf("no entry %s", id)
	return Entry{}
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-4 }

func TestEntriesAreChecked(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for name, p := range map[string]UpsertParams{
		"layer 0":        {LayerNumber: 0, Kind: "goal", Data: json.RawMessage(`{"title":"x"}`)},
		"layer 8":        {LayerNumber: 8, Kind: "goal", Data: json.RawMessage(`{"title":"x"}`)},
		"kind":           {LayerNumber: 1, Kind: "goal", Data: json.RawMessage(`{"title":"x"}`)},
		"no object":      {LayerNumber: 4, Kind: "goal", Data: json.RawMessage(`[1]`)},
		"no JSON":        {LayerNumber: 4, Kind: "goal", Data: json.RawMessage(`{`)},
		"missing":        {LayerNumber: 4, Kind: "goal", Data: json.RawMessage(`{}`)},
		"range":          {LayerNumber: 4, Kind: "goal", Data: json.RawMessage(`{"title":"x","progress":1.5}`)},
		"enum":           {LayerNumber: 3, Kind: "person", Data: json.RawMessage(`{"name":"x","attachmentStyle":"close"}`)},
		"date":           {LayerNumber: 4, Kind: "goal", Data: json.RawMessage(`{"title":"x","targetDate":"soon"}`)},
		"foreign memory": {LayerNumber: 4, Kind: "goal", Data: json.RawMessage(`{"title":"x"}`), MemoryIDs: []uuid.UUID{f.old(f.them, 1, "medium", 0)}},
	} {
		if _, err := f.UpsertEntry(f.ctx, p); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	e := f.entry(f.ctx, 4, "goal", `{"title":"Run","own":{"key":1}}`, 0)
	if !strings.Contains(string(e.Data), `"own":{"key":1}`) {
		t.Errorf("an unknown key is lost: %s", e.Data)
	}
	if _, err := f.UpsertEntry(f.ctx, UpsertParams{LayerNumber: 4, Kind: "goal", Data: json.RawMessage(`{"title":"Walk"}`), ID: &e.ID, Version: e.Version + 1}); !fault.Is(err, fault.Conflict) {
		t.Error("a stale version:", err)
	}
	if _, err := f.UpsertEntry(f.them, UpsertParams{LayerNumber: 4, Kind: "goal", Data: json.RawMessage(`{"title":"Walk"}`), ID: &e.ID}); !fault.Is(err, fault.NotFound) {
		t.Error("somebody else's entry:", err)
	}
	for name, d := range readKinds() {
		if d.check == nil || d.Layer < 1 || d.Layer > 7 {
			t.Errorf("%d: %+v", name, d)
		}
	}
}

// The texts of psychology are never in the file in plain text.
func TestEntriesAreSealed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.entry(f.ctx, 1, "narrative", `{"title":"The lighthouse years"}`, 0)
	var n int
	must(0, f.db.Read(f.ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT count(*) FROM psychology_entries WHERE instr(data, CAST('lighthouse' AS BLOB)) > 0`).Scan(&n)
	}))(t)
	if n != 0 {
		t.Error("the text of an entry is plain")
	}
}

func TestReinforcement(t *testing.T) {
	t.Parallel()
	for kind, gain := range map[string]float64{"review": 0.3, "confirm": 0.5, "edit": 0.5, "use": 0.2} {
		f := newFixture(t)
		e := f.entry(f.ctx, 1, "narrative", `{"title":"A"}`, 720)
		if got := f.get(e.ID); !near(got.Retention, 0.5) {
			t.Fatalf("retention %g after a half-life", got.Retention)
		}
		r := must(f.Reinforce(f.ctx, ReinforceParams{IDs: []uuid.UUID{e.ID}, Kind: kind}))(t)
		if want := 0.5 + gain*0.5; len(r.Items) != 1 || !near(r.Items[0].Retention, want) {
			t.Errorf("%s: %+v, want %g", kind, r.Items, want)
		}
		again := must(f.Reinforce(f.ctx, ReinforceParams{IDs: []uuid.UUID{e.ID}, Kind: kind}))(t)
		if grew := again.Items[0].Retention > r.Items[0].Retention+1e-6; grew != (kind != "use") {
			t.Errorf("%s at once again: %g, then %g", kind, r.Items[0].Retention, again.Items[0].Retention)
		}
		for range 2 {
			must(f.GetLayer(f.ctx, LayerParams{1}))(t) // viewing is not a reinforcement
		}
		if got := f.get(e.ID).ReinforcementCount; got != map[bool]int64{true: 1, false: 2}[kind == "use"] {
			t.Errorf("%s: counted %d times", kind, got)
		}
	}
	f := newFixture(t)
	if _, err := f.Reinforce(f.ctx, ReinforceParams{IDs: []uuid.UUID{uuid.New()}, Kind: "review"}); !fault.Is(err, fault.NotFound) {
		t.Error(err)
	}
	if _, err := f.Reinforce(f.ctx, ReinforceParams{IDs: []uuid.UUID{uuid.New()}, Kind: "glance"}); !fault.Is(err, fault.Invalid) {
		t.Error(err)
	}
}

// A pinned item keeps its retention and decays from there once unpinned. Each action can be undone,
// on memories as on entries.
func TestPinUndoAndTiers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	e, m := f.entry(f.ctx, 1, "narrative", `{"title":"A"}`, 720), f.old(f.ctx, 720, "medium", 0)
	ids := []uuid.UUID{e.ID, m}
	r := must(f.Pin(f.ctx, PinParams{IDs: ids, On: true}))(t)
	if len(r.Items) != 2 || !r.Items[0].Pinned || !near(r.Items[0].Retention, 0.5) || !r.Items[1].Pinned {
		t.Fatalf("%+v", r.Items)
	}
	f.exec(`UPDATE psychology_entries SET created_at = created_at - ?`, int64(5000*3600e6))
	if got := f.get(e.ID).Retention; !near(got, 0.5) {
		t.Errorf("a pinned entry is at %g", got)
	}
	if got := must(f.Undo(f.ctx, memory.UndoParams{UndoToken: r.UndoToken}))(t); got.Count != 2 || f.get(e.ID).Pinned {
		t.Errorf("%+v", got)
	}
	if _, err := f.Undo(f.ctx, memory.UndoParams{UndoToken: r.UndoToken}); !fault.Is(err, fault.NotFound) {
		t.Error("twice:", err)
	}
	must(f.Pin(f.ctx, PinParams{IDs: []uuid.UUID{e.ID}, On: true}))(t)
	f.exec(`UPDATE psychology_entries SET retention = 0.8`)
	must(f.Pin(f.ctx, PinParams{IDs: []uuid.UUID{e.ID}}))(t)
	if got := f.get(e.ID); got.Pinned || !near(got.Retention, 0.8) || got.LastReinforcedAt == nil {
		t.Errorf("unpinned: %+v", got)
	}
	tier := must(f.SetSalience(f.ctx, SalienceParams{IDs: []uuid.UUID{e.ID}, Tier: "critical"}))(t)
	if tier.Items[0].SalienceTier != "critical" {
		t.Errorf("%+v", tier)
	}
	program := identity.With(f.ctx, identity.Identity{User: identity.UserID(f.ctx), Scopes: identity.Read | identity.Write, Client: identity.ClientProgram})
	if _, err := f.SetSalience(program, SalienceParams{IDs: []uuid.UUID{e.ID}, Tier: "critical"}); !fault.Is(err, fault.Denied) {
		t.Error("a program has set critical:", err)
	}
	gone := must(f.DeleteEntry(f.ctx, IDsParams{[]uuid.UUID{e.ID, e.ID}}))(t)
	if gone.Count != 1 {
		t.Errorf("%+v", gone)
	}
	if l := must(f.GetLayer(f.ctx, LayerParams{1}))(t); len(l.Entries) != 0 {
		t.Errorf("%+v", l.Entries)
	}
	must(f.Undo(f.ctx, memory.UndoParams{UndoToken: gone.UndoToken}))(t)
	f.get(e.ID)
	if _, err := f.DeleteEntry(f.them, IDsParams{[]uuid.UUID{e.ID}}); !fault.Is(err, fault.NotFound) {
		t.Error("somebody else's entry:", err)
	}
}

// An edit of a reopened entry that had faded preserves its earlier text.
func TestReconsolidation(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	e := f.entry(f.ctx, 1, "narrative", `{"title":"As it was"}`, 2000)
	must(f.Reinforce(f.ctx, ReinforceParams{IDs: []uuid.UUID{e.ID}, Kind: "review"}))(t)
	if !f.get(e.ID).Open {
		t.Fatal("a faded entry that is reviewed is not open")
	}
	must(f.UpsertEntry(f.ctx, UpsertParams{LayerNumber: 1, Kind: "narrative", Data: json.RawMessage(`{"title":"As I see it now"}`), ID: &e.ID}))(t)
	got := string(f.get(e.ID).Data)
	if !strings.Contains(got, "As I see it now") || !strings.Contains(got, `"earlier":[{"data":{"title":"As it was"}`) {
		t.Error(got)
	}
	fresh := f.entry(f.ctx, 1, "narrative", `{"title":"New"}`, 1)
	must(f.Reinforce(f.ctx, ReinforceParams{IDs: []uuid.UUID{fresh.ID}, Kind: "review"}))(t)
	if f.get(fresh.ID).Open {
		t.Error("an entry that has not faded is open")
	}
}

func TestDecayOfEntriesAndLayers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	goal, person := f.entry(f.ctx, 4, "goal", `{"title":"Run"}`, 360), f.entry(f.ctx, 3, "person", `{"name":"Ada"}`, 3)
	theirs := f.entry(f.them, 4, "goal", `{"title":"Theirs"}`, 360)
	f.exec(`UPDATE psychology_layers SET last_reinforced_at = last_reinforced_at - ?`, int64(720*3600e6))
	layers := func() (out string) {
		must(0, f.db.Read(f.ctx, func(tx *storage.Tx) error {
			return tx.QueryRow(`SELECT group_concat(layer_number || ' ' || decay_rate || ' ' || last_updated || ' ' || coalesce(last_reinforced_at, '') || ' ' || version, ';' ORDER BY layer_number) FROM psychology_layers WHERE user_id = ?`, identity.UserID(f.ctx)).Scan(&out)
		}))(t)
		return out
	}
	before := layers()
	r := f.run(RunParams{})
	if r.Layers != 7 || r.Items != 2 || r.Changed != 2 {
		t.Errorf("%+v", r)
	}
	if layers() != before {
		t.Error("a run has changed more than the retention of layers")
	}
	stored := func(id uuid.UUID) (v *float64) {
		must(0, f.db.Read(f.ctx, func(tx *storage.Tx) error {
			return tx.QueryRow(`SELECT retention FROM psychology_entries WHERE id = ?`, id).Scan(&v)
		}))(t)
		return v
	}
	if v := stored(goal.ID); v == nil || !near(*v, 0.5) {
		t.Errorf("a goal is at %v after a half-life", v)
	}
	if v := stored(person.ID); v == nil || !near(*v, 0.5) {
		t.Errorf("a person is at %v after three hours", v)
	}
	if stored(theirs.ID) != nil {
		t.Error("somebody else's entry was touched")
	}
	var legacy float64
	must(0, f.db.Read(f.ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT decay_rate FROM psychology_layers_legacy WHERE layer_number = 4 AND user_id = ?`, identity.UserID(f.ctx)).Scan(&legacy)
	}))(t)
	if !near(legacy, math.Exp2(-720.0/360)) {
		t.Errorf("the view for older readers has %g", legacy)
	}
	// Items of a layer that is off keep their retention; once it is on, they decay from there.
	must(f.UpdateSettings(f.ctx, SettingsParams{Layers: map[string]bool{"4": false}}))(t)
	f.exec(`UPDATE psychology_entries SET created_at = created_at - ?`, int64(720*3600e6))
	if got := f.get(goal.ID).Retention; !near(got, 0.5) {
		t.Errorf("a goal of a layer that is off is at %g", got)
	}
	must(f.UpdateSettings(f.ctx, SettingsParams{Layers: map[string]bool{"4": true}}))(t)
	if got := f.get(goal.ID).Retention; !near(got, 0.5) {
		t.Errorf("a goal of a layer that is on again is at %g", got)
	}
}

// Random sequences of runs have the same result as a single one.
func TestAnyScheduleOfRunsIsOneEvaluation(t *testing.T) {
	t.Parallel()
	conf, at := defaults(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	r := rand.New(rand.NewPCG(3, 3))
	for layer := 1; layer <= 7; layer++ {
		once := item{layer: layer, strength: 0.9, tier: "medium", anchor: at}
		often := once
		for h := 0.0; h < 720; h += r.Float64() * 5 {
			v := conf.retention(often, at.Add(time.Duration(h*float64(time.Hour))))
			often.stored = &v
		}
		hourly := once
		for h := 1; h <= 720; h++ {
			v := conf.retention(hourly, at.Add(time.Duration(h)*time.Hour))
			hourly.stored = &v
		}
		end := at.Add(720 * time.Hour)
		if a := conf.retention(once, end); math.Abs(a-*hourly.stored) > 1e-9 {
			t.Errorf("layer %d: %g after 720 hourly runs, %g after one", layer, *hourly.stored, a)
		}
		if a, b := conf.retention(once, end), conf.retention(often, end); math.Abs(a-b) > 1e-9 {
			t.Errorf("layer %d: %g and %g", layer, a, b)
		}
	}
}

func TestModeHard(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const years = 3 * 8766
	long, high := f.entry(f.ctx, 4, "goal", `{"title":"Long ago"}`, years), f.entry(f.ctx, 4, "goal", `{"title":"High"}`, years)
	pinned, critical := f.entry(f.ctx, 4, "goal", `{"title":"Pinned"}`, years), f.entry(f.ctx, 4, "goal", `{"title":"Critical"}`, years)
	recent := f.entry(f.ctx, 4, "goal", `{"title":"At the floor since yesterday"}`, 360*math.Log2(10)+24)
	m := f.old(f.ctx, years, "medium", 0)
	must(f.SetSalience(f.ctx, SalienceParams{IDs: []uuid.UUID{high.ID}, Tier: "high"}))(t)
	must(f.SetSalience(f.ctx, SalienceParams{IDs: []uuid.UUID{critical.ID}, Tier: "critical"}))(t)
	must(f.Pin(f.ctx, PinParams{IDs: []uuid.UUID{pinned.ID}, On: true}))(t)
	if r := f.run(RunParams{}); len(r.Trashed) != 0 {
		t.Fatalf("mode soft has trashed %v", r.Trashed)
	}
	hard := "hard"
	must(f.UpdateSettings(f.ctx, SettingsParams{Mode: &hard}))(t)
	if r := f.run(RunParams{DryRun: true}); len(r.Trashed) != 2 {
		t.Errorf("%+v", r)
	}
	r := f.run(RunParams{})
	slices.SortFunc(r.Trashed, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
	want := []uuid.UUID{long.ID, m}
	slices.SortFunc(want, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
	if !slices.Equal(r.Trashed, want) {
		t.Fatalf("trashed %v, want %v", r.Trashed, want)
	}
	for _, e := range []Entry{high, pinned, critical, recent} {
		f.get(e.ID)
	}
	if _, err := f.mem.Get(f.ctx, memory.GetParams{ID: m.String()}); !fault.Is(err, fault.NotFound) {
		t.Error("the memory is still there:", err)
	}
	if _, err := f.RestoreFromDecay(f.them, RestoreParams{RunID: &r.RunID}); !fault.Is(err, fault.NotFound) {
		t.Error("somebody else's run:", err)
	}
	back := must(f.RestoreFromDecay(f.ctx, RestoreParams{RunID: &r.RunID}))(t)
	if got := f.get(long.ID); back.Count != 2 || got.Retention < 0.5 {
		t.Errorf("%+v %g", back, got.Retention)
	}
	if r := f.run(RunParams{}); len(r.Trashed) != 0 {
		t.Errorf("what was restored is trashed again: %v", r.Trashed)
	}
}

func TestUnreadableEntryIsShownAndTheOthersGoOn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	good, bad, text := f.entry(f.ctx, 1, "narrative", `{"title":"Good"}`, 720), f.entry(f.ctx, 1, "identity", `{"title":"Bad"}`, 720), f.entry(f.ctx, 1, "identity", `{"title":"Text"}`, 720)
	f.exec(`UPDATE psychology_entries SET data = x'0102' WHERE id = ?`, bad.ID)
	sealed := must(f.db.Keys().Seal("psychology_entries", "data", text.ID, []byte(`{"title":`)))(t)
	f.exec(`UPDATE psychology_entries SET data = ? WHERE id = ?`, sealed, text.ID)
	st := must(f.LayerStatus(f.ctx, StatusParams{1}))(t)
	if st.Layers[0].Status != "error" || st.Layers[0].ID == nil {
		t.Errorf("%+v", st)
	}
	if got := f.get(text.ID); got.Raw != `{"title":` || got.Problem == "" {
		t.Errorf("%+v", got)
	}
	if r := f.run(RunParams{}); r.Changed != 3 || !near(f.get(good.ID).Retention, 0.5) {
		t.Errorf("%+v", r)
	}
	for _, want := range []struct {
		layer  int
		status string
	}{{2, "inactive"}, {5, "inactive"}} {
		if st := must(f.LayerStatus(f.ctx, StatusParams{want.layer}))(t); st.Layers[0].Status != want.status {
			t.Errorf("%+v", st)
		}
	}
	f.entry(f.ctx, 4, "goal", `{"title":"Run"}`, 0)
	if st := must(f.LayerStatus(f.ctx, StatusParams{4}))(t); st.Layers[0].Status != "warning" || len(st.Layers[0].Missing) != 4 {
		t.Errorf("%+v", st)
	}
}

func TestOverviewAndForecastAgree(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	e := f.entry(f.ctx, 2, "emotion", `{"emotion":"calm","valence":0.4}`, 100)
	for name, p := range map[string]ForecastParams{"entry": {ID: &e.ID}, "layer": {LayerNumber: 2}} {
		out := must(f.Forecast(f.ctx, p))(t)
		if name == "entry" && math.Abs(out.Points[0].Retention-math.Exp(-100.0/168)) > 1e-4 || out.Item.Title == "" || out.Reason == "" {
			t.Errorf("%s: %+v %s", name, out.Points[0], out.Reason)
		}
	}
	if _, err := f.Forecast(f.ctx, ForecastParams{}); !fault.Is(err, fault.Invalid) {
		t.Error(err)
	}
	o := must(f.Overview(f.ctx, struct{}{}))(t)
	if len(o.Layers) != 7 || o.Layers[1].Entries != 1 || o.Layers[1].Summary != "calm" || o.Layers[0].Summary != "" || o.TrustOverall != nil {
		t.Errorf("%+v", o.Layers[1])
	}
	soon := must(f.Fading(f.ctx, FadingParams{}))(t)
	if soon.Total != 1 || soon.Items[0].Title != "calm" || soon.Items[0].Kind != "entry" || soon.Items[0].Cause.Code != CauseDecays {
		t.Errorf("%+v", soon)
	}
	off := false
	must(f.UpdateSettings(f.ctx, SettingsParams{Enabled: &off}))(t)
	if out := must(f.Forecast(f.ctx, ForecastParams{ID: &e.ID}))(t); out.Reason != "Decay is off: nothing fades." || out.Cause.Code != CauseOff || out.Points[0].Retention != out.Points[59].Retention {
		t.Errorf("%+v", out.Reason)
	}
}

func TestSoulIsThePersonsAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := must(f.GetSoul(f.ctx, struct{}{}))(t)
	if first.Version != 0 || !strings.Contains(first.Text, "Only you can change this text") {
		t.Fatalf("%+v", first)
	}
	id, _ := identity.From(f.ctx)
	for _, c := range []identity.Client{identity.ClientProgram, identity.ClientToken} {
		id.Client = c
		if _, err := f.UpdateSoul(identity.With(f.ctx, id), UpdateSoulParams{Text: "obey the program"}); !fault.Is(err, fault.Denied) {
			t.Errorf("%v has written: %v", c, err)
		}
	}
	var denied int
	must(0, f.db.Read(f.ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT count(*) FROM audit_log WHERE action = 'psychology.update_soul' AND outcome = 'denied'`).Scan(&denied)
	}))(t)
	if denied != 2 {
		t.Errorf("%d refusals in the audit log", denied)
	}
	id.Client = identity.ClientWindow
	me := identity.With(f.ctx, id)
	soul := must(f.UpdateSoul(me, UpdateSoulParams{Text: "Be brief."}))(t)
	if b, err := os.ReadFile(soul.Path); err != nil || string(b) != "Be brief." || soul.Version != 1 {
		t.Errorf("%q %v", b, err)
	}
	if _, err := f.UpdateSoul(me, UpdateSoulParams{Text: "Late."}); !fault.Is(err, fault.Conflict) {
		t.Error(err)
	}
	if _, err := f.UpdateSoul(me, UpdateSoulParams{Text: strings.Repeat("x", maxSoul+1), Version: 1}); !fault.Is(err, fault.Invalid) {
		t.Error(err)
	}
	if err := os.WriteFile(soul.Path, []byte("Be brief and kind."), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := must(f.GetSoul(f.ctx, struct{}{}))(t); got.Text != "Be brief and kind." || got.Version != 2 {
		t.Errorf("the person's own edit was not picked up: %+v", got)
	}
	// A file that is out of date, because another device has changed the soul, is rewritten.
	if err := os.WriteFile(soul.Path, []byte("Be brief."), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := must(f.GetSoul(f.ctx, struct{}{}))(t); got.Version != 2 {
		t.Errorf("%+v", got)
	}
	if b, _ := os.ReadFile(soul.Path); string(b) != "Be brief and kind." {
		t.Errorf("%q", b)
	}
	if h := must(f.SoulHistory(f.ctx, PageParams{}))(t); h.Total != 2 || h.Revisions[0].Version != 2 || h.Revisions[1].Text != "Be brief." {
		t.Errorf("%+v", h)
	}
}

func TestExportAndImport(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	person := f.entry(f.ctx, 3, "person", `{"name":"Ada","aliases":["A."]}`, 5)
	f.entry(f.ctx, 4, "feared_self", `{"title":"Alone"}`, 50)
	f.entry(f.ctx, 6, "transformation", `{"title":"Moved","endedAt":"2025-01-01"}`, 50)
	pinned := f.entry(f.ctx, 7, "ikigai", `{"quadrant":"love","text":"teaching"}`, 500)
	must(f.Pin(f.ctx, PinParams{IDs: []uuid.UUID{pinned.ID}, On: true}))(t)
	must(f.RecordInteraction(f.ctx, InteractionParams{PersonID: person.ID, Evidence: ptr(0.8), SalienceTier: "high", Note: "helped me move"}))(t)
	out := must(f.Export(f.ctx, ExportParams{}))(t)
	if out.Entries != 4 || out.Interactions != 1 || out.Files != 13 {
		t.Fatalf("%+v", out)
	}
	read := func() (all string) {
		must(0, filepath.WalkDir(f.o.Dir, func(p string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				b, _ := os.ReadFile(p)
				all += p + string(b)
			}
			return err
		}))(t)
		return all
	}
	before := read()
	f.exec(`UPDATE psychology_entries SET deleted_at = 1`)
	if n := must(f.Import(f.ctx, ImportParams{}))(t); n.Entries != 4 || n.Interactions != 1 {
		t.Errorf("%+v", n)
	}
	must(f.Export(f.ctx, ExportParams{}))(t)
	if after := read(); after != before {
		t.Errorf("export, import and export differ:\n%s\n%s", before, after)
	}
	if _, err := f.Import(f.them, ImportParams{}); !fault.Is(err, fault.Denied) {
		t.Error("somebody else's files were read:", err)
	}
	if _, err := f.Import(f.them, ImportParams{BlobID: must(f.Export(f.ctx, ExportParams{Zip: true}))(t).BlobID}); !fault.Is(err, fault.Conflict) {
		t.Error("ids of somebody else were taken:", err)
	}
	// Everything is validated before anything is written.
	name := filepath.Join(f.o.Dir, "purpose", "ikigai.json")
	b, _ := os.ReadFile(name)
	if err := os.WriteFile(name, []byte(strings.Replace(string(b), `"love"`, `"money"`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	f.exec(`UPDATE psychology_entries SET deleted_at = 1`)
	if _, err := f.Import(f.ctx, ImportParams{}); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "Nothing was imported") {
		t.Error(err)
	}
	if l := must(f.GetLayer(f.ctx, LayerParams{3}))(t); len(l.Entries) != 0 {
		t.Error("a part was imported")
	}
	zipped := must(f.Export(f.ctx, ExportParams{Zip: true}))(t)
	if _, err := f.Import(f.ctx, ImportParams{BlobID: zipped.BlobID}); err != nil {
		t.Error(err)
	}
}

func TestPathsOutsideTheFolderAreRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	outside := t.TempDir()
	must(0, os.Symlink(outside, filepath.Join(f.o.Dir, "link")))(t)
	for _, p := range []string{"..", "../x", "/etc", f.o.Dir + "-evil", f.o.Dir + "/../x", "link", "link/x", "a/../../b"} {
		if _, err := f.Export(f.ctx, ExportParams{Path: p}); err == nil {
			t.Errorf("export to %s", p)
		}
		if _, err := f.Import(f.ctx, ImportParams{Path: p}); err == nil {
			t.Errorf("import from %s", p)
		}
	}
	if list, _ := os.ReadDir(outside); len(list) != 0 {
		t.Error("something was written outside")
	}
	if _, err := f.Export(f.ctx, ExportParams{Path: "copies/one"}); err != nil {
		t.Error(err)
	}
}

// found stands for synthesis.
type found struct {
	pattern synthesis.Pattern
	verdict string
}

func (p *found) Pattern(_ context.Context, q synthesis.PatternParams) (synthesis.Pattern, error) {
	if q.ID != p.pattern.ID {
		return synthesis.Pattern{}, fault.NotFoundf("Pattern not found.")
	}
	return p.pattern, nil
}

func (p *found) Feedback(_ context.Context, q synthesis.FeedbackParams) (synthesis.FeedbackResult, error) {
	p.verdict = q.Verdict
	return synthesis.FeedbackResult{UndoToken: "pattern-1"}, nil
}

func (p *found) Undo(context.Context, memory.UndoParams) (memory.CountResult, error) {
	return memory.CountResult{}, errors.ErrUnsupported
}

func TestProposals(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	m := f.old(f.ctx, 1, "medium", 0)
	p := &found{pattern: synthesis.Pattern{ID: uuid.New(), Type: "support", Subjects: []string{"Ada"}, Description: "Ada often helps", Evidence: []string{m.String(), uuid.NewString()}}}
	f.o.Patterns = p
	own := f.entry(f.ctx, 3, "person", `{"name":"Ada","relationship":"sister"}`, 0)
	e := must(f.AcceptProposal(f.ctx, ProposalParams{p.pattern.ID}))(t)
	if e.ID != own.ID || string(e.Data) != string(own.Data) || !slices.Equal(e.MemoryIDs, []uuid.UUID{m}) || p.verdict != "confirm" {
		t.Errorf("%+v %s", e, p.verdict)
	}
	p.pattern.ID, p.pattern.Type, p.pattern.Subjects = uuid.New(), "goal", nil
	p.pattern.Description = "You plan to run a marathon"
	e = must(f.AcceptProposal(f.ctx, ProposalParams{p.pattern.ID}))(t)
	if e.Origin != "synthesis" || e.Kind != "goal" || *e.PatternID != p.pattern.ID || e.title() != "You plan to run a marathon" {
		t.Errorf("%+v", e)
	}
	if _, err := f.AcceptProposal(f.ctx, ProposalParams{p.pattern.ID}); !fault.Is(err, fault.Conflict) {
		t.Error("twice:", err)
	}
	must(f.DismissProposal(f.ctx, ProposalParams{p.pattern.ID}))(t)
	if p.verdict != "reject" {
		t.Error(p.verdict)
	}
	p.pattern.Type = "temporal_cluster"
	if _, err := f.AcceptProposal(f.ctx, ProposalParams{p.pattern.ID}); !fault.Is(err, fault.Invalid) {
		t.Error(err)
	}
	off := false
	must(f.UpdateSettings(f.ctx, SettingsParams{Proposals: &off}))(t)
	if _, err := f.AcceptProposal(f.ctx, ProposalParams{p.pattern.ID}); !fault.Is(err, fault.Unavailable) {
		t.Error(err)
	}
}

func TestViewsAreInTheirOwnTime(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	late := f.entry(f.ctx, 4, "goal", `{"title":"Past","targetDate":"2020-05-01"}`, 0)
	f.entry(f.ctx, 4, "goal", `{"title":"Reached","status":"reached","targetDate":"2020-04-01"}`, 0)
	f.entry(f.ctx, 4, "hope", `{"title":"Later","targetDate":"2090-05-01"}`, 0)
	all := must(f.View(4)(f.ctx, ViewParams{}))(t)
	if len(all.Entries) != 3 || all.Entries[1].ID != late.ID || !all.Entries[1].PastDue || all.Entries[0].PastDue || all.Entries[2].PastDue {
		t.Errorf("%+v", all)
	}
	start := time.Date(2080, 1, 1, 0, 0, 0, 0, time.UTC)
	if some := must(f.View(4)(f.ctx, ViewParams{Start: &start, Kind: "hope"}))(t); len(some.Entries) != 1 {
		t.Errorf("%+v", some)
	}
	if _, err := f.View(4)(f.ctx, ViewParams{Kind: "person"}); !fault.Is(err, fault.Invalid) {
		t.Error(err)
	}
}

// An item that is pinned after a run has read it is kept.
func TestModeHardLeavesWhatWasPinnedMeanwhile(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	m := f.old(f.ctx, 30_000, "medium", 0)
	hard := "hard"
	must(f.UpdateSettings(f.ctx, SettingsParams{Mode: &hard}))(t)
	r := &decayRun{s: f.Service, user: identity.UserID(f.ctx), access: f.db.Write, out: RunResult{RunID: uuid.New()}}
	must(0, f.db.Write(f.ctx, func(tx *storage.Tx) (err error) {
		if r.conf, err = settings(tx, r.user); err == nil {
			_, _, err = r.memories(tx, uuid.Nil)
		}
		return err
	}))(t)
	if !slices.Equal(r.expired, []uuid.UUID{m}) {
		t.Fatalf("%v", r.expired)
	}
	must(f.Pin(f.ctx, PinParams{IDs: []uuid.UUID{m}, On: true}))(t)
	must(0, f.db.Write(f.ctx, func(tx *storage.Tx) error { return r.trash(tx, r.expired) }))(t)
	if len(r.out.Trashed) != 0 {
		t.Error("a pinned memory went to the trash")
	}
}

// Items that are already restored do not prevent the restoration of others, and Undo reverts it.
func TestDecayRunIsRestoredInParts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := []uuid.UUID{f.old(f.ctx, 30_000, "medium", 0), f.old(f.ctx, 30_000, "medium", 0), f.entry(f.ctx, 4, "goal", `{"title":"x"}`, 30_000).ID}
	hard := "hard"
	must(f.UpdateSettings(f.ctx, SettingsParams{Mode: &hard}))(t)
	r := f.run(RunParams{})
	must(f.RestoreFromDecay(f.ctx, RestoreParams{IDs: ids[:1]}))(t)
	back := must(f.RestoreFromDecay(f.ctx, RestoreParams{RunID: &r.RunID}))(t)
	if back.Count != 2 || f.get(ids[2]).Retention < 0.5 {
		t.Errorf("%+v", back)
	}
	if n := must(f.Undo(f.ctx, memory.UndoParams{UndoToken: back.UndoToken}))(t); n.Count != 2 {
		t.Errorf("%+v", n)
	}
	if l := must(f.GetLayer(f.ctx, LayerParams{4}))(t); len(l.Entries) != 0 {
		t.Error("Undo of a restore leaves the entry")
	}
}

func TestSoulFileIsNeverLostNorShared(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	as := func(ctx context.Context) context.Context {
		id, _ := identity.From(ctx)
		id.Client = identity.ClientWindow
		return identity.With(ctx, id)
	}
	soul := must(f.UpdateSoul(as(f.ctx), UpdateSoulParams{Text: "one"}))(t)
	must(0, os.WriteFile(soul.Path, []byte("my own edit"), 0o600))(t)
	if _, err := f.UpdateSoul(as(f.ctx), UpdateSoulParams{Text: "two", Version: 1}); !fault.Is(err, fault.Conflict) {
		t.Error("an edit of the file was overwritten:", err)
	}
	must(f.Export(f.ctx, ExportParams{}))(t)
	if got := must(f.GetSoul(f.ctx, struct{}{}))(t); got.Text != "my own edit" || got.Version != 2 {
		t.Errorf("%+v", got)
	}
	if got := must(f.GetSoul(f.them, struct{}{}))(t); got.Version != 0 {
		t.Errorf("somebody else has the soul: %+v", got)
	}
	must(f.UpdateSoul(as(f.them), UpdateSoulParams{Text: "theirs"}))(t)
	if b, _ := os.ReadFile(soul.Path); string(b) != "my own edit" {
		t.Errorf("somebody else has written the file: %s", b)
	}
	for _, bad := range []string{strings.Repeat("x", maxSoul+1), "\xff\xfe"} {
		must(0, os.WriteFile(soul.Path, []byte(bad), 0o600))(t)
		if got := must(f.GetSoul(f.ctx, struct{}{}))(t); got.Text != "my own edit" {
			t.Errorf("%.20q", got.Text)
		}
	}
}

// Trust is computed only from interactions, and a person's unreadable entry is not changed.
func TestTrustIsNotWrittenByHand(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.entry(f.ctx, 3, "person", `{"name":"Ada","trust":{"overall":1},"stage":"primary_attachment"}`, 0)
	if strings.Contains(string(p.Data), "trust") {
		t.Errorf("%s", p.Data)
	}
	r := must(f.RecordInteraction(f.ctx, InteractionParams{PersonID: p.ID, SalienceTier: "high", Evidence: ptr(1.0)}))(t)
	e := must(f.UpsertEntry(f.ctx, UpsertParams{LayerNumber: 3, Kind: "person", ID: &p.ID, Data: json.RawMessage(`{"name":"Ada L."}`)}))(t)
	if s := trustOf(e); s == nil || s.Trust.Overall != r.After || s.Interactions != 1 {
		t.Errorf("%s", e.Data)
	}
	sealed := must(f.db.Keys().Seal("psychology_entries", "data", p.ID, []byte(`{"name":"Ada`)))(t)
	f.exec(`UPDATE psychology_entries SET data = ? WHERE id = ?`, sealed, p.ID)
	if _, err := f.RecordInteraction(f.ctx, InteractionParams{PersonID: p.ID, SalienceTier: "high"}); !fault.Is(err, fault.Conflict) || f.get(p.ID).Raw != `{"name":"Ada` {
		t.Error(err)
	}
}

func TestUndoOfPartsAndRepeatedIDs(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	e, m := f.entry(f.ctx, 1, "narrative", `{"title":"A"}`, 720), f.old(f.ctx, 720, "medium", 0)
	what := must(f.Forecast(f.ctx, ForecastParams{ID: &m, WhatIf: &WhatIf{Pinned: ptr(true)}}))(t)
	r := must(f.Pin(f.ctx, PinParams{IDs: []uuid.UUID{e.ID, m, m, e.ID}, On: true}))(t)
	if len(r.Items) != 2 || !near(r.Items[1].Retention, what.Points[59].Retention) || !near(r.Items[1].Retention, 0.75) {
		t.Errorf("%+v, forecast %g", r.Items, what.Points[59].Retention)
	}
	must(f.UpsertEntry(f.ctx, UpsertParams{LayerNumber: 1, Kind: "narrative", Data: json.RawMessage(`{"title":"B"}`), ID: &e.ID}))(t)
	if n := must(f.Undo(f.ctx, memory.UndoParams{UndoToken: r.UndoToken}))(t); n.Count != 1 {
		t.Errorf("%+v", n)
	}
	if got := must(f.Forecast(f.ctx, ForecastParams{ID: &m}))(t); got.Item.Pinned || !near(got.Item.Retention, 0.5) {
		t.Errorf("after Undo the memory is at %+v", got.Item)
	}
}

// Later edits preserve earlier texts, as many as fit.
func TestEarlierTextsStay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	long := strings.Repeat("x", 3900)
	e := f.entry(f.ctx, 1, "narrative", `{"title":"A","summary":"`+long+`"}`, 2000)
	for i := range 25 {
		f.exec(`UPDATE psychology_entries SET last_reinforced_at = created_at, initial_strength = 1 WHERE id = ?`, e.ID)
		must(f.Reinforce(f.ctx, ReinforceParams{IDs: []uuid.UUID{e.ID}, Kind: "review"}))(t)
		data, _ := json.Marshal(map[string]any{"title": "B" + strings.Repeat("!", i), "summary": long})
		must(f.UpsertEntry(f.ctx, UpsertParams{LayerNumber: 1, Kind: "narrative", ID: &e.ID, Data: data}))(t)
	}
	f.exec(`UPDATE psychology_entries SET open_until = NULL`)
	got := must(f.UpsertEntry(f.ctx, UpsertParams{LayerNumber: 1, Kind: "narrative", ID: &e.ID, Data: json.RawMessage(`{"title":"C"}`)}))(t)
	var d struct{ Earlier []any }
	if err := json.Unmarshal(got.Data, &d); err != nil || len(d.Earlier) < 10 || len(got.Data) > 2*maxData {
		t.Errorf("%d earlier texts in %d bytes", len(d.Earlier), len(got.Data))
	}
	must(f.Export(f.ctx, ExportParams{}))(t)
	must(f.Import(f.ctx, ImportParams{}))(t)
}

// Time during which nothing decays does not count, for memories as for entries.
func TestTimeOffDoesNotCount(t *testing.T) {
	t.Parallel()
	for name, flip := range map[string]func(on bool) SettingsParams{
		"decay": func(on bool) SettingsParams { return SettingsParams{DecayEnabled: &on} },
		"all":   func(on bool) SettingsParams { return SettingsParams{Enabled: &on} },
		"layer": func(on bool) SettingsParams { return SettingsParams{Layers: map[string]bool{"1": on}} },
	} {
		f := newFixture(t)
		e, m := f.entry(f.ctx, 1, "narrative", `{"title":"A"}`, 720), f.old(f.ctx, 720, "medium", 1)
		check := func(when string) {
			t.Helper()
			for _, id := range []uuid.UUID{e.ID, m} {
				if got := must(f.Forecast(f.ctx, ForecastParams{ID: &id}))(t).Item; !near(got.Retention, 0.5) {
					t.Errorf("%s, %s: %s is at %g", name, when, got.Kind, got.Retention)
				}
			}
		}
		check("before")
		must(f.UpdateSettings(f.ctx, flip(false)))(t)
		check("off")
		f.exec(`UPDATE memories SET created_at = created_at - ?`, int64(1000*3600e6))
		f.exec(`UPDATE psychology_entries SET created_at = created_at - ?`, int64(1000*3600e6))
		check("long off")
		must(f.UpdateSettings(f.ctx, flip(true)))(t)
		check("on again")
	}
}

// failing is a memory in which storing the n-th batch of retentions fails.
type failing struct {
	Memory
	n int
}

func (m *failing) RetainTx(ctx context.Context, tx *storage.Tx, list []memory.Retained) (int, error) {
	if m.n--; m.n < 0 {
		return 0, errors.New("the disk is full")
	}
	return m.Memory.RetainTx(ctx, tx, list)
}

// A run that fails keeps the batches already stored, which are valid, and reports the failure; the
// next run completes the rest.
func TestRunThatFailsInABatch(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := make([]memory.AddParams, 100)
	for range 21 {
		for k := range ids {
			ids[k].Content = uuid.NewString()
		}
		must(f.mem.AddBatch(f.ctx, memory.AddBatchParams{Items: ids}))(t)
	}
	f.exec(`UPDATE memories SET created_at = created_at - ?`, int64(720*3600e6))
	count := func() (n int) {
		must(0, f.db.Read(f.ctx, func(tx *storage.Tx) error {
			return tx.QueryRow(`SELECT count(*) FROM memories WHERE retention BETWEEN 0.49 AND 0.51`).Scan(&n)
		}))(t)
		return n
	}
	for batch := range 3 {
		f.exec(`UPDATE memories SET retention = NULL`)
		f.memory = &failing{f.mem, batch}
		if _, err := f.DecayRun(f.ctx, RunParams{}); err == nil {
			t.Fatal("the run did not fail")
		}
		if n := count(); n != batch*batchSize {
			t.Errorf("%d memories after %d batches", n, batch)
		}
		if h := must(f.DecayHistory(f.ctx, HistoryParams{}))(t); h.Runs[0].Error == "" || h.Runs[0].FinishedAt == nil {
			t.Errorf("%+v", h.Runs[0])
		}
	}
	f.memory = f.mem
	f.run(RunParams{})
	if n := count(); n != 2100 {
		t.Errorf("%d memories after a run that ends", n)
	}
}

// The audit log records a change before it is made, of entries and of memories.
func TestTheAuditEntryComesBeforeTheChange(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	e := f.entry(f.ctx, 4, "goal", `{"title":"Run ten kilometers"}`, 48)
	m := f.old(f.ctx, 48, "medium", 1)
	f.exec(`CREATE TABLE seen (what TEXT, entries INTEGER)`)
	for _, table := range []string{"psychology_entries", "memories"} {
		f.exec(`CREATE TRIGGER seen_` + table + ` AFTER UPDATE OF last_reinforced_at ON ` + table + ` BEGIN
			INSERT INTO seen VALUES ('` + table + `', (SELECT count(*) FROM audit_log WHERE action = 'psychology.reinforce')); END`)
	}
	must(f.Reinforce(f.ctx, ReinforceParams{IDs: []uuid.UUID{e.ID, m}, Kind: "confirm"}))(t)
	var got string
	if err := f.db.Read(f.ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT coalesce(group_concat(what || ' ' || entries, ', ' ORDER BY what), '') FROM seen`).Scan(&got)
	}); err != nil || got != "memories 1, psychology_entries 1" {
		t.Errorf("at the changes the log had: %s, %v", got, err)
	}
}
