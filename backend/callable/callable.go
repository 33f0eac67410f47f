// Package callable is the joint between everything that can be called with JSON (tools, WASM
// tools, skills, built-ins) and everything that calls (steps of skills, schedules, rights
// previews, helix call). A domain implements Provider beside its own code and the composition
// root adds it to the Registry; a caller knows the Registry alone. Anyone above may import it.
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

// Kind names a provider. It is also the kind of the subject that permission knows.
type Kind string

// The kinds of this build's providers. Any other name may be added to a Registry.
const (
	Tool    Kind = "tool"
	WASM    Kind = "wasm"
	Skill   Kind = "skill"
	Builtin Kind = "builtin"
	// Assistant is the kind of functions that only agents and people call: no step of a skill does.
	Assistant Kind = "assistant"
)

// Ref names one callable.
type Ref struct {
	Kind Kind   `json:"kind"`
	ID   string `json:"id"`
}

// String is the ref as people write it, such as tool:018f….
func (r Ref) String() string { return string(r.Kind) + ":" + r.ID }

// Effects say what a call may do, as MCP's annotations do.
type Effects struct {
	ReadOnly    bool `json:"readOnly"`    // changes nothing outside itself
	Idempotent  bool `json:"idempotent"`  // calls with the same key act once
	Destructive bool `json:"destructive"` // may delete or overwrite
	OpenWorld   bool `json:"openWorld"`   // reaches beyond this computer
}

// Tier is how much harm a call can do: readOnly or sideEffecting.
func (e Effects) Tier() string {
	if e.ReadOnly {
		return "readOnly"
	}
	return "sideEffecting"
}

// Info is what a caller, a picker, a model and a permission prompt need to know.
type Info struct {
	Ref
	Name         string          `json:"name"`
	Title        string          `json:"title,omitempty"`
	Description  string          `json:"description,omitempty"`
	Hash         string          `json:"hash,omitempty"`    // of its definition
	Version      string          `json:"version,omitempty"` // "": it has none that can be pinned
	Input        json.RawMessage `json:"input,omitempty"`   // JSON Schema 2020-12
	Output       json.RawMessage `json:"output,omitempty"`
	Effects      Effects         `json:"effects"`
	Capabilities []string        `json:"capabilities,omitempty"`
	Untrusted    bool            `json:"untrusted,omitempty"` // its results hold text from outside
	Blocked      Reason          `json:"blocked,omitempty"`   // why a call would be refused now; "": it would not
}

// Request is one call.
type Request struct {
	Input   json.RawMessage // nil: {}
	Key     string          // the same in all attempts of one call, also after a restart
	Attempt int             // from 1, when the caller counts them
	Timeout time.Duration   // 0: what the callable says
	Hash    string          // the definition that the caller counts on; "": whatever it is now
	Version string          // pinned version; "": the current one
	Budget  Budget          // for what spends; zero fields: no limit of the caller's
	Caller  Caller
}

// Budget is what a call may spend on models.
type Budget struct {
	MaxTurns      int   `json:"maxTurns,omitempty"`
	MaxCostMicros int64 `json:"maxCostMicros,omitempty"`
}

// Caller is on whose behalf a call is made.
type Caller struct {
	Kind  string // skill, schedule, agent, voice; "": the person in the context
	ID    string
	Label string    // its name, shown in permission prompts
	Run   uuid.UUID // its run
	Step  string    // the place in its run
	// Attended says that a person can answer a question; otherwise a missing right is final and
	// only leaves a pending approval.
	Attended  bool
	Authority *permission.Authority // what the caller holds; the callee gets no more. nil: the person
}

// Why says in a permission prompt who asks.
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

// Result is what came of a call.
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

// Provider finds and calls the callables of one kind. Everything acts for the user in the
// context. Errors are fault's; one whose Details are a Refusal says that nothing has begun.
type Provider interface {
	Kind() Kind
	// Find gives what the user may call by id when it is not empty, else by name: the user's
	// own first, then public ones; nothing when there is none.
	Find(ctx context.Context, id, name string) ([]Info, error)
	// List gives everything the user may call.
	List(ctx context.Context) ([]Info, error)
	// Call returns once the callable has ended.
	Call(ctx context.Context, ref Ref, r Request) (Result, error)
	// Rights says what a call with this input needs and what of it is granted now, without
	// asking anybody. Of an input that is not known before, members are missing.
	Rights(ctx context.Context, i Info, input json.RawMessage) (permission.PreviewResult, error)
}

// Starter is a Provider whose runs outlive the process.
type Starter interface {
	// Enqueue makes a run in tx, together with what wants it; it does not begin yet. The
	// transaction's context holds the user.
	Enqueue(tx *storage.Tx, ref Ref, r Request) (run uuid.UUID, err error)
	// Start begins such a run once tx is committed. It returns at once and may be repeated.
	Start(run uuid.UUID)
	// State tells how a run stands; NotFound when it is not there.
	State(ctx context.Context, run uuid.UUID) (State, error)
	// Cancel asks a run to end and returns at once.
	Cancel(ctx context.Context, run uuid.UUID, reason string) error
}

// State is how a run stands.
type State struct {
	Status        string // queued, running, waiting, success, failed or cancelled
	WaitReason    string
	Output        json.RawMessage
	ErrorKind     string
	Error         string
	Unknown       bool // an effect may have happened: do not try the run again
	NeedsApproval bool // it failed because a right is missing
	Notice        *Notice
	Usage         Usage
	StartedAt     time.Time
	FinishedAt    time.Time
}

// Notice is what a run asks to show.
type Notice struct{ Title, Body, Level string }

// Versioned is a Provider whose callables can be pinned to a version.
type Versioned interface {
	// FindVersion gives a callable as it was at a version; nothing when it had none.
	FindVersion(ctx context.Context, id, version string) ([]Info, error)
}

// Differ is a Provider that keeps the definitions of its callables itself.
type Differ interface {
	Diff(ctx context.Context, p permission.DiffParams) (permission.DiffResult, error)
}

// Reason says why a call was refused. Those that permission gives keep its names.
type Reason string

// The reasons beside those of permission.
const (
	ReasonGone     Reason = "gone"     // there is no such callable
	ReasonForeign  Reason = "foreign"  // somebody else's: clone it first
	ReasonDisabled Reason = "disabled" // the user turned it off
	ReasonDraft    Reason = "draft"    // its definition has errors
	ReasonInput    Reason = "input"    // the input breaks the schema

	ReasonChanged       Reason = permission.ReasonDefinitionChanged
	ReasonNeedsApproval Reason = permission.ReasonNeedsApproval
	ReasonCallerLacks   Reason = permission.ReasonCallerLacks
)

// Refusal is the detail of an error of a call that was refused before it began: a later attempt
// is safe.
type Refusal struct {
	Reason            Reason    `json:"reason"`
	PendingApprovalID uuid.UUID `json:"pendingApprovalId"` // the question that would lift it, or zero
	Problems          []Problem `json:"errors,omitempty"`
}

// Problem is one place where a value breaks a schema.
type Problem = schema.Finding

// RefusalOf gives why the call that ended with err was refused; false: it was not.
func RefusalOf(err error) (Refusal, bool) {
	if err == nil {
		return Refusal{}, false
	}
	r, ok := fault.As(err).Details.(Refusal)
	return r, ok
}

// NotFound is the refusal for a callable that is not there.
func NotFound(ref Ref) error {
	return fault.NotFoundf("No %s is named %q.", ref.Kind, ref.ID).WithDetails(Refusal{Reason: ReasonGone})
}

// CheckInput refuses an input that breaks the schema of i.
func CheckInput(ctx context.Context, i Info, input json.RawMessage) error {
	if len(i.Input) == 0 || string(i.Input) == "null" {
		return nil
	}
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	list, err := schema.CheckJSON(ctx, i.Input, input)
	if err != nil || len(list) == 0 {
		return err
	}
	where := list[0].Path
	if where == "" {
		where = "the whole"
	}
	return fault.Invalidf("The input isn't valid: %s: %s.", where, list[0].Message).WithDetails(Refusal{Reason: ReasonInput, Problems: list})
}
