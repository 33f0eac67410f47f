package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/providers"
)

// State is the state of a session: the fold of the events in its log.
type State struct {
	Seq       int64                `json:"seq"`
	Created   created              `json:"created"`
	QueueMode string               `json:"queueMode"`
	Mode      string               `json:"mode"`
	Model     providers.ModelRef   `json:"model,omitempty"`
	Exchanges []Exchange           `json:"exchanges"` // without those replaced by the summary
	Dropped   int                  `json:"dropped"`   // number of exchanges replaced
	Summary   string               `json:"summary,omitempty"`
	Epoch     int                  `json:"epoch,omitempty"`
	Queue     []waitingInput       `json:"queue,omitempty"`
	Turn      *turnState           `json:"turn,omitempty"`
	Tools     []providers.ToolDecl `json:"tools,omitempty"`
	Loaded    []providers.ToolDecl `json:"loaded,omitempty"`
	Notes     []string             `json:"notes,omitempty"`     // the scratchpad
	Private   bool                 `json:"private,omitempty"`   // holds the person's private texts
	Untrusted bool                 `json:"untrusted,omitempty"` // holds text from outside
	Prompt    int64                `json:"prompt,omitempty"`    // tokens of the last prompt, as counted by the service
}

// Exchange is an input with everything that followed from it, as the model reads it.
type Exchange struct {
	Turn     uuid.UUID           `json:"turn"`
	Seq      int64               `json:"seq"`
	At       time.Time           `json:"at"`
	Text     string              `json:"text"`
	Fenced   string              `json:"fenced,omitempty"` // the author, if not the person
	Files    []Attachment        `json:"files,omitempty"`
	Messages []providers.Message `json:"messages"`
}

// waitingInput is an input whose turn has not started.
type waitingInput struct {
	Turn uuid.UUID `json:"turn"`
	Seq  int64     `json:"seq"`
	At   time.Time `json:"at"`
	input
}

// The phases of a turn.
const (
	phasePlan  = "plan"  // the model is called next
	phaseCall  = "call"  // a call of the model is under way
	phaseTools = "tools" // calls of the reply have no result yet
	phaseEnd   = "end"   // the reply is the answer
)

// turnState is the running turn.
type turnState struct {
	ID        uuid.UUID          `json:"id"`
	Input     input              `json:"input"`
	StartedAt time.Time          `json:"startedAt"`
	Block     string             `json:"block"`
	Ref       providers.ModelRef `json:"model,omitempty"`
	Window    int                `json:"window"`
	Output    int                `json:"output"`
	Limits    Budget             `json:"limits"`
	Phase     string             `json:"phase"`
	Steps     int                `json:"steps"`
	Calls     []callState        `json:"calls,omitempty"`
	Holds     []callReserved     `json:"holds,omitempty"` // attempts not yet settled
	Partial   *partial           `json:"partial,omitempty"`
	Micros    providers.Micros   `json:"micros"`
	Usage     providers.Usage    `json:"usage"`
	Provider  string             `json:"provider,omitempty"`
	Reply     string             `json:"reply,omitempty"` // model that answered
	Unusable  int                `json:"unusable,omitempty"`
	Missing   bool               `json:"missing,omitempty"`   // a call was not approved because no person was present
	Compacted bool               `json:"compacted,omitempty"` // history was shortened in this turn
	Acts      []act              `json:"acts,omitempty"`
	Warned    int                `json:"warned,omitempty"` // acts at the last notice of the loop breaker
	End       *turnFinished      `json:"end,omitempty"`
	Notices   []string           `json:"notices,omitempty"` // for the next request
}

// callState is a call of the last reply.
type callState struct {
	ID      string         `json:"id"`
	Name    string         `json:"name"`
	Args    string         `json:"args"`
	BadArgs bool           `json:"badArgs,omitempty"`
	Intent  *toolIntent    `json:"intent,omitempty"`
	Asked   *approvalAsked `json:"asked,omitempty"`
	Refused bool           `json:"refused,omitempty"` // denied by a person
	Choice  string         `json:"choice,omitempty"`  // of an unknown outcome
	Note    string         `json:"note,omitempty"`
	Outcome *toolOutcome   `json:"outcome,omitempty"`
	Child   *uuid.UUID     `json:"child,omitempty"`  // session of the subagent that it started
	Passed  bool           `json:"passed,omitempty"` // the agent may make it; an open question is now the callable's own
}

// act is the unit that the loop breaker compares.
type act struct {
	Call   string `json:"call"`   // tool and arguments
	Result string `json:"result"` // hash of the result
	Tool   string `json:"tool"`
	Failed bool   `json:"failed,omitempty"`
}

// effectKind is the kind of a session's next effect.
type effectKind int

const (
	effectNone   effectKind = iota
	effectStart             // begin the turn of the first input
	effectCall              // call the model
	effectTools             // make the calls of the reply
	effectFinish            // end the turn
)

// effect is the session's next effect; end says how a turn ends.
type effect struct {
	kind effectKind
	end  turnFinished
}

// apply folds an event into the state.
func (s *State) apply(e Event) {
	s.Seq = e.Seq
	t := s.Turn
	switch b := e.Body.(type) {
	case *created:
		s.Created, s.Mode, s.Model = *b, b.Mode, b.Model
		s.Private, s.Untrusted = b.Private, b.Untrusted
	case *imported:
		s.Private, s.Untrusted = true, true
	case *configured:
		if b.Mode != nil {
			s.Mode = *b.Mode
		}
		if b.QueueMode != nil {
			s.QueueMode = *b.QueueMode
		}
		if b.Model != nil {
			s.Model = *b.Model
		}
	case *input:
		s.Queue = append(s.Queue, waitingInput{Turn: e.Turn, Seq: e.Seq, At: e.At, input: *b})
	case *withdrawn:
		s.Queue = slices.DeleteFunc(s.Queue, func(w waitingInput) bool { return w.Turn == e.Turn })
	case *turnStarted:
		s.start(e, b)
	case *scratchpad:
		s.Notes = b.Items
	case *loadedTools:
		s.Loaded = append(s.Loaded, b.Tools...)
	case *compactionSaved:
		s.Epoch, s.Summary, s.Dropped = b.Epoch, b.Text, s.Dropped+b.Upto
		s.Exchanges = slices.Clone(s.Exchanges[min(b.Upto, len(s.Exchanges)):])
		s.Prompt = 0
		if t != nil {
			t.Compacted = true
		}
	case *summarized:
		if b.Epoch == s.Epoch {
			s.Summary = b.Text
		}
	}
	if t == nil {
		return
	}
	switch b := e.Body.(type) {
	case *steered:
		for _, id := range b.Turns {
			if i := slices.IndexFunc(s.Queue, func(w waitingInput) bool { return w.Turn == id }); i >= 0 {
				s.add(s.Created.Boundary.userMessage(s.Queue[i].Text, s.Queue[i].Origin.label(), s.Queue[i].Files...))
				s.mark(s.Queue[i].input)
				s.Queue = slices.Delete(s.Queue, i, i+1)
			}
		}
	case *callStarted:
		t.Phase, t.Steps, t.Partial = phaseCall, b.Step, nil
	case *callReserved:
		t.Holds = append(t.Holds, *b)
	case *partial:
		t.Partial = b
	case *replied:
		s.reply(b)
	case *callSettled:
		t.Holds = slices.DeleteFunc(t.Holds, func(h callReserved) bool { return h.Ledger == b.Ledger })
		t.Micros += b.Micros
		t.Usage = addUsage(t.Usage, b.Usage)
	case *toolIntent:
		if c := t.call(b.CallID); c != nil {
			c.Intent, c.Passed = b, true
		}
	case *approvalAsked:
		if c := t.call(b.CallID); c != nil {
			c.Asked = b
			if !b.Unknown {
				c.Intent = nil // refused before it began
			}
		}
	case *approvalAnswered:
		if c := t.call(b.CallID); c != nil {
			c.Asked, c.Refused, c.Choice, c.Note = nil, !b.Approved, b.Choice, b.Note
			if b.Choice == choiceAgain {
				c.Intent = nil
			}
		}
	case *toolOutcome:
		if c := t.call(b.CallID); c != nil && c.Outcome == nil {
			c.Outcome, c.Asked = b, nil
			t.Missing = t.Missing || b.Approval != nil && !t.Input.Attended
			s.Private, s.Untrusted = s.Private || b.Private, s.Untrusted || b.Untrusted
			s.settleCalls()
		}
	case *subagentStarted:
		if c := t.call(b.CallID); c != nil {
			c.Child = &b.Session
		}
	case *subagentEnded:
		if b.For == t.ID {
			t.Micros += b.Micros
			t.Usage = addUsage(t.Usage, b.Usage)
		}
	case *noticed:
		if b.Model {
			t.Notices = append(t.Notices, b.Text)
		}
		if b.Kind == noticeLoop {
			t.Warned = len(t.Acts)
		}
	case *turnFinished:
		s.finish(b)
	}
}

// start begins a turn with its input and the inputs joined with it.
func (s *State) start(e Event, b *turnStarted) {
	i := slices.IndexFunc(s.Queue, func(w waitingInput) bool { return w.Turn == e.Turn })
	if i < 0 {
		return
	}
	w := s.Queue[i]
	s.Queue = slices.Delete(s.Queue, i, i+1)
	if w.Of != nil {
		s.Exchanges = slices.DeleteFunc(s.Exchanges, func(x Exchange) bool { return x.Turn == *w.Of })
	}
	for _, id := range b.Joined {
		if j := slices.IndexFunc(s.Queue, func(o waitingInput) bool { return o.Turn == id }); j >= 0 {
			w.Text += "\n\n" + s.Queue[j].Text
			w.Files = append(slices.Clone(w.Files), s.Queue[j].Files...)
			s.mark(s.Queue[j].input)
			s.Queue = slices.Delete(s.Queue, j, j+1)
		}
	}
	if b.Tools != nil {
		s.Tools = b.Tools
	}
	s.Private = s.Private || b.Private
	s.mark(w.input)
	s.Exchanges = append(s.Exchanges, Exchange{Turn: e.Turn, Seq: w.Seq, At: w.At, Text: w.Text, Fenced: w.Origin.label(), Files: w.Files})
	s.Turn = &turnState{
		ID: e.Turn, Input: w.input, StartedAt: e.At, Block: b.Block, Ref: b.Ref, Window: b.Window, Output: b.Output, Limits: b.Limits, Phase: phasePlan,
	}
}

// mark adds the marks of an input to those of the session.
func (s *State) mark(in input) {
	s.Private = s.Private || in.Private
	s.Untrusted = s.Untrusted || in.Untrusted || in.Origin.Kind == OriginChannel
}

// add appends a message to the exchange of the turn. Decoded parts may have a large unused capacity,
// which is not kept.
func (s *State) add(m providers.Message) {
	m.Parts = slices.Clone(m.Parts)
	if n := len(s.Exchanges); n > 0 {
		s.Exchanges[n-1].Messages = append(s.Exchanges[n-1].Messages, m)
	}
}

// reply records the answer of the model: either its calls are open, or the turn ends.
func (s *State) reply(b *replied) {
	t := s.Turn
	t.Provider, t.Reply, t.Partial, t.Notices, t.Calls = b.Provider, b.Model, nil, nil, nil
	if n := b.Usage.Prompt() + b.Usage.Output; !b.Usage.Estimated && n > 0 {
		s.Prompt = n
	}
	s.add(providers.Message{Role: providers.Assistant, Parts: b.Parts})
	said := false
	for _, p := range b.Parts {
		switch p.Kind {
		case providers.PartText:
			said = said || strings.TrimSpace(p.Text) != ""
		case providers.PartToolCall:
			t.Calls = append(t.Calls, callState{ID: p.ID, Name: p.Name, Args: p.Args, BadArgs: slices.Contains(b.BadArgs, p.ID)})
		}
	}
	switch {
	case b.Failure != nil:
		t.Phase, t.End = phaseEnd, &turnFinished{State: Failed, Reason: StopError, Error: b.Failure}
		if len(t.Calls) > 0 {
			s.skipCalls("the answer broke off")
		}
	case len(t.Calls) > 0:
		t.Phase = phaseTools
	case b.Reason == providers.FinishPause:
		t.Phase = phasePlan
	case b.Reason == providers.FinishRefusal, b.Reason == providers.FinishContentFilter:
		t.Phase, t.End = phaseEnd, &turnFinished{State: Completed, Reason: StopRefusal}
	case b.Reason == providers.FinishLength:
		t.Phase, t.End = phaseEnd, &turnFinished{State: Completed, Reason: StopLength}
	case !said:
		t.Unusable++
		t.Phase = phasePlan
		t.Notices = []string{"Your last reply was empty. Answer in words, or call a tool."}
	default:
		t.Phase, t.End = phaseEnd, &turnFinished{State: Completed, Reason: StopAnswer}
		if t.Missing {
			t.End.Reason = StopDenied
		}
	}
}

// settleCalls passes the results to the model once every call of the reply has one.
func (s *State) settleCalls() {
	t := s.Turn
	m := providers.Message{Role: providers.Tool}
	usable := false
	for i := range t.Calls {
		c := &t.Calls[i]
		if c.Outcome == nil {
			return
		}
		usable = usable || !c.Outcome.Unusable
		m.Parts = append(m.Parts, providers.Part{Kind: providers.PartToolResult, ID: c.ID, Name: c.Name, Text: c.Outcome.Text, Error: c.Outcome.Status != statusDone})
	}
	for _, c := range t.Calls {
		sum := sha256.Sum256([]byte(c.Outcome.Status + "\x00" + c.Outcome.Text))
		t.Acts = append(t.Acts, act{Call: c.Name + " " + c.Args, Tool: c.Name, Result: hex.EncodeToString(sum[:8]), Failed: c.Outcome.Status != statusDone})
	}
	if usable {
		t.Unusable = 0
	} else {
		t.Unusable++
	}
	s.add(m)
	t.Phase = phasePlan
	if i := slices.IndexFunc(t.Calls, func(c callState) bool { return c.Choice == choiceStop }); i >= 0 {
		t.Phase, t.End = phaseEnd, &turnFinished{State: Canceled, Reason: StopCanceled}
	}
	t.Calls = nil
}

// skipCalls gives each open call a result that says why it was not made, so that no request ever
// contains a call without a result.
func (s *State) skipCalls(why string) {
	t := s.Turn
	if len(t.Calls) == 0 {
		return
	}
	m := providers.Message{Role: providers.Tool}
	for _, c := range t.Calls {
		p := providers.Part{Kind: providers.PartToolResult, ID: c.ID, Name: c.Name, Text: "Not run: " + why + ".", Error: true}
		switch {
		case c.Outcome != nil:
			p.Text, p.Error = c.Outcome.Text, c.Outcome.Status != statusDone
		case c.Intent != nil:
			p.Text = "It is not known whether this happened: " + why + "."
		}
		m.Parts = append(m.Parts, p)
	}
	s.add(m)
	t.Calls = nil
}

func (s *State) finish(b *turnFinished) {
	why := "the turn ended"
	if b.State == Canceled {
		why = "canceled by the user"
	}
	t := s.Turn
	if t.Phase == phaseCall && t.Partial != nil && t.Partial.Text != "" {
		s.add(providers.Message{Role: providers.Assistant, Parts: []providers.Part{providers.TextPart(t.Partial.Text)}})
	}
	s.skipCalls(why)
	if n := len(s.Exchanges); n > 0 { // roles must alternate: two inputs must not follow each other
		if x := &s.Exchanges[n-1]; len(x.Messages) == 0 || x.Messages[len(x.Messages)-1].Role != providers.Assistant {
			x.Messages = append(x.Messages, providers.Message{Role: providers.Assistant, Parts: []providers.Part{providers.TextPart("(" + strings.ToUpper(why[:1]) + why[1:] + ".)")}})
		}
	}
	s.Turn = nil
}

// todo returns the session's next effect, which depends on the state alone.
func (s *State) todo() effect {
	t := s.Turn
	switch {
	case t == nil && len(s.Queue) > 0:
		return effect{kind: effectStart}
	case t == nil:
		return effect{}
	case t.End != nil:
		return effect{kind: effectFinish, end: *t.End}
	case t.Phase == phaseTools:
		return effect{kind: effectTools}
	case t.Phase == phaseCall:
		return effect{kind: effectCall}
	}
	switch limit := t.Limits; {
	case t.Unusable >= maxUnusable:
		return effect{kind: effectFinish, end: turnFinished{State: Failed, Reason: StopError, Error: &TurnError{Kind: "invalid", Message: "The model gave three replies in a row that can't be used."}}}
	case t.loop() >= loopStops:
		return effect{kind: effectFinish, end: turnFinished{State: Failed, Reason: StopLoop, Error: &TurnError{Kind: "limit", Message: "The model repeats itself without getting anywhere."}}}
	case limit.MaxTurns > 0 && t.Steps >= limit.MaxTurns:
		return effect{kind: effectFinish, end: turnFinished{State: Failed, Reason: StopMaxTurns, Error: &TurnError{Kind: "limit", Message: "The turn has used all its steps."}}}
	case limit.MaxTokens > 0 && t.Usage.Prompt()+t.Usage.Output >= limit.MaxTokens, limit.MaxCostMicros > 0 && t.Micros >= limit.MaxCostMicros:
		return effect{kind: effectFinish, end: turnFinished{State: Failed, Reason: StopBudget, Error: &TurnError{Kind: "limit", Message: "The budget of the turn is spent."}}}
	}
	return effect{kind: effectCall}
}

// loop counts how often the last calls of the turn repeat: the same calls with the same results in a
// cycle of up to three, or consecutive failures of one tool. Calls whose results change may repeat
// twice as often.
func (t *turnState) loop() int {
	most := 0
	for size := 1; size <= 3; size++ {
		most = max(most, repeats(t.Acts, size, func(a, b act) bool { return a.Call == b.Call && a.Result == b.Result }))
	}
	most = max(most, repeats(t.Acts, 1, func(a, b act) bool { return a.Call == b.Call })/2)
	return max(most, repeats(t.Acts, 1, func(a, b act) bool { return a.Tool == b.Tool && a.Failed && b.Failed }))
}

// repeats counts how often the last size acts repeat consecutively at the end of the list.
func repeats(acts []act, size int, same func(a, b act) bool) int {
	n := len(acts)
	if n < size {
		return 0
	}
	count := 1
	for at := n - 2*size; at >= 0; at -= size {
		for i := range size {
			if !same(acts[at+i], acts[n-size+i]) {
				return count
			}
		}
		count++
	}
	return count
}

func (t *turnState) call(id string) *callState {
	for i := range t.Calls {
		if t.Calls[i].ID == id {
			return &t.Calls[i]
		}
	}
	return nil
}

// waitsFor lists the questions that the turn waits for.
func (t *turnState) waitsFor() []uuid.UUID {
	out := []uuid.UUID{}
	for _, c := range t.Calls {
		if c.Asked != nil && c.Outcome == nil {
			out = append(out, c.Asked.Approval)
		}
	}
	return out
}

func addUsage(a, b providers.Usage) providers.Usage {
	a.Input += b.Input
	a.CacheRead += b.CacheRead
	a.CacheWrite += b.CacheWrite
	a.CacheWrite1h += b.CacheWrite1h
	a.Output += b.Output
	a.Reasoning += b.Reasoning
	a.ToolPrompt += b.ToolPrompt
	a.Requests += b.Requests
	a.ReportedMicros += b.ReportedMicros
	a.Estimated = a.Estimated || b.Estimated
	return a
}

// The kinds of origins.
const (
	OriginUser     = "user"
	OriginChannel  = "channel"
	OriginSchedule = "schedule"
	OriginSubagent = "subagent"
	OriginSkill    = "skill"
	OriginImport   = "import"
)

// label returns the name of an author other than the person. The brief of a subagent has no label,
// because it is the task itself; the report of one is data.
func (o Origin) label() string {
	if o.Kind == OriginUser || o.Kind == OriginSchedule || o.Kind == "" || o.Kind == OriginSubagent && o.Label == "" {
		return ""
	}
	return strings.TrimSpace(o.Kind + " " + o.Label)
}
