package permission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"helix/backend/audit"
	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/jcs"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helix/backend/testkit"
)

func TestMain(m *testing.M) {
	os.Exit(testkit.Run(m, goleak.IgnoreTopFunction("database/sql.(*DB).connectionOpener")))
}

// toolDomain is a domain with tools in memory.
type toolDomain struct {
	mu    sync.Mutex
	tools map[string]SubjectInfo
	steps map[string][]Step
}

func (s *toolDomain) Subject(ctx context.Context, _, id string) (SubjectInfo, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, ok := s.tools[identity.UserID(ctx).String()+id]
	if !ok {
		return i, fault.NotFoundf("Tool not found.")
	}
	return i, nil
}

func (s *toolDomain) Steps(ctx context.Context, _, id string, _ json.RawMessage) ([]Step, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st, ok := s.steps[id]; ok {
		return st, nil
	}
	return []Step{}, nil
}

type env struct {
	t    *testing.T
	db   *storage.DB
	log  *audit.Service
	s    *Service
	shop *toolDomain
	ctx  context.Context
	now  atomic.Int64 // added to the clock
	runs atomic.Int64 // reruns
}

// source hides the steps of the shop, so that tools are not a Stepper.
type source struct {
	f func(ctx context.Context, kind, id string) (SubjectInfo, error)
}

func (s source) Subject(ctx context.Context, kind, id string) (SubjectInfo, error) {
	return s.f(ctx, kind, id)
}

func setup(t *testing.T, o Options) *env {
	t.Helper()
	e := &env{t: t, db: storagetest.Open(t), shop: &toolDomain{tools: map[string]SubjectInfo{}, steps: map[string][]Step{}}}
	e.log = audit.New(e.db, audit.Options{})
	o.Audit = e.log
	o.Now = func() time.Time { return time.Now().Add(time.Duration(e.now.Load())) }
	e.s = New(e.db, e.db.Bus(), o)
	e.ctx = storagetest.Ctx(t, e.db)
	e.s.Register("tool", source{e.shop.Subject}, func(ctx context.Context, payload json.RawMessage) (uuid.UUID, error) {
		e.runs.Add(1)
		var sub Subject
		if err := json.Unmarshal(payload, &sub); err != nil {
			return uuid.Nil, err
		}
		run := uuid.New()
		_, err := e.s.Begin(ctx, nil, sub, run)
		return run, err
	})
	e.s.Register("skill", e.shop, nil)
	return e
}

// tool adds or replaces a tool and returns its subject.
func (e *env) tool(id string, caps ...string) Subject { return e.toolAs(e.ctx, id, nil, caps...) }

func (e *env) toolAs(ctx context.Context, id string, edit func(*SubjectInfo), caps ...string) Subject {
	e.t.Helper()
	doc := json.RawMessage(fmt.Sprintf(`{"name":%q,"capabilities":%s}`, id, mustJSON(append([]string{}, caps...))))
	info := SubjectInfo{Name: id, State: Active, Definition: doc, Approved: true}
	for _, c := range caps {
		cp, r, err := ParseCapability(c)
		if err != nil {
			e.t.Fatal(err)
		}
		info.Declared = append(info.Declared, Want{Capability: cp, Resource: r, Why: "because"})
	}
	if edit != nil {
		edit(&info)
	}
	var err error
	if info.DefinitionHash, err = jcs.Hash("helix-def-v1", info.Definition); err != nil {
		e.t.Fatal(err)
	}
	e.shop.mu.Lock()
	e.shop.tools[identity.UserID(ctx).String()+id] = info
	e.shop.mu.Unlock()
	return Subject{Kind: "tool", ID: id, DefinitionHash: info.DefinitionHash}
}

const apiCap = "network:https(api.example.com)"

func ask(sub Subject) Request {
	return Request{Subject: sub, Cap: NetworkHTTPS, Resource: "api.example.com", Tier: SideEffecting, RunID: uuid.New(), Why: "to fetch"}
}

func (e *env) decide(r Request) Decision {
	e.t.Helper()
	d, err := e.s.Decide(e.ctx, r)
	if err != nil {
		e.t.Fatal(err)
	}
	return d
}

func (e *env) answer(id uuid.UUID, edit func(*AnswerParams)) (AnswerResult, error) {
	e.t.Helper()
	g, err := e.s.GetApproval(e.ctx, GetApprovalParams{ID: id})
	if err != nil {
		e.t.Fatal(err)
	}
	p := AnswerParams{ID: id, Decision: "approve", DefinitionHash: g.DefinitionHash}
	if edit != nil {
		edit(&p)
	}
	return e.s.AnswerApproval(e.ctx, p)
}

// grant obtains an always grant for r.
func (e *env) grant(r Request) Grant {
	e.t.Helper()
	d := e.decide(r)
	if d.PendingID == uuid.Nil {
		e.t.Fatalf("nothing to answer: %+v", d)
	}
	res, err := e.answer(d.PendingID, func(p *AnswerParams) { p.Scope = "always" })
	if err != nil {
		e.t.Fatal(err)
	}
	return res.Grants[0]
}

func (e *env) want(r Request, effect Effect, reason string) Decision {
	e.t.Helper()
	d := e.decide(r)
	if d.Effect != effect || d.Reason != reason {
		e.t.Fatalf("got %+v, want %s %s", d, effect, reason)
	}
	return d
}

// change replaces a tool's definition like its domain.
func (e *env) change(old Subject, caps ...string) (Subject, []uuid.UUID) {
	e.t.Helper()
	next := e.tool(old.ID, caps...)
	var suspended []uuid.UUID
	if err := e.db.Write(e.ctx, func(tx *storage.Tx) (err error) {
		info, _ := e.shop.Subject(e.ctx, "tool", old.ID)
		suspended, err = e.s.DefinitionChanged(tx, old, old.DefinitionHash, next.DefinitionHash, info.Definition)
		return err
	}); err != nil {
		e.t.Fatal(err)
	}
	return next, suspended
}

func TestUnattendedAskAndAnswer(t *testing.T) {
	t.Parallel()
	e := setup(t, Options{})
	sub := e.tool("fetch", apiCap)
	var events []ApprovalChanged
	bus.Subscribe(e.db.Bus(), func(_ uuid.UUID, a ApprovalChanged) { events = append(events, a) })
	r := ask(sub)
	r.Rerun = mustJSON(sub)
	var d Decision
	for range 50 {
		r.RunID = uuid.New()
		d = e.want(r, Deny, ReasonNeedsApproval)
	}
	l, err := e.s.ListApprovals(e.ctx, ListApprovalsParams{})
	if err != nil || l.Total != 1 || l.PendingCount != 1 || l.Approvals[0].Count != 50 || l.Approvals[0].ID != d.PendingID || l.Approvals[0].Sentence != "Connect to api.example.com" || !l.Approvals[0].Run.Rerun {
		t.Fatalf("%+v %v", l, err)
	}
	g, err := e.s.GetApproval(e.ctx, GetApprovalParams{ID: d.PendingID})
	if err != nil || g.Preview == nil || g.Preview.Unattended != "will_stop" || g.Requested[0].Why != "to fetch" {
		t.Fatalf("%+v %v", g, err)
	}
	res, err := e.answer(d.PendingID, func(p *AnswerParams) { p.Scope, p.Rerun = "run", true })
	if err != nil || res.Status != "approved" || res.RunID == nil || e.runs.Load() != 1 || len(res.Grants) != 1 {
		t.Fatalf("%+v %v", res, err)
	}
	r.RunID = *res.RunID
	e.want(r, Allow, ReasonGranted)
	r.RunID = uuid.New()
	e.want(r, Deny, ReasonNeedsApproval)
	if err := e.s.EndRun(e.ctx, *res.RunID); err != nil {
		t.Fatal(err)
	}
	r.RunID = *res.RunID
	e.want(r, Deny, ReasonNeedsApproval)
	if events[0].Status != "pending" || events[0].PendingCount != 1 || events[50].Status != "approved" || events[50].PendingCount != 0 {
		t.Fatalf("%+v", events)
	}
	log, err := e.log.List(e.ctx, audit.ListParams{SubjectID: "fetch"})
	if err != nil || len(log.Entries) != 4 { // requested, created, decided, requested again
		t.Fatalf("%d entries %v", len(log.Entries), err)
	}
}

func TestInteractiveWait(t *testing.T) {
	t.Parallel()
	e := setup(t, Options{Wait: time.Minute})
	sub := e.tool("fetch", apiCap)
	for _, c := range []struct {
		name   string
		edit   func(*AnswerParams)
		effect Effect
		reason string
	}{
		{"once", nil, Allow, ReasonGranted},
		{"deny", func(p *AnswerParams) { p.Decision = "deny" }, Deny, ReasonDeniedByUser},
		{"run", func(p *AnswerParams) { p.Scope = "run" }, Allow, ReasonGranted},
		{"session", func(p *AnswerParams) { p.Scope = "session" }, Allow, ReasonGranted},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := ask(sub)
			r.Interactive = true
			if c.name == "run" || c.name == "once" {
				r.SessionID = uuid.New()
			}
			waits := make(chan uuid.UUID, 1)
			r.Waiting = func(p uuid.UUID) { waits <- p }
			out := make(chan Decision, 1)
			go func() {
				d, err := e.s.Decide(e.ctx, r)
				if err != nil {
					t.Error(err)
				}
				out <- d
			}()
			id := <-waits
			if g, err := e.s.GetApproval(e.ctx, GetApprovalParams{ID: id}); err != nil || !g.Run.Waiting {
				t.Fatalf("%+v %v", g.Run, err)
			}
			if _, err := e.answer(id, c.edit); err != nil {
				t.Fatal(err)
			}
			if d := <-out; d.Effect != c.effect || d.Reason != c.reason {
				t.Fatalf("%+v", d)
			}
			if c.name == "run" {
				if d := e.decide(r); d.Effect != Allow {
					t.Fatalf("the second call of the run: %+v", d)
				}
			}
			if c.name == "once" {
				r.Interactive = false
				if d := e.decide(r); d.Effect != Deny || d.PendingID == uuid.Nil {
					t.Fatalf("a once grant was used twice: %+v", d)
				}
				l, _ := e.s.ListApprovals(e.ctx, ListApprovalsParams{})
				for _, a := range l.Approvals {
					if _, err := e.s.AnswerApproval(e.ctx, AnswerParams{ID: a.ID, Decision: "deny", DefinitionHash: a.DefinitionHash}); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
	if n := len(e.s.waiting); n != 0 {
		t.Errorf("%d waiters left", n)
	}
}

func TestWaitEnds(t *testing.T) {
	t.Parallel()
	e := setup(t, Options{Wait: 30 * time.Millisecond})
	sub := e.tool("fetch", apiCap)
	r := ask(sub)
	r.Interactive = true
	d := e.want(r, Deny, ReasonNeedsApproval)
	if l, _ := e.s.ListApprovals(e.ctx, ListApprovalsParams{}); l.PendingCount != 1 || d.PendingID != l.Approvals[0].ID || l.Approvals[0].Run.Waiting {
		t.Fatalf("%+v", l)
	}
	e.s.o.Wait = time.Hour
	ctx, cancel := context.WithCancel(e.ctx)
	r.Waiting = func(uuid.UUID) { cancel() }
	if _, err := e.s.Decide(ctx, r); fault.KindOf(err) != fault.Canceled {
		t.Fatal(err)
	}
	if len(e.s.waiting) != 0 {
		t.Error("a waiter stayed")
	}
	if New(nil, nil, Options{}).o.Wait != 120*time.Second {
		t.Error("the default wait is not 120 s")
	}
}

func TestScopesExpire(t *testing.T) {
	t.Parallel()
	e := setup(t, Options{})
	sub := e.tool("fetch", apiCap)
	r := ask(sub)
	give := func(scope string, edit func(*AnswerParams)) {
		t.Helper()
		d := e.want(r, Deny, ReasonNeedsApproval)
		if _, err := e.answer(d.PendingID, func(p *AnswerParams) {
			p.Scope = scope
			if edit != nil {
				edit(p)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	give("once", nil)
	e.now.Add(int64(OnceFor))
	give("session", nil)
	e.want(r, Allow, ReasonGranted)
	e.want(r, Allow, ReasonGranted)
	e.now.Add(int64(SessionFor))
	give("session", nil)
	e.want(r, Allow, ReasonGranted)
	id, _ := identity.From(e.ctx)
	if err := e.s.EndSession(e.ctx, id.Session); err != nil {
		t.Fatal(err)
	}
	at := e.s.now().Add(time.Hour)
	give("always", func(p *AnswerParams) { p.ExpiresAt = &at })
	e.want(r, Allow, ReasonGranted)
	e.now.Add(int64(time.Hour))
	d := e.want(r, Deny, ReasonNeedsApproval)
	e.now.Add(int64(PendingFor))
	_, err := e.answer(d.PendingID, nil)
	if fault.KindOf(err) != fault.Conflict {
		t.Fatal(err)
	}
	if g, err := e.s.GetApproval(e.ctx, GetApprovalParams{ID: d.PendingID}); err != nil || g.Status != "expired" {
		t.Fatalf("%+v %v", g, err)
	}
	l, err := e.s.List(e.ctx, ListParams{State: "expired"})
	if err != nil || l.Total != 4 {
		t.Fatalf("%d expired, %v", l.Total, err)
	}
}

func TestAnswerIsChecked(t *testing.T) {
	t.Parallel()
	e := setup(t, Options{})
	sub := e.tool("fetch", apiCap)
	d := e.want(ask(sub), Deny, ReasonNeedsApproval)
	hash := hexHash(sub.DefinitionHash)
	past := time.Now().Add(-time.Hour)
	good := AnswerParams{ID: d.PendingID, Decision: "approve", DefinitionHash: hash}
	for name, c := range map[string]struct {
		edit func(*AnswerParams)
		kind fault.Kind
	}{
		"decision":        {func(p *AnswerParams) { p.Decision = "maybe" }, fault.Invalid},
		"scope":           {func(p *AnswerParams) { p.Scope = "forever" }, fault.Invalid},
		"hash":            {func(p *AnswerParams) { p.DefinitionHash = strings.Repeat("0", 64) }, fault.Conflict},
		"no hash":         {func(p *AnswerParams) { p.DefinitionHash = "" }, fault.Conflict},
		"unknown":         {func(p *AnswerParams) { p.ID = uuid.New() }, fault.NotFound},
		"past expiry":     {func(p *AnswerParams) { p.Scope, p.ExpiresAt = "always", &past }, fault.Invalid},
		"expiry of once":  {func(p *AnswerParams) { p.ExpiresAt = &past }, fault.Invalid},
		"rerun":           {func(p *AnswerParams) { p.Rerun = true }, fault.Invalid},
		"not asked":       {func(p *AnswerParams) { p.Items = []ItemAnswer{{NetworkHTTPS, "evil.example.org", true}} }, fault.Invalid},
		"wider":           {func(p *AnswerParams) { p.Items = []ItemAnswer{{NetworkHTTPS, "*.example.com", true}} }, fault.Invalid},
		"other cap":       {func(p *AnswerParams) { p.Items = []ItemAnswer{{Secret, "x", true}} }, fault.Invalid},
		"whole disk":      {func(p *AnswerParams) { p.Items = []ItemAnswer{{FilesystemRead, "/**", true}} }, fault.Invalid},
		"very long":       {func(p *AnswerParams) { p.Items = []ItemAnswer{{FilesystemRead, "/" + strings.Repeat("x", 4096), true}} }, fault.Invalid},
		"very long words": {func(p *AnswerParams) { p.Note = strings.Repeat("x", 1001) }, fault.Invalid},
	} {
		p := good
		c.edit(&p)
		if _, err := e.s.AnswerApproval(e.ctx, p); fault.KindOf(err) != c.kind {
			t.Errorf("%s: %v", name, err)
		}
	}
	id, _ := identity.From(e.ctx)
	for _, change := range []func(*identity.Identity){
		func(i *identity.Identity) { i.Scopes = identity.Read | identity.Write }, func(i *identity.Identity) { i.Client = identity.ClientProgram }, func(i *identity.Identity) { i.Client, i.Scopes = identity.ClientToken, identity.Read|identity.Write },
	} {
		who := id
		change(&who)
		if _, err := e.s.AnswerApproval(identity.With(e.ctx, who), good); fault.KindOf(err) != fault.Denied {
			t.Errorf("%+v: %v", who, err)
		}
	}
	who := id
	who.Client = identity.ClientProgram
	if _, err := e.s.ListApprovals(identity.With(e.ctx, who), ListApprovalsParams{}); fault.KindOf(err) != fault.Denied {
		t.Error("an agent lists approvals")
	}
	if g, err := e.s.GetApproval(e.ctx, GetApprovalParams{ID: d.PendingID}); err != nil || g.Status != "pending" {
		t.Fatalf("a refused answer changed the question: %+v %v", g.Status, err)
	}
	if _, err := e.s.AnswerApproval(e.ctx, good); err != nil {
		t.Fatal(err)
	}
	var f *fault.Error
	p := good
	p.Decision = "deny"
	if _, err := e.s.AnswerApproval(e.ctx, p); !errors.As(err, &f) || f.Kind != fault.Conflict || f.Details.(Stale).Approval.Status != "approved" {
		t.Fatalf("%v", err)
	}
}

func TestFirstAnswerWins(t *testing.T) {
	t.Parallel()
	e := setup(t, Options{})
	sub := e.tool("fetch", apiCap)
	d := e.want(ask(sub), Deny, ReasonNeedsApproval)
	var won, lost atomic.Int64
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			p := AnswerParams{ID: d.PendingID, Decision: []string{"approve", "deny"}[i%2], DefinitionHash: hexHash(sub.DefinitionHash), Scope: "always"}
			switch _, err := e.s.AnswerApproval(e.ctx, p); fault.KindOf(err) {
			case "":
				won.Add(1)
			case fault.Conflict:
				lost.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 || lost.Load() != 99 {
		t.Fatalf("%d won, %d lost", won.Load(), lost.Load())
	}
}

func TestOnceIsSpentOnce(t *testing.T) {
	t.Parallel()
	e := setup(t, Options{})
	sub := e.tool("fetch", apiCap)
	d := e.want(ask(sub), Deny, ReasonNeedsApproval)
	if _, err := e.answer(d.PendingID, nil); err != nil {
		t.Fatal(err)
	}
	var ran atomic.Int64
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			d, err := e.s.Decide(e.ctx, ask(sub))
			if err != nil {
				t.Error(err)
			}
			if d.Effect == Allow {
				ran.Add(1)
			}
		})
	}
	wg.Wait()
	if ran.Load() != 1 {
		t.Fatalf("%d calls ran on a once grant", ran.Load())
	}
}

func TestRememberedDenial(t *testing.T) {
	t.Parallel()
	e := setup(t, Options{})
	sub := e.tool("fetch", "network:https(*.example.com)")
	r := ask(sub)
	run, err := e.s.Begin(e.ctx, nil, sub, r.RunID)
	if err != nil {
		t.Fatal(err)
	}
	d := e.want(r, Deny, ReasonNeedsApproval)
	if _, err := e.answer(d.PendingID, func(p *AnswerParams) { p.Decision, p.Remember, p.Note = "deny", true, "no" }); err != nil {
		t.Fatal(err)
	}
	e.want(r, Deny, ReasonDeniedByUser)
	_ = run
	l, err := e.s.List(e.ctx, ListParams{})
	if err != nil || len(l.Denials) != 1 || l.Denials[0].Resource != "api.example.com" || l.Denials[0].Subject.Name != "fetch" {
		t.Fatalf("%+v %v", l, err)
	}
	other := r
	other.Resource = "b.example.com"
	e.want(other, Deny, ReasonNeedsApproval)
	// A denial received by sync ends a use in progress at its next check.
	e.grant(other)
	run2, err := e.s.Begin(e.ctx, nil, sub, uuid.New())
	if err != nil || !run2.Allows(NetworkHTTPS, "b.example.com") {
		t.Fatal(err)
	}
	other.RunID = run2.RunID()
	e.want(other, Allow, ReasonGranted)
	if err := e.db.Write(e.ctx, func(tx *storage.Tx) error {
		if err := insertDenials(tx, identity.UserID(e.ctx), Subject{Kind: "tool", ID: "*"}, []Item{{Capability: NetworkHTTPS, Resource: "*.example.com"}}, ""); err != nil {
			return err
		}
		return e.s.SubjectChanged(tx, "tool", "*", true)
	}); err != nil {
		t.Fatal(err)
	}
	e.want(other, Deny, ReasonDeniedByUser)
	if run2.Allows(NetworkHTTPS, "b.example.com") {
		t.Error("the authority outlived the denial")
	}
	if res, err := e.s.Revoke(e.ctx, RevokeParams{DenialID: &l.Denials[0].ID}); err != nil || res.Revoked != 1 {
		t.Fatalf("%+v %v", res, err)
	}
	if _, err := e.s.Revoke(e.ctx, RevokeParams{DenialID: &l.Denials[0].ID}); fault.KindOf(err) != fault.NotFound {
		t.Fatal(err)
	}
}
