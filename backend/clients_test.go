package backend

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/fault"
	"helix/backend/gateway"
	"helix/backend/identity"
	"helix/backend/memory"
	"helix/backend/permission"
	"helix/backend/tools"
)

// bridgePage is the page's end of a bridge.
type bridgePage struct {
	b       *gateway.Bridge
	session string
	out     chan string
}

func (p *bridgePage) Read(ctx context.Context) ([]byte, error) {
	select {
	case f := <-p.out:
		if f == "" {
			return nil, io.EOF
		}
		return []byte(f), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *bridgePage) Write(_ context.Context, frame []byte) error {
	return p.b.Send(p.session, string(frame))
}

type caller func(method string, params map[string]any, result any) error

// everyClient opens a session of each kind over each of its transports. All of them claim to be the
// command line and request every scope.
func everyClient(t *testing.T, a *attacked) map[string]caller {
	t.Helper()
	o := gateway.ClientOptions{Client: gateway.ClientInfo{ID: "helix-cli", Mode: "cli"}, Scopes: []string{"admin", "write", "approve", "read"}}
	over := func(c *gateway.Client, err error) caller {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return func(method string, params map[string]any, result any) error {
			return c.Call(t.Context(), method, params, result)
		}
	}
	all := map[string]caller{}
	token := func(name, secret string) {
		post := *a
		post.root = secret
		all[name+" over http"] = post.call
		o := o
		o.URL, o.Token = a.Gateway.URL(), secret
		all[name+" over websocket"] = over(gateway.Dial(t.Context(), o))
	}
	id := identity.Identity{User: a.LocalUser(), Scopes: identity.Admin.Closed()}

	id.Client = identity.ClientWindow
	p := &bridgePage{out: make(chan string, 1024)}
	p.b = a.Gateway.NewBridge(id, func(_, frame string) { p.out <- frame })
	t.Cleanup(p.b.Close)
	p.session = p.b.Open()
	all["window over bridge"] = over(gateway.DialOver(t.Context(), p, o))

	id.Client = identity.ClientProgram
	server, client := gateway.MemoryPipe()
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = a.Gateway.Serve(context.Background(), server, id) // ends with its client
	}()
	t.Cleanup(func() { client.Close(1000, ""); <-served })
	all["program over memory"] = over(gateway.DialOver(t.Context(), client, o))

	token("terminal", a.root)

	ctx := a.as(a.LocalUser())
	made, err := a.Gateway.SessionsTicket(ctx, gateway.TicketParams{})
	if err != nil {
		t.Fatal(err)
	}
	token("browser", redeem(t, a, made))
	for name, scopes := range map[string][]string{"token to approve": {"write", "approve"}, "token to write": {"write"}, "token to read": {"read"}} {
		made, err := a.Gateway.TokensCreate(ctx, gateway.TokenParams{Name: name, Scopes: scopes})
		if err != nil {
			t.Fatal(err)
		}
		token(name, made.Token)
	}
	return all
}

// redeem exchanges a ticket for the token of a browser session.
func redeem(t *testing.T, a *attacked, made gateway.Ticket) string {
	t.Helper()
	u, err := url.Parse(made.URL)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post(a.Gateway.URL()+"/session", "application/json", strings.NewReader(`{"ticket":"`+strings.TrimPrefix(u.Fragment, "ticket=")+`"}`)) //nolint:noctx // a test's short call
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var m struct{ Token string }
	if err := json.NewDecoder(resp.Body).Decode(&m); err != nil || m.Token == "" {
		t.Fatalf("%d %v", resp.StatusCode, err)
	}
	return m.Token
}

// refused reports whether a call was denied, over either transport.
func refused(err error) bool {
	return fault.Is(err, fault.Denied) || err != nil && strings.Contains(err.Error(), `"code":"DENIED"`)
}

// TestOnlyPeopleDoWhatIsKeptForPeople tries actions reserved for people as every kind of client
// over every transport.
func TestOnlyPeopleDoWhatIsKeptForPeople(t *testing.T) {
	t.Parallel()
	a := attack(t)
	ctx := a.as(a.LocalUser())
	root := a.call
	for name, call := range everyClient(t, a) {
		kind, _, _ := strings.Cut(name, " ")
		person := !slices.Contains([]string{"program", "token to write", "token to read"}, strings.Split(name, " over ")[0])
		t.Run(name, func(t *testing.T) {
			var me gateway.SessionInfo
			if err := call("session.get", map[string]any{}, &me); err != nil {
				t.Fatal(err)
			}
			if string(me.ClientKind) != kind || me.Person != person || (me.Token != nil) != (kind == "token") {
				t.Fatalf("the session is %+v", me)
			}
			if me.Token != nil && me.Token.Name != strings.Split(name, " over ")[0] {
				t.Errorf("the token is %+v", me.Token)
			}

			tool := a.tool(t, tools.CreateParams{Name: name, Code: "await helix.state.set('a', 1); return 7", Capabilities: []string{"state(1KiB)"}})
			if _, err := a.Tools.Execute(ctx, tools.ExecuteParams{ToolID: &tool}); !fault.Is(err, fault.Denied) {
				t.Fatalf("it ran: %v", err)
			}
			asked, err := a.Permission.ListApprovals(ctx, permission.ListApprovalsParams{SubjectID: tool.String()})
			if err != nil || len(asked.Approvals) != 1 {
				t.Fatalf("%+v %v", asked, err)
			}
			q := asked.Approvals[0]
			var m memory.AddResult
			if err := root("memory.add", map[string]any{"content": "foreign text for " + name, "untrusted": true}, &m); err != nil {
				t.Fatal(err)
			}
			for what, try := range map[string]func() error{
				"list approvals":   func() error { return call("approvals.list", map[string]any{}, &struct{}{}) },
				"read an approval": func() error { return call("approvals.get", map[string]any{"id": q.ID}, &struct{}{}) },
				"answer an approval": func() error {
					return call("approvals.decide", map[string]any{"id": q.ID, "decision": "approve", "definitionHash": q.DefinitionHash}, &struct{}{})
				},
				"store a secret": func() error {
					return call("tools.secret_set", map[string]any{"name": "s" + uuid.NewString()[:8], "value": "a value", "hosts": []string{"api.example.com"}, "toolIds": []uuid.UUID{tool}}, &struct{}{})
				},
				"trust a memory": func() error {
					return call("memory.update", map[string]any{"id": m.Item.ID, "version": m.Item.Version, "untrusted": false}, &struct{}{})
				},
				"add a critical memory": func() error {
					return call("memory.add", map[string]any{"content": "critical for " + name, "salienceTier": "critical"}, &struct{}{})
				},
			} {
				if err := try(); person && err != nil || !person && !refused(err) {
					t.Errorf("%s: %v", what, err)
				}
			}
			status := "pending"
			if person {
				status = "approved"
			}
			after, err := a.Permission.GetApproval(ctx, permission.GetApprovalParams{ID: q.ID})
			if err != nil || after.Status != status {
				t.Fatalf("the question is %+v %v", after.Status, err)
			}
			if person && !strings.HasPrefix(after.DecidedBy, kind+":") {
				t.Errorf("decided by %q", after.DecidedBy)
			}
			if scopes, _ := identity.ParseScopes(me.Scopes); scopes.Has(identity.Write) {
				var added memory.AddResult
				if err := call("memory.add", map[string]any{"content": "by hand of " + name}, &added); err != nil {
					t.Fatal(err)
				}
				if by := map[bool]string{true: "manual", false: "agent"}[person]; added.Item.Source != by {
					t.Errorf("a memory is from %q, want %q", added.Item.Source, by)
				}
			}
			if !person {
				return
			}
			l, err := a.Audit.List(ctx, audit.ListParams{SubjectID: tool.String(), Actions: []string{audit.ApprovalDecided}})
			if err != nil || len(l.Entries) != 1 {
				t.Fatalf("%+v %v", l, err)
			}
			kind, _, _ := strings.Cut(name, " ") // of the client
			want := audit.WireActor{Kind: "user", ID: a.LocalUser().String(), Client: kind}
			if me.Token != nil {
				want = audit.WireActor{Kind: audit.TokenActor, ID: me.Token.ID.String(), Name: me.Token.Name}
			}
			if l.Entries[0].Actor != want {
				t.Errorf("the audit log names %+v, want %+v", l.Entries[0].Actor, want)
			}
		})
	}
}

// TestTokenIsNamedByTheAuditLog runs a tool, requests a skill over POST /execute and creates
// another token as the holder of a token, directly and through a ticket: the audit log names the
// token, and revoking the token ends the sessions of its tickets.
func TestTokenIsNamedByTheAuditLog(t *testing.T) {
	t.Parallel()
	a := attack(t)
	ctx := a.as(a.LocalUser())
	made, err := a.Gateway.TokensCreate(ctx, gateway.TokenParams{Name: "Backup script", Scopes: []string{"admin"}})
	if err != nil {
		t.Fatal(err)
	}
	direct := *a
	direct.root = made.Token
	opened := func(by *attacked) *attacked {
		var ticket gateway.Ticket
		if err := by.call("sessions.ticket", map[string]any{"scopes": []string{"admin"}}, &ticket); err != nil {
			t.Fatal(err)
		}
		browser := *a
		browser.root = redeem(t, a, ticket)
		return &browser
	}
	browser := opened(&direct)
	again := opened(browser) // a browser session created by the browser session
	token := audit.WireActor{Kind: audit.TokenActor, ID: made.ID.String(), Name: "Backup script"}
	for i, by := range []*attacked{&direct, browser, again} {
		tool := a.tool(t, tools.CreateParams{Name: fmt.Sprintf("Seven %d", i), Code: "return 7"})
		var r tools.ExecuteResult
		if err := by.call("tools.execute", map[string]any{"toolId": tool}, &r); err != nil || !r.Success {
			t.Fatalf("%+v %v", r, err)
		}
		skill := uuid.New()
		status, answer := one{method: "POST", addr: a.main, path: "/execute", body: `{"skill_id":"` + skill.String() + `","input":{}}`, head: header("Authorization", "Bearer "+by.root)}.raw(t)
		if status != http.StatusNotFound {
			t.Fatalf("%d %s", status, answer)
		}
		for _, subject := range []uuid.UUID{tool, skill} {
			l, err := a.Audit.List(ctx, audit.ListParams{SubjectID: subject.String()})
			if err != nil {
				t.Fatal(err)
			}
			found := 0
			for _, e := range l.Entries {
				if e.RunID != nil || subject == skill {
					found++
					if e.Actor != token {
						t.Errorf("%d: %s names %+v", i, e.Action, e.Actor)
					}
				}
			}
			if found == 0 {
				t.Errorf("%d: no entry", i)
			}
		}
		var other gateway.NewToken
		if err := by.call("tokens.create", map[string]any{"name": "More", "scopes": []string{"read"}}, &other); err != nil {
			t.Fatal(err)
		}
		l, err := a.Audit.List(ctx, audit.ListParams{SubjectID: other.ID.String()})
		if err != nil || len(l.Entries) != 1 || !strings.Contains(string(l.Entries[0].Details), made.ID.String()) {
			t.Errorf("%d: %+v %v", i, l, err)
		}
	}
	if _, err := a.Gateway.TokensRevoke(ctx, gateway.TokenIDParams{ID: made.ID}); err != nil {
		t.Fatal(err)
	}
	for i, by := range []*attacked{&direct, browser, again} {
		if err := by.call("session.get", map[string]any{}, &struct{}{}); err == nil || !strings.HasPrefix(err.Error(), "401 ") {
			t.Errorf("%d still answers: %v", i, err)
		}
	}
}

// TestConnectWithAnotherToken opens the socket with one token and connects with another: the
// session belongs to the second one in every respect.
func TestConnectWithAnotherToken(t *testing.T) {
	t.Parallel()
	a := attack(t)
	ctx := a.as(a.LocalUser())
	made, err := a.Gateway.TokensCreate(ctx, gateway.TokenParams{Name: "Reader", Scopes: []string{"write"}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := gateway.DialPipe(t.Context(), gateway.ClientOptions{URL: a.Gateway.URL(), Token: a.root})
	if err != nil {
		t.Fatal(err)
	}
	c, err := gateway.DialOver(t.Context(), p, gateway.ClientOptions{Token: made.Token, Scopes: []string{"admin", "write"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var me gateway.SessionInfo
	if err := c.Call(t.Context(), "session.get", map[string]any{}, &me); err != nil {
		t.Fatal(err)
	}
	if me.ClientKind != "token" || me.Person || me.Token == nil || me.Token.ID != made.ID {
		t.Errorf("the session is %+v", me)
	}
}

// TestAnswerWithATokenIsNamed answers the approval step of a run with a token, through Approvals
// and in the run itself: the audit log names the token.
func TestAnswerWithATokenIsNamed(t *testing.T) {
	t.Parallel()
	c := newChain(t)
	made, err := c.Gateway.TokensCreate(c.ctx, gateway.TokenParams{Name: "Phone", Scopes: []string{"write", "approve"}})
	if err != nil {
		t.Fatal(err)
	}
	phone := attacked{Backend: c.Backend, root: made.Token}
	m := c.save("Letters", `[{"stepId":"ask","toolType":"approval","title":"Send it?"}]`)
	for name, answer := range map[string]func(run uuid.UUID) error{
		"in Approvals": func(run uuid.UUID) error {
			q := c.waiting(run)[0]
			return phone.call("approvals.decide", map[string]any{"id": q.ID, "definitionHash": q.DefinitionHash, "decision": "approve"}, &struct{}{})
		},
		"in the run": func(run uuid.UUID) error {
			return phone.call("skills.answer", map[string]any{"executionId": run, "stepPath": "ask", "decision": "approve"}, &struct{}{})
		},
	} {
		run := c.run(m).ExecutionID
		if err := answer(run); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		c.ended(run)
		l, err := c.Audit.List(c.ctx, audit.ListParams{RunID: &run, Actions: []string{audit.ApprovalDecided}})
		if err != nil || len(l.Entries) != 1 {
			t.Fatalf("%s: %+v %v", name, l, err)
		}
		if want := (audit.WireActor{Kind: audit.TokenActor, ID: made.ID.String(), Name: "Phone"}); l.Entries[0].Actor != want {
			t.Errorf("%s: the audit log names %+v", name, l.Entries[0].Actor)
		}
	}
}
