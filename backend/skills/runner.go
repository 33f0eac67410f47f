package skills

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"

	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/permission"
)

// Gate tells about the answers to pending approvals, as permission.Service does.
type Gate interface {
	// ApprovalStatus is pending, approved, denied or another word for one that nobody will
	// answer any more; NotFound when it was removed.
	ApprovalStatus(ctx context.Context, id uuid.UUID) (string, error)
	// Restore gives back the authority of a caller that was written as JSON.
	Restore(ctx context.Context, raw json.RawMessage) (*permission.Authority, error)
}

// caller is on whose behalf a run goes on, as its row keeps it.
type caller struct {
	Authority json.RawMessage `json:"authority,omitempty"`
	Budget    callable.Budget `json:"budget,omitzero"`
}

// keepCaller writes what the run's caller holds into its row; nothing for the user's own runs.
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

// restoreCaller returns the authority and the budget that the caller of a stored run had. A nil
// authority is that of the user.
func (s *Service) restoreCaller(ctx context.Context, raw json.RawMessage) (*permission.Authority, callable.Budget, error) {
	var c caller
	if len(raw) == 0 {
		return nil, c.Budget, nil
	}
	if err := json.Unmarshal(raw, &c); err != nil || len(c.Authority) == 0 {
		return nil, c.Budget, err
	}
	if s.o.Gate == nil {
		return nil, c.Budget, fault.Unavailablef("The run can't continue: the permissions of its caller aren't available.")
	}
	a, err := s.o.Gate.Restore(ctx, c.Authority)
	return a, c.Budget, err
}

// answered tells how a pending approval was answered: approved, denied, expired, or open.
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
