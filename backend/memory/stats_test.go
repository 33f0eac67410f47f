package memory

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"helix/backend/identity"
	"helix/backend/memory/search"
	"helix/backend/storage"
)

func TestStats(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	at := time.Date(1969, 12, 31, 23, 0, 0, 0, time.UTC)
	for _, p := range []AddParams{
		{Content: "one", Tags: []string{"x"}, OccurredAt: &at},
		{Content: "two", Tags: []string{"x", "y"}, Type: "semantic", Layer: ptr(2), OccurredAt: ptr(at.Add(time.Hour))},
		{Content: "three", Source: "note"},
	} {
		must(b.Add(b.ctx, p))(t)
	}
	b.conversation(t, "c1", "D1:1", "hello", "D1:2", "there")
	gone := b.add(t, "gone", "z")
	must(b.Delete(b.ctx, IDsParams{IDs: []string{gone.ID.String()}}))(t)
	must(b.Add(b.them, AddParams{Content: "theirs", Tags: []string{"q"}}))(t)

	before := must(b.List(b.ctx, ListParams{}))(t).Total // counted by the database
	s := must(b.Stats(b.ctx, struct{}{}))(t)
	if after := must(b.List(b.ctx, ListParams{}))(t).Total; before != 3 || after != 3 {
		t.Errorf("lists of %d and %d", before, after)
	}
	if s.Total != 5 || s.Memories != 3 || s.Turns != 2 || s.Conversations != 1 || s.Trash != 1 || s.IndexBytes == 0 {
		t.Errorf("%+v", s)
	}
	for what, got := range map[string][2][]search.Count{
		"types":   {s.ByType, {{Value: "episodic", Count: 4}, {Value: "semantic", Count: 1}}},
		"layers":  {s.ByLayer, {{Value: "", Count: 4}, {Value: "2", Count: 1}}},
		"sources": {s.BySource, {{Value: "chatgpt", Count: 2}, {Value: "manual", Count: 2}, {Value: "note", Count: 1}}},
		"months":  {s.ByMonth, {{Value: "", Count: 1}, {Value: "1969-12", Count: 1}, {Value: "1970-01", Count: 1}, {Value: "2023-05", Count: 2}}},
		"tags":    {s.Tags, {{Value: "chat", Count: 2}, {Value: "x", Count: 2}, {Value: "y", Count: 1}}},
	} {
		if !slices.Equal(got[0], got[1]) {
			t.Errorf("%s %v, want %v", what, got[0], got[1])
		}
	}
}

// conversation stores a conversation from pairs of id and text.
func (b *bundle) conversation(t testing.TB, external string, turns ...string) Conversation {
	t.Helper()
	id := storage.NewID()
	user := identity.UserID(b.ctx)
	at := time.Date(2023, 5, 8, 13, 56, 0, 0, time.UTC)
	err := b.db.Write(b.ctx, func(tx *storage.Tx) error {
		if _, err := tx.Exec(`INSERT INTO conversations (id, user_id, source, external_id, title, started_at, participants, tags, created_at, updated_at)
			VALUES (?, ?, 'chatgpt', ?, 'A talk', ?, '["Ann","Ben"]', '["chat"]', ?, ?)`, id, user, external, at, tx.Now, tx.Now); err != nil {
			return err
		}
		for i := 0; i < len(turns); i += 2 {
			turn := storage.NewID()
			text, err := b.seal("conversation_turns", "content", turn, turns[i+1])
			if err != nil {
				return err
			}
			if _, err := tx.Exec(`INSERT INTO conversation_turns (id, conversation_id, user_id, seq, external_id, speaker, content, occurred_at, content_hash, created_at, updated_at)
				VALUES (?, ?, ?, ?, ?, 'Ann', ?, ?, ?, ?, ?)`, turn, id, user, i/2, turns[i], text, at.Add(time.Duration(i)*time.Minute), textHash(turns[i+1]), tx.Now, tx.Now); err != nil {
				return err
			}
		}
		return b.putConversation(tx, user, id, false)
	})
	if err != nil {
		t.Fatal(err)
	}
	return must(b.Conversation(b.ctx, ConversationParams{ID: id}))(t).Conversation
}

// BenchmarkAtSize measures counts and pages over 100,000 memories.
func BenchmarkAtSize(b *testing.B) {
	x := newBundle(b, Options{})
	const size = 100_000
	day := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	for n := 0; n < size; n += maxIDs {
		items := make([]AddParams, maxIDs)
		for i := range items {
			k := n + i
			items[i] = AddParams{Content: fmt.Sprintf("memory number %d of the word%d", k, k%997), Type: memoryTypes[k%3], Source: sources[k%len(sources)], Dedupe: ptr(false),
				Layer: ptr(k%7 + 1), Tags: []string{fmt.Sprintf("tag%d", k%50)}, SalienceTier: tierSalience[k%4].tier}
			if k%5 > 0 {
				items[i].OccurredAt = ptr(day.Add(time.Duration(k) * 20 * time.Minute))
			}
		}
		must(x.AddBatch(x.ctx, AddBatchParams{Items: items}))(b)
	}
	if err := x.search.Load(x.ctx); err != nil {
		b.Fatal(err)
	}
	b.Run("stats", func(b *testing.B) {
		for b.Loop() {
			must(x.Stats(x.ctx, struct{}{}))(b)
		}
	})
	for _, sort := range []string{"recent", "occurred", "salience", "retention"} {
		b.Run("list/"+sort, func(b *testing.B) {
			for b.Loop() {
				must(x.List(x.ctx, ListParams{Sort: sort}))(b)
			}
		})
		b.Run("cursor/"+sort, func(b *testing.B) {
			p := ListParams{Sort: sort, Limit: 50}
			r := must(x.List(x.ctx, ListParams{Sort: sort, Limit: 50, Offset: size / 2}))(b)
			p.Cursor = r.NextCursor
			for b.Loop() {
				must(x.List(x.ctx, p))(b)
			}
		})
	}
	for name, f := range map[string]search.Filters{
		"tag": {TagsAny: []string{"tag7"}}, "layer": {Layers: []int{3}}, "source": {Sources: []string{"note"}}, "none": {TagsNone: []string{"tag7"}},
		"pinned": {Pinned: ptr(true)}, "from": {From: ptr(day.AddDate(2, 0, 0))},
	} {
		b.Run("filter/"+name, func(b *testing.B) {
			for b.Loop() {
				must(x.List(x.ctx, ListParams{Filters: &f}))(b)
			}
		})
	}
}
