package tools

import (
	"testing"
	"time"

	"helix/backend/storage/storagetest"
	"helix/backend/testkit"
	"helix/backend/wasmtools"
)

func TestQueryPlans(t *testing.T) {
	t.Parallel()
	testkit.SkipRaced(t, "one goroutine, and slow under it")
	b := setup(t)
	plans := storagetest.RecordPlans(t, b.db)
	do := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	tool := b.create(t, CreateParams{Name: "Count", Code: "export default () => ({ n: 1 })", Tags: []string{"a"}})
	b.run(t, tool, `{}`)
	do(b.List(b.ctx, ListParams{}))
	do(b.List(b.ctx, ListParams{Query: "cou", Tags: []string{"a"}, Sort: SortName}))
	do(b.Search(b.ctx, SearchParams{Query: "count"}))
	do(b.Get(b.ctx, GetParams{ToolID: tool.ID}))
	do(b.Metadata(b.ctx, ToolID{ToolID: tool.ID}))
	do(b.Capabilities(b.ctx, ToolID{ToolID: tool.ID}))
	do(b.State(b.ctx, ToolID{ToolID: tool.ID}))
	do(b.Functions(b.ctx))
	do(b.Callables().List(b.ctx))
	do(b.WasmCallables().List(b.ctx))
	do(b.Callables().Find(b.ctx, tool.ID.String(), ""))
	do(b.Callables().Find(b.ctx, "", "Count"))
	now := time.Now()
	do(b.Usage(b.ctx, UsageParams{Limit: 10, Before: &now}))
	do(b.Usage(b.ctx, UsageParams{ToolID: &tool.ID, Since: &now}))
	do(b.Usage(b.ctx, UsageParams{Status: "success"}))
	do(b.Audit(b.ctx, AuditParams{ToolID: &tool.ID}))
	b.update(t, tool, `{"description":"counts"}`)
	do(b.Versions(b.ctx, VersionsParams{ToolID: tool.ID}))
	do(b.SetEnabled(b.ctx, SetEnabledParams{ToolID: tool.ID, Enabled: true}))
	do(b.ListWasm(b.ctx, wasmtools.ListWasmParams{}))
	do(b.Secrets(b.ctx, struct{}{}))
	do(b.Signers(b.ctx, struct{}{}))
	do(b.Delete(b.ctx, ToolID{ToolID: tool.ID}))
	do(b.Restore(b.ctx, ToolID{ToolID: tool.ID}))
	do(nil, b.Recover(b.ctx))
	const (
		few   = "a user has few of them"
		page  = "reads in the order of the index until the page is full"
		prune = "hourly, in the background"
		start = "reads what a crash has left, at the start"
	)
	plans.Check(t, []storagetest.Scan{
		{SQL: "FROM custom_tool_usage u", Reason: page},
		{SQL: "FROM custom_tool_runs ORDER BY started_at", Reason: start},
		{SQL: "FROM custom_tools WHERE user_id = ?", Reason: few},
		{SQL: "FROM custom_tools WHERE deleted_at IS NULL AND user_id = ?", Reason: few},
		{SQL: "EXISTS (SELECT 1 FROM audit_pruning)", Reason: "a table that is empty except while entries are pruned"},
		{SQL: "FROM custom_tools t", Reason: few},
		{SQL: "FROM skills s WHERE user_id = ?", Reason: few},
		{SQL: "FROM skills WHERE user_id = ?", Reason: few},
		{SQL: "FROM tool_signers WHERE user_id = ?", Reason: few},
		{SQL: "FROM tool_secrets WHERE user_id = ?", Reason: few},
		{SQL: "FROM capability_grants WHERE user_id = ? AND NOT (suspended_at", Reason: few},
		{SQL: "FROM capability_denials WHERE user_id = ? AND deleted_at IS NULL AND (? = ''", Reason: few},
		{SQL: "FROM audit_segments ORDER BY last_seq", Reason: "lists the signed segments, each of which stands for thousands of entries"},
		{SQL: "FROM audit_log ORDER BY seq DESC LIMIT 1", Reason: "reads the last row"},
	})
}
