package tools

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/lifecycle"
	"helix/backend/storage"
)

// Access is who can open a share.
type Access = lifecycle.Access

// The kinds of access.
const (
	AccessLink   = lifecycle.AccessLink
	AccessPublic = lifecycle.AccessPublic
)

// ShareParams shares one version of a tool.
type ShareParams struct {
	ToolID    uuid.UUID  `json:"toolId"`
	Access    Access     `json:"access"`
	Version   string     `json:"version,omitempty"` // default: the current one; later edits do not change the share
	ExpiresAt *time.Time `json:"expiresAt,omitempty"`
}

// ShareResult contains the link. If Hub is false no hub is connected: the link can only be opened
// on this device, and a tool is shared with other people by exporting a file.
type ShareResult struct {
	ShareID uuid.UUID `json:"shareId"`
	URL     string    `json:"url"` // helix://tools/shared/<id>
	Version string    `json:"version"`
	Hub     bool      `json:"hub"`
	Note    string    `json:"note,omitempty"`
}

// UnshareParams identifies a share.
type UnshareParams struct {
	ShareID uuid.UUID `json:"shareId"`
}

// SharesParams selects the shares of one tool, or of all.
type SharesParams struct {
	ToolID *uuid.UUID `json:"toolId,omitempty"`
}

// Share is one share of a tool.
type Share struct {
	ShareID        uuid.UUID  `json:"shareId"`
	ToolID         uuid.UUID  `json:"toolId"`
	URL            string     `json:"url"`
	Access         Access     `json:"access"`
	Version        string     `json:"version"`
	DefinitionHash string     `json:"definitionHash"`
	Opens          int64      `json:"opens"`
	CreatedAt      time.Time  `json:"createdAt"`
	ExpiresAt      *time.Time `json:"expiresAt,omitempty"`
	RevokedAt      *time.Time `json:"revokedAt,omitempty"`
	State          string     `json:"state"` // active, expired or revoked
}

// SharesResult lists shares, newest first.
type SharesResult struct {
	Shares []Share `json:"shares"`
	Hub    bool    `json:"hub"`
}

// ResolveShareParams identifies a share by its id or its link.
type ResolveShareParams struct {
	ShareID *uuid.UUID `json:"shareId,omitempty"`
	URL     string     `json:"url,omitempty"`
}

// ResolveShareResult is the review of the shared tool, as in the dry run of an import.
type ResolveShareResult struct {
	ShareID uuid.UUID    `json:"shareId"`
	Preview ImportResult `json:"preview"`
}

// shareDomain is the domain in links to shared tools.
const shareDomain = "tools"

// noHub is the note in results that would need a hub.
const noHub = "No hub is connected, so this link opens on this device only. To share the tool with someone else, export it as a file."

// Share creates a link to one version of a tool. Later edits of the tool do not change the share.
func (s *Service) Share(ctx context.Context, p ShareParams) (ShareResult, error) {
	var out ShareResult
	if p.Access == "" {
		return out, fault.Invalidf("Set who can open it: access must be link or public.")
	}
	if err := lifecycle.CheckEnum("kind of access", p.Access); err != nil {
		return out, err
	}
	var id uuid.UUID
	if _, err := rand.Read(id[:]); err != nil {
		return out, err
	}
	var shared BundleTool
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		t, err := ownTool(tx, p.ToolID)
		if err != nil {
			return err
		}
		if p.ExpiresAt != nil && !p.ExpiresAt.After(tx.Now) {
			return fault.Invalidf("The share would already have expired.")
		}
		if p.Version == "" {
			p.Version = t.Version
		}
		v, err := loadVersion(tx, t.ID, p.Version)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(`INSERT INTO custom_tool_shares (id, custom_tool_id, user_id, version, definition_hash, access, expires_at, created_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, id, t.ID, t.owner, v.Version, v.hash, string(p.Access), p.ExpiresAt, tx.Now); err != nil {
			return err
		}
		out = ShareResult{ShareID: id, URL: lifecycle.ShareURL(shareDomain, id), Version: v.Version, Note: noHub}
		if shared, err = s.sharedTool(tx, id); err != nil {
			return err
		}
		return s.kind.Changed(tx, t.item(), "shared", map[string]any{"version": v.Version, "access": p.Access}) // never the id, because whoever knows it can open the share
	})
	if err != nil {
		return out, err
	}
	if err := s.publish(ctx, p, &out, shared); err != nil {
		return ShareResult{}, err
	}
	return out, nil
}

// Unshare ends a share immediately. If the hub can't be reached, nothing changes.
func (s *Service) Unshare(ctx context.Context, p UnshareParams) (struct{}, error) {
	if connected, err := s.hub(ctx); err != nil {
		return struct{}{}, err
	} else if connected {
		if err := s.o.Hub.RevokeShare(ctx, p.ShareID); err != nil {
			return struct{}{}, err
		}
	}
	return struct{}{}, s.db.Write(ctx, func(tx *storage.Tx) error {
		var tool uuid.UUID
		err := tx.QueryRow(`UPDATE custom_tool_shares SET revoked_at = coalesce(revoked_at, ?) WHERE id = ? AND user_id = ? RETURNING custom_tool_id`,
			tx.Now, p.ShareID, identity.UserID(ctx)).Scan(&tool)
		if errors.Is(err, sql.ErrNoRows) {
			return fault.NotFoundf("Share not found.")
		}
		if err != nil {
			return err
		}
		return s.kind.Changed(tx, lifecycle.Item{ID: tool}, "unshared", nil)
	})
}

// Shares lists the caller's shares, of one tool or of all.
func (s *Service) Shares(ctx context.Context, p SharesParams) (SharesResult, error) {
	out := SharesResult{Shares: []Share{}}
	err := s.db.Read(ctx, func(tx *storage.Tx) (err error) {
		if s.o.Hub != nil {
			if out.Hub, err = s.o.Hub.Connected(tx); err != nil {
				return err
			}
		}
		tool := uuid.Nil
		if p.ToolID != nil {
			tool = *p.ToolID
			if _, err := ownTool(tx, tool); err != nil {
				return err
			}
		}
		return tx.Select(`SELECT id, custom_tool_id, access, version, definition_hash, opens, created_at, expires_at, revoked_at FROM custom_tool_shares
			WHERE user_id = ?1 AND (?2 IS NULL OR custom_tool_id = ?2) ORDER BY created_at DESC LIMIT 1000`, identity.UserID(ctx), tool).Each(func(row storage.Row) error {
			var x Share
			var hash []byte
			if err := row.Scan(&x.ShareID, &x.ToolID, &x.Access, &x.Version, &hash, &x.Opens, storage.Time(&x.CreatedAt),
				storage.TimePtr(&x.ExpiresAt), storage.TimePtr(&x.RevokedAt)); err != nil {
				return err
			}
			x.URL, x.DefinitionHash, x.State = lifecycle.ShareURL(shareDomain, x.ShareID), hashText([32]byte(hash)), "active"
			switch {
			case x.RevokedAt != nil:
				x.State = "revoked"
			case x.ExpiresAt != nil && !x.ExpiresAt.After(tx.Now):
				x.State = "expired"
			}
			out.Shares = append(out.Shares, x)
			return nil
		})
	})
	return out, err
}

// ResolveShare returns the review of a shared tool. It adds and runs nothing.
func (s *Service) ResolveShare(ctx context.Context, p ResolveShareParams) (ResolveShareResult, error) {
	var out ResolveShareResult
	switch {
	case (p.ShareID == nil) == (p.URL == ""):
		return out, fault.Invalidf("Provide shareId or url.")
	case p.ShareID != nil:
		out.ShareID = *p.ShareID
	default:
		id, err := lifecycle.ParseShareURL(shareDomain, "tool", p.URL)
		if err != nil {
			return out, err
		}
		out.ShareID = id
	}
	list, err := s.readShare(ctx, out.ShareID, true)
	if err != nil {
		return out, err
	}
	out.Preview, err = s.review(ctx, list, "share:"+out.ShareID.String(), lifecycle.Rename)
	return out, err
}

var errShareElsewhere = fault.Unavailablef("This share isn't on this device, and no hub is connected to look it up. Connect a hub and try again, or ask for the tool as a file and import that.")

func shareEnded(err error) error {
	return fault.NotFoundf("The tool is no longer shared.").WithCause(err)
}

// readShare loads the shared version as a candidate for import, whoever its owner is, from this device
// or from the hub. counted means that this counts as an opening of the share.
func (s *Service) readShare(ctx context.Context, id uuid.UUID, counted bool) ([]candidate, error) {
	var b BundleTool
	elsewhere := false
	read := func(tx *storage.Tx) (err error) {
		if b, err = s.sharedTool(tx, id); errors.Is(err, errShareElsewhere) {
			elsewhere = true
			return nil
		}
		if err == nil && counted {
			_, err = tx.Exec(`UPDATE custom_tool_shares SET opens = opens + 1 WHERE id = ?`, id)
		}
		return err
	}
	var err error
	if counted {
		err = s.db.Write(ctx, read)
	} else {
		err = s.db.Read(ctx, read)
	}
	if elsewhere {
		b, err = s.openOnHub(ctx, id)
	}
	if err != nil {
		return nil, err
	}
	b.Samples = nil
	c, err := s.checker().checkCandidate(ctx, 0, b)
	if err != nil {
		return nil, err
	}
	return []candidate{c}, nil
}

// sharedTool returns the version that a share of this device pins, without its samples. A share of
// another device is errShareElsewhere.
func (s *Service) sharedTool(tx *storage.Tx, id uuid.UUID) (b BundleTool, err error) {
	var tool uuid.UUID
	var version string
	var hash []byte
	var expires, revoked *time.Time
	err = tx.QueryRow(`SELECT custom_tool_id, version, definition_hash, expires_at, revoked_at FROM custom_tool_shares WHERE id = ?`, id).
		Scan(&tool, &version, &hash, storage.TimePtr(&expires), storage.TimePtr(&revoked))
	if errors.Is(err, sql.ErrNoRows) {
		return b, errShareElsewhere
	}
	if err != nil {
		return b, err
	}
	if revoked != nil || expires != nil && !expires.After(tx.Now) {
		return b, shareEnded(nil)
	}
	t, err := scanTool(tx.QueryRow(`SELECT `+toolColumns+` FROM custom_tools WHERE id = ? AND deleted_at IS NULL`, tool), uuid.Nil)
	if err != nil {
		return b, shareEnded(err)
	}
	v, err := loadDefinition(tx, tool, version, hash)
	if err != nil {
		return b, shareEnded(err)
	}
	t.setDefinition(v.def)
	t.hash, t.Version = v.hash, v.Version
	b, err = s.bundleTool(tx, t, false)
	b.Samples = nil
	return b, err
}
