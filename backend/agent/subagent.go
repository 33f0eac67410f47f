package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/providers"
	"helix/backend/schema"
	"helix/backend/storage"
)

const (
	delegateName   = "delegate_to_agent"
	subagentLane   = 4  // concurrent subagents of a tree
	maxSubagents   = 16 // subagents of a tree
	maxDepth       = 3
	subagentSteps  = 20
	subagentResult = 8 << 10
	subagentTitle  = 400
)

// The statuses of a subagent's result.
const (
	SubagentCompleted       = "Completed"
	SubagentBudgetExhausted = "BudgetExhausted"
	SubagentFailed          = "Failed"
	SubagentCanceled        = "Cancelled"
)

// brief is the task that an agent gives to a subagent.
type brief struct {
	Goal      string          `json:"goal"`
	KeyFacts  []string        `json:"key_facts"`
	Tools     []string        `json:"available_tools"`
	Workspace string          `json:"workspace_path"`
	Format    json.RawMessage `json:"expected_output_format"`
	MaxTurns  int             `json:"max_turns"`
	Tokens    int64           `json:"token_budget"`
	Detached  bool            `json:"detached"`
}

var briefSchema = json.RawMessage(fmt.Sprintf(`{"type":"object","additionalProperties":false,"required":["goal","available_tools"],"properties":{
	"goal":{"type":"string","minLength":1,"maxLength":2000,"description":"What to find out or do, complete in itself: the subagent knows nothing of this conversation."},
	"key_facts":{"type":"array","maxItems":20,"items":{"type":"string","maxLength":1000}},
	"available_tools":{"type":"array","maxItems":64,"items":{"type":"string"},"description":"Names of your own tools that it may use. It has no others."},
	"workspace_path":{"type":"string","maxLength":400},
	"expected_output_format":{"description":"text (default), or a JSON Schema that the answer must match.","oneOf":[{"const":"text"},{"type":"object"}]},
	"max_turns":{"type":"integer","minimum":1,"maximum":%d,"default":%d},
	"token_budget":{"type":"integer","minimum":1},
	"detached":{"type":"boolean","description":"true: return at once; its report arrives later as a message."}}}`, defaultSteps, subagentSteps))

// parent is the position of a subagent's session in its tree.
type parent struct {
	Session  uuid.UUID       `json:"session"`
	Turn     uuid.UUID       `json:"turn"`
	CallID   string          `json:"callId"`
	Root     uuid.UUID       `json:"root"` // the root session of the tree
	Depth    int             `json:"depth"`
	Detached bool            `json:"detached,omitempty"`
	Attended bool            `json:"attended,omitempty"` // a person reads the report
	Format   json.RawMessage `json:"format,omitempty"`
	Above    []account       `json:"above"` // accounts charged for it, nearest first
}

// account is a turn that is charged for its subagents, with the limits of the turn and of its
// session.
type account struct {
	Session uuid.UUID `json:"session"`
	Turn    uuid.UUID `json:"turn"`
	Limits  Budget    `json:"limits"`
	Budget  Budget    `json:"budget"`
}

// limits returns the limits of the turn and its session on model calls.
func (a account) limits(user uuid.UUID) (out []limit) {
	add := func(scope string, id uuid.UUID, b Budget, warn float64) {
		if b.MaxCostMicros > 0 || b.MaxTokens > 0 {
			out = append(out, limit{key: spentKey{user: user, scope: scope, key: id.String()}, micros: b.MaxCostMicros, tokens: b.MaxTokens, warn: warn})
		}
	}
	add(scopeTurn, a.Turn, a.Limits, 0)
	add(ScopeSession, a.Session, a.Budget, defaultWarning)
	return out
}

// delegateTool gives a part of the work to an agent with fewer tools and its own history.
func (s *Service) delegateTool() tool {
	return tool{
		core: true, fenced: true,
		decl: providers.ToolDecl{Name: delegateName, Input: briefSchema, Description: "Hands a task to a subagent that works on it alone, with the tools that you name, and returns its answer. Use it for work that needs many steps but a short answer. Several in one step work side by side."},
		// The subagent's own calls are decided one by one, and starting it is idempotent.
		info: callable.Info{Name: delegateName, Effects: callable.Effects{ReadOnly: true, Idempotent: true}},
		own: func(ctx context.Context, l *live, call *toolIntent, args json.RawMessage) (ownResult, error) {
			var b brief
			if err := json.Unmarshal(args, &b); err != nil {
				return ownResult{}, fault.Invalidf("The arguments can't be read.").WithCause(err)
			}
			return s.delegate(ctx, l, call, b)
		},
	}
}

// delegate starts a subagent, or continues with the one started before a crash, and waits for its
// end.
func (s *Service) delegate(ctx context.Context, l *live, call *toolIntent, b brief) (ownResult, error) {
	child, turn := uuid.NewSHA1(l.id, []byte(call.Key)), uuid.NewSHA1(l.id, []byte(call.Key+" turn"))
	if err := s.startSubagent(ctx, l, call.CallID, child, turn, b); err != nil {
		return ownResult{}, err
	}
	if b.Detached {
		return ownResult{value: map[string]any{"status": "Running", "sessionId": child}}, nil
	}
	l.giveUpPlace()
	l.mu.Lock()
	l.children[turn] = struct{}{}
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		delete(l.children, turn)
		l.mu.Unlock()
	}()
	got, err := s.awaitSubagent(ctx, l, child, turn)
	if err != nil {
		return ownResult{}, err
	}
	below, err := s.session(ctx, child)
	if err != nil {
		return ownResult{}, err
	}
	ended, value := s.subagentResult(context.WithoutCancel(ctx), below, got)
	return ownResult{value: value, also: []payload{ended}, private: ended.Private, untrusted: ended.Untrusted}, nil
}

// startSubagent stores the start of a subagent, its session and its input, each exactly once.
func (s *Service) startSubagent(ctx context.Context, l *live, callID string, child, turn uuid.UUID, b brief) error {
	s.starting.Lock() // so that siblings are counted correctly
	defer s.starting.Unlock()
	b.Goal = s.o.Scrub(ctx, b.Goal)
	l.mu.Lock()
	st, t := *l.state, *l.state.Turn
	caller := l.caller
	l.mu.Unlock()
	begun := false
	if c := t.call(callID); c != nil {
		begun = c.Child != nil
	}
	p := &parent{Session: l.id, Turn: t.ID, CallID: callID, Root: l.id, Depth: 1, Detached: b.Detached, Attended: t.Input.Attended, Above: []account{{l.id, t.ID, t.Limits, st.Created.Budget}}}
	if up := st.Created.Parent; up != nil {
		p.Root, p.Depth = up.Root, up.Depth+1
		p.Above = append(p.Above, up.Above...)
	}
	if string(b.Format) != `"text"` {
		p.Format = b.Format
	}
	if !begun {
		if err := s.checkBrief(ctx, l, &st, p, b); err != nil {
			return err
		}
		if err := l.append(ctx, t.ID, nil, &subagentStarted{CallID: callID, Session: child, Turn: turn, Goal: b.Goal, Detached: b.Detached}); err != nil {
			return err
		}
	}
	if caller != nil { // the subagent gets no more permissions than the caller of its parent
		s.mu.Lock()
		s.callers[turn] = caller
		s.mu.Unlock()
	}
	title, _ := clip(strings.Join(strings.Fields(b.Goal), " "), subagentTitle)
	if _, err := s.get(ctx, child); fault.Is(err, fault.NotFound) {
		first := &created{Kind: KindSubagent, Agent: st.Created.Agent, Model: cmp.Or(t.Ref, st.Model), Mode: st.Mode, Parent: p, Tools: b.Tools, Limited: true, Role: st.Created.Role, Skills: st.Created.Skills, ProjectDir: st.Created.ProjectDir, Private: st.Private, Untrusted: st.Untrusted}
		if _, err := s.openSession(ctx, child, title, QueueFollowup, false, first); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	in := &input{Text: b.text(), Origin: Origin{Kind: OriginSubagent}, Attended: t.Input.Attended, Budget: Budget{MaxTurns: firstOf(b.MaxTurns, subagentSteps), MaxTokens: b.Tokens}}
	if t.Limits.MaxWallMs > 0 && !b.Detached {
		in.Budget.MaxWallMs = max(1, t.Limits.MaxWallMs-time.Since(l.begun).Milliseconds())
	}
	_, err := s.enqueue(ctx, child, turn, QueueFollowup, in)
	return err
}

// checkBrief rejects a brief that the agent can't delegate.
func (s *Service) checkBrief(ctx context.Context, l *live, st *State, p *parent, b brief) error {
	for _, name := range b.Tools {
		if !slices.ContainsFunc(l.toolList, func(t tool) bool { return t.decl.Name == name }) {
			return fault.Invalidf("You have no tool %q, so a subagent can't get it. %s", name, nearestTools(l.toolList, name))
		}
	}
	switch {
	case p.Depth > maxDepth:
		return fault.Limitf("Subagents can't be nested deeper than %d. Do this part yourself.", maxDepth)
	case b.Detached && st.Created.Once:
		return fault.Invalidf("This conversation ends with its turn, so a detached report would reach nobody. Delegate without detached.")
	}
	if p.Format != nil {
		if _, err := schema.Compile(p.Format); err != nil {
			return fault.Invalidf("expected_output_format is not a usable JSON Schema: %s", fault.As(err).Message)
		}
	}
	var n int
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(sessionsBelow+` SELECT count(*) - 1 FROM below`, p.Root).Scan(&n)
	})
	if err == nil && n >= maxSubagents {
		err = fault.Limitf("This conversation has used all of its %d subagents. Do this part yourself.", maxSubagents)
	}
	return err
}

// sessionsBelow and turnsBelow select a session or a turn together with those of its subagents.
const (
	sessionsBelow = `WITH RECURSIVE below(id) AS (VALUES (?) UNION SELECT s.id FROM below JOIN sessions s ON s.parent_session_id = below.id)`
	turnsBelow    = `WITH RECURSIVE below(id) AS (VALUES (?) UNION SELECT t.id FROM below JOIN sessions s ON s.parent_turn_id = below.id JOIN agent_turns t ON t.session_id = s.id)`
)

// text returns the input of the subagent.
func (b brief) text() string {
	var t strings.Builder
	t.WriteString(b.Goal)
	if len(b.KeyFacts) > 0 {
		t.WriteString("\n\nWhat is known:")
		for _, f := range b.KeyFacts {
			t.WriteString("\n- " + f)
		}
	}
	if b.Workspace != "" {
		t.WriteString("\n\nWork in " + b.Workspace + ".")
	}
	if len(b.Format) > 0 && b.Format[0] == '{' {
		t.WriteString("\n\nAnswer with one JSON value and nothing else. It must match this JSON Schema:\n" + string(b.Format))
	}
	return t.String()
}

// subagentRules replaces the part about the person in the prompt of a subagent.
const subagentRules = `You work on one task for another agent. Nobody reads along and nobody answers questions, so decide for yourself. Your last message is the result: give what was asked, and say plainly what you could not find out or do.`

// awaitSubagent waits for the end of a subagent's turn. If the parent's turn is canceled, it cancels
// the subagent's turn too.
func (s *Service) awaitSubagent(ctx context.Context, l *live, child, turn uuid.UUID) (Turn, error) {
	running := ctx.Done()
	for {
		ch, forget := s.waiter(turn)
		got, err := s.turn(context.WithoutCancel(ctx), l.user, turn)
		if err != nil || got.FinishedAt != nil {
			forget()
			return got, err
		}
		if got.State == Waiting { // callers that wait for the parent's turn must see this
			s.wakeWaiters(l.state.Turn.ID)
		}
		select {
		case <-ch:
		case <-running:
			if !errors.Is(context.Cause(ctx), errCanceled) {
				forget()
				return got, ctx.Err() // shutting down: the next start continues
			}
			running = nil
			if _, err := s.Cancel(context.WithoutCancel(ctx), TurnParams{child, &turn}); err != nil {
				forget()
				return got, err
			}
		case <-s.life.Done():
			forget()
			return got, s.life.Err()
		}
		forget()
	}
}

// subagentResult returns what the parent reads about a finished subagent, and the event for the
// parent's log.
func (s *Service) subagentResult(ctx context.Context, l *live, t Turn) (*subagentEnded, map[string]any) {
	l.mu.Lock()
	p, answer := l.state.Created.Parent, l.state.answer()
	ended := &subagentEnded{CallID: p.CallID, Session: l.id, For: p.Turn, Micros: t.CostMicros, Usage: t.Usage, Private: l.state.Private, Untrusted: l.state.Untrusted}
	l.mu.Unlock()
	out := map[string]any{"sessionId": l.id, "steps": t.Steps, "costMicros": t.CostMicros}
	if t.Error != nil {
		out["error"] = t.Error.Message
	}
	switch t.StopReason {
	case StopAnswer, StopDenied, StopLength:
		ended.Status = SubagentCompleted
	case StopBudget, StopMaxTurns, StopTimeout:
		ended.Status = SubagentBudgetExhausted
	case StopCanceled:
		ended.Status = SubagentCanceled
	default:
		ended.Status = SubagentFailed
	}
	text, cut := clip(answer, subagentResult)
	if cut {
		text += "\n… truncated"
	}
	out["result"] = text
	if p.Format != nil && ended.Status == SubagentCompleted {
		value := json.RawMessage(unfenced(answer))
		switch found, err := schema.CheckJSON(ctx, p.Format, value); {
		case err != nil || !json.Valid(value):
			ended.Status, out["error"] = SubagentFailed, "The result is not JSON."
		case len(found) > 0:
			ended.Status, out["error"] = SubagentFailed, fmt.Sprintf("The result does not match expected_output_format: %s: %s", cmp.Or(found[0].Path, "the whole"), found[0].Message)
		case !cut:
			out["result"] = value
		}
	}
	out["status"] = ended.Status
	return ended, out
}

// unfenced removes the code fence that models often put around JSON.
func unfenced(text string) string {
	text = strings.TrimSpace(text)
	if rest, ok := strings.CutPrefix(text, "```"); ok {
		_, rest, _ = strings.Cut(rest, "\n")
		text = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "```"))
	}
	return text
}

// report sends the result of a detached subagent to its parent, once.
func (s *Service) report(ctx context.Context, l *live, t Turn) error {
	l.mu.Lock()
	p, title := l.state.Created.Parent, ""
	if n := len(l.state.Exchanges); n > 0 {
		title = titleOf([]Part{{Kind: PartText, Text: l.state.Exchanges[n-1].Text}})
	}
	l.mu.Unlock()
	ended, value := s.subagentResult(ctx, l, t)
	in := &input{Text: jsonText(value), Origin: Origin{Kind: OriginSubagent, Label: title}, Attended: p.Attended, Private: ended.Private, Untrusted: ended.Untrusted}
	_, err := s.enqueue(ctx, p.Session, uuid.NewSHA1(t.TurnID, []byte("report")), QueueFollowup, in, ended)
	if err != nil && !fault.Is(err, fault.Conflict) && !fault.Is(err, fault.NotFound) { // archived and deleted chats get no report
		return err
	}
	return s.db.Write(ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`UPDATE agent_turns SET report_to = NULL WHERE id = ?`, t.TurnID)
		return err
	})
}

// reportAll sends the reports that the last shutdown interrupted.
func (s *Service) reportAll(ctx context.Context) error {
	type owed struct{ turn, session, user uuid.UUID }
	list, err := storage.Result(ctx, s.db.Read, func(tx *storage.Tx) ([]owed, error) {
		return storage.Collect(tx.Select(`SELECT id, session_id, user_id FROM agent_turns WHERE report_to IS NOT NULL AND finished_at IS NOT NULL`), func(row storage.Row) (o owed, err error) {
			err = row.Scan(&o.turn, &o.session, &o.user)
			return o, err
		})
	})
	for _, o := range list {
		user := s.asUser(ctx, o.user)
		l, lerr := s.session(user, o.session)
		if lerr == nil {
			var t Turn
			if t, lerr = s.turn(user, o.user, o.turn); lerr == nil {
				lerr = s.report(user, l, t)
			}
		}
		err = errors.Join(err, lerr)
	}
	return err
}

// tellAbove notifies clients that show the ancestor sessions of a change in their tree.
func (s *Service) tellAbove(l *live) {
	if p := l.state.Created.Parent; p != nil {
		for _, a := range p.Above {
			bus.Publish(s.bus, l.user, SessionChanged{SessionID: a.Session})
		}
	}
}

// TreeNode is a subagent with the subagents that it started.
type TreeNode struct {
	SessionID  uuid.UUID        `json:"sessionId"`
	TurnID     uuid.UUID        `json:"turnId"`
	ParentTurn uuid.UUID        `json:"parentTurnId"` // the turn that started it
	CallID     string           `json:"callId"`       // the call that started it
	Goal       string           `json:"goal"`
	State      string           `json:"state"` // of its turn
	StopReason string           `json:"stopReason,omitempty"`
	Steps      int              `json:"steps"`
	CostMicros providers.Micros `json:"costMicros"` // including its own subagents
	Detached   bool             `json:"detached,omitempty"`
	Children   []TreeNode       `json:"children"`
}

// TreeResult lists the subagents of a session, oldest first.
type TreeResult struct {
	Nodes []TreeNode `json:"nodes"`
}

// Tree lists the subagents of a session and their states.
func (s *Service) Tree(ctx context.Context, p SessionParams) (out TreeResult, err error) {
	top, err := s.session(ctx, p.SessionID)
	if err != nil {
		return out, err
	}
	below := map[uuid.UUID][]TreeNode{}
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.Select(sessionsBelow+` SELECT s.id, s.title, s.parent_session_id, s.parent_turn_id, t.id, t.state, t.stop_reason, t.steps, t.cost_micros, e.payload_json
			FROM below b JOIN sessions s ON s.id = b.id AND s.user_id = ?2 JOIN agent_turns t ON t.session_id = s.id JOIN conversation_events e ON e.session_id = s.id AND e.sequence = 1
			WHERE s.id <> ?1 ORDER BY s.created_at, s.id, t.created_at`, p.SessionID, top.user).Each(func(row storage.Row) error {
			n := TreeNode{Children: []TreeNode{}}
			var above uuid.UUID
			var raw []byte
			if err := row.Scan(&n.SessionID, &n.Goal, &above, &n.ParentTurn, &n.TurnID, &n.State, &n.StopReason, &n.Steps, &n.CostMicros, &raw); err != nil {
				return err
			}
			plain, err := s.open("conversation_events", "payload_json", n.SessionID, raw)
			if err != nil {
				return err
			}
			var first created
			if err := json.Unmarshal(plain, &first); err != nil {
				return err
			}
			if first.Parent != nil {
				n.CallID, n.Detached = first.Parent.CallID, first.Parent.Detached
			}
			below[above] = append(below[above], n)
			return nil
		})
	})
	var hang func(id uuid.UUID) []TreeNode
	hang = func(id uuid.UUID) []TreeNode {
		list := append([]TreeNode{}, below[id]...)
		for i := range list {
			list[i].Children = hang(list[i].SessionID)
		}
		return list
	}
	out.Nodes = hang(p.SessionID)
	return out, err
}
