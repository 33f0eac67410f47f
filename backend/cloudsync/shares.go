package cloudsync

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"helix/backend/fault"
	"helix/backend/lifecycle"
	"helix/backend/storage"
)

// Shares stores shared items of one kind on the hub, unencrypted, for the people who use the same hub.
// It implements lifecycle.Hub.
type Shares struct {
	s    *Service
	kind string // tool or skill
}

// ToolShares returns the hub's shared tools.
func (s *Service) ToolShares() Shares { return Shares{s, "tool"} }

// SkillShares returns the hub's shared skills.
func (s *Service) SkillShares() Shares { return Shares{s, "skill"} }

// Connected reports whether this device has a hub.
func (Shares) Connected(tx *storage.Tx) (yes bool, err error) { return hasHub(tx) }

// hasHub reports whether this device has a hub.
func hasHub(tx *storage.Tx) (yes bool, err error) {
	err = tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM sync_local WHERE hub IS NOT NULL)`).Scan(&yes)
	return yes, err
}

// PutShare stores a share of an item. Summary is what a search shows.
func (h Shares) PutShare(ctx context.Context, id, item uuid.UUID, public bool, expires *time.Time, summary, body []byte) error {
	return h.s.session(ctx, func(ctx context.Context, c *pgx.Conn, _ local) error {
		_, err := c.Exec(ctx, `select sync.put_share($1, $2, $3, $4, $5::jsonb, $6, $7)`, id, item, public, expires, string(summary), string(body), h.kind)
		return err
	})
}

// GetShare returns the body of a share, or fault.NotFound if it does not exist or has ended.
func (h Shares) GetShare(ctx context.Context, id uuid.UUID) (body []byte, err error) {
	err = h.s.session(ctx, func(ctx context.Context, c *pgx.Conn, _ local) error {
		var text *string
		if err := c.QueryRow(ctx, `select sync.get_share($1, $2)`, id, h.kind).Scan(&text); err != nil {
			return err
		}
		if text == nil {
			return fault.NotFoundf("Share not found.")
		}
		body = []byte(*text)
		return nil
	})
	return body, err
}

// RevokeShare ends a share of the caller. Ending an unknown share is not an error.
func (h Shares) RevokeShare(ctx context.Context, id uuid.UUID) error {
	return h.s.session(ctx, func(ctx context.Context, c *pgx.Conn, _ local) error {
		_, err := c.Exec(ctx, `select sync.revoke_share($1)`, id)
		return err
	})
}

// PublicShares returns a page of the summaries of other people's public shares, newest first.
func (h Shares) PublicShares(ctx context.Context, query string, tags []string, limit, offset int) (summaries [][]byte, total int, err error) {
	where := ` from public.public_` + h.kind + `s where others
		and ($1 = '' or concat_ws(' ', summary ->> 'name', summary ->> 'description', summary ->> 'tags') ilike '%' || replace(replace(replace($1, '\', '\\'), '%', '\%'), '_', '\_') || '%')
		and not exists (select 1 from unnest($2::text[]) tag where not exists (select 1 from jsonb_array_elements_text(summary -> 'tags') x where lower(x) = lower(trim(tag))))`
	if tags == nil {
		tags = []string{}
	}
	err = h.s.session(ctx, func(ctx context.Context, c *pgx.Conn, _ local) error {
		if err := c.QueryRow(ctx, `select count(*)`+where, query, tags).Scan(&total); err != nil {
			return err
		}
		rows, err := c.Query(ctx, `select summary::text`+where+` order by created_at desc, id limit $3 offset $4`, query, tags, limit, offset)
		if err != nil {
			return err
		}
		texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
		for _, text := range texts {
			summaries = append(summaries, []byte(text))
		}
		return err
	})
	return summaries, total, err
}

// OwnShares returns the caller's shares that have not ended, newest first; of one item, or of all if item
// is nil.
func (h Shares) OwnShares(ctx context.Context, item *uuid.UUID) (list []lifecycle.HubShare, err error) {
	err = h.s.session(ctx, func(ctx context.Context, c *pgx.Conn, _ local) error {
		rows, err := c.Query(ctx, `select id, item_id, public, summary, created_at, expires_at from sync.own_shares($1, $2)`, h.kind, item)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, pgx.RowToStructByPos[lifecycle.HubShare])
		return err
	})
	return list, err
}
