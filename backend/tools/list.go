package tools

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/lifecycle"
	"helix/backend/storage"
)

// ListParams filters the caller's own tools.
type ListParams struct {
	Query      string     `json:"query,omitempty"` // substring of name or description; no wildcards
	Visibility Visibility `json:"visibility,omitempty"`
	Enabled    *bool      `json:"enabled,omitempty"`
	Suspended  *bool      `json:"suspended,omitempty"` // whether a change of the definition suspended grants
	Tags       []string   `json:"tags,omitempty"`      // tools that have all of these
	Sort       ListSort   `json:"sort,omitempty"`      // default recent
	Deleted    bool       `json:"deleted,omitempty"`   // list the deleted tools that can be restored instead
	Limit      int        `json:"limit,omitempty"`     // 1..100, default 50
	Offset     int        `json:"offset,omitempty"`
}

// ListSort is the order of a list.
type ListSort string

// The orders: most recently used or changed first, by name, most used first.
const (
	SortRecent ListSort = "recent"
	SortName   ListSort = "name"
	SortUsage  ListSort = "usage"
)

// Enum lists the values for the generated client.
func (ListSort) Enum() []string { return []string{"recent", "name", "usage"} }

// ListResult is one page. Total counts all matches.
type ListResult struct {
	Tools  []Summary `json:"tools"`
	Total  int       `json:"total"`
	Limit  int       `json:"limit"`
	Offset int       `json:"offset"`
}

// GetParams identifies a tool and, if Version is set, one of its versions.
type GetParams struct {
	ToolID  uuid.UUID `json:"toolId"`
	Version string    `json:"version,omitempty"`
}

// Metadata is what a caller needs to run a tool.
type Metadata struct {
	ID          uuid.UUID       `json:"id"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	Version     string          `json:"version"`
	UsageCount  int64           `json:"usageCount"`
	IsEnabled   bool            `json:"isEnabled"`
}

// SearchParams searches the public tools on this device, and those that other people share on the hub.
type SearchParams struct {
	Query  string   `json:"query"` // substring of name, description or a tag; "" matches all
	Tags   []string `json:"tags,omitempty"`
	Limit  int      `json:"limit,omitempty"` // 1..100, default 20
	Offset int      `json:"offset,omitempty"`
}

// SearchResult is one page of public tools, most used first.
type SearchResult struct {
	Tools []Summary `json:"tools"`
	Total int       `json:"total"`
	Hub   bool      `json:"hub"` // false: no hub is connected, so only tools of this device are listed
}

const summaryColumns = `t.id, t.name, t.description, t.version, t.usage_count, t.last_used, t.is_enabled, t.visibility, t.icon, t.tags, t.origin,
	t.signature IS NOT NULL, t.updated_at`

func scanSummary(row storage.Row, more ...any) (Summary, error) {
	t := Summary{Tags: []string{}}
	dst := []any{&t.ID, &t.Name, &t.Description, &t.Version, &t.UsageCount, storage.TimePtr(&t.LastUsed), &t.IsEnabled, &t.Visibility,
		&t.Icon, storage.JSON(&t.Tags), &t.Origin, &t.Signed, storage.Time(&t.UpdatedAt)}
	err := row.Scan(append(dst, more...)...)
	return t, err
}

// List returns a page of the caller's own tools.
func (s *Service) List(ctx context.Context, p ListParams) (ListResult, error) {
	out := ListResult{Tools: []Summary{}}
	if err := storage.CheckPage(&p.Limit, &p.Offset, 50, 100); err != nil {
		return out, err
	}
	if err := lifecycle.CheckEnum("visibility", p.Visibility); err != nil {
		return out, err
	}
	if err := lifecycle.CheckEnum("sort order", p.Sort); err != nil {
		return out, err
	}
	user := identity.UserID(ctx)
	out.Limit, out.Offset = p.Limit, p.Offset
	var f lifecycle.Filter
	f.Add("user_id = ?", user)
	if p.Deleted {
		f.Add("deleted_at > ?", time.Now().Add(-s.db.TrashAge()))
	} else {
		f.Add("deleted_at IS NULL")
	}
	f.Text(p.Query, "name", "description")
	if p.Visibility != "" {
		f.Add("visibility = ?", string(p.Visibility))
	}
	if p.Enabled != nil {
		f.Add("is_enabled = ?", *p.Enabled)
	}
	f.Tags(p.Tags...)
	order := map[ListSort]string{
		"": "t.updated_at DESC, t.id DESC", SortRecent: "t.updated_at DESC, t.id DESC",
		SortName: "t.name COLLATE NOCASE, t.id", SortUsage: "t.usage_count DESC, t.id",
	}[p.Sort]
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		if p.Suspended != nil {
			ids, err := s.suspendedTools(tx)
			if err != nil {
				return err
			}
			f.OneOf("id", ids, *p.Suspended)
		}
		if err := tx.QueryRow(`SELECT count(*) FROM custom_tools t WHERE `+f.Where(), f.Args...).Scan(&out.Total); err != nil {
			return err
		}
		var err error
		out.Tools, err = storage.Collect(tx.Select(`SELECT `+summaryColumns+`, coalesce((SELECT u.status FROM custom_tool_usage u WHERE u.custom_tool_id = t.id
			ORDER BY u.timestamp DESC LIMIT 1), '') FROM custom_tools t WHERE `+f.Where()+` ORDER BY `+order+` LIMIT ? OFFSET ?`,
			append(f.Args, p.Limit, p.Offset)...), func(row storage.Row) (Summary, error) {
			var last string
			t, err := scanSummary(row, &last)
			t.Mine, t.LastStatus = true, last
			return t, err
		})
		if err != nil {
			return err
		}
		return s.markSuspended(tx, out.Tools)
	})
	return out, err
}

// Search returns a page of public tools, most used first. It searches name, description and tags;
// the query has no wildcards.
func (s *Service) Search(ctx context.Context, p SearchParams) (SearchResult, error) {
	out := SearchResult{Tools: []Summary{}}
	if err := storage.CheckPage(&p.Limit, &p.Offset, 20, 100); err != nil {
		return out, err
	}
	user := identity.UserID(ctx)
	// A tool is listed because it is public or has a public share. A share also determines the version.
	const share = `(SELECT s.id FROM custom_tool_shares s WHERE s.custom_tool_id = t.id AND s.access = 'public' AND s.revoked_at IS NULL
		AND (s.expires_at IS NULL OR s.expires_at > ?1) ORDER BY s.created_at DESC LIMIT 1)`
	where := []string{"t.deleted_at IS NULL", "(t.visibility = 'public' OR EXISTS " + share + ")"}
	args := []any{nil} // ?1: now
	if p.Query != "" {
		where = append(where, `(t.name LIKE ?2 ESCAPE '\' OR t.description LIKE ?2 ESCAPE '\' OR t.tags LIKE ?2 ESCAPE '\' AND EXISTS (SELECT 1 FROM json_each(t.tags) j WHERE j.value LIKE ?2 ESCAPE '\'))`)
		args = append(args, storage.Like(p.Query))
	}
	for _, tag := range p.Tags {
		args = append(args, strings.TrimSpace(tag))
		where = append(where, "EXISTS (SELECT 1 FROM json_each(t.tags) j WHERE lower(j.value) = lower(?"+itoa(len(args))+"))")
	}
	cond := strings.Join(where, " AND ")
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		args[0] = tx.Now
		n := len(args)
		err := tx.Select(`WITH hits AS (SELECT t.id AS id, t.usage_count AS used, count(*) OVER () AS total FROM custom_tools t WHERE `+cond+`
			ORDER BY used DESC, id LIMIT ?`+itoa(n+1)+` OFFSET ?`+itoa(n+2)+`)
			SELECT `+summaryColumns+`, t.user_id, t.visibility = 'public', `+share+`, hits.total FROM hits JOIN custom_tools t ON t.id = hits.id
			ORDER BY hits.used DESC, t.id`, append(slices.Clone(args), p.Limit, p.Offset)...).Each(func(row storage.Row) error {
			var owner uuid.UUID
			var public bool
			var shareID uuid.NullUUID
			t, err := scanSummary(row, &owner, &public, &shareID, &out.Total)
			if err != nil {
				return err
			}
			t.Mine = owner == user
			if !t.Mine {
				t.LastUsed = nil
			}
			if shareID.Valid && !public {
				t.ShareID = &shareID.UUID
			}
			out.Tools = append(out.Tools, t)
			return nil
		})
		if err != nil || len(out.Tools) > 0 || p.Offset == 0 {
			return err
		}
		return tx.QueryRow(`SELECT count(*) FROM custom_tools t WHERE `+cond, args...).Scan(&out.Total) // the page is past the end
	})
	if err != nil {
		return out, err
	}
	return out, s.searchHub(ctx, p, &out)
}

// Get returns a tool with all its fields, the caller's own or a public one; with Version, the
// definition of that version.
func (s *Service) Get(ctx context.Context, p GetParams) (ToolResult, error) {
	return s.answer(ctx, s.db.Read, func(tx *storage.Tx) (*Tool, error) {
		t, err := visibleTool(tx, p.ToolID)
		if err != nil || p.Version == "" || p.Version == t.Version {
			return t, err
		}
		if !t.Mine {
			return nil, fault.NotFoundf("The tool doesn't have this version.")
		}
		v, err := loadVersion(tx, t.ID, p.Version)
		if err != nil {
			return nil, err
		}
		if v.hash != t.hash {
			t.sig = nil
		}
		t.setDefinition(v.def)
		t.Version, t.hash, t.DefinitionHash = v.Version, v.hash, v.DefinitionHash
		return t, nil
	})
}

// Metadata returns what a caller needs to run a tool.
func (s *Service) Metadata(ctx context.Context, p ToolID) (Metadata, error) {
	r, err := s.Get(ctx, GetParams{ToolID: p.ToolID})
	if err != nil {
		return Metadata{}, err
	}
	t := r.Tool
	return Metadata{ID: t.ID, Name: t.Name, Description: t.Description, Parameters: t.Parameters, Version: t.Version, UsageCount: t.UsageCount, IsEnabled: t.IsEnabled}, nil
}
