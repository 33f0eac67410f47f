package agent

import (
	"context"
	"flag"
	"io"
	"iter"
	"log/slog"
	"testing"
	"time"

	"helix/backend/bus"
	"helix/backend/callable"
	"helix/backend/permission"
	"helix/backend/providers"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helix/backend/testkit"
)

var update = flag.Bool("update", false, "write the golden files")

// oneAnswer is a model that always gives the same answer.
type oneAnswer struct{}

func (oneAnswer) Stream(context.Context, providers.Request) iter.Seq2[providers.Event, error] {
	return func(yield func(providers.Event, error) bool) {
		for _, e := range []providers.Event{{Type: providers.EventAttempt, Attempt: 1, Provider: "p", Model: "m"}, {Type: providers.EventText, Delta: "Yes."}, {Type: providers.EventFinish, Reason: providers.FinishStop}} {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (m oneAnswer) Complete(ctx context.Context, q providers.Request) (providers.Reply, error) {
	return providers.Fold(m.Stream(ctx, q))
}

func (oneAnswer) HoldsToSchema(context.Context, providers.Request) bool { return false }

func (oneAnswer) Describe(context.Context, providers.Request) (providers.ModelInfo, error) {
	return providers.ModelInfo{Window: assumedWindow, Output: 4000}, nil
}

func (m oneAnswer) Prepare(ctx context.Context, q providers.Request) (providers.ModelInfo, error) {
	return m.Describe(ctx, q)
}

func (oneAnswer) Roles(context.Context, struct{}) (providers.RolesResult, error) {
	return providers.RolesResult{}, nil
}

// answering returns a service whose model always gives the same answer, and what the service uses.
func answering(t *testing.T, o Options) (*Service, *storage.DB, context.Context) {
	t.Helper()
	db, events := storagetest.Open(t), bus.New()
	o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	gate := permission.New(db, events, permission.Options{Logger: o.Logger})
	o.Models, o.Gate, o.Callables, o.Ledger = oneAnswer{}, gate, callable.NewRegistry(nil), NewLedger(db, events)
	s := New(db, events, o)
	gate.Register(string(Kind), s, nil)
	t.Cleanup(func() { _ = s.Close() })
	return s, db, storagetest.Ctx(t, db)
}

func TestQueryPlans(t *testing.T) {
	testkit.SkipRaced(t, "one goroutine, and slow under it")
	s, db, ctx := answering(t, Options{})
	plans := storagetest.RecordPlans(t, db)
	do := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(nil, s.resume(ctx))
	made, err := s.Create(ctx, CreateParams{})
	do(nil, err)
	id := made.Session.ID
	sent, err := s.Send(ctx, SendParams{SessionID: id, Text: "Is it so?"})
	do(nil, err)
	do(s.Wait(ctx, WaitParams{TurnID: sent.TurnID, WaitMs: 60_000}))
	do(s.List(ctx, ListParams{}))
	do(s.List(ctx, ListParams{Query: "so", Trash: true, IncludeArchived: true}))
	do(s.Get(ctx, SessionParams{id}))
	do(s.Messages(ctx, MessagesParams{SessionID: id}))
	do(s.Messages(ctx, MessagesParams{SessionID: id, After: 1}))
	do(s.Search(ctx, SearchParams{Query: "yes"}))
	do(s.Search(ctx, SearchParams{Query: "yes", SessionID: &id}))
	do(s.Replay(ctx, ReplayParams{SessionID: id}))
	do(s.Status(ctx, struct{}{}))
	do(s.Rename(ctx, RenameParams{id, "So"}))
	do(s.Cancel(ctx, TurnParams{SessionID: id}))
	do(s.CancelAll(ctx, struct{}{}))
	again, err := s.Retry(ctx, RetryParams{TurnID: sent.TurnID})
	do(nil, err)
	do(s.Wait(ctx, WaitParams{TurnID: again.TurnID, WaitMs: 60_000}))
	now := time.Now()
	for _, by := range []string{"call", "day", "model", "session"} {
		do(s.o.Ledger.List(ctx, LedgerParams{GroupBy: by, From: &now}))
	}
	h, err := s.o.Ledger.Reserve(ctx, providers.Estimate{Provider: "p", Model: "m", Purpose: "chat"})
	do(nil, err)
	h.Settle(providers.Usage{Requests: 1}, 1, "done")
	do(nil, s.snapshot(ctx, id, db.LocalUser().ID, &State{Seq: 1}))
	do(s.Delete(ctx, SessionParams{id}))
	l, err := s.session(ctx, id)
	do(nil, err)
	do(nil, s.readCanceled(ctx, l))
	plans.Check(t, []storagetest.Scan{
		{SQL: "SELECT count(*) FROM sessions s WHERE s.user_id = ?", Reason: "a person has some thousands of chats, and the list says how many"},
		{SQL: "agent_turns t INDEXED BY agent_turns_open", Reason: "the index holds open turns only"},
		{SQL: "WITH RECURSIVE above(turn, session) AS (SELECT id, session_id FROM agent_turns WHERE state IN", Reason: "the index holds open turns only"},
		{SQL: "FROM sessions s WHERE s.user_id = ?", Reason: "in the order of the index, until the page is full"},
	})
}
