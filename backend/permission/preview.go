package permission

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

const maxSteps = 1000

// NewPreview returns the preview of a run that needs nothing.
func NewPreview() PreviewResult {
	return PreviewResult{
		Steps: []PreviewStep{}, Union: []PreviewCapability{}, Hosts: []string{}, Secrets: []string{}, WillAsk: []Item{}, Stops: []PreviewStop{}, Unresolved: []string{},
		Tier: ReadOnly.String(), Unattended: "ok",
	}
}

// Add adds what one step of the run needs to r. The step's own steps are prefixed with its name.
func (r *PreviewResult) Add(step string, o PreviewResult) {
	for _, s := range o.Steps {
		if s.StepID = step + "/" + s.StepID; len(o.Steps) == 1 {
			s.StepID = step
		}
		r.Steps = append(r.Steps, s)
	}
	r.Union, r.WillAsk = merge(r.Union, o.Union), merge(r.WillAsk, o.WillAsk)
	r.Hosts, r.Secrets = merge(r.Hosts, o.Hosts), merge(r.Secrets, o.Secrets)
	r.Stops, r.Unresolved = merge(r.Stops, o.Stops), merge(r.Unresolved, o.Unresolved)
	r.Tier = max(parseTier(r.Tier), parseTier(o.Tier)).String()
	if o.Unattended != "ok" {
		r.Unattended = o.Unattended
	}
}

func merge[E comparable](list, more []E) []E {
	for _, e := range more {
		if !slices.Contains(list, e) {
			list = append(list, e)
		}
	}
	return list
}

// Preview returns what a run of a subject would need, what of it is granted, and whether an
// unattended run would stop. It runs nothing.
func (s *Service) Preview(ctx context.Context, p PreviewParams) (PreviewResult, error) {
	res := NewPreview()
	user := identity.UserID(ctx)
	info, err := s.lookup(ctx, p.Subject.Kind, p.Subject.ID)
	if err != nil {
		return res, err
	}
	if info.State == "" {
		return res, fault.NotFoundf("No such %s.", clip(Sanitize(p.Subject.Kind), 40))
	}
	root := Subject{Kind: p.Subject.Kind, ID: p.Subject.ID, DefinitionHash: info.DefinitionHash}
	steps := []Step{{ID: "run", Subject: root, Tier: tierOf(info.Declared), Wants: info.Declared}}
	stepped := false
	if st, ok := s.kind(p.Subject.Kind).src.(Stepper); ok {
		if steps, err = st.Steps(ctx, p.Subject.Kind, p.Subject.ID, p.Input); err != nil {
			return res, err
		}
		stepped = true
	}
	if len(steps) > maxSteps {
		return res, fault.Limitf("A preview can show at most %d steps.", maxSteps)
	}
	caller, _ := identity.From(ctx)
	pv := previewer{s: s, user: user, session: caller.Session, res: &res, union: map[PreviewCapability]bool{}, infos: map[SubjectRef]SubjectInfo{{Kind: root.Kind, ID: root.ID}: info}}
	if stepped {
		pv.limit = true
		for _, w := range info.Declared {
			pv.outer = append(pv.outer, compile(w.Capability, w.Resource, s.space(), root))
		}
	}
	var top Tier
	if err := s.db.Read(ctx, func(tx *storage.Tx) error { // one snapshot for all steps
		subs := []Subject{root}
		for i := range steps {
			subs = append(subs, steps[i].Subject)
		}
		if err := s.loadUncached(tx, user, subs); err != nil {
			return err
		}
		if err := pv.check(tx.Context(), root); err != nil {
			return err
		}
		for i := range steps {
			top = max(top, steps[i].Tier)
			if err := pv.step(tx.Context(), &steps[i]); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return res, err
	}
	res.Tier = top.String()
	if len(res.WillAsk) > 0 || pv.stops {
		res.Unattended = "will_stop"
	}
	slices.Sort(res.Hosts)
	res.Hosts = slices.Compact(res.Hosts)
	slices.Sort(res.Secrets)
	res.Secrets = slices.Compact(res.Secrets)
	return res, nil
}

// tierOf returns the tier of a subject that only declares wants.
func tierOf(wants []Want) Tier {
	t := ReadOnly
	for _, w := range wants {
		if w.Capability != State && w.Capability != FilesystemRead {
			t = SideEffecting
		}
	}
	return t
}

type previewer struct {
	s       *Service
	user    uuid.UUID
	session uuid.UUID // of the caller; its grants apply to a run that the caller starts
	res     *PreviewResult
	outer   []rule // what the subject that contains the steps declares
	limit   bool
	stops   bool
	union   map[PreviewCapability]bool
	infos   map[SubjectRef]SubjectInfo
}

func (p *previewer) info(ctx context.Context, sub Subject) (SubjectInfo, error) {
	k := SubjectRef{Kind: sub.Kind, ID: sub.ID}
	if i, ok := p.infos[k]; ok {
		return i, nil
	}
	i, err := p.s.lookup(ctx, sub.Kind, sub.ID)
	p.infos[k] = i
	return i, err
}

// check records what would prevent a subject from running.
func (p *previewer) check(ctx context.Context, sub Subject) error {
	info, err := p.info(ctx, sub)
	if err != nil {
		return err
	}
	if info.State != Active {
		state := info.State
		if state == "" {
			state = "missing"
		}
		p.stop(sub, info, ReasonInactive, "is "+state)
		return nil
	}
	sh, _, err := p.s.grantsOf(ctx, p.user, sub, false)
	if err != nil {
		return err
	}
	if !sh.approves(sub.DefinitionHash, &info) && !sh.firstIsApproved(sub.DefinitionHash, &info) {
		p.stop(sub, info, ReasonDefinitionChanged, "has changed since it was approved")
	}
	return nil
}

func (p *previewer) stop(sub Subject, info SubjectInfo, reason, words string) {
	p.stops = true
	s := PreviewStop{Subject: SubjectRef{Kind: sub.Kind, ID: sub.ID, Name: Sanitize(info.Name)}, Reason: reason, Message: subjectWords(sub.Kind, info.Name) + " " + words}
	p.res.Stops = merge(p.res.Stops, []PreviewStop{s})
	p.note(s.Message)
}

func (p *previewer) note(text string) {
	if !slices.Contains(p.res.Unresolved, text) {
		p.res.Unresolved = append(p.res.Unresolved, text)
	}
}

func (p *previewer) step(ctx context.Context, st *Step) error {
	info, err := p.info(ctx, st.Subject)
	if err != nil {
		return err
	}
	if st.Unresolved != "" {
		p.note(Sanitize(st.Unresolved))
	}
	if err := p.check(ctx, st.Subject); err != nil {
		return err
	}
	sh, _, err := p.s.grantsOf(ctx, p.user, st.Subject, false)
	if err != nil {
		return err
	}
	out := PreviewStep{StepID: st.ID, Subject: SubjectRef{Kind: st.Subject.Kind, ID: st.Subject.ID, Name: Sanitize(info.Name)}, Tier: st.Tier.String(), Capabilities: []PreviewCapability{}}
	for _, w := range st.Wants {
		c := p.capability(sh, st, w)
		out.Capabilities = append(out.Capabilities, c)
		p.join(c)
		switch w.Capability {
		case NetworkHTTPS:
			p.res.Hosts = append(p.res.Hosts, w.Resource)
		case Secret:
			p.res.Secrets = append(p.res.Secrets, w.Resource)
		}
		if item := (Item{Capability: w.Capability, Resource: w.Resource, Why: Sanitize(w.Why)}); c.State == "missing" && !slices.Contains(p.res.WillAsk, item) {
			p.res.WillAsk = append(p.res.WillAsk, item)
		}
		p.stops = p.stops || c.State == "denied"
	}
	p.res.Steps = append(p.res.Steps, out)
	return nil
}

// capability returns the state of one want of a step. A grant that covers only part of it
// makes it narrowed.
func (p *previewer) capability(sh *subjectGrants, st *Step, w Want) PreviewCapability {
	c := PreviewCapability{Capability: w.Capability, Resource: w.Resource, State: "missing"}
	now, sp := p.s.nowMicro(), p.s.space()
	want := compile(w.Capability, w.Resource, sp, st.Subject)
	for i := range sh.denials {
		if sh.denials[i].covers(&want) {
			c.State, c.By = "denied", ReasonDeniedByUser
			return c
		}
	}
	if p.limit {
		if fits, part := p.within(p.outer, &want); !fits {
			if c.State, c.By = "denied", ReasonCallerLacks; part != "" {
				c.State, c.By = "narrowed", part
			}
			return c
		}
	}
	inSession := ""
	for have, gs := range sh.grants {
		if !implies(have, w.Capability) {
			continue
		}
		for i := range gs {
			g := &gs[i]
			if !g.live(now, st.Subject.DefinitionHash) || g.scope == "run" && g.run != uuid.Nil || g.scope == "session" && (p.session == uuid.Nil || g.session != p.session) || g.scope == "once" && g.uses == 0 {
				continue
			}
			if g.covers(&want) {
				if g.scope == "session" {
					inSession = g.id.String()
					continue
				}
				c.State, c.By = "granted", g.id.String()
				return c
			}
			if want.covers(&g.rule) {
				c.State, c.By = "narrowed", g.raw
			}
		}
	}
	if inSession != "" { // applies while the session is open, but not to an unattended run
		c.State, c.By, p.stops = "granted", inSession, true
	}
	return c
}

// within reports whether one of the rules covers want; if none does, part is the part of want that
// a rule covers.
func (p *previewer) within(rules []rule, want *rule) (fits bool, part string) {
	for i := range rules {
		if rules[i].covers(want) {
			return true, ""
		}
	}
	for i := range rules {
		if rules[i].cap == want.cap {
			if n, ok := narrow(want.cap, rules[i].raw, want.raw); ok {
				part = n
			}
		}
	}
	return false, part
}

func (p *previewer) join(c PreviewCapability) {
	k := PreviewCapability{Capability: c.Capability, Resource: c.Resource, State: c.State}
	if !p.union[k] {
		p.union[k] = true
		p.res.Union = append(p.res.Union, c)
	}
}
