package audit

import (
	"flag"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/storage/storagetest"
	"helix/backend/testkit"
)

var _ = flag.Bool("update", false, "write the golden files")

func TestQueryPlans(t *testing.T) {
	t.Parallel()
	testkit.SkipRaced(t, "one goroutine, and slow under it")
	e := setup(t, Options{DetailsDays: func() int { return 30 }, EntryDays: func() int { return 365 }})
	plans := storagetest.RecordPlans(t, e.db)
	do := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	run := uuid.New()
	e.append(Entry{Action: ResourceAccess, SubjectKind: "tool", SubjectID: "t1", RunID: run, Details: map[string]any{"i": 1}})
	e.many(20)
	now := time.Now()
	for _, p := range []ListParams{{}, {Before: 10}, {From: &now}, {Actions: []string{ResourceAccess}}, {SubjectID: "t1"}, {RunID: &run}, {Outcome: "error"}, {Outcome: "ok"}, {Text: "milk"}} {
		do(e.s.List(e.ctx, p))
	}
	do(e.s.Get(e.ctx, GetParams{Seq: 1}))
	do(e.s.Entries(e.ctx, run))
	do(e.s.CloseInterrupted(e.ctx))
	do(nil, e.s.Sign(e.ctx))
	do(e.s.EraseDetails(e.ctx, EraseParams{SubjectID: "t1"}))
	do(nil, e.s.Prune(e.ctx))
	e.verify()
	e.export()
	plans.Check(t, []storagetest.Scan{
		{SQL: "FROM audit_segments ORDER BY last_seq", Reason: "verifies the whole log"},
		{SQL: "SELECT EXISTS (SELECT 1 FROM audit_pruning)", Reason: "verifies the whole log"},
		{SQL: "SELECT count(*) FROM audit_log l WHERE l.details_hash", Reason: "verifies the whole log"},
		{SQL: "FROM audit_log ORDER BY seq DESC LIMIT 1", Reason: "reads the last row"},
	})
}
