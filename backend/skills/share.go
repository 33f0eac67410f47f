package skills

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"

	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/lifecycle"
	"helix/backend/skills/definition"
	"helix/backend/storage"
)

const (
	shareSuffix  = ".helixskill.json"
	maxShareFile = 8 << 20
	maxShareTool = 100
)

// shareFormat is the format of share files, *.helixskill.json.
var shareFormat = lifecycle.Container{Format: "helix-skill", Version: 1, MaxBytes: maxShareFile, Sealed: true}

// shareFile is an exported skill. It contains no ids of users or tools, no grants, no
// secrets and no history.
type shareFile struct {
	Format        string            `json:"format"`
	FormatVersion int               `json:"formatVersion"`
	Skill         json.RawMessage   `json:"skill"`
	Dependencies  []Dependency      `json:"dependencies"`
	Tools         []json.RawMessage `json:"tools,omitempty"`
	lifecycle.Seal
}

// Export returns the share file of a skill of the caller, signed with this device's key unless that
// is locked. Tools are referenced by name, because ids are meaningless on other installations.
func (s *Service) Export(ctx context.Context, p ExportParams) (ExportResult, error) {
	r, err := storage.Result(ctx, s.db.Read, func(tx *storage.Tx) (*row, error) { return ownSkill(tx, p.SkillID) })
	if err != nil {
		return ExportResult{}, err
	}
	c := s.catalog(ctx)
	f := &shareFile{Format: shareFormat.Format, FormatVersion: shareFormat.Version, Dependencies: []Dependency{}}
	sk := r.skill()
	sk.SkillID, sk.IsEnabled, sk.Visibility = "", nil, ""
	if sk.Body, err = portable(&sk.Body, c); err != nil {
		return ExportResult{}, err
	}
	if f.Skill, err = sk.Text(); err != nil {
		return ExportResult{}, err
	}
	deps, err := dependencies(&sk.Body, c)
	if err != nil {
		return ExportResult{}, err
	}
	var ids []string
	for _, d := range deps {
		f.Dependencies = append(f.Dependencies, d.Dependency)
		if d.ToolType == definition.Custom && d.id != "" {
			ids = append(ids, d.id)
		}
	}
	if p.IncludeTools && len(ids) > 0 {
		sharer, ok := s.o.Callables.Provider(callable.Tool).(callable.Portable)
		if !ok {
			return ExportResult{}, fault.Unavailablef("Tools can't be included in a share file here. Export the skill without them.")
		}
		if f.Tools, err = sharer.Export(ctx, ids); err != nil {
			return ExportResult{}, err
		}
	}
	text, err := shareFormat.Write(s.db, f, func(seal lifecycle.Seal) { f.Seal = seal })
	return ExportResult{File: text, Filename: filename(r.name)}, err
}

var notInNames = regexp.MustCompile(`[^\p{L}\p{N}._-]+`)

// filename returns a name for the file that is valid on every system.
func filename(name string) string {
	base := strings.Trim(notInNames.ReplaceAllString(name, "-"), "-.")
	if base == "" {
		base = "skill"
	}
	return lifecycle.Cut(base, 60) + shareSuffix
}

// portable returns a body whose steps reference callables by name instead of id.
func portable(b *definition.Body, c definition.Catalog) (definition.Body, error) {
	text, err := b.Text()
	if err != nil {
		return definition.Body{}, err
	}
	out, err := definition.Parse(text)
	if err != nil {
		return definition.Body{}, err
	}
	var failed error
	out.Walk(func(_ string, st *definition.Step) {
		if st.ToolID == "" || failed != nil {
			return
		}
		found, err := c.Find(st.ToolType, st.ToolID, "")
		if err != nil {
			failed = err
		} else if len(found) == 1 {
			st.ToolName = found[0].Name
		}
		if st.ToolName != "" {
			st.ToolID = ""
		}
	})
	return *out, failed
}

// dependency is a Dependency with its local id.
type dependency struct {
	Dependency
	id string
}

// dependencies lists the callables of steps, sorted by kind and name. Built-ins are part of Helix
// and have no hash.
func dependencies(b *definition.Body, c definition.Catalog) ([]dependency, error) {
	var out []dependency
	var failed error
	b.Walk(func(_ string, st *definition.Step) {
		if !st.ToolType.Calls() || failed != nil || st.ToolName == "" && st.ToolID == "" {
			return
		}
		d := dependency{Dependency: Dependency{ToolType: st.ToolType, Name: st.ToolName}}
		found, err := c.Find(st.ToolType, st.ToolID, st.ToolName)
		if err != nil {
			failed = err
			return
		}
		if len(found) == 1 {
			d.Name, d.id = found[0].Name, found[0].ID
			if st.ToolType != definition.Builtin {
				d.DefinitionHash = found[0].Hash
			}
		}
		if d.Name != "" {
			out = append(out, d)
		}
	})
	slices.SortFunc(out, func(a, b dependency) int {
		return strings.Compare(string(a.ToolType)+"\x00"+a.Name, string(b.ToolType)+"\x00"+b.Name)
	})
	return slices.CompactFunc(out, func(a, b dependency) bool { return a.ToolType == b.ToolType && a.Name == b.Name }), failed
}

// readShare reads a share file and verifies its integrity.
func readShare(raw json.RawMessage) (*shareFile, error) {
	text, headed, err := shareFormat.Read(raw)
	if err != nil {
		return nil, err
	}
	f := &shareFile{}
	if err := json.Unmarshal(text, f); err != nil || !headed {
		return nil, fault.Invalidf("This file isn't a Helix skill.")
	}
	if len(f.Tools) > maxShareTool {
		return nil, fault.Limitf("The file has %d tools; the limit is %d.", len(f.Tools), maxShareTool)
	}
	return f, nil
}

// sameName returns the caller's skill with a name, or nil.
func (s *Service) sameName(tx *storage.Tx, name string) (*row, error) {
	it, err := s.kind.Named(tx, identity.UserID(tx.Context()), name, uuid.Nil)
	if err != nil || it == nil {
		return nil, err
	}
	return ownSkill(tx, it.ID)
}
