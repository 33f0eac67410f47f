package machine

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"helix/backend/duration"
	"helix/backend/fault"
	"helix/backend/jcs"
	"helix/backend/skills/definition"
	"helix/backend/skills/expr"
)

// MaxOutput is the maximum size of a step's output, in bytes of JSON.
const MaxOutput = 1 << 20

// Todo lists what a run needs. Records take precedence: the caller applies and stores the first one, then
// calls Next again. Calls, Paused and Waits remain in the list until an event answers them.
type Todo struct {
	Records []Event // without Seq and At
	Later   []Later
	Calls   []*Call
	Waits   []Wait
	Paused  []*Call // calls carried out by another run that is waiting
}

// Later is an event that must not be applied before its time.
type Later struct {
	Event     Event
	NotBefore time.Time
}

// Call is a call with an intent in the journal and without an outcome.
type Call struct {
	Step      *definition.Step
	Path      string
	Iteration string
	Attempt   int
	Input     json.RawMessage
	Key       string // idempotency key
	Tool      Tool
	At        time.Time // of the intent
}

// Wait is a request that a person must answer. Until is zero if there is no limit.
type Wait struct {
	Path      string
	Iteration string
	Request   RequestData
	Until     time.Time
	Input     json.RawMessage // of the call that the request is about
}

// Next returns what has to be done. It depends only on the state.
func (s *State) Next() Todo {
	var t Todo
	switch {
	case s.finished != nil:
		return t
	case !s.started:
		t.record(RunStarted, "", "", 0, nil)
		return t
	}
	s.next(s.root, &t)
	if s.root.ended() && len(t.Records) == 0 {
		t.record(RunFinished, "", "", 0, s.finish())
	}
	switch busy := len(t.Records)+len(t.Calls)+len(t.Later) > 0; {
	case busy && s.asked:
		t.Records = append([]Event{{Type: RunResumed, Data: json.RawMessage("{}")}}, t.Records...)
	case !busy && !s.asked && len(t.Waits) > 0:
		t.record(RunWaiting, "", "", 0, WaitingData{t.Waits[0].Request.Reason})
	case !busy && !s.asked && len(t.Paused) > 0:
		t.record(RunWaiting, "", "", 0, WaitingData{s.frameOf(t.Paused[0].Path, t.Paused[0].Iteration).cur.paused})
	}
	return t
}

func (t *Todo) record(typ Type, path, iteration string, attempt int, data any) {
	t.Records = append(t.Records, event(typ, path, iteration, attempt, data))
}

func event(typ Type, path, iteration string, attempt int, data any) Event {
	e := Event{Type: typ, StepPath: path, Iteration: iteration, Attempt: attempt, Data: json.RawMessage("{}")}
	if data != nil {
		b, err := jcs.Marshal(data)
		if err != nil {
			panic(err) // our own types, and JSON that was decoded before
		}
		e.Data = b
	}
	return e
}

// next adds what a frame needs to t.
func (s *State) next(f *frame, t *Todo) {
	w := f.cur
	if w == nil {
		return
	}
	res := w.res
	switch w.phase {
	case phaseNew:
		if w.plan == nil {
			w.plan = &Todo{}
			s.begin(f, w.plan)
		}
		t.Records = append(t.Records, w.plan.Records...)
	case phaseCalling:
		to := &t.Calls
		if w.paused != "" {
			to = &t.Paused
		}
		*to = append(*to, s.call(w))
	case phaseRetry:
		t.record(StepRetry, res.Path, res.Iteration, res.Attempts, RetryData{w.delay.Milliseconds(), res.Error})
	case phaseBackoff:
		t.Later = append(t.Later, Later{s.intent(res, w.input, res.Attempts+1), w.due})
	case phaseAsking:
		wait := Wait{Path: res.Path, Iteration: res.Iteration, Request: *w.request, Input: w.input}
		if ms := w.request.WaitMs; ms > 0 {
			wait.Until = w.due.Add(duration.Of(ms, time.Millisecond))
		}
		t.Waits = append(t.Waits, wait)
	case phaseArm:
		s.nextArm(f, t)
	case phaseItems:
		s.nextItems(f, t)
	}
}

func (s *State) call(w *work) *Call {
	res := w.res
	return &Call{
		Step: res.Step, Path: res.Path, Iteration: res.Iteration, Attempt: res.Attempts,
		Input: w.input, Key: w.key, Tool: s.start.Tools[res.Step.StepID], At: w.due,
	}
}

// Pending returns the calls with an intent and without an outcome, except those carried out by
// another run that is waiting. Unlike Next it evaluates no expressions.
func (s *State) Pending() (calls []*Call) {
	if !s.started || s.finished != nil {
		return nil
	}
	s.eachFrame(s.root, func(f *frame) {
		if f.cur != nil && f.cur.phase == phaseCalling && f.cur.paused == "" {
			calls = append(calls, s.call(f.cur))
		}
	})
	return calls
}

func (s *State) nextArm(f *frame, t *Todo) {
	w := f.cur
	if def, arm := w.nextSkip(); def != nil {
		t.record(StepSkipped, arm.prefix+def.StepID, f.iteration, 0, SkippedData{Reason: ReasonBranch})
		return
	}
	if !w.arm.ended() {
		s.next(w.arm, t)
		return
	}
	s.outcome(w, t, w.arm.last, w.arm.failed, w.arm.unmocked, nil)
}

func (s *State) nextItems(f *frame, t *Todo) {
	w := f.cur
	m := w.each
	for _, it := range m.active {
		if !it.frame.ended() {
			s.next(it.frame, t)
			continue
		}
		if it.frame.unmocked {
			s.outcome(w, t, nil, nil, true, nil)
			return
		}
		d := ItemData{Index: it.index, Output: it.frame.last, Error: it.frame.failed}
		if d.Error == nil {
			d.Output = orNull(d.Output)
		} else {
			d.Output = nil
		}
		t.record(MapItem, w.res.Path, w.res.Iteration, 0, d)
		return // its event makes room for the next item
	}
	if len(m.active) > 0 {
		return
	}
	if m.stop != nil {
		s.outcome(w, t, nil, m.stop, false, nil)
		return
	}
	var failed []int
	out := make([]json.RawMessage, 0, len(m.out))
	for i, o := range m.out {
		switch {
		case m.errs[i] == nil:
			out = append(out, o)
			continue
		case w.res.Step.ItemError() == definition.Continue:
			out = append(out, json.RawMessage("null"))
		}
		failed = append(failed, i)
	}
	b, err := jcs.Marshal(out)
	if err != nil {
		s.outcome(w, t, nil, failureOf(err), false, nil)
		return
	}
	s.outcome(w, t, b, nil, false, failed)
}

// outcome records the end of a step that the machine carries out itself.
func (s *State) outcome(w *work, t *Todo, output json.RawMessage, failure *Failure, unmocked bool, failedItems []int) {
	d := OutcomeData{Error: failure, Unmocked: unmocked, FailedItems: failedItems}
	if failure == nil && !unmocked {
		d.Output = orNull(output)
		if len(d.Output) > MaxOutput {
			d.Output, d.Error = nil, TooLarge(len(d.Output))
		}
	}
	t.record(StepOutcome, w.res.Path, w.res.Iteration, max(w.res.Attempts, 1), d)
}

// TooLarge returns the failure of a step whose output has n bytes.
func TooLarge(n int) *Failure {
	mib := strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/(1<<20)), ".0")
	return &Failure{Kind: "limit", Message: fmt.Sprintf("output is %s MiB, limit 1 MiB", mib)}
}

// begin determines what a step that has just become current needs.
func (s *State) begin(f *frame, t *Todo) {
	w := f.cur
	def, res := w.res.Step, w.res
	if r, ok := s.start.Reused[res.Path]; ok && f.iteration == "" {
		t.record(StepReused, res.Path, "", 0, r)
		return
	}
	if def.Condition != "" {
		ok, err := holds(s.start.Program.of(def).condition, f.doc)
		if err != nil {
			s.outcome(w, t, nil, prefixed("condition", err), false, nil)
			return
		}
		if !ok {
			t.record(StepSkipped, res.Path, res.Iteration, 0, SkippedData{Reason: ReasonCondition})
			return
		}
	}
	switch def.ToolType {
	case definition.Transform:
		v, err := fill(s.start.Program.of(def).value, f.doc)
		if err != nil {
			s.outcome(w, t, nil, prefixed("value", err), false, nil)
			return
		}
		s.outcome(w, t, v, nil, false, nil)
	case definition.Approval:
		s.ask(f, t)
	case definition.Branch:
		s.choose(f, t)
	case definition.Map:
		items, err := s.items(f)
		if err != nil {
			s.outcome(w, t, nil, prefixed("items", err), false, nil)
			return
		}
		n := len(items)
		t.record(StepIntent, res.Path, res.Iteration, 1, IntentData{Count: &n})
	default:
		input, err := s.input(f)
		if err != nil {
			s.outcome(w, t, nil, failureOf(err), false, nil)
			return
		}
		t.Records = append(t.Records, s.intent(res, input, 1))
	}
}

func prefixed(what string, err error) *Failure {
	f := failureOf(err)
	f.Message = what + ": " + f.Message
	return f
}

func (s *State) choose(f *frame, t *Todo) {
	w := f.cur
	chosen := -1
	for i, when := range s.start.Program.of(w.res.Step).cases {
		ok, err := holds(when, f.doc)
		if err != nil {
			s.outcome(w, t, nil, prefixed(fmt.Sprintf("cases[%d].when", i), err), false, nil)
			return
		}
		if ok {
			chosen = i
			break
		}
	}
	t.record(StepIntent, w.res.Path, w.res.Iteration, 1, IntentData{Case: &chosen})
}

func (s *State) ask(f *frame, t *Todo) {
	def, w := f.cur.res.Step, f.cur
	d := RequestData{Reason: WaitApproval, Form: def.Form, WaitMs: def.Wait().Milliseconds()}
	parts := s.start.Program.of(def)
	for _, part := range []struct {
		name     string
		template any
		t        parsed[*expr.Template]
		to       *string
	}{{"title", def.Title, parts.title, &d.Title}, {"message", def.Message, parts.message, &d.Message}} {
		if part.template == nil {
			continue
		}
		v, err := fill(part.t, f.doc)
		if err != nil {
			s.outcome(w, t, nil, prefixed(part.name, err), false, nil)
			return
		}
		*part.to = plain(v)
	}
	if len(def.Show) > 0 {
		show := map[string]any{}
		for _, p := range def.Show {
			if v, err := eval(map[string]any{"$path": p, "optional": true}, f.doc); err == nil {
				show[p] = v
			}
		}
		var err error
		if d.Show, err = expr.Encode(show, MaxOutput); err != nil {
			s.outcome(w, t, nil, prefixed("show", err), false, nil)
			return
		}
	}
	t.record(ApprovalRequested, w.res.Path, w.res.Iteration, 0, d)
}

// plain returns a string unquoted, and any other value as JSON.
func plain(v json.RawMessage) string {
	var s string
	if json.Unmarshal(v, &s) == nil {
		return s
	}
	return string(v)
}

// intent returns the event before an attempt. Only the first one contains the input.
func (s *State) intent(res *StepResult, input json.RawMessage, attempt int) Event {
	tool := s.start.Tools[res.Step.StepID]
	d := IntentData{ToolHash: tool.Hash, Key: s.key(res), Tier: tool.Tier, Hash: digest(input)}
	if attempt == 1 {
		d.Input = input
	}
	return event(StepIntent, res.Path, res.Iteration, attempt, d)
}

// key returns the idempotency key of a step. It is the same for all attempts and after a restart.
func (s *State) key(res *StepResult) string {
	return digest([]byte(s.start.ID + "\x00" + res.Path + "\x00" + res.Iteration))
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// input builds the input of a call: the parameters, overridden by inputMapping. Then it is
// validated against the schema of the callable.
func (s *State) input(f *frame) (json.RawMessage, error) {
	def := f.cur.res.Step
	in := make(map[string]any, len(def.Parameters)+len(def.InputMapping))
	maps.Copy(in, def.Parameters)
	meter := expr.NewMeter(MaxOutput) // shared by all parameters
	if err := meter.Take(in); err != nil {
		return nil, inputTooLarge()
	}
	for _, p := range s.start.Program.of(def).params {
		if p.t.err != nil {
			return nil, p.t.err
		}
		v, err := p.t.v.EvalWithin(f.doc, meter)
		if err != nil {
			return nil, named(p.name, err)
		}
		maps.Copy(in, v.(map[string]any)) // nothing if the part is optional and absent
	}
	if s.start.Check != nil {
		if err := s.start.Check(def.StepID, in); err != nil {
			return nil, err
		}
	}
	b, err := expr.Encode(in, MaxOutput)
	if fault.Is(err, fault.Limit) {
		return nil, inputTooLarge()
	}
	return b, err
}

func inputTooLarge() error { return fault.Limitf("the input is larger than the limit of 1 MiB") }

// named adds the name of the parameter to an error.
func named(param string, err error) error {
	f := *fault.As(err)
	rest := f.Message
	for _, lead := range []string{param, "[" + expr.Quote(param) + "]"} {
		if after, ok := strings.CutPrefix(rest, lead); ok {
			rest = after
			break
		}
	}
	rest = strings.TrimPrefix(strings.TrimPrefix(rest, ": "), ".")
	f.Message = fmt.Sprintf("parameter %q: %s", param, rest)
	return &f
}

func (s *State) items(f *frame) ([]any, error) {
	parsed := s.start.Program.of(f.cur.res.Step).items
	if parsed.err != nil {
		return nil, parsed.err
	}
	p := parsed.v
	found, err := p.Select(f.doc)
	if err != nil {
		return nil, err
	}
	if p.Singular() {
		if len(found) == 0 {
			return nil, fault.Invalidf("%s matches nothing", p)
		}
		list, ok := found[0].([]any)
		if !ok {
			return nil, fault.Invalidf("%s is not an array", p)
		}
		found = list
	}
	if len(found) > definition.MaxItems {
		return nil, fault.Limitf("%d items, limit %d", len(found), definition.MaxItems)
	}
	return found, nil
}
