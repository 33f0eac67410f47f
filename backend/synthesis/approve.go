package synthesis

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/permission"
	"helix/backend/storage"
)

const (
	choiceSend = "send"
	choiceDont = "dont"
	maxShown   = 64 << 10 // maximum size of the text in a question
)

// ask asks a person whether the texts of a job may be sent to a model. The job ends; an approval
// starts another one. Conversations in the request are not stored, so a job with any cannot be
// approved later and is not asked about.
func (s *Service) ask(w *work, p Preview, denied error) (*uuid.UUID, error) {
	if s.o.Gate == nil || len(w.p.Conversations) > 0 {
		return nil, denied
	}
	about := map[string]any{"conversations": p.ConversationCount, "tokens": p.EstimatedTokens, "masked": len(p.Removed), "costUsd": p.EstimatedCostUSD}
	if p.PriceUnknown {
		about["costUsd"] = nil
	}
	message := "Helix looks for patterns in them with this model. E-mail addresses, numbers and secrets are masked. Only this text is sent, once."
	switch text := p.ExactText; {
	case s.o.Private: // questions are not encrypted
		message += " The whole text is shown by `helix synthesis --engine llm --preview` and in Insights."
	case len(text) > maxShown:
		message += " Below is its beginning; Insights shows all of it."
		text = strings.ToValidUTF8(text[:maxShown], "")
		fallthrough
	default:
		about["text"] = strings.Split(text, "\n")
	}
	details, err := json.Marshal(about)
	if err != nil {
		return nil, err
	}
	id := storage.NewID()
	err = s.db.Write(w.ctx, func(tx *storage.Tx) error {
		if err := s.closeOlderTx(tx, w); err != nil {
			return err
		}
		return s.o.Gate.AskTx(tx, permission.QuestionRequest{
			ID: id, User: w.user, Subject: permission.Subject{Kind: string(Kind), ID: w.p.SynthesisType}, SubjectName: "Search for patterns", Run: w.id, RunKind: string(Kind), Ref: p.Hash, Tier: permission.SideEffecting,
			Question: permission.Question{
				Text:    fmt.Sprintf("Send %s to %s?", count(p.ConversationCount, "conversation", "conversations"), p.Destination),
				Message: message, Details: details, Forget: true,
				Choices: []permission.Choice{
					{ID: choiceSend, Label: "Send once", Help: "The search starts with exactly this text.", Approves: true},
					{ID: choiceDont, Label: "Don't send", Help: "Nothing leaves this computer."},
				},
			},
		})
	})
	if err != nil {
		return nil, err
	}
	return &id, fault.Deniedf("Nothing was sent. The question whether it may be waits in Approvals.")
}

// closeOlderTx closes the questions of earlier jobs of the same kind, so that a schedule has at
// most one open question, about its newest texts.
func (s *Service) closeOlderTx(tx *storage.Tx, w *work) error {
	older, err := storage.Collect(tx.Select(`SELECT `+jobColumns+` FROM memory_synthesis_jobs WHERE user_id = ? AND engine = 'llm' AND synthesis_type = ? AND status = 'failed' AND id <> ?`,
		w.user, w.p.SynthesisType, w.id), s.scanJob)
	if err != nil {
		return err
	}
	for _, j := range older {
		if j.Insights.ApprovalID == nil {
			continue
		}
		if err := s.o.Gate.CloseTx(tx, j.JobID, "", "", uuid.Nil); err != nil {
			return err
		}
	}
	return nil
}

// Answer handles a person's answer to the question whether texts may be sent.
func (s *Service) Answer(ctx context.Context, a permission.Answered) error {
	var p SynthesizeParams
	user, id := identity.UserID(ctx), storage.NewID()
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		p = SynthesizeParams{}
		var owner uuid.UUID
		var params []byte
		err := tx.QueryRow(`SELECT user_id, params FROM memory_synthesis_jobs WHERE id = ?`, a.Run).Scan(&owner, &params)
		switch {
		case errors.Is(err, sql.ErrNoRows): // the job has been deleted, and so has its request
			a.Choice = choiceDont
		case err != nil:
			return err
		case owner != user:
			return fault.NotFoundf("Job not found.")
		}
		row := s.texts("memory_synthesis_jobs", a.Run)
		if row.openJSON("params", params, &p); row.err != nil {
			return row.err
		}
		if err := s.o.Gate.CloseTx(tx, a.Run, a.Ref, a.Choice, uuid.Nil); err != nil || a.Choice != choiceSend {
			return err
		}
		p.Approved = a.Ref
		return s.insertJob(tx, user, id, p.key(), p)
	})
	if err == nil && a.Choice == choiceSend {
		s.begin(ctx, user, id, p.key(), p)
	}
	return err
}
