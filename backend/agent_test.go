package backend

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/uuid"

	"helix/backend/agent"
	"helix/backend/permission"
	"helix/backend/providers"
	"helix/backend/providers/providerstest"
)

// chatter is a running Helix whose role chat is an emulated service.
type chatter struct {
	*remote
	b   *Backend
	srv *providerstest.Server
}

func newTalk(t *testing.T, o Options, replies ...providers.ScriptedReply) *chatter {
	t.Helper()
	c := &chatter{b: startWith(t, o), srv: providerstest.New(t, providerstest.Options{Replies: replies})}
	c.remote = c.b.session(t)
	c.call("providers.set", providers.SetParams{Name: "emulated", Entry: c.srv.Entry()}, nil)
	c.call("providers.set_role", providers.SetRoleParams{Role: providers.RoleChat, Chain: []providers.ModelRef{"emulated/one"}}, nil)
	return c
}

func (c *chatter) create(p agent.CreateParams) agent.Session {
	c.t.Helper()
	var made agent.SessionResult
	c.call("chat.create", p, &made)
	return made.Session
}

// say sends a text and waits until its turn ends or waits for a person.
func (c *chatter) say(session uuid.UUID, text string) agent.Turn {
	c.t.Helper()
	var sent agent.SendResult
	c.call("chat.send", agent.SendParams{SessionID: session, Text: text}, &sent)
	return c.until(sent.TurnID)
}

// until waits for the end of a turn, or for its question.
func (c *chatter) until(turn uuid.UUID) agent.Turn {
	c.t.Helper()
	var got agent.TurnResult
	for range 400 {
		c.call("chat.wait", agent.WaitParams{TurnID: turn, WaitMs: 50}, &got)
		if got.Turn.FinishedAt != nil || got.Turn.State == agent.Waiting && len(got.Turn.Approvals) > 0 {
			return got.Turn
		}
	}
	c.t.Fatalf("the turn goes on: %+v", got.Turn)
	return got.Turn
}

func (c *chatter) messages(session uuid.UUID) []agent.Message {
	c.t.Helper()
	var out agent.MessagesResult
	c.call("chat.messages", agent.MessagesParams{SessionID: session}, &out)
	return out.Messages
}

func (c *chatter) replays(session uuid.UUID, requests int) {
	c.t.Helper()
	var out agent.ReplayResult
	c.call("agent.replay", agent.ReplayParams{SessionID: session}, &out)
	if !out.Identical || out.Requests != requests {
		c.t.Errorf("replay: %+v, %v", out, out.FirstDifference)
	}
}

func calls(name, args string) providers.ScriptedReply {
	return providers.ScriptedReply{Calls: []providers.ScriptedCall{{ID: "c1", Name: name, Args: json.RawMessage(args)}}}
}

// A chat answers, remembers what was said, finds it again and knows what it cost.
func TestChatAnswers(t *testing.T) {
	t.Parallel()
	c := newTalk(t, testOptions(t.TempDir()), providers.ScriptedReply{Text: "Paris is the capital of France."}, providers.ScriptedReply{Text: "About two million."})
	s := c.create(agent.CreateParams{})
	if turn := c.say(s.ID, "What is the capital of France?"); turn.State != agent.Completed || turn.StopReason != agent.StopAnswer || turn.Steps != 1 {
		t.Fatalf("%+v %+v", turn, turn.Error)
	}
	if turn := c.say(s.ID, "How many people live there?"); turn.State != agent.Completed {
		t.Fatalf("%+v", turn)
	}
	list := c.messages(s.ID)
	if len(list) != 4 || list[0].Role != "user" || list[3].Parts[0].Text != "About two million." {
		t.Fatalf("%+v", list)
	}
	second := string(c.srv.Requests()[1].Body)
	if !strings.Contains(second, "Paris is the capital") || strings.Count(second, "Now: ") != 1 {
		t.Errorf("the second request: %s", second)
	}
	var found agent.SearchResult
	c.call("chat.search", agent.SearchParams{Query: `"capi`}, &found)
	if len(found.Hits) != 2 {
		t.Errorf("%+v", found)
	}
	var all agent.ListResult
	c.call("chat.list", agent.ListParams{}, &all)
	if all.Total != 1 || all.Sessions[0].Title != "What is the capital of France?" || all.Sessions[0].MessageCount != 4 {
		t.Errorf("%+v", all)
	}
	var spent agent.LedgerResult
	c.call("agent.ledger", agent.LedgerParams{}, &spent)
	if len(spent.Rows) != 2 || spent.Rows[0].State != "settled" {
		t.Errorf("%+v", spent)
	}
	c.replays(s.ID, 2)
}

// A tool that has an effect is asked about. The answer goes on with the turn, and a refusal is what
// the model reads.
func TestChatAsksBeforeItActs(t *testing.T) {
	t.Parallel()
	write := calls("file_write", `{"path":"/shared/note.txt","text":"hello"}`)
	c := newTalk(t, testOptions(t.TempDir()), write, providers.ScriptedReply{Text: "Written."}, write, providers.ScriptedReply{Text: "Then not."})
	s := c.create(agent.CreateParams{})
	turn := c.say(s.ID, "Write a note")
	if turn.State != agent.Waiting || len(turn.Approvals) != 1 {
		t.Fatalf("%+v %+v", turn, c.messages(s.ID))
	}
	var asked permission.GetApprovalResult
	c.call("approvals.get", permission.GetApprovalParams{ID: turn.Approvals[0]}, &asked)
	c.call("approvals.decide", permission.AnswerParams{ID: asked.ID, Decision: "approve", Scope: "once", DefinitionHash: asked.DefinitionHash}, nil)
	if turn = c.until(turn.TurnID); turn.State != agent.Completed {
		t.Fatalf("%+v %+v", turn, c.messages(s.ID))
	}
	turn = c.say(s.ID, "And again")
	if turn.State != agent.Waiting {
		t.Fatalf("allowed once, and again without a question: %+v", turn)
	}
	c.call("approvals.get", permission.GetApprovalParams{ID: turn.Approvals[0]}, &asked)
	c.call("approvals.decide", permission.AnswerParams{ID: asked.ID, Decision: "deny", DefinitionHash: asked.DefinitionHash}, nil)
	if turn = c.until(turn.TurnID); turn.State != agent.Completed {
		t.Fatalf("%+v", turn)
	}
	last := string(c.srv.Requests()[3].Body)
	if !strings.Contains(last, "did not allow") {
		t.Errorf("the model was not told: %s", last)
	}
	c.replays(s.ID, 4)
}

// A turn that is interrupted goes on at the next start. A call that may have happened is not made
// again without asking.
func TestChatSurvivesRestart(t *testing.T) {
	t.Parallel()
	o := testOptions(t.TempDir())
	write := calls("file_write", `{"path":"/shared/note.txt","text":"hello"}`)
	var session, turn uuid.UUID
	var approval uuid.UUID
	t.Run("before", func(t *testing.T) {
		c := newTalk(t, o, write)
		session = c.create(agent.CreateParams{}).ID
		got := c.say(session, "Write a note")
		if len(got.Approvals) != 1 {
			t.Fatalf("%+v %+v %+v", got, got.Error, c.messages(session))
		}
		turn, approval = got.TurnID, got.Approvals[0]
	})
	c := newTalk(t, o, providers.ScriptedReply{Text: "Written."})
	var asked permission.GetApprovalResult
	c.call("approvals.get", permission.GetApprovalParams{ID: approval}, &asked)
	c.call("approvals.decide", permission.AnswerParams{ID: asked.ID, Decision: "approve", Scope: "run", DefinitionHash: asked.DefinitionHash}, nil)
	if got := c.until(turn); got.State != agent.Completed || got.Steps != 2 {
		t.Fatalf("%+v %+v", got, got.Error)
	}
	c.replays(session, 2)
}

// A call that is refused by a budget is never made.
func TestChatStopsAtItsBudget(t *testing.T) {
	t.Parallel()
	c := newTalk(t, testOptions(t.TempDir()), providers.ScriptedReply{Text: "Never said."})
	few := int64(100)
	c.call("agent.set_budget", agent.SetBudgetParams{Scope: agent.ScopeDay, MaxTokens: &few}, nil)
	s := c.create(agent.CreateParams{})
	turn := c.say(s.ID, "Hello")
	if turn.State != agent.Failed || turn.StopReason != agent.StopBudget || c.srv.Calls() != 0 {
		t.Fatalf("%+v %+v, %d calls", turn, turn.Error, c.srv.Calls())
	}
}

// Without a model the input is kept and the error says what to do.
func TestChatWithoutModel(t *testing.T) {
	t.Parallel()
	b := startWith(t, testOptions(t.TempDir()))
	c := &chatter{remote: b.session(t), b: b}
	s := c.create(agent.CreateParams{})
	turn := c.say(s.ID, "Hello")
	if turn.State != agent.Failed || turn.Error == nil || turn.Error.Message != "Set up a model first." || len(c.messages(s.ID)) < 1 {
		t.Fatalf("%+v %+v", turn, turn.Error)
	}
}
