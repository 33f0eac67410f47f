package backend

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"helix/backend/agent"
	"helix/backend/identity"
	"helix/backend/permission"
	"helix/backend/providers"
	"helix/backend/providers/providerstest"
)

// toolRule is what is required of a tool: its tier, and whether the mode work makes a question
// unnecessary.
type toolRule struct {
	tier permission.Tier
	free bool   // needs no question in the mode work
	host bool   // asks for the host that it reads, in every mode
	args string // valid, and harmless if the call is made
}

const noID = `"00000000-0000-4000-8000-000000000001"`

// toolRules are the rules of all tools of a new Helix. A tool that is not here makes the test fail:
// whoever adds one decides what it may do.
var toolRules = map[string]toolRule{
	"attachment_save":     {tier: permission.SideEffecting, free: true, args: `{"handle":"0123456789abcdef","path":"/shared/saved.txt"}`},
	"delegate_to_agent":   {args: `{"goal":"Nothing","available_tools":["no_such_tool"]}`},
	"file_delete":         {tier: permission.SideEffecting, free: true, args: `{"path":"/shared/none.txt"}`},
	"file_edit":           {tier: permission.SideEffecting, free: true, args: `{"path":"/shared/none.txt","old":"a","new":"b","hash":"x"}`},
	"file_list":           {args: `{"path":"/shared"}`},
	"file_read":           {args: `{"path":"/shared/none.txt"}`},
	"file_search":         {args: `{"path":"/shared","query":"word"}`},
	"file_write":          {tier: permission.SideEffecting, free: true, args: `{"path":"/shared/new.txt","text":"x"}`},
	"history_read":        {args: `{"seq":0}`},
	"history_search":      {args: `{"query":"word"}`},
	"http_request":        {tier: permission.SideEffecting, args: `{"url":"https://one.example.invalid/"}`},
	"json_validate":       {args: `{"value":1,"schema":{"type":"integer"}}`},
	"memory_delete":       {tier: permission.SideEffecting, args: `{"ids":[` + noID + `]}`},
	"memory_save":         {tier: permission.SideEffecting, args: `{"content":"A fact."}`},
	"memory_search":       {args: `{"query":"word"}`},
	"memory_update":       {tier: permission.SideEffecting, args: `{"id":` + noID + `,"content":"x"}`},
	"notify":              {tier: permission.SideEffecting, args: `{"title":"x"}`},
	"result_read":         {args: `{"handle":"0123456789abcdef","offset":0}`},
	"schedule_create":     {tier: permission.SideEffecting, args: `{"name":"X","target":{"kind":"agent","input":{"prompt":"x"}},"cadence":{"type":"interval","everySecs":86400}}`},
	"schedule_delete":     {tier: permission.SideEffecting, args: `{"scheduleId":` + noID + `}`},
	"schedule_edit":       {tier: permission.SideEffecting, args: `{"scheduleId":` + noID + `,"patch":{"name":"Y"}}`},
	"schedule_run_output": {args: `{"runId":` + noID + `}`},
	"schedule_runs":       {args: `{"scheduleId":` + noID + `}`},
	"schedule_search":     {args: `{}`},
	"scratchpad_clear":    {args: `{}`},
	"scratchpad_read":     {args: `{}`},
	"scratchpad_write":    {args: `{"text":"x"}`},
	"send_media":          {args: `{"path":"/shared/none.png"}`},
	"shell_exec":          {tier: permission.Privileged, args: `{"command":"ls -l"}`},
	"skill_create":        {tier: permission.SideEffecting, args: `{"name":"made","description":"x","body":"x"}`},
	"skill_save":          {tier: permission.SideEffecting, args: `{"name":"X","steps":[{"stepId":"a","toolType":"builtin","toolName":"time.now"}]}`},
	"time_now":            {args: `{}`},
	"tool_search":         {args: `{"query":"file"}`},
	"vault_copyto":        {tier: permission.Privileged, args: `{"from":"/vault/none","to":"/shared/none"}`},
	"web_fetch":           {host: true, args: `{"url":"https://one.example.invalid/"}`},

	"synthesis_consolidation":       {tier: permission.SideEffecting, args: `{}`},
	"synthesis_emotional_patterns":  {tier: permission.SideEffecting, args: `{}`},
	"synthesis_full_synthesis":      {tier: permission.SideEffecting, args: `{}`},
	"synthesis_monthly":             {tier: permission.SideEffecting, args: `{}`},
	"synthesis_narrative_coherence": {tier: permission.SideEffecting, args: `{}`},
	"synthesis_prospective_self":    {tier: permission.SideEffecting, args: `{}`},
	"synthesis_relational_memory":   {tier: permission.SideEffecting, args: `{}`},
	"synthesis_synthesis":           {tier: permission.SideEffecting, args: `{}`},
	"synthesis_weekly":              {tier: permission.SideEffecting, args: `{}`},
}

// obedient answers the first request of a turn with a call of the tool that its input names, and the
// next one with a text.
func obedient(body []byte) providers.ScriptedReply {
	var q struct {
		Messages []struct {
			Role    string
			Content any
		}
	}
	if err := json.Unmarshal(body, &q); err != nil || len(q.Messages) == 0 {
		return providers.ScriptedReply{Status: 500}
	}
	last := q.Messages[len(q.Messages)-1]
	if last.Role != "user" {
		return providers.ScriptedReply{Text: "That is all."}
	}
	_, rest, _ := strings.Cut(fmt.Sprint(last.Content), "Call <")
	name, _, _ := strings.Cut(rest, ">")
	return calls(name, toolRules[name].args)
}

// Every tool, in every mode, with and without a person present, does exactly what the table above
// allows: it is not offered, is made at once, waits for a person, or is refused with its question left
// in Approvals.
func TestEveryToolInEveryMode(t *testing.T) {
	t.Parallel()
	c := &chatter{b: startWith(t, withShell(t, &fakeShell{})), srv: providerstest.New(t, providerstest.Options{Answer: obedient})}
	c.remote = c.b.session(t)
	c.setUp()
	var offered agent.ToolsResult
	c.call("agent.tools", agent.ToolsParams{}, &offered)
	for _, tool := range offered.Tools {
		if rule, ok := toolRules[tool.Name]; !ok || rule.tier.String() != tool.Tier {
			t.Errorf("the tool %s of tier %s has the rule %+v (%v)", tool.Name, tool.Tier, rule, ok)
		}
	}
	person := c.ctx()
	who, _ := identity.From(person)
	who.Client = identity.ClientProgram
	program := identity.With(person, who)
	type try struct {
		name, mode string
		attended   bool
	}
	var tries []try
	for name := range toolRules {
		if !slices.ContainsFunc(offered.Tools, func(x agent.ToolView) bool { return x.Name == name }) {
			t.Errorf("%s is not offered", name)
			continue
		}
		for _, mode := range []string{agent.ModeRead, agent.ModeAsk, agent.ModeWork} {
			for _, attended := range []bool{true, false} {
				tries = append(tries, try{name: name, mode: mode, attended: attended})
			}
		}
	}
	for _, x := range tries {
		ctx := person
		if !x.attended {
			ctx = program
		}
		made, err := c.b.Agent.Create(person, agent.CreateParams{Mode: x.mode})
		if err != nil {
			t.Fatal(err)
		}
		sent, err := c.b.Agent.Send(ctx, agent.SendParams{SessionID: made.Session.ID, Text: "Call <" + x.name + ">"})
		if err != nil {
			t.Fatal(err)
		}
		got := c.until(sent.TurnID)
		rule := toolRules[x.name]
		want := "made"
		switch {
		case x.mode == agent.ModeRead && rule.tier > permission.ReadOnly:
			want = "not offered"
		case rule.tier == permission.ReadOnly && !rule.host, x.mode == agent.ModeWork && rule.free:
		case x.attended:
			want = "waits"
		default:
			want = "refused"
		}
		if did := c.did(got); did != want {
			t.Errorf("%s in the mode %s, attended %v: %s, want %s: %+v", x.name, x.mode, x.attended, did, want, c.messages(made.Session.ID))
		}
		if got.State == agent.Waiting {
			c.call("chat.cancel", agent.TurnParams{SessionID: made.Session.ID}, nil)
			c.until(sent.TurnID)
		}
	}
}

// did returns what became of the call of a turn.
func (c *chatter) did(turn agent.Turn) string {
	c.t.Helper()
	if turn.State == agent.Waiting {
		if len(turn.Approvals) != 1 {
			return fmt.Sprintf("waits for %d questions", len(turn.Approvals))
		}
		return "waits"
	}
	for _, m := range c.messages(turn.SessionID) {
		for _, p := range m.Parts {
			switch {
			case p.Kind != agent.PartToolResult:
			case strings.HasPrefix(p.Text, "There is no tool"):
				return "not offered"
			case strings.Contains(p.Text, "arguments are not valid"):
				return "called wrongly"
			case p.Status == "denied" && p.ApprovalID != nil:
				return "refused"
			case p.Status == "denied":
				return "denied without a question"
			default:
				return "made"
			}
		}
	}
	return "nothing"
}
