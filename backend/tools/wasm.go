package tools

import (
	"encoding/json"
	"time"

	"helix/backend/lifecycle"

	"github.com/google/uuid"

	"helix/backend/sandbox"
)

// wasmKind is what permission and audit call a WASM skill.
const wasmKind = "wasm"

// WasmSkill is a WebAssembly module that was installed as a skill. Its bytes are kept once in
// the blob store under their content address.
type WasmSkill struct {
	ID             uuid.UUID               `json:"id"`
	Name           string                  `json:"name"` // unique among the user's WASM skills, ignoring case
	Description    string                  `json:"description"`
	WasmBytecode   string                  `json:"wasmBytecode"` // content address: sha256: and 64 hex digits
	WasmSize       int64                   `json:"wasmSize"`     // bytes
	ABI            WasmABI                 `json:"abi"`
	Version        string                  `json:"version"`   // semantic version; rises with each new bytecode
	TimeoutMs      int64                   `json:"timeoutMs"` // time limit of a run on the clock, 100..60000
	MemoryMb       int64                   `json:"memoryMb"`  // memory of a run: 64, 128 or 256 MiB
	Capabilities   []string                `json:"capabilities"`
	InputSchema    json.RawMessage         `json:"inputSchema"`    // JSON Schema of the input; {} accepts anything
	DefinitionHash string                  `json:"definitionHash"` // 64 hex digits; grants are bound to it
	Signature      lifecycle.SignatureInfo `json:"signature"`
	Signer         string                  `json:"signer"` // who signed it, or "unsigned"
	Origin         WasmOrigin              `json:"origin"`
	IsEnabled      bool                    `json:"isEnabled"`
	Suspended      bool                    `json:"suspended"`  // its definition changed and waits for approval
	Downloaded     bool                    `json:"downloaded"` // the module's bytes are on this device
	Tier           string                  `json:"tier"`       // where it will run: t0 or t1
	Isolation      string                  `json:"isolation"`  // that a run will have: inprocess, process, process+landlock or process+landlock+bwrap
	Reasons        []string                `json:"reasons"`    // why the isolation is weaker than it could be, such as bwrap_missing
	Runs           int64                   `json:"runs"`
	LastStatus     SkillStatus             `json:"lastStatus,omitempty"` // of the last run
	LastRun        *time.Time              `json:"lastRun,omitempty"`
	CreatedAt      time.Time               `json:"createdAt"`
	UpdatedAt      time.Time               `json:"updatedAt"`

	owner uuid.UUID
	hash  [32]byte
	sig   *signature
	draft bool // not stored: it runs once
}

// WasmABI is how a module is called.
type WasmABI string

// The ABIs. Both read the input as JSON from standard input and write the output as JSON to
// standard output.
const (
	ABIExecute WasmABI = "execute" // exports execute() and memory
	ABICommand WasmABI = "command" // exports _start; exit code 0 is success
)

// Enum lists the values for the generated client.
func (WasmABI) Enum() []string { return []string{"execute", "command"} }

// WasmOrigin says how a WASM skill came here.
type WasmOrigin string

// The origins. A local module runs in process like the user's own tools; every other one
// does so only when a trusted key signed it.
const (
	WasmLocal  WasmOrigin = "local"  // built by the user, who says so; needs the right to approve
	WasmImport WasmOrigin = "import" // installed from a file
	WasmHub    WasmOrigin = "hub"
)

// Enum lists the values for the generated client.
func (WasmOrigin) Enum() []string { return []string{"local", "import", "hub"} }

// SkillStatus is the state of one execution of a skill.
type SkillStatus string

// The states of an execution.
const (
	SkillRunning  SkillStatus = "running"
	SkillSuccess  SkillStatus = "success"
	SkillFailure  SkillStatus = "failure"
	SkillTimeout  SkillStatus = "timeout" // time or processor limit
	SkillCanceled SkillStatus = "canceled"
)

// Enum lists the values for the generated client.
func (SkillStatus) Enum() []string {
	return []string{"running", "success", "failure", "timeout", "canceled"}
}

// WasmReport is what an installation finds out about a module. Errors stop the installation,
// warnings never do.
type WasmReport struct {
	Valid        bool                    `json:"valid"` // no errors
	Errors       []WasmProblem           `json:"errors"`
	Warnings     []WasmProblem           `json:"warnings"`
	Info         *sandbox.ModuleInfo     `json:"info,omitempty"`    // absent when the bytes are no module
	Capabilities []string                `json:"capabilities"`      // that are asked for, in normal form
	Tier         string                  `json:"tier"`              // where it will run: t0 or t1
	Isolation    string                  `json:"isolation"`         // that a run will have
	Reasons      []string                `json:"reasons"`           // why the isolation is weaker than it could be
	Refused      string                  `json:"refused,omitempty"` // why it would not run on this computer
	Signature    lifecycle.SignatureInfo `json:"signature"`
	Signer       string                  `json:"signer"` // who signed it, or "unsigned"
}

// WasmProblem is one finding about a module or its description. Offset is the place in the
// module's bytes and Feature the part of WebAssembly that is refused, when there is one.
type WasmProblem struct {
	Code    string `json:"code"`  // stable name: compile, missing_export, capability, schema, signature, …
	Field   string `json:"field"` // wasm, capabilities, inputSchema, …
	Message string `json:"message"`
	Offset  *int64 `json:"offset,omitempty"`
	Feature string `json:"feature,omitempty"`
}

// CreateWasmParams install a module. Give its bytes in Wasm, or upload them first with
// skills.upload_wasm and name them in BlobSHA256.
type CreateWasmParams struct {
	Name         string                     `json:"name"` // 1..64 letters, digits, spaces, "_", "-" or "."
	Description  string                     `json:"description,omitempty"`
	Wasm         []byte                     `json:"wasm,omitempty"`       // the module in base64, at most 32 MiB
	BlobSHA256   string                     `json:"blobSha256,omitempty"` // of an uploaded module or of one of the user's skills
	Version      string                     `json:"version,omitempty"`    // default 1.0.0
	TimeoutMs    int64                      `json:"timeoutMs,omitempty"`  // 100..60000, default 5000
	MemoryMb     int64                      `json:"memoryMb,omitempty"`   // 64, 128 (default) or 256
	Capabilities []string                   `json:"capabilities,omitempty"`
	InputSchema  json.RawMessage            `json:"inputSchema,omitempty"`
	Signature    *lifecycle.BundleSignature `json:"signature,omitempty"` // of its author over the definition
	Origin       WasmOrigin                 `json:"origin,omitempty"`    // default import; local needs the right to approve
}

// CreateWasmResult holds the new skill and what the installation found out.
type CreateWasmResult struct {
	Skill  WasmSkill  `json:"skill"`
	Report WasmReport `json:"report"`
}

// ValidateWasmParams name a module to look at, and what would be asked for with it.
type ValidateWasmParams struct {
	Wasm         []byte          `json:"wasm,omitempty"`
	BlobSHA256   string          `json:"blobSha256,omitempty"`
	Capabilities []string        `json:"capabilities,omitempty"`
	InputSchema  json.RawMessage `json:"inputSchema,omitempty"`
	MemoryMb     int64           `json:"memoryMb,omitempty"`
}

// UploadWasmParams carry a part of a module that is too large for one call. The first part
// has no UploadID; Done marks the last.
type UploadWasmParams struct {
	UploadID *uuid.UUID `json:"uploadId,omitempty"`
	Offset   int64      `json:"offset,omitempty"` // where Data belongs: the size received so far
	Data     []byte     `json:"data"`             // base64; up to 8 MiB a part
	Done     bool       `json:"done,omitempty"`
}

// UploadWasmResult says how much has arrived; with the last part it names the blob.
type UploadWasmResult struct {
	UploadID   uuid.UUID `json:"uploadId"`
	Size       int64     `json:"size"`
	BlobSHA256 string    `json:"blobSha256,omitempty"` // for skills.validate_wasm and skills.create_wasm, within an hour
}

// ListWasmParams choose from the user's WASM skills.
type ListWasmParams struct {
	Query   string `json:"query,omitempty"` // part of name or description; every character is literal
	Enabled *bool  `json:"enabled,omitempty"`
	Limit   int    `json:"limit,omitempty"` // 1..100, default 50
	Offset  int    `json:"offset,omitempty"`
}

// ListWasmResult is one page, the last changed first; Total counts all matches.
type ListWasmResult struct {
	Skills []WasmSkill `json:"skills"`
	Total  int         `json:"total"`
	Limit  int         `json:"limit"`
	Offset int         `json:"offset"`
}

// SkillID names one skill.
type SkillID struct {
	SkillID uuid.UUID `json:"skillId"`
}

// GetWasmParams name a skill; with Report its module is looked at again.
type GetWasmParams struct {
	SkillID uuid.UUID `json:"skillId"`
	Report  bool      `json:"report,omitempty"`
}

// GetWasmResult holds a skill and, when it was asked for and the module is on this device,
// the report about it.
type GetWasmResult struct {
	Skill  WasmSkill   `json:"skill"`
	Report *WasmReport `json:"report,omitempty"`
}

// UpdateWasmParams change a skill. BaseVersion, when given, is the version that the caller
// read; when the skill has moved on since, the answer is a conflict.
type UpdateWasmParams struct {
	SkillID     uuid.UUID `json:"skillId"`
	Patch       WasmPatch `json:"patch"`
	BaseVersion string    `json:"baseVersion,omitempty"`
}

// WasmPatch names the fields to change; an absent field is left as it is. New bytes raise the
// version unless the patch names one. New bytes, capabilities, input schema or description
// put the grants of the former definition out of force.
type WasmPatch struct {
	Name         *string                    `json:"name,omitempty"`
	Description  *string                    `json:"description,omitempty"`
	Wasm         []byte                     `json:"wasm,omitempty"`
	BlobSHA256   string                     `json:"blobSha256,omitempty"`
	Version      *string                    `json:"version,omitempty"`
	TimeoutMs    *int64                     `json:"timeoutMs,omitempty"`
	MemoryMb     *int64                     `json:"memoryMb,omitempty"`
	Capabilities *[]string                  `json:"capabilities,omitempty"`
	InputSchema  json.RawMessage            `json:"inputSchema,omitempty"`
	Signature    *lifecycle.BundleSignature `json:"signature,omitempty"`
	IsEnabled    *bool                      `json:"isEnabled,omitempty"`
}

// UpdateWasmResult holds the changed skill, the report when its definition changed, and the
// grants that the change put out of force until the new definition is approved.
type UpdateWasmResult struct {
	Skill           WasmSkill   `json:"skill"`
	Report          *WasmReport `json:"report,omitempty"`
	SuspendedGrants []uuid.UUID `json:"suspendedGrants"`
}

// DeleteWasmResult says until when skills.restore_wasm brings the skill back.
type DeleteWasmResult struct {
	UndoUntil time.Time `json:"undoUntil"`
}

// WasmSkillResult holds one skill.
type WasmSkillResult struct {
	Skill WasmSkill `json:"skill"`
}

// ExecuteSkillParams run a skill.
type ExecuteSkillParams struct {
	SkillID     uuid.UUID       `json:"skillId"`
	Input       json.RawMessage `json:"input,omitempty"`       // any JSON, at most 4 MiB; default {}
	TimeoutMs   int64           `json:"timeoutMs,omitempty"`   // lowers the time limit of this run
	Interactive bool            `json:"interactive,omitempty"` // wait up to 120 s for an approval instead of ending denied
}

// ExecuteSkillResult is how a run ended. A skill that failed is a result with Success false,
// not an error of the call; calls that never started the skill are errors.
type ExecuteSkillResult struct {
	Success           bool            `json:"success"`
	Output            json.RawMessage `json:"output,omitempty"`
	Error             string          `json:"error,omitempty"`
	ErrorClass        string          `json:"errorClass,omitempty"` // thrown, trap, timeout, cpu, memory, output, input, host_denied, canceled, …
	ErrorStack        string          `json:"errorStack,omitempty"` // of JavaScript: positions in its own text
	ErrorDetails      json.RawMessage `json:"errorDetails,omitempty"`
	ExecutionID       uuid.UUID       `json:"executionId"`
	Status            SkillStatus     `json:"status"`
	ExecutionTimeMs   float64         `json:"executionTimeMs"`
	CPUTimeMs         float64         `json:"cpuTimeMs"`
	PeakMemoryBytes   int64           `json:"peakMemoryBytes"`
	HostCalls         int             `json:"hostCalls"`
	Fuel              uint64          `json:"fuel"` // units of work that were metered
	OutputBytes       int64           `json:"outputBytes"`
	Logs              []LogLine       `json:"logs"`
	Tier              string          `json:"tier"`      // t0 or t1
	Isolation         string          `json:"isolation"` // inprocess, process, process+landlock or process+landlock+bwrap
	Reasons           []string        `json:"reasons"`   // why the isolation is weaker than it could be
	Limits            SkillLimits     `json:"limits"`
	AuditLog          []AuditEntry    `json:"auditLog"`
	PendingApprovalID *uuid.UUID      `json:"pendingApprovalId,omitempty"`
	Warnings          []string        `json:"warnings,omitempty"`
}

// SkillLimits are the limits that a run had.
type SkillLimits struct {
	WallMs      int64 `json:"wallMs"`
	CPUMs       int64 `json:"cpuMs"`
	MemoryBytes int64 `json:"memoryBytes"`
	InputBytes  int64 `json:"inputBytes"`
	OutputBytes int64 `json:"outputBytes"`
	LogBytes    int64 `json:"logBytes"`
	HostCalls   int   `json:"hostCalls"`
}

// SkillExecutionsParams choose from the runs of a skill, newest first.
type SkillExecutionsParams struct {
	SkillID uuid.UUID   `json:"skillId"`
	Status  SkillStatus `json:"status,omitempty"`
	Limit   int         `json:"limit,omitempty"`  // 1..100, default 50
	Before  *uuid.UUID  `json:"before,omitempty"` // id of the last run seen
}

// SkillExecution is one run in the history. Input and output above 64 KiB are cut to
// {"truncated":true,"bytes":n,"head":…}; secrets in them are masked.
type SkillExecution struct {
	ID              uuid.UUID       `json:"id"`
	SkillID         uuid.UUID       `json:"skillId"`
	Input           json.RawMessage `json:"input"`
	Output          json.RawMessage `json:"output"`
	Status          SkillStatus     `json:"status"`
	ErrorClass      string          `json:"errorClass,omitempty"`
	Error           string          `json:"error,omitempty"`
	ExecutionTimeMs float64         `json:"executionTimeMs"`
	CPUTimeMs       float64         `json:"cpuTimeMs"`
	MemoryUsedMb    float64         `json:"memoryUsedMb"`
	HostCalls       int             `json:"hostCalls"`
	Tier            string          `json:"tier"`
	Isolation       string          `json:"isolation"`
	Version         string          `json:"version"`
	Caller          string          `json:"caller"` // user, cli, http, agent, skill, schedule, voice or tool
	Timestamp       time.Time       `json:"timestamp"`
}

// SkillExecutionsResult is one page of runs.
type SkillExecutionsResult struct {
	Executions []SkillExecution `json:"executions"`
	More       bool             `json:"more"` // there are older ones
}

// SkillExecutionChanged reports a run of a skill. Seq counts from 1 within a run; Status is
// running until the last report. Progress is the part of the time limit that has passed, 0 to
// 1. Waiting is queued or approval while the run has not begun. Log is a line that the skill
// wrote.
type SkillExecutionChanged struct {
	ExecutionID uuid.UUID   `json:"executionId"`
	SkillID     uuid.UUID   `json:"skillId"`
	Status      SkillStatus `json:"status"`
	Seq         int64       `json:"seq"`
	Progress    float64     `json:"progress,omitempty"`
	Waiting     string      `json:"waiting,omitempty"`
	Log         *LogLine    `json:"log,omitempty"`
}

// WasmChanged is published when a WASM skill of the user changes; Kind is created, updated,
// enabled, disabled, deleted, restored, signed or used.
type WasmChanged struct {
	SkillID uuid.UUID `json:"skillId"`
	Kind    string    `json:"kind"`
}
