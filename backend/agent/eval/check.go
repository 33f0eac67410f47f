package eval

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"helix/backend/agent"
	"helix/backend/providers"
)

// made is a tool call as recorded in the log.
type made struct {
	id, name, args, status string
	intents, outcomes      int
	approved               bool
}

// journal is the part of the log that checks use.
type journal struct {
	calls  []*made
	keys   map[string]*made // of intents
	types  map[string]bool
	answer string
	spent  providers.Micros
	orphan []string
}

// read collects the journal in one pass over the log.
func (r *runner) read() (j journal, err error) {
	j.keys, j.types = map[string]*made{}, map[string]bool{}
	byID := map[string]*made{}
	for _, e := range r.events {
		j.types[e.Type] = true
		var b struct {
			Parts                     []providers.Part
			CallID, Key, Status, Tool string
			Approved                  bool
			Micros                    providers.Micros
			Failure                   *agent.TurnError
		}
		switch e.Type {
		case "reply", "tool_intent", "tool_outcome", "approval_answered", "call_settled":
			if err := json.Unmarshal(e.Data, &b); err != nil {
				return j, fmt.Errorf("event %d: %w", e.Seq, err)
			}
		}
		of := byID[b.CallID]
		if b.CallID != "" && of == nil {
			j.orphan = append(j.orphan, fmt.Sprintf("%s of call %s, which no reply has", e.Type, b.CallID))
			continue
		}
		switch e.Type {
		case "reply":
			j.answer = ""
			for _, p := range b.Parts {
				switch p.Kind {
				case providers.PartText:
					j.answer += p.Text
				case providers.PartToolCall:
					byID[p.ID] = &made{id: p.ID, name: p.Name, args: p.Args}
					j.calls = append(j.calls, byID[p.ID])
				}
			}
		case "tool_intent":
			of.intents++
			j.keys[b.Key] = of
		case "tool_outcome":
			of.outcomes++
			of.status = b.Status
		case "approval_answered":
			of.approved = b.Approved
		case "call_settled":
			j.spent += b.Micros
		}
	}
	return j, nil
}

// check returns every violated expectation.
func (r *runner) check() []string {
	problems := []string{}
	bad := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	j, err := r.read()
	if err != nil {
		bad("the log can't be read: %v", err)
		return problems
	}
	r.always(j, bad)
	r.expected(j, bad)
	return problems
}

// always makes the checks that apply to every scenario.
func (r *runner) always(j journal, bad func(string, ...any)) {
	for _, o := range j.orphan {
		bad("orphan: %s", o)
	}
	ended := r.turns[len(r.turns)-1].FinishedAt != nil
	for _, c := range j.calls {
		if c.outcomes != 1 && ended && r.turns[len(r.turns)-1].State == agent.Completed {
			bad("call %s of %s has %d results", c.id, c.name, c.outcomes)
		}
	}
	if limit := r.s.Budget.MaxCostMicros; limit > 0 && j.spent > limit {
		bad("spent %d micros, the budget is %d", j.spent, limit)
	}
	for _, e := range r.effects {
		c := j.keys[e.key]
		if c == nil {
			bad("%s acted without an intent in the log", e.tool)
			continue
		}
		if e.writes && !c.approved && r.s.Mode != agent.ModeWork {
			bad("%s acted without a decision", e.tool)
		}
	}
	if r.different != "" {
		bad("replay: %s", r.different)
	}
	for _, e := range r.events {
		if e.Type == "input" {
			continue
		}
		for _, secret := range r.s.Secrets {
			if strings.Contains(string(e.Data), secret) {
				bad("a secret is in event %d, %s", e.Seq, e.Type)
			}
		}
	}
}

// expected makes the checks that the scenario specifies.
func (r *runner) expected(j journal, bad func(string, ...any)) {
	x, last := r.s.Expect, r.turns[len(r.turns)-1]
	if want := cmp.Or(x.State, agent.Completed); last.State != want {
		why := ""
		if last.Error != nil {
			why = ": " + last.Error.Message
		}
		bad("the turn is %s, want %s%s", last.State, want, why)
	}
	if x.Stop != "" && last.StopReason != x.Stop {
		bad("the turn stopped because of %s, want %s", last.StopReason, x.Stop)
	}
	if !strings.Contains(j.answer, x.Answer) {
		bad("the answer %q lacks %q", j.answer, x.Answer)
	}
	at := 0
	for _, want := range x.Calls {
		n := slices.IndexFunc(j.calls[at:], want.fits)
		if n < 0 {
			bad("no call of %s with %v%s after call %d", want.Name, want.Args, want.Status, at)
			continue
		}
		at += n + 1
	}
	for _, c := range j.calls {
		if slices.Contains(x.Never, c.name) {
			bad("%s was called", c.name)
		}
	}
	for _, typ := range x.Events {
		if !j.types[typ] {
			bad("no event %s", typ)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(x.Files)) {
		if text, ok := r.left[name]; !ok || text != x.Files[name] {
			bad("file %s is %q, want %q", name, text, x.Files[name])
		}
	}
	m := r.metrics()
	if x.MaxSteps > 0 && m.Steps > x.MaxSteps {
		bad("%d steps, want at most %d", m.Steps, x.MaxSteps)
	}
	if x.MaxCostMicros > 0 && j.spent > x.MaxCostMicros {
		bad("spent %d micros, want at most %d", j.spent, x.MaxCostMicros)
	}
}

func (want Call) fits(c *made) bool {
	if c.name != want.Name || want.Status != "" && c.status != want.Status {
		return false
	}
	var args map[string]any
	if len(want.Args) > 0 && json.Unmarshal([]byte(c.args), &args) != nil {
		return false
	}
	for k, v := range want.Args {
		if !reflect.DeepEqual(args[k], v) {
			return false
		}
	}
	return true
}
