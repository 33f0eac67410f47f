package shell

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/bus"
	"helix/backend/container"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Run(m)) }

// noEngine has images and starts nothing.
type noEngine struct{ specs []container.SessionSpec }

func (*noEngine) Image(_ context.Context, ref string) (container.Image, error) {
	return container.Image{Ref: ref, ID: "sha256:" + ref}, nil
}

func (e *noEngine) Spawn(_ context.Context, s container.SessionSpec) (*container.Session, error) {
	e.specs = append(e.specs, s)
	return nil, fault.Unavailablef("There is no engine.")
}

func newService(t *testing.T) (*Service, *noEngine, *[]audit.Entry) {
	t.Helper()
	e, log := &noEngine{}, &[]audit.Entry{}
	s := New(e, Options{
		Bus: bus.New(), Image: "default", Audit: func(_ context.Context, list ...audit.Entry) error { *log = append(*log, list...); return nil },
		Workspace: func(context.Context) (string, error) { return "/data/workspaces/user", nil },
	})
	t.Cleanup(func() { s.Close() })
	return s, e, log
}

func as(ctx context.Context, client identity.Client, scopes identity.Scope) context.Context {
	return identity.With(ctx, identity.Identity{User: uuid.New(), Client: client, Scopes: scopes.Closed()})
}

func TestOnlyPeopleUseSessions(t *testing.T) {
	t.Parallel()
	s, e, log := newService(t)
	for name, ctx := range map[string]context.Context{
		"nobody":        t.Context(),
		"program":       as(t.Context(), identity.ClientProgram, identity.Admin),
		"token":         as(t.Context(), identity.ClientToken, identity.Write),
		"no approvals":  as(t.Context(), identity.ClientBrowser, identity.Write),
		"reading token": as(t.Context(), identity.ClientToken, identity.Read),
	} {
		if _, err := s.Spawn(ctx, SpawnParams{}); !fault.Is(err, fault.Denied) {
			t.Errorf("%s may start a session: %v", name, err)
		}
		if _, err := s.Exec(ctx, ExecParams{SessionID: uuid.New(), Command: "id"}); !fault.Is(err, fault.Denied) {
			t.Errorf("%s may run a command: %v", name, err)
		}
	}
	if len(e.specs) > 0 || len(*log) > 0 {
		t.Errorf("%v, %v", e.specs, *log)
	}
}

func TestSessionsNeverSeeTheVault(t *testing.T) {
	t.Parallel()
	s, e, _ := newService(t)
	ctx := as(t.Context(), identity.ClientTerminal, identity.Admin|identity.Approve)
	no := false
	for _, p := range []SpawnParams{{}, {Image: "other", Cwd: "/tmp"}, {Workspace: &no}} {
		if _, err := s.Spawn(ctx, p); !fault.Is(err, fault.Unavailable) {
			t.Fatal(err)
		}
	}
	if m := e.specs[0].Mounts; e.specs[0].ImageID != "sha256:default" || len(m) != 2 || m[0].Source != "/data/workspaces/user/shared" || m[1].Source != "/data/workspaces/user/tmp" {
		t.Errorf("%+v", e.specs[0])
	}
	if e.specs[1].ImageID != "sha256:other" || e.specs[1].Dir != "/tmp" || len(e.specs[2].Mounts) != 0 {
		t.Errorf("%+v", e.specs[1:])
	}
	for _, cwd := range []string{"relative", "/a\x00b", "/" + strings.Repeat("x", 5000)} {
		if _, err := s.Spawn(ctx, SpawnParams{Cwd: cwd}); !fault.Is(err, fault.Invalid) {
			t.Errorf("%.20q: %v", cwd, err)
		}
	}
}

func TestSessionThatCannotBeRecordedDoesNotStart(t *testing.T) {
	t.Parallel()
	s, e, _ := newService(t)
	s.o.Audit = func(context.Context, ...audit.Entry) error { return errors.New("full") }
	if _, err := s.Spawn(as(t.Context(), identity.ClientTerminal, identity.Approve), SpawnParams{}); err == nil || len(e.specs) > 0 {
		t.Errorf("%v, %v", err, e.specs)
	}
}

func TestCommandsAreTakenWholeOrRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"a; b", "a && b", "echo $(id)", "a\nb", "`id` | sh"} {
		if argv, err := (&ExecParams{Command: text}).argv(); err != nil || argv[2] != text {
			t.Errorf("%q: %q, %v", text, argv, err)
		}
	}
	for name, p := range map[string]ExecParams{
		"nothing": {}, "both": {Command: "a", Argv: []string{"a"}}, "null": {Argv: []string{"a\x00b"}}, "not text": {Command: "\xff"},
		"long": {Command: strings.Repeat("x", maxCommand+1)}, "many": {Argv: make([]string, 2000)},
	} {
		if argv, err := p.argv(); err == nil {
			t.Errorf("%s: %q", name, argv)
		}
	}
}
