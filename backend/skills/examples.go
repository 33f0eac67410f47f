package skills

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"

	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/lifecycle"
	"helix/backend/skills/definition"
	"helix/backend/storage"
)

//go:embed examples
var exampleFiles embed.FS

// example is a skill shipped with Helix, with the names of the tools and of the other examples that
// its steps call.
type example struct {
	Template
	Skill  json.RawMessage `json:"skill"`
	tools  []callable.Draft
	skills []string // keys
}

// examples returns the shipped skills, which are parsed once.
var examples = sync.OnceValues(func() ([]example, error) {
	var drafts []struct {
		Key, Name, Description, Icon string
		Parameters                   json.RawMessage
	}
	if err := readExample("tools.json", &drafts); err != nil {
		return nil, err
	}
	tools := map[string]callable.Draft{}
	for _, d := range drafts {
		code, err := exampleFiles.ReadFile("examples/" + d.Key + ".ts")
		if err != nil {
			return nil, err
		}
		tools[d.Name] = callable.Draft{
			Name: d.Name, Description: d.Description, Language: "typescript", Code: string(code), Parameters: d.Parameters, Icon: d.Icon, Tags: []string{"example"},
		}
	}
	var list []example
	if err := readExample("skills.json", &list); err != nil {
		return nil, err
	}
	keys := map[string]string{}
	for i := range list {
		if err := list[i].describe(tools, keys); err != nil {
			return nil, fmt.Errorf("read example %s: %w", list[i].Key, err)
		}
	}
	return list, nil
})

func readExample(name string, into any) error {
	raw, err := exampleFiles.ReadFile("examples/" + name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	return nil
}

// describe sets the fields that are derived from the definition. An example may call only
// examples before it.
func (e *example) describe(tools map[string]callable.Draft, keys map[string]string) error {
	var about struct{ Name, Description, Icon string }
	if err := json.Unmarshal(e.Skill, &about); err != nil {
		return err
	}
	body, err := definition.Parse(e.Skill)
	if err != nil {
		return err
	}
	e.Name, e.Description, e.Icon, e.StepCount, e.Tools, e.Skills = about.Name, about.Description, about.Icon, body.Count(), []string{}, []string{}
	body.Walk(func(_ string, st *definition.Step) {
		switch st.ToolType {
		case definition.Custom:
			d, ok := tools[st.ToolName]
			if !ok {
				err = fmt.Errorf("unknown tool %q", st.ToolName)
			}
			if !slices.Contains(e.Tools, d.Name) {
				e.Tools, e.tools = append(e.Tools, d.Name), append(e.tools, d)
			}
		case definition.SkillCall:
			key, ok := keys[st.ToolName]
			if !ok {
				err = fmt.Errorf("no example %q before it", st.ToolName)
			}
			e.Skills, e.skills = append(e.Skills, st.ToolName), append(e.skills, key)
		}
	})
	keys[e.Name] = e.Key
	return err
}

// Texts returns the English texts of the templates and the built-in steps, by key.
func Texts() (map[string]string, error) {
	list, err := examples()
	out := map[string]string{}
	for _, e := range list {
		out["skill."+e.Key+".name"], out["skill."+e.Key+".description"] = e.Name, e.Description
	}
	builtins, closing := Builtins(BuiltinOptions{})
	defer closing()
	for _, b := range builtins {
		out["builtin."+b.Info.Name] = b.Info.Title
	}
	return out, err
}

// Templates lists the skills that can be used as templates. They have no external dependencies.
func (s *Service) Templates(context.Context, struct{}) (TemplatesResult, error) {
	list, err := examples()
	if err != nil {
		return TemplatesResult{}, err
	}
	out := TemplatesResult{Templates: make([]Template, 0, len(list))}
	for _, e := range list {
		out.Templates = append(out.Templates, e.Template)
	}
	return out, nil
}

// CreateFromTemplate creates a skill of the caller from a template, together with the tools and the other
// skills that it calls, unless the caller already has these. If the name is taken a number is appended.
func (s *Service) CreateFromTemplate(ctx context.Context, p FromTemplateParams) (Meta, error) {
	list, err := examples()
	if err != nil {
		return Meta{}, err
	}
	at := slices.IndexFunc(list, func(e example) bool { return e.Key == p.Key })
	if at < 0 {
		return Meta{}, fault.NotFoundf("Template %q not found.", lifecycle.Cut(p.Key, 64))
	}
	return s.createExample(ctx, list, &list[at], strings.TrimSpace(p.Name), false)
}

// createExample creates one example. With reuse, a skill of the caller that is identical is used instead.
func (s *Service) createExample(ctx context.Context, list []example, e *example, name string, reuse bool) (Meta, error) {
	known := map[string]callable.Info{}
	for _, d := range e.tools {
		maker, ok := s.o.Callables.Provider(callable.Tool).(callable.Maker)
		if !ok {
			return Meta{}, fault.Unavailablef("The template needs tools, and tools can't be created here.")
		}
		c, err := maker.Ensure(ctx, d)
		if err != nil {
			return Meta{}, err
		}
		known[string(definition.Custom)+d.Name] = c
	}
	for _, key := range e.skills {
		inner := &list[slices.IndexFunc(list, func(x example) bool { return x.Key == key })]
		m, err := s.createExample(ctx, list, inner, "", true)
		if err != nil {
			return Meta{}, err
		}
		known[string(definition.SkillCall)+inner.Name] = callable.Info{Ref: callable.Ref{ID: m.SkillID.String()}, Name: m.Name}
	}
	r, err := definition.Read(e.Skill, bound{s.catalog(ctx), known})
	if err != nil {
		return Meta{}, err
	}
	sk := r.Skill
	sk.Walk(func(_ string, st *definition.Step) {
		if c, ok := known[string(st.ToolType)+st.ToolName]; ok {
			st.ToolID, st.ToolName = c.ID, c.Name
		}
	})
	if name == "" {
		name = sk.Name
	}
	n := &row{
		id: storage.NewID(), user: identity.UserID(ctx), name: name, description: sk.Description, tags: sk.Tags, icon: sk.Icon, enabled: true, body: &sk.Body,
	}
	valid, err := s.valid(n, s.catalog(ctx))
	if err != nil {
		return Meta{}, err
	}
	n.enabled = valid
	found := uuid.Nil
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		if n.hash, err = n.body.Hash(); err != nil {
			return err
		}
		if reuse {
			old, err := s.sameName(tx, name)
			if err != nil {
				return err
			}
			if old != nil && old.hash == n.hash && old.enabled {
				found = old.id
				return nil
			}
		}
		if n.name, err = s.kind.FreeName(tx, n.user, name, nil); err != nil {
			return err
		}
		return s.addTx(tx, n, "from the template "+e.Key, "edit")
	})
	if err != nil {
		return Meta{}, err
	}
	if found != uuid.Nil {
		return s.GetMetadata(ctx, SkillParams{found})
	}
	return n.meta(valid), nil
}

// bound is a catalog that maps some names to other callables.
type bound struct {
	definition.Catalog
	known map[string]callable.Info
}

func (b bound) Find(kind definition.Kind, id, name string) ([]definition.Callable, error) {
	if c, ok := b.known[string(kind)+name]; ok && id == "" {
		return b.Catalog.Find(kind, c.ID, "")
	}
	return b.Catalog.Find(kind, id, name)
}
