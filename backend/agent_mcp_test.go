package backend

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"helix/backend/agent"
	"helix/backend/callable"
	"helix/backend/mcp"
	"helix/backend/permission"
	"helix/backend/providers"
	"helix/backend/storage"
)

// A subagent calls the MCP tools that it was given, with the rights of who started its parent: what that
// caller may not do isn't sent to the server. The log has the call, and the chat the refusal.
func TestSubagentCallsMCPToolsWithRightsOfCaller(t *testing.T) {
	t.Parallel()
	o := testOptions(t.TempDir())
	environ := o.Environ
	o.Environ = func(name string) string {
		if name == "PATH" {
			return os.Getenv("PATH")
		}
		return environ(name)
	}
	work := []providers.ScriptedReply{
		calls("delegate_to_agent", `{"goal":"Greet Ada","available_tools":["mcp_shell_greet"]}`),
		calls("mcp_shell_greet", `{"name":"Ada"}`), calls("file_list", `{"path":"/shared"}`), {Text: "I tried."}, {Text: "Done."},
	}
	c := newChatter(t, o, slices.Concat(work, work)...)
	if _, err := c.b.MCP.Add(c.ctx(), mcp.AddParams{Server: mcp.Server{Name: "shell", Command: "sh", Args: []string{"-c", mcpServer}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.b.MCP.Start(c.ctx(), mcp.NameParams{Name: "shell"}); err != nil {
		t.Fatal(err)
	}
	shown, err := c.b.MCP.GetServer(c.ctx(), mcp.NameParams{Name: "shell"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.b.MCP.ApproveServer(c.ctx(), mcp.ApproveParams{Name: "shell", DefinitionHash: shown.DefinitionHash, Tools: []string{"greet"}}); err != nil {
		t.Fatal(err)
	}
	text := func(query string) (out string) {
		t.Helper()
		if err := c.b.DB.Read(c.ctx(), func(tx *storage.Tx) error { return tx.QueryRow(query).Scan(&out) }); err != nil {
			t.Fatal(err)
		}
		return out
	}
	const logged = `SELECT coalesce(group_concat(tool || ' by ' || caller || ': ' || status || error_class, ', '), '') FROM mcp_calls`

	s := c.create(agent.CreateParams{Mode: agent.ModeWork})
	turn := c.say(s.ID, "Greet Ada")
	if turn.State != agent.Waiting || len(turn.Approvals) != 1 || text(logged) != "" {
		t.Fatalf("it wasn't asked about a tool that changes something: %+v %+v", turn, turn.Error)
	}
	var asked permission.GetApprovalResult
	c.call("approvals.get", permission.GetApprovalParams{ID: turn.Approvals[0]}, &asked)
	c.call("approvals.decide", permission.AnswerParams{ID: asked.ID, Decision: "approve", Scope: "once", DefinitionHash: asked.DefinitionHash}, nil)
	if turn = c.until(turn.TurnID); turn.State != agent.Completed {
		t.Fatalf("%+v %+v", turn, turn.Error)
	}
	got := c.results(c.tree(s.ID)[0].SessionID)
	if len(got) != 2 || got[0].Status != "done" || !strings.Contains(got[0].Text, "Hello!") || !strings.HasPrefix(got[0].Text, "«data") || !strings.Contains(got[1].Text, "There is no tool") {
		t.Errorf("%+v", got)
	}
	if log := text(logged); log != "greet by agent: success" {
		t.Errorf("the log has %s", log)
	}

	nothing := (&chain{Backend: c.b, t: t, ctx: c.ctx()}).noAuthority()
	if _, err := c.b.Callables.Call(c.ctx(), callable.Ref{Kind: agent.Kind, ID: agent.DefaultAgent}, callable.Request{
		Input: json.RawMessage(`{"prompt":"Greet Ada"}`), Caller: callable.Caller{Kind: "skill", Label: "Reader", Attended: true, Authority: nothing},
	}); err != nil {
		t.Fatal(err)
	}
	var list agent.ListResult
	c.call("chat.list", agent.ListParams{Kind: agent.KindSubagent, IncludeArchived: true}, &list)
	if len(list.Sessions) != 2 {
		t.Fatalf("%d subagents", len(list.Sessions))
	}
	for _, x := range list.Sessions {
		if x.ID == c.tree(s.ID)[0].SessionID {
			continue
		}
		if got := c.results(x.ID); len(got) != 2 || got[0].Status == "done" || strings.Contains(got[0].Text, "Hello!") {
			t.Errorf("a subagent of a caller without rights: %+v", got)
		}
	}
	if log := text(logged); log != "greet by agent: success" {
		t.Errorf("the log has %s", log)
	}
}
