package backend

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"helix/backend/agent"
	"helix/backend/callable"
	"helix/backend/permission"
	"helix/backend/providers"
	"helix/backend/providers/providerstest"
)

func (c *chatter) tree(session uuid.UUID) []agent.TreeNode {
	c.t.Helper()
	var out agent.TreeResult
	c.call("agent.tree", agent.SessionParams{SessionID: session}, &out)
	return out.Nodes
}

// results returns the results of its calls that the model read in a session.
func (c *chatter) results(session uuid.UUID) (out []agent.Part) {
	c.t.Helper()
	for _, m := range c.messages(session) {
		for _, p := range m.Parts {
			if p.Kind == agent.PartToolResult {
				out = append(out, p)
			}
		}
	}
	return out
}

// offered returns the names of the tools in a request.
func (c *chatter) offered(request int) (names []string) {
	c.t.Helper()
	var q struct {
		Tools []struct{ Function struct{ Name string } }
	}
	if err := json.Unmarshal(c.srv.Requests()[request].Body, &q); err != nil {
		c.t.Fatal(err)
	}
	for _, t := range q.Tools {
		names = append(names, t.Function.Name)
	}
	return names
}

// A subagent sees only the brief, has only the tools that it was given, and its cost is charged to
// the turn that started it.
func TestSubagentWorksWithWhatItWasGiven(t *testing.T) {
	t.Parallel()
	c := newChatter(t, testOptions(t.TempDir()),
		calls("delegate_to_agent", `{"goal":"Find the largest file","key_facts":["It is below shared"],"available_tools":["file_list"]}`),
		calls("file_write", `{"path":"/shared/x.txt","text":"x"}`),
		providers.ScriptedReply{Text: "It is big.txt."},
		providers.ScriptedReply{Text: "The largest file is big.txt."})
	s := c.create(agent.CreateParams{Mode: agent.ModeWork})
	turn := c.say(s.ID, "A secret question about Nora")
	if turn.State != agent.Completed {
		t.Fatalf("%+v %+v", turn, turn.Error)
	}
	brief := string(c.srv.Requests()[1].Body)
	if strings.Contains(brief, "Nora") || !strings.Contains(brief, "It is below shared") {
		t.Errorf("the request of the subagent: %s", brief)
	}
	if names := fmt.Sprint(c.offered(1)); names != "[file_list result_read]" {
		t.Errorf("its tools: %s", names)
	}
	nodes := c.tree(s.ID)
	if len(nodes) != 1 || nodes[0].State != agent.Completed || nodes[0].Steps != 2 || nodes[0].Goal != "Find the largest file" || nodes[0].ParentTurn != turn.TurnID {
		t.Fatalf("%+v", nodes)
	}
	if got := c.results(nodes[0].SessionID); len(got) != 1 || !strings.Contains(got[0].Text, "There is no tool") {
		t.Errorf("a tool that it was not given: %+v", got)
	}
	if got := c.results(s.ID); len(got) != 1 || !strings.Contains(got[0].Text, `"status":"Completed"`) || !strings.Contains(got[0].Text, "big.txt") || !strings.HasPrefix(got[0].Text, "«data") {
		t.Errorf("%+v", got)
	}
	var cost agent.CostResult
	c.call("chat.cost", agent.SessionParams{SessionID: s.ID}, &cost)
	if len(cost.Children) != 1 || cost.Children[0].Calls != 2 || cost.Calls != 2 || turn.CostMicros != cost.CostMicros+cost.Children[0].CostMicros {
		t.Errorf("%+v, turn %d", cost, turn.CostMicros)
	}
	var all, subs agent.ListResult
	c.call("chat.list", agent.ListParams{}, &all)
	c.call("chat.list", agent.ListParams{Kind: agent.KindSubagent}, &subs)
	if all.Total != 1 || subs.Total != 1 {
		t.Errorf("%d chats, %d subagents", all.Total, subs.Total)
	}
	c.replays(s.ID, 2)
	c.replays(nodes[0].SessionID, 2)
}

// An invalid delegation results in an explanation: a tool that is not available, nested too deeply,
// an invalid schema.
func TestBriefsThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct{ brief, want string }{
		"unknown tool":   {`{"goal":"x","available_tools":["file_list","rm"]}`, `no tool "rm"`},
		"no goal":        {`{"goal":"","available_tools":[]}`, "not valid"},
		"broken schema":  {`{"goal":"x","available_tools":[],"expected_output_format":{"type":7}}`, "expected_output_format"},
		"too many facts": {`{"goal":"x","available_tools":[],"key_facts":["` + strings.Repeat(`a","`, 20) + `a"]}`, "not valid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newChatter(t, testOptions(t.TempDir()), calls("delegate_to_agent", x.brief), providers.ScriptedReply{Text: "No."})
			s := c.create(agent.CreateParams{})
			if turn := c.say(s.ID, "Do it"); turn.State != agent.Completed {
				t.Fatalf("%+v", turn)
			}
			if got := c.results(s.ID); len(got) != 1 || !strings.Contains(got[0].Text, x.want) || len(c.tree(s.ID)) != 0 {
				t.Errorf("%+v", got)
			}
		})
	}
	t.Run("too deep", func(t *testing.T) {
		t.Parallel()
		again := calls("delegate_to_agent", `{"goal":"deeper","available_tools":["delegate_to_agent"]}`)
		up := providers.ScriptedReply{Text: "Up."}
		c := newChatter(t, testOptions(t.TempDir()), again, again, again, again, up, up, up, up)
		s := c.create(agent.CreateParams{})
		if turn := c.say(s.ID, "Do it"); turn.State != agent.Completed {
			t.Fatalf("%+v", turn)
		}
		deepest := c.tree(s.ID)[0].Children[0].Children[0]
		if got := c.results(deepest.SessionID); len(deepest.Children) != 0 || len(got) != 1 || !strings.Contains(got[0].Text, "deeper than 3") {
			t.Errorf("%+v, %+v", deepest, got)
		}
	})
}

// A result that violates the requested format counts as failed; one in a code fence does not.
func TestSubagentResultIsChecked(t *testing.T) {
	t.Parallel()
	for said, status := range map[string]string{`{"n":1}`: "Completed", "```json\n{\"n\":1}\n```": "Completed", `{"n":"one"}`: "Failed", "It is one.": "Failed"} {
		c := newChatter(t, testOptions(t.TempDir()),
			calls("delegate_to_agent", `{"goal":"Count","available_tools":[],"expected_output_format":{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}}`),
			providers.ScriptedReply{Text: said}, providers.ScriptedReply{Text: "Done."})
		s := c.create(agent.CreateParams{})
		c.say(s.ID, "Do it")
		if got := c.results(s.ID); len(got) != 1 || !strings.Contains(got[0].Text, `"status":"`+status+`"`) {
			t.Errorf("%s: %+v", said, got)
		}
	}
}

// A subagent spends the money and tokens of its ancestors: its limit is what they have left.
func TestSubagentSpendsItsParentsBudget(t *testing.T) {
	t.Parallel()
	c := newChatter(t, testOptions(t.TempDir()),
		calls("delegate_to_agent", `{"goal":"Work","available_tools":["file_list"],"token_budget":10}`),
		providers.ScriptedReply{Text: "Over."},
		calls("delegate_to_agent", `{"goal":"Work","available_tools":["file_list"],"max_turns":1}`), calls("file_list", `{"path":"/shared"}`), providers.ScriptedReply{Text: "Done."})
	s := c.create(agent.CreateParams{})
	c.say(s.ID, "Do it")
	c.say(s.ID, "Do it")
	got := c.results(s.ID)
	if len(got) != 2 || !strings.Contains(got[0].Text, "BudgetExhausted") || !strings.Contains(got[1].Text, "BudgetExhausted") || c.tree(s.ID)[0].Steps != 0 {
		t.Errorf("%+v", got)
	}
	tokens := int64(100_000) // enough for the first call, but not for a second
	var sent agent.SendResult
	few := newChatter(t, testOptions(t.TempDir()), calls("delegate_to_agent", `{"goal":"`+strings.Repeat("word ", 300)+`","available_tools":["file_list"]}`), providers.ScriptedReply{Text: "Never."}, providers.ScriptedReply{Text: "Never."})
	f := few.create(agent.CreateParams{Budget: &agent.Budget{MaxTokens: tokens}})
	few.call("chat.send", agent.SendParams{SessionID: f.ID, Text: "Do it"}, &sent)
	few.until(sent.TurnID)
	var spent agent.LedgerResult
	few.call("agent.ledger", agent.LedgerParams{}, &spent)
	sum := int64(0)
	for _, r := range spent.Rows {
		sum += r.Input + r.Output
	}
	if sum > tokens {
		t.Errorf("%d tokens were spent of %d", sum, tokens)
	}
}

// A question of a subagent reaches the chat above it; its answer continues both.
func TestQuestionOfSubagentReachesTheChat(t *testing.T) {
	t.Parallel()
	c := newChatter(t, testOptions(t.TempDir()),
		calls("delegate_to_agent", `{"goal":"Write a note","available_tools":["file_write"]}`),
		calls("file_write", `{"path":"/shared/note.txt","text":"hello"}`),
		providers.ScriptedReply{Text: "Written."}, providers.ScriptedReply{Text: "Done."})
	s := c.create(agent.CreateParams{})
	turn := c.say(s.ID, "Do it")
	if turn.State != agent.Waiting || len(turn.Approvals) != 1 {
		t.Fatalf("%+v %+v", turn, turn.Error)
	}
	var asked permission.GetApprovalResult
	c.call("approvals.get", permission.GetApprovalParams{ID: turn.Approvals[0]}, &asked)
	c.call("approvals.decide", permission.AnswerParams{ID: asked.ID, Decision: "approve", Scope: "once", DefinitionHash: asked.DefinitionHash}, nil)
	if turn = c.until(turn.TurnID); turn.State != agent.Completed {
		t.Fatalf("%+v %+v", turn, turn.Error)
	}
	if got := c.results(c.tree(s.ID)[0].SessionID); len(got) != 1 || got[0].Status != "done" {
		t.Errorf("%+v", got)
	}
}

// A cancel of the chat reaches the subagents of its subagents.
func TestCancelReachesTheLeaves(t *testing.T) {
	t.Parallel()
	step := make(chan struct{})
	again := calls("delegate_to_agent", `{"goal":"deeper","available_tools":["delegate_to_agent"]}`)
	c := &chatter{b: startWith(t, testOptions(t.TempDir())), srv: providerstest.New(t, providerstest.Options{Step: step, Replies: []providers.ScriptedReply{again, again, {Text: "One two three."}}})}
	c.remote = c.b.session(t)
	c.setUp()
	s := c.create(agent.CreateParams{})
	var sent agent.SendResult
	c.call("chat.send", agent.SendParams{SessionID: s.ID, Text: "Do it"}, &sent)
	for c.srv.Calls() < 3 { // the leaf is in the middle of its answer
		step <- struct{}{}
	}
	c.call("chat.cancel", agent.TurnParams{SessionID: s.ID}, nil)
	if got := c.until(sent.TurnID); got.State != agent.Canceled {
		t.Fatalf("%+v", got)
	}
	close(step)
	node := c.tree(s.ID)[0]
	if node.State != agent.Canceled || len(node.Children) != 1 || node.Children[0].State != agent.Canceled {
		t.Errorf("%+v", node)
	}
}

// A detached subagent reports when it has ended, as data, and the chat answers the report.
func TestDetachedSubagentReports(t *testing.T) {
	t.Parallel()
	c := &chatter{b: startWith(t, testOptions(t.TempDir()))}
	c.srv = providerstest.New(t, providerstest.Options{Answer: func(body []byte) providers.ScriptedReply {
		switch text := string(body); {
		case strings.Contains(text, "You work on one task"):
			return providers.ScriptedReply{Text: "Found it."}
		case strings.Contains(text, "from subagent"):
			return providers.ScriptedReply{Text: "The report is here."}
		case strings.Contains(text, "Running"):
			return providers.ScriptedReply{Text: "It works on it."}
		}
		return calls("delegate_to_agent", `{"goal":"Look for it","available_tools":["file_list"],"detached":true}`)
	}})
	c.remote = c.b.session(t)
	c.setUp()
	s := c.create(agent.CreateParams{})
	if turn := c.say(s.ID, "Do it"); turn.State != agent.Completed {
		t.Fatalf("%+v %+v", turn, turn.Error)
	}
	child := c.tree(s.ID)[0]
	c.until(child.TurnID)
	report := uuid.NewSHA1(child.TurnID, []byte("report"))
	for c.try("chat.wait", agent.WaitParams{TurnID: report}, nil) != nil && t.Context().Err() == nil { // it is written after the end of the turn
	}
	if turn := c.until(report); turn.State != agent.Completed || turn.SessionID != s.ID {
		t.Fatalf("%+v", turn)
	}
	list := c.messages(s.ID)
	last := list[len(list)-1]
	if last.Parts[0].Text != "The report is here." || list[len(list)-2].Origin.Kind != agent.OriginSubagent {
		t.Errorf("%+v", list)
	}
	c.replays(s.ID, 3)
}

// A subagent has no permission that the caller of its parent lacks, though the person has it.
func TestSubagentKeepsRightsOfCaller(t *testing.T) {
	t.Parallel()
	c := newChatter(t, testOptions(t.TempDir()),
		calls("delegate_to_agent", `{"goal":"Look into the vault","available_tools":["file_list","schedule_delete"]}`),
		calls("schedule_delete", `{"scheduleId":"018f3c5e-0000-7000-8000-000000000000"}`), calls("file_list", `{"path":"/vault"}`), providers.ScriptedReply{Text: "I could not."}, providers.ScriptedReply{Text: "Done."})
	nothing := (&chain{Backend: c.b, t: t, ctx: c.ctx()}).noAuthority()
	_, err := c.b.Callables.Call(c.ctx(), callable.Ref{Kind: agent.Kind, ID: agent.DefaultAgent}, callable.Request{
		Input: json.RawMessage(`{"prompt":"Look into the vault"}`), Caller: callable.Caller{Kind: "skill", Label: "Reader", Attended: true, Authority: nothing},
	})
	var asked permission.ListApprovalsResult
	c.call("approvals.list", permission.ListApprovalsParams{}, &asked)
	if err != nil || len(asked.Approvals) != 0 {
		t.Fatalf("%v, %d questions", err, len(asked.Approvals))
	}
	var list agent.ListResult
	c.call("chat.list", agent.ListParams{Kind: agent.KindSubagent, IncludeArchived: true}, &list)
	if len(list.Sessions) != 1 {
		t.Fatalf("%d subagents", len(list.Sessions))
	}
	got := c.results(list.Sessions[0].ID)
	if len(got) != 2 {
		t.Errorf("%d results: %+v", len(got), got)
	}
	for _, p := range got {
		if p.Status == "done" {
			t.Errorf("%s was called: %s", p.Tool, p.Text)
		}
	}
}
