package tools

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/identity"
	"helix/backend/lifecycle"
	"helix/backend/permission"
	"helix/backend/sandbox"
	"helix/backend/storage"
)

// The tiers, as the engine names them.
const (
	tierInProcess = "t0"
	tierProcess   = "t1"
)

func shaOf(b []byte) [32]byte { return sha256.Sum256(b) }

// signatureOf completes a skill with the state of its signature.
func (s *Service) signatureOf(tx *storage.Tx, w *WasmSkill) (err error) {
	w.Signature, err = lifecycle.Trust(tx, s.db, w.owner, w.sig, w.sig.Verify(w.hash, ""))
	w.Signer = unsigned
	if w.sig != nil && w.Signature.State != lifecycle.SignatureInvalid {
		if w.Signer = w.Signature.Signer; w.Signer == "" {
			w.Signer = w.Signature.Fingerprint
		}
	}
	return err
}

// trust is what the engine is told of a skill: only what a trusted key signed, and what the
// user built, runs in process.
func (w *WasmSkill) trust() sandbox.Trust {
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

func (s *Service) minIsolation() string {
	if s.o.MinIsolation == "" {
		return "process"
	}
	return s.o.MinIsolation
}

// isolate fills in where a skill will run and how well it will be shut in there.
func (s *Service) isolate(w *WasmSkill) {
	w.Tier, w.Isolation, w.Reasons = tierInProcess, sandbox.IsolationInProcess, []string{}
	if w.trust() != sandbox.TrustForeign {
		return
	}
	w.Tier = tierProcess
	w.Isolation, w.Reasons = Isolation(s.box.Status())
}

// refusedHere says why a skill could be installed and yet not run on this computer; "" when
// it can run.
func (s *Service) refusedHere(w *WasmSkill) string {
	if w.Tier != tierProcess {
		return ""
	}
	if weaker(w.Isolation, s.minIsolation()) {
		return fmt.Sprintf("It can't run here: the setting sandbox.minIsolation asks for %s, and this computer offers %s.", s.minIsolation(), w.Isolation)
	}
	for _, t := range s.box.Status().Tiers {
		if t.Tier == tierProcess && !t.Available {
			return "It can't run here: third-party modules need a separate process, and none can be started."
		}
	}
	return ""
}

// Isolation is what the child process tier offers on this computer, and why it is not more.
// Where there is no such tier at all, it is the least that a run there would have.
func Isolation(st sandbox.Status) (isolation string, reasons []string) {
	isolation, reasons = sandbox.IsolationProcess, []string{}
	for _, t := range st.Tiers {
		if t.Tier != tierProcess {
			continue
		}
		reasons = append(reasons, t.Reasons...)
		if t.Isolation != "" {
			isolation = t.Isolation
		}
	}
	return isolation, reasons
}

// wasmSubject is the skill as permission knows it.
func (w *WasmSkill) wasmSubject() permission.Subject {
	id := w.ID.String()
	if w.draft {
		id = draftPrefix + w.DefinitionHash
	}
	return permission.Subject{Kind: wasmKind, ID: id, DefinitionHash: w.hash}
}

// completeSkill fills in what the row alone does not tell.
func (s *Service) completeSkill(tx *storage.Tx, list ...*WasmSkill) error {
	suspended := map[string]bool{}
	if err := s.perm.EachSuspended(tx, wasmKind, "", func(id string) { suspended[id] = true }); err != nil {
		return err
	}
	for _, w := range list {
		if err := s.signatureOf(tx, w); err != nil {
			return err
		}
		s.isolate(w)
		w.Suspended = suspended[w.ID.String()]
		w.Downloaded = s.db.Blobs().Has(w.ref())
		if err := lastRun(tx, w); err != nil {
			return err
		}
	}
	return nil
}

// lastRun fills in how often a skill ran and how the last run ended.
func lastRun(tx *storage.Tx, w *WasmSkill) error {
	if err := tx.QueryRow(`SELECT count(*) FROM skill_executions WHERE skill_id = ? AND user_id = ?`, w.ID, w.owner).Scan(&w.Runs); err != nil || w.Runs == 0 {
		return err
	}
	return tx.QueryRow(`SELECT status, timestamp FROM skill_executions WHERE skill_id = ? AND user_id = ? ORDER BY timestamp DESC LIMIT 1`, w.ID, w.owner).
		Scan(&w.LastStatus, storage.TimePtr(&w.LastRun))
}

// announceSkill publishes WasmChanged after the commit.
func (s *Service) announceSkill(tx *storage.Tx, id uuid.UUID, kind string) {
	user := identity.UserID(tx.Context())
	tx.AfterCommit(func() { bus.Publish(tx.Bus(), user, WasmChanged{SkillID: id, Kind: kind}) })
}
