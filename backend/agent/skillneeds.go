package agent

import (
	"context"
	"os/exec"
	"slices"
	"strings"
)

// The kinds of requirements of a document. A requirement without a kind matches any of them.
const (
	needsTool    = "tool"
	needsSkill   = "skill"
	needsProgram = "program"
)

// checkRequires adds a diagnostic to each document with a missing requirement: a tool of agents,
// another document, or a program on this computer. The document can't be used until the requirement
// is met.
func (s *Service) checkRequires(ctx context.Context, docs []*SkillDocument) error {
	if !slices.ContainsFunc(docs, func(d *SkillDocument) bool { return len(d.Requires) > 0 }) {
		return nil
	}
	list, err := s.tools(ctx, &State{})
	if err != nil {
		return err
	}
	has := map[string]func(name string) bool{
		needsTool: func(name string) bool {
			return slices.ContainsFunc(list, func(t tool) bool { return t.decl.Name == name })
		},
		needsSkill: func(name string) bool {
			return slices.ContainsFunc(docs, func(d *SkillDocument) bool { return d.Name == name && d.trusted && !d.doc.invalid() })
		},
		needsProgram: func(name string) bool {
			if name == "" || strings.ContainsAny(name, `/\`) {
				return false
			}
			_, err := exec.LookPath(name)
			return err == nil
		},
	}
	for _, d := range docs {
		for _, need := range d.Requires {
			kind, name, named := strings.Cut(need, ":")
			switch {
			case named && has[kind] == nil:
				d.doc.report(levelError, "requires", "It requires %q; write tool:NAME, skill:NAME or program:NAME.", need)
			case named && !has[kind](name):
				d.doc.report(levelError, "requires", "It requires the %s %s, which is not there.", kind, name)
			case !named && !has[needsTool](need) && !has[needsSkill](need) && !has[needsProgram](need):
				d.doc.report(levelError, "requires", "It requires %s, and there is no tool, skill or program of this name.", need)
			default:
				continue
			}
			d.Diagnostics = append([]SkillDiagnostic{}, d.doc.diagnostics...)
		}
	}
	return nil
}
