package memory

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"helix/backend/fault"
	"helix/backend/memory/search"
	"helix/backend/storage"
	"helix/backend/testkit"
)

func TestAddRefuses(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	b := newBundle(t, Options{})
	for name, c := range map[string]struct {
		p       AddParams
		field   string
		message string
	}{
		"empty":        {AddParams{}, "content", "Write something first"},
		"white":        {AddParams{Content: " \n\t\x00"}, "content", "Write something first"},
		"long":         {AddParams{Content: strings.Repeat("é", maxContent/2+1)}, "content", "Longer than 64 KiB: import it as a document"},
		"very long":    {AddParams{Content: strings.Repeat("x", 3*maxContent)}, "content", "Longer than 64 KiB: import it as a document"},
		"type":         {AddParams{Content: "x", Type: "dream"}, "type", "not a memory type"},
		"layer 0":      {AddParams{Content: "x", Layer: ptr(0)}, "layer", "Layers are 1 to 7"},
		"layer 8":      {AddParams{Content: "x", Layer: ptr(8)}, "layer", "Layers are 1 to 7"},
		"year 10000":   {AddParams{Content: "x", OccurredAt: ptr(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC))}, "occurredAt", "not a date"},
		"source":       {AddParams{Content: "x", Source: "dream"}, "source", "not a memory source"},
		"tier":         {AddParams{Content: "x", SalienceTier: "huge"}, "salienceTier", "not a salience tier"},
		"metadata":     {AddParams{Content: "x", Metadata: json.RawMessage(`"x"`)}, "metadata", "JSON object"},
		"bad metadata": {AddParams{Content: "x", Metadata: json.RawMessage(`{`)}, "metadata", "JSON object"},
		"17 tags":      {AddParams{Content: "x", Tags: strings.Split("a b c d e f g h i j k l m n o p q", " ")}, "tags", "More than 16 tags"},
		"long tag":     {AddParams{Content: "x", Tags: []string{strings.Repeat("x", 65)}}, "tags", "longer than 64"},
	} {
		_, err := b.Add(b.ctx, c.p)
		f := fault.As(err)
		if f == nil || f.Kind != fault.Invalid || f.Details != fault.Field(c.field, fault.CodeInvalid) || !strings.Contains(f.Message, c.message) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := b.count(t, `SELECT count(*) FROM memories`); n != 0 {
		t.Errorf("%d rows were written", n)
	}
	// Texts and tags at the limit are accepted.
	must(b.Add(b.ctx, AddParams{Content: strings.Repeat("é", maxContent/2), Tags: []string{strings.Repeat("ä", 64), "", " "}}))(t)
}

func TestAddDeduplicates(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	first := *must(b.Add(b.ctx, AddParams{Content: "Café", Tags: []string{"a"}, SalienceTier: "high"}))(t).Item
	again := must(b.Add(b.ctx, AddParams{Content: " Cafe\u0301\n", Tags: []string{"b", "A"}, SalienceTier: "low"}))(t)
	if !again.Deduplicated || again.Item.ID != first.ID || !slices.Equal(again.Item.Tags, []string{"a", "b"}) || again.Item.AccessCount != 1 || again.Item.SalienceTier != "high" {
		t.Fatalf("%+v", again.Item)
	}
	if got := b.get(t, first.ID); !same(got, *again.Item) {
		t.Fatalf("stored %+v, answered %+v", got, *again.Item)
	}
	if other := must(b.Add(b.ctx, AddParams{Content: "Café", Dedupe: ptr(false)}))(t); other.Deduplicated || other.Item.ID == first.ID {
		t.Fatalf("%+v", other)
	}
	if theirs := must(b.Add(b.them, AddParams{Content: "Café"}))(t); theirs.Deduplicated {
		t.Fatal("another user's memory was taken")
	}
	must(b.Delete(b.ctx, IDsParams{IDs: []string{first.ID.String()}}))(t)
	if third := must(b.Add(b.ctx, AddParams{Content: "Café"}))(t); third.Item.ID == first.ID || third.Item.DeletedAt != nil {
		t.Fatalf("what is in the trash was given: %+v", third.Item)
	}
}

func TestAddBatchWithErrors(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	r := must(b.AddBatch(b.ctx, AddBatchParams{Items: []AddParams{
		{Content: "one"}, {Content: " "}, {Content: "two", Layer: ptr(9)}, {Content: "one", Tags: []string{"x"}}, {Content: "three", Source: "agent"}, {Content: "four", Type: "no"},
	}}))(t)
	var got []string
	for _, i := range r.Items {
		switch {
		case i.Error != nil:
			got = append(got, i.Error.Kind)
		case i.Deduplicated:
			got = append(got, "known "+i.Item.Content)
		default:
			got = append(got, i.Item.Content)
		}
	}
	if want := []string{"one", "invalid", "invalid", "known one", "three", "invalid"}; !slices.Equal(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
	if l := must(b.List(b.ctx, ListParams{}))(t); l.Total != 2 || r.Items[1].Error.Message != "Write something first" {
		t.Fatalf("%d memories, %+v", l.Total, r.Items[1].Error)
	}
	_, err := b.AddBatch(b.ctx, AddBatchParams{})
	wantKind(t, err, fault.Invalid, "Nothing to store")
	_, err = b.AddBatch(b.ctx, AddBatchParams{Items: make([]AddParams, 1001)})
	wantKind(t, err, fault.Invalid, "too many")
}

// TestEveryKindOfRowLoads stores a memory of each type, source, tier and layer and reads it back.
func TestEveryKindOfRowLoads(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	n := 0
	for _, typ := range memoryTypes {
		for _, source := range sources {
			tier := tierSalience[n%4].tier
			if source == "agent" || source == "tool" {
				tier = "low"
			}
			n++
			m := *must(b.Add(b.ctx, AddParams{Content: fmt.Sprintf("%s %s", typ, source), Type: typ, Source: source, Layer: ptr(n%7 + 1), SalienceTier: tier}))(t).Item
			if got := b.get(t, m.ID); !same(got, m) || got.Type != typ || got.Source != source || got.SalienceTier != tier || got.Untrusted != slices.Contains(foreign, source) {
				t.Errorf("%+v, want %+v", got, m)
			}
		}
	}
	b.exec(t, `UPDATE memories SET emotional_valence = -0.5, retention = 0.25, decayed_at = 7, initial_strength = 0.5 WHERE type = 'semantic'`)
	l := must(b.List(b.ctx, ListParams{Limit: 200, Filters: &search.Filters{Types: []string{"semantic"}}}))(t)
	if l.Total != int64(len(sources)) || *l.Items[0].EmotionalValence != -0.5 || *l.Items[0].Retention != 0.25 || l.Items[0].InitialStrength != 0.5 {
		t.Fatalf("%+v", l)
	}
	// An unreadable row is an error and is not skipped.
	b.exec(t, `UPDATE memories SET content = x'01ff00' WHERE id = (SELECT id FROM memories WHERE type = 'procedural' LIMIT 1)`)
	if _, err := b.List(b.ctx, ListParams{Limit: 200}); err == nil {
		t.Fatal("a damaged text was passed over")
	}
}

func TestTimesComeBack(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	for _, text := range []string{
		"2023-05-08T13:56:00Z", "2023-05-08T13:56:00.5Z", "2023-05-08T13:56:00.123456+05:30", "2023-05-08T13:56:00-12:00", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z",
		"1969-12-31T23:59:59.999999Z", "2024-02-29T00:00:00+14:00",
	} {
		var p AddParams
		if err := json.Unmarshal(fmt.Appendf(nil, `{"content": %q, "occurredAt": %q}`, text, text), &p); err != nil {
			t.Fatal(err)
		}
		want, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			t.Fatal(err)
		}
		got := b.get(t, must(b.Add(b.ctx, p))(t).Item.ID)
		if got.OccurredAt == nil || !got.OccurredAt.Equal(want) {
			t.Errorf("%s came back as %v", text, got.OccurredAt)
		}
	}
	// Times with and without fractions sort chronologically, and missing ones last.
	none := b.add(t, "no time")
	l := must(b.List(b.ctx, ListParams{Sort: "occurred"}))(t)
	for i := 1; i < len(l.Items)-1; i++ {
		if l.Items[i].OccurredAt.After(*l.Items[i-1].OccurredAt) {
			t.Errorf("%s stands after %s", l.Items[i].Content, l.Items[i-1].Content)
		}
	}
	if last := l.Items[len(l.Items)-1]; last.ID != none.ID || last.OccurredAt != nil {
		t.Errorf("last is %+v", last)
	}
}

func TestInvisibleTextsAreRejected(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	for _, text := range []string{"\u200b", "\ufeff", "\u200e \u2060", "\x01\x02"} {
		_, err := b.Add(b.ctx, AddParams{Content: text})
		wantKind(t, err, fault.Invalid, "Write something first")
	}
	for _, text := range []string{"\U0001F346", "?", "\u0301a"} {
		b.add(t, text)
	}
}

// TestTimesAreInRangeInUTC uses times whose year is in range only in their own zone: in UTC, in
// which they are returned, JSON cannot represent them.
func TestTimesAreInRangeInUTC(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	m := b.add(t, "a memory")
	for _, text := range []string{"9999-12-31T23:59:59-11:00", "0001-01-01T00:00:00+11:00"} {
		at := must(time.Parse(time.RFC3339, text))(t)
		_, err := b.Add(b.ctx, AddParams{Content: "at " + text, OccurredAt: &at})
		wantKind(t, err, fault.Invalid, "years 1 and 9999")
		raw := json.RawMessage(`"` + text + `"`)
		_, err = b.Update(b.ctx, UpdateParams{ID: m.ID.String(), Version: 1, OccurredAt: raw})
		wantKind(t, err, fault.Invalid, "years 1 and 9999")
	}
	for _, text := range []string{"9999-12-31T23:59:59+11:00", "0001-01-01T00:00:00-11:00"} {
		at := must(time.Parse(time.RFC3339, text))(t)
		r := must(b.Add(b.ctx, AddParams{Content: "at " + text, OccurredAt: &at}))(t)
		if _, err := json.Marshal(r); err != nil || !b.get(t, r.Item.ID).OccurredAt.Equal(at) {
			t.Errorf("%s: %v, %v", text, r.Item.OccurredAt, err)
		}
	}
}

// TestFullDiskChangesNothing performs each kind of write on a full disk.
func TestFullDiskChangesNothing(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	m := b.add(t, "a memory", "tag")
	if err := b.db.Write(b.ctx, func(tx *storage.Tx) error {
		var n int64
		if err := tx.QueryRow(`PRAGMA page_count`).Scan(&n); err != nil {
			return err
		}
		return tx.QueryRow(fmt.Sprintf(`PRAGMA max_page_count = %d`, n)).Scan(&n)
	}); err != nil {
		t.Fatal(err)
	}
	before, large := b.picture(t), strings.Repeat("word salad ", 5000)
	for name, call := range map[string]func() error{
		"add": func() error { _, err := b.Add(b.ctx, AddParams{Content: large}); return err },
		"add batch": func() error {
			_, err := b.AddBatch(b.ctx, AddBatchParams{Items: []AddParams{{Content: "small"}, {Content: large}}})
			return err
		},
		"update": func() error {
			_, err := b.Update(b.ctx, UpdateParams{ID: m.ID.String(), Version: 1, Content: &large})
			return err
		},
		"upsert": func() error {
			_, err := b.UpsertChunks(b.ctx, UpsertParams{Source: UpsertSource{URI: "file:x"}, Text: &large})
			return err
		},
	} {
		if err := call(); !fault.Is(err, fault.Limit) || !strings.Contains(err.Error(), "The disk is full. Nothing was changed.") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if after := b.picture(t); after != before {
		t.Errorf("something changed:\n%s\nwas\n%s", after, before)
	}
	if r := must(b.Search(b.ctx, search.Params{Query: "salad small"}))(t); len(r.Results) != 0 {
		t.Errorf("%d hits of what was not stored", len(r.Results))
	}
}
