package wasmtools

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/lifecycle"
	"helix/backend/permission"
	"helix/backend/sandbox"
	"helix/backend/schema"
	"helix/backend/storage"
)

// Limits of a WASM tool.
const (
	maxWasm          = 32 << 20
	maxSkills        = 1000
	defaultTimeoutMs = 5000
	minTimeoutMs     = 100
	maxTimeoutMs     = 60_000
	defaultMemoryMb  = 128
	unsigned         = "unsigned"
)

// AnyInput is the schema of a WASM tool that does not specify its input.
const AnyInput = "{}"

// CreateWasm installs a module as a WASM tool of the caller and enables it. If the report contains
// errors, the error is Invalid with the report as details, and nothing is stored. If the name is
// taken, the error is a Conflict. Capabilities that the module requests are not granted by this.
func (s *Service) CreateWasm(ctx context.Context, p CreateWasmParams) (CreateWasmResult, error) {
	w := &WasmSkill{
		ID: storage.NewID(), Owner: identity.UserID(ctx), Name: p.Name, Description: p.Description, Version: p.Version, TimeoutMs: p.TimeoutMs,
		MemoryMb: p.MemoryMb, Capabilities: p.Capabilities, InputSchema: p.InputSchema, Origin: p.Origin, IsEnabled: true, Sig: p.Signature,
	}
	w.FillDefaults()
	if err := w.check(); err != nil {
		return CreateWasmResult{}, err
	}
	if id, _ := identity.From(ctx); w.Origin == WasmLocal && !id.MayApprove() {
		return CreateWasmResult{}, fault.Deniedf("A module runs in process only when a person says that it is their own: that needs the scope approve.")
	}
	wasm, err := s.Module(ctx, p.Wasm, p.BlobSHA256)
	if err != nil {
		return CreateWasmResult{}, err
	}
	report, err := s.Examine(ctx, w, wasm)
	if err != nil {
		return CreateWasmResult{}, err
	}
	if err := InstallError(report); err != nil {
		return CreateWasmResult{}, err
	}
	if err := s.keepWasm(ctx, wasm); err != nil {
		return CreateWasmResult{}, err
	}
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		if err := s.addSkill(tx, w); err != nil {
			return err
		}
		return s.completeSkill(tx, w)
	})
	if err != nil {
		return CreateWasmResult{}, err
	}
	report.Signature, report.Signer = w.Signature, w.Signer
	return CreateWasmResult{Skill: *w, Report: report}, nil
}

func (s *Service) addSkill(tx *storage.Tx, w *WasmSkill) error {
	if err := s.kind.CheckCount(tx, w.Owner, maxSkills); err != nil {
		return err
	}
	if err := s.checkSkillNameFree(tx, w); err != nil {
		return err
	}
	w.CreatedAt, w.UpdatedAt = tx.Now, tx.Now
	if err := lifecycle.AddSigner(tx, w.Owner, w.Sig); err != nil {
		return err
	}
	if err := insertSkill(tx, w); err != nil {
		return err
	}
	return s.kind.Changed(tx, w.item(), "created", map[string]any{
		"name": w.Name, "version": w.Version, "definitionHash": w.DefinitionHash, "wasm": w.WasmBytecode, "origin": w.Origin, "capabilities": w.Capabilities,
	})
}

// FillDefaults sets defaults for fields that were not given.
func (w *WasmSkill) FillDefaults() {
	if w.Version == "" {
		w.Version = lifecycle.FirstVersion
	}
	if w.TimeoutMs == 0 {
		w.TimeoutMs = defaultTimeoutMs
	}
	if w.MemoryMb == 0 {
		w.MemoryMb = defaultMemoryMb
	}
	if w.Origin == "" {
		w.Origin = WasmImport
	}
	if t := strings.TrimSpace(string(w.InputSchema)); t == "" || t == "null" {
		w.InputSchema = json.RawMessage(AnyInput)
	}
}

// check validates and cleans all fields that are not part of the definition.
func (w *WasmSkill) check() (err error) {
	if w.Name, err = lifecycle.CheckName("skill", w.Name); err != nil {
		return err
	}
	if err := lifecycle.CheckText("description", w.Description, lifecycle.MaxDescription); err != nil {
		return err
	}
	if err := lifecycle.CheckVersion(w.Version); err != nil {
		return err
	}
	if w.TimeoutMs < minTimeoutMs || w.TimeoutMs > maxTimeoutMs {
		return fault.Invalidf("timeoutMs is %d; it must be %d to %d.", w.TimeoutMs, minTimeoutMs, maxTimeoutMs)
	}
	if w.MemoryMb != 64 && w.MemoryMb != 128 && w.MemoryMb != 256 {
		return fault.Invalidf("memoryMb is %d; it must be 64, 128 or 256.", w.MemoryMb)
	}
	return lifecycle.CheckEnum("origin", w.Origin)
}

// Module returns the module of a call: the bytes in it, or those of a blob that the caller has
// uploaded or has a WASM tool of.
func (s *Service) Module(ctx context.Context, wasm []byte, blob string) ([]byte, error) {
	switch {
	case len(wasm) > 0 && blob != "":
		return nil, fault.Invalidf("Give wasm or blobSha256, not both.")
	case len(wasm) > maxWasm:
		return nil, fault.Limitf("The module has %d bytes; at most %d MiB are allowed.", len(wasm), maxWasm>>20)
	case len(wasm) > 0:
		return wasm, nil
	case blob == "":
		return nil, fault.Invalidf("Give the module in wasm, or blobSha256.")
	}
	text := strings.TrimPrefix(strings.ToLower(blob), addressPrefix)
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != 32 {
		return nil, fault.Invalidf("blobSha256 must be 64 hex characters.")
	}
	sum := [32]byte(raw)
	mine := s.uploads.has(identity.UserID(ctx), sum)
	if !mine {
		if err := s.db.Read(ctx, func(tx *storage.Tx) error {
			return tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM skills WHERE user_id = ? AND wasm_bytecode = ?)`,
				identity.UserID(ctx), addressPrefix+text).Scan(&mine)
		}); err != nil {
			return nil, err
		}
	}
	if !mine { // even if the bytes exist here, because they may belong to another user
		return nil, fault.NotFoundf("File not found. Upload the module first.")
	}
	return s.Read(ctx, storage.Ref{SHA256: sum})
}

// errNotDownloaded returns the error if the row of a WASM tool is on this device and its module is not.
func errNotDownloaded(err error) error {
	return fault.Unavailablef("module not downloaded yet").WithCause(err)
}

func (s *Service) Read(ctx context.Context, ref storage.Ref) ([]byte, error) {
	f, err := s.db.Blobs().Open(ref)
	if fault.Is(err, fault.NotFound) {
		return nil, errNotDownloaded(err)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read only
	b, err := io.ReadAll(io.LimitReader(f, maxWasm+1))
	if err != nil {
		return nil, fmt.Errorf("read module %s: %w", ref, err)
	}
	if len(b) > maxWasm {
		return nil, fault.Limitf("The module has more than %d MiB.", maxWasm>>20)
	}
	return b, ctx.Err()
}

// keepWasm stores the module in the blob store unless it is already there.
func (s *Service) keepWasm(ctx context.Context, wasm []byte) error {
	_, err := s.db.Blobs().Put(ctx, bytes.NewReader(wasm))
	return err
}

// ValidateWasm checks a module like an installation, without storing anything.
func (s *Service) ValidateWasm(ctx context.Context, p ValidateWasmParams) (WasmReport, error) {
	wasm, err := s.Module(ctx, p.Wasm, p.BlobSHA256)
	if err != nil {
		return WasmReport{}, err
	}
	w := &WasmSkill{Owner: identity.UserID(ctx), Name: "module", Capabilities: p.Capabilities, InputSchema: p.InputSchema, MemoryMb: p.MemoryMb}
	w.FillDefaults()
	if err := w.check(); err != nil {
		return WasmReport{}, err
	}
	return s.Examine(ctx, w, wasm)
}

// Examine returns the report about a module and completes the definition of w: address, size, ABI,
// normalized capabilities and hash. The error is one of the call, not of the module.
func (s *Service) Examine(ctx context.Context, w *WasmSkill, wasm []byte) (WasmReport, error) {
	r := WasmReport{Errors: []WasmProblem{}, Warnings: []WasmProblem{}, Capabilities: []string{}, Reasons: []string{}, Signer: unsigned, Signature: lifecycle.SignatureInfo{State: lifecycle.SignatureNone}}
	sum := sha256.Sum256(wasm)
	w.WasmBytecode, w.WasmSize = addressPrefix+hex.EncodeToString(sum[:]), int64(len(wasm))
	if s.box == nil {
		return r, fault.Unavailablef("The sandbox is not available, so no module can be checked. Settings › Sandbox says why.")
	}
	m, err := s.box.CompileWASM(ctx, wasm)
	if err != nil {
		p, err := moduleProblem(err)
		if err != nil {
			return r, err
		}
		r.Errors = append(r.Errors, p)
	} else {
		info := m.Info()
		w.ABI, r.Info = WasmABI(info.ABI), &info
		w.checkModule(&r)
	}
	w.checkCapabilities(&r)
	w.checkInputSchema(&r)
	if err := w.rehash(); err != nil {
		return r, err
	}
	if err := s.db.Read(ctx, func(tx *storage.Tx) error { return s.CheckSignature(tx, w) }); err != nil {
		return r, err
	}
	r.Signature, r.Signer = w.Signature, w.Signer
	if w.Signature.State == lifecycle.SignatureInvalid || w.Signature.State == lifecycle.SignatureLegacy {
		r.Errors = append(r.Errors, WasmProblem{Code: "signature", Field: "signature", Message: "The signature does not belong to this module and what it asks for. It was changed after it was signed."})
	}
	s.Isolate(w)
	r.Tier, r.Isolation, r.Reasons = w.Tier, w.Isolation, w.Reasons
	if r.Refused = s.refusedHere(w); r.Refused != "" {
		r.Warnings = append(r.Warnings, WasmProblem{Code: "isolation", Field: "wasm", Message: r.Refused})
	}
	r.Valid = len(r.Errors) == 0
	return r, nil
}

// moduleProblem converts a rejection by the engine to a finding. Other errors are returned.
func moduleProblem(err error) (WasmProblem, error) {
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Class != sandbox.ClassCompile && e.Class != sandbox.ClassMissingExport {
		return WasmProblem{}, err
	}
	p := WasmProblem{Code: string(e.Class), Field: "wasm", Message: e.Message}
	var at struct {
		Offset  *int64 `json:"offset"`
		Feature string `json:"feature"`
	}
	if e.Details != nil && json.Unmarshal(lifecycle.Text(e.Details), &at) == nil {
		p.Offset, p.Feature = at.Offset, at.Feature
	}
	return p, nil
}

// checkModule compares what the module imports and needs with the requested capabilities.
func (w *WasmSkill) checkModule(r *WasmReport) {
	if need := int64(r.Info.Memory) << 16; need > w.MemoryMb<<20 {
		r.Errors = append(r.Errors, WasmProblem{Code: "memory", Field: "memoryMb", Message: fmt.Sprintf(
			"The module starts with %d MiB of memory; this tool has %d MiB. Choose a larger tier.", (need+1<<20-1)>>20, w.MemoryMb)})
	}
}

func (w *WasmSkill) checkCapabilities(r *WasmReport) {
	texts := []string{}
	permission.EachWant("skill", w.Capabilities, func(_ int, c permission.Want) {
		texts = append(texts, c.Text())
		if c.Capability == permission.NetworkHTTPS && strings.HasPrefix(c.Resource, "*.") {
			r.Warnings = append(r.Warnings, WasmProblem{Code: "wildcard", Field: "capabilities", Message: fmt.Sprintf("%s covers every host below %s.", c.Text(), strings.TrimPrefix(c.Resource, "*."))})
		}
	}, func(_ int, code, message string) {
		r.Errors = append(r.Errors, WasmProblem{Code: code, Field: "capabilities", Message: message})
	})
	slices.Sort(texts)
	w.Capabilities = texts
	r.Capabilities = w.Capabilities
}

func (w *WasmSkill) checkInputSchema(r *WasmReport) {
	if _, err := schema.Compile(w.InputSchema); err != nil {
		r.Errors = append(r.Errors, WasmProblem{Code: "schema", Field: "inputSchema", Message: err.Error()})
	}
}

// InstallError returns the error for a report with errors.
func InstallError(r WasmReport) error {
	if r.Valid {
		return nil
	}
	more := ""
	if n := len(r.Errors) - 1; n > 0 {
		more = fmt.Sprintf(" %d more problems were found.", n)
	}
	return fault.Invalidf("The module was not installed: %s%s", r.Errors[0].Message, more).WithDetails(r)
}
