package cli

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/uuid"

	"helix/backend"
	"helix/backend/bus"
	"helix/backend/callable"
	"helix/backend/identity"
	"helix/backend/permission"
	"helix/backend/scheduler"
	"helix/backend/skills"
)

// greeter is a complete provider.
type greeter struct{}

var hello = callable.Info{Ref: callable.Ref{Kind: "greeter", ID: "hello"}, Name: "hello", Description: "Greets.", Hash: "1", Effects: callable.Effects{ReadOnly: true}}

func (greeter) Kind() callable.Kind { return "greeter" }

func (greeter) Find(_ context.Context, id, name string) ([]callable.Info, error) {
	if id == hello.ID || id == "" && name == hello.Name {
		return []callable.Info{hello}, nil
	}
	return nil, nil
}

func (greeter) List(context.Context) ([]callable.Info, error) { return []callable.Info{hello}, nil }

func (greeter) Call(_ context.Context, _ callable.Ref, r callable.Request) (callable.Result, error) {
	var in struct{ To string }
	err := json.Unmarshal(r.Input, &in)
	return callable.Result{Output: json.RawMessage(`"Hello ` + in.To + `"`)}, err
}

func (greeter) Rights(context.Context, callable.Info, json.RawMessage) (permission.PreviewResult, error) {
	return permission.NewPreview(), nil
}

// A provider that is added to the registry can immediately be used in a skill, in a schedule and
// from the command line.
func TestOneProviderServesEveryCaller(t *testing.T) {
	t.Parallel()
	dir := dataFolder(t)
	b, err := backend.Open(t.Context(), backend.Options{
		DataDir: dir, Listen: true, Keyring: noKeyring{}, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Environ: func(string) string { return "" },
		Flags: map[string]string{"gateway.addr": "127.0.0.1:0", "backup.auto": "off"},
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- b.Run(context.WithoutCancel(t.Context())) }()
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		<-ended
	})
	if err := b.Gateway.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.Callables.Add(greeter{})
	ctx := identity.With(t.Context(), identity.Identity{User: b.LocalUser(), Scopes: identity.Admin.Closed(), Session: uuid.New(), Client: identity.ClientWindow})

	out, err := b.Skills.ExecuteComposite(ctx, skills.ExecuteParams{
		Skill: json.RawMessage(`{"name":"Greets","steps":[{"stepId":"h","toolType":"greeter","toolName":"hello","inputMapping":{"to":"$.input.who"}}]}`), Input: json.RawMessage(`{"who":"Ada"}`),
	})
	if err != nil || string(out.FinalOutput) != `"Hello Ada"` {
		t.Errorf("in a skill: %+v, %v", out, err)
	}

	events := make(chan scheduler.RunEvent, 64)
	defer bus.Subscribe(b.Bus, func(_ uuid.UUID, e scheduler.RunEvent) { events <- e })()
	s, err := b.Scheduler.Create(ctx, scheduler.CreateParams{
		Name: "Greet", Target: scheduler.Target{Kind: "greeter", Name: "hello", Input: json.RawMessage(`{"to":"Grace"}`)}, Cadence: json.RawMessage(`{"type":"interval","everySecs":86400}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	run, err := b.Scheduler.RunNow(ctx, scheduler.RunNowParams{ScheduleID: s.ScheduleID})
	if err != nil {
		t.Fatal(err)
	}
	for e := range events {
		if e.RunID == run.RunID && (e.Status == "success" || e.Status == "failed") {
			break
		}
	}
	if r, err := b.Scheduler.RunOutput(ctx, scheduler.RunOutputParams{RunID: run.RunID}); err != nil || r.Text != "Hello Grace" {
		t.Errorf("in a schedule: %+v, %v", r, err)
	}

	if r := helix(t, dir, "", "call", "hello", "--input", `{"to":"Edsger"}`); r.code != 0 || strings.TrimSpace(r.stdout) != `"Hello Edsger"` {
		t.Errorf("from the command line: %+v", r)
	}
	if r := helix(t, dir, `{"value":1,"schema":{"type":"string"}}`, "call", "builtin:json.validate", "--input", "-"); r.code != 0 || !strings.Contains(r.stdout, `"valid":false`) {
		t.Errorf("a built-in: %+v", r)
	}
	if r := helix(t, dir, "", "call", "--list", "greet"); r.code != 0 || !strings.Contains(r.stdout, "hello") {
		t.Errorf("the list: %+v", r)
	}
	if r := helix(t, dir, "", "call", "nothing"); r.code != 3 {
		t.Errorf("what is not there: %+v", r)
	}
	if r := helix(t, dir, "", "call", "json.validate"); r.code != 2 || strings.Contains(r.stderr, "Answer it") {
		t.Errorf("a bad input: %+v", r)
	}
}
