package tools

import (
	"encoding/json"
	"time"

	"helix/backend/lifecycle"

	"github.com/google/uuid"
)

// Language is the programming language of a tool.
type Language string

// The languages.
const (
	TypeScript Language = "typescript"
	JavaScript Language = "javascript"
)

// Enum lists the values for the generated client.
func (Language) Enum() []string { return []string{"typescript", "javascript"} }

// Profile names a set of sandbox limits and the capabilities that may be requested.
type Profile string

// The profiles, from the most to the least restrictive.
const (
	Strict     Profile = "strict"     // only state and other tools; 10 s, 64 MB
	Standard   Profile = "standard"   // also reading files, the network, secrets and MCP; 30 s, 128 MB
	Permissive Profile = "permissive" // also writing to the tool's own folder; 60 s, 256 MB
)

// Enum lists the values for the generated client.
func (Profile) Enum() []string { return []string{"strict", "standard", "permissive"} }

// Visibility is who may read a tool.
type Visibility string

// The visibilities.
const (
	Private Visibility = "private" // only its owner
	Public  Visibility = "public"  // anybody may read and clone it, but only its owner may run it
)

// Enum lists the values for the generated client.
func (Visibility) Enum() []string { return []string{"private", "public"} }

// Origin is how a tool was added to this installation.
type Origin string

// The origins. All except OriginLocal need a trusted signature or one explicit "trust this version"
// before the first run.
const (
	OriginLocal  Origin = "local"
	OriginClone  Origin = "clone"
	OriginImport Origin = "import"
	OriginShare  Origin = "share"
	OriginHub    Origin = "hub"
)

// Enum lists the values for the generated client.
func (Origin) Enum() []string { return []string{"local", "clone", "import", "share", "hub"} }

// Limits lower the limits of a tool's profile. An absent field keeps the profile's value. A value
// above the profile's is rejected when the tool is saved.
type Limits struct {
	WallMs      int64 `json:"wallMs,omitempty"`      // elapsed time, milliseconds
	CPUMs       int64 `json:"cpuMs,omitempty"`       // processor time, milliseconds
	MemoryMb    int64 `json:"memoryMb,omitempty"`    // memory of the instance, MiB
	OutputBytes int64 `json:"outputBytes,omitempty"` // size of the result as JSON
	HostCalls   int   `json:"hostCalls,omitempty"`   // calls to helix.* in one run
}

// Sample is a stored input of a tool, with the expected output if it is known.
type Sample struct {
	Name     string          `json:"name"`
	Params   json.RawMessage `json:"params"`
	Expected json.RawMessage `json:"expected,omitempty"` // absent: any output is accepted
}

// Tool is a tool with all its fields.
type Tool struct {
	ID             uuid.UUID               `json:"id"`
	Name           string                  `json:"name"`        // unique among the user's tools, ignoring case
	Description    string                  `json:"description"` // read by people and by models
	Language       Language                `json:"language"`
	Code           string                  `json:"code"`
	Parameters     json.RawMessage         `json:"parameters"`   // JSON Schema of the parameters
	Capabilities   []string                `json:"capabilities"` // requested, but not necessarily granted
	SandboxProfile Profile                 `json:"sandboxProfile"`
	Limits         *Limits                 `json:"limits,omitempty"`
	Version        string                  `json:"version"`        // semantic version of the current definition
	DefinitionHash string                  `json:"definitionHash"` // 64 hex digits; grants are bound to it
	Author         string                  `json:"author"`
	Signature      lifecycle.SignatureInfo `json:"signature"`
	Samples        []Sample                `json:"samples"`
	Tags           []string                `json:"tags"`
	Icon           string                  `json:"icon"`
	Origin         Origin                  `json:"origin"`
	CloneSourceID  *uuid.UUID              `json:"cloneSourceId,omitempty"`
	Visibility     Visibility              `json:"visibility"`
	IsEnabled      bool                    `json:"isEnabled"`
	Suspended      bool                    `json:"suspended"` // its definition changed and waits for approval
	SyncState      bool                    `json:"syncState"` // the tool's state is synced to the user's other devices
	Mine           bool                    `json:"mine"`      // false: another user's public tool, to read or clone
	UsageCount     int64                   `json:"usageCount"`
	LastUsed       *time.Time              `json:"lastUsed,omitempty"`
	CreatedAt      time.Time               `json:"createdAt"`
	UpdatedAt      time.Time               `json:"updatedAt"`
	ApproxTokens   int                     `json:"approxTokens"` // approximate cost of describing it to a model: bytes of function name, description and schema / 4, rounded up

	owner uuid.UUID
	hash  [32]byte
	sig   *signature
}

// Summary is a tool in a list.
type Summary struct {
	ID          uuid.UUID  `json:"id"`
	Name        string     `json:"name"`
	Description string     `json:"description"`
	Version     string     `json:"version"`
	UsageCount  int64      `json:"usageCount"`
	LastUsed    *time.Time `json:"lastUsed,omitempty"`
	LastStatus  string     `json:"lastStatus,omitempty"` // result of the last run: success, failure or timeout
	IsEnabled   bool       `json:"isEnabled"`
	Visibility  Visibility `json:"visibility"`
	Icon        string     `json:"icon"`
	Tags        []string   `json:"tags"`
	Origin      Origin     `json:"origin"`
	Signed      bool       `json:"signed"` // has a signature; tools.get returns whether it is trusted
	Suspended   bool       `json:"suspended"`
	Mine        bool       `json:"mine"`
	UpdatedAt   time.Time  `json:"updatedAt"`
	ShareID     *uuid.UUID `json:"shareId,omitempty"` // search only: the share to open to read the tool
}

// ToolID identifies one tool.
type ToolID struct {
	ToolID uuid.UUID `json:"toolId"`
}

// ToolResult contains one tool.
type ToolResult struct {
	Tool Tool `json:"tool"`
}

// Changed is published when a tool of the user changes. Kind is created, updated, enabled,
// disabled, deleted, restored, signed, shared, unshared, state, secrets or signers. ToolID is zero
// if the change does not concern a single tool.
type Changed struct {
	ToolID uuid.UUID `json:"toolId"`
	Kind   string    `json:"kind"`
}

// Execution reports the progress of a run. Seq counts from 1 within a run, so that a client can
// order the reports. State is running, success, failure, timeout or canceled. Progress is the
// fraction of the time limit that has passed, 0 to 1. Log is a line written by the tool.
type Execution struct {
	ExecutionID uuid.UUID `json:"executionId"`
	ToolID      uuid.UUID `json:"toolId"`
	Seq         int64     `json:"seq"`
	State       string    `json:"state"`
	Progress    float64   `json:"progress,omitempty"`
	Log         *LogLine  `json:"log,omitempty"`
}

// Suspended is published when a change of definition suspends a tool's grants.
type Suspended struct {
	ToolID  uuid.UUID `json:"toolId"`
	OldHash string    `json:"oldHash"`
	NewHash string    `json:"newHash"`
}

// LogLine is one line written by a tool with console.* or helix.log.
type LogLine struct {
	At      time.Time       `json:"at"`
	Level   string          `json:"level"` // debug, info, warn or error
	Message string          `json:"message"`
	Fields  json.RawMessage `json:"fields,omitempty"`
}
