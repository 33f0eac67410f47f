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

// takeCaller gives a run that is brought to memory what its caller held.
func (r *live) takeCaller(ctx context.Context) error {
	if len(r.row.caller) == 0 {
		return nil
	}
	var c caller
	err := json.Unmarshal(r.row.caller, &c)
	if err == nil && len(c.Authority) > 0 {
		if r.s.o.Gate == nil {
			return fault.Unavailablef("What the caller of the run held cannot be looked up, so that the run does not go on.")
		}
		r.authority, err = r.s.o.Gate.Restore(ctx, c.Authority)
	}
	r.budget = c.Budget
	return err
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
