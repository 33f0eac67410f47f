// Package wasmtools owns WASM tools as stored definitions: WebAssembly modules that were checked
// and installed, how far they are trusted, and where they run. Package tools runs them.
package wasmtools

import (
	"cmp"
	"encoding/json"
	"time"

	"helix/backend/lifecycle"
	"helix/backend/permission"
	"helix/backend/storage"

	"github.com/google/uuid"

	"helix/backend/sandbox"
)

// Kind is what permission and audit call a WASM tool.
const Kind = "wasm"

// Service serves WASM tools as stored definitions. There is one a database; its methods are safe
// for concurrent use.
type Service struct {
	db      *storage.DB
	perm    *permission.Service
	box     *sandbox.Engine
	kind    *lifecycle.Kind
	uploads uploads

	minIsolation, setting string // the weakest isolation for modules of others; setting is the configured text
}

// New returns the service. minIsolation is the weakest isolation under which modules of others
// may run; "": process.
func New(db *storage.DB, perm *permission.Service, box *sandbox.Engine, minIsolation string) *Service {
	s := &Service{db: db, perm: perm, box: box, minIsolation: cmp.Or(minIsolation, sandbox.IsolationProcess), setting: minIsolation}
	s.kind = s.newKind()
	return s
}

// WasmSkill is a WebAssembly module that was installed as a skill. Its bytes are kept once in
// the blob store under their content address.
type WasmSkill struct {
	ID             uuid.UUID               `json:"id"`
	Name           string                  `json:"name"` // unique among the user's WASM tools, ignoring case
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

	Owner uuid.UUID                  `json:"-"`
	Hash  [32]byte                   `json:"-"`
	Sig   *lifecycle.BundleSignature `json:"-"`
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

// WasmOrigin says how a WASM tool came here.
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

// ListWasmParams choose from the user's WASM tools.
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

// WasmChanged is published when a WASM tool of the user changes; Kind is created, updated,
// enabled, disabled, deleted, restored, signed or used.
type WasmChanged struct {
	SkillID uuid.UUID `json:"skillId"`
	Kind    string    `json:"kind"`
}
