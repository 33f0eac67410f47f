package skills

import (
	"encoding/json"

	"github.com/google/uuid"

	"helix/backend/callable"
	"helix/backend/identity"
	"helix/backend/permission"
	"helix/backend/skills/machine"
	"helix/backend/storage"
)

// Enqueue is a request for a run that is not started by a call, such as by a schedule.
type Enqueue struct {
	SkillID   *uuid.UUID
	Skill     json.RawMessage // or an unsaved definition
	Version   string
	Input     json.RawMessage
	Trigger   string // schedule, agent or voice
	RequestID string
	Authority *permission.Authority // of the caller; nil: the user
	Budget    callable.Budget
}

// EnqueueTx creates a run within a transaction, so that it is committed together with its cause.
// The run does not start before Begin. The transaction's context holds the user.
func (s *Service) EnqueueTx(tx *storage.Tx, o Enqueue) (uuid.UUID, error) {
	ctx := tx.Context()
	var skill *row
	var err error
	if o.SkillID != nil {
		if skill, err = saved(tx, *o.SkillID, o.Version); err == nil && o.Version != "" {
			err = s.requireRunnable(ctx, skill)
		}
	} else {
		skill, _, err = s.readDraft(ctx, o.Skill)
	}
	if err != nil {
		return uuid.Nil, err
	}
	input, err := s.checkInput(tx.Context(), skill.body, o.Input)
	if err != nil {
		return uuid.Nil, err
	}
	r, err := s.runRow(skill, beginning{id: storage.NewID(), user: identity.UserID(ctx), input: input, trigger: o.Trigger, request: o.RequestID, authority: o.Authority, budget: o.Budget})
	if err != nil {
		return uuid.Nil, err
	}
	return r.id, r.insert(tx)
}

// Begin starts a run created by EnqueueTx as soon as the user has a free slot. It returns
// immediately. It does nothing if the run has already started or ended.
func (s *Service) Begin(run uuid.UUID) {
	s.mu.Lock()
	there := s.live[run] != nil || s.closed
	s.mu.Unlock()
	if there {
		return
	}
	s.background("begin a run", func() {
		r, err := storage.Result(s.life, s.db.Read, func(tx *storage.Tx) (*runRow, error) { return anyRun(tx, run) })
		switch {
		case err == nil && r.status == machine.Queued:
			s.queueUp(r.user, s.queued(r.user, run), false)
		case err != nil && s.life.Err() == nil:
			s.log.Error("begin a run", "run", run, "error", err)
		}
	})
}
