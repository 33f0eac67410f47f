package cli

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"helix/backend/agent"
	"helix/backend/agent/eval"
	"helix/backend/fault"
	"helix/backend/providers"
)

type evalCmd struct {
	List   evalListCmd   `cmd:"" default:"withargs" help:"List the scenarios."`
	Run    evalRunCmd    `cmd:"" help:"Run scenarios and check what the agent does. Without --live, no service is called."`
	Record evalRecordCmd `cmd:"" help:"Print a chat as a scenario."`
}

type evalListCmd struct{}

func (*evalListCmd) Run(c *command) error {
	return show(c, "eval.list", nil, func(r eval.ListResult) {
		list(c, r.Scenarios, "", []string{"NAME", "WHAT IT CHECKS"}, func(s eval.Info) []string {
			return []string{s.Name, s.Description}
		})
	})
}

type evalRunCmd struct {
	Filter   string   `arg:"" optional:"" help:"Part of the names. Default: all."`
	File     []string `placeholder:"FILE" help:"Run the scenario of a file instead."`
	Live     string   `placeholder:"ROLE" help:"Use the models of a role instead of the scripts."`
	MaxCost  string   `placeholder:"USD" help:"With --live: maximum total cost of all calls."`
	JUnit    string   `name:"junit" placeholder:"FILE" help:"Also write a JUnit report."`
	Baseline string   `placeholder:"FILE" help:"Compare with the results in a file, which is created if it doesn't exist."`
}

// Run exits with 1 if a scenario failed or was worse than the baseline.
func (r *evalRunCmd) Run(c *command) error {
	p := eval.RunParams{Filter: r.Filter}
	for _, name := range r.File {
		text, err := os.ReadFile(name)
		if err != nil {
			return fault.Invalidf("Couldn't read the scenario: %s.", err).WithCause(err)
		}
		p.Scenarios = append(p.Scenarios, string(text))
	}
	if r.Live != "" {
		usd, err := strconv.ParseFloat(r.MaxCost, 64)
		if err != nil || !(usd > 0 && usd <= 1e6) {
			return fault.InvalidField("max-cost", fault.CodeMissing, "A live run needs --max-cost, an amount in dollars.")
		}
		p.Live = &eval.Live{Role: providers.Role(r.Live), MaxCostMicros: providers.Micros(usd * 1e6)}
	}
	var begun eval.RunResult
	if _, err := c.call("eval.run", p, &begun); err != nil {
		return err
	}
	var out eval.Result
	var raw json.RawMessage
	for out.State = "running"; out.State == "running"; {
		var err error
		if raw, err = c.call("eval.result", eval.ResultParams{EvalID: begun.EvalID, WaitMs: 60_000}, &out); err != nil {
			return err
		}
	}
	worse := out.Worse
	if r.Baseline != "" {
		var err error
		if worse, err = compareWith(r.Baseline, out.Results); err != nil {
			return err
		}
	}
	if r.JUnit != "" {
		var b strings.Builder
		if err := eval.JUnit(&b, out.Results); err != nil {
			return err
		}
		if err := os.WriteFile(r.JUnit, []byte(b.String()), 0o600); err != nil {
			return fault.Invalidf("Couldn't write the report: %s.", err).WithCause(err)
		}
	}
	if c.JSON {
		if err := c.printJSON(raw); err != nil {
			return err
		}
	} else {
		c.printEval(out, worse)
	}
	if out.Passed < begun.Total || r.Baseline != "" && len(worse) > 0 {
		return failed{1}
	}
	return nil
}

func (c *command) printEval(out eval.Result, worse []string) {
	list(c, out.Results, "", []string{"SCENARIO", "RESULT", "STEPS", "CALLS", "COST"}, func(o eval.Outcome) []string {
		state := "passed"
		if !o.Passed {
			state = "failed"
		}
		return []string{o.Scenario, state, strconv.Itoa(o.Metrics.Steps), strconv.Itoa(o.Metrics.Calls), usd(o.Metrics.CostMicros)}
	})
	for _, o := range out.Results {
		for _, problem := range o.Problems {
			c.say("%s: %s", o.Scenario, problem)
		}
	}
	for _, text := range worse {
		c.say("Worse than the baseline: %s", text)
	}
	if out.Error != "" {
		c.say("%s", out.Error)
	}
}

// compareWith compares results with those in a file, or writes the file if it does not exist.
func compareWith(file string, results []eval.Outcome) ([]string, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		text, err := json.MarshalIndent(results, "", "  ")
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(file, append(text, '\n'), 0o600); err != nil {
			return nil, fault.Invalidf("Couldn't write the baseline: %s.", err).WithCause(err)
		}
		return nil, nil
	}
	var baseline []eval.Outcome
	if err == nil {
		err = json.Unmarshal(text, &baseline)
	}
	if err != nil {
		return nil, fault.Invalidf("Couldn't read the baseline: %s.", err).WithCause(err)
	}
	return eval.Compare(baseline, results), nil
}

type evalRecordCmd struct {
	chatID
	Name string `default:"recorded" help:"Name of the scenario."`
}

func (r *evalRecordCmd) Run(c *command) error {
	var events []agent.LogEvent
	for after := int64(0); ; {
		var page agent.EventsResult
		if _, err := c.call("chat.events", map[string]any{"sessionId": r.ID, "afterSeq": after}, &page); err != nil {
			return err
		}
		if len(page.Events) == 0 {
			break
		}
		events = append(events, page.Events...)
		after = page.Events[len(page.Events)-1].Seq
	}
	text, err := eval.Record(r.Name, events)
	if err != nil {
		return err
	}
	c.printText(string(text))
	return nil
}
