package definition

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"helix/backend/callable"
)

func TestSchemas(t *testing.T) {
	t.Parallel()
	r := read(t, `{"name":"n","inputSchema":{"type":"objekt"},"steps":[
		{"stepId":"a","toolType":"approval","title":"t","form":{"properties":{"x":{"pattern":"(?=a)"}}}},
		{"stepId":"b","toolType":"approval","title":"t","form":{"$ref":"https://example.org/s.json"}},
		{"stepId":"c","toolType":"approval","title":"t","form":{"type":"object","properties":{"x":{"type":"string","format":"date"}}}}]}`, things)
	want := []string{CodeSchema + " inputSchema", CodeSchema + " steps[0].form", CodeSchema + " steps[1].form"}
	if got := codes(r.Errors); !slices.Equal(got, want) || !r.Whole {
		t.Errorf("%v %v", got, r.Errors)
	}
	for i, part := range []string{"type", "pattern", "another document"} {
		if !strings.Contains(r.Errors[i].Message, part) {
			t.Errorf("%q does not say %q", r.Errors[i].Message, part)
		}
	}
}

func TestKeepable(t *testing.T) {
	t.Parallel()
	for text, fine := range map[string]bool{
		"0": true, "-0": true, "0.0": true, "1e0": true, "0.1": true, "123.45600000000002": true, "9007199254740992": true, "1e300": true, "1.50": true,
		"9007199254740993": false, "1e400": false, "1e-999999999": false, "1e999999999": false, "0.10000000000000000001": false, strings.Repeat("1", 100): false,
	} {
		r := read(t, `{"name":"n","steps":[{"stepId":"a","toolType":"transform","value":{"x":[`+text+`]}}]}`, things)
		if r.Valid() != fine || r.Whole != fine {
			t.Errorf("%s: %v", text, r.Errors)
		}
		if !fine && r.Errors[0].Path != "steps[0].value.x[0]" {
			t.Errorf("the error of %s is at %s", text, r.Errors[0].Path)
		}
	}
	deep := func(n int) string { return strings.Repeat("[", n) + "1" + strings.Repeat("]", n) }
	for n, fine := range map[int]bool{maxNesting - 4: true, maxNesting + 1: false, 5000: false} {
		r := read(t, `{"name":"n","steps":[{"stepId":"a","toolType":"custom","toolName":"count","parameters":{"x":`+deep(n)+`}}]}`, things)
		if r.Valid() != fine {
			t.Errorf("%d deep: %v", n, r.Errors)
		}
		if fine {
			must(r.Skill.Hash())
		}
	}
}

// TestDefaultsAreLeftOut checks that a definition with explicit defaults equals one without.
func TestDefaultsAreLeftOut(t *testing.T) {
	t.Parallel()
	said := read(t, `{"name":"n","overallTimeoutMs":600000,"steps":[
		{"stepId":"a","toolType":"custom","toolName":"count","errorHandling":"stop","maxRetries":0,"onExhausted":"stop","onUnknown":"ask","timeoutMs":30000,"retryUnsafe":false,"parameters":{},"inputMapping":{},
			"retryOn":["timeout","unavailable","conflict","limit","internal"]},
		{"stepId":"r","toolType":"custom","toolName":"count","errorHandling":"retry","maxRetries":1},
		{"stepId":"m","toolType":"map","items":"$.input","concurrency":4,"onItemError":"stop","steps":[{"stepId":"p","toolType":"approval","title":"t","waitMs":86400000,"onTimeout":"fail"}]}]}`, things)
	short := read(t, `{"name":"n","steps":[{"stepId":"a","toolName":"count"},{"stepId":"r","toolName":"count","errorHandling":"retry"},
		{"stepId":"m","toolType":"map","items":"$.input","steps":[{"stepId":"p","toolType":"approval","title":"t"}]}]}`, things)
	if a, b := must(said.Skill.Text()), must(short.Skill.Text()); string(a) != string(b) {
		t.Errorf("\n%s\n%s", a, b)
	}
	none := read(t, `{"name":"n","steps":[{"stepId":"a","toolName":"count","errorHandling":"retry","maxRetries":0,"retryOn":[]}]}`, things)
	again, err := Parse(must(none.Skill.Text()))
	if err != nil || again.Steps[0].Attempts() != 1 || len(again.Steps[0].RetryKinds()) != 0 {
		t.Errorf("%v %+v", err, again.Steps[0])
	}
}

func TestParameters(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		`{"type":"object","properties":{"a":{}},"required":["a","b"]}`: "b x",
		`{"type":"object","additionalProperties":false}`:               "a x",
		`{"type":"object"}`: "",
		`{"type":"object","properties":{"a":{}},"additionalProperties":true}`:   "",
		`{"type":"object","properties":{"a":{}},"patternProperties":{"^x":{}}}`: "",
		`{"properties":{"a":{}},"allOf":[{"properties":{"x":{}}}]}`:             "",
		`{"properties":{"a":{}}}`: "x",
		`true`:                    "",
	} {
		c := fakeCatalog{{Info: callable.Info{Ref: callable.Ref{Kind: callable.Tool, ID: "1"}, Name: "f", Input: json.RawMessage(schema)}}}
		r := read(t, `{"name":"n","steps":[{"stepId":"s","toolName":"f","parameters":{"x":1},"inputMapping":{"a":"$.input.a"}}]}`, c)
		var got []string
		for _, p := range r.Errors {
			switch {
			case p.Code != CodeParameter:
				t.Errorf("%s: %v", schema, p)
			default:
				got = append(got, p.Path[strings.LastIndex(p.Path, ".")+1:])
			}
		}
		if strings.Join(sorted(got), " ") != want {
			t.Errorf("%s: %v, want %q", schema, got, want)
		}
	}
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

// versioned is a catalog with earlier versions, by id and version.
type versioned struct {
	fakeCatalog
	old map[string]Callable
}

func (v versioned) FindVersion(id, version string) ([]Callable, error) {
	if c, ok := v.old[id+"@"+version]; ok {
		return []Callable{c}, nil
	}
	return nil, nil
}

func TestPinned(t *testing.T) {
	t.Parallel()
	now := Callable{Info: callable.Info{Ref: callable.Ref{Kind: callable.Skill, ID: "A"}, Name: "a"}, Body: &Body{Steps: []Step{{StepID: "x", ToolType: SkillCall, ToolName: "self"}}}}
	then := now
	then.Body, then.Input = &Body{}, json.RawMessage(`{"properties":{"old":{}},"required":["old"]}`)
	c := versioned{fakeCatalog{now, {Info: callable.Info{Ref: callable.Ref{Kind: callable.Skill, ID: "SELF"}, Name: "self"}, Body: &Body{}}}, map[string]Callable{"A@1.0.0": then}}
	for version, want := range map[string]string{"": CodeCycle, "1.0.0": CodeParameter, "9.9.9": CodeTool} {
		r := read(t, `{"name":"n","skillId":"SELF","steps":[{"stepId":"s","toolType":"skill","toolName":"a","skillVersion":"`+version+`"}]}`, c)
		if len(r.Errors) != 1 || r.Errors[0].Code != want {
			t.Errorf("version %q: %v, want %s", version, r.Errors, want)
		}
	}
}

// counted is a catalog that counts its calls.
type counted struct {
	fakeCatalog
	n int
}

func (c *counted) Find(kind Kind, id, name string) ([]Callable, error) {
	c.n++
	return c.fakeCatalog.Find(kind, id, name)
}

// TestManyCalls checks that skills that call each other many times are checked once.
func TestManyCalls(t *testing.T) {
	t.Parallel()
	layer := func(id, calls string) Callable {
		b := &Body{}
		for i := range MaxSteps {
			b.Steps = append(b.Steps, Step{StepID: fmt.Sprint("s", i), ToolType: SkillCall, ToolName: calls})
		}
		return Callable{Info: callable.Info{Ref: callable.Ref{Kind: callable.Skill, ID: id}, Name: strings.ToLower(id)}, Body: b}
	}
	c := &counted{fakeCatalog: fakeCatalog{layer("A", "b"), layer("B", "c"), {Info: callable.Info{Ref: callable.Ref{Kind: callable.Skill, ID: "C"}, Name: "c"}, Body: &Body{}}}}
	text := must(layer("X", "a").Body.Text())
	r := read(t, `{"name":"n",`+string(text)[1:], c)
	if !r.Valid() {
		t.Fatal(r.Errors[0])
	}
	if c.n > 4*MaxSteps { // checking each path separately would take MaxSteps³
		t.Errorf("%d looks at the catalog", c.n)
	}
}

func TestNotification(t *testing.T) {
	t.Parallel()
	r := read(t, `{"name":"n","notification":{"when":"$.nothing == 1","title":"$.none","body":"$.a"},"steps":[{"stepId":"a","toolType":"transform","value":1}]}`, things)
	if got := codes(r.Errors); !slices.Equal(got, []string{CodeReference + " notification.title", CodeReference + " notification.when"}) {
		t.Error(got)
	}
}
