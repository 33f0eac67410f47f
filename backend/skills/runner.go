package skills

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"

	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/permission"
)

// Gate provides the answers to pending approvals; permission.Service implements it.
type Gate interface {
	// ApprovalStatus returns pending, approved, denied, or another status if the approval can no
	// longer be answered. The error is NotFound if it was deleted.
	ApprovalStatus(ctx context.Context, id uuid.UUID) (string, error)
	// Restore returns the authority of a caller from its stored JSON.
	Restore(ctx context.Context, raw json.RawMessage) (*permission.Authority, error)
}

// caller is on whose behalf a run executes, as stored in its row.
type caller struct {
	Authority json.RawMessage `json:"authority,omitempty"`
	Budget    callable.Budget `json:"budget,omitzero"`
}

// keepCaller stores the authority and budget of the run's caller in its row. Nothing is stored for
// the user's own runs.
func (r *runRow) keepCaller(a *permission.Authority, budget callable.Budget) (err error) {
	c := caller{Budget: budget}
	if a != nil {
		if c.Authority, err = json.Marshal(a); err != nil {
			return err
		}
	}
	if a != nil || budget != (callable.Budget{}) {
		r.caller, err = json.Marshal(c)
	}
	return err
}

// restoreCaller returns the authority and the budget of the caller of a stored run. A nil authority
// is that of the user.
func (s *Service) restoreCaller(ctx context.Context, raw json.RawMessage) (*permission.Authority, callable.Budget, error) {
	var c caller
	if len(raw) == 0 {
		return nil, c.Budget, nil
	}
	if err := json.Unmarshal(raw, &c); err != nil || len(c.Authority) == 0 {
		return nil, c.Budget, err
	}
	if s.o.Gate == nil {
		return nil, c.Budget, fault.Unavailablef("The permissions of the run's caller are not available, so the run does not continue.")
	}
	a, err := s.o.Gate.Restore(ctx, c.Authority)
	return a, c.Budget, err
}

// answered returns how a pending approval was answered: approved, denied, expired, or open.
func (s *Service) answered(ctx context.Context, id uuid.UUID) (string, error) {
	status, err := s.o.Gate.ApprovalStatus(ctx, id)
	switch {
	case fault.Is(err, fault.NotFound):
		return "expired", nil
	case err != nil:
		return "", err
	}
	switch status {
	case "pending":
		return "open", nil
	case "approved", "denied":
		return status, nil
	}
	return "expired", nil
}
