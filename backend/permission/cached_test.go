package permission

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/identity"
	"helix/backend/storage"
)

// Whatever takes a permission away does so for the very next call, although decisions and grants
// are cached: of a new run, of a run in progress, and of a call that a run passes on.
func TestNextCallIsRefusedAlthoughGrantsAreCached(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(e *env, sub Subject, g Grant) Subject{
		"a revoked grant": func(e *env, sub Subject, g Grant) Subject {
			if _, err := e.s.Revoke(e.ctx, RevokeParams{GrantID: &g.ID}); err != nil {
				e.t.Fatal(err)
			}
			return sub
		},
		"all grants revoked": func(e *env, sub Subject, _ Grant) Subject {
			if _, err := e.s.Revoke(e.ctx, RevokeParams{All: true}); err != nil {
				e.t.Fatal(err)
			}
			return sub
		},
		"a changed definition": func(e *env, sub Subject, _ Grant) Subject {
			next, suspended := e.change(sub, apiCap, "secret(key)")
			if len(suspended) != 1 {
				e.t.Errorf("%d grants suspended", len(suspended))
			}
			return next
		},
		"an expired grant": func(e *env, sub Subject, _ Grant) Subject {
			e.now.Add(int64(time.Hour))
			return sub
		},
		"a denial": func(e *env, sub Subject, _ Grant) Subject {
			if err := e.db.Write(e.ctx, func(tx *storage.Tx) error {
				if err := insertDenials(tx, identity.UserID(e.ctx), sub, []Item{{Capability: NetworkHTTPS, Resource: "*.example.com"}}, ""); err != nil {
					return err
				}
				return e.s.SubjectChanged(tx, sub.Kind, sub.ID, true)
			}); err != nil {
				e.t.Fatal(err)
			}
			return sub
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := setup(t, Options{})
			sub := e.tool("fetch", apiCap)
			at := e.s.now().Add(time.Hour)
			d := e.want(ask(sub), Deny, ReasonNeedsApproval)
			given, err := e.answer(d.PendingID, func(p *AnswerParams) { p.Scope, p.ExpiresAt = "always", &at })
			if err != nil {
				t.Fatal(err)
			}
			inner := e.tool("inner", apiCap)
			e.grant(ask(inner))
			running := e.begin(nil, sub)
			during := ask(sub)
			during.RunID = running.RunID()
			passed := ask(inner)
			passed.Caller = running
			paths := map[string]func(Subject) bool{
				"a decision":            func(sub Subject) bool { r := ask(sub); return e.decide(r).Effect == Allow },
				"a decision of the run": func(sub Subject) bool { during.Subject = sub; return e.decide(during).Effect == Allow },
				"a new run": func(sub Subject) bool {
					a, err := e.s.Begin(e.ctx, nil, sub, uuid.New())
					return err == nil && a.Allows(NetworkHTTPS, "api.example.com")
				},
				"the run in progress": func(Subject) bool { return running.Allows(NetworkHTTPS, "api.example.com") },
				"a call of the run":   func(Subject) bool { r := passed; r.RunID = uuid.New(); return e.decide(r).Effect == Allow },
			}
			for range 2 {
				for path, allowed := range paths {
					if !allowed(sub) {
						t.Errorf("%s isn't allowed at first", path)
					}
				}
			}
			next := end(e, sub, given.Grants[0])
			for path, allowed := range paths {
				if allowed(next) {
					t.Errorf("%s is still allowed", path)
				}
				if allowed(sub) {
					t.Errorf("%s is still allowed for the former definition", path)
				}
			}
		})
	}
}
