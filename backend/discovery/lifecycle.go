package discovery

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/permission"
	"helix/backend/storage"
)

// The answers to the question whether a tool is approved.
const (
	choiceApprove = "approve"
	choiceReject  = "reject"
)

// ask adds the question whether a definition is approved to Approvals.
func (s *Service) ask(tx *storage.Tx, t *Tool) error {
	verify := "It has no samples, so it can't be verified."
	if n := len(t.manifest.Samples); n > 0 {
		verify = fmt.Sprintf("Samples: %d. Those that change nothing are tried after the approval.", n)
	}
	lines := []string{"Server: " + t.manifest.Execution.Server, "May reach: " + strings.Join(t.manifest.Permissions.Network.Hosts, ", "), verify, "Operations:"}
	for _, c := range t.manifest.Capabilities {
		word := map[string]string{"readOnly": "reads", "privileged": "privileged"}[c.Tier]
		if word == "" {
			word = "changes"
		}
		if c.Destructive {
			word += ", may delete or send"
		}
		lines = append(lines, "  "+c.Operation+" ("+word+")")
	}
	return s.o.Permission.AskTx(tx, permission.QuestionRequest{
		User: t.user, Subject: subject(t.ID, t.hash), SubjectName: t.Name, Run: t.ID, RunKind: string(Kind), Ref: t.hashText(), Tier: t.manifest.tier(),
		Question: permission.Question{
			Text:    fmt.Sprintf("Allow the tool %s to call %d operations of %s?", t.Name, len(t.manifest.Capabilities), t.manifest.Execution.Server),
			Message: strings.Join(lines, "\n"),
			Choices: []permission.Choice{
				{ID: choiceReject, Label: "Reject", Help: "The tool is revoked and can't run."},
				{ID: choiceApprove, Label: "Approve", Help: "The tool may reach the listed hosts until you revoke it.", Approves: true},
			},
		},
	})
}

// hashText is the definition hash in hexadecimal, also of a tool that was not stored yet.
func (t *Tool) hashText() string { return hex.EncodeToString(t.hash[:]) }

// withdraw closes the open question about a tool.
func (s *Service) withdraw(tx *storage.Tx, id uuid.UUID) error {
	return s.o.Permission.CloseTx(tx, id, "", "", uuid.Nil)
}

// AnswerApproval implements permission.Answerer: it carries out an answer from Approvals.
func (s *Service) AnswerApproval(ctx context.Context, a permission.Answered) error {
	if a.Choice == choiceReject {
		_, err := s.Revoke(ctx, RevokeParams{ManifestID: a.Run})
		return err
	}
	_, err := s.Approve(ctx, ApproveParams{ManifestID: a.Run, DefinitionHash: a.Ref, Note: a.Note})
	return err
}

// ApproveParams approve one definition of a tool.
type ApproveParams struct {
	ManifestID     uuid.UUID `json:"manifestId"`
	DefinitionHash string    `json:"definitionHash"` // the one that was shown
	Note           string    `json:"note,omitempty"`
}

// StatusResult is the state of a tool.
type StatusResult struct {
	Status string `json:"status"`
}

// Approve allows the tool to run with the hosts of its definition. A definition that changed since
// it was shown is a Conflict. A tool without samples can't be verified and is active at once; one with
// samples becomes active when those that change nothing have passed, which is tried now. A tool that is
// disabled, here or on another device, stays so.
func (s *Service) Approve(ctx context.Context, p ApproveParams) (StatusResult, error) {
	if id, _ := identity.From(ctx); !id.MayApprove() {
		return StatusResult{}, fault.Deniedf("Only a person can approve a tool.")
	}
	if len(p.Note) > 1000 {
		return StatusResult{}, fault.Invalidf("A note can have at most 1,000 bytes.")
	}
	var to string
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		t, err := loadTool(tx, p.ManifestID)
		if err != nil {
			return err
		}
		if t.Status != StatusPending {
			return fault.Conflictf("The tool %s doesn't wait for approval; it is %s.", t.Name, words(t.Status))
		}
		if !strings.EqualFold(p.DefinitionHash, t.DefinitionHash) {
			return fault.Conflictf("The definition of %s has changed since you opened it. Nothing was approved. Review it again.", t.Name)
		}
		if err := t.checkIntact(); err != nil {
			return err
		}
		sub := subject(t.ID, t.hash)
		doc, err := t.manifest.document()
		if err != nil {
			return err
		}
		wants, err := t.manifest.wants()
		if err != nil {
			return err
		}
		if err := s.o.Permission.ApproveDefinition(tx, sub, doc, wants, "user"); err != nil {
			return err
		}
		if err := s.o.Permission.GrantTx(tx, sub, wants); err != nil {
			return err
		}
		if err := t.approve(tx); err != nil {
			return err
		}
		switch {
		case t.shared == StatusDisabled:
			to = StatusDisabled
		case len(t.manifest.Samples) > 0:
			to = StatusApproved
			id, _ := identity.From(ctx)
			if _, err := s.beginVerify(tx, t, id, false); err != nil {
				return err
			}
		default:
			to = StatusActive
		}
		if t.shared == StatusPending {
			if err := t.setSharedStatus(tx, to); err != nil {
				return err
			}
		}
		t.Status = to
		if err := s.o.Permission.CloseTx(tx, t.ID, t.DefinitionHash, choiceApprove, tokenOf(ctx)); err != nil {
			return err
		}
		s.announce(tx, t.user, Changed{t.ID, to})
		return audit.Append(tx, audit.Entry{Action: "tool.approved", SubjectKind: string(Kind), SubjectID: t.ID.String(), Details: map[string]any{"name": t.Name, "definitionHash": t.DefinitionHash, "hosts": t.Hosts, "note": permission.Sanitize(p.Note)}})
	})
	return StatusResult{to}, err
}

func tokenOf(ctx context.Context) uuid.UUID {
	id, _ := identity.From(ctx)
	return id.Token
}

func words(status string) string { return strings.ReplaceAll(status, "_", " ") }

// EnableParams switch a tool on or off.
type EnableParams struct {
	ManifestID uuid.UUID `json:"manifestId"`
	Enabled    bool      `json:"enabled"`
}

// SetEnabled switches an approved tool on or off. Switching it off ends its runs.
func (s *Service) SetEnabled(ctx context.Context, p EnableParams) (StatusResult, error) {
	to := StatusDisabled
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		t, err := loadTool(tx, p.ManifestID)
		if err != nil {
			return err
		}
		if t.Status != StatusActive && t.Status != StatusDisabled {
			return fault.Conflictf("The tool %s is %s. Approve and verify it first.", t.Name, words(t.Status))
		}
		if p.Enabled {
			if to = StatusActive; !t.active {
				to = StatusApproved
			}
		}
		if t.Status == to {
			return nil
		}
		if err := t.setSharedStatus(tx, to); err != nil {
			return err
		}
		if err := s.o.Permission.SubjectChanged(tx, string(Kind), t.ID.String(), p.Enabled); err != nil {
			return err
		}
		if !p.Enabled {
			tx.AfterCommit(func() { s.endRuns(t.ID, "The tool was disabled.") })
		}
		s.announce(tx, t.user, Changed{t.ID, to})
		action := "tool.enabled"
		if !p.Enabled {
			action = "tool.disabled"
		}
		return audit.Append(tx, audit.Entry{Action: action, SubjectKind: string(Kind), SubjectID: t.ID.String(), Details: map[string]any{"name": t.Name}})
	})
	return StatusResult{to}, err
}

// RevokeParams name a tool to revoke.
type RevokeParams struct {
	ManifestID uuid.UUID `json:"manifestId"`
	State      string    `json:"state,omitempty"` // keep or destroy: what happens to stored state. Tools from API descriptions have none
}

// RevokeResult is what was removed.
type RevokeResult struct {
	Removed struct {
		Grants      int      `json:"grants"`
		Credentials []string `json:"credentials"`
	} `json:"removed"`
}

// Revoke ends a tool for ever: its runs end, its permissions and credentials are removed, and its
// name is free. The history of its runs stays.
func (s *Service) Revoke(ctx context.Context, p RevokeParams) (out RevokeResult, err error) {
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		t, err := loadTool(tx, p.ManifestID)
		if err != nil {
			return err
		}
		if t.Status == StatusRevoked {
			return fault.Conflictf("The tool %s is already revoked.", t.Name)
		}
		if err := t.setSharedStatus(tx, StatusRevoked); err != nil {
			return err
		}
		if err := s.o.Permission.CloseTx(tx, t.ID, t.DefinitionHash, choiceReject, tokenOf(ctx)); err != nil {
			return err
		}
		if out.Removed.Grants, out.Removed.Credentials, err = s.retire(tx, t); err != nil {
			return err
		}
		s.announce(tx, t.user, Changed{t.ID, StatusRevoked})
		return audit.Append(tx, audit.Entry{Action: "tool.revoked", SubjectKind: string(Kind), SubjectID: t.ID.String(), Details: map[string]any{"name": t.Name, "grants": out.Removed.Grants, "credentials": len(out.Removed.Credentials)}})
	})
	return out, err
}

// retire ends what a revoked tool has on this device: runs, questions, grants, approvals and credentials.
func (s *Service) retire(tx *storage.Tx, t *Tool) (grants int, credentials []string, err error) {
	if err := s.withdraw(tx, t.ID); err != nil {
		return 0, nil, err
	}
	if grants, err = s.o.Permission.RevokeSubject(tx, string(Kind), t.ID.String(), "the tool was revoked"); err != nil {
		return 0, nil, err
	}
	if err := s.o.Permission.SubjectChanged(tx, string(Kind), t.ID.String(), false); err != nil {
		return 0, nil, err
	}
	if _, err := tx.Exec(`DELETE FROM tool_install WHERE tool_id = ?`, t.ID); err != nil {
		return 0, nil, err
	}
	tx.AfterCommit(func() { s.endRuns(t.ID, "The tool was revoked.") })
	credentials, err = s.forget(tx, t, "")
	return grants, credentials, err
}
