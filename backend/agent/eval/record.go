package eval

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"gopkg.in/yaml.v3"

	"helix/backend/agent"
	"helix/backend/providers"
)

// Record converts the log of a chat to a scenario: its inputs, the replies of the model as a script,
// and the tools with their recorded results. Logs contain no known secrets, but read the scenario
// before you share it.
func Record(name string, events []agent.LogEvent) ([]byte, error) {
	s := Scenario{Name: name, Description: "Recorded from a chat.", Approve: true}
	tools := map[string]*Tool{}
	var order []string
	args, names := map[string]string{}, map[string]string{}
	for _, e := range events {
		var b struct {
			Text, CallID, Status, Key string
			Parts                     []providers.Part
			Usage                     providers.Usage
			State                     string
			Mode                      string
		}
		if err := json.Unmarshal(e.Data, &b); err != nil {
			return nil, fmt.Errorf("event %d: %w", e.Seq, err)
		}
		switch e.Type {
		case "session_created":
			s.Mode = b.Mode
		case "input":
			s.Inputs = append(s.Inputs, b.Text)
		case "reply":
			r := providers.ScriptedReply{Usage: b.Usage}
			for _, p := range b.Parts {
				switch p.Kind {
				case providers.PartText:
					r.Text += p.Text
				case providers.PartToolCall:
					r.Calls = append(r.Calls, providers.ScriptedCall{ID: p.ID, Name: p.Name, Args: json.RawMessage(p.Args)})
					args[p.ID], names[p.ID] = p.Args, p.Name
				}
			}
			s.Script = append(s.Script, r)
			s.Expect.Answer = r.Text
		case "tool_outcome":
			toolName := names[b.CallID]
			t := tools[toolName]
			if t == nil {
				t = &Tool{Name: toolName, Effect: "read"}
				tools[toolName] = t
				order = append(order, toolName)
			}
			res := ToolResult{Match: args[b.CallID]}
			if b.Status == "done" {
				res.Output = b.Text
			} else {
				res.Error = b.Text
			}
			t.Results = append(t.Results, res)
			s.Expect.Calls = append(s.Expect.Calls, Call{Name: toolName, Status: b.Status})
		case "approval_asked":
			if t := tools[names[b.CallID]]; t != nil {
				t.Effect = "write"
			} else if n := names[b.CallID]; n != "" {
				tools[n] = &Tool{Name: n, Effect: "write"}
				order = append(order, n)
			}
		case "turn_finished":
			s.Expect.State = b.State
		}
	}
	for _, n := range order {
		s.Tools = append(s.Tools, *tools[n])
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	var plain any
	if err := json.Unmarshal(raw, &plain); err != nil {
		return nil, err
	}
	return yaml.Marshal(plain)
}

// JUnit writes results as a JUnit XML report, for continuous integration.
func JUnit(w io.Writer, results []Outcome) error {
	type failure struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
	type testcase struct {
		Name    string   `xml:"name,attr"`
		Class   string   `xml:"classname,attr"`
		Seconds float64  `xml:"time,attr"`
		Failure *failure `xml:"failure,omitempty"`
	}
	suite := struct {
		XMLName  xml.Name   `xml:"testsuite"`
		Name     string     `xml:"name,attr"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Cases    []testcase `xml:"testcase"`
	}{Name: "helix eval", Tests: len(results)}
	for _, r := range results {
		c := testcase{Name: r.Scenario, Class: "eval", Seconds: float64(r.Metrics.TookMs) / 1000}
		if !r.Passed {
			suite.Failures++
			c.Failure = &failure{Message: strings.Join(r.Problems[:min(len(r.Problems), 1)], ""), Text: strings.Join(r.Problems, "\n")}
		}
		suite.Cases = append(suite.Cases, c)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	return e.Encode(suite)
}
