package skills

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/google/uuid"

	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/skills/definition"
	"helix/backend/storage"
)

// requestCatalog lists what the caller of one request can call, with a cache. It is not safe for
// concurrent use.
type requestCatalog struct {
	s     *Service
	ctx   context.Context
	known map[catalogKey][]definition.Callable
}

type catalogKey struct {
	kind             definition.Kind
	id, name, pinned string
}

// catalog returns the catalog of what the caller can call.
func (s *Service) catalog(ctx context.Context) definition.Catalog {
	return &requestCatalog{s: s, ctx: ctx, known: map[catalogKey][]definition.Callable{}}
}

// Serves implements definition.Kinds.
func (c *requestCatalog) Serves(kind definition.Kind) bool {
	return c.s.o.Callables.Provider(kind.Callable()) != nil
}

// Find implements definition.Catalog. The user's own callables come before public ones. Kinds that
// this installation does not provide match nothing.
func (c *requestCatalog) Find(kind definition.Kind, id, name string) ([]definition.Callable, error) {
	if id != "" {
		name = ""
	}
	return c.once(catalogKey{kind, id, name, ""}, func() ([]definition.Callable, error) {
		if kind == definition.SkillCall { // including their steps
			return c.skills(id, name)
		}
		found, err := c.s.o.Callables.Find(c.ctx, kind.Callable(), id, name)
		out := make([]definition.Callable, len(found))
		for i := range found {
			out[i].Info = found[i]
		}
		return out, err
	})
}

// FindVersion implements definition.Versions.
func (c *requestCatalog) FindVersion(id, version string) ([]definition.Callable, error) {
	return c.once(catalogKey{definition.SkillCall, id, "", version}, func() (out []definition.Callable, _ error) {
		key, err := uuid.Parse(id)
		if err != nil {
			return nil, nil
		}
		err = c.s.db.Read(c.ctx, func(tx *storage.Tx) error {
			r, err := visibleSkill(tx, key)
			if err != nil {
				return err
			}
			if r.version != version {
				if err := r.at(tx, version); err != nil {
					return err
				}
			}
			out = []definition.Callable{r.callable()}
			return nil
		})
		if fault.Is(err, fault.NotFound) {
			return nil, nil
		}
		return out, err
	})
}

func (c *requestCatalog) once(key catalogKey, find func() ([]definition.Callable, error)) ([]definition.Callable, error) {
	if found, ok := c.known[key]; ok {
		return found, nil
	}
	found, err := find()
	if err == nil {
		c.known[key] = found
	}
	return found, err
}

func (c *requestCatalog) skills(id, name string) (out []definition.Callable, _ error) {
	err := c.s.db.Read(c.ctx, func(tx *storage.Tx) error {
		user := identity.UserID(c.ctx)
		var found []*row
		var err error
		if id != "" {
			key, perr := uuid.Parse(id)
			if perr != nil {
				return nil
			}
			r, err := visibleSkill(tx, key)
			if err == nil {
				out = append(out, r.callable())
			} else if !fault.Is(err, fault.NotFound) {
				return err
			}
			return nil
		}
		found, err = scanRows(tx, `SELECT `+rowColumns+` FROM composite_skills WHERE user_id = ? AND lower(name) = lower(?2) AND name = ?2 AND deleted_at IS NULL`, user, name)
		if err == nil && len(found) == 0 {
			found, err = scanRows(tx, `SELECT `+publicColumns+` FROM public_skills WHERE name = ? LIMIT 10`, name)
		}
		for _, r := range found {
			out = append(out, r.callable())
		}
		return err
	})
	return out, err
}

// callable returns the skill as a callable for other skills. It is idempotent, because a repeated
// call finds the run by the key of the call.
func (r *row) callable() definition.Callable {
	i := callable.Info{
		Ref: callable.Ref{Kind: callable.Skill, ID: r.id.String()}, Name: r.name, Description: r.description, Hash: r.hash, Version: r.version,
		Input: r.body.InputSchema, Effects: callable.Effects{Idempotent: true}, Untrusted: true,
	}
	if !r.enabled {
		i.Blocked = callable.ReasonDisabled
	}
	return definition.Callable{Info: i, Body: r.body}
}

// Catalog lists what steps can call on this installation. Kinds that are not available are omitted.
func (s *Service) Catalog(ctx context.Context, p CatalogParams) (CatalogResult, error) {
	out := CatalogResult{Entries: []CatalogEntry{}}
	list, err := s.o.Callables.List(ctx)
	for _, c := range list {
		if matches(p.Query, c.Name, c.Description) {
			out.Entries = append(out.Entries, entry(c))
		}
	}
	slices.SortStableFunc(out.Entries, func(a, b CatalogEntry) int {
		return cmp.Or(cmp.Compare(a.ToolType, b.ToolType), cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)), cmp.Compare(a.ToolID, b.ToolID))
	})
	return out, err
}

// callableRows returns the skills that a user may call: the user's own, newest first, then public ones.
func callableRows(tx *storage.Tx, user uuid.UUID) ([]*row, error) {
	own, err := scanRows(tx, `SELECT `+rowColumns+` FROM composite_skills WHERE user_id = ? AND deleted_at IS NULL ORDER BY created_at DESC LIMIT 1000`, user)
	if err != nil {
		return nil, err
	}
	public, err := scanRows(tx, `SELECT `+publicColumns+` FROM public_skills p WHERE NOT EXISTS (SELECT 1 FROM composite_skills c WHERE c.id = p.id AND c.user_id = ?)
		ORDER BY execution_count DESC, id LIMIT 100`, user)
	return append(own, public...), err
}

func matches(query string, texts ...string) bool {
	query = strings.ToLower(strings.TrimSpace(query))
	return slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(strings.ToLower(t), query) })
}

func entry(c callable.Info) CatalogEntry {
	e := CatalogEntry{
		ToolType: definition.KindOf(c.Kind), ToolID: c.ID, Name: c.Name, Description: c.Description, InputSchema: c.Input, OutputSchema: c.Output,
		Tier: c.Effects.Tier(), Idempotent: c.Effects.Idempotent, Capabilities: c.Capabilities,
	}
	if e.Capabilities == nil {
		e.Capabilities = []string{}
	}
	return e
}
