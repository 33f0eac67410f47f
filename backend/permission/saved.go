package permission

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
)

// savedAuthority is the stored form of an Authority.
type savedAuthority struct {
	Kind   string          `json:"kind"`
	ID     string          `json:"id"`
	Hash   [32]byte        `json:"hash"`
	Run    uuid.UUID       `json:"run"`
	User   uuid.UUID       `json:"user"`
	Held   []savedHolding  `json:"held"`
	Parent *savedAuthority `json:"parent,omitempty"`
}

type savedHolding struct {
	Capability Capability `json:"capability"`
	Pattern    string     `json:"pattern"`
	Grant      uuid.UUID  `json:"grant"`
	Until      int64      `json:"until,omitempty"`
}

// MarshalJSON encodes what a run needs to continue after a restart with no more than it had.
// Restore decodes it.
func (a *Authority) MarshalJSON() ([]byte, error) {
	if err := a.Err(); err != nil {
		return nil, err
	}
	return json.Marshal(a.saved())
}

func (a *Authority) saved() *savedAuthority {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	out := &savedAuthority{Kind: a.sub.Kind, ID: a.sub.ID, Hash: a.sub.DefinitionHash, Run: a.run, User: a.user, Held: []savedHolding{}, Parent: a.parent.saved()}
	for _, h := range a.held {
		out.Held = append(out.Held, savedHolding{h.cap, h.pattern, h.grant, h.until})
	}
	return out
}

// Restore returns the stored authority. Each permission is still valid only as long as its grant,
// so permissions that were revoked or have expired since are gone.
func (s *Service) Restore(ctx context.Context, raw json.RawMessage) (*Authority, error) {
	var saved *savedAuthority
	if err := json.Unmarshal(raw, &saved); err != nil || saved == nil {
		return nil, fault.Internalf(err, "Couldn't read the permissions of the run's caller.")
	}
	return s.restore(identity.UserID(ctx), saved)
}

func (s *Service) restore(user uuid.UUID, saved *savedAuthority) (*Authority, error) {
	if saved == nil {
		return nil, nil
	}
	if saved.User != user {
		return nil, fault.Deniedf("A run can't use permissions of another user.")
	}
	parent, err := s.restore(user, saved.Parent)
	if err != nil {
		return nil, err
	}
	a := &Authority{
		svc: s, no: s.nextNo.Add(1), parent: parent, run: saved.Run, user: user, done: make(chan struct{}),
		sub: Subject{Kind: saved.Kind, ID: saved.ID, DefinitionHash: saved.Hash},
	}
	for _, h := range saved.Held {
		a.held = append(a.held, holding{h.Capability, h.Pattern, h.Grant, h.Until})
	}
	return a, nil
}
