package machine

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/skills/definition"
)

// anyCatalog is a catalog that contains every tool.
type anyCatalog struct{}

func (anyCatalog) Find(kind definition.Kind, id, name string) ([]definition.Callable, error) {
	return []definition.Callable{{Info: callable.Info{Ref: callable.Ref{Kind: kind.Callable(), ID: name}, Name: name}}}, nil
}

func body(t testing.TB, text string) *definition.Body {
	t.Helper()
	r, err := definition.Read(json.RawMessage(text), anyCatalog{})
	if err != nil || !r.Valid() {
		t.Fatal(r.Errors, err)
	}
	return &r.Skill.Body
}

// executor carries out what a run requires, with a clock of its own.
type executor struct {
	t       testing.TB
	start   Start
	state   *State
	journal []Event
	now     time.Time
	call    func(c *Call) OutcomeData
	answer  func(w Wait) (AnswerData, bool)
	calls   []string       // made, in order
	effects map[string]int // by idempotency key
	owner   map[string]*Call
	pick    func(n int) int
	busy    map[string]bool
	crash   func(events int) bool // reports whether to end the process now
}

var epoch = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func newWorld(t testing.TB, text, input string) *executor {
	t.Helper()
	w := &executor{t: t, now: epoch, effects: map[string]int{}, owner: map[string]*Call{}, pick: func(int) int { return 0 }, busy: map[string]bool{}}
	w.start = Start{ID: "run-1", Trigger: "user", At: epoch, Body: body(t, text), Input: json.RawMessage(input), Tools: map[string]Tool{}}
	w.start.Body.Walk(func(_ string, s *definition.Step) {
		w.start.Tools[s.StepID] = Tool{Hash: "h-" + s.ToolName, Tier: "sideEffecting"}
	})
	w.call = func(c *Call) OutcomeData { return OutcomeData{Output: c.Input} }
	w.answer = func(Wait) (AnswerData, bool) { return AnswerData{}, false }
	w.load()
	return w
}

// load restores the state from the journal, like a new process.
func (w *executor) load() {
	w.t.Helper()
	s, err := New(w.start)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range w.journal {
		if err := s.Apply(e); err != nil {
			w.t.Fatal(err)
		}
	}
	w.state, w.busy = s, map[string]bool{}
}

func (w *executor) add(e Event) {
	w.t.Helper()
	e.Seq, e.At = w.state.Seq()+1, w.now
	if err := w.state.Apply(e); err != nil {
		w.t.Fatal(err)
	}
	w.journal = append(w.journal, e)
}

// run continues the run until it ends, waits for a person, or the process ends. It returns whether
// the process ended.
func (w *executor) run() (crashed bool) {
	w.t.Helper()
	for range 100_000 {
		if w.crash != nil && w.crash(len(w.journal)) {
			return true
		}
		todo := w.state.Next()
		if again := w.state.Next(); !reflect.DeepEqual(todo, again) {
			w.t.Fatal("Next is not the same the second time")
		}
		switch {
		case len(todo.Records) > 0:
			w.add(todo.Records[0])
		case len(todo.Calls) > 0:
			c := todo.Calls[w.pick(len(todo.Calls))]
			w.calls = append(w.calls, fmt.Sprintf("%s[%s]#%d", c.Path, c.Iteration, c.Attempt))
			w.effects[c.Key]++
			w.owner[c.Key] = c
			if w.crash != nil && w.crash(-1) { // between the effect and its outcome
				return true
			}
			d := w.call(c)
			w.now = w.now.Add(time.Duration(d.TookMs) * time.Millisecond)
			w.add(Outcome(c, d))
		case len(todo.Later) > 0:
			l := todo.Later[0]
			for _, other := range todo.Later {
				if other.NotBefore.Before(l.NotBefore) {
					l = other
				}
			}
			if l.NotBefore.After(w.now) {
				w.now = l.NotBefore
			}
			w.add(l.Event)
		case len(todo.Waits) > 0:
			wait := todo.Waits[0]
			d, ok := w.answer(wait)
			if !ok {
				return false
			}
			if d.Decision == TimeOver {
				w.now = wait.Until
			}
			w.add(Answer(wait, d))
		default:
			return false
		}
	}
	w.t.Fatal("the run does not end")
	return false
}

func (w *executor) finished() FinishedData {
	w.t.Helper()
	d := w.state.Finished()
	if d == nil {
		w.t.Fatalf("the run has not ended: %+v", w.state.Next())
	}
	return *d
}

func (w *executor) result(path string) *StepResult {
	w.t.Helper()
	for _, r := range w.state.Results() {
		if r.Path == path {
			return r
		}
	}
	w.t.Fatalf("no result of %s", path)
	return nil
}

func failing(times int, kind string) func(*Call) OutcomeData {
	return func(c *Call) OutcomeData {
		if c.Attempt <= times {
			return OutcomeData{Error: &Failure{Kind: kind, Message: "no"}, Jitter: 1}
		}
		return OutcomeData{Output: json.RawMessage(`"ok"`)}
	}
}

func TestChain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `{"name":"n","steps":[
		{"stepId":"a","toolType":"custom","toolName":"x","parameters":{"lit":"$.x"},"inputMapping":{"q":"$.input.q"},"outputMapping":"$.q"},
		{"stepId":"b","toolType":"transform","value":{"from":"$.a","again":"$.steps.a.output","status":"$.steps.a.status"}},
		{"stepId":"c","toolType":"custom","toolName":"y","condition":"$.a == 'no'"},
		{"stepId":"d","toolType":"transform","value":0,"condition":"!$.c"}]}`, `{"q":"yes","a":"mine","steps":{"a":{"output":"mine"}}}`)
	w.run()
	if d := w.finished(); d.Status != Completed || string(d.Output) != "0" {
		t.Errorf("%+v %s", d, d.Output)
	}
	if r := w.result("b"); string(r.Output) != `{"again":"yes","from":"yes","status":"completed"}` {
		t.Errorf("b gives %s", r.Output)
	}
	if r := w.result("c"); r.Status != Skipped || r.Reason != ReasonCondition {
		t.Errorf("c is %s %s", r.Status, r.Reason)
	}
	if n := w.state.Summary(); n != (Summary{Completed: 3, Skipped: 1, Total: 4}) {
		t.Errorf("%+v", n)
	}
	if got := []string{"a[]#1"}; !reflect.DeepEqual(w.calls, got) {
		t.Errorf("calls %v", w.calls)
	}
}

func TestFinalOutputs(t *testing.T) {
	t.Parallel()
	for _, v := range []string{`0`, `false`, `""`, `null`, `[]`} {
		w := newWorld(t, `{"name":"n","steps":[{"stepId":"a","toolType":"transform","value":{"$literal":`+v+`}},{"stepId":"b","toolType":"transform","value":1,"condition":"$.input.none"}]}`, `{}`)
		w.run()
		if d := w.finished(); string(d.Output) != v {
			t.Errorf("%s became %s", v, d.Output)
		}
	}
	w := newWorld(t, `{"name":"n","outputMapping":{"x":"$.a","i":"$.input.k"},"steps":[{"stepId":"a","toolType":"transform","value":1}]}`, `{"k":2}`)
	w.run()
	if d := w.finished(); string(d.Output) != `{"i":2,"x":1}` {
		t.Errorf("%s", d.Output)
	}
}

func TestPolicies(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		step     string
		fails    int
		kind     string
		status   Status
		step1    Status
		attempts int
		retries  int
		calls    int
	}{
		"stop":               {`"errorHandling":"stop"`, 1, "internal", Failed, Failed, 1, 0, 1},
		"skip":               {`"errorHandling":"skip"`, 1, "internal", Completed, Skipped, 1, 0, 1},
		"continue":           {`"errorHandling":"continue"`, 1, "internal", Completed, Failed, 1, 0, 1},
		"retry works":        {`"errorHandling":"retry","maxRetries":3`, 2, "timeout", Completed, Completed, 3, 2, 3},
		"retry used up":      {`"errorHandling":"retry","maxRetries":3`, 9, "timeout", Failed, Failed, 4, 3, 4},
		"retry default":      {`"errorHandling":"retry"`, 9, "timeout", Failed, Failed, 2, 1, 2},
		"retry zero":         {`"errorHandling":"retry","maxRetries":0`, 9, "timeout", Failed, Failed, 1, 0, 1},
		"retry then skip":    {`"errorHandling":"retry","onExhausted":"skip"`, 9, "timeout", Completed, Skipped, 2, 1, 2},
		"never invalid":      {`"errorHandling":"retry","maxRetries":3`, 9, "invalid", Failed, Failed, 1, 0, 1},
		"never denied":       {`"errorHandling":"retry","maxRetries":3`, 9, "denied", Failed, Failed, 1, 0, 1},
		"only some":          {`"errorHandling":"retry","maxRetries":3,"retryOn":["conflict"]`, 9, "timeout", Failed, Failed, 1, 0, 1},
		"ten stay in budget": {`"errorHandling":"retry","maxRetries":10`, 99, "timeout", Failed, Failed, 8, 7, 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, `{"name":"n","steps":[{"stepId":"a","toolType":"custom","toolName":"x",`+c.step+`},{"stepId":"b","toolType":"transform","value":1}]}`, `{}`)
			w.call = failing(c.fails, c.kind)
			w.run()
			r := w.result("a")
			if d := w.finished(); d.Status != c.status || r.Status != c.step1 || r.Attempts != c.attempts || r.Retries != c.retries || len(w.calls) != c.calls {
				t.Errorf("run %s, step %s, %d attempts, %d retries, %d calls", d.Status, r.Status, r.Attempts, r.Retries, len(w.calls))
			}
			if took := w.now.Sub(epoch); took > 2*time.Minute {
				t.Errorf("waited %v", took)
			}
			for key, n := range w.effects {
				if len(w.effects) != 1 || n != c.calls {
					t.Errorf("key %s has %d effects of %d keys", key, n, len(w.effects))
				}
			}
		})
	}
}

func TestUnknownOutcomeIsNotRetried(t *testing.T) {
	t.Parallel()
	for extra, want := range map[string]int{``: 1, `,"retryUnsafe":true`: 3} {
		w := newWorld(t, `{"name":"n","steps":[{"stepId":"a","toolType":"custom","toolName":"x","errorHandling":"retry","maxRetries":2`+extra+`}]}`, `{}`)
		w.call = func(*Call) OutcomeData {
			return OutcomeData{Error: &Failure{Kind: "timeout", Message: "slow"}, Unknown: true, Jitter: 1}
		}
		w.run()
		if len(w.calls) != want || !w.result("a").Unknown {
			t.Errorf("%q: %d calls", extra, len(w.calls))
		}
	}
}

func TestErrorsOfMappings(t *testing.T) {
	t.Parallel()
	for step, want := range map[string]string{
		`"inputMapping":{"query":"$.input.q"}`:                            `step "a": parameter "query": $.input.q matches nothing`,
		`"inputMapping":{"que ry":{"x":"$.input.q"}}`:                     `step "a": parameter "que ry": x: $.input.q matches nothing`,
		`"condition":"$..[?count($..*) > 1 && $..*]"`:                     "",
		`"outputMapping":"$.none"`:                                        `step "a": outputMapping: $.none matches nothing`,
		`"inputMapping":{"q":"$.input.n"},"description":"checked"`:        `step "a": input/q: expected a text`,
		`"outputMapping":"$.none","errorHandling":"retry","maxRetries":5`: `step "a": outputMapping: $.none matches nothing`,
	} {
		w := newWorld(t, `{"name":"n","steps":[{"stepId":"a","toolType":"custom","toolName":"x",`+step+`}]}`, `{"n":1}`)
		w.start.Check = func(_ string, in any) error {
			if _, ok := in.(map[string]any)["q"].(json.Number); ok {
				return fault.Invalidf("input/q: expected a text")
			}
			return nil
		}
		w.load()
		w.run()
		d := w.finished()
		if want == "" {
			continue
		}
		if d.Status != Failed || d.Error == nil || d.Error.Message != want || len(w.calls) > 1 {
			t.Errorf("%s: %+v, %d calls", step, d.Error, len(w.calls))
		}
		if strings.Contains(step, "outputMapping") && string(w.result("a").Output) != "{}" {
			t.Errorf("the raw output is %s", w.result("a").Output)
		}
	}
}

func TestBranch(t *testing.T) {
	t.Parallel()
	const text = `{"name":"n","steps":[{"stepId":"br","toolType":"branch","cases":[
		{"when":"$.input.n == 1","steps":[{"stepId":"one","toolType":"transform","value":"first"}]},
		{"when":"$.input.n == 2","steps":[{"stepId":"two","toolType":"custom","toolName":"x"},{"stepId":"two2","toolType":"transform","value":"$.two.k"}]}],
		"else":[{"stepId":"other","toolType":"transform","value":"else"}]},
		{"stepId":"end","toolType":"transform","value":{"br":"$.br","one":{"$path":"$.one","optional":true}}}]}`
	for input, want := range map[string]string{`{"n":1}`: `{"br":"first","one":"first"}`, `{"n":2}`: `{"br":5}`, `{"n":3}`: `{"br":"else"}`} {
		w := newWorld(t, text, input)
		w.call = func(*Call) OutcomeData { return OutcomeData{Output: json.RawMessage(`{"k":5}`)} }
		w.run()
		if d := w.finished(); string(d.Output) != want {
			t.Errorf("%s gives %s, want %s", input, d.Output, want)
		}
		skipped := 0
		for _, r := range w.state.Results() {
			if r.Status == Skipped && r.Reason == ReasonBranch {
				skipped++
			}
		}
		if wants := map[string]int{`{"n":1}`: 3, `{"n":2}`: 2, `{"n":3}`: 3}; skipped != wants[input] {
			t.Errorf("%s: %d steps were skipped", input, skipped)
		}
	}
}

func TestMap(t *testing.T) {
	t.Parallel()
	text := func(extra string) string {
		return `{"name":"n","steps":[{"stepId":"each","toolType":"map","items":"$.input.list",` + extra + `"steps":[
			{"stepId":"x","toolType":"custom","toolName":"t","inputMapping":{"v":"$.item","i":"$.index"}},
			{"stepId":"y","toolType":"transform","value":{"$concat":["<","$.x.v",">"]}}]}]}`
	}
	call := func(c *Call) OutcomeData {
		if strings.Contains(string(c.Input), `"bad"`) {
			return OutcomeData{Error: &Failure{Kind: "internal", Message: "bad item"}}
		}
		return OutcomeData{Output: c.Input}
	}
	for _, c := range []struct{ extra, list, want string }{
		{``, `["a","b","c","d","e","f"]`, `["<a>","<b>","<c>","<d>","<e>","<f>"]`},
		{`"onItemError":"skip",`, `["a","bad","c"]`, `["<a>","<c>"]`},
		{`"onItemError":"continue",`, `["a","bad","c"]`, `["<a>",null,"<c>"]`},
		{`"onItemError":"stop",`, `["a","bad","c"]`, ``},
		{``, `[]`, `[]`},
		{`"concurrency":1,`, `[1,2]`, `["<1>","<2>"]`},
	} {
		for seed := range uint64(5) {
			w := newWorld(t, text(c.extra), `{"list":`+c.list+`}`)
			r := rand.New(rand.NewPCG(seed, 1))
			w.pick, w.call = r.IntN, call
			w.run()
			d := w.finished()
			if c.want == "" {
				if d.Status != Failed || d.Error.Message != `step "each": item 1: bad item` {
					t.Errorf("%s: %+v", c.extra, d.Error)
				}
				continue
			}
			if string(d.Output) != c.want {
				t.Errorf("%s %s gives %s, want %s", c.extra, c.list, d.Output, c.want)
			}
		}
	}
	w := newWorld(t, text(``), `{"list":"no"}`)
	w.run()
	if d := w.finished(); d.Status != Failed || !strings.Contains(d.Error.Message, "items: $.input.list is not an array") {
		t.Errorf("%+v", d.Error)
	}
	w = newWorld(t, text(``), `{"list":[`+strings.Repeat("1,", 1000)+`1]}`)
	w.run()
	if d := w.finished(); d.Status != Failed || d.Error.Kind != "limit" {
		t.Errorf("1001 items: %+v", d.Error)
	}
}

func TestApproval(t *testing.T) {
	t.Parallel()
	text := func(extra string) string {
		return `{"name":"n","steps":[{"stepId":"ask","toolType":"approval","title":{"$concat":["Send to ","$.input.to"]},"show":["$.input.to","$.input.none"],"waitMs":60000` + extra + `},
			{"stepId":"end","toolType":"transform","value":{"$path":"$.ask.data","default":"none"}}]}`
	}
	for _, c := range []struct {
		extra    string
		answer   AnswerData
		status   Status
		output   string
		stepWill Status
	}{
		{``, AnswerData{Decision: Approve, Data: json.RawMessage(`{"n":1}`)}, Completed, `{"n":1}`, Completed},
		{``, AnswerData{Decision: Decline}, Failed, ``, Failed},
		{`,"errorHandling":"continue"`, AnswerData{Decision: Decline}, Completed, `"none"`, Failed},
		{``, AnswerData{Decision: TimeOver}, Failed, ``, Failed},
		{`,"onTimeout":"skip"`, AnswerData{Decision: TimeOver}, Completed, `"none"`, Skipped},
	} {
		w := newWorld(t, text(c.extra), `{"to":"Ann"}`)
		w.run()
		if st, why := w.state.Status(); st != Waiting || why != WaitApproval {
			t.Fatalf("status %s %s", st, why)
		}
		wait := w.state.Next().Waits[0]
		if wait.Request.Title != "Send to Ann" || string(wait.Request.Show) != `{"$.input.none":null,"$.input.to":"Ann"}` || !wait.Until.Equal(epoch.Add(time.Minute)) {
			t.Errorf("%+v %s", wait, wait.Request.Show)
		}
		w.answer = func(Wait) (AnswerData, bool) { return c.answer, true }
		w.run()
		if d := w.finished(); d.Status != c.status || string(d.Output) != c.output || w.result("ask").Status != c.stepWill {
			t.Errorf("%+v: %+v %s, step %s", c.answer, d, d.Output, w.result("ask").Status)
		}
	}
}

// mixed contains every kind of step.
const mixed = `{"name":"n","outputMapping":{"m":"$.each","b":{"$path":"$.br","default":0}},"steps":[
	{"stepId":"read","toolType":"custom","toolName":"ro"},
	{"stepId":"write","toolType":"custom","toolName":"rw","inputMapping":{"x":"$.read"},"errorHandling":"continue"},
	{"stepId":"shape","toolType":"transform","value":{"list":[1,2,3],"w":{"$path":"$.write.x","default":null}}},
	{"stepId":"maybe","toolType":"builtin","toolName":"now","condition":"$.input.skip != true"},
	{"stepId":"br","toolType":"branch","cases":[{"when":"$.input.n > 1","steps":[{"stepId":"in1","toolType":"mcp","toolName":"a.b","errorHandling":"retry","maxRetries":2},{"stepId":"in2","toolType":"transform","value":"$.in1"}]}],"else":[{"stepId":"no","toolType":"transform","value":1}]},
	{"stepId":"each","toolType":"map","items":"$.shape.list","concurrency":2,"onItemError":"continue","steps":[
		{"stepId":"e1","toolType":"custom","toolName":"rw","inputMapping":{"i":"$.item"}},
		{"stepId":"e2","toolType":"branch","cases":[{"when":"$.item == 2","steps":[{"stepId":"e3","toolType":"wasm","toolName":"w"}]}]},
		{"stepId":"e4","toolType":"transform","value":"$.e1.i"}]},
	{"stepId":"ask","toolType":"approval","title":"Go on?"},
	{"stepId":"sub","toolType":"skill","toolName":"other"},
	{"stepId":"flaky","toolType":"custom","toolName":"fl","errorHandling":"retry","maxRetries":3,"onExhausted":"skip"},
	{"stepId":"last","toolType":"transform","value":"$.sub"}]}`

func mixedWorld(t testing.TB, seed uint64) *executor {
	w := newWorld(t, mixed, `{"n":2}`)
	for _, id := range []string{"read", "maybe"} {
		w.start.Tools[id] = Tool{Hash: "h", Tier: "readOnly"}
	}
	w.start.Tools["sub"] = Tool{Hash: "h", Tier: "sideEffecting", Idempotent: true}
	w.load()
	r := rand.New(rand.NewPCG(seed, 7))
	w.pick = r.IntN
	w.call = func(c *Call) OutcomeData {
		if c.Attempt < 3 && (c.Step.StepID == "flaky" || c.Step.StepID == "in1") {
			return OutcomeData{Error: &Failure{Kind: "unavailable", Message: "later"}, Jitter: 0.5 + r.Float64()/2, TookMs: 3}
		}
		return OutcomeData{Output: c.Input, TookMs: int64(r.IntN(50))}
	}
	w.answer = func(wait Wait) (AnswerData, bool) {
		switch wait.Request.Reason {
		case WaitUnknown:
			return AnswerData{Decision: []string{Done, GiveUp}[r.IntN(2)], Output: json.RawMessage(`{"i":9}`)}, true
		default:
			return AnswerData{Decision: Approve}, true
		}
	}
	return w
}

// TestCrashAtEachEvent ends the process at each event, before and after each effect, and continues
// from the journal: nothing that must not be repeated is repeated.
func TestCrashAtEachEvent(t *testing.T) {
	t.Parallel()
	whole := mixedWorld(t, 1)
	whole.run()
	if d := whole.finished(); d.Status != Completed {
		t.Fatalf("%+v", d.Error)
	}
	for at := range len(whole.journal) + 1 {
		for _, inCall := range []bool{false, true} {
			w := mixedWorld(t, 1)
			done := false
			w.crash = func(events int) bool {
				if done || inCall != (events == -1) || len(w.journal) < at {
					return false
				}
				done = true
				return true
			}
			for w.run() {
				w.resume()
			}
			d := w.finished()
			if d.Status != Completed && !(d.Status == Failed && strings.Contains(d.Error.Message, "outcome is unknown")) {
				t.Fatalf("crash at %d (%v): %+v", at, inCall, d.Error)
			}
			w.checkReplay()
		}
	}
}

// resume acts like a new process: it repeats interrupted calls only if that is safe.
func (w *executor) resume() {
	w.t.Helper()
	w.load()
	todo := w.state.Next()
	for _, c := range todo.Calls {
		if !c.Tool.Repeatable() {
			w.add(Unknown(c))
		}
	}
}

func (w *executor) checkReplay() {
	w.t.Helper()
	s, diff, err := Replay(w.start, w.journal)
	if err != nil {
		w.t.Fatal(err)
	}
	if diff != nil {
		w.t.Fatalf("replay: %v, expected %s, actual %s", err, diff.Expected, diff.Actual)
	}
	if !reflect.DeepEqual(s.Finished(), w.state.Finished()) {
		w.t.Error("the replay ends in another way")
	}
	for key, n := range w.effects {
		if c := w.owner[key]; n > 1 && !c.Tool.Repeatable() && c.Step.OnError() != definition.Retry {
			w.t.Errorf("%s[%s] happened %d times", c.Path, c.Iteration, n)
		}
	}
}

func TestReplayFindsChanges(t *testing.T) {
	t.Parallel()
	w := mixedWorld(t, 3)
	w.run()
	w.checkReplay()
	for i, e := range w.journal {
		if e.Type == StepOutcome || e.Type == ApprovalAnswered || e.Type == RunCreated {
			continue // from outside: accept it
		}
		changed := append([]Event(nil), w.journal...)
		changed[i].Data = json.RawMessage(strings.Replace(string(e.Data), "{", `{"x":1,`, 1))
		changed[i].Data = json.RawMessage(strings.Replace(string(changed[i].Data), `,}`, `}`, 1))
		if _, diff, err := Replay(w.start, changed); err == nil && (diff == nil || diff.Seq != e.Seq) {
			t.Errorf("a change of event %d %s is not found: %+v", e.Seq, e.Type, diff)
		}
	}
	for i := range w.journal {
		cut := append([]Event(nil), w.journal[:i]...)
		cut = append(cut, w.journal[i+1:]...)
		if _, diff, err := Replay(w.start, cut); i+1 < len(w.journal) && diff == nil && err == nil {
			t.Errorf("a missing event %d is not found", i+1)
		}
	}
}

func TestReuse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `{"name":"n","steps":[{"stepId":"a","toolType":"custom","toolName":"x"},{"stepId":"b","toolType":"custom","toolName":"y"},{"stepId":"c","toolType":"custom","toolName":"z","inputMapping":{"k":"$.a.k"}}]}`, `{}`)
	w.start.Reused = map[string]ReusedData{"a": {Status: Completed, Output: json.RawMessage(`{"k":7}`), From: "run-0"}, "b": {Status: Skipped, From: "run-0"}}
	w.load()
	w.run()
	if d := w.finished(); d.Status != Completed || string(d.Output) != `{"k":7}` || !reflect.DeepEqual(w.calls, []string{"c[]#1"}) {
		t.Errorf("%+v %s %v", d, d.Output, w.calls)
	}
	w.checkReplay()
}

func TestUnmocked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `{"name":"n","steps":[{"stepId":"m","toolType":"map","items":"$.input.l","steps":[{"stepId":"a","toolType":"custom","toolName":"x"}]},{"stepId":"b","toolType":"transform","value":1}]}`, `{"l":[1,2]}`)
	w.call = func(*Call) OutcomeData { return OutcomeData{Unmocked: true} }
	w.run()
	if d := w.finished(); d.Status != Failed || d.Error.Kind != "unmocked" || w.result("m/a").Status != Unmocked {
		t.Errorf("%+v", d)
	}
}

func TestEndFromOutside(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mixed, `{"n":2}`)
	for range 4 {
		w.add(w.state.Next().Records[0])
		if c := w.state.Next().Calls; len(c) > 0 {
			w.add(Outcome(c[0], OutcomeData{Output: json.RawMessage(`{}`)}))
		}
	}
	w.add(End(Cancelled, nil))
	if st, _ := w.state.Status(); st != Cancelled || len(w.state.Next().Records) > 0 {
		t.Errorf("status %s", st)
	}
	w.checkReplay()
	if err := w.state.Apply(Event{Seq: w.state.Seq() + 1, Type: RunStarted}); err == nil {
		t.Error("an event after the end is accepted")
	}
}

// TestLinear checks that a step of a long run allocates as much as one of a short run. make
// bench-skills measures the time.
func TestLinear(t *testing.T) {
	chain := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `{"stepId":"s%d","toolType":"transform","value":{"n":%d}},`, i, i)
		}
		return `{"name":"n","steps":[` + strings.TrimSuffix(b.String(), ",") + `]}`
	}
	per := func(n int) uint64 {
		w := newWorld(t, chain(n), `{}`)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for w.state.Finished() == nil {
			w.add(w.state.Next().Records[0])
		}
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / uint64(n)
	}
	if a, b := per(50), per(500); b > 3*a {
		t.Errorf("a step of 500 allocates %d bytes, one of 50 %d", b, a)
	}
}
