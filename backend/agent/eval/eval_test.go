package eval

import (
	"os"
	"slices"
	"strings"
	"testing"

	"helix/backend/fault"
	"helix/backend/providers"
	"helix/backend/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Run(m)) }

func TestShippedScenariosPass(t *testing.T) {
	t.Parallel()
	all, err := Shipped()
	if err != nil || len(all) < 7 {
		t.Fatal(len(all), err)
	}
	for _, s := range all {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			out, err := Run(t.Context(), s, nil)
			if err != nil || !out.Passed || out.Metrics.Steps == 0 {
				t.Errorf("%+v %v", out, err)
			}
		})
	}
}

// Each expectation is violated once, to show that its check can fail.
func TestBrokenExpectationsAreProblems(t *testing.T) {
	t.Parallel()
	all, err := Shipped()
	if err != nil {
		t.Fatal(err)
	}
	get := func(name string) Scenario {
		return all[slices.IndexFunc(all, func(s Scenario) bool { return s.Name == name })]
	}
	for problem, change := range map[string]func() Scenario{
		"lacks":            func() Scenario { s := get("uses-memory"); s.Expect.Answer = "Ana"; return s },
		"no call of":       func() Scenario { s := get("reads-a-folder"); s.Expect.Calls = []Call{{Name: "file_write"}}; return s },
		"was called":       func() Scenario { s := get("reads-a-folder"); s.Expect.Never = []string{"file_read"}; return s },
		"no event summary": func() Scenario { s := get("uses-memory"); s.Expect.Events = []string{"summary"}; return s },
		"the turn is":      func() Scenario { s := get("uses-memory"); s.Expect.State = "failed"; return s },
		"stopped because":  func() Scenario { s := get("uses-memory"); s.Expect.Stop = "loop"; return s },
		"steps, want":      func() Scenario { s := get("reads-a-folder"); s.Expect.MaxSteps = 1; return s },
		"file a.txt": func() Scenario {
			s := get("asks-before-writing")
			s.Expect.Files = map[string]string{"a.txt": "two"}
			return s
		},
		"a secret is in": func() Scenario {
			s := get("uses-memory")
			s.Secrets = []string{"Milena"}
			s.Script = []providers.ScriptedReply{{Text: "M"}, {Text: "ilena"}}
			s.Memories = nil
			s.Expect = Expect{}
			s.Secrets = []string{"script"} // the name of the provider, which is not scrubbed
			return s
		},
		"no more replies": func() Scenario { s := get("uses-memory"); s.Script = s.Script[:1]; return s },
	} {
		out, err := Run(t.Context(), change(), nil)
		if err != nil || out.Passed || !strings.Contains(strings.Join(out.Problems, "\n"), problem) {
			t.Errorf("%s: %+v %v", problem, out, err)
		}
	}
}

func TestScenariosAreReadStrictly(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"not YAML":       "name: [",
		"unknown member": "name: a\ninputs: [b]\nexpects: {}",
		"no name":        "inputs: [b]",
		"no input":       "name: a",
		"a bad effect":   "name: a\ninputs: [b]\ntools: [{name: x, effect: much}]",
	} {
		if s, err := Parse([]byte(text)); err == nil {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// A scenario that is read is complete; any other text is refused with a sentence, and none crashes.
func FuzzScenario(f *testing.F) {
	files, err := shipped.ReadDir("scenarios")
	if err != nil {
		f.Fatal(err)
	}
	for _, x := range files {
		text, err := shipped.ReadFile("scenarios/" + x.Name())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("name: a\ninputs: [b]\ntools: [{name: x, effect: much}]"))
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte("? [1]\n: 2"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Parse(text)
		if err != nil {
			if fault.KindOf(err) != fault.Invalid || fault.As(err).Message == "" {
				t.Errorf("%v", err)
			}
			return
		}
		if !scenarioName.MatchString(s.Name) || len(s.Inputs) == 0 {
			t.Errorf("%+v", s)
		}
	})
}
