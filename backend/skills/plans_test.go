package skills

import (
	"context"
	"encoding/json"
	"flag"
	"testing"
	"time"

	"helix/backend/storage/storagetest"
	"helix/backend/testkit"
)

var _ = flag.Bool("update", false, "write the golden files")

func TestQueryPlans(t *testing.T) {
	t.Parallel()
	testkit.SkipRaced(t, "one goroutine, and slow under it")
	b := newFixture(t)
	plans := storagetest.RecordPlans(t, b.db)
	do := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	b.h.on("double", func(context.Context, Call) (json.RawMessage, error) { return json.RawMessage(`{"n":2}`), nil })
	m, err := b.s.CreateComposite(b.ctx, SaveParams{Skill: skillText(step("a", "double", ""))})
	do(m, err)
	done, err := b.s.ExecuteComposite(b.ctx, ExecuteParams{SkillID: &m.SkillID, Input: json.RawMessage(`{}`)})
	do(done, err)
	run := RunParams{ExecutionID: done.ExecutionID}
	do(b.s.GetExecution(b.ctx, run))
	do(provider{b.s}.State(b.ctx, done.ExecutionID))
	now := time.Now()
	for _, p := range []HistoryParams{{}, {SkillID: &m.SkillID}, {Status: "completed"}, {Trigger: "manual"}, {From: &now, To: &now}} {
		do(b.s.History(b.ctx, p))
	}
	do(b.s.Events(b.ctx, EventsParams{ExecutionID: done.ExecutionID}))
	do(b.s.Status(b.ctx, StatusParams{}))
	do(b.s.Replay(b.ctx, run))
	do(b.s.Document(b.ctx, run))
	do(b.s.Pin(b.ctx, PinParams{ExecutionID: done.ExecutionID, Pinned: true}))
	do(b.s.ListComposite(b.ctx, ListParams{}))
	do(b.s.ListComposite(b.ctx, ListParams{Query: "s", Tag: "x"}))
	do(b.s.ListComposite(b.ctx, ListParams{Deleted: true}))
	do(b.s.SearchPublic(b.ctx, SearchPublicParams{Query: "s"}))
	do(b.s.GetMetadata(b.ctx, SkillParams{SkillID: m.SkillID}))
	do(b.s.ListVersions(b.ctx, SkillParams{SkillID: m.SkillID}))
	do(b.s.Provider().List(b.ctx))
	do(b.s.Provider().Find(b.ctx, m.SkillID.String(), ""))
	do(b.s.Catalog(b.ctx, CatalogParams{}))
	do(b.s.DeleteComposite(b.ctx, SkillParams{SkillID: m.SkillID}))
	do(b.s.RestoreComposite(b.ctx, SkillParams{SkillID: m.SkillID}))
	b.service() // another start
	const (
		few  = "a user has few skills"
		page = "reads in the order of the index until the page is full"
	)
	plans.Check(t, []storagetest.Scan{
		{SQL: "SELECT coalesce(sum(bytes), 0) FROM composite_skill_executions", Reason: "at most every ten seconds, when a person looks at the size"},
		{SQL: "FROM composite_skills WHERE user_id = ?", Reason: few},
		{SQL: "FROM public_skills", Reason: few},
		{SQL: "x.deleted_at IS NULL ORDER BY x.created_at DESC", Reason: page},
		{SQL: "x.deleted_at IS NULL AND x.status = ? ORDER BY x.created_at DESC", Reason: page},
		{SQL: "x.deleted_at IS NULL AND x.trigger = ? ORDER BY x.created_at DESC", Reason: page},
	})
}
