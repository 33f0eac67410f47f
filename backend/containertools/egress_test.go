package containertools

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"helix/backend/container"
	"helix/backend/fault"
	"helix/backend/storage"
)

// reach runs a tool whose program tries every one of the addresses, and returns those that were dialed.
func (e *env) reach(t *Tool, addresses ...[2]any) (dialed []string, secrets []string) {
	e.Helper()
	e.s.o.Dial = func(_ context.Context, host string, port int) (net.Conn, error) {
		dialed = append(dialed, fmt.Sprintf("%s:%d", host, port))
		return nil, fault.Unavailablef("Couldn't reach %s.", host)
	}
	e.s.o.Secret = func(_ context.Context, name string) ([]byte, error) { return []byte("value of " + name), nil }
	e.engine.network = func(ctx context.Context, s container.Spec) {
		if s.Egress == nil {
			return
		}
		for _, a := range addresses {
			s.Egress.Dial(ctx, a[0].(string), a[1].(int)) //nolint:errcheck // what was dialed shows it
		}
		for _, name := range []string{"KEY", "OTHER"} {
			if v, err := s.Egress.Secret(ctx, "api.example.com", name); err == nil {
				secrets = append(secrets, v)
			}
		}
		s.Contacted(container.Contact{Host: "api.example.com", Port: 443, Method: "GET", Path: "/s3cret-key", Status: 200, BytesIn: 5})
		s.Contacted(container.Contact{Host: "bad.example.com", Port: 443, Method: "CONNECT", Refused: "no"})
	}
	if _, err := e.s.Run(e.ctx, RunParams{Name: t.Name}); err != nil {
		e.Fatal(err)
	}
	return dialed, secrets
}

func TestRunsReachOnlyTheHostsOfTheirTool(t *testing.T) {
	e := setup(t)
	all := [][2]any{{"api.example.com", 443}, {"api.example.com", 8443}, {"x.example.org", 443}, {"example.org", 443}, {"other.com", 8443}, {"localhost", 3000}, {"localhost", 3001}, {"evil.com", 443}, {"api.example.com.evil.com", 443}}
	tool := e.tool("net", true, func(p *AddParams) {
		p.Hosts, p.Secrets = []string{"API.example.com", "*.example.org", "other.com:8443", "localhost:3000"}, []string{"KEY"}
	})
	dialed, secrets := e.reach(tool, all...)
	if want := []string{"api.example.com:443", "x.example.org:443", "other.com:8443", "localhost:3000"}; !slices.Equal(dialed, want) {
		t.Errorf("%v", dialed)
	}
	if !slices.Equal(secrets, []string{"value of KEY"}) {
		t.Errorf("%v", secrets)
	}
	var ok, refused int
	if err := e.db.Read(e.ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT count(*) FILTER (WHERE outcome = 'ok'), count(*) FILTER (WHERE outcome = 'denied') FROM audit_log WHERE action = 'resource_access'`).Scan(&ok, &refused)
	}); err != nil || ok != 1 || refused != 1 {
		t.Errorf("%d and %d entries, %v", ok, refused, err)
	}
	if dialed, _ := e.reach(e.tool("alone", true), all...); len(dialed) > 0 {
		t.Errorf("a tool without hosts dialed %v", dialed)
	}
}

func TestAHostNeedsAnotherApproval(t *testing.T) {
	e := setup(t)
	tool := e.tool("net", true)
	changed := e.tool("net", false, func(p *AddParams) { p.Hosts = []string{"api.example.com"} })
	if changed.ID != tool.ID || changed.Status != StatusPending || changed.DefinitionHash == tool.DefinitionHash {
		t.Errorf("%+v", changed)
	}
	if lines := strings.Join(changed.Definition.lines(), "\n"); !strings.Contains(lines, "Network: api.example.com") {
		t.Errorf("%s", lines)
	}
	e.tool("mail", false, func(p *AddParams) { p.Hosts, p.Secrets = []string{"mail.example.com"}, []string{"KEY"} })
	users := map[string]string{}
	if err := e.s.SecretUsers(e.ctx, func(secret, user string) { users[secret] = user }); err != nil || len(users) != 1 || users["KEY"] != "container tool mail" {
		t.Errorf("users of secrets: %v, %v", users, err)
	}
	for name, p := range map[string]AddParams{
		"address": {Hosts: []string{"127.0.0.1"}}, "scheme": {Hosts: []string{"http://example.com"}}, "everything": {Hosts: []string{"*"}},
		"secret without host": {Secrets: []string{"KEY"}}, "secret's name": {Hosts: []string{"a.com"}, Secrets: []string{"a b"}},
	} {
		p.Name, p.Image, p.Argv = "bad", "localhost/box", []string{"x"}
		if _, err := e.s.Add(e.ctx, p); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRevokedHostIsNotReachedByARunInProgress(t *testing.T) {
	e := setup(t)
	tool := e.tool("net", true, func(p *AddParams) { p.Hosts = []string{"api.example.com"} })
	var refused error
	e.s.o.Dial = func(context.Context, string, int) (net.Conn, error) {
		t.Error("it was dialed")
		return nil, fault.Unavailablef("no")
	}
	e.engine.network = func(ctx context.Context, s container.Spec) {
		if _, err := e.s.Revoke(e.ctx, ToolParams{tool.ID}); err != nil {
			t.Error(err)
		}
		_, refused = s.Egress.Dial(ctx, "api.example.com", 443)
	}
	e.s.Run(e.ctx, RunParams{Name: "net"}) //nolint:errcheck // it was revoked
	if !fault.Is(refused, fault.Denied) {
		t.Errorf("%v", refused)
	}
}
