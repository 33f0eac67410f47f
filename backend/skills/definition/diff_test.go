package definition

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"helix/backend/fault"
)

func bodyOf(t testing.TB, text string) *Body {
	t.Helper()
	b, err := Parse(json.RawMessage(text))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestCompare(t *testing.T) {
	t.Parallel()
	from := bodyOf(t, `{"outputMapping":"$.a","steps":[
		{"stepId":"a","toolType":"custom","toolName":"x","parameters":{"p":1,"q":2},"ui":{"x":1}},
		{"stepId":"b","toolType":"transform","value":1},
		{"stepId":"pick","toolType":"branch","cases":[{"when":"$.a == 1","steps":[{"stepId":"in1","toolType":"transform","value":1},{"stepId":"in2","toolType":"transform","value":2}]}]},
		{"stepId":"gone","toolType":"map","items":"$.a","steps":[{"stepId":"kept","toolType":"transform","value":"$.item"}]}]}`)
	to := bodyOf(t, `{"overallTimeoutMs":5,"steps":[
		{"stepId":"b","toolType":"transform","value":1},
		{"stepId":"new","toolType":"transform","value":null},
		{"stepId":"a","toolType":"custom","toolName":"x","parameters":{"p":3},"inputMapping":{"q.r":"$.b"},"ui":{"x":2}},
		{"stepId":"pick","toolType":"branch","cases":[{"when":"$.a == 2","steps":[{"stepId":"in2","toolType":"transform","value":2},{"stepId":"kept","toolType":"transform","value":"$.item"}]}],"else":[{"stepId":"in1","toolType":"transform","value":1}]}]}`)
	d, err := Compare(from, to)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range append(slices.Clone(d.Fields), d.Changed...) {
		got = append(got, fmt.Sprintf("%s.%s %s→%s", c.Step, c.Path, c.Before, c.After))
	}
	for _, p := range d.Added {
		got = append(got, "+"+p.Step+" "+p.Path)
	}
	for _, p := range d.Removed {
		got = append(got, "-"+p.Step+" "+p.Path)
	}
	for _, m := range d.Moved {
		got = append(got, m.Step+" "+m.From+" to "+m.To)
	}
	want := []string{
		`.outputMapping "$.a"→`, `.overallTimeoutMs →5`, `a.inputMapping.q.r →"$.b"`, `a.parameters.p 1→3`, `a.parameters.q 2→`,
		`pick.cases [{"when":"$.a == 1","steps":[]}]→[{"when":"$.a == 2","steps":[]}]`,
		"+new steps[1]", "-gone steps[3]", "kept steps[3].steps[0] to steps[3].cases[0].steps[1]", "in1 steps[2].cases[0].steps[0] to steps[3].else[0]",
	}
	// Either a or b moved; Compare may choose.
	moved := slices.IndexFunc(got, func(s string) bool { return s == "a steps[0] to steps[2]" || s == "b steps[1] to steps[0]" })
	if moved < 0 {
		t.Fatalf("neither a nor b moved: %q", got)
	}
	got = slices.Delete(got, moved, moved+1)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	applied(t, from, to)
	applied(t, to, from)
	if d, err := Compare(from, from); err != nil || len(d.Fields)+len(d.Added)+len(d.Removed)+len(d.Moved)+len(d.Changed) > 0 {
		t.Errorf("a body differs from itself: %+v %v", d, err)
	}
	if _, err := d.Apply(to); !fault.Is(err, fault.Invalid) {
		t.Errorf("a difference fits another body: %v", err)
	}
}

// applied checks that applying the difference of two bodies to the first yields the second.
func applied(t testing.TB, from, to *Body) {
	t.Helper()
	d, err := Compare(from, to)
	if err != nil {
		t.Fatal(err)
	}
	before := must(from.Hash())
	got, err := d.Apply(from)
	if err != nil {
		t.Fatalf("%v\nfrom %s\nto %s\ndiff %+v", err, must(from.Text()), must(to.Text()), d)
	}
	if must(got.Hash()) != must(to.Hash()) {
		t.Fatalf("from %s\nto   %s\ngot  %s\ndiff %+v", must(from.Text()), must(to.Text()), must(got.Text()), d)
	}
	if must(from.Hash()) != before {
		t.Fatal("the first body was changed")
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// randomBody returns a random body of steps with ids from a small set, so that some are equal.
func randomBody(r *rand.Rand) *Body {
	n := 0
	ids := r.Perm(14)
	var steps func(depth int) []Step
	steps = func(depth int) []Step {
		out := []Step{}
		for range r.IntN(4) {
			if n == len(ids) {
				break
			}
			s := Step{StepID: fmt.Sprint("s", ids[n]), ToolType: Transform, Value: Value{true, json.Number(fmt.Sprint(r.IntN(3)))}}
			if r.IntN(12) == 0 {
				s.StepID = "twin"
			}
			n++
			switch k := r.IntN(5); {
			case k == 0 && depth < 3:
				s.ToolType, s.Items, s.Value, s.Steps = Map, "$.x", Value{}, steps(depth+1)
			case k == 1 && depth < 3:
				s.ToolType, s.Value = Branch, Value{}
				for range 1 + r.IntN(2) {
					s.Cases = append(s.Cases, Case{fmt.Sprint("$.x == ", r.IntN(3)), steps(depth + 1)})
				}
				s.Else = steps(depth + 1)
			case k == 2:
				s.ToolType, s.Value, s.ToolName, s.RetryOn = Custom, Value{}, "x", []string{}
				s.Parameters, s.InputMapping = map[string]any{"a.b": r.IntN(2), "c": nil}, map[string]any{fmt.Sprint("k", r.IntN(2)): "$.x"}
			}
			out = append(out, s)
		}
		return out
	}
	b := &Body{Steps: steps(0)}
	if r.IntN(2) == 0 {
		b.OutputMapping = Value{true, nil}
	}
	if r.IntN(2) == 0 {
		b.InputSchema = json.RawMessage(`{"type":"object"}`)
	}
	return b
}

func TestApplyGivesTarget(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 11))
	n := 400
	if os.Getenv("HELIX_LONG") != "" {
		n = 20_000
	}
	for range n {
		applied(t, randomBody(r), randomBody(r))
	}
}

func FuzzDiff(f *testing.F) {
	f.Add(`{"steps":[{"stepId":"a","toolType":"transform","value":1}]}`, `{"steps":[{"stepId":"","steps":[{"stepId":""}]}]}`)
	f.Add(`{"steps":[{"stepId":"a","cases":[{"when":"x","steps":[{"stepId":"a"}]}]}]}`, `{"steps":[{"stepId":"a#2"},{"stepId":"a","else":[{"stepId":"a"}]}]}`)
	f.Fuzz(func(t *testing.T, a, b string) {
		from, err := Parse(json.RawMessage(a))
		if err != nil {
			return
		}
		to, err := Parse(json.RawMessage(b))
		if err != nil {
			return
		}
		for _, x := range []*Body{from, to} {
			if _, err := x.Hash(); err != nil { // a number without an exact double
				return
			}
		}
		applied(t, from, to)
	})
}
