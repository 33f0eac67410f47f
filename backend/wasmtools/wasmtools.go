// Package wasmtools manages WASM tools as stored definitions: validated and installed WebAssembly
// modules, how much they are trusted, and where they run. Package tools runs them.
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

// Kind is the kind of WASM tools in packages permission and audit.
const Kind = "wasm"

// Service manages WASM tools as stored definitions. There is one per database; its methods are safe
// for concurrent use.
type Service struct {
	db      *storage.DB
	perm    *permission.Service
	box     *sandbox.Engine
	kind    *lifecycle.Kind
	uploads uploads

	minIsolation, setting string // the weakest isolation for untrusted modules; setting is the configured text
}

// New returns a Service on db. minIsolation is the weakest isolation under which untrusted modules
// may run; "": process.
func New(db *storage.DB, perm *permission.Service, box *sandbox.Engine, minIsolation string) *Service {
	s := &Service{db: db, perm: perm, box: box, minIsolation: cmp.Or(minIsolation, sandbox.IsolationProcess), setting: minIsolation}
	s.kind = s.newKind()
	return s
}

// WasmSkill is a WebAssembly module that was installed as a WASM tool. Its bytes are stored once,
// in the blob store under their content address.
type WasmSkill struct {
	ID             uuid.UUID               `json:"id"`
	Name           string                  `json:"name"` // unique among the user's WASM tools, ignoring case
	Description    string                  `json:"description"`
	WasmBytecode   string                  `json:"wasmBytecode"` // content address: sha256: and 64 hex digits
	WasmSize       int64                   `json:"wasmSize"`     // bytes
	ABI            WasmABI                 `json:"abi"`
	Version        string                  `json:"version"`   // semantic version; incremented with new bytecode
	TimeoutMs      int64                   `json:"timeoutMs"` // time limit of a run, 100..60000
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
	Reasons        []string                `json:"reasons"`    // why the isolation is weaker than possible, such as bwrap_missing
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

// WasmOrigin is how a WASM tool was added to this installation.
type WasmOrigin string

// The origins. A local module runs in process like the user's own tools; others do so only if
// signed with a trusted key.
const (
	WasmLocal  WasmOrigin = "local"  // built by the user, as a person with the scope to approve declared
	WasmImport WasmOrigin = "import" // installed from a file
	WasmHub    WasmOrigin = "hub"
)

// Enum lists the values for the generated client.
func (WasmOrigin) Enum() []string { return []string{"local", "import", "hub"} }

// SkillStatus is the status of one run of a WASM tool.
type SkillStatus string

// The statuses of a run.
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

// WasmReport is the result of checking a module. Errors prevent the installation, warnings do not.
type WasmReport struct {
	Valid        bool                    `json:"valid"` // no errors
	Errors       []WasmProblem           `json:"errors"`
	Warnings     []WasmProblem           `json:"warnings"`
	Info         *sandbox.ModuleInfo     `json:"info,omitempty"`    // absent if the bytes are not a module
	Capabilities []string                `json:"capabilities"`      // requested, normalized
	Tier         string                  `json:"tier"`              // where it will run: t0 or t1
	Isolation    string                  `json:"isolation"`         // that a run will have
	Reasons      []string                `json:"reasons"`           // why the isolation is weaker than possible
	Refused      string                  `json:"refused,omitempty"` // why it would not run on this computer
	Signature    lifecycle.SignatureInfo `json:"signature"`
	Signer       string                  `json:"signer"` // who signed it, or "unsigned"
}

// WasmProblem is one finding about a module or its description. If applicable, Offset is the
// location in the module's bytes, and Feature the rejected feature of WebAssembly.
type WasmProblem struct {
	Code    string `json:"code"`  // stable: compile, missing_export, capability, schema, signature, …
	Field   string `json:"field"` // wasm, capabilities, inputSchema, …
	Message string `json:"message"`
	Offset  *int64 `json:"offset,omitempty"`
	Feature string `json:"feature,omitempty"`
}

// CreateWasmParams installs a module. It contains the bytes in Wasm or, after skills.upload_wasm,
// their hash in BlobSHA256.
type CreateWasmParams struct {
	Name         string                     `json:"name"` // 1..64 letters, digits, spaces, "_", "-" or "."
	Description  string                     `json:"description,omitempty"`
	Wasm         []byte                     `json:"wasm,omitempty"`       // the module in base64, at most 32 MiB
	BlobSHA256   string                     `json:"blobSha256,omitempty"` // of an uploaded module or of one of the user's WASM tools
	Version      string                     `json:"version,omitempty"`    // default 1.0.0
	TimeoutMs    int64                      `json:"timeoutMs,omitempty"`  // 100..60000, default 5000
	MemoryMb     int64                      `json:"memoryMb,omitempty"`   // 64, 128 (default) or 256
	Capabilities []string                   `json:"capabilities,omitempty"`
	InputSchema  json.RawMessage            `json:"inputSchema,omitempty"`
	Signature    *lifecycle.BundleSignature `json:"signature,omitempty"` // of its author over the definition
	Origin       WasmOrigin                 `json:"origin,omitempty"`    // default import; local needs the scope to approve
}

// CreateWasmResult contains the new WASM tool and the report.
type CreateWasmResult struct {
	Skill  WasmSkill  `json:"skill"`
	Report WasmReport `json:"report"`
}

// ValidateWasmParams contains a module to check, and the capabilities to request with it.
type ValidateWasmParams struct {
	Wasm         []byte          `json:"wasm,omitempty"`
	BlobSHA256   string          `json:"blobSha256,omitempty"`
	Capabilities []string        `json:"capabilities,omitempty"`
	InputSchema  json.RawMessage `json:"inputSchema,omitempty"`
	MemoryMb     int64           `json:"memoryMb,omitempty"`
}

// UploadWasmParams contains a part of a module that is too large for one call. The first part has
// no UploadID; Done marks the last.
type UploadWasmParams struct {
	UploadID *uuid.UUID `json:"uploadId,omitempty"`
	Offset   int64      `json:"offset,omitempty"` // position of Data: the size received so far
	Data     []byte     `json:"data"`             // base64; up to 8 MiB per part
	Done     bool       `json:"done,omitempty"`
}

// UploadWasmResult is the size received so far and, with the last part, the hash of the blob.
type UploadWasmResult struct {
	UploadID   uuid.UUID `json:"uploadId"`
	Size       int64     `json:"size"`
	BlobSHA256 string    `json:"blobSha256,omitempty"` // for skills.validate_wasm and skills.create_wasm, within an hour
}

// ListWasmParams filters the user's WASM tools.
type ListWasmParams struct {
	Query   string `json:"query,omitempty"` // substring of name or description; no wildcards
	Enabled *bool  `json:"enabled,omitempty"`
	Limit   int    `json:"limit,omitempty"` // 1..100, default 50
	Offset  int    `json:"offset,omitempty"`
}

// ListWasmResult is one page, most recently changed first. Total counts all matches.
type ListWasmResult struct {
	Skills []WasmSkill `json:"skills"`
	Total  int         `json:"total"`
	Limit  int         `json:"limit"`
	Offset int         `json:"offset"`
}

// SkillID identifies one WASM tool.
type SkillID struct {
	SkillID uuid.UUID `json:"skillId"`
}

// GetWasmParams identifies a WASM tool. With Report its module is checked again.
type GetWasmParams struct {
	SkillID uuid.UUID `json:"skillId"`
	Report  bool      `json:"report,omitempty"`
}

// GetWasmResult contains a WASM tool and, if requested and the module is on this device,
// the report about it.
type GetWasmResult struct {
	Skill  WasmSkill   `json:"skill"`
	Report *WasmReport `json:"report,omitempty"`
}

// UpdateWasmParams changes a WASM tool. BaseVersion, if given, is the version that the edit is
// based on; if the WASM tool has changed since, the error is a conflict.
type UpdateWasmParams struct {
	SkillID     uuid.UUID `json:"skillId"`
	Patch       WasmPatch `json:"patch"`
	BaseVersion string    `json:"baseVersion,omitempty"`
}

// WasmPatch contains the fields to change; an absent field is left unchanged. New bytes increment
// the version unless the patch sets one. New bytes, capabilities, input schema or description
// suspend the grants of the previous definition.
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

// UpdateWasmResult contains the changed WASM tool, the report if its definition changed, and the
// grants that the change suspended until the new definition is approved.
type UpdateWasmResult struct {
	Skill           WasmSkill   `json:"skill"`
	Report          *WasmReport `json:"report,omitempty"`
	SuspendedGrants []uuid.UUID `json:"suspendedGrants"`
}

// DeleteWasmResult contains the time until which skills.restore_wasm can restore the WASM tool.
type DeleteWasmResult struct {
	UndoUntil time.Time `json:"undoUntil"`
}

// WasmSkillResult contains one WASM tool.
type WasmSkillResult struct {
	Skill WasmSkill `json:"skill"`
}

// WasmChanged is published when a WASM tool of the user changes. Kind is created, updated, enabled,
// disabled, deleted, restored, signed or used.
type WasmChanged struct {
	SkillID uuid.UUID `json:"skillId"`
	Kind    string    `json:"kind"`
}
