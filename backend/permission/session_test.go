package permission

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/identity"
)

// TestSessionGrantsEndWithTheProgram creates a session grant and restarts: the grant has ended
// before anyone can use it, others are kept.
func TestSessionGrantsEndWithTheProgram(t *testing.T) {
	t.Parallel()
	e := setup(t, Options{})
	session, always := e.tool("a", apiCap), e.tool("b", apiCap)
	for sub, scope := range map[*Subject]string{&session: "session", &always: "always"} {
		d := e.want(ask(*sub), Deny, ReasonNeedsApproval)
		if _, err := e.answer(d.PendingID, func(p *AnswerParams) { p.Scope = scope }); err != nil {
			t.Fatal(err)
		}
		e.want(ask(*sub), Allow, ReasonGranted)
	}
	e.s.began = time.Now().Add(time.Minute) // as if the process had started only now
	if err := e.s.endLeftOver(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.want(ask(session), Deny, ReasonNeedsApproval)
	e.want(ask(always), Allow, ReasonGranted)
	if l, err := e.s.List(e.ctx, ListParams{State: "expired"}); err != nil || l.Total != 1 {
		t.Fatalf("%d expired, %v", l.Total, err)
	}
}

// TestPreviewCountsGrantsOfTheSession checks that a session grant counts only in its session; an
// unattended run stops regardless.
func TestPreviewCountsGrantsOfTheSession(t *testing.T) {
	t.Parallel()
	e := setup(t, Options{})
	sub := e.tool("a", apiCap)
	d := e.want(ask(sub), Deny, ReasonNeedsApproval)
	if _, err := e.answer(d.PendingID, func(p *AnswerParams) { p.Scope = "session" }); err != nil {
		t.Fatal(err)
	}
	elsewhere, _ := identity.From(e.ctx)
	elsewhere.Session = uuid.New()
	nobody := elsewhere
	nobody.Session = uuid.Nil
	for name, c := range map[string]struct {
		ctx         context.Context
		state, will string
	}{
		"this":  {e.ctx, "granted", "will_stop"},
		"other": {identity.With(e.ctx, elsewhere), "missing", "will_stop"},
		"none":  {identity.With(e.ctx, nobody), "missing", "will_stop"},
	} {
		p, err := e.s.Preview(c.ctx, PreviewParams{Subject: PreviewSubject{Kind: sub.Kind, ID: sub.ID}})
		if err != nil || p.Steps[0].Capabilities[0].State != c.state || p.Unattended != c.will {
			t.Errorf("%s session: %+v, %v", name, p, err)
		}
	}
	other := ask(sub)
	other.SessionID = uuid.New() // to which this session's grant does not apply
	e.grant(other)
	if p, err := e.s.Preview(e.ctx, PreviewParams{Subject: PreviewSubject{Kind: sub.Kind, ID: sub.ID}}); err != nil || p.Unattended != "ok" || len(p.WillAsk) != 0 {
		t.Errorf("with a lasting grant too: %+v, %v", p, err)
	}
}
