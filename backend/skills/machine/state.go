package machine

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"helix/backend/duration"
	"helix/backend/fault"
	"helix/backend/skills/definition"
	"helix/backend/skills/expr"
)

// Tool is the callable of a step, as resolved when the run began.
type Tool struct {
	Hash       string `json:"hash"`
	Tier       string `json:"tier"` // readOnly, sideEffecting, privileged
	Idempotent bool   `json:"idempotent,omitempty"`
	// Resumes means that the call can be found again after a crash and continues, such as a nested run.
	Resumes bool `json:"resumes,omitempty"`
}

// Repeatable reports whether the call can be repeated when its outcome is unknown.
func (t Tool) Repeatable() bool { return t.Tier == "readOnly" || t.Idempotent }

// Start is the input of a new run.
type Start struct {
	ID      string // of the run
	Trigger string
	At      time.Time
	Body    *definition.Body
	Input   json.RawMessage
	Tools   map[string]Tool       // by step id
	Reused  map[string]ReusedData // by id of a top-level step
	// Check validates the input of a step's call. It must be pure. nil: every input is valid.
	Check func(stepID string, input any) error
	// MaxDocument limits the total size of all outputs, in bytes; 0: no limit.
	MaxDocument int
	Program     *Program // of Body, may be shared with other runs; nil: parsed by New
}

// State is the state of a run after its events. It is not safe for concurrent use.
type State struct {
	start    Start
	seq      int64
	status   Status
	reason   string // of waiting
	root     *frame
	results  []*StepResult
	byKey    map[string]*StepResult // by path and iteration
	finished *FinishedData
	failure  *Failure // the failure that ends the run
	started  bool
	asked    bool // the last event about waiting was run.waiting
	size     int  // total size of the outputs, in bytes
}

// StepResult is the state of one step in one iteration.
type StepResult struct {
	Step      *definition.Step
	Path      string
	Iteration string
	Status    Status
	Reason    string // why it was skipped
	Output    json.RawMessage
	Error     *Failure
	Unknown   bool
	Attempts  int
	Retries   int
	TookMs    int64
	Source    string
	InputHash string
	StartedAt time.Time
	EndedAt   time.Time
}

// frame is a list of steps in execution: the steps of the run, of an arm of a branch, or of one
// item of a map.
type frame struct {
	steps     []definition.Step
	at        int // index of the current step
	prefix    string
	iteration string
	doc       map[string]any
	last      json.RawMessage // output of the last completed step
	cur       *work
	failed    *Failure // the failure that ends the frame
	unmocked  bool
}

// work is the current step of a frame.
type work struct {
	res      *StepResult
	phase    phase
	input    json.RawMessage
	key      string
	backoff  time.Duration // total so far
	delay    time.Duration // before the next attempt
	due      time.Time     // of the next attempt
	request  *RequestData
	again    int      // attempts that a person asked for
	paused   string   // why the run that carries out the step waits
	plan     *Todo    // what the step needs first; cached, because its document does not change until then
	reported int      // branch: number of reported steps of arms not taken
	skips    []*frame // branch: arms not taken
	arm      *frame
	each     *mapping
}

type phase int

const (
	phaseNew     phase = iota
	phaseCalling       // intent without outcome
	phaseRetry         // failed, not yet reported
	phaseBackoff       // reported, waits for the delay
	phaseAsking        // waits for an answer
	phaseArm           // executes an arm
	phaseItems         // executes the items of a map
	phaseEnded
)

// mapping is the state of a map.
type mapping struct {
	items  []any
	next   int // the first item not yet started
	active []*item
	out    []json.RawMessage
	errs   []*Failure
	done   int
	stop   *Failure
}

type item struct {
	index int
	frame *frame
	ended *ItemData // not yet reported
}

// New starts a run. The input must be JSON; nil stands for {}.
func New(s Start) (*State, error) {
	if s.Program == nil {
		s.Program = &Program{}
	}
	if s.Input == nil {
		s.Input = json.RawMessage("{}")
	}
	input, err := expr.Decode(s.Input)
	if err != nil {
		return nil, err
	}
	st := &State{start: s, status: Queued, byKey: map[string]*StepResult{}}
	st.root = &frame{steps: s.Body.Steps, doc: map[string]any{
		"input": input,
		"run":   map[string]any{"id": s.ID, "startedAt": s.At.UTC().Format(time.RFC3339Nano), "trigger": s.Trigger},
		"steps": map[string]any{},
	}}
	return st, nil
}

// Seq returns the number of the last event.
func (s *State) Seq() int64 { return s.seq }

// Status returns the status of the run, and why it waits.
func (s *State) Status() (Status, string) { return s.status, s.reason }

// Finished returns how the run ended, or nil if it has not.
func (s *State) Finished() *FinishedData { return s.finished }

// Results returns the steps that were started or skipped, in that order.
func (s *State) Results() []*StepResult { return s.results }

// Document returns the run document of the top level, for mapping helpers. It must not be modified.
func (s *State) Document() map[string]any { return s.root.doc }

func key(path, iteration string) string { return path + "\x00" + iteration }

// frameOf returns the frame whose current step has the path and iteration.
func (s *State) frameOf(path, iteration string) *frame {
	var found *frame
	s.eachFrame(s.root, func(f *frame) {
		if f.cur != nil && f.cur.res.Path == path && f.cur.res.Iteration == iteration {
			found = f
		}
	})
	return found
}

// eachFrame visits the active frames, inner ones last.
func (s *State) eachFrame(f *frame, visit func(*frame)) {
	visit(f)
	if f.cur == nil {
		return
	}
	if f.cur.arm != nil {
		s.eachFrame(f.cur.arm, visit)
	}
	if f.cur.each != nil {
		for _, it := range f.cur.each.active {
			if it.ended == nil {
				s.eachFrame(it.frame, visit)
			}
		}
	}
}

func errEvent(e Event, why string) error {
	return fault.Internalf(fmt.Errorf("event %d %s %s[%s]: %s", e.Seq, e.Type, e.StepPath, e.Iteration, why), "The journal of the run cannot be read.")
}

// Apply applies one event. An event that is not possible in this state is an error; after that,
// only the end of the run can be applied.
func (s *State) Apply(e Event) error {
	if e.Seq != s.seq+1 {
		return errEvent(e, fmt.Sprintf("follows event %d", s.seq))
	}
	if s.finished != nil {
		return errEvent(e, "the run has ended")
	}
	if err := s.apply(e); err != nil {
		return err
	}
	s.seq = e.Seq
	return nil
}

func (s *State) apply(e Event) error {
	switch e.Type {
	case RunCreated:
		return nil
	case StepProgress:
		return s.applyProgress(e)
	case RunStarted:
		s.status, s.started = Running, true
		s.enter(s.root)
		return nil
	case RunWaiting:
		var d WaitingData
		if err := read(e, &d); err != nil {
			return err
		}
		s.status, s.reason, s.asked = Waiting, d.Reason, true
		return nil
	case RunResumed:
		s.status, s.reason, s.asked = Running, "", false
		return nil
	case RunFinished:
		var d FinishedData
		if err := read(e, &d); err != nil {
			return err
		}
		s.finished, s.status, s.reason = &d, d.Status, ""
		return nil
	}
	return s.applyStep(e)
}

func read(e Event, v any) error {
	if err := json.Unmarshal(e.Data, v); err != nil {
		return errEvent(e, err.Error())
	}
	return nil
}

func (s *State) applyProgress(e Event) error {
	var d ProgressData
	if err := read(e, &d); err != nil {
		return err
	}
	if f := s.frameOf(e.StepPath, e.Iteration); f != nil && f.cur.phase == phaseCalling {
		f.cur.paused = d.Waiting
	}
	return nil
}

func (s *State) applyStep(e Event) error {
	if e.Type == StepSkipped {
		if done, err := s.applyBranchSkip(e); done || err != nil {
			return err
		}
	}
	if e.Type == MapItem {
		return s.applyItem(e)
	}
	f := s.frameOf(e.StepPath, e.Iteration)
	if f == nil {
		return errEvent(e, "no such step is running")
	}
	w := f.cur
	if w.res.StartedAt.IsZero() {
		w.res.StartedAt = e.At
	}
	switch e.Type {
	case StepSkipped:
		var d SkippedData
		if err := read(e, &d); err != nil {
			return err
		}
		s.skip(f, e.At, d)
	case StepReused:
		var d ReusedData
		if err := read(e, &d); err != nil {
			return err
		}
		w.res.Source = d.From
		if d.Status == Skipped {
			s.skip(f, e.At, SkippedData{Reason: "reused"})
			return nil
		}
		return s.complete(f, e.At, d.Output)
	case StepIntent:
		return s.applyIntent(f, e)
	case StepOutcome:
		return s.applyOutcome(f, e)
	case StepRetry:
		var d RetryData
		if err := read(e, &d); err != nil {
			return err
		}
		if w.phase != phaseRetry {
			return errEvent(e, "nothing has failed")
		}
		w.phase = phaseBackoff
		w.backoff += duration.Of(d.DelayMs, time.Millisecond)
		w.due = e.At.Add(duration.Of(d.DelayMs, time.Millisecond))
		w.res.Retries++
	case ApprovalRequested:
		var d RequestData
		if err := read(e, &d); err != nil {
			return err
		}
		w.request, w.phase, w.due = &d, phaseAsking, e.At
	case ApprovalAnswered:
		return s.applyAnswer(f, e)
	default:
		return errEvent(e, "is not known")
	}
	return nil
}

// enter makes the step at f.at current, or ends the frame.
func (s *State) enter(f *frame) {
	f.cur = nil
	if f.at >= len(f.steps) || f.failed != nil || f.unmocked {
		return
	}
	def := &f.steps[f.at]
	res := &StepResult{Step: def, Path: f.prefix + def.StepID, Iteration: f.iteration, Status: Running}
	f.cur = &work{res: res}
}

// show adds a result to Results unless it is already there.
func (s *State) show(res *StepResult) {
	k := key(res.Path, res.Iteration)
	if s.byKey[k] == nil {
		s.byKey[k] = res
		s.results = append(s.results, res)
	}
}

// ended reports whether a frame has no more steps to execute.
func (f *frame) ended() bool { return f.cur == nil }

func (s *State) complete(f *frame, at time.Time, output json.RawMessage) error {
	v, err := expr.Decode(output)
	if err != nil {
		return err
	}
	w := f.cur
	w.res.Status, w.res.Output, w.res.EndedAt, w.res.Error = Completed, output, at, nil
	s.show(w.res)
	f.last = output
	s.size += len(output)
	s.note(f, w.res, v, true)
	f.at++
	s.enter(f)
	return nil
}

// note adds the end of a step to the document of its frame.
func (s *State) note(f *frame, res *StepResult, output any, completed bool) {
	id := res.Step.StepID
	entry := map[string]any{"status": string(res.Status), "attempts": json.Number(strconv.Itoa(res.Attempts)), "skipped": res.Status == Skipped}
	if completed {
		entry["output"] = output
		f.doc[id] = output
	}
	if res.Error != nil {
		entry["error"] = map[string]any{"kind": res.Error.Kind, "message": res.Error.Message}
	}
	f.doc["steps"].(map[string]any)[id] = entry
}

func (s *State) skip(f *frame, at time.Time, d SkippedData) {
	w := f.cur
	w.res.Status, w.res.Reason, w.res.Error, w.res.EndedAt = Skipped, d.Reason, d.Error, at
	s.show(w.res)
	s.note(f, w.res, nil, false)
	f.at++
	s.enter(f)
}

// fail ends the current step as failed. goOn means that the frame continues.
func (s *State) fail(f *frame, at time.Time, why *Failure, goOn bool) {
	w := f.cur
	w.res.Status, w.res.Error, w.res.EndedAt = Failed, why, at
	s.show(w.res)
	s.note(f, w.res, nil, false)
	f.at++
	if !goOn {
		f.failed = why
	}
	s.enter(f)
}

// settle ends a step whose last attempt failed, according to its policy.
func (s *State) settle(f *frame, at time.Time, why *Failure) {
	def := f.cur.res.Step
	policy := def.OnError()
	if policy == definition.Retry {
		policy = def.Exhausted()
	}
	switch policy {
	case definition.Skip:
		s.skip(f, at, SkippedData{Reason: ReasonError, Error: why})
	case definition.Continue:
		s.fail(f, at, why, true)
	default:
		s.fail(f, at, why, false)
	}
}

func join(iteration string, i int) string {
	if iteration == "" {
		return strconv.Itoa(i)
	}
	return iteration + "." + strconv.Itoa(i)
}

// inner returns the document of an item: the outer document, overlaid with the names of the map.
func inner(outer map[string]any, v any, index int) map[string]any {
	doc := make(map[string]any, len(outer)+8)
	for k, x := range outer {
		doc[k] = x
	}
	steps := outer["steps"].(map[string]any)
	own := make(map[string]any, len(steps)+4)
	for k, x := range steps {
		own[k] = x
	}
	doc["steps"], doc["item"], doc["index"] = own, v, json.Number(strconv.Itoa(index))
	return doc
}

func failureOf(err error) *Failure {
	f := fault.As(err)
	return &Failure{Kind: string(f.Kind), Message: strings.TrimSuffix(f.Message, ".")}
}
