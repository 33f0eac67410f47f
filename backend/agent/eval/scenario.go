// Package eval runs the agent on scenarios and checks the results. Each scenario runs in its own
// database and folder, with a model that follows a script, or with a real model up to a limit of
// money. It calls no service unless a live run is requested.
package eval

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"helix/backend/agent"
	"helix/backend/fault"
	"helix/backend/providers"
)

//go:embed scenarios/*.yaml
var shipped embed.FS

// Scenario describes a task for the agent, its environment and the expected result.
type Scenario struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Files are the initial contents of the folder that file_list, file_read and file_write use.
	Files map[string]string `json:"files,omitempty"`
	// Memories are recalled in each turn.
	Memories []string `json:"memories,omitempty"`
	// Secrets must not appear in any text except the inputs.
	Secrets []string `json:"secrets,omitempty"`
	Tools   []Tool   `json:"tools,omitempty"`
	// Script holds the replies of the model. A live run ignores it.
	Script []providers.ScriptedReply `json:"script"`
	Faults []Fault                   `json:"faults,omitempty"`
	// Mode is ask, read or work; default ask. Approve is the answer to questions.
	Mode    string       `json:"mode,omitempty"`
	Approve bool         `json:"approve,omitempty"`
	Budget  agent.Budget `json:"budget,omitzero"`
	Inputs  []string     `json:"inputs"`
	Expect  Expect       `json:"expect"`
}

// Tool is a scripted tool.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Effect      string          `json:"effect,omitempty"` // read (default), idempotent or write
	Input       json.RawMessage `json:"input,omitempty"`
	// Results are tried in order: the first whose Match is in the arguments is the result.
	Results []ToolResult `json:"results"`
}

// ToolResult is the result of a call.
type ToolResult struct {
	Match  string `json:"match,omitempty"`
	Output any    `json:"output,omitempty"`
	Error  string `json:"error,omitempty"`
}

// Fault makes the model fail with a status before one of its replies, counted from 1.
type Fault struct {
	Reply  int `json:"reply"`
	Status int `json:"status"`
	Times  int `json:"times,omitempty"` // default 1
}

// Expect lists conditions at the end of the scenario. Empty members are not checked.
type Expect struct {
	// Answer must occur in the last answer.
	Answer string `json:"answer,omitempty"`
	// Calls must occur in this order; other calls may occur between them.
	Calls []Call `json:"calls,omitempty"`
	// Never are tools that must not be called.
	Never []string `json:"never,omitempty"`
	// Events are types that the log must contain.
	Events []string `json:"events,omitempty"`
	// Files must exist in the folder at the end, with these texts.
	Files map[string]string `json:"files,omitempty"`
	// State is the state of the last turn, completed by default; Stop is its stop reason.
	State         string           `json:"state,omitempty"`
	Stop          string           `json:"stop,omitempty"`
	MaxCostMicros providers.Micros `json:"maxCostMicros,omitempty"`
	MaxSteps      int              `json:"maxSteps,omitempty"`
}

// Call is an expected call of a tool.
type Call struct {
	Name   string         `json:"name"`
	Args   map[string]any `json:"args,omitempty"`   // members that the arguments must have
	Status string         `json:"status,omitempty"` // done, failed, denied, skipped or unknown
}

var scenarioName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`)

// Parse reads a scenario from YAML. Unknown members are errors.
func Parse(text []byte) (Scenario, error) {
	var s Scenario
	var v any
	if err := yaml.Unmarshal(text, &v); err != nil {
		return s, fault.Invalidf("The scenario is not YAML.").WithCause(err)
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return s, fault.Invalidf("The scenario has keys that are not text.").WithCause(err)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return s, fault.Invalidf("Couldn't read the scenario: %s.", err).WithCause(err)
	}
	switch {
	case !scenarioName.MatchString(s.Name):
		return s, fault.InvalidField("name", fault.CodeSyntax, "A scenario name can have only a-z, 0-9 and hyphens.")
	case len(s.Inputs) == 0:
		return s, fault.InvalidField("inputs", fault.CodeMissing, "Scenario %s has no input.", s.Name)
	}
	for _, t := range s.Tools {
		if t.Name == "" || !slices.Contains([]string{"", "read", "idempotent", "write"}, t.Effect) {
			return s, fault.InvalidField("tools", fault.CodeInvalid, "Tool %q has no name, or its effect is not read, idempotent or write.", t.Name)
		}
	}
	return s, nil
}

// Shipped returns the scenarios included in the program, by name.
func Shipped() ([]Scenario, error) {
	var out []Scenario
	err := fs.WalkDir(shipped, "scenarios", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := shipped.ReadFile(path)
		if err != nil {
			return err
		}
		s, err := Parse(text)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		out = append(out, s)
		return nil
	})
	slices.SortFunc(out, func(a, b Scenario) int { return strings.Compare(a.Name, b.Name) })
	return out, err
}

// script returns the file for the scripted provider, with each fault before its reply.
func (s Scenario) script() ([]byte, error) {
	replies := []providers.ScriptedReply{}
	for i, r := range s.Script {
		for _, f := range s.Faults {
			if f.Reply == i+1 {
				replies = append(replies, slices.Repeat([]providers.ScriptedReply{{Status: f.Status, Message: "scripted fault"}}, max(f.Times, 1))...)
			}
		}
		replies = append(replies, r)
	}
	return json.Marshal(map[string]any{"replies": replies})
}
