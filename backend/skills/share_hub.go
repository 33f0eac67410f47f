package skills

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/lifecycle"
	"helix/backend/storage"
)

// A share is a share file on the hub, made once: later edits do not change it. The hub keeps the list
// of shares, so it is the same on all devices.

const (
	shareDomain = "skills"
	maxShareHub = 5 << 20 // bytes of a share file that the hub stores
)

// ShareParams identifies the skill to share, in its current version.
type ShareParams struct {
	SkillID   uuid.UUID        `json:"skillId"`
	Access    lifecycle.Access `json:"access"`
	ExpiresAt *time.Time       `json:"expiresAt,omitempty"`
}

// Share is a skill that is shared through the hub.
type Share struct {
	ShareID     uuid.UUID        `json:"shareId"`
	SkillID     *uuid.UUID       `json:"skillId,omitempty"` // absent for other people's shares
	URL         string           `json:"url"`               // helix://skills/shared/<id>
	Access      lifecycle.Access `json:"access"`
	Name        string           `json:"name"`
	Description string           `json:"description"`
	Version     string           `json:"version"`
	Tags        []string         `json:"tags"`
	Icon        string           `json:"icon"`
	CreatedAt   time.Time        `json:"createdAt"`
	ExpiresAt   *time.Time       `json:"expiresAt,omitempty"`
}

// UnshareParams identifies a share.
type UnshareParams struct {
	ShareID uuid.UUID `json:"shareId"`
}

// SharesParams selects the shares of one skill, or of all.
type SharesParams struct {
	SkillID *uuid.UUID `json:"skillId,omitempty"`
}

// SharesResult lists shares that have not ended, newest first.
type SharesResult struct {
	Shares []Share `json:"shares"`
	Hub    bool    `json:"hub"` // false: no hub is connected
}

// hub reports whether a hub is connected.
func (s *Service) hub(ctx context.Context) (yes bool, err error) {
	if s.o.Hub == nil {
		return false, nil
	}
	return storage.Result(ctx, s.db.Read, s.o.Hub.Connected)
}

func (s *Service) needHub(ctx context.Context) error {
	connected, err := s.hub(ctx)
	if err == nil && !connected {
		return fault.Unavailablef("No hub is connected. Connect a hub under Sync, or export the skill as a file.")
	}
	return err
}

// Share creates a link to the current version of a skill, with the tools that it calls.
func (s *Service) Share(ctx context.Context, p ShareParams) (out Share, err error) {
	if p.Access == "" {
		return out, fault.Invalidf("Set who can open it: access must be link or public.")
	}
	if err := lifecycle.CheckEnum("kind of access", p.Access); err != nil {
		return out, err
	}
	if p.ExpiresAt != nil && !p.ExpiresAt.After(s.o.Now()) {
		return out, fault.Invalidf("The share would already have expired.")
	}
	if err := s.needHub(ctx); err != nil {
		return out, err
	}
	var r *row
	if err := s.db.Read(ctx, func(tx *storage.Tx) (err error) { r, err = ownSkill(tx, p.SkillID); return err }); err != nil {
		return out, err
	}
	file, err := s.Export(ctx, ExportParams{SkillID: p.SkillID, IncludeTools: true})
	if err != nil {
		return out, err
	}
	if len(file.File) > maxShareHub {
		return out, fault.Limitf("The skill with its tools has %d bytes; the limit of a share is %d. Export it as a file instead.", len(file.File), maxShareHub)
	}
	var id uuid.UUID
	_, _ = rand.Read(id[:]) // never fails; the id is what the link keeps secret
	out = Share{
		ShareID: id, Access: p.Access, Name: r.name, Description: r.description, Version: r.version, Tags: append([]string{}, r.tags...), Icon: r.icon,
		CreatedAt: s.o.Now().UTC(), ExpiresAt: p.ExpiresAt, URL: lifecycle.ShareURL(shareDomain, id),
	}
	summary, err := json.Marshal(out)
	if err != nil {
		return out, err
	}
	out.SkillID = &p.SkillID
	if err := s.o.Hub.PutShare(ctx, id, p.SkillID, p.Access == lifecycle.AccessPublic, p.ExpiresAt, summary, file.File); err != nil {
		return Share{}, err
	}
	return out, s.db.Write(ctx, func(tx *storage.Tx) error { // never the id, because whoever knows it can open the share
		return s.kind.Record(tx, r.item(), "shared", map[string]any{"version": r.version, "access": p.Access})
	})
}

// Unshare ends a share immediately. If the hub can't be reached, nothing changes.
func (s *Service) Unshare(ctx context.Context, p UnshareParams) (struct{}, error) {
	if err := s.needHub(ctx); err != nil {
		return struct{}{}, err
	}
	own, err := s.o.Hub.OwnShares(ctx, nil)
	if err != nil {
		return struct{}{}, err
	}
	for _, x := range own {
		if x.ID != p.ShareID {
			continue
		}
		if err := s.o.Hub.RevokeShare(ctx, p.ShareID); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, s.db.Write(ctx, func(tx *storage.Tx) error {
			return s.kind.Record(tx, lifecycle.Item{ID: x.Item}, "unshared", nil)
		})
	}
	return struct{}{}, fault.NotFoundf("Share not found.")
}

// Shares lists the caller's shares, of one skill or of all.
func (s *Service) Shares(ctx context.Context, p SharesParams) (SharesResult, error) {
	out := SharesResult{Shares: []Share{}}
	var err error
	if out.Hub, err = s.hub(ctx); err != nil || !out.Hub {
		return out, err
	}
	own, err := s.o.Hub.OwnShares(ctx, p.SkillID)
	if err != nil {
		return out, err
	}
	for _, x := range own {
		var sh Share
		if json.Unmarshal(x.Summary, &sh) == nil {
			sh.SkillID = &x.Item
			out.Shares = append(out.Shares, sh)
		}
	}
	return out, nil
}

// sharedFile returns the share file of a link.
func (s *Service) sharedFile(ctx context.Context, url string) (json.RawMessage, error) {
	id, err := lifecycle.ParseShareURL(shareDomain, "skill", url)
	if err != nil {
		return nil, err
	}
	if connected, err := s.hub(ctx); err != nil || !connected {
		if err == nil {
			err = fault.Unavailablef("No hub is connected to look up this link. Connect a hub and try again, or ask for the skill as a file and import that.")
		}
		return nil, err
	}
	body, err := s.o.Hub.GetShare(ctx, id)
	if fault.Is(err, fault.NotFound) {
		return nil, fault.NotFoundf("The skill is no longer shared.").WithCause(err)
	}
	return body, err
}

// searchHub adds other people's public shares to a search. Without an answer from the hub, the results
// of this device stand alone.
func (s *Service) searchHub(ctx context.Context, p SearchPublicParams, out *SearchPublicResult) error {
	connected, err := s.hub(ctx)
	if err != nil || !connected {
		return err
	}
	list, _, err := s.o.Hub.PublicShares(ctx, p.Query, p.Tags, p.Limit, 0)
	if err != nil {
		s.log.Info("the hub's shared skills are not listed", "err", fault.As(err).Message)
		return nil
	}
	out.Hub = true
	for _, text := range list {
		var sh Share
		if json.Unmarshal(text, &sh) == nil {
			out.Shared = append(out.Shared, sh)
		}
	}
	return nil
}
