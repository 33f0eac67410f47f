// Package callable connects everything that can be called with JSON (tools, WASM tools, skills,
// built-ins) with everything that calls it (steps of skills, schedules, permission previews, helix
// call). A domain implements Provider and the composition root adds it to the Registry; callers
// depend only on the Registry. Any package above may import it.
package callable

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/permission"
	"helix/backend/schema"
	"helix/backend/storage"
)

// Kind identifies a provider. It is also the kind of the permission subject.
type Kind string

// The kinds of this build's providers. A Registry accepts other kinds too.
const (
	Tool    Kind = "tool"
	WASM    Kind = "wasm"
	Skill   Kind = "skill"
	Builtin Kind = "builtin"
	// Assistant is the kind of functions that only agents and people call, not steps of skills.
	Assistant Kind = "assistant"
)

// Ref identifies one callable.
type Ref struct {
	Kind Kind   `json:"kind"`
	ID   string `json:"id"`
}

// String returns the ref in readable form, such as tool:018f….
func (r Ref) String() string { return string(r.Kind) + ":" + r.ID }

// Effects describe what a call may do, like the annotations of MCP.
type Effects struct {
	ReadOnly    bool `json:"readOnly"`    // changes nothing outside itself
	Idempotent  bool `json:"idempotent"`  // calls with the same key take effect once
	Destructive bool `json:"destructive"` // may delete or overwrite
	OpenWorld   bool `json:"openWorld"`   // has effects beyond this computer
}

// Tier returns how much harm a call can do: readOnly or sideEffecting.
func (e Effects) Tier() string {
	if e.ReadOnly {
		return "readOnly"
	}
	return "sideEffecting"
}

// Info describes a callable for callers, pickers, models and permission prompts.
type Info struct {
	Ref
	Name         string          `json:"name"`
	Title        string          `json:"title,omitempty"`
	Description  string          `json:"description,omitempty"`
	Hash         string          `json:"hash,omitempty"`    // of its definition
	Version      string          `json:"version,omitempty"` // "": it has no versions that can be pinned
	Input        json.RawMessage `json:"input,omitempty"`   // JSON Schema 2020-12
	Output       json.RawMessage `json:"output,omitempty"`
	Effects      Effects         `json:"effects"`
	Capabilities []string        `json:"capabilities,omitempty"`
	Untrusted    bool            `json:"untrusted,omitempty"` // its results contain text from outside
	Blocked      Reason          `json:"blocked,omitempty"`   // why a call would be refused now; "": it would not be
}

// Request is one call.
type Request struct {
	Input   json.RawMessage // nil: {}
	Key     string          // the same for all attempts of one call, even after a restart
	Attempt int             // from 1, if the caller counts them
	Timeout time.Duration   // 0: that of the callable
	Hash    string          // hash of the definition that the caller expects; "": the current one
	Version string          // pinned version; "": the current one
	Budget  Budget          // for callables that spend; zero fields: no limit
	Caller  Caller
}

// Budget is what a call may spend on model usage.
type Budget struct {
	MaxTurns      int   `json:"maxTurns,omitempty"`
	MaxCostMicros int64 `json:"maxCostMicros,omitempty"`
}

// Caller is on whose behalf a call is made.
type Caller struct {
	Kind  string // skill, schedule, agent, voice; "": the person in the context
	ID    string
	Label string    // name shown in permission prompts
	Run   uuid.UUID // its run
	Step  string    // location in its run
	// Attended means that a person can answer a question. Otherwise a missing permission fails the
	// call and only leaves a pending approval.
	Attended  bool
	Authority *permission.Authority // what the caller holds; the callee gets no more. nil: that of the person
}

// Why describes the caller in a permission prompt.
func (c Caller) Why() string {
	if c.Kind == "" {
		return ""
	}
	name := strings.TrimSpace("the " + c.Kind + " " + c.Label)
	if c.Step != "" {
		return fmt.Sprintf("Step %s of %s", c.Step, name)
	}
	return strings.ToUpper(name[:1]) + name[1:]
}

// Result is the result of a call.
type Result struct {
	Output    json.RawMessage `json:"output"` // nil: null
	Notes     []string        `json:"notes,omitempty"`
	Untrusted bool            `json:"untrusted,omitempty"`
	Usage     Usage           `json:"usage"`
}

// Usage is what a call cost.
type Usage struct {
	Turns      int   `json:"turns,omitempty"`
	CostMicros int64 `json:"costMicros,omitempty"`
}

// Provider finds and calls the callables of one kind, on behalf of the user in the context. Errors
// are fault's; an error with a Refusal as details means that the call did not start.
type Provider interface {
	Kind() Kind
	// Find returns the callables that the user may call, by id or, if id is empty, by name: the
	// user's own first, then public ones. It returns nothing if there is none.
	Find(ctx context.Context, id, name string) ([]Info, error)
	// List returns everything the user may call.
	List(ctx context.Context) ([]Info, error)
	// Call returns when the callable has ended.
	Call(ctx context.Context, ref Ref, r Request) (Result, error)
	// Rights returns what a call with this input needs and what of it is granted now, without
	// asking anyone. Members of the input that are not known in advance are missing.
	Rights(ctx context.Context, i Info, input json.RawMessage) (permission.PreviewResult, error)
}

// Starter is a Provider with runs that outlive the process.
type Starter interface {
	// Enqueue creates a run in tx, so that it is committed together with its cause. The run does
	// not start yet. The transaction's context holds the user.
	Enqueue(tx *storage.Tx, ref Ref, r Request) (run uuid.UUID, err error)
	// Start starts such a run once tx is committed. It returns immediately and may be called again.
	Start(run uuid.UUID)
	// State returns the state of a run, or a NotFound error.
	State(ctx context.Context, run uuid.UUID) (State, error)
	// Cancel requests the end of a run and returns immediately.
	Cancel(ctx context.Context, run uuid.UUID, reason string) error
}

// State is the state of a run.
type State struct {
	Status        string // queued, running, waiting, success, failed or cancelled
	WaitReason    string
	Output        json.RawMessage
	ErrorKind     string
	Error         string
	Unknown       bool // an effect may have happened: the run must not be retried
	NeedsApproval bool // it failed because a permission is missing
	Notice        *Notice
	Usage         Usage
	StartedAt     time.Time
	FinishedAt    time.Time
}

// Notice is a notification that a run requests.
type Notice struct{ Title, Body, Level string }

// Versioned is a Provider with callables that can be pinned to a version.
type Versioned interface {
	// FindVersion returns a callable at a version, or nothing if there is no such version.
	FindVersion(ctx context.Context, id, version string) ([]Info, error)
}

// Differ is a Provider that stores the definitions of its callables itself.
type Differ interface {
	Diff(ctx context.Context, p permission.DiffParams) (permission.DiffResult, error)
}

// Reason is why a call was refused. Reasons of package permission have the same names.
type Reason string

// Reasons in addition to those of permission.
const (
	ReasonGone     Reason = "gone"     // there is no such callable
	ReasonForeign  Reason = "foreign"  // it belongs to another user and must be cloned first
	ReasonDisabled Reason = "disabled" // the user disabled it
	ReasonDraft    Reason = "draft"    // its definition has errors
	ReasonInput    Reason = "input"    // the input does not match the schema

	ReasonChanged       Reason = permission.ReasonDefinitionChanged
	ReasonNeedsApproval Reason = permission.ReasonNeedsApproval
	ReasonCallerLacks   Reason = permission.ReasonCallerLacks
)

// Refusal is the detail of the error of a call that was refused before it started, so that it can
// be retried safely.
type Refusal struct {
	Reason            Reason    `json:"reason"`
	PendingApprovalID uuid.UUID `json:"pendingApprovalId,omitzero"` // the question that would permit it
	Problems          []Problem `json:"errors,omitempty"`
}

// Problem is one location where a value violates a schema.
type Problem = schema.Finding

// RefusalOf returns why the call that failed with err was refused. ok is false if it was not.
func RefusalOf(err error) (Refusal, bool) {
	if err == nil {
		return Refusal{}, false
	}
	r, ok := fault.As(err).Details.(Refusal)
	return r, ok
}

// NotFound returns the refusal for a callable that does not exist.
func NotFound(ref Ref) error {
	return fault.NotFoundf("%q was not found.", ref.ID).WithDetails(Refusal{Reason: ReasonGone})
}

// CheckInput returns an error for an input that does not match the schema of i.
func CheckInput(ctx context.Context, i Info, input json.RawMessage) error {
	return CheckInputWith(ctx, schema.CheckJSON, i, input)
}

// CheckInputWith is CheckInput with another way to check a text, such as that of a schema.Cache.
func CheckInputWith(ctx context.Context, check func(ctx context.Context, raw, value json.RawMessage) ([]Problem, error), i Info, input json.RawMessage) error {
	if len(i.Input) == 0 || string(i.Input) == "null" {
		return nil
	}
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	list, err := check(ctx, i.Input, input)
	if err != nil || len(list) == 0 {
		return err
	}
	where := list[0].Path
	if where == "" {
		where = "the whole"
	}
	return fault.Invalidf("The input isn't valid: %s: %s.", where, list[0].Message).WithDetails(Refusal{Reason: ReasonInput, Problems: list})
}
