package skills

import (
	"context"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/lifecycle"
	"helix/backend/skills/definition"
	"helix/backend/storage"
)

// GetMetadata returns one skill with its definition, the caller's own or a public one.
func (s *Service) GetMetadata(ctx context.Context, p SkillParams) (Meta, error) {
	var r *row
	err := s.db.Read(ctx, func(tx *storage.Tx) (err error) {
		if r, err = visibleSkill(tx, p.SkillID); err != nil {
			return err
		}
		return withLastRun(tx, r)
	})
	if err != nil {
		return Meta{}, err
	}
	valid, err := s.valid(r, s.catalog(ctx))
	if err != nil {
		return Meta{}, err
	}
	return r.meta(valid), nil
}

// valid reports whether a stored skill can run on this installation now.
func (s *Service) valid(r *row, c definition.Catalog) (bool, error) {
	report, err := check(r, c)
	return err == nil && report.Valid(), err
}

// check validates a stored skill.
func check(r *row, c definition.Catalog) (*definition.Report, error) {
	text, err := r.skill().Text()
	if err != nil {
		return nil, err
	}
	return definition.Read(text, c)
}

// ListComposite lists the user's skills, newest first. Definitions are omitted: steps is
// empty, see stepCount.
func (s *Service) ListComposite(ctx context.Context, p ListParams) (ListResult, error) {
	if err := storage.CheckPage(&p.Limit, &p.Offset, 50, 100); err != nil {
		return ListResult{}, err
	}
	out := ListResult{Skills: []Meta{}, Limit: p.Limit, Offset: p.Offset}
	var f lifecycle.Filter
	f.Add("user_id = ?", identity.UserID(ctx))
	if p.Deleted {
		f.Add("deleted_at IS NOT NULL AND deleted_at > ?", s.o.Now().Add(-s.db.TrashAge()))
	} else {
		f.Add("deleted_at IS NULL")
	}
	if p.Enabled != nil {
		f.Add("is_enabled = ?", *p.Enabled)
	}
	f.Text(p.Query, "name", "description", "tags")
	if p.Tag != "" {
		f.Tags(p.Tag)
	}
	var rows []*row
	err := s.db.Read(ctx, func(tx *storage.Tx) (err error) {
		if err := tx.QueryRow(`SELECT count(*) FROM composite_skills WHERE `+f.Where(), f.Args...).Scan(&out.Total); err != nil {
			return err
		}
		rows, err = scanRows(tx, `SELECT `+rowColumns+` FROM composite_skills WHERE `+f.Where()+` ORDER BY created_at DESC, id DESC LIMIT ? OFFSET ?`,
			append(f.Args, p.Limit, p.Offset)...)
		if err != nil {
			return err
		}
		for _, r := range rows {
			if err := withLastRun(tx, r); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return out, err
	}
	out.Skills, err = s.summaries(ctx, rows)
	return out, err
}

func scanRows(tx *storage.Tx, query string, args ...any) ([]*row, error) {
	return storage.Collect(tx.Select(query, args...), scanRow)
}

func (s *Service) summaries(ctx context.Context, rows []*row) ([]Meta, error) {
	out := make([]Meta, 0, len(rows))
	c := s.catalog(ctx)
	for _, r := range rows {
		valid, err := s.valid(r, c)
		if err != nil {
			return nil, err
		}
		out = append(out, r.summary(valid))
	}
	return out, nil
}

// SearchPublic searches public skills, most used first. The query has no wildcards.
func (s *Service) SearchPublic(ctx context.Context, p SearchPublicParams) (SearchPublicResult, error) {
	out := SearchPublicResult{Skills: []Meta{}, Shared: []Share{}}
	if err := storage.CheckPage(&p.Limit, nil, 20, 100); err != nil {
		return out, err
	}
	if len(p.Tags) > definition.MaxTags {
		return out, fault.Invalidf("tags has %d entries; the limit is %d.", len(p.Tags), definition.MaxTags)
	}
	var f lifecycle.Filter
	f.Text(p.Query, "name", "description", "tags")
	f.Tags(p.Tags...)
	var rows []*row
	err := s.db.Read(ctx, func(tx *storage.Tx) (err error) {
		if err := tx.QueryRow(`SELECT count(*) FROM public_skills WHERE `+f.Where(), f.Args...).Scan(&out.Total); err != nil {
			return err
		}
		if rows, err = scanRows(tx, `SELECT `+publicColumns+` FROM public_skills WHERE `+f.Where()+` ORDER BY execution_count DESC, id LIMIT ?`,
			append(f.Args, p.Limit)...); err != nil {
			return err
		}
		for i, r := range rows {
			if own, err := ownSkill(tx, r.id); err == nil {
				rows[i] = own
			} else if !fault.Is(err, fault.NotFound) {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return out, err
	}
	if out.Skills, err = s.summaries(ctx, rows); err != nil {
		return out, err
	}
	return out, s.searchHub(ctx, p, &out)
}
