package tools

import (
	"context"
	"time"

	"helix/backend/permission"
	"helix/backend/storage"
)

// CapabilityGrant is a capability granted to a tool.
type CapabilityGrant struct {
	Capability string     `json:"capability"`
	Resource   string     `json:"resource"`
	Scope      string     `json:"scope"` // once, run, session or always
	ExpiresAt  *time.Time `json:"expiresAt,omitempty"`
	Origin     string     `json:"origin"`
	LastUsed   *time.Time `json:"lastUsed,omitempty"`
	Suspended  bool       `json:"suspended"`
}

// CapabilityDenial is a capability that the user always denies.
type CapabilityDenial struct {
	Capability string `json:"capability"`
	Resource   string `json:"resource"`
	Reason     string `json:"reason"`
}

// CapabilitiesResult compares the capabilities that a tool requests with those it has.
type CapabilitiesResult struct {
	Requested []string           `json:"requested"`
	Grants    []CapabilityGrant  `json:"grants"`
	Denied    []CapabilityDenial `json:"denied"`
}

// Capabilities returns what a tool requests, and what of it has been granted or denied.
func (s *Service) Capabilities(ctx context.Context, p ToolID) (CapabilitiesResult, error) {
	out := CapabilitiesResult{Requested: []string{}, Grants: []CapabilityGrant{}, Denied: []CapabilityDenial{}}
	t, err := storage.Result(ctx, s.db.Read, func(tx *storage.Tx) (*Tool, error) { return ownTool(tx, p.ToolID) })
	if err != nil {
		return out, err
	}
	out.Requested = append(out.Requested, t.Capabilities...)
	for offset := 0; ; {
		r, err := s.perm.List(ctx, permission.ListParams{SubjectID: t.ID.String(), Limit: 100, Offset: offset})
		if err != nil {
			return out, err
		}
		for _, g := range r.Grants {
			if g.State != "active" && g.State != "suspended" || g.Subject.Kind != subjectKind {
				continue
			}
			out.Grants = append(out.Grants, CapabilityGrant{
				Capability: string(g.Capability), Resource: g.Resource, Scope: g.Scope, ExpiresAt: g.ExpiresAt, Origin: g.Origin,
				LastUsed: g.LastUsedAt, Suspended: g.State == "suspended",
			})
		}
		if offset == 0 {
			for _, d := range r.Denials {
				out.Denied = append(out.Denied, CapabilityDenial{Capability: string(d.Capability), Resource: d.Resource, Reason: d.Reason})
			}
		}
		offset += len(r.Grants)
		if len(r.Grants) == 0 || offset >= r.Total {
			return out, nil
		}
	}
}
