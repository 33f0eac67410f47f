package memory

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/memory/search"
	"helix/backend/storage"
)

func TestWritesOfOtherDomainsArePartOfTheirTransaction(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	said := Said{Source: "agent", Conversation: "run-1", Title: "A talk", Turns: []SaidTurn{{ID: "1", Role: "user", Speaker: "Anna", Text: "where is the ladder"}, {ID: "2", Role: "assistant", Text: "behind the shed"}}}
	write := func(outcome error) error {
		return b.db.Write(b.ctx, func(tx *storage.Tx) error {
			if _, err := b.AppendTx(b.ctx, tx, said); err != nil {
				return err
			}
			return outcome
		})
	}
	if stop := errors.New("stop"); !errors.Is(write(stop), stop) {
		t.Fatal("the transaction did not end with its error")
	}
	if ids := b.searchIDs(t, b.ctx, search.Params{Query: "ladder shed"}); len(ids) != 0 {
		t.Fatalf("%d results of a transaction that was undone", len(ids))
	}
	if err := write(nil); err != nil {
		t.Fatal(err)
	}
	said.Turns = append(said.Turns, SaidTurn{ID: "3", Role: "user", Text: "thank you for the ladder"})
	if err := write(nil); err != nil {
		t.Fatal(err)
	}
	if ids := b.searchIDs(t, b.ctx, search.Params{Query: "ladder shed"}); len(ids) != 3 {
		t.Fatalf("%d results, want three turns", len(ids))
	}
	c := must(b.Conversations(b.ctx, PageParams{}))(t).Conversations
	turns := must(b.Conversation(b.ctx, ConversationParams{ID: c[0].ID}))(t).Turns
	for i, turn := range turns {
		if turn.Seq != int64(i) || turn.TurnID != said.Turns[i].ID || turn.Text != said.Turns[i].Text {
			t.Errorf("turn %d is %+v", i, turn)
		}
	}
	if len(c) != 1 || len(turns) != 3 || c[0].Untrusted {
		t.Fatalf("%d conversations, %d turns", len(c), len(turns))
	}
	must(b.DeleteConversation(b.ctx, ConversationIDParams{ID: c[0].ID}))(t)
	wantKind(t, write(nil), fault.Conflict, "trash")
}

func TestRetentionIsNotWrittenOverALaterChange(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	m := b.add(t, "a quiet evening")
	retain := func(ctx context.Context, r Retained) (n int) {
		t.Helper()
		if err := b.db.Write(ctx, func(tx *storage.Tx) (err error) {
			if err = tx.QueryRow(`SELECT rowid FROM memories WHERE id = ?`, r.ID).Scan(&r.Row); err == nil {
				n, err = b.RetainTx(ctx, tx, []Retained{r})
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return n
	}
	found := func(least float64) int {
		return len(must(b.Search(b.ctx, search.Params{Query: "evening", Filters: &search.Filters{MinRetention: &least}}))(t).Results)
	}
	if found(0.5) != 1 { // the catalog of search is loaded
		t.Fatal("a memory that never faded is not found")
	}
	if n := retain(b.ctx, Retained{ID: m.ID, Version: m.Version, Retention: 0.4}); n != 1 {
		t.Fatalf("%d stored", n)
	}
	if n := retain(b.ctx, Retained{ID: m.ID, Version: m.Version - 1, Retention: 0.1}); n != 0 {
		t.Fatal("the retention of an older version was stored")
	}
	if n := retain(b.them, Retained{ID: m.ID, Version: m.Version, Retention: 0.1}); n != 0 {
		t.Fatal("somebody else has rated a memory")
	}
	if got := b.get(t, m.ID); *got.Retention != 0.4 || got.Version != m.Version || !got.UpdatedAt.Equal(m.UpdatedAt) {
		t.Errorf("the memory is %+v", got)
	}
	if found(0.5) != 0 || found(0.3) != 1 {
		t.Error("search does not know the retention")
	}
}

func TestCorpusHasThePersonsTextsWithTheirVectors(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{Embedder: newWordsModel("words-1", 16), VectorDir: t.TempDir()})
	b.add(t, "one text")
	gone := b.add(t, "a deleted text")
	b.dialogue(t, nil, "yes")
	if err := b.EmbedPending(b.ctx); err != nil {
		t.Fatal(err)
	}
	must(b.Delete(b.ctx, IDsParams{IDs: []string{gone.ID.String()}}))(t)
	late := b.add(t, "a text that waits for its vector")
	read := func(f CorpusFilter) (texts []string) {
		t.Helper()
		if err := b.db.Read(b.ctx, func(tx *storage.Tx) error {
			model, list, err := b.CorpusTx(b.ctx, tx, f)
			if model != "words-1" {
				t.Errorf("vectors of %q", model)
			}
			for _, p := range list {
				texts = append(texts, p.Text)
				if want := p.ID != late.ID; (len(p.Vector) == 16) != want {
					t.Errorf("%q has %d numbers", p.Text, len(p.Vector))
				}
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return texts
	}
	for _, c := range []struct {
		f    CorpusFilter
		want []string
	}{
		{CorpusFilter{}, []string{"one text", "yes", late.Content}},
		{CorpusFilter{Limit: 1}, []string{late.Content}},
		{CorpusFilter{IDs: []uuid.UUID{late.ID, gone.ID}}, []string{late.Content}},
		{CorpusFilter{From: &late.CreatedAt}, []string{late.Content}},
		{CorpusFilter{To: ptr(late.CreatedAt)}, []string{"one text", "yes"}},
	} {
		got, want := read(c.f), slices.Clone(c.want)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%+v gave %q, want %q", c.f, got, want)
		}
	}
	if err := b.db.Read(b.them, func(tx *storage.Tx) error {
		_, list, err := b.CorpusTx(b.them, tx, CorpusFilter{})
		if len(list) > 0 {
			t.Error("somebody else reads them")
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}
