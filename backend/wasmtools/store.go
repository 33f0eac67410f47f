package wasmtools

import (
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/jcs"
	"helix/backend/lifecycle"
	"helix/backend/storage"
)

// wasmTools describes WASM tools, which keep no former definitions.
func (s *Service) newKind() *lifecycle.Kind {
	return &lifecycle.Kind{
		Table: "skills", Subject: Kind, Action: "skill", Noun: "skill", Title: "WASM tool", MaxName: lifecycle.MaxName, Rights: s.perm,
		Announce: func(tx *storage.Tx, it lifecycle.Item, change string) { s.announce(tx, it.ID, change) },
	}
}

func (w *WasmSkill) item() lifecycle.Item {
	return lifecycle.Item{ID: w.ID, User: w.Owner, Name: w.Name, Version: w.Version}
}

// errNotFound returns the same error for an unknown WASM tool, a deleted one and one of another user.
func errNotFound() error { return fault.NotFoundf("Skill not found.") }

// addressPrefix is the prefix of the content address of a module.
const addressPrefix = "sha256:"

// wasmDefinition holds the fields covered by the definition hash, to which grants are bound. Name,
// limits and origin are not included.
type wasmDefinition struct {
	Kind         string          `json:"kind"` // distinguishes the hash from that of a tool
	Description  string          `json:"description"`
	WasmBytecode string          `json:"wasmBytecode"`
	ABI          WasmABI         `json:"abi"`
	Capabilities []string        `json:"capabilities"`
	InputSchema  json.RawMessage `json:"inputSchema"`
}

func (w *WasmSkill) definition() wasmDefinition {
	return wasmDefinition{Kind, w.Description, w.WasmBytecode, w.ABI, append([]string{}, w.Capabilities...), w.InputSchema}
}

// Document returns the definition in the form shown in approvals and diffs.
func (w *WasmSkill) Document() json.RawMessage { return lifecycle.Text(w.definition()) }

func (w *WasmSkill) rehash() error {
	h, err := jcs.Hash(lifecycle.HashTag, w.definition())
	if err != nil {
		return fault.Invalidf("The definition cannot be hashed: %s", fault.As(err).Message).WithCause(err)
	}
	w.Hash, w.DefinitionHash = h, hex.EncodeToString(h[:])
	return nil
}

// Ref returns the reference to the module in the blob store.
func (w *WasmSkill) Ref() storage.Ref {
	r := storage.Ref{Size: w.WasmSize}
	if b, err := hex.DecodeString(strings.TrimPrefix(w.WasmBytecode, addressPrefix)); err == nil && len(b) == len(r.SHA256) {
		copy(r.SHA256[:], b)
	}
	return r
}

const skillColumns = `s.id, s.user_id, s.name, s.description, s.wasm_bytecode, s.wasm_size, s.abi, s.version, s.timeout_ms, s.memory_mb,
	s.capabilities, s.input_schema, s.definition_hash, s.signature, s.origin, s.is_enabled, s.created_at, s.updated_at`

func scanSkill(row storage.Row) (*WasmSkill, error) {
	w := &WasmSkill{Capabilities: []string{}, Reasons: []string{}}
	var schema string
	var sig sql.NullString
	var hash []byte
	err := row.Scan(&w.ID, &w.Owner, &w.Name, &w.Description, &w.WasmBytecode, &w.WasmSize, &w.ABI, &w.Version, &w.TimeoutMs, &w.MemoryMb,
		storage.JSON(&w.Capabilities), &schema, &hash, &sig, &w.Origin, &w.IsEnabled, storage.Time(&w.CreatedAt), storage.Time(&w.UpdatedAt))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNotFound()
	}
	if err != nil {
		return nil, err
	}
	w.InputSchema = json.RawMessage(schema)
	copy(w.Hash[:], hash)
	w.DefinitionHash = hex.EncodeToString(w.Hash[:])
	w.Sig, err = lifecycle.ReadSignature(sig)
	return w, err
}

// Load loads a WASM tool of the caller.
func Load(tx *storage.Tx, id uuid.UUID) (*WasmSkill, error) {
	return scanSkill(tx.QueryRow(`SELECT `+skillColumns+` FROM skills s WHERE s.id = ? AND s.user_id = ? AND s.deleted_at IS NULL`,
		id, identity.UserID(tx.Context())))
}

// SkillNameTaken is the detail of the conflict when another WASM tool has the name.
type SkillNameTaken struct {
	SkillID uuid.UUID `json:"skillId"`
	Name    string    `json:"name"`
	Version string    `json:"version"`
}

// checkSkillNameFree returns a conflict if another WASM tool of the user has the name.
func (s *Service) checkSkillNameFree(tx *storage.Tx, w *WasmSkill) error {
	return s.kind.CheckName(tx, w.item(), func(other lifecycle.Item) any { return SkillNameTaken{other.ID, other.Name, other.Version} })
}

func insertSkill(tx *storage.Tx, w *WasmSkill) error {
	sig, fp, _, err := w.Sig.Columns()
	if err != nil {
		return err
	}
	_, err = tx.Exec(`INSERT INTO skills (id, user_id, name, description, wasm_bytecode, wasm_size, abi, version, timeout_ms, memory_mb,
		capabilities, input_schema, definition_hash, signature, signer_fingerprint, origin, is_enabled, created_at, updated_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		w.ID, w.Owner, w.Name, w.Description, w.WasmBytecode, w.WasmSize, string(w.ABI), w.Version, w.TimeoutMs, w.MemoryMb,
		lifecycle.Text(w.Capabilities), w.InputSchema, w.Hash, sig, fp, string(w.Origin), w.IsEnabled, w.CreatedAt, w.UpdatedAt)
	return err
}

func saveSkill(tx *storage.Tx, w *WasmSkill) error {
	sig, fp, _, err := w.Sig.Columns()
	if err != nil {
		return err
	}
	w.UpdatedAt = tx.Now
	_, err = tx.Exec(`UPDATE skills SET name = ?, description = ?, wasm_bytecode = ?, wasm_size = ?, abi = ?, version = ?, timeout_ms = ?,
		memory_mb = ?, capabilities = ?, input_schema = ?, definition_hash = ?, signature = ?, signer_fingerprint = ?, origin = ?, is_enabled = ?, updated_at = ?
		WHERE id = ? AND user_id = ?`,
		w.Name, w.Description, w.WasmBytecode, w.WasmSize, string(w.ABI), w.Version, w.TimeoutMs, w.MemoryMb,
		lifecycle.Text(w.Capabilities), w.InputSchema, w.Hash, sig, fp, string(w.Origin), w.IsEnabled, w.UpdatedAt, w.ID, w.Owner)
	return err
}
