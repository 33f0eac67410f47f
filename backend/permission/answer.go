package permission

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

// person returns the identity of the caller, which must be a person. Programs can neither see nor
// answer questions.
func person(ctx context.Context) (identity.Identity, error) {
	id, _ := identity.From(ctx)
	if !id.Person() {
		return id, fault.Deniedf("Only a person can see and answer approvals.")
	}
	return id, nil
}

// Stale is the detail of a Conflict when the question is no longer open or is about another
// definition than the one shown.
type Stale struct {
	Status         string      `json:"status"`
	DefinitionHash string      `json:"definitionHash,omitempty"`
	Diff           *DiffResult `json:"diff,omitempty"`
	Approval       *Approval   `json:"approval,omitempty"` // the first answer, if there was one
}

// AnswerApproval answers a question. The first answer wins. A later answer, an answer to an expired
// question, and an answer with another definition hash than the question fail with a Conflict with
// a Stale detail, and nothing changes. It requires the scope approve.
func (s *Service) AnswerApproval(ctx context.Context, p AnswerParams) (AnswerResult, error) {
	res := AnswerResult{Grants: []Grant{}}
	who, err := person(ctx)
	if err != nil {
		return res, err
	}
	if !who.MayApprove() {
		return res, fault.Deniedf("This session can't answer approvals.").WithDetails(map[string]string{"scope": "approve"})
	}
	if p.Decision != "approve" && p.Decision != "deny" {
		return res, fault.Invalidf("The decision must be approve or deny.")
	}
	if len(p.Note) > 1000 {
		return res, fault.Invalidf("A note can have at most 1,000 bytes.")
	}
	if p.Scope == "" {
		p.Scope = "once"
	}
	if !slices.Contains([]string{"once", "run", "session", "always"}, p.Scope) {
		return res, fault.Invalidf("The scope must be once, run, session or always.")
	}
	ap, raw, err := s.loadApproval(ctx, who.User, p.ID)
	if err != nil {
		return res, err
	}
	if ap.Question != nil {
		return s.answerQuestion(ctx, who.User, &p, ap)
	}
	sub := Subject{Kind: ap.Subject.Kind, ID: ap.Subject.ID, DefinitionHash: raw.hash}
	info, err := s.lookup(ctx, sub.Kind, sub.ID)
	if err != nil {
		return res, err
	}
	if err := s.stale(ctx, who.User, &p, ap, raw, &info); err != nil {
		return res, err
	}
	plan, err := s.plan(&p, ap, raw, &info, who)
	if err != nil {
		return res, err
	}
	rerun := s.kind(sub.Kind).rerun
	if p.Rerun && p.Decision == "approve" {
		if rerun == nil || raw.rerun == nil {
			return res, fault.Invalidf("This run can't be restarted from here. Answer without it, then start it yourself.")
		}
		s.mu.Lock()
		s.reserve[p.ID] = true
		s.mu.Unlock()
		defer func() {
			s.mu.Lock()
			delete(s.reserve, p.ID)
			s.mu.Unlock()
		}()
	}
	status := "denied"
	if p.Decision == "approve" {
		status = "approved"
	}
	var ids []uuid.UUID
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		ids = nil
		n, err := tx.Exec(`UPDATE pending_approvals SET status = ?, decided_at = ?, decided_by = ?, decision = ? WHERE id = ? AND user_id = ? AND status = 'pending'`,
			status, tx.Now, who.Source(), mustJSON(plan.record), p.ID, who.User)
		if err != nil {
			return err
		}
		if k, err := n.RowsAffected(); err != nil || k == 0 {
			return errors.Join(errLate, err)
		}
		if status == "approved" {
			if ap.Kind == "definition" {
				if ids, err = s.approveDefinition(tx, who.User, sub, info.Definition, info.Declared, "user", plan.keep); err != nil {
					return err
				}
			}
			for _, g := range plan.grants {
				id, err := insertGrant(tx, who.User, g)
				if err != nil {
					return err
				}
				ids = append(ids, id)
			}
		} else if p.Remember {
			if err := insertDenials(tx, who.User, sub, plan.refused, p.Note); err != nil {
				return err
			}
		}
		outcome := audit.OK
		if status == "denied" {
			outcome = audit.Denied
		}
		s.changed(tx, who.User, sub.ID)
		s.announce(tx, who.User, p.ID, status)
		s.release(tx, p.ID, answer{status: status, items: plan.items})
		return audit.Append(tx, audit.Entry{Action: audit.ApprovalDecided, SubjectKind: sub.Kind, SubjectID: sub.ID, Outcome: outcome, RunID: raw.run,
			Details: map[string]any{"approval": p.ID, "decision": plan.record, "definitionHash": ap.DefinitionHash}})
	})
	if errors.Is(err, errLate) {
		if ap, raw, err = s.loadApproval(ctx, who.User, p.ID); err != nil {
			return res, err
		}
		return res, conflict(ap)
	}
	if err != nil {
		return res, err
	}
	res.Status = status
	if p.Rerun && status == "approved" {
		res.RunID, res.RerunError = s.startAgain(ctx, who, p.ID, rerun, raw)
	}
	res.Grants, err = s.grantsByID(ctx, who.User, ids)
	return res, err
}

// startAgain starts the run of an approved question, in the session that asked, because a session grant is
// valid only there. A failure to start does not undo the approval, so it is returned as a message.
func (s *Service) startAgain(ctx context.Context, who identity.Identity, id uuid.UUID, rerun Rerun, raw *rawApproval) (*uuid.UUID, string) {
	if raw.session != uuid.Nil {
		again := who
		again.Session = raw.session
		ctx = identity.With(ctx, again)
	}
	run, err := rerun(context.WithValue(ctx, rerunKey{}, id), raw.rerun)
	if err == nil {
		err = s.bindTo(ctx, who.User, id, run)
	}
	if err != nil {
		return nil, fault.As(err).Message
	}
	return &run, ""
}

var errLate = errors.New("permission: the question is not open any more")

func mustJSON(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // contains only strings, numbers and booleans
	}
	return b
}

// stale returns a Conflict unless the question is open and about the definition that was shown.
func (s *Service) stale(ctx context.Context, user uuid.UUID, p *AnswerParams, ap *Approval, raw *rawApproval, info *SubjectInfo) error {
	if ap.Status != "pending" {
		return conflict(ap)
	}
	if s.now().After(ap.ExpiresAt) {
		ap.Status = "expired"
		if err := s.Sweep(ctx); err != nil {
			return err
		}
		return conflict(ap)
	}
	shown := p.DefinitionHash
	current := ap.DefinitionHash
	if !info.Draft && info.State != "" && info.DefinitionHash != raw.hash {
		current = hexHash(info.DefinitionHash)
	}
	if shown == current && current == ap.DefinitionHash {
		return nil
	}
	d, err := s.diff(ctx, user, ap.Subject.Kind, ap.Subject.ID, "", current)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	return fault.Conflictf("The definition has changed since you opened it. Nothing was decided. Review the change first.").
		WithDetails(Stale{Status: ap.Status, DefinitionHash: current, Diff: d})
}

func conflict(ap *Approval) error {
	var msg string
	switch ap.Status {
	case "expired":
		msg = "This approval has expired. Start the run again to be asked again."
	case "superseded":
		msg = "This approval was superseded by a newer definition."
	default:
		msg = "This approval was already answered. The first answer stands."
	}
	return fault.Conflictf("%s", msg).WithDetails(Stale{Status: ap.Status, Approval: ap})
}

// answerPlan is the effect of an answer.
type answerPlan struct {
	grants  []newGrant
	items   []ItemAnswer // for the waiting calls; nil: everything
	refused []Item
	keep    func(Capability, string) bool
	record  map[string]any
}

// plan validates an answer and determines the grants.
func (s *Service) plan(p *AnswerParams, ap *Approval, raw *rawApproval, info *SubjectInfo, who identity.Identity) (*answerPlan, error) {
	out := &answerPlan{refused: lasting(ap.Requested), record: map[string]any{"decision": p.Decision, "scope": p.Scope, "note": Sanitize(p.Note)}}
	if p.Decision == "deny" {
		out.record["remember"] = p.Remember
		if p.Remember && len(ap.Requested) == 0 {
			return nil, fault.Invalidf("None of these capabilities can be denied permanently. Deny it once, or disable the %s.", kindWord(ap.Subject.Kind))
		}
		return out, nil
	}
	if !slices.Contains(ap.Scopes, p.Scope) {
		if info.Draft {
			return nil, fault.Invalidf("A draft can only be allowed once or for one run. Save it first to allow more.")
		}
		return nil, fault.Invalidf("This command can't be allowed %s. Allow it once; Helix asks again next time.", p.Scope)
	}
	if info.State != Active && ap.Kind != "definition" {
		return nil, fault.Conflictf("%s is no longer active, so nothing was allowed.", subjectWords(ap.Subject.Kind, ap.Subject.Name)).WithDetails(Stale{Status: ap.Status})
	}
	var expires time.Time
	if p.ExpiresAt != nil {
		if p.Scope != "always" {
			return nil, fault.Invalidf("Only the scope always can have an expiry.")
		}
		if expires = *p.ExpiresAt; !expires.After(s.now()) {
			return nil, fault.Invalidf("The expiry is in the past.")
		}
		out.record["expiresAt"] = expires.UTC().Format(time.RFC3339)
	}
	sub := Subject{Kind: ap.Subject.Kind, ID: ap.Subject.ID, DefinitionHash: raw.hash}
	items, err := s.chosen(p, ap, out)
	if err != nil {
		return nil, err
	}
	if ap.Kind == "definition" && p.Items == nil {
		items = nil // added items are asked for when they are used
	}
	if p.Scope == "always" {
		items = lasting(items)
	}
	for _, it := range items {
		g := newGrant{sub: sub, item: it, scope: p.Scope, origin: "user", pending: p.ID, expires: expires}
		switch p.Scope {
		case "once":
			g.uses, g.expires = 1, s.now().Add(OnceFor)
			if ap.Subject.Kind == "agent" {
				g.session = raw.session // no other conversation may use it
			}
		case "run":
			if ap.Run.Waiting && raw.run != uuid.Nil && !p.Rerun {
				g.run, g.expires = raw.run, s.now().Add(SessionFor)
			} else {
				g.expires = s.now().Add(OnceFor) // for the next run
			}
		case "session":
			g.session, g.expires = raw.session, s.now().Add(SessionFor)
			if g.session == uuid.Nil {
				g.session = who.Session
			}
		}
		out.grants = append(out.grants, g)
	}
	out.record["items"] = items
	return out, nil
}

// lasting returns the items of an answer that also applies to later calls: commands with further arguments.
func lasting(items []Item) []Item {
	out := slices.Clone(items)
	for i, it := range out {
		if pattern, ok := lastingCommand(it.Resource); ok && it.Capability == Shell {
			out[i].Resource = pattern
		}
	}
	return out
}

// chosen returns the items of the question that were allowed.
func (s *Service) chosen(p *AnswerParams, ap *Approval, out *answerPlan) ([]Item, error) {
	if p.Items == nil {
		return ap.Requested, nil
	}
	out.items = []ItemAnswer{}
	allowed := []Item{}
	var listed []ItemAnswer
	for _, it := range p.Items {
		pattern, err := Normalize(it.Capability, it.Resource)
		if err != nil {
			return nil, err
		}
		it.Resource = pattern
		i := slices.IndexFunc(ap.Requested, func(r Item) bool { return r.Capability == it.Capability && Covers(it.Capability, r.Resource, pattern) })
		if i < 0 && (ap.Kind != "definition" || it.Allow) {
			return nil, fault.Invalidf("%s wasn't requested, so it can't be answered here.", FormatCapability(it.Capability, clip(it.Resource, 80)))
		}
		listed = append(listed, it)
		if it.Allow {
			allowed = append(allowed, Item{Capability: it.Capability, Resource: pattern})
			out.items = append(out.items, it)
		}
	}
	out.keep = func(c Capability, r string) bool {
		return !slices.ContainsFunc(listed, func(i ItemAnswer) bool { return !i.Allow && i.Capability == c && Covers(c, i.Resource, r) })
	}
	return allowed, nil
}

func insertDenials(tx *storage.Tx, user uuid.UUID, sub Subject, items []Item, note string) error {
	for _, it := range items {
		if _, err := tx.Exec(`INSERT INTO capability_denials (id, user_id, subject_kind, subject_id, capability, resource, reason, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			storage.NewID(), user, sub.Kind, sub.ID, string(it.Capability), it.Resource, Sanitize(note), tx.Now, tx.Now); err != nil {
			return err
		}
	}
	return nil
}

// bindTo binds the remaining run grants of an answer to the run that it started.
func (s *Service) bindTo(ctx context.Context, user, pending, run uuid.UUID) error {
	return s.db.Write(ctx, func(tx *storage.Tx) error {
		tx.AfterCommit(func() { s.invalidate(user) })
		_, err := tx.Exec(`UPDATE capability_grants SET run_id = ? WHERE user_id = ? AND pending_id = ? AND scope = 'run' AND run_id IS NULL`, run, user, pending)
		return err
	})
}

// rawApproval holds the columns that are not part of the wire form.
type rawApproval struct {
	hash    [32]byte
	run     uuid.UUID
	session uuid.UUID
	rerun   json.RawMessage
}

func (s *Service) loadApproval(ctx context.Context, user, id uuid.UUID) (*Approval, *rawApproval, error) {
	var ap *Approval
	var raw *rawApproval
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		var err error
		ap, raw, err = s.scanApproval(tx.QueryRow(`SELECT `+approvalColumns+` FROM pending_approvals WHERE id = ? AND user_id = ?`, id, user))
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil, errNoApproval
	}
	if err != nil {
		return nil, nil, err
	}
	s.finish(ctx, ap)
	return ap, raw, nil
}
