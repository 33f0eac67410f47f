package skills

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"helix/backend/permission"
	"helix/backend/skills/definition"
	"helix/backend/storage"
)

// Runner finds and calls one kind of thing that steps use: custom tools, WASM skills, the
// tools of MCP servers. The composition root gives one a kind.
type Runner interface {
	// Find gives what the user may call by id when it is not empty, else by exact name: own
	// things first, then public ones; nothing when there is none.
	Find(ctx context.Context, id, name string) ([]definition.Callable, error)
	// List gives everything the user may call, for pickers.
	List(ctx context.Context) ([]definition.Callable, error)
	// Call calls it and returns once it has ended. An error is one of fault's.
	Call(ctx context.Context, c Call) (Reply, error)
	// Rights says what a call needs and what of it is granted now, without asking anybody.
	Rights(ctx context.Context, c definition.Callable) (Rights, error)
}

// ToolRunner reaches custom tools; it may also be a ToolSharer and a ToolMaker.
type ToolRunner = Runner

// WasmRunner reaches WASM skills.
type WasmRunner = Runner

// MCPRunner reaches the tools of MCP servers.
type MCPRunner = Runner

// Call is one attempt of a step.
type Call struct {
	Target    definition.Callable // as it was found when the run began
	Input     json.RawMessage
	Key       string        // idempotency key: the same in all attempts and after each restart
	Timeout   time.Duration // of this attempt; the context also ends then
	Run       uuid.UUID     // execution of the composite skill
	Skill     string        // its name, shown in permission prompts
	StepPath  string
	Iteration string
	Attempt   int       // from 1
	StartedAt time.Time // of the first intent, so that durable waits continue after a restart
	Trigger   string
	// Attended says that a person can answer a question later; otherwise a missing right is
	// final and only leaves a pending approval.
	Attended  bool
	Authority *permission.Authority // of the calling agent or skill; nil: the user
}

// Reply is what came of a call that the callee carried out.
type Reply struct {
	Output json.RawMessage
	// Notes are short texts about the call, such as that a log could not be written.
	Notes []string
}

// Refused is the error detail of a call that was refused before it began because a right is
// missing: a later attempt is safe.
type Refused struct {
	PendingApprovalID uuid.UUID `json:"pendingApprovalId"`
	Reason            string    `json:"reason"`
}

// Rights is what a call needs.
type Rights struct {
	Needs   []string // capabilities such as network:https(api.example.org)
	Granted []string
	Missing []string
	Tier    string // readOnly, sideEffecting or privileged
	Denied  string // why it is refused outright; empty: it is not
}

// Gate tells about the answers to pending approvals.
type Gate interface {
	// Answered tells how a pending approval was answered: approved, denied, expired, or open.
	Answered(ctx context.Context, id uuid.UUID) (string, error)
}

// Auditor writes to the audit log in the transaction of what it records.
type Auditor interface {
	Append(tx *storage.Tx, action, outcome string, skill uuid.UUID, run uuid.UUID, details any) error
}

// Builtin is a step that Helix itself brings. Register gives it to the service.
type Builtin struct {
	Name         string // such as time.now
	Title        string // what it does, a sentence
	InputSchema  json.RawMessage
	OutputSchema json.RawMessage
	Tier         string // readOnly, sideEffecting, privileged
	Idempotent   bool
	Capabilities []string // that a call needs, shown in rights
	// Rights says what a step needs and what of it is granted now, without asking anybody;
	// nil: it needs Capabilities, and whether they are granted shows at the call.
	Rights func(ctx context.Context, step *definition.Step) (Rights, error)
	// Run carries it out. ctx holds the user.
	Run func(ctx context.Context, c Call) (json.RawMessage, error)
}
