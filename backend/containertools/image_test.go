package containertools

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"

	"helix/backend/audit"
	"helix/backend/container"
	"helix/backend/fault"
	"helix/backend/identity"
)

func TestOnlyAPersonRunsAnImageWithoutATool(t *testing.T) {
	t.Parallel()
	e := setup(t)
	p := RunImageParams{Image: "localhost/box", Argv: []string{"text", "a b", "s3cret-key"}, Params: json.RawMessage(`{"n":1}`), Limits: container.Limits{MemoryBytes: 64 << 20}, TimeoutMs: 5000}
	r, err := e.s.RunImage(e.ctx, p)
	if err != nil || !r.Success || string(r.Output) != `"plain s3cret-key\n"` {
		t.Fatalf("%+v, %v", r, err)
	}
	if s := e.engine.runs[0]; s.ImageID != e.engine.image.ID || s.Limits.MemoryBytes != 64<<20 || s.Limits.Wall.Seconds() != 5 || s.Egress != nil || s.Volume != nil || len(s.Env) > 0 || string(s.Input) != `{"n":1}` {
		t.Errorf("%+v", s)
	}
	p.Argv = []string{"fail"}
	if r, err = e.s.RunImage(e.ctx, p); err != nil || r.Success || r.ExitCode != 3 {
		t.Errorf("%+v, %v", r, err)
	}
	list, err := e.log.List(e.ctx, audit.ListParams{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(list.Entries)
	if err != nil {
		t.Fatal(err)
	}
	if text := string(raw); !strings.Contains(text, "a b") || strings.Contains(text, "s3cret-key") || strings.Count(text, `"action":"`+audit.Complete) != 2 {
		t.Errorf("%s", text)
	}
	id, _ := identity.From(e.ctx)
	for name, change := range map[string]func(*identity.Identity){
		"a program":        func(i *identity.Identity) { i.Client = identity.ClientProgram },
		"without approval": func(i *identity.Identity) { i.Scopes = identity.Write.Closed() },
	} {
		other := id
		change(&other)
		if _, err := e.s.RunImage(identity.With(e.ctx, other), p); !fault.Is(err, fault.Denied) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if e.engine.count() != 2 {
		t.Errorf("%d runs", e.engine.count())
	}
	p.TimeoutMs, p.Hosts = 0, []string{"http://x"}
	if _, err := e.s.RunImage(e.ctx, p); err == nil {
		t.Error("an address is no host")
	}
}

func TestAnImageReachesOnlyTheNamedHosts(t *testing.T) {
	t.Parallel()
	e := setup(t)
	var dialed []string
	e.s.o.Dial = func(_ context.Context, host string, port int) (net.Conn, error) {
		dialed = append(dialed, fmt.Sprint(host, ":", port))
		return nil, nil
	}
	e.engine.network = func(ctx context.Context, s container.Spec) {
		for _, to := range []struct {
			host string
			port int
		}{{"api.example.com", 443}, {"example.com", 443}, {"api.example.com", 8443}, {"localhost", 3000}, {"localhost", 3001}, {"evil.org", 443}} {
			s.Egress.Dial(ctx, to.host, to.port) //nolint:errcheck // what was dialed is compared
		}
		if v, err := s.Egress.Secret(ctx, "api.example.com", "K"); err == nil || v != "" {
			t.Errorf("a secret: %q, %v", v, err)
		}
	}
	if _, err := e.s.RunImage(e.ctx, RunImageParams{Image: "localhost/box", Argv: []string{"text"}, Hosts: []string{"api.example.com", "localhost:3000"}}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(dialed, " "); got != "api.example.com:443 localhost:3000" {
		t.Errorf("%s", got)
	}
}
