package backend

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"

	"helix/backend/agent"
	"helix/backend/providers"
	"helix/backend/providers/providerstest"
)

// grower answers like a model that delegates at random: some of its tools, some that it does not
// have, budgets larger than its own, in parallel and nested.
type grower struct {
	mu  sync.Mutex
	rnd *rand.Rand
}

func (g *grower) answer(body []byte) providers.ScriptedReply {
	g.mu.Lock()
	defer g.mu.Unlock()
	var q struct {
		Tools    []struct{ Function struct{ Name string } }
		Messages []struct{ Role string }
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return providers.ScriptedReply{Status: 500}
	}
	held := []string{}
	for _, t := range q.Tools {
		held = append(held, t.Function.Name)
	}
	step := 0
	for _, m := range q.Messages {
		if m.Role == "assistant" {
			step++
		}
	}
	if step >= 3 || g.rnd.IntN(5) == 0 {
		return providers.ScriptedReply{Text: "Done."}
	}
	out := providers.ScriptedReply{}
	for i := range 1 + g.rnd.IntN(3) {
		call := providers.ScriptedCall{ID: fmt.Sprint("c", step, i), Name: "delegate_to_agent"}
		switch g.rnd.IntN(8) {
		case 0: // a tool that it does not have
			call.Name, call.Args = "file_list", json.RawMessage(`{"path":"/shared"}`)
		case 1:
			call.Name, call.Args = "time_now", json.RawMessage(`{}`)
		default:
			names := []string{}
			for _, name := range []string{"delegate_to_agent", "file_list", "time_now", "file_read", "scratchpad_write"} {
				if slices.Contains(held, name) && g.rnd.IntN(4) > 0 || g.rnd.IntN(15) == 0 {
					names = append(names, name)
				}
			}
			brief := map[string]any{"goal": fmt.Sprint("Part ", g.rnd.IntN(1000)), "available_tools": names}
			if g.rnd.IntN(3) == 0 {
				brief["max_turns"] = 1 + g.rnd.IntN(100)
			}
			if g.rnd.IntN(3) == 0 {
				brief["token_budget"] = 1 + g.rnd.IntN(10_000_000)
			}
			call.Args, _ = json.Marshal(brief)
		}
		out.Calls = append(out.Calls, call)
	}
	return out
}

// sessionRights are the permissions of a session according to its log.
type sessionRights struct {
	Kind, Agent, Mode, Role, ProjectDir string
	Limited, Private, Untrusted         bool
	Tools                               []string
	Budget                              agent.Budget
	Parent                              *struct {
		Session, Root uuid.UUID
		Depth         int
		Above         []struct {
			Session uuid.UUID
			Limits  agent.Budget
			Budget  agent.Budget
		}
	}
}

// In any tree, a subagent never has a tool, a mode or a mark of trust that its parent does not
// have; never calls another tool; and never spends, together with its descendants, more than the
// limit of any turn above it. Unused budget is returned, and the tree stays within its depth and
// number.
func TestBudgetsAndRightsNeverGrowInAnyTree(t *testing.T) {
	t.Parallel()
	deepest, nodes, exhausted := 0, 0, 0
	for seed := range uint64(6) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		g := &grower{rnd: rnd}
		c := newChatter(t, testOptions(t.TempDir()))
		c.serve(providerstest.Options{Answer: g.answer}, func(k providers.Caps) bool { return k.Tools })
		limits := agent.Budget{MaxTokens: []int64{30_000, 500_000}[seed%2] + rnd.Int64N(60_000), MaxCostMicros: providers.Micros(200_000 + rnd.Int64N(20_000_000))}
		s := c.create(agent.CreateParams{Mode: []string{agent.ModeAsk, agent.ModeRead}[seed/2%2]})
		var sent agent.SendResult
		c.call("chat.send", agent.SendParams{SessionID: s.ID, Text: "Grow", Budget: &limits}, &sent)
		turn := c.until(sent.TurnID)
		if turn.FinishedAt == nil {
			t.Fatalf("seed %d: %+v", seed, turn)
		}
		name := fmt.Sprint("seed ", seed)
		var all struct{ tokens, micros int64 }
		spent := map[uuid.UUID]int64{}
		var rows agent.LedgerResult
		c.call("agent.ledger", agent.LedgerParams{Limit: 1000}, &rows)
		for _, r := range rows.Rows {
			if r.State == "reserved" {
				t.Errorf("%s: a reservation is left: %+v", name, r)
			}
			all.tokens, all.micros = all.tokens+r.Input+r.Output, all.micros+int64(r.CostMicros)
			spent[*r.SessionID] += r.Input + r.Output
		}
		if all.tokens > limits.MaxTokens || all.micros > int64(limits.MaxCostMicros) {
			t.Errorf("%s: %d tokens and %d micros were spent of %+v", name, all.tokens, all.micros, limits)
		}
		if int64(turn.CostMicros) != all.micros {
			t.Errorf("%s: the turn cost %d, its tree %d", name, turn.CostMicros, all.micros)
		}
		if turn.StopReason == agent.StopBudget {
			exhausted++
		}
		count := 0
		var walk func(list []agent.TreeNode, above sessionRights, tools []string) (tokens int64)
		walk = func(list []agent.TreeNode, above sessionRights, tools []string) (tokens int64) {
			for _, n := range list {
				count++
				events := c.events(n.SessionID)
				var own sessionRights
				if err := json.Unmarshal(events[0].Data, &own); err != nil || own.Parent == nil {
					t.Fatalf("%s: %s, %v", name, events[0].Data, err)
				}
				var in struct{ Budget agent.Budget }
				for _, e := range events {
					switch e.Type {
					case "input":
						_ = json.Unmarshal(e.Data, &in)
					case "tool_intent":
						var x struct{ Tool string }
						if err := json.Unmarshal(e.Data, &x); err != nil || !slices.Contains(own.Tools, x.Tool) && x.Tool != "result_read" {
							t.Errorf("%s: a subagent with %v called %s", name, own.Tools, x.Tool)
						}
					}
				}
				if tools != nil {
					for _, held := range own.Tools {
						if !slices.Contains(tools, held) {
							t.Errorf("%s: a subagent has %s, its parent only %v", name, held, tools)
						}
					}
				}
				if !own.Limited || own.Mode != above.Mode || own.Agent != above.Agent || above.Private && !own.Private || above.Untrusted && !own.Untrusted {
					t.Errorf("%s: %+v below %+v", name, own, above)
				}
				deepest = max(deepest, own.Parent.Depth)
				if own.Parent.Depth > 3 || len(own.Parent.Above) != own.Parent.Depth || own.Parent.Root != s.ID {
					t.Errorf("%s: %+v", name, own.Parent)
				}
				if last := own.Parent.Above[len(own.Parent.Above)-1]; last.Session != s.ID || last.Limits.MaxTokens != limits.MaxTokens || last.Limits.MaxCostMicros != limits.MaxCostMicros {
					t.Errorf("%s: the top of a subagent pays %+v", name, last)
				}
				below := spent[n.SessionID] + walk(n.Children, own, append([]string{}, own.Tools...))
				if most := in.Budget.MaxTokens; most > 0 && below > most {
					t.Errorf("%s: a subagent spent %d of %d tokens with those below it", name, below, most)
				}
				if n.StopReason == agent.StopBudget {
					exhausted++
				}
				tokens += below
			}
			return tokens
		}
		tree := walk(c.tree(s.ID), sessionRights{Agent: agent.DefaultAgent, Mode: s.Mode}, nil)
		if count > 16 || tree+spent[s.ID] != all.tokens {
			t.Errorf("%s: %d subagents spent %d tokens of %d", name, count, tree, all.tokens)
		}
		nodes += count
	}
	if deepest < 2 || nodes < 10 || exhausted == 0 {
		t.Errorf("the trees are too small to show anything: %d deep, %d subagents, %d out of budget", deepest, nodes, exhausted)
	}
	t.Logf("%d subagents, %d deep, %d out of budget", nodes, deepest, exhausted)
}
