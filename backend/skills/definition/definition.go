// Package definition defines a skill: a list of typed steps. It reads the forms in which people
// write skills, converts them to the canonical form, and validates, compares and hashes
// definitions. It has no side effects and uses neither a database nor a clock; a Catalog provides
// what steps can call.
package definition

import (
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"helix/backend/callable"
	"helix/backend/duration"
	"helix/backend/jcs"
)

// Limits of a definition.
const (
	MaxSteps       = 500 // including those of nested bodies
	MaxBodies      = 8   // nesting of bodies
	MaxCalls       = 4   // nesting of skills that call skills
	MaxBytes       = 1 << 20
	MaxName        = 100
	MaxDescription = 2000
	MaxTags        = 16
	MaxTag         = 64
	MaxItems       = 1000 // of a map
)

// Kind is what a step does.
type Kind string

// The kinds of steps. The first five call something, the others control the flow of the run.
const (
	Custom    Kind = "custom"
	Builtin   Kind = "builtin"
	MCP       Kind = "mcp"
	SkillCall Kind = "skill"
	WASM      Kind = "wasm"
	Branch    Kind = "branch"
	Map       Kind = "map"
	Approval  Kind = "approval"
	Transform Kind = "transform"
)

// Calls reports whether steps of the kind call something by id or name.
func (k Kind) Calls() bool {
	switch k {
	case Branch, Map, Approval, Transform:
		return false
	}
	return true
}

// Callable returns the kind of the callables that steps of this kind call.
func (k Kind) Callable() callable.Kind {
	if k == Custom {
		return callable.Tool
	}
	return callable.Kind(k)
}

// KindOf returns the kind of the steps that call callables of a kind.
func KindOf(k callable.Kind) Kind {
	if k == callable.Tool {
		return Custom
	}
	return Kind(k)
}

// Value is a JSON value that may be absent, as opposed to null.
type Value struct {
	Set bool
	V   any
}

// IsZero reports whether the value is absent.
func (v Value) IsZero() bool { return !v.Set }

// MarshalJSON writes the value.
func (v Value) MarshalJSON() ([]byte, error) { return json.Marshal(v.V) }

// Body is the executable part of a skill. Each change to it creates a version.
type Body struct {
	InputSchema      json.RawMessage `json:"inputSchema,omitempty"`  // JSON Schema 2020-12
	OutputMapping    Value           `json:"outputMapping,omitzero"` // template; absent: the last output
	Notification     *Notification   `json:"notification,omitempty"`
	OverallTimeoutMs int64           `json:"overallTimeoutMs,omitempty"` // 0: 10 min
	Steps            []Step          `json:"steps"`
}

// Skill is a definition in canonical form. Fields that have their default are absent.
type Skill struct {
	SkillID     string   `json:"skillId,omitempty"`
	Name        string   `json:"name"`
	Description string   `json:"description,omitempty"`
	Version     string   `json:"version,omitempty"`
	Tags        []string `json:"tags,omitempty"`
	Icon        string   `json:"icon,omitempty"`
	IsEnabled   *bool    `json:"isEnabled,omitempty"` // nil: true
	Visibility  string   `json:"visibility,omitempty"`
	Body
}

// Notification is shown at the end of a scheduled run if When holds.
type Notification struct {
	When  string `json:"when,omitempty"`
	Title any    `json:"title,omitempty"`
	Body  any    `json:"body,omitempty"`
	Level string `json:"level,omitempty"`
}

// Step is one step. ToolType determines which fields are used.
type Step struct {
	StepID        string         `json:"stepId"`
	ToolType      Kind           `json:"toolType"`
	ToolID        string         `json:"toolId,omitempty"`
	ToolName      string         `json:"toolName,omitempty"`
	SkillVersion  string         `json:"skillVersion,omitempty"`
	Description   string         `json:"description,omitempty"`
	Condition     string         `json:"condition,omitempty"`
	Parameters    map[string]any `json:"parameters,omitempty"`
	InputMapping  map[string]any `json:"inputMapping,omitempty"`
	OutputMapping Value          `json:"outputMapping,omitzero"`

	ErrorHandling string   `json:"errorHandling,omitempty"`
	MaxRetries    *int     `json:"maxRetries,omitempty"`
	OnExhausted   string   `json:"onExhausted,omitempty"`
	RetryOn       []string `json:"retryOn,omitzero"` // nil: the default; empty: none
	RetryUnsafe   bool     `json:"retryUnsafe,omitempty"`
	OnUnknown     string   `json:"onUnknown,omitempty"`
	TimeoutMs     int64    `json:"timeoutMs,omitempty"`

	Cases []Case `json:"cases,omitempty"` // branch
	Else  []Step `json:"else,omitempty"`

	Items       string `json:"items,omitempty"` // map
	Steps       []Step `json:"steps,omitempty"`
	Concurrency int    `json:"concurrency,omitempty"`
	OnItemError string `json:"onItemError,omitempty"`

	Title     any             `json:"title,omitempty"` // approval
	Message   any             `json:"message,omitempty"`
	Show      []string        `json:"show,omitempty"`
	Form      json.RawMessage `json:"form,omitempty"`
	WaitMs    int64           `json:"waitMs,omitempty"`
	OnTimeout string          `json:"onTimeout,omitempty"`

	Value Value `json:"value,omitzero"` // transform

	UI any `json:"ui,omitempty"` // where the canvas draws the step; no meaning otherwise
}

// Case is one arm of a branch.
type Case struct {
	When  string `json:"when"`
	Steps []Step `json:"steps"`
}

// The policies for a step whose attempt failed.
const (
	Stop     = "stop"
	Retry    = "retry"
	Skip     = "skip"
	Continue = "continue"
	Ask      = "ask"
	Fail     = "fail"
)

// Defaults of a definition.
const (
	defaultTimeout  = 30_000 // ms
	defaultOverall  = 600_000
	defaultWait     = 24 * 3600 * 1000
	defaultParallel = 4
)

// unless returns v, or the zero value if v equals otherwise, which absence stands for.
func unless[T comparable](v, otherwise T) T {
	if v == otherwise {
		var none T
		return none
	}
	return v
}

// leaveOut clears fields that have their default, so that equal steps have the same canonical form.
func (s *Step) leaveOut() {
	if s.MaxRetries != nil && *s.MaxRetries == (&Step{ErrorHandling: s.ErrorHandling}).Attempts()-1 {
		s.MaxRetries = nil
	}
	s.ErrorHandling, s.OnExhausted, s.OnItemError = unless(s.ErrorHandling, Stop), unless(s.OnExhausted, Stop), unless(s.OnItemError, Stop)
	s.OnUnknown, s.OnTimeout = unless(s.OnUnknown, Ask), unless(s.OnTimeout, Fail)
	s.TimeoutMs, s.WaitMs, s.Concurrency = unless(s.TimeoutMs, defaultTimeout), unless(s.WaitMs, defaultWait), unless(s.Concurrency, defaultParallel)
	if slices.Equal(s.RetryOn, retryable) {
		s.RetryOn = nil
	}
}

// OnError returns the policy when the step fails; the default is Stop.
func (s *Step) OnError() string { return or(s.ErrorHandling, Stop) }

// Attempts returns the maximum number of attempts.
func (s *Step) Attempts() int {
	switch {
	case s.OnError() != Retry:
		return 1
	case s.MaxRetries != nil:
		return *s.MaxRetries + 1
	}
	return 2
}

// Exhausted returns the policy when all attempts failed; the default is Stop.
func (s *Step) Exhausted() string { return or(s.OnExhausted, Stop) }

// Unknown returns the policy after a crash for a call that may have had its effect; the default is Ask.
func (s *Step) Unknown() string { return or(s.OnUnknown, Ask) }

// RetryKinds returns the kinds of errors that are retried.
func (s *Step) RetryKinds() []string {
	if s.RetryOn != nil {
		return s.RetryOn
	}
	return retryable
}

// retryable lists the kinds of errors that can be retried. All of them are by default.
var retryable = []string{"timeout", "unavailable", "conflict", "limit", "internal"}

// Timeout returns the time limit of one attempt; the default is 30 s.
func (s *Step) Timeout() time.Duration { return millis(s.TimeoutMs, defaultTimeout) }

// Parallel returns how many items of a map run at a time; the default is 4.
func (s *Step) Parallel() int {
	if s.Concurrency > 0 {
		return s.Concurrency
	}
	return defaultParallel
}

// ItemError returns the policy when an item of a map fails; the default is Stop.
func (s *Step) ItemError() string { return or(s.OnItemError, Stop) }

// Wait returns how long to wait for an approval; the default is 24 h.
func (s *Step) Wait() time.Duration { return millis(s.WaitMs, defaultWait) }

// WaitOver returns the policy when nobody answers in time; the default is Fail.
func (s *Step) WaitOver() string { return or(s.OnTimeout, Fail) }

// OverallTimeout returns the time limit of the run, excluding waits; the default is 10 min.
func (b *Body) OverallTimeout() time.Duration { return millis(b.OverallTimeoutMs, defaultOverall) }

func millis(ms, otherwise int64) time.Duration {
	if ms <= 0 {
		ms = otherwise
	}
	return duration.Of(ms, time.Millisecond)
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// Hash returns the SHA-256 of the canonical JSON (RFC 8785) of the body, without the positions at
// which steps are drawn.
func (b *Body) Hash() (string, error) {
	plain := *b
	plain.Steps = withoutUI(b.Steps)
	sum, err := jcs.Hash("helix.skill.body.v1", plain)
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(sum[:]), nil
}

func withoutUI(steps []Step) []Step {
	if steps == nil {
		return nil
	}
	out := make([]Step, len(steps))
	for i, s := range steps {
		s.UI = nil
		s.Steps, s.Else = withoutUI(s.Steps), withoutUI(s.Else)
		if s.Cases != nil {
			cases := make([]Case, len(s.Cases))
			for j, c := range s.Cases {
				cases[j] = Case{c.When, withoutUI(c.Steps)}
			}
			s.Cases = cases
		}
		out[i] = s
	}
	return out
}

// Walk calls visit for each step with its path in the definition, such as
// steps[2].cases[0].steps[1]. Outer steps come before inner ones.
func (b *Body) Walk(visit func(path string, s *Step)) { walk("steps", b.Steps, visit) }

func walk(path string, steps []Step, visit func(string, *Step)) {
	for i := range steps {
		s, at := &steps[i], index(path, i)
		visit(at, s)
		walk(at+".steps", s.Steps, visit)
		for j := range s.Cases {
			walk(index(at+".cases", j)+".steps", s.Cases[j].Steps, visit)
		}
		walk(at+".else", s.Else, visit)
	}
}
