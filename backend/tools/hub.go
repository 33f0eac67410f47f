package tools

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

// hub reports whether a hub is connected.
func (s *Service) hub(ctx context.Context) (yes bool, err error) {
	if s.o.Hub == nil {
		return false, nil
	}
	return storage.Result(ctx, s.db.Read, s.o.Hub.Connected)
}

// publish stores a new share on the hub. If that fails, the share is removed.
func (s *Service) publish(ctx context.Context, p ShareParams, out *ShareResult, b BundleTool) error {
	var err error
	if out.Hub, err = s.hub(ctx); err != nil || !out.Hub {
		return err
	}
	summary, err := json.Marshal(Summary{
		ID: out.ShareID, ShareID: &out.ShareID, Name: b.Definition.Name, Description: b.Definition.Description, Version: b.Version, Tags: b.Tags,
		Icon: b.Icon, Visibility: Public, IsEnabled: true, Origin: OriginHub, Signed: b.Signature != nil, UpdatedAt: time.Now().UTC(),
	})
	if err != nil {
		return err
	}
	body, err := json.Marshal(b)
	if err != nil {
		return err
	}
	if err = s.o.Hub.PutShare(ctx, out.ShareID, p.ToolID, p.Access == AccessPublic, p.ExpiresAt, summary, body); err == nil {
		out.Note = ""
		return nil
	}
	if e := s.db.Write(ctx, func(tx *storage.Tx) error {
		_, e := tx.Exec(`DELETE FROM custom_tool_shares WHERE id = ? AND user_id = ?`, out.ShareID, identity.UserID(ctx))
		return e
	}); e != nil {
		return e
	}
	return err
}

// openOnHub returns a share of another device.
func (s *Service) openOnHub(ctx context.Context, id uuid.UUID) (b BundleTool, err error) {
	connected, err := s.hub(ctx)
	if err != nil {
		return b, err
	}
	if !connected {
		return b, errShareElsewhere
	}
	body, err := s.o.Hub.GetShare(ctx, id)
	if fault.Is(err, fault.NotFound) {
		return b, shareEnded(err)
	}
	if err != nil {
		return b, err
	}
	if json.Unmarshal(body, &b) != nil {
		return b, fault.Unavailablef("The shared tool can't be read. It may need a newer version of Helix.")
	}
	return b, nil
}

// searchHub adds the part of the page that follows the local results. Without an answer from the hub,
// the local results stand alone.
func (s *Service) searchHub(ctx context.Context, p SearchParams, out *SearchResult) error {
	connected, err := s.hub(ctx)
	if err != nil || !connected {
		return err
	}
	list, total, err := s.o.Hub.PublicShares(ctx, p.Query, p.Tags, p.Limit-len(out.Tools), max(p.Offset-out.Total, 0))
	if err != nil {
		s.log.Info("the hub's shared tools are not listed", "err", fault.As(err).Message)
		return nil
	}
	out.Hub, out.Total = true, out.Total+total
	for _, text := range list {
		var t Summary
		if json.Unmarshal(text, &t) == nil && t.ShareID != nil {
			t.Mine, t.LastUsed, t.UsageCount = false, nil, 0
			out.Tools = append(out.Tools, t)
		}
	}
	return nil
}

// unpublish ends shares of a deleted tool on the hub. If the hub can't be reached, it ends them when
// the deletion of the tool reaches it.
func (s *Service) unpublish(ctx context.Context, ids []uuid.UUID) {
	if connected, err := s.hub(ctx); err != nil || !connected || len(ids) == 0 {
		return
	}
	s.wg.Go(func() {
		ctx := context.WithoutCancel(ctx)
		for _, id := range ids {
			if err := s.o.Hub.RevokeShare(ctx, id); err != nil {
				s.log.Info("a share of a deleted tool ends on the hub with the next sync", "err", fault.As(err).Message)
				return
			}
		}
	})
}
