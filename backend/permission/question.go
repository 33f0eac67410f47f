package permission

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

// Question is a domain's question to a person that is not about a capability, such as whether a
// step may proceed, or what happened to a call that a crash interrupted.
type Question struct {
	Text    string          `json:"text"`              // one sentence, sanitized
	Message string          `json:"message,omitempty"` // additional plain text
	Details json.RawMessage `json:"details,omitempty"` // what the question is about, such as the input of the call
	Choices []Choice        `json:"choices"`           // at least one
	Form    json.RawMessage `json:"form,omitempty"`    // JSON Schema of the data for an approving choice
	Step    string          `json:"step,omitempty"`    // path of the waiting step
	Forget  bool            `json:"forget,omitempty"`  // the details are private and deleted with the answer
}

// Choice is one possible answer to a Question.
type Choice struct {
	ID       string `json:"id"`
	Label    string `json:"label"`          // verb first, such as Try again
	Help     string `json:"help,omitempty"` // its consequence, one sentence
	Approves bool   `json:"approves"`       // counts as an approval, otherwise as a denial
}

// QuestionRequest is a Question together with who asks it. Ref identifies it within its run; asking
// the same Ref again has no effect while the question is open.
type QuestionRequest struct {
	ID          uuid.UUID // of the question; zero: a new one
	User        uuid.UUID
	Subject     Subject // the hash is not used, because the decision is about the question itself
	SubjectName string
	Run         uuid.UUID
	RunKind     string
	Ref         string
	Tier        Tier
	Question    Question
}

// Answered is a person's answer to a Question. Choice is one of its choices; Data is JSON that the
// domain validates against the form.
type Answered struct {
	Run    uuid.UUID
	Ref    string
	Choice string
	Data   json.RawMessage
	Note   string
}

// Answerer handles the answers to questions of one kind of subject. It must store the answer and
// call CloseTx in the same transaction, so that the question and the wait end together.
type Answerer = func(ctx context.Context, a Answered) error

// neverExpires is the expiry of questions that only their domain closes.
const neverExpires = 100 * 365 * 24 * time.Hour

// RegisterAnswerer sets the Answerer for a kind of subject. Call it during composition.
func (s *Service) RegisterAnswerer(kindName string, fn Answerer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.kinds[kindName]
	k.answer = fn
	s.kinds[kindName] = k
}

// AskTx adds a question to Approvals. Its kind is command.
func (s *Service) AskTx(tx *storage.Tx, a QuestionRequest) error {
	a.Question.Text = Sanitize(a.Question.Text)
	doc, err := json.Marshal(a.Question)
	if err != nil {
		return err
	}
	hash := sha256.Sum256(doc)
	key := sha256.Sum256([]byte("question\x00" + a.Subject.Kind + "\x00" + a.Run.String() + "\x00" + a.Ref))
	id := a.ID
	if id == uuid.Nil {
		id = storage.NewID()
	}
	n, err := tx.Exec(`INSERT INTO pending_approvals (id, user_id, kind, subject_kind, subject_id, subject_name, definition_hash, tier, requested, run_kind, run_id, status, dedupe_key, created_at, last_at, expires_at, question, ref)
		VALUES (?, ?, 'command', ?, ?, ?, ?, ?, '[]', ?, ?, 'pending', ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		id, a.User, a.Subject.Kind, a.Subject.ID, Sanitize(a.SubjectName), hash, a.Tier.String(), a.RunKind, a.Run, key, tx.Now, tx.Now, tx.Now.Add(neverExpires), json.RawMessage(doc), a.Ref)
	if err != nil {
		return err
	}
	if k, err := n.RowsAffected(); err != nil || k == 0 {
		return err
	}
	s.announce(tx, a.User, id, "pending")
	return audit.Append(tx, audit.Entry{User: a.User, ActorKind: a.Subject.Kind, ActorID: a.Subject.ID, Action: audit.ApprovalRequested, SubjectKind: a.Subject.Kind, SubjectID: a.Subject.ID, Outcome: audit.Pending, RunID: a.Run,
		Details: map[string]any{"approval": id, "kind": "command", "ref": a.Ref, "tier": a.Tier.String()}})
}

// WithdrawTx closes the questions that a run of the subject waited for and that nobody waits for once it
// has ended: those about its own calls, and those about what it called, such as the host of a fetch, once
// nobody else has asked them. If a question about its own
// call was answered meanwhile, an unused grant for one call ends, so that it doesn't allow another.
func (s *Service) WithdrawTx(tx *storage.Tx, user uuid.UUID, sub Subject, ids []uuid.UUID) error {
	asked := map[uuid.UUID]int{}
	for _, id := range ids {
		asked[id]++
	}
	for id, times := range asked {
		n, err := tx.Exec(`UPDATE pending_approvals SET status = 'superseded', decided_at = ? WHERE id = ? AND user_id = ? AND (subject_kind = ? AND subject_id = ? OR count <= ?) AND question IS NULL AND status = 'pending'`, tx.Now, id, user, sub.Kind, sub.ID, times)
		if err != nil {
			return err
		}
		if k, err := n.RowsAffected(); err != nil {
			return err
		} else if k > 0 {
			s.announce(tx, user, id, "superseded")
			s.release(tx, id, answer{status: "superseded"})
			continue
		}
		if _, err := tx.Exec(`UPDATE pending_approvals SET count = count - ? WHERE id = ? AND user_id = ? AND question IS NULL AND status = 'pending'`, times, id, user); err != nil {
			return err
		}
		if _, err := tx.Exec(`UPDATE capability_grants SET expires_at = ? WHERE user_id = ? AND subject_kind = ? AND subject_id = ? AND pending_id = ? AND scope = 'once' AND uses_left > 0 AND revoked_at IS NULL`, tx.Now, user, sub.Kind, sub.ID, id); err != nil {
			return err
		}
		s.changed(tx, user, sub.ID)
	}
	return nil
}

// CloseTx closes the open questions of a run: the one with the given ref, or all of them if ref is
// empty. choice is the choice that was made; empty means that the run no longer asks. token is the
// created token that the answer came with, or zero.
func (s *Service) CloseTx(tx *storage.Tx, run uuid.UUID, ref, choice string, token uuid.UUID) error {
	type open struct {
		id, user      uuid.UUID
		kind, subject string
		question      Question
	}
	all, err := storage.Collect(tx.Select(`SELECT id, user_id, subject_kind, subject_id, question FROM pending_approvals WHERE run_id = ? AND status = 'pending' AND question IS NOT NULL AND (? = '' OR ref = ?)`, run, ref, ref), func(row storage.Row) (o open, err error) {
		err = row.Scan(&o.id, &o.user, &o.kind, &o.subject, storage.JSON(&o.question))
		return o, err
	})
	if err != nil {
		return err
	}
	for _, o := range all {
		status, decision := "superseded", any(nil)
		if choice != "" {
			status = "denied"
			if i := slices.IndexFunc(o.question.Choices, func(c Choice) bool { return c.ID == choice }); i >= 0 && o.question.Choices[i].Approves {
				status = "approved"
			}
			decision = mustJSON(map[string]string{"choice": choice})
		}
		if o.question.Forget {
			o.question.Details = nil
		}
		if _, err := tx.Exec(`UPDATE pending_approvals SET status = ?, decided_at = ?, decision = ?, question = ? WHERE id = ?`, status, tx.Now, decision, json.RawMessage(mustJSON(o.question)), o.id); err != nil {
			return err
		}
		s.announce(tx, o.user, o.id, status)
		if choice == "" {
			continue
		}
		outcome := audit.OK
		if status == "denied" {
			outcome = audit.Denied
		}
		actor, actorID := "user", o.user
		if token != uuid.Nil {
			actor, actorID = audit.TokenActor, token
		}
		if err := audit.Append(tx, audit.Entry{User: o.user, ActorKind: actor, ActorID: actorID.String(), Action: audit.ApprovalDecided, SubjectKind: o.kind, SubjectID: o.subject, Outcome: outcome, RunID: run,
			Details: map[string]any{"approval": o.id, "choice": choice}}); err != nil {
			return err
		}
	}
	return nil
}

// answerQuestion passes a person's answer to the domain that asked, which closes the question.
func (s *Service) answerQuestion(ctx context.Context, user uuid.UUID, p *AnswerParams, ap *Approval) (AnswerResult, error) {
	res := AnswerResult{Grants: []Grant{}}
	if ap.Status != "pending" {
		return res, conflict(ap)
	}
	if p.DefinitionHash != ap.DefinitionHash {
		return res, fault.Conflictf("The question has changed since you opened it. Nothing was decided. Read it again, then answer.").
			WithDetails(Stale{Status: ap.Status, DefinitionHash: ap.DefinitionHash})
	}
	choice, err := ap.Question.choose(p)
	if err != nil {
		return res, err
	}
	answer := s.kind(ap.Subject.Kind).answer
	if answer == nil {
		return res, fault.Unavailablef("Couldn't deliver the answer. Restart Helix, then answer again.")
	}
	if err := answer(ctx, Answered{Run: *ap.Run.ID, Ref: ap.ref, Choice: choice.ID, Data: p.Data, Note: Sanitize(p.Note)}); err != nil {
		return res, err
	}
	who, _ := identity.From(ctx)
	if err := s.db.Write(ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`UPDATE pending_approvals SET decided_by = ? WHERE id = ? AND status <> 'pending'`, who.Source(), p.ID)
		return err
	}); err != nil {
		return res, err
	}
	now, _, err := s.loadApproval(ctx, user, p.ID)
	if err != nil {
		return res, err
	}
	if res.Status = now.Status; res.Status == "pending" {
		return res, fault.Internalf(errors.New("permission: the domain left the question open"), "The answer was saved, but the question is still open.")
	}
	return res, nil
}

// choose returns the choice of an answer: the one it names, else the only one that matches its decision.
func (q *Question) choose(p *AnswerParams) (Choice, error) {
	var fit []Choice
	ids := make([]string, len(q.Choices))
	for i, c := range q.Choices {
		ids[i] = c.ID
		if c.Approves == (p.Decision == "approve") && (p.Choice == "" || p.Choice == c.ID) {
			fit = append(fit, c)
		}
	}
	if len(fit) != 1 {
		return Choice{}, fault.Invalidf("Choose one of %s for this decision.", strings.Join(ids, ", ")).WithDetails(map[string]any{"choices": ids})
	}
	return fit[0], nil
}

// scanQuestion parses the column that only questions of domains have.
func scanQuestion(a *Approval, raw sql.NullString) error {
	if !raw.Valid {
		return nil
	}
	a.Question = &Question{}
	return json.Unmarshal([]byte(raw.String), a.Question)
}
