package definition

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"helix/backend/callable"
)

// fakeCatalog is a catalog with a few callables.
type fakeCatalog []Callable

func (s fakeCatalog) Find(kind Kind, id, name string) (out []Callable, _ error) {
	for _, c := range s {
		if c.Kind == kind.Callable() && (id != "" && c.ID == id || id == "" && c.Name == name) {
			out = append(out, c)
		}
	}
	return out, nil
}

var things = fakeCatalog{
	{Info: callable.Info{Ref: callable.Ref{Kind: callable.Tool, ID: "t1"}, Name: "fetch", Input: json.RawMessage(`{"type":"object","properties":{"query":{},"limit":{}},"required":["query"]}`)}},
	{Info: callable.Info{Ref: callable.Ref{Kind: callable.Tool, ID: "t2"}, Name: "count", Effects: callable.Effects{ReadOnly: true}}},
	{Info: callable.Info{Ref: callable.Ref{Kind: callable.Tool, ID: "t3"}, Name: "twin"}},
	{Info: callable.Info{Ref: callable.Ref{Kind: callable.Tool, ID: "t4"}, Name: "twin"}},
	{Info: callable.Info{Ref: callable.Ref{Kind: callable.Builtin, ID: "b1"}, Name: "notify"}},
	{Info: callable.Info{Ref: callable.Ref{Kind: "mcp"}, Name: "files.read"}},
}

func read(t testing.TB, text string, catalog Catalog) *Report {
	t.Helper()
	r, err := Read(json.RawMessage(text), catalog)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func codes(problems []Problem) []string {
	out := []string{}
	for _, p := range problems {
		out = append(out, p.Code+" "+p.Path)
	}
	slices.Sort(out)
	return out
}

func TestForms(t *testing.T) {
	t.Parallel()
	r := read(t, `{"name":" Mixed ","enabled":false,"userId":"x","steps":[
		{"stepId":"a","toolType":"custom","toolName":"fetch","parameters":{"query":"$.x"},"timeoutMs":100},
		{"stepId":"b","toolName":"notify","inputMapping":{"text":"a.title","n":"input.count","plain":"b.c d"},"retryAttempts":0,"errorHandling":"retry"},
		{"stepId":"c","toolName":"files.read","condition":{"field":"input.n","operator":"gt","value":3}},
		{"stepId":"d","toolName":"count","condition":"a.items.length > 2 && input.on !== undefined"},
		{"stepId":"e","toolName":"count","condition":{"field":"$.a.tags","operator":"contains","value":"x.y"}}]}`, things)
	if len(r.Errors) > 0 {
		t.Fatal(r.Errors)
	}
	s := r.Skill
	if s.Name != "Mixed" || s.IsEnabled == nil || *s.IsEnabled {
		t.Errorf("%q, enabled %v", s.Name, s.IsEnabled)
	}
	kinds := []Kind{}
	for _, st := range s.Steps {
		kinds = append(kinds, st.ToolType)
	}
	if want := []Kind{Custom, Builtin, MCP, Custom, Custom}; !reflect.DeepEqual(kinds, want) {
		t.Errorf("kinds %v, want %v", kinds, want)
	}
	if got := s.Steps[0].Parameters["query"]; got != "$.x" {
		t.Errorf("a literal became %v", got)
	}
	if got, want := s.Steps[1].InputMapping, (map[string]any{"text": "$.a.title", "n": "$.input.count", "plain": "b.c d"}); !reflect.DeepEqual(got, want) {
		t.Errorf("mapping %v", got)
	}
	if s.Steps[1].Attempts() != 1 {
		t.Errorf("an explicit 0 gives %d attempts", s.Steps[1].Attempts())
	}
	for i, want := range map[int]string{
		2: `$.input.n > 3`, 3: `length($.a.items) > 2 && $.input.on`, 4: `(search($.a.tags, 'x\\.y') || $.a.tags[?@ == 'x.y'])`,
	} {
		if got := s.Steps[i].Condition; got != want {
			t.Errorf("condition %s, want %s", got, want)
		}
	}
	again, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	second := read(t, string(again), things)
	if b, _ := json.Marshal(second.Skill); string(b) != string(again) || len(second.Errors) > 0 {
		t.Errorf("the canonical form is not stable:\n%s\n%s %v", again, b, second.Errors)
	}
}

// TestAllProblems checks that all problems are reported at once, with their paths.
func TestAllProblems(t *testing.T) {
	t.Parallel()
	r := read(t, `{"name":"","version":"1","tags":[1],"visibility":"secret","overallTimeoutMs":0,"outputMapping":"$.nowhere","steps":[
		{"stepId":"input","toolType":"custom","toolName":"fetch","inputMapping":{"quary":"$.later.x","query":"$["}},
		{"stepId":"1x","toolType":"dance"},
		{"stepId":"later","toolType":"custom","toolName":"nothing","condition":"constructor.constructor(\"x\")()","maxRetries":11,"timeoutMs":"soon"},
		{"stepId":"later","toolType":"custom","toolName":"twin"},
		{"stepId":"own","toolType":"transform","value":{"a":"$.own.x","b":"$.item"}},
		{"stepId":"br","toolType":"branch","cases":[{"when":"$.input.a == 1","steps":[{"stepId":"arm1","toolType":"transform","value":1}]},{"steps":[{"stepId":"arm2","toolType":"transform","value":"$.arm1"}]}]},
		{"stepId":"each","toolType":"map","items":"$.input.list","concurrency":9,"steps":[{"stepId":"in","toolType":"transform","value":"$.item.x"}]},
		{"stepId":"out","toolType":"transform","value":["$.in.x","$.arm1.y"]},
		{"stepId":"ask","toolType":"approval","retryOn":["denied"]},
		null]}`, things)
	want := []string{
		CodeID + " steps[0].stepId", CodeID + " steps[1].stepId", CodeKind + " steps[1].toolType", CodeTool + " steps[2].toolName",
		CodeAmbiguous + " steps[3].toolName", CodeDuplicate + " steps[3].stepId", CodeCondition + " steps[2].condition",
		CodeRange + " steps[2].maxRetries", CodeType + " steps[2].timeoutMs", CodeReference + " steps[4].value", CodeReference + " steps[4].value",
		CodeMissing + " steps[5].cases[1].when", CodeReference + " steps[5].cases[1].steps[0].value", CodeRange + " steps[6].concurrency",
		CodeReference + " steps[7].value", CodeMissing + " steps[8].title", CodeRange + " steps[8].retryOn[0]", CodeType + " steps[9]",
		CodeParameter + " steps[0].inputMapping.quary", CodePath + " steps[0].inputMapping.query", CodeReference + " steps[0].inputMapping.quary",
		CodeMissing + " name", CodeRange + " version", CodeType + " tags[0]", CodeRange + " visibility", CodeRange + " overallTimeoutMs", CodeReference + " outputMapping",
	}
	slices.Sort(want)
	if got := codes(r.Errors); !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if !slices.Contains(codes(r.Warnings), CodeMaybeAbsent+" steps[7].value") {
		t.Errorf("no warning about a branch that may not be taken: %v", r.Warnings)
	}
	if r.Valid() {
		t.Error("valid")
	}
}

func TestBadSteps(t *testing.T) {
	t.Parallel()
	for _, steps := range []string{`null`, `{}`, `"x"`, `[null]`, `[]`, `[1]`, `[[]]`} {
		r := read(t, `{"name":"n","steps":`+steps+`}`, things)
		if r.Valid() || !strings.HasPrefix(r.Errors[0].Path, "steps") {
			t.Errorf("steps %s: %v", steps, r.Errors)
		}
	}
	for _, text := range []string{`null`, `[]`, `1`, `{`, ``, `"x"`, `{}`} {
		if r := read(t, text, things); r.Valid() {
			t.Errorf("%s is accepted", text)
		}
	}
	if r := read(t, `{"name":"n"}`, things); len(r.Errors) != 1 || r.Errors[0].Code != CodeMissing {
		t.Errorf("no steps: %v", r.Errors)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	many := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `{"stepId":"s%d","toolType":"transform","value":%d},`, i, i)
		}
		return `{"name":"n","steps":[` + strings.TrimSuffix(b.String(), ",") + `]}`
	}
	if r := read(t, many(MaxSteps), things); !r.Valid() {
		t.Errorf("%d steps: %v", MaxSteps, r.Errors)
	}
	if r := read(t, many(MaxSteps+1), things); r.Valid() || r.Errors[0].Code != CodeLimit {
		t.Errorf("%d steps: %v", MaxSteps+1, r.Errors)
	}
	nested := func(n int) string {
		body := `{"stepId":"leaf","toolType":"transform","value":1}`
		for i := range n - 1 {
			body = fmt.Sprintf(`{"stepId":"m%d","toolType":"map","items":"$.input.x","steps":[%s]}`, i, body)
		}
		return `{"name":"n","steps":[` + body + `]}`
	}
	if r := read(t, nested(MaxBodies), things); !r.Valid() {
		t.Errorf("%d bodies: %v", MaxBodies, r.Errors)
	}
	if r := read(t, nested(MaxBodies+1), things); r.Valid() || r.Errors[0].Code != CodeLimit {
		t.Errorf("%d bodies: %v", MaxBodies+1, r.Errors)
	}
	if r := read(t, `{"name":"`+strings.Repeat("x", MaxBytes)+`"}`, things); r.Valid() || r.Errors[0].Code != CodeLimit {
		t.Errorf("large: %v", r.Errors)
	}
}

func TestCircle(t *testing.T) {
	t.Parallel()
	calls := func(names ...string) *Body {
		b := &Body{}
		for i, n := range names {
			b.Steps = append(b.Steps, Step{StepID: fmt.Sprint("s", i), ToolType: SkillCall, ToolName: n})
		}
		return b
	}
	catalog := fakeCatalog{
		{Info: callable.Info{Ref: callable.Ref{Kind: callable.Skill, ID: "A"}, Name: "a"}, Body: calls("b")},
		{Info: callable.Info{Ref: callable.Ref{Kind: callable.Skill, ID: "B"}, Name: "b"}, Body: calls("a")},
		{Info: callable.Info{Ref: callable.Ref{Kind: callable.Skill, ID: "C1"}, Name: "c1"}, Body: calls("c2")},
		{Info: callable.Info{Ref: callable.Ref{Kind: callable.Skill, ID: "C2"}, Name: "c2"}, Body: calls("c3")},
		{Info: callable.Info{Ref: callable.Ref{Kind: callable.Skill, ID: "C3"}, Name: "c3"}, Body: calls("c4")},
		{Info: callable.Info{Ref: callable.Ref{Kind: callable.Skill, ID: "C4"}, Name: "c4"}, Body: calls()},
		{Info: callable.Info{Ref: callable.Ref{Kind: callable.Skill, ID: "SELF"}, Name: "self"}, Body: calls()},
	}
	for name, want := range map[string]string{"a": CodeCycle, "c1": CodeLimit, "c2": "", "self": CodeCycle, "c4": ""} {
		r := read(t, `{"name":"n","skillId":"SELF","steps":[{"stepId":"x","toolType":"skill","toolName":"`+name+`"}]}`, catalog)
		if want == "" && !r.Valid() || want != "" && (r.Valid() || r.Errors[0].Code != want) {
			t.Errorf("%s: %v, want %q", name, r.Errors, want)
		}
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	r := read(t, `{"name":"n","colour":"red","steps":[
		{"stepId":"a","toolName":"fetch","parameters":{"query":"x"},"errorHandling":"retry"},
		{"stepId":"b","toolName":"count","errorHandling":"retry","condition":"$.a.ok"},
		{"stepId":"c","toolType":"transform","value":{"x":"$.b.y","z":{"$path":"$.b.y","default":0},"s":"$.steps.b.status","o":"$.steps.b.output"},"shape":1}]}`, things)
	want := []string{
		CodeUnknown + " colour", CodeUnknown + " steps[2].shape", CodeUnsafeRetry + " steps[0].errorHandling", CodeCondition + " steps[1].condition",
		CodeMaybeAbsent + " steps[2].value", CodeMaybeAbsent + " steps[2].value",
	}
	slices.Sort(want)
	if got := codes(r.Warnings); !r.Valid() || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v; %v", got, want, r.Errors)
	}
}

func TestHash(t *testing.T) {
	t.Parallel()
	hash := func(text string) string {
		t.Helper()
		r := read(t, text, things)
		if !r.Valid() {
			t.Fatal(r.Errors)
		}
		h, err := r.Skill.Hash()
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	base := hash(`{"name":"n","steps":[{"stepId":"a","toolName":"count","ui":{"x":1}}]}`)
	if hash(`{"name":"other","tags":["t"],"steps":[{"ui":{"x":2},"toolType":"custom","stepId":"a","toolName":"count"}]}`) != base {
		t.Error("a name or a place changes the hash")
	}
	if hash(`{"name":"n","steps":[{"stepId":"a","toolName":"count","timeoutMs":5}]}`) == base {
		t.Error("a timeout does not change the hash")
	}
}

func FuzzRead(f *testing.F) {
	f.Add(`{"name":"n","steps":[{"stepId":"a","toolName":"fetch","inputMapping":{"query":"input.q"},"condition":{"field":"a","operator":"contains","value":"x"}}]}`)
	f.Add(`{"name":"n","steps":[{"stepId":"a","toolType":"branch","cases":[{"when":"!input.x","steps":[]}],"else":[{}]}]}`)
	f.Add(`{"name":"n","steps":[{"stepId":"a","toolType":"map","items":"$.input[*]","steps":[{"stepId":"b","toolType":"approval","title":"$.item","show":["$.a"],"form":{}}]}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Read(json.RawMessage(text), things)
		if err != nil || r.Skill == nil {
			return
		}
		if _, err := r.Skill.Hash(); err != nil && r.Valid() {
			t.Errorf("a valid skill has no hash: %v", err)
		}
		if !r.Valid() {
			return
		}
		b, err := json.Marshal(r.Skill)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Read(b, things)
		if err != nil || !again.Valid() {
			t.Fatalf("the canonical form is not valid: %v %v", again.Errors, err)
		}
		if c, _ := json.Marshal(again.Skill); string(c) != string(b) {
			t.Errorf("the canonical form changes:\n%s\n%s", b, c)
		}
	})
}
