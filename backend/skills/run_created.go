package skills

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"crypto/sha256"

	"github.com/google/uuid"

	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/skills/definition"
	"helix/backend/skills/machine"
	"helix/backend/storage"
)

// created is the data of a run's first event: everything that the run depends on besides the
// definition, the input and later events.
type created struct {
	Name        string                        `json:"skill"`
	Trigger     string                        `json:"trigger"`
	Attended    bool                          `json:"attended"`
	TimeoutMs   int64                         `json:"timeoutMs"`
	MaxDocument int                           `json:"maxDocument"`
	Above       []string                      `json:"above,omitempty"` // ids of the enclosing skills, outermost first
	Tools       map[string]target             `json:"tools"`           // by step id
	Schemas     map[string]json.RawMessage    `json:"schemas,omitempty"`
	Reused      map[string]machine.ReusedData `json:"reused,omitempty"`
}

// target is the callable of a step, as resolved when the run began.
type target struct {
	machine.Tool
	Kind         definition.Kind  `json:"kind"`
	ID           string           `json:"id,omitempty"`
	Name         string           `json:"name"`
	Capabilities []string         `json:"capabilities,omitempty"`
	Schema       string           `json:"schema,omitempty"`  // key in Schemas of its input schema
	Missing      *machine.Failure `json:"missing,omitempty"` // why it cannot be called
}

// start returns the input of the state machine.
func (c *created) start(s *Service, id uuid.UUID, at time.Time, input json.RawMessage, p *program) machine.Start {
	tools := make(map[string]machine.Tool, len(c.Tools))
	for step, t := range c.Tools {
		tools[step] = t.Tool
	}
	return machine.Start{
		ID: id.String(), Trigger: c.Trigger, At: at, Body: p.body, Input: input, Tools: tools, Reused: c.Reused, MaxDocument: c.MaxDocument,
		Program: &p.parsed, Check: func(step string, in any) error {
			t := c.Tools[step]
			if t.Schema == "" {
				return nil
			}
			// The machine must decide the same at each replay, so this check must not depend on a
			// context. Its work is limited.
			return checkValue(context.Background(), &s.schemas, c.Schemas[t.Schema], in, "")
		},
	}
}

// callable returns the callable of a step, as resolved when the run began.
func (c *created) callable(step string) callable.Info {
	t := c.Tools[step]
	return callable.Info{
		Ref: callable.Ref{Kind: t.Kind.Callable(), ID: t.ID}, Name: t.Name, Hash: t.Hash, Input: c.Schemas[t.Schema],
		Effects: callable.Effects{ReadOnly: t.Tier == tierReadOnly, Idempotent: t.Idempotent}, Capabilities: t.Capabilities,
	}
}

// resolve finds the callables of the steps. A missing one is not an error; the run reports it when
// it reaches the step.
func (s *Service) resolve(ctx context.Context, body *definition.Body, c *created) error {
	return s.resolveAll(ctx, body, c, func(string, definition.Callable) {})
}

// resolveAll is resolve that also calls found with each callable.
func (s *Service) resolveAll(ctx context.Context, body *definition.Body, c *created, found func(step string, f definition.Callable)) error {
	catalog := s.catalog(ctx)
	c.Tools, c.Schemas = map[string]target{}, map[string]json.RawMessage{}
	var failed error
	body.Walk(func(_ string, def *definition.Step) {
		if !def.ToolType.Calls() || failed != nil {
			return
		}
		t, f, err := find(catalog, def)
		if err != nil {
			failed = err
			return
		}
		found(def.StepID, f)
		schema := f.Input
		if len(schema) > 0 && string(schema) != "null" {
			sum := sha256.Sum256(schema)
			t.Schema = hex.EncodeToString(sum[:8])
			c.Schemas[t.Schema] = schema
		}
		c.Tools[def.StepID] = t
	})
	return failed
}

func find(catalog definition.Catalog, def *definition.Step) (t target, f definition.Callable, err error) {
	var found []definition.Callable
	if versions, ok := catalog.(definition.Versions); ok && def.ToolType == definition.SkillCall && def.SkillVersion != "" && def.ToolID != "" {
		found, err = versions.FindVersion(def.ToolID, def.SkillVersion)
	} else {
		found, err = catalog.Find(def.ToolType, def.ToolID, def.ToolName)
	}
	name := def.ToolName
	if name == "" {
		name = def.ToolID
	}
	t = target{Kind: def.ToolType, ID: def.ToolID, Name: name}
	switch {
	case fault.Is(err, fault.Unavailable):
		t.Missing = &machine.Failure{Kind: string(fault.Unavailable), Message: fault.As(err).Message}
		return t, f, nil
	case err != nil:
		return t, f, err
	case len(found) == 0:
		t.Missing = &machine.Failure{Kind: string(fault.NotFound), Message: fmt.Sprintf("tool %q no longer exists", name)}
		return t, f, nil
	case len(found) > 1:
		t.Missing = &machine.Failure{Kind: string(fault.Invalid), Message: fmt.Sprintf("%d tools are called %q; choose one by its id", len(found), name)}
		return t, f, nil
	}
	f = found[0]
	t.ID, t.Name, t.Capabilities = f.ID, f.Name, slices.Clone(f.Capabilities)
	t.Tool = machine.Tool{Hash: f.Hash, Tier: f.Effects.Tier(), Idempotent: f.Effects.Idempotent}
	if f.Kind == callable.Skill {
		t.Idempotent, t.Resumes = false, true
	}
	return t, f, nil
}

// program is a definition shared by its runs.
type program struct {
	body   *definition.Body
	parsed machine.Program
}

// programs caches the definitions of recent runs by hash.
type programs struct {
	mu sync.Mutex
	m  map[string]*program
}

const maxPrograms = 128

// get returns the shared program of the body with a hash.
func (p *programs) get(hash string, body func() (*definition.Body, error)) (*program, error) {
	p.mu.Lock()
	found := p.m[hash]
	p.mu.Unlock()
	if found != nil {
		return found, nil
	}
	b, err := body()
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.m) >= maxPrograms || p.m == nil {
		p.m = map[string]*program{}
	}
	if found = p.m[hash]; found == nil {
		found = &program{body: b}
		p.m[hash] = found
	}
	return found, nil
}

// program returns the definition of a run.
func (s *Service) program(tx *storage.Tx, r *runRow) (*program, error) {
	return s.programs.get(r.hash, func() (*definition.Body, error) {
		if r.body != nil {
			return definition.Parse(r.body)
		}
		if r.version == nil {
			return nil, fault.NotFoundf("The definition of this run no longer exists.")
		}
		v, err := scanVersion(tx.QueryRow(`SELECT `+versionColumns+` FROM composite_skill_versions WHERE id = ?`, r.version))
		if err != nil {
			return nil, err
		}
		return definition.Parse(v.Body)
	})
}

// atHash sets the definition of the row to the version with a hash.
func (r *row) atHash(tx *storage.Tx, hash string) error {
	sum, err := hex.DecodeString(hash)
	if err != nil {
		return err
	}
	v, err := scanVersion(tx.QueryRow(`SELECT `+versionColumns+` FROM composite_skill_versions WHERE composite_skill_id = ? AND user_id = ? AND definition_hash = ?
		ORDER BY created_at DESC LIMIT 1`, r.id, r.user, sum))
	if err != nil {
		return err
	}
	r.version, r.hash, r.head = v.Version, v.DefinitionHash, v.VersionID
	r.body, err = definition.Parse(v.Body)
	return err
}
