package tools

import (
	"encoding/json"
	"time"

	"helix/backend/lifecycle"

	"github.com/google/uuid"
)

// Language is what the code of a tool is written in.
type Language string

// The languages.
const (
	TypeScript Language = "typescript"
	JavaScript Language = "javascript"
)

// Enum lists the values for the generated client.
func (Language) Enum() []string { return []string{"typescript", "javascript"} }

// Profile names a set of sandbox limits and the capabilities that may be asked for at all.
type Profile string

// The profiles, from the tightest to the widest.
const (
	Strict     Profile = "strict"     // state and other tools only; 10 s, 64 MB
	Standard   Profile = "standard"   // adds reading files, the network, secrets and MCP; 30 s, 128 MB
	Permissive Profile = "permissive" // adds writing to the tool's own folder; 60 s, 256 MB
)

// Enum lists the values for the generated client.
func (Profile) Enum() []string { return []string{"strict", "standard", "permissive"} }

// Visibility says who may read a tool.
type Visibility string

// The visibilities.
const (
	Private Visibility = "private" // only its owner
	Public  Visibility = "public"  // anybody may read and clone it; nobody else may run it
)

// Enum lists the values for the generated client.
func (Visibility) Enum() []string { return []string{"private", "public"} }

// Origin says how a tool came here.
type Origin string

// The origins. Everything but OriginLocal needs a trusted signature or one explicit
// "trust this version" before its first run.
const (
	OriginLocal  Origin = "local"
	OriginClone  Origin = "clone"
	OriginImport Origin = "import"
	OriginShare  Origin = "share"
	OriginHub    Origin = "hub"
)

// Enum lists the values for the generated client.
func (Origin) Enum() []string { return []string{"local", "clone", "import", "share", "hub"} }

// Limits lower the limits of a tool's profile; an absent field keeps the profile's value. A
// value above the profile's is refused when the tool is saved.
type Limits struct {
	WallMs      int64 `json:"wallMs,omitempty"`      // time on the clock, milliseconds
	CPUMs       int64 `json:"cpuMs,omitempty"`       // processor time, milliseconds
	MemoryMb    int64 `json:"memoryMb,omitempty"`    // memory of the instance, MiB
	OutputBytes int64 `json:"outputBytes,omitempty"` // size of the result as JSON
	HostCalls   int   `json:"hostCalls,omitempty"`   // calls to helix.* in one run
}

// Sample is a stored input of a tool, with the output it should give when that is known.
type Sample struct {
	Name     string          `json:"name"`
	Params   json.RawMessage `json:"params"`
	Expected json.RawMessage `json:"expected,omitempty"` // absent: any output will do
}

// Tool is a custom tool with all its fields.
type Tool struct {
	ID             uuid.UUID               `json:"id"`
	Name           string                  `json:"name"`        // unique among the user's tools, ignoring case
	Description    string                  `json:"description"` // read by people and by models
	Language       Language                `json:"language"`
	Code           string                  `json:"code"`
	Parameters     json.RawMessage         `json:"parameters"`   // JSON Schema of the parameters
	Capabilities   []string                `json:"capabilities"` // what the tool asks for; asking is not having
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
	SyncState      bool                    `json:"syncState"` // the tool's state travels to the user's other devices
	Mine           bool                    `json:"mine"`      // false: somebody else's public tool, to read or clone
	UsageCount     int64                   `json:"usageCount"`
	LastUsed       *time.Time              `json:"lastUsed,omitempty"`
	CreatedAt      time.Time               `json:"createdAt"`
	UpdatedAt      time.Time               `json:"updatedAt"`
	ApproxTokens   int                     `json:"approxTokens"` // about what describing it to a model costs: bytes of function name, description and schema / 4, rounded up

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
	Signed      bool       `json:"signed"` // carries a signature; tools.get tells whether it is trusted
	Suspended   bool       `json:"suspended"`
	Mine        bool       `json:"mine"`
	UpdatedAt   time.Time  `json:"updatedAt"`
	ShareID     *uuid.UUID `json:"shareId,omitempty"` // search only: open this share to read the tool
}

// ToolID names one tool.
type ToolID struct {
	ToolID uuid.UUID `json:"toolId"`
}

// ToolResult holds one tool.
type ToolResult struct {
	Tool Tool `json:"tool"`
}

// Changed is published when a tool of the user changes; Kind is created, updated, enabled,
// disabled, deleted, restored, signed, shared, unshared, state, secrets or signers. ToolID is
// the zero id when no single tool is meant.
type Changed struct {
	ToolID uuid.UUID `json:"toolId"`
	Kind   string    `json:"kind"`
}

// Execution reports a run. Seq counts from 1 within a run, so a client can put the reports
// in order; State is running, success, failure, timeout or canceled. Progress is the part of
// the time limit that has passed, 0 to 1. Log is a line the tool wrote.
type Execution struct {
	ExecutionID uuid.UUID `json:"executionId"`
	ToolID      uuid.UUID `json:"toolId"`
	Seq         int64     `json:"seq"`
	State       string    `json:"state"`
	Progress    float64   `json:"progress,omitempty"`
	Log         *LogLine  `json:"log,omitempty"`
}

// Suspended is published when a change of definition took a tool's grants out of force.
type Suspended struct {
	ToolID  uuid.UUID `json:"toolId"`
	OldHash string    `json:"oldHash"`
	NewHash string    `json:"newHash"`
}

// LogLine is one line that a tool wrote with console.* or helix.log.
type LogLine struct {
	At      time.Time       `json:"at"`
	Level   string          `json:"level"` // debug, info, warn or error
	Message string          `json:"message"`
	Fields  json.RawMessage `json:"fields,omitempty"`
}
