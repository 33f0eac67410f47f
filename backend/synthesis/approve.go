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
	choiceKeep = "keep"
	maxShown   = 64 << 10 // of the text that a question shows
)

// ask puts the question whether the texts of a job may be sent to a model. The job itself ends; the
// answer starts another. What was given with the request is not kept, so nobody is asked about it.
func (s *Service) ask(w *work, p Preview, denied error) (*uuid.UUID, error) {
	if s.o.Gate == nil || len(w.p.Conversations) > 0 {
		return nil, denied
	}
	text := p.ExactText
	if len(text) > maxShown {
		text = strings.ToValidUTF8(text[:maxShown], "") + "\n…"
	}
	details, err := json.Marshal(map[string]any{"model": p.Destination, "conversations": p.ConversationCount, "tokens": p.EstimatedTokens, "costUsd": p.EstimatedCostUSD, "priceUnknown": p.PriceUnknown, "removed": len(p.Removed), "text": strings.Split(text, "\n")})
	if err != nil {
		return nil, err
	}
	id := storage.NewID()
	err = s.db.Write(w.ctx, func(tx *storage.Tx) error {
		return s.o.Gate.AskTx(tx, permission.QuestionRequest{
			ID: id, User: w.user, Subject: permission.Subject{Kind: string(Kind), ID: w.p.SynthesisType}, SubjectName: "Search for patterns", Run: w.id, RunKind: string(Kind), Ref: p.Hash, Tier: permission.SideEffecting,
			Question: permission.Question{
				Text:    fmt.Sprintf("Send %s to %s?", count(p.ConversationCount, "conversation", "conversations"), p.Destination),
				Message: "Helix looks for patterns in them with this model. E-mail addresses, numbers and secrets are masked. Only this text is sent, once.",
				Details: details,
				Choices: []permission.Choice{
					{ID: choiceSend, Label: "Send once", Help: "The search starts with exactly this text.", Approves: true},
					{ID: choiceKeep, Label: "Don't send", Help: "Nothing leaves this computer."},
				},
			},
		})
	})
	if err != nil {
		return nil, err
	}
	return &id, fault.Deniedf("Nothing was sent. The question whether it may be waits in Approvals.")
}

// Answer takes a person's answer to the question whether texts may be sent.
func (s *Service) Answer(ctx context.Context, a permission.Answered) error {
	var p SynthesizeParams
	user, id := identity.UserID(ctx), storage.NewID()
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		p = SynthesizeParams{}
		var owner uuid.UUID
		err := tx.QueryRow(`SELECT user_id, params FROM memory_synthesis_jobs WHERE id = ?`, a.Run).Scan(&owner, storage.JSON(&p))
		switch {
		case errors.Is(err, sql.ErrNoRows): // the job is forgotten, and what it asked with it
			a.Choice = choiceKeep
		case err != nil:
			return err
		case owner != user:
			return fault.NotFoundf("Job not found.")
		}
		if err := s.o.Gate.CloseTx(tx, a.Run, a.Ref, a.Choice, uuid.Nil); err != nil || a.Choice != choiceSend {
			return err
		}
		p.Approved = a.Ref
		return insertJob(tx, user, id, p.key(), p)
	})
	if err == nil && a.Choice == choiceSend {
		s.begin(ctx, user, id, p.key(), p)
	}
	return err
}
