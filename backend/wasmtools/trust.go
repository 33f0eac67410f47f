package wasmtools

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/duration"
	"helix/backend/identity"
	"helix/backend/lifecycle"
	"helix/backend/permission"
	"helix/backend/sandbox"
	"helix/backend/storage"
)

// The tiers, with the names that the engine uses.
const (
	TierInProcess = "t0"
	TierProcess   = "t1"
)

// CheckSignature sets the state of the signature.
func (s *Service) CheckSignature(tx *storage.Tx, w *WasmSkill) (err error) {
	w.Signature, err = lifecycle.Trust(tx, s.db, w.Owner, w.Sig, w.Sig.Verify(w.Hash, ""))
	w.Signer = unsigned
	if w.Sig != nil && w.Signature.State != lifecycle.SignatureInvalid {
		if w.Signer = w.Signature.Signer; w.Signer == "" {
			w.Signer = w.Signature.Fingerprint
		}
	}
	return err
}

// Trust returns how much the sandbox trusts the module. Only modules that were signed with a
// trusted key or built by the user run in process.
func (w *WasmSkill) Trust() sandbox.Trust {
	switch {
	case w.Signature.State == lifecycle.SignatureTrusted:
		return sandbox.TrustSigned
	case w.Origin == WasmLocal:
		return sandbox.TrustOwn
	}
	return sandbox.TrustForeign
}

// isolations from the weakest to the strongest.
var isolations = []string{sandbox.IsolationInProcess, sandbox.IsolationProcess, sandbox.IsolationLandlock, sandbox.IsolationBwrap}

// weaker reports whether a isolates less than b.
func weaker(a, b string) bool { return slices.Index(isolations, a) < slices.Index(isolations, b) }

// Isolate sets where the module will run, and how well it is isolated there.
func (s *Service) Isolate(w *WasmSkill) {
	w.Tier, w.Isolation, w.Reasons = TierInProcess, sandbox.IsolationInProcess, []string{}
	if w.Trust() != sandbox.TrustForeign {
		return
	}
	w.Tier = TierProcess
	w.Isolation, w.Reasons = Isolation(s.box.Status())
}

// refusedHere returns why a WASM tool could be installed but not run on this computer, or "".
func (s *Service) refusedHere(w *WasmSkill) string {
	if w.Tier != TierProcess {
		return ""
	}
	if weaker(w.Isolation, s.minIsolation) {
		return fmt.Sprintf("It can't run here: the setting sandbox.minIsolation asks for %s, and this computer offers %s.", s.minIsolation, w.Isolation)
	}
	for _, t := range s.box.Status().Tiers {
		if t.Tier == TierProcess && !t.Available {
			return "It can't run here: third-party modules need a separate process, and none can be started."
		}
	}
	return ""
}

// Isolation returns the isolation of the child process tier on this computer, and why it is not
// stronger. Without such a tier it returns the weakest one.
func Isolation(st sandbox.Status) (isolation string, reasons []string) {
	isolation, reasons = sandbox.IsolationProcess, []string{}
	for _, t := range st.Tiers {
		if t.Tier != TierProcess {
			continue
		}
		reasons = append(reasons, t.Reasons...)
		if t.Isolation != "" {
			isolation = t.Isolation
		}
	}
	return isolation, reasons
}

// Subject returns the WASM tool as a permission subject.
func (w *WasmSkill) Subject() permission.Subject {
	return permission.Subject{Kind: Kind, ID: w.ID.String(), DefinitionHash: w.Hash}
}

// completeSkill sets the fields that are not in the row.
func (s *Service) completeSkill(tx *storage.Tx, list ...*WasmSkill) error {
	suspended := map[string]bool{}
	if err := s.perm.EachSuspended(tx, Kind, "", func(id string) { suspended[id] = true }); err != nil {
		return err
	}
	for _, w := range list {
		if err := s.CheckSignature(tx, w); err != nil {
			return err
		}
		s.Isolate(w)
		w.Suspended = suspended[w.ID.String()]
		w.Downloaded = s.db.Blobs().Has(w.Ref())
		if err := lastRun(tx, w); err != nil {
			return err
		}
	}
	return nil
}

// lastRun sets the number of runs and the result of the last one.
func lastRun(tx *storage.Tx, w *WasmSkill) error {
	if err := tx.QueryRow(`SELECT count(*) FROM skill_executions WHERE skill_id = ? AND user_id = ?`, w.ID, w.Owner).Scan(&w.Runs); err != nil || w.Runs == 0 {
		return err
	}
	return tx.QueryRow(`SELECT status, timestamp FROM skill_executions WHERE skill_id = ? AND user_id = ? ORDER BY timestamp DESC LIMIT 1`, w.ID, w.Owner).
		Scan(&w.LastStatus, storage.TimePtr(&w.LastRun))
}

// announce publishes WasmChanged after the commit.
func (s *Service) announce(tx *storage.Tx, id uuid.UUID, kind string) {
	user := identity.UserID(tx.Context())
	tx.AfterCommit(func() { bus.Publish(tx.Bus(), user, WasmChanged{SkillID: id, Kind: kind}) })
}

// Info returns the WASM tool's info for permission. By installing it the user has approved its
// definition; a change needs a new approval.
func (w *WasmSkill) Info() permission.SubjectInfo {
	info := permission.SubjectInfo{
		Name: w.Name, State: permission.Active, DefinitionHash: w.Hash, Definition: w.Document(),
		Approved: w.Origin != WasmHub || w.Signature.State == lifecycle.SignatureTrusted, Declared: permission.ParseWants(w.Capabilities),
	}
	if !w.IsEnabled {
		info.State = permission.Disabled
	}
	if w.Sig != nil && (w.Signature.State == lifecycle.SignatureTrusted || w.Signature.State == lifecycle.SignatureUnknown) {
		info.Signer = w.Signature.Signer
	}
	return info
}

// Limits returns the limits of the profile wasm with the WASM tool's own time and memory.
func (w *WasmSkill) Limits() sandbox.Limits {
	l, _ := sandbox.Profile("wasm")
	l.Wall, l.MemoryBytes = duration.Of(w.TimeoutMs, time.Millisecond), w.MemoryMb<<20
	l.CPU = min(l.CPU, l.Wall)
	return l
}

// SubjectInfo returns the permission info of the caller's WASM tool with an id.
func (s *Service) SubjectInfo(ctx context.Context, text string) (info permission.SubjectInfo, err error) {
	id, err := uuid.Parse(text)
	if err != nil {
		return info, errNotFound()
	}
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		w, err := Load(tx, id)
		if err != nil {
			return err
		}
		if err := s.CheckSignature(tx, w); err != nil {
			return err
		}
		info = w.Info()
		return nil
	})
	return info, err
}
