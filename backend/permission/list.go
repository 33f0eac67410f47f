package permission

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

const approvalColumns = `id, kind, subject_kind, subject_id, subject_name, definition_hash, tier, requested, run_kind, run_id, session_id, rerun, status, count, created_at, last_at, expires_at, decided_at, coalesce(decided_by, ''), decision, question, ref`

func (s *Service) scanApproval(rows storage.Row) (*Approval, *rawApproval, error) {
	a, raw := &Approval{}, &rawApproval{}
	var hash, run, session, rerun, decision []byte
	var question sql.NullString
	if err := rows.Scan(&a.ID, &a.Kind, &a.Subject.Kind, &a.Subject.ID, &a.Subject.Name, &hash, &a.Tier, storage.JSON(&a.Requested), &a.Run.Kind, &run, &session, &rerun, &a.Status, &a.Count,
		storage.Time(&a.CreatedAt), storage.Time(&a.LastAt), storage.Time(&a.ExpiresAt), storage.TimePtr(&a.DecidedAt), &a.DecidedBy, &decision, &question, &a.ref); err != nil {
		return nil, nil, err
	}
	if err := scanQuestion(a, question); err != nil {
		return nil, nil, err
	}
	copy(raw.hash[:], hash)
	copy(raw.run[:], run)
	copy(raw.session[:], session)
	raw.rerun = rerun
	if len(run) > 0 {
		a.Run.ID = &raw.run
	}
	if decision != nil {
		a.Decision = decision
	}
	a.DefinitionHash = hexHash(raw.hash)
	a.Run.Rerun = rerun != nil && s.kind(a.Subject.Kind).rerun != nil
	a.Run.Waiting = a.Status == "pending" && s.isWaiting(a.ID)
	a.Sentence = approvalSentence(a)
	if a.Requested == nil {
		a.Requested = []Item{}
	}
	return a, raw, nil
}

// noun returns the word for a kind of subject.
func noun(kind string) string {
	if kind == "wasm" {
		return "module"
	}
	return strings.ReplaceAll(kind, "_", " ")
}

// approvalSentence returns the sentence that describes a question: our own, or the text of a
// domain's question.
func approvalSentence(a *Approval) string {
	switch {
	case a.Question != nil:
		return a.Question.Text
	case a.Kind == "definition":
		return "Use this " + noun(a.Subject.Kind) + " as it is defined now"
	case len(a.Requested) > 0:
		first := sentence(a.Requested[0].Capability, a.Requested[0].Resource)
		if n := len(a.Requested) - 1; n == 1 {
			return first + " and 1 more"
		} else if n > 1 {
			return first + " and more"
		}
		return first
	}
	return "Run"
}

// finish sets the fields that only the domain knows.
func (s *Service) finish(ctx context.Context, a *Approval) {
	if a.Question != nil {
		a.Scopes = []string{"once"} // an answer applies to this question only
		return
	}
	a.Scopes = []string{"once", "run", "session", "always"}
	info, err := s.lookup(ctx, a.Subject.Kind, a.Subject.ID)
	if err != nil {
		s.log.Warn("look up the subject of an approval", "kind", a.Subject.Kind, "error", err)
		return
	}
	if info.Name != "" {
		a.Subject.Name = Sanitize(info.Name)
	}
	if info.Draft {
		a.Scopes = a.Scopes[:2]
	}
	if i := slices.IndexFunc(a.Requested, func(i Item) bool { return i.Capability == Shell }); i >= 0 {
		a.Scopes = []string{"once"}
		if _, ok := lastingCommand(a.Requested[i].Resource); ok {
			a.Scopes = append(a.Scopes, "always")
		}
	}
}

// ListApprovals lists questions, newest first.
func (s *Service) ListApprovals(ctx context.Context, p ListApprovalsParams) (ListApprovalsResult, error) {
	res := ListApprovalsResult{Approvals: []Approval{}}
	who, err := person(ctx)
	if err != nil {
		return res, err
	}
	if err := storage.CheckPage(&p.Limit, &p.Offset, 50, 100); err != nil {
		return res, err
	}
	where, args := "user_id = ?", []any{who.User}
	switch p.Status {
	case "":
		where += " AND status = 'pending'"
	case "all":
	case "pending", "approved", "denied", "expired", "superseded":
		where, args = where+" AND status = ?", append(args, p.Status)
	default:
		return res, fault.Invalidf("The status must be pending, approved, denied, expired, superseded or all.")
	}
	if p.SubjectID != "" {
		where, args = where+" AND subject_id = ?", append(args, p.SubjectID)
	}
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		if err := tx.QueryRow(`SELECT count(*) FROM pending_approvals WHERE user_id = ? AND status = 'pending'`, who.User[:]).Scan(&res.PendingCount); err != nil {
			return err
		}
		if err := tx.QueryRow(`SELECT count(*) FROM pending_approvals WHERE `+where, args...).Scan(&res.Total); err != nil {
			return err
		}
		return tx.Select(`SELECT `+approvalColumns+` FROM pending_approvals WHERE `+where+` ORDER BY last_at DESC, id DESC LIMIT ? OFFSET ?`, append(args, p.Limit, p.Offset)...).Each(func(row storage.Row) error {
			a, _, err := s.scanApproval(row)
			if err != nil {
				return err
			}
			res.Approvals = append(res.Approvals, *a)
			return nil
		})
	})
	for i := range res.Approvals {
		s.finish(ctx, &res.Approvals[i])
	}
	return res, err
}

// ApprovalStatus returns only the status of a question, for callers that wait for the answer: pending,
// approved, denied, expired or superseded. The error is NotFound if the user has no such question.
func (s *Service) ApprovalStatus(ctx context.Context, id uuid.UUID) (string, error) {
	a, _, err := s.loadApproval(ctx, identity.UserID(ctx), id)
	if err != nil {
		return "", err
	}
	return a.Status, nil
}

// GetApproval returns a question with the change to the definition, previous decisions about the
// subject and what a run of it would need.
func (s *Service) GetApproval(ctx context.Context, p GetApprovalParams) (GetApprovalResult, error) {
	res := GetApprovalResult{History: []Approval{}}
	who, err := person(ctx)
	if err != nil {
		return res, err
	}
	ap, _, err := s.loadApproval(ctx, who.User, p.ID)
	if err != nil {
		return res, err
	}
	res.Approval = *ap
	if err := s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.Select(`SELECT `+approvalColumns+` FROM pending_approvals WHERE user_id = ? AND subject_kind = ? AND subject_id = ? AND status IN ('approved', 'denied') AND id <> ?
			ORDER BY created_at DESC LIMIT 20`, who.User, ap.Subject.Kind, ap.Subject.ID, p.ID).Each(func(row storage.Row) error {
			a, _, err := s.scanApproval(row)
			if err != nil {
				return err
			}
			a.Scopes = []string{}
			res.History = append(res.History, *a)
			return nil
		})
	}); err != nil {
		return res, err
	}
	if ap.Question != nil {
		return res, nil
	}
	if d, err := s.diff(ctx, who.User, ap.Subject.Kind, ap.Subject.ID, "", ap.DefinitionHash); err == nil && (ap.Kind == "definition" || len(d.Changes) > 0) {
		res.Diff = d
	} else if err != nil && !fault.Is(err, fault.NotFound) {
		return res, err
	}
	if pv, err := s.Preview(ctx, PreviewParams{Subject: PreviewSubject{Kind: ap.Subject.Kind, ID: ap.Subject.ID}}); err == nil {
		res.Preview = &pv
	} else if !fault.Is(err, fault.NotFound) {
		return res, err
	}
	return res, nil
}

const grantColumns = `id, subject_kind, subject_id, definition_hash, capability, resource, scope, run_id, uses_left, origin, created_at, expires_at, last_used_at, revoked_at, coalesce(revoke_reason, ''), suspended_at`

func (s *Service) scanGrant(rows storage.Row) (Grant, error) {
	var g Grant
	var hash, run []byte
	var uses sql.NullInt64
	err := rows.Scan(&g.ID, &g.Subject.Kind, &g.Subject.ID, &hash, &g.Capability, &g.Resource, &g.Scope, &run, &uses, &g.Origin, storage.Time(&g.CreatedAt), storage.TimePtr(&g.ExpiresAt),
		storage.TimePtr(&g.LastUsedAt), storage.TimePtr(&g.RevokedAt), &g.RevokeReason, storage.TimePtr(&g.SuspendedAt))
	if err != nil {
		return g, err
	}
	g.DefinitionHash = hexHash([32]byte(hash))
	if len(run) == 16 {
		id := uuid.UUID(run)
		g.RunID = &id
	}
	if uses.Valid {
		g.UsesLeft = &uses.Int64
	}
	s.mu.RLock()
	if at, ok := s.lastUse[g.ID]; ok {
		at = at.UTC()
		g.LastUsedAt = &at
	}
	s.mu.RUnlock()
	g.Sentence = sentence(g.Capability, g.Resource)
	g.State = grantState(&g, s.now())
	return g, nil
}

func grantState(g *Grant, now time.Time) string {
	switch {
	case g.RevokedAt != nil:
		return "revoked"
	case g.ExpiresAt != nil && !now.Before(*g.ExpiresAt), g.Scope == "once" && g.UsesLeft != nil && *g.UsesLeft == 0:
		return "expired"
	case g.SuspendedAt != nil:
		return "suspended"
	}
	return "active"
}

// stateWhere is grantState in SQL. The parameter is the current time, used once.
var stateWhere = map[string]string{
	"active":    `revoked_at IS NULL AND suspended_at IS NULL AND (expires_at IS NULL OR expires_at > ?) AND NOT (scope = 'once' AND uses_left = 0)`,
	"suspended": `revoked_at IS NULL AND suspended_at IS NOT NULL AND (expires_at IS NULL OR expires_at > ?) AND NOT (scope = 'once' AND uses_left = 0)`,
	"expired":   `revoked_at IS NULL AND (expires_at <= ? OR scope = 'once' AND uses_left = 0)`,
	"revoked":   `revoked_at IS NOT NULL AND ? IS NOT NULL`,
}

// List lists grants, suspended ones first, and denials.
func (s *Service) List(ctx context.Context, p ListParams) (ListResult, error) {
	res := ListResult{Grants: []Grant{}, Denials: []Denial{}}
	user := identity.UserID(ctx)
	if err := storage.CheckPage(&p.Limit, &p.Offset, 50, 100); err != nil {
		return res, err
	}
	where, args := "user_id = ? AND NOT (suspended_at IS NOT NULL AND revoked_at IS NULL AND revoke_reason IS NOT NULL)", []any{user}
	if p.SubjectID != "" {
		where, args = where+" AND subject_id = ?", append(args, p.SubjectID)
	}
	if p.State != "" {
		cond, ok := stateWhere[p.State]
		if !ok {
			return res, fault.Invalidf("The state must be active, suspended, revoked or expired.")
		}
		where, args = where+" AND "+cond, append(args, s.now())
	}
	names := map[SubjectRef]string{}
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		if err := tx.QueryRow(`SELECT count(*) FROM capability_grants WHERE `+where, args...).Scan(&res.Total); err != nil {
			return err
		}
		var err error
		res.Grants, err = storage.Collect(tx.Select(`SELECT `+grantColumns+` FROM capability_grants WHERE `+where+` ORDER BY suspended_at IS NULL OR revoked_at IS NOT NULL, created_at DESC, id DESC LIMIT ? OFFSET ?`, append(args, p.Limit, p.Offset)...), s.scanGrant)
		if err != nil {
			return err
		}
		return listDenials(tx, user, p.SubjectID, &res.Denials)
	})
	for i := range res.Grants {
		s.name(ctx, &res.Grants[i].Subject, names)
	}
	for i := range res.Denials {
		s.name(ctx, &res.Denials[i].Subject, names)
	}
	return res, err
}

func listDenials(tx *storage.Tx, user uuid.UUID, subject string, out *[]Denial) error {
	return tx.Select(`SELECT id, subject_kind, subject_id, capability, resource, reason, created_at FROM capability_denials WHERE user_id = ? AND deleted_at IS NULL AND (? = '' OR subject_id IN (?, '*'))
		ORDER BY created_at DESC, id DESC LIMIT ?`, user, subject, subject, maxListedDeny).Each(func(row storage.Row) error {
		var d Denial
		if err := row.Scan(&d.ID, &d.Subject.Kind, &d.Subject.ID, &d.Capability, &d.Resource, &d.Reason, storage.Time(&d.CreatedAt)); err != nil {
			return err
		}
		d.Sentence = sentence(d.Capability, d.Resource)
		*out = append(*out, d)
		return nil
	})
}

// name sets the name of a subject. seen caches the names on a page.
func (s *Service) name(ctx context.Context, r *SubjectRef, seen map[SubjectRef]string) {
	k := SubjectRef{Kind: r.Kind, ID: r.ID}
	n, ok := seen[k]
	if !ok {
		if info, err := s.lookup(ctx, r.Kind, r.ID); err == nil {
			n = Sanitize(info.Name)
		}
		seen[k] = n
	}
	r.Name = n
}

func (s *Service) grantsByID(ctx context.Context, user uuid.UUID, ids []uuid.UUID) ([]Grant, error) {
	out := []Grant{}
	if len(ids) == 0 {
		return out, nil
	}
	list := make([]string, len(ids))
	args := []any{user}
	for i, id := range ids {
		list[i] = "?"
		args = append(args, id)
	}
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		var err error
		out, err = storage.Collect(tx.Select(`SELECT `+grantColumns+` FROM capability_grants WHERE user_id = ? AND id IN (`+strings.Join(list, ",")+`) ORDER BY created_at, id`, args...), s.scanGrant)
		return err
	})
	names := map[SubjectRef]string{}
	for i := range out {
		s.name(ctx, &out[i].Subject, names)
	}
	return out, err
}

// GrantsOf lists the active and suspended grants of one subject, and its denials.
func (s *Service) GrantsOf(ctx context.Context, kind, id string) ([]Grant, []Denial, error) {
	user := identity.UserID(ctx)
	grants, denials := []Grant{}, []Denial{}
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		var err error
		grants, err = storage.Collect(tx.Select(`SELECT `+grantColumns+` FROM capability_grants WHERE user_id = ? AND subject_kind = ? AND subject_id = ? AND revoked_at IS NULL AND revoke_reason IS NULL
			AND (expires_at IS NULL OR expires_at > ?) AND NOT (scope = 'once' AND uses_left = 0) ORDER BY created_at DESC`, user, kind, id, s.now()), s.scanGrant)
		if err != nil {
			return err
		}
		return listDenials(tx, user, id, &denials)
	})
	return grants, denials, err
}

// EachSuspended calls fn for the subject of every suspended grant, at most 1,000. kind is the kind
// of subject; only is the id of one subject, or "" for all.
func (s *Service) EachSuspended(tx *storage.Tx, kind, only string, fn func(id string)) error {
	p := ListParams{State: "suspended", SubjectID: only, Limit: 100}
	for {
		r, err := s.List(tx.Context(), p)
		if err != nil {
			return err
		}
		for _, g := range r.Grants {
			if g.Subject.Kind == kind {
				fn(g.Subject.ID)
			}
		}
		p.Offset += len(r.Grants)
		if len(r.Grants) == 0 || p.Offset >= r.Total || p.Offset >= 1000 {
			return nil
		}
	}
}
