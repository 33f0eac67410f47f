package skills

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/jcs"
	"helix/backend/permission"
	"helix/backend/skills/definition"
	"helix/backend/storage"
)

// The verdicts of a permission preview.
const (
	verdictReady  = "ready"  // everything needed is granted
	verdictAsks   = "asks"   // a person will be asked
	verdictDenied = "denied" // a step would be refused
)

// maxRightsSteps limits the number of steps in a preview, including those of nested skills.
const maxRightsSteps = 5000

// PreviewRights returns what a run would need, without asking anyone. The steps of a nested skill
// are listed at its first call.
func (s *Service) PreviewRights(ctx context.Context, p PreviewRightsParams) (RightsPreview, error) {
	if (p.SkillID == nil) == (len(p.Skill) == 0) {
		return RightsPreview{}, errWhich()
	}
	c := s.catalog(ctx)
	var body *definition.Body
	if p.SkillID != nil {
		r, err := s.visible(ctx, *p.SkillID)
		if err != nil {
			return RightsPreview{}, err
		}
		body = r.body
	} else {
		r, err := definition.Read(p.Skill, c)
		if err != nil {
			return RightsPreview{}, err
		}
		if r.Skill == nil {
			return RightsPreview{}, problemsError(r, "The skill cannot be read")
		}
		body = &r.Skill.Body
	}
	return s.rights(ctx, c, body, p.Unattended)
}

func errWhich() error { return fault.Invalidf("Provide skillId or skill.") }

// visible loads a skill of the caller, or a public one.
func (s *Service) visible(ctx context.Context, id uuid.UUID) (r *row, err error) {
	return storage.Result(ctx, s.db.Read, func(tx *storage.Tx) (*row, error) { return visibleSkill(tx, id) })
}

// rights evaluates each step that calls something.
func (s *Service) rights(ctx context.Context, c definition.Catalog, body *definition.Body, unattended bool) (RightsPreview, error) {
	l, err := s.previewRights(ctx, c, body)
	if err != nil {
		return RightsPreview{}, err
	}
	slices.Sort(l.out.Union)
	l.out.Union = slices.Compact(l.out.Union)
	l.judge(unattended)
	return l.out, nil
}

func (s *Service) previewRights(ctx context.Context, c definition.Catalog, body *definition.Body) (*rightsPreview, error) {
	l := &rightsPreview{
		s: s, ctx: ctx, catalog: c, known: map[string]rights{}, skills: map[string]bool{}, out: RightsPreview{Steps: []StepRights{}, Union: []string{}},
		whole: permission.NewPreview(),
	}
	return l, l.steps("", body.Steps, 1)
}

// rights is what a call needs.
type rights struct {
	Needs, Granted, Missing []string // capabilities such as network:https(api.example.org)
	Tier                    string
	Denied                  string // why it is refused regardless of grants; empty: it is not
	preview                 permission.PreviewResult
}

// changedDefinition is listed as missing for a callable that has changed since it was approved.
const changedDefinition = "approval of its changed definition"

// stepRights returns what a call of i needs and what is granted now, without asking anyone.
func (s *Service) stepRights(ctx context.Context, i callable.Info, input json.RawMessage) (rights, error) {
	out := rights{Needs: []string{}, Granted: []string{}, Missing: []string{}, Tier: i.Effects.Tier()}
	p, err := s.o.Callables.Rights(ctx, i, input)
	switch fault.KindOf(err) {
	case "":
	case fault.Unavailable, fault.NotFound, fault.Denied, fault.Invalid:
		out.Needs, out.Denied = slices.Concat(out.Needs, i.Capabilities), fault.As(err).Message
		out.preview = permission.NewPreview()
		return out, nil
	default:
		return out, err
	}
	out.preview = p
	for _, st := range p.Steps {
		for _, k := range st.Capabilities {
			text := permission.FormatCapability(k.Capability, k.Resource)
			out.Needs = append(out.Needs, text)
			switch k.State {
			case "granted":
				out.Granted = append(out.Granted, text)
			case "denied":
				out.Missing = append(out.Missing, text)
				out.Denied = cmp.Or(out.Denied, fmt.Sprintf("%s was refused to %q.", text, i.Name))
			default:
				out.Missing = append(out.Missing, text)
			}
		}
	}
	for _, stop := range p.Stops {
		if stop.Reason == permission.ReasonDefinitionChanged { // it leads to a question, not a refusal
			out.Needs, out.Missing = append(out.Needs, changedDefinition), append(out.Missing, changedDefinition)
			continue
		}
		out.Denied = cmp.Or(out.Denied, stop.Message+".")
	}
	return out, nil
}

// knownInput returns the part of a step's input that is known before the run.
func knownInput(st *definition.Step) json.RawMessage {
	in := maps.Clone(st.Parameters)
	if in == nil {
		in = map[string]any{}
	}
	for k, v := range st.InputMapping {
		if text, ok := v.(string); ok && !strings.HasPrefix(text, "$") {
			in[k] = v
		} else {
			delete(in, k)
		}
	}
	raw, err := jcs.Marshal(in)
	if err != nil {
		return nil
	}
	return raw
}

type rightsPreview struct {
	s       *Service
	ctx     context.Context
	catalog definition.Catalog
	known   map[string]rights // by callable
	skills  map[string]bool   // skills whose steps are listed
	out     RightsPreview
	whole   permission.PreviewResult // the result in the form of package permission
}

// judge derives the verdict from the steps.
func (l *rightsPreview) judge(unattended bool) {
	l.out.Verdict = verdictReady
	for _, st := range l.out.Steps {
		if st.Denied != "" {
			l.out.Verdict, l.out.Reason = verdictDenied, fmt.Sprintf("Step %s: %s", st.StepPath, st.Denied)
			return
		}
	}
	for _, st := range l.out.Steps {
		if len(st.Missing) == 0 {
			continue
		}
		l.out.Verdict, l.out.Reason = verdictAsks, fmt.Sprintf("Step %s needs %s, which is not granted.", st.StepPath, st.Missing[0])
		if unattended {
			l.out.Verdict = verdictDenied
			l.out.Reason += " Nobody will be there to answer."
		}
		return
	}
}

func (l *rightsPreview) steps(prefix string, steps []definition.Step, depth int) error {
	for i := range steps {
		st := &steps[i]
		path := prefix + st.StepID
		if st.ToolType.Calls() {
			if err := l.call(path, st, depth); err != nil {
				return err
			}
		}
		bodies := [][]definition.Step{st.Steps}
		for _, c := range st.Cases {
			bodies = append(bodies, c.Steps)
		}
		for _, b := range append(bodies, st.Else) {
			if err := l.steps(path+"/", b, depth); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *rightsPreview) call(path string, st *definition.Step, depth int) error {
	if len(l.out.Steps) >= maxRightsSteps {
		return fault.Limitf("The skill and the skills it calls have more than %d steps.", maxRightsSteps)
	}
	found, err := l.find(st)
	if err != nil {
		return err
	}
	out := StepRights{StepPath: path, ToolName: st.ToolName, Needs: []string{}, Granted: []string{}, Missing: []string{}, Tier: "sideEffecting"}
	if out.ToolName == "" {
		out.ToolName = st.ToolID
	}
	if len(found) != 1 {
		out.Denied = "What it calls does not exist."
		if len(found) > 1 {
			out.Denied = "The name of what it calls is ambiguous."
		}
		l.add(out, permission.NewPreview())
		return nil
	}
	f := found[0]
	out.ToolName, out.ToolHash, out.Tier = f.Name, f.Hash, f.Effects.Tier()
	if f.Kind == callable.Skill { // a skill has no capabilities of its own
		l.out.Steps = append(l.out.Steps, out)
		if key := f.ID + st.SkillVersion; f.Body != nil && !l.skills[key] && depth < definition.MaxCalls {
			l.skills[key] = true
			return l.steps(path+"/", f.Body.Steps, depth+1)
		}
		return nil
	}
	r, err := l.needs(f.Info, st)
	if err != nil {
		return err
	}
	add := func(dst *[]string, list []string) {
		if len(list) > 0 {
			*dst = list
		}
	}
	add(&out.Needs, r.Needs)
	add(&out.Granted, r.Granted)
	add(&out.Missing, r.Missing)
	out.Denied, out.Tier = r.Denied, r.Tier
	l.add(out, r.preview)
	l.out.Union = append(l.out.Union, out.Needs...)
	return nil
}

func (l *rightsPreview) add(st StepRights, p permission.PreviewResult) {
	l.out.Steps = append(l.out.Steps, st)
	l.whole.Add(st.StepPath, p)
	if st.Denied != "" {
		l.whole.Unattended = "will_stop"
		if why := fmt.Sprintf("Step %s: %s", st.StepPath, st.Denied); len(p.Stops) == 0 && !slices.Contains(l.whole.Unresolved, why) {
			l.whole.Unresolved = append(l.whole.Unresolved, why)
		}
	}
}

// find returns the callable of a step; for a pinned skill, the pinned version.
func (l *rightsPreview) find(st *definition.Step) ([]definition.Callable, error) {
	found, err := l.catalog.Find(st.ToolType, st.ToolID, st.ToolName)
	if v, ok := l.catalog.(definition.Versions); ok && err == nil && len(found) == 1 && st.ToolType == definition.SkillCall && st.SkillVersion != "" {
		return v.FindVersion(found[0].ID, st.SkillVersion)
	}
	return found, err
}

// needs returns what a call needs. The result is cached per callable, except for built-ins, whose
// needs depend on the input.
func (l *rightsPreview) needs(i callable.Info, st *definition.Step) (rights, error) {
	if i.ID == "" && i.Kind == callable.Tool {
		return rights{Tier: i.Effects.Tier(), Denied: "It is imported with the file, and disabled until you enable it.", preview: permission.NewPreview()}, nil
	}
	key := i.Ref.String()
	if r, ok := l.known[key]; ok && i.Kind != callable.Builtin {
		return r, nil
	}
	r, err := l.s.stepRights(l.ctx, i, knownInput(st))
	l.known[key] = r
	return r, err
}
