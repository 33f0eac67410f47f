package permission

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

// fakeDomain is a domain with a run that asks whether it may continue.
type fakeDomain struct {
	*env
	run     uuid.UUID
	answers []Answered
}

func newAsking(t *testing.T) *fakeDomain {
	a := &fakeDomain{env: setup(t, Options{}), run: storage.NewID()}
	a.s.RegisterAnswerer("skill", func(ctx context.Context, got Answered) error {
		if string(got.Data) == `"refused"` {
			return fault.Invalidf("The data does not fit the form.")
		}
		return a.db.Write(ctx, func(tx *storage.Tx) error {
			a.answers = append(a.answers, got)
			return a.s.CloseTx(tx, got.Run, got.Ref, got.Choice, uuid.Nil)
		})
	})
	return a
}

func (a *fakeDomain) ask(ref string, choices ...Choice) Approval {
	a.t.Helper()
	if choices == nil {
		choices = []Choice{{ID: "go", Label: "Send", Approves: true}, {ID: "stop", Label: "Don't send"}, {ID: "later", Label: "Ask me tomorrow"}}
	}
	a.write(func(tx *storage.Tx) error {
		return a.s.AskTx(tx, QuestionRequest{User: identity.UserID(a.ctx), Subject: Subject{Kind: "skill", ID: "mail"}, SubjectName: "Mail\u202e", Run: a.run, RunKind: "skill",
			Ref: ref, Tier: SideEffecting, Question: Question{Text: "Send the letter?", Choices: choices}})
	})
	list, err := a.s.ListApprovals(a.ctx, ListApprovalsParams{})
	if err != nil || len(list.Approvals) == 0 {
		a.t.Fatalf("pending approvals: %+v, %v", list, err)
	}
	return list.Approvals[0]
}

func (a *fakeDomain) write(fn func(*storage.Tx) error) {
	a.t.Helper()
	if err := a.db.Write(a.ctx, fn); err != nil {
		a.t.Fatal(err)
	}
}

func TestQuestionIsListedAndAnsweredThroughItsDomain(t *testing.T) {
	t.Parallel()
	a := newAsking(t)
	q := a.ask("s1")
	if again := a.ask("s1"); again.ID != q.ID {
		t.Error("asking again made a second question")
	}
	if q.Kind != "command" || q.Sentence != "Send the letter?" || q.Question == nil || len(q.Question.Choices) != 3 || *q.Run.ID != a.run || q.Subject.Name == "Mail\u202e" {
		t.Errorf("question: %+v", q)
	}
	full, err := a.s.GetApproval(a.ctx, GetApprovalParams{ID: q.ID})
	if err != nil || full.Question == nil || full.Diff != nil || len(full.Scopes) != 1 {
		t.Errorf("get: %+v, %v", full, err)
	}
	for _, bad := range []AnswerParams{
		{Decision: "approve", DefinitionHash: q.DefinitionHash, Choice: "stop"},
		{Decision: "approve", DefinitionHash: q.DefinitionHash, Choice: "elsewhere"},
		{Decision: "approve", DefinitionHash: q.DefinitionHash, Data: []byte(`"refused"`)},
	} {
		bad.ID = q.ID
		if _, err := a.s.AnswerApproval(a.ctx, bad); !fault.Is(err, fault.Invalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if _, err := a.s.AnswerApproval(a.ctx, AnswerParams{ID: q.ID, Decision: "approve", DefinitionHash: "00"}); !fault.Is(err, fault.Conflict) {
		t.Errorf("another hash: %v", err)
	}
	res, err := a.s.AnswerApproval(a.ctx, AnswerParams{ID: q.ID, Decision: "deny", DefinitionHash: q.DefinitionHash, Choice: "later", Data: []byte(`{"n":1}`)})
	if err != nil || res.Status != "denied" {
		t.Fatalf("answer: %+v, %v", res, err)
	}
	if len(a.answers) != 1 || a.answers[0].Choice != "later" || string(a.answers[0].Data) != `{"n":1}` || a.answers[0].Ref != "s1" {
		t.Errorf("the domain got %+v", a.answers)
	}
	if _, err := a.s.AnswerApproval(a.ctx, AnswerParams{ID: q.ID, Decision: "deny", DefinitionHash: q.DefinitionHash}); !fault.Is(err, fault.Conflict) {
		t.Errorf("second answer: %v", err)
	}
}

func TestQuestionTakesTheOnlyChoiceThatFitsTheDecision(t *testing.T) {
	t.Parallel()
	a := newAsking(t)
	q := a.ask("s1")
	if _, err := a.s.AnswerApproval(a.ctx, AnswerParams{ID: q.ID, Decision: "deny", DefinitionHash: q.DefinitionHash}); !fault.Is(err, fault.Invalid) {
		t.Errorf("two choices deny, and one was taken: %v", err)
	}
	res, err := a.s.AnswerApproval(a.ctx, AnswerParams{ID: q.ID, Decision: "approve", DefinitionHash: q.DefinitionHash})
	if err != nil || res.Status != "approved" || a.answers[0].Choice != "go" {
		t.Errorf("%+v, %v, %+v", res, err, a.answers)
	}
}

func TestQuestionClosedByItsDomainLeavesApprovals(t *testing.T) {
	t.Parallel()
	a := newAsking(t)
	a.ask("s1")
	a.ask("s2")
	a.write(func(tx *storage.Tx) error { return a.s.CloseTx(tx, a.run, "", "", uuid.Nil) })
	list, err := a.s.ListApprovals(a.ctx, ListApprovalsParams{Status: "superseded"})
	if err != nil || list.PendingCount != 0 || list.Total != 2 {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestQuestionOutlivesOtherApprovals(t *testing.T) {
	t.Parallel()
	a := newAsking(t)
	q := a.ask("s1")
	a.now.Store(int64(30 * 24 * time.Hour))
	if err := a.s.Sweep(a.ctx); err != nil {
		t.Fatal(err)
	}
	for i := range MaxPending + 5 {
		sub := a.tool(string(rune('a'+i%26))+uuid.NewString(), "network:https(a.example.com)")
		if _, err := a.s.Decide(a.ctx, Request{Subject: sub, Cap: NetworkHTTPS, Resource: "a.example.com", Tier: SideEffecting, RunID: storage.NewID()}); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := a.s.GetApproval(a.ctx, GetApprovalParams{ID: q.ID}); err != nil || got.Status != "pending" {
		t.Errorf("the question is %s, %v", got.Status, err)
	}
}

func TestQuestionIsNotForPrograms(t *testing.T) {
	t.Parallel()
	a := newAsking(t)
	q := a.ask("s1")
	id, _ := identity.From(a.ctx)
	id.Client = identity.ClientProgram
	ctx := identity.With(a.ctx, id)
	if _, err := a.s.AnswerApproval(ctx, AnswerParams{ID: q.ID, Decision: "approve", DefinitionHash: q.DefinitionHash}); !fault.Is(err, fault.Denied) {
		t.Errorf("a skill answered: %v", err)
	}
}
