package permission

import (
	"testing"
	"time"
)

// TestSessionGrantsEndWithTheProgram gives a right for a session and starts again: the right
// is over before anybody could ask, others stay.
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
	e.s.began = time.Now().Add(time.Minute) // as if the program had started only now
	if err := e.s.endLeftOver(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.want(ask(session), Deny, ReasonNeedsApproval)
	e.want(ask(always), Allow, ReasonGranted)
	if l, err := e.s.List(e.ctx, ListParams{State: "expired"}); err != nil || l.Total != 1 {
		t.Fatalf("%d expired, %v", l.Total, err)
	}
}
