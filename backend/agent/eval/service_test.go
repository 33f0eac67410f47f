package eval

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"helix/backend/fault"
	"helix/backend/providers"
	"helix/backend/storage/storagetest"
)

func TestResultsAreKeptAndCompared(t *testing.T) {
	t.Parallel()
	db := storagetest.Open(t)
	ctx := storagetest.Ctx(t, db)
	s := New(db, nil, "test")
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	run := func(p RunParams) Result {
		t.Helper()
		begun, err := s.Run(ctx, p)
		if err != nil {
			t.Fatal(err)
		}
		for {
			r, err := s.Result(ctx, ResultParams{EvalID: begun.EvalID, WaitMs: 120_000})
			if err != nil {
				t.Fatal(err)
			}
			if r.State != "running" {
				return r
			}
		}
	}
	const answers = "name: says-yes\ninputs: [\"Is it so?\"]\nscript: [{text: %}]\nexpect: {answer: Yes}"
	good := run(RunParams{Scenarios: []string{strings.Replace(answers, "%", "Yes.", 1)}})
	if good.State != "done" || good.Passed != 1 || len(good.Worse) != 0 || len(good.Baseline) != 0 || good.Results[0].Metrics.Steps != 1 {
		t.Errorf("%+v", good)
	}
	bad := run(RunParams{Scenarios: []string{strings.Replace(answers, "%", "No.", 1)}})
	if bad.Passed != 0 || len(bad.Worse) != 1 || !bad.Baseline[0].Passed || len(bad.Results[0].Problems) != 1 {
		t.Errorf("%+v", bad)
	}
	if _, err := s.Result(storagetest.OtherUser(t, db), ResultParams{EvalID: good.EvalID}); !fault.Is(err, fault.NotFound) {
		t.Error("another user:", err)
	}
	for name, p := range map[string]RunParams{
		"no scenario":      {Filter: "nothing has this name"},
		"no limit":         {Live: &Live{Role: providers.RoleChat}},
		"no role":          {Live: &Live{MaxCostMicros: 1}},
		"a broken one":     {Scenarios: []string{"name: x"}},
		"too many of them": {Scenarios: make([]string, maxExtra+1)},
	} {
		if _, err := s.Run(ctx, p); err == nil {
			t.Errorf("%s: it ran", name)
		}
	}
	var report strings.Builder
	if err := JUnit(&report, append(good.Results, bad.Results...)); err != nil || !strings.Contains(report.String(), `tests="2" failures="1"`) || !strings.Contains(report.String(), `<failure message=`) {
		t.Errorf("%s %v", report.String(), err)
	}
}

// A recorded chat passes when it is run as a scenario.
func TestARecordedScenarioPasses(t *testing.T) {
	t.Parallel()
	all, err := Shipped()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if s.Name != "survives-an-outage" && s.Name != "uses-memory" {
			continue
		}
		r := &runner{s: s, dir: t.TempDir()}
		if err := r.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		text, err := Record("recorded", r.events)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(text)
		if err != nil || len(again.Inputs) != len(s.Inputs) || len(again.Script) != len(s.Script) {
			t.Fatalf("%s\n%+v %v", text, again, err)
		}
		out, err := Run(t.Context(), again, nil)
		if err != nil || !out.Passed {
			t.Errorf("%s: %+v %v\n%s", s.Name, out, err, text)
		}
	}
}

func TestCompareNamesWhatGotWorse(t *testing.T) {
	t.Parallel()
	o := func(passed bool, cost providers.Micros, steps int) []Outcome {
		return []Outcome{{Scenario: "a", Passed: passed, Metrics: Metrics{CostMicros: cost, Steps: steps}}}
	}
	for want, pair := range map[string][2][]Outcome{
		"[]":                                    {o(true, 100, 2), o(true, 110, 2)},
		`["a passed before"]`:                   {o(true, 0, 0), o(false, 0, 0)},
		`["a took 2 steps before and takes 3"]`: {o(true, 0, 2), o(true, 0, 3)},
		`["a cost 100 micros before and costs 111"]`: {o(true, 100, 2), o(true, 111, 2)},
	} {
		if got, _ := json.Marshal(Compare(pair[0], pair[1])); !bytes.Equal(got, []byte(want)) {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
