package skills

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/skills/definition"
	"helix/backend/storage"
)

// The verdicts of a rights preview.
const (
	verdictReady  = "ready"  // all that is needed is granted
	verdictAsks   = "asks"   // a person will be asked
	verdictDenied = "denied" // some step would be refused
)

// maxRightsSteps bounds a preview with all the skills that it looks into.
const maxRightsSteps = 5000

// PreviewRights says what a run would need, without asking anybody. The steps of skills that
// it calls are listed where they are called first.
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

func errWhich() error { return fault.Invalidf("Give skillId or skill.") }

// visible loads a skill of the caller, or a public one.
func (s *Service) visible(ctx context.Context, id uuid.UUID) (r *row, err error) {
	err = s.db.Read(ctx, func(tx *storage.Tx) (err error) { r, err = visibleSkill(tx, id); return err })
	return r, err
}

// rights looks at each step that calls something.
func (s *Service) rights(ctx context.Context, c definition.Catalog, body *definition.Body, unattended bool) (RightsPreview, error) {
	l := &looker{s: s, ctx: ctx, catalog: c, known: map[string]Rights{}, skills: map[string]bool{}, out: RightsPreview{Steps: []StepRights{}, Union: []string{}}}
	if err := l.steps("", body.Steps, 1); err != nil {
		return RightsPreview{}, err
	}
	slices.Sort(l.out.Union)
	l.out.Union = slices.Compact(l.out.Union)
	l.judge(unattended)
	return l.out, nil
}

type looker struct {
	s       *Service
	ctx     context.Context
	catalog definition.Catalog
	known   map[string]Rights // by what is called
	skills  map[string]bool   // those whose steps are listed
	out     RightsPreview
}

// judge says what the steps come to.
func (l *looker) judge(unattended bool) {
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
			l.out.Reason += " Nobody would be there to be asked."
		}
		return
	}
}

func (l *looker) steps(prefix string, steps []definition.Step, depth int) error {
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

func (l *looker) call(path string, st *definition.Step, depth int) error {
	if len(l.out.Steps) >= maxRightsSteps {
		return fault.Limitf("The skill and those that it calls have more than %d steps.", maxRightsSteps)
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
			out.Denied = "Several things have the name of what it calls."
		}
		l.out.Steps = append(l.out.Steps, out)
		return nil
	}
	f := found[0]
	out.ToolName, out.ToolHash, out.Tier = f.Name, f.Hash, tier(f)
	if f.Kind == definition.SkillCall { // a skill holds no rights; its steps need them
		l.out.Steps = append(l.out.Steps, out)
		if key := f.ID + st.SkillVersion; f.Body != nil && !l.skills[key] && depth < definition.MaxCalls {
			l.skills[key] = true
			return l.steps(path+"/", f.Body.Steps, depth+1)
		}
		return nil
	}
	r, err := l.needs(f, st)
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
	if out.Denied = r.Denied; r.Tier != "" {
		out.Tier = r.Tier
	}
	l.out.Steps, l.out.Union = append(l.out.Steps, out), append(l.out.Union, out.Needs...)
	return nil
}

// find finds what a step calls, a pinned skill as it was.
func (l *looker) find(st *definition.Step) ([]definition.Callable, error) {
	found, err := l.catalog.Find(st.ToolType, st.ToolID, st.ToolName)
	if v, ok := l.catalog.(definition.Versions); ok && err == nil && len(found) == 1 && st.ToolType == definition.SkillCall && st.SkillVersion != "" {
		return v.FindVersion(found[0].ID, st.SkillVersion)
	}
	return found, err
}

// needs asks what a call needs, once for each thing that is called.
func (l *looker) needs(f definition.Callable, st *definition.Step) (Rights, error) {
	if f.Kind == definition.Builtin {
		b := l.s.builtins[f.Name]
		if b.Rights == nil {
			return Rights{Needs: b.Capabilities, Missing: b.Capabilities, Tier: b.Tier}, nil
		}
		return b.Rights(l.ctx, st)
	}
	if f.ID == "" && f.Kind == definition.Custom {
		return Rights{Tier: tier(f), Denied: "It comes with the file and is disabled until you enable it."}, nil
	}
	key := string(f.Kind) + "\x00" + f.ID + "\x00" + f.Name
	if r, ok := l.known[key]; ok {
		return r, nil
	}
	r := Rights{Needs: f.Capabilities, Tier: tier(f), Denied: "Nothing here can call it."}
	if run := l.s.runner(f.Kind); run != nil {
		var err error
		r, err = run.Rights(l.ctx, f)
		switch fault.KindOf(err) {
		case "":
		case fault.Unavailable, fault.NotFound, fault.Denied:
			r = Rights{Needs: f.Capabilities, Tier: tier(f), Denied: fault.As(err).Message}
		default:
			return Rights{}, err
		}
	}
	l.known[key] = r
	return r, nil
}
