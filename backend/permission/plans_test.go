package permission

import (
	"flag"
	"testing"

	"github.com/google/uuid"

	"helix/backend/storage/storagetest"
	"helix/backend/testkit"
)

var _ = flag.Bool("update", false, "write the golden files")

func TestQueryPlans(t *testing.T) {
	t.Parallel()
	testkit.SkipRaced(t, "one goroutine, and slow under it")
	e := setup(t, Options{})
	plans := storagetest.RecordPlans(t, e.db)
	do := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	sub := e.tool("t1", apiCap)
	run := uuid.New()
	do(e.s.Begin(e.ctx, nil, sub, run))
	d := e.decide(ask(sub))
	do(e.s.ListApprovals(e.ctx, ListApprovalsParams{}))
	do(e.s.ListApprovals(e.ctx, ListApprovalsParams{Status: "all", SubjectID: "t1"}))
	do(e.answer(d.PendingID, func(p *AnswerParams) { p.Scope = "always" }))
	e.decide(ask(sub))
	do(e.s.ApprovalStatus(e.ctx, d.PendingID))
	do(e.s.List(e.ctx, ListParams{}))
	do(e.s.List(e.ctx, ListParams{SubjectID: "t1", State: "active"}))
	do(e.s.Preview(e.ctx, PreviewParams{Subject: PreviewSubject{Kind: "tool", ID: "t1"}}))
	_, _, err := e.s.GrantsOf(e.ctx, "tool", "t1")
	do(nil, err)
	other := e.tool("t2", apiCap)
	refused := e.decide(ask(other))
	do(e.answer(refused.PendingID, func(p *AnswerParams) { p.Decision, p.Remember = "deny", true }))
	e.decide(ask(other))
	do(nil, e.s.EndRun(e.ctx, run))
	do(nil, e.s.EndSession(e.ctx, uuid.New()))
	do(e.s.Revoke(e.ctx, RevokeParams{SubjectID: "t1"}))
	do(nil, e.s.Sweep(e.ctx))
	plans.Check(t, []storagetest.Scan{
		{SQL: "FROM capability_grants WHERE user_id = ? AND NOT (suspended_at", Reason: "a person has given them one by one, so they are few"},
		{SQL: "FROM capability_denials WHERE user_id = ? AND deleted_at IS NULL AND (? = ''", Reason: "a person has given them one by one, so they are few"},
		{SQL: "FROM audit_log ORDER BY seq DESC LIMIT 1", Reason: "reads the last row"},
	})
}
