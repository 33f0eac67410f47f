package memory

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
	"helix/backend/testkit"
)

func TestUpdateRefuses(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	m := b.add(t, "first")
	id := m.ID.String()
	long := strings.Repeat("x", maxContent+1)
	for name, c := range map[string]struct {
		p     UpdateParams
		field string
	}{
		"no version":   {UpdateParams{ID: id}, "version"},
		"empty":        {UpdateParams{ID: id, Version: 1, Content: ptr(" \n\x00")}, "content"},
		"long":         {UpdateParams{ID: id, Version: 1, Content: &long}, "content"},
		"type":         {UpdateParams{ID: id, Version: 1, Type: ptr("dream")}, "type"},
		"layer 8":      {UpdateParams{ID: id, Version: 1, Layer: ptr(8)}, "layer"},
		"tier":         {UpdateParams{ID: id, Version: 1, SalienceTier: ptr("huge")}, "salienceTier"},
		"date":         {UpdateParams{ID: id, Version: 1, OccurredAt: json.RawMessage(`"yesterday"`)}, "occurredAt"},
		"metadata":     {UpdateParams{ID: id, Version: 1, Metadata: json.RawMessage(`[1]`)}, "metadata"},
		"long tag":     {UpdateParams{ID: id, Version: 1, Tags: ptr([]string{strings.Repeat("ä", 65)})}, "tags"},
		"many tags":    {UpdateParams{ID: id, Version: 1, Tags: ptr(strings.Split("a b c d e f g h i j k l m n o p q", " "))}, "tags"},
		"no id at all": {UpdateParams{ID: "note-7", Version: 1}, "id"},
	} {
		_, err := b.Update(b.ctx, c.p)
		f := fault.As(err)
		if f == nil || f.Kind != fault.Invalid || f.Details != fault.Field(c.field, fault.CodeInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := b.get(t, m.ID); !same(got, m) {
		t.Errorf("a refused edit changed %+v to %+v", m, got)
	}
}

func TestUpdateConflictCarriesTheItem(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	m := b.add(t, "first")
	u := must(b.Update(b.ctx, UpdateParams{ID: m.ID.String(), Version: 1, Content: ptr("second")}))(t)
	_, err := b.Update(b.ctx, UpdateParams{ID: m.ID.String(), Version: 1, Content: ptr("third")})
	f := fault.As(err)
	if now, ok := f.Details.(Item); f.Kind != fault.Conflict || !ok || !same(now, u.Item) {
		t.Fatalf("%v with %+v", err, f.Details)
	}
	if same := must(b.Update(b.ctx, UpdateParams{ID: m.ID.String(), Version: 2, Content: ptr(" second ")}))(t); same.Version != 2 || same.UndoToken != "" {
		t.Fatalf("an edit that changes nothing made %+v", same)
	}
}

// TestConcurrentEdits edits one version concurrently: one edit wins, the others are conflicts, and
// no text is lost.
func TestConcurrentEdits(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	m := b.add(t, "version 1")
	const rounds, editors = 8, 6
	for round := range rounds {
		var wg sync.WaitGroup
		errs := make([]error, editors)
		for e := range editors {
			wg.Go(func() {
				_, errs[e] = b.Update(b.ctx, UpdateParams{ID: m.ID.String(), Version: int64(round + 1), Content: ptr(fmt.Sprintf("version %d of %d", round+2, e))})
			})
		}
		wg.Wait()
		won := 0
		for _, err := range errs {
			switch {
			case err == nil:
				won++
			case !fault.Is(err, fault.Conflict):
				t.Fatal(err)
			}
		}
		if won != 1 {
			t.Fatalf("round %d: %d edits won", round, won)
		}
	}
	h := must(b.History(b.ctx, HistoryParams{ID: m.ID.String()}))(t)
	if len(h.Revisions) != rounds {
		t.Fatalf("%d revisions, want %d", len(h.Revisions), rounds)
	}
	for i, r := range h.Revisions {
		if want := int64(rounds - i); r.Version != want || !strings.HasPrefix(r.Content, fmt.Sprintf("version %d", want)) {
			t.Errorf("revision %d is version %d: %q", i, r.Version, r.Content)
		}
	}
	if n := len(b.findable(t)); n != 1 {
		t.Errorf("%d entries in search", n)
	}
}

func TestFiftyRevisionsAreKept(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	m := b.add(t, "text 1")
	for v := range 60 {
		must(b.Update(b.ctx, UpdateParams{ID: m.ID.String(), Version: int64(v + 1), Content: ptr(fmt.Sprintf("text %d", v+2))}))(t)
	}
	h := must(b.History(b.ctx, HistoryParams{ID: m.ID.String()}))(t)
	if len(h.Revisions) != 50 || h.Revisions[0].Content != "text 60" || h.Revisions[49].Content != "text 11" {
		t.Fatalf("%d revisions", len(h.Revisions))
	}
	if err := b.cleanup(b.ctx, time.Now().Add(revisionAge+time.Hour)); err != nil {
		t.Fatal(err)
	}
	if h := must(b.History(b.ctx, HistoryParams{ID: m.ID.String()}))(t); len(h.Revisions) != 0 {
		t.Fatalf("%d revisions after a year", len(h.Revisions))
	}
	if got := b.get(t, m.ID); got.Content != "text 61" {
		t.Fatalf("the memory says %q", got.Content)
	}
}

// TestBrokenUpdateChangesNothing makes an update fail at its last step.
func TestBrokenUpdateChangesNothing(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	m := b.add(t, "first", "x")
	broken := errors.New("power cut")
	err := b.db.Write(b.ctx, func(tx *storage.Tx) error {
		r, err := b.memory(tx, identity.UserID(b.ctx), m.ID)
		if err != nil {
			return err
		}
		if err := b.changeTx(tx, r, change{content: ptr("second"), tags: ptr([]string{"y"})}, "person"); err != nil {
			return err
		}
		return broken
	})
	if !errors.Is(err, broken) {
		t.Fatal(err)
	}
	h := must(b.History(b.ctx, HistoryParams{ID: m.ID.String()}))(t)
	if got := b.get(t, m.ID); !same(got, m) || len(h.Revisions) != 0 || len(b.findable(t)) != 1 {
		t.Fatalf("%+v, %d revisions, found %v", got, len(h.Revisions), b.findable(t))
	}
}

// TestTagsUnderConcurrentChange adds and removes tags concurrently: every change takes effect.
func TestTagsUnderConcurrentChange(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	m := b.add(t, "tagged", "old1", "old2", "old3", "old4")
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			if _, err := b.Tag(b.ctx, TagParams{ID: m.ID.String(), Add: []string{fmt.Sprintf("New%d", i+1)}}); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			if _, err := b.Tag(b.ctx, TagParams{IDs: []string{m.ID.String()}, Remove: []string{fmt.Sprintf("old%d", i+1)}}); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			if _, err := b.Tag(b.ctx, TagParams{ID: m.ID.String(), Add: []string{"both"}, Remove: []string{"both"}}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	got := b.get(t, m.ID)
	if want := []string{"both", "new1", "new2", "new3", "new4"}; !slices.Equal(got.Tags, want) {
		t.Fatalf("tags %v, want %v", got.Tags, want)
	}
	_, err := b.Tag(b.ctx, TagParams{ID: m.ID.String(), Add: strings.Split("a b c d e f g h i j k l", " ")})
	wantKind(t, err, fault.Invalid, "at most 16 tags")
	if got := b.get(t, m.ID); len(got.Tags) != 5 {
		t.Fatalf("tags %v", got.Tags)
	}
}

func TestOnlyAPersonMarksCritical(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	id, _ := identity.From(b.ctx)
	id.Client = identity.ClientProgram
	agent := identity.With(b.ctx, id)
	m := b.add(t, "important")
	_, err := b.SetSalience(agent, SalienceParams{ID: m.ID.String(), Tier: "critical"})
	wantKind(t, err, fault.Denied, "Only a person")
	_, err = b.Update(agent, UpdateParams{ID: m.ID.String(), Version: 1, SalienceTier: ptr("critical")})
	wantKind(t, err, fault.Denied, "Only a person")
	_, err = b.Add(agent, AddParams{Content: "mine", SalienceTier: "critical"})
	wantKind(t, err, fault.Denied, "Only a person")
	_, err = b.Add(b.ctx, AddParams{Content: "mine", SalienceTier: "critical", Source: "agent"})
	wantKind(t, err, fault.Denied, "Only a person")
	if r := must(b.SetSalience(agent, SalienceParams{ID: m.ID.String(), Tier: "high"}))(t); r.Items[0].Salience != 75 {
		t.Fatalf("%+v", r.Items[0])
	}
	if r := must(b.SetSalience(b.ctx, SalienceParams{ID: m.ID.String(), Tier: "critical"}))(t); r.Items[0].Salience != 100 || r.Items[0].Version != 1 {
		t.Fatalf("%+v", r.Items[0])
	}
	if r := must(b.Add(agent, AddParams{Content: "what the agent noted"}))(t); r.Item.Source != "agent" {
		t.Fatalf("the agent stored as %s", r.Item.Source)
	}
	if u := must(b.Update(agent, UpdateParams{ID: m.ID.String(), Version: 1, Content: ptr("changed")}))(t); u.Version != 2 {
		t.Fatalf("%+v", u)
	}
	if h := must(b.History(b.ctx, HistoryParams{ID: m.ID.String()}))(t); h.Revisions[0].Origin != "agent" {
		t.Fatalf("origin %s", h.Revisions[0].Origin)
	}
}

func TestScore(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in    Signals
		score float64
		tier  string
	}{
		{Signals{}, 0, "low"},
		{Signals{Confidence: 1}, 0.1, "low"},
		{Signals{Emotion: 0.5, Goals: 1, Confidence: 1}, 0.36, "medium"},
		{Signals{Emotion: 1, Goals: 5, Shifts: 3, Confidence: 1}, 1, "high"},
		{Signals{Emotion: 9, Goals: 50, Shifts: 30, Confidence: 7}, 1, "high"},
		{Signals{Emotion: 1, Goals: 3, Shifts: 1, Confidence: 1}, 0.4 + 0.18 + 0.2/3 + 0.1, "high"},
		{Signals{Emotion: 1, Goals: 5, Shifts: 3, Confidence: 0.7}, 0.7, "medium"},
		{Signals{Emotion: -1, Goals: -5, Shifts: -3, Confidence: 1}, 0.1, "low"},
	} {
		score, tier := Score(c.in)
		if d := score - c.score; d > 1e-9 || d < -1e-9 || tier != c.tier {
			t.Errorf("%+v: %v %s, want %v %s", c.in, score, tier, c.score, c.tier)
		}
	}
}

// TestReinforcementTriggers checks what counts as use and what does not.
func TestReinforcementTriggers(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	b := newBundle(t, Options{})
	m := b.add(t, "a text")
	id := m.ID.String()
	want := int64(0)
	check := func(what string, by int64, err error) {
		t.Helper()
		if want += by; err != nil {
			t.Fatal(what, err)
		}
		if got := b.get(t, m.ID); got.AccessCount != want || (want > 0) != (got.LastReinforcedAt != nil) {
			t.Fatalf("%s: %d uses, want %d", what, got.AccessCount, want)
		}
	}
	_, err := b.List(b.ctx, ListParams{})
	check("list", 0, err)
	_, err = b.Get(b.ctx, GetParams{ID: id})
	check("get", 0, err)
	_, err = b.Tag(b.ctx, TagParams{ID: id, Add: []string{"t"}})
	check("tag", 0, err)
	_, err = b.SetSalience(b.ctx, SalienceParams{ID: id, Tier: "low"})
	check("salience", 0, err)
	_, err = b.Pin(b.ctx, PinParams{ID: id, On: ptr(false)})
	check("unpin", 0, err)
	_, err = b.Get(b.ctx, GetParams{ID: id, Touch: true})
	check("touch", 1, err)
	_, err = b.Pin(b.ctx, PinParams{ID: id})
	check("pin", 1, err)
	_, err = b.Update(b.ctx, UpdateParams{ID: id, Version: b.get(t, m.ID).Version, Content: ptr("another text")})
	check("edit", 1, err)
	_, err = b.Add(b.ctx, AddParams{Content: "another text"})
	check("the same again", 1, err)
	check("cite within an hour", 0, b.cite(m.ID))
	b.exec(t, `UPDATE memories SET last_reinforced_at = last_reinforced_at - ?`, useEvery.Microseconds())
	check("cite", 1, b.cite(m.ID))
}

func (b *bundle) cite(ids ...uuid.UUID) error {
	return b.db.Write(b.ctx, func(tx *storage.Tx) error { return b.CiteTx(b.ctx, tx, ids) })
}

// TestReinforcementRestoresStrength reinforces a memory with a retention of a quarter: part of the
// loss is restored, depending on the kind, and the row gets a new version, which does not affect
// edits but is visible to decay.
func TestReinforcementRestoresStrength(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	for name, c := range map[string]struct {
		want float64
		act  func(id string, version int64) error
	}{
		"open": {0.25 + 0.3*0.75, func(id string, _ int64) error {
			_, err := b.Get(b.ctx, GetParams{ID: id, Touch: true})
			return err
		}},
		"pin": {0.25 + 0.5*0.75, func(id string, _ int64) error {
			_, err := b.Pin(b.ctx, PinParams{ID: id})
			return err
		}},
		"same text": {0.25 + 0.5*0.75, func(string, int64) error {
			_, err := b.Add(b.ctx, AddParams{Content: "same text"})
			return err
		}},
		"edit": {0.25 + 0.5*0.75, func(id string, version int64) error {
			_, err := b.Update(b.ctx, UpdateParams{ID: id, Version: version, Layer: ptr(3)})
			return err
		}},
		"cite": {0.25 + 0.2*0.75, func(id string, _ int64) error { return b.cite(uuid.MustParse(id)) }},
	} {
		m := b.add(t, name)
		b.exec(t, `UPDATE memories SET retention = 0.25, decayed_at = 1 WHERE id = ?`, m.ID)
		if err := c.act(m.ID.String(), m.Version); err != nil {
			t.Fatal(name, err)
		}
		got := b.get(t, m.ID)
		if math.Abs(got.InitialStrength-c.want) > 1e-9 || got.Retention == nil || *got.Retention != got.InitialStrength || got.Version != 2 {
			t.Errorf("%s: strength %v, retention %v, version %d; want %v and version 2", name, got.InitialStrength, got.Retention, got.Version, c.want)
		}
	}
	fresh := b.add(t, "nothing has decayed")
	if got := must(b.Get(b.ctx, GetParams{ID: fresh.ID.String(), Touch: true}))(t); got.InitialStrength != 1 || got.Retention != nil || got.Version != 2 {
		t.Errorf("strength %v, retention %v, version %d", got.InitialStrength, got.Retention, got.Version)
	}
}

// TestEditOfAReinforcedMemory edits a memory at an older version after it was reinforced, which is
// not a conflict. After another edit it is one.
func TestEditOfAReinforcedMemory(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	m := b.add(t, "a memory")
	id := m.ID.String()
	must(b.Get(b.ctx, GetParams{ID: id, Touch: true}))(t)
	must(b.Pin(b.ctx, PinParams{ID: id}))(t)
	edit := must(b.Update(b.ctx, UpdateParams{ID: id, Version: m.Version, Content: ptr("an edited memory")}))(t)
	if edit.Version != 4 {
		t.Errorf("version %d after two reinforcements and an edit", edit.Version)
	}
	for _, version := range []int64{m.Version, edit.Version - 1, edit.Version + 1} {
		if _, err := b.Update(b.ctx, UpdateParams{ID: id, Version: version, Content: ptr("lost")}); !fault.Is(err, fault.Conflict) {
			t.Errorf("an edit of version %d: %v", version, err)
		}
	}
}

// TestEmotionalValence sets, changes, clears and undoes the valence, and rejects values out of range.
func TestEmotionalValence(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	m := must(b.Add(b.ctx, AddParams{Content: "we won", EmotionalValence: ptr(0.75)}))(t).Item
	if m.EmotionalValence == nil || *m.EmotionalValence != 0.75 || *b.get(t, m.ID).EmotionalValence != 0.75 {
		t.Fatalf("after add: %v", m.EmotionalValence)
	}
	id := m.ID.String()
	edit := must(b.Update(b.ctx, UpdateParams{ID: id, Version: 1, EmotionalValence: json.RawMessage(`-1`)}))(t)
	if edit.EmotionalValence == nil || *edit.EmotionalValence != -1 || edit.Version != 2 {
		t.Errorf("after the edit: %v, version %d", edit.EmotionalValence, edit.Version)
	}
	must(b.Undo(b.ctx, UndoParams{UndoToken: edit.UndoToken}))(t)
	if got := b.get(t, m.ID); got.EmotionalValence == nil || *got.EmotionalValence != 0.75 {
		t.Errorf("after undo: %v", got.EmotionalValence)
	}
	if got := must(b.Update(b.ctx, UpdateParams{ID: id, Version: 3, EmotionalValence: json.RawMessage(`null`)}))(t); got.EmotionalValence != nil {
		t.Errorf("after null: %v", *got.EmotionalValence)
	}
	for _, raw := range []string{`1.01`, `-2`, `"sad"`} {
		if _, err := b.Update(b.ctx, UpdateParams{ID: id, Version: 4, EmotionalValence: json.RawMessage(raw)}); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", raw, err)
		}
	}
	if _, err := b.Add(b.ctx, AddParams{Content: "x", EmotionalValence: ptr(-1.5)}); !fault.Is(err, fault.Invalid) {
		t.Errorf("add of -1.5: %v", err)
	}
}

// TestSignalsChooseTheTier adds memories with signals, which determine the tier unless one is given.
func TestSignalsChooseTheTier(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	for want, p := range map[string]AddParams{
		"high":   {Signals: &Signals{Emotion: 1, Goals: 5, Confidence: 1}},
		"medium": {Signals: &Signals{Emotion: 0.5, Confidence: 1}},
		"low":    {Signals: &Signals{Emotion: 1, Goals: 5, Confidence: 0.1}},
	} {
		p.Content = want
		if m := must(b.Add(b.ctx, p))(t).Item; m.SalienceTier != want {
			t.Errorf("%s: %s", want, m.SalienceTier)
		}
	}
	m := must(b.Add(b.ctx, AddParams{Content: "named", SalienceTier: "high", Signals: &Signals{}}))(t).Item
	if m.SalienceTier != "high" {
		t.Errorf("the tier that was named is %s", m.SalienceTier)
	}
}

// TestNullClears decodes requests from the wire: null clears a value, and an absent field
// leaves it unchanged.
func TestNullClears(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	at := time.Date(2024, 2, 29, 10, 0, 0, 0, time.UTC)
	m := must(b.Add(b.ctx, AddParams{Content: "a memory", OccurredAt: &at, Metadata: json.RawMessage(`{"title":"T"}`)}))(t).Item
	send := func(fields string) UpdateResult {
		t.Helper()
		var p UpdateParams
		if err := json.Unmarshal([]byte(fields), &p); err != nil {
			t.Fatal(err)
		}
		p.ID, p.Version = m.ID.String(), b.get(t, m.ID).Version
		return must(b.Update(b.ctx, p))(t)
	}
	if r := send(`{"layer":2}`); r.OccurredAt == nil || r.Title != "T" {
		t.Errorf("absent fields: %+v", r.Item)
	}
	clear := send(`{"occurredAt":null,"metadata":null}`)
	if clear.OccurredAt != nil || clear.Title != "" || string(clear.Metadata) != "{}" {
		t.Errorf("null: %+v", clear.Item)
	}
	must(b.Undo(b.ctx, UndoParams{UndoToken: clear.UndoToken}))(t)
	if got := b.get(t, m.ID); got.OccurredAt == nil || !got.OccurredAt.Equal(at) || got.Title != "T" {
		t.Errorf("after undo: %+v", got)
	}
}
