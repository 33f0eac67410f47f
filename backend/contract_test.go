package backend

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/cloudsync/hubtest"
	"helix/backend/fault"
	"helix/backend/gateway"
	"helix/backend/gateway/gatewaytest"
	"helix/backend/identity"
	"helix/backend/sandbox"
	"helix/backend/sandbox/sandboxtest"
	"helix/backend/scheduler"
	"helix/backend/skills"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helix/backend/testkit"
	"helix/backend/tools"
	"helix/backend/wasmtools"
)

// worker starts this program as the sandbox's child.
var worker []string

func TestMain(m *testing.M) {
	worker = sandbox.ServeWorker()
	os.Exit(testkit.Run(hubtest.Main{M: m}))
}

// noKeyring is a computer without a keyring.
type noKeyring struct{}

func (noKeyring) Get(string, string) (string, error) { return "", errors.New("no keyring here") }
func (noKeyring) Set(string, string, string) error   { return errors.New("no keyring here") }

func testOptions(dir string) Options {
	return Options{
		DataDir: dir, Worker: worker, Listen: true, Keyring: noKeyring{}, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Environ: func(name string) string {
			if name == "HOME" {
				return dir
			}
			return ""
		},
		Flags: map[string]string{"gateway.addr": "127.0.0.1:0", "gateway.costly_rate": "1000", "backup.auto": "off", "container.host": "off"},
		Web:   fstest.MapFS{"index.html": {Data: []byte("<!doctype html><title>Helix</title>")}},
	}
}

// start runs a complete backend with a temporary folder.
func start(t *testing.T) *Backend {
	t.Helper()
	return startWith(t, testOptions(t.TempDir()))
}

// prepare gives a new data folder what a first start takes seconds for: the compiled engine, and an
// empty database with the schema.
func prepare(t *testing.T, dir string) {
	t.Helper()
	sandboxtest.Warm(t, filepath.Join(dir, "cache", "engine"))
	if _, err := os.Stat(filepath.Join(dir, "data")); err != nil {
		storagetest.Blank(t, filepath.Join(dir, "data", "helix.db"))
	}
}

func startWith(t *testing.T, o Options) *Backend {
	t.Helper()
	prepare(t, o.DataDir)
	b, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- b.Run(context.WithoutCancel(t.Context())) }()
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	if err := b.Gateway.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *Backend) as(user uuid.UUID) context.Context {
	return identity.With(context.Background(), identity.Identity{User: user, Scopes: identity.Admin.Closed(), Session: uuid.New(), Client: identity.ClientWindow, Label: "test", Pipe: "memory"})
}

// target prepares a backend for the contract suite.
func target(t *testing.T) *gatewaytest.Target {
	t.Helper()
	b := start(t)
	other, err := b.DB.AddUser(t.Context(), "Other")
	if err != nil {
		t.Fatal(err)
	}
	token, _, err := b.Root.Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	const word = "Zwiebelkuchen"
	return &gatewaytest.Target{
		API: b.API, Server: b.Gateway, RootToken: token,
		Owner: identity.Identity{User: b.LocalUser(), Scopes: identity.Admin.Closed(), Client: identity.ClientWindow, Label: "a", Pipe: "memory"},
		Other: identity.Identity{User: other.ID, Scopes: identity.Admin.Closed(), Client: identity.ClientWindow, Label: "b", Pipe: "memory"},
		Skip: map[string]string{
			"system.stop":        "ends the program under test",
			"storage.restore":    "replaces the data under test; tested in package storage",
			"storage.rollback":   "the same",
			"storage.salvage":    "only in recovery mode",
			"tokens.rotate_root": "ends the sessions of the suite",
			"sessions.close":     "the same",
			"services.restart":   "restarts the listener that the suite uses",
			"services.stop":      "the same",
			"stop_rust_exe":      "the same",
			"stop_all_rust_exes": "the same",
		},
		Once: map[string]string{"sandbox.bench": "computes for seconds"},
		Params: map[string]json.RawMessage{
			"storage.backup": raw(t, map[string]any{"path": filepath.Join(dir, "a.zip")}),
			"storage.export": raw(t, map[string]any{"dir": filepath.Join(dir, "export")}),
			"audit.export":   raw(t, map[string]any{"path": filepath.Join(dir, "audit.jsonl")}),
		},
		Prepare: func(t *testing.T) ([]uuid.UUID, []string) {
			ctx := b.as(b.LocalUser())
			made, err := b.Tools.Create(ctx, tools.CreateParams{Name: word, Code: "export default (p, helix) => helix.fetch('https://api.example.com/')", Capabilities: []string{"network:https(api.example.com)"}})
			if err != nil {
				t.Fatal(err)
			}
			id := made.Tool.ID
			_, err = b.Tools.Execute(ctx, tools.ExecuteParams{ToolID: &id})
			if !fault.Is(err, fault.Denied) {
				t.Fatalf("the run was not refused: %v", err)
			}
			skill, err := b.WasmTools.CreateWasm(ctx, wasmtools.CreateWasmParams{Name: word, Description: word, Wasm: wasmFile(t, "echo"), Origin: wasmtools.WasmLocal})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := b.Tools.ExecuteSkill(ctx, tools.ExecuteSkillParams{SkillID: skill.Skill.ID, Input: raw(t, word)}); err != nil {
				t.Fatal(err)
			}
			ids := append([]uuid.UUID{id, skill.Skill.ID}, compositeRows(t, b, word, id)...)
			ids = append(ids, memoryRows(t, b, word)...)
			if err := b.DB.Read(ctx, func(tx *storage.Tx) error {
				for _, table := range []string{"pending_approvals", "custom_tool_usage", "custom_tool_versions", "skill_executions", "audit_log",
					"composite_skill_versions", "composite_skill_steps", "schedules", "schedule_runs"} {
					var row uuid.UUID
					if err := tx.QueryRow("SELECT id FROM "+table+" WHERE user_id = ? LIMIT 1", b.LocalUser()).Scan(&row); err != nil {
						return err
					}
					ids = append(ids, row)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			return ids, []string{word}
		},
		Count:   func(t *testing.T, user uuid.UUID) map[string]int { return gatewaytest.CountRows(t, b.DB, user) },
		MayGrow: []string{"audit_log", "audit_segments", "schedule_runs"}, // by the suite itself, and by the nightly clean-up
	}
}

// compositeRows creates a composite skill with a run that has ended and one that waits for a
// person, and a schedule that has run.
func compositeRows(t *testing.T, b *Backend, word string, tool uuid.UUID) (ids []uuid.UUID) {
	t.Helper()
	ctx := b.as(b.LocalUser())
	m, err := b.Skills.CreateComposite(ctx, skills.SaveParams{Note: word, Skill: raw(t, map[string]any{
		"name": word, "description": word, "tags": []string{word}, "steps": []any{
			map[string]any{"stepId": "made", "toolType": "transform", "value": map[string]any{"$literal": word}},
			map[string]any{"stepId": "off", "toolType": "custom", "toolId": tool, "condition": "$.input.call == true"},
			map[string]any{"stepId": "ask", "toolType": "approval", "title": word, "condition": "$.input.wait == true"},
		},
	})})
	if err != nil || !m.Valid {
		t.Fatal(m, err)
	}
	ids = append(ids, m.SkillID, m.VersionID)
	for _, wait := range []bool{false, true} {
		r, err := b.Skills.ExecuteComposite(ctx, skills.ExecuteParams{SkillID: &m.SkillID, Input: raw(t, map[string]any{"wait": wait, "word": word})})
		if err != nil || r.Success == wait {
			t.Fatal(r, err)
		}
		ids = append(ids, r.ExecutionID)
	}
	s, err := b.Scheduler.Create(ctx, scheduler.CreateParams{Name: word, Description: word, Target: scheduler.Target{Kind: "skill", ID: &m.SkillID}, Cadence: raw(t, map[string]any{"type": "interval", "everySecs": 86400})})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan scheduler.RunEvent, 64)
	defer bus.Subscribe(b.Bus, func(_ uuid.UUID, e scheduler.RunEvent) { ended <- e })()
	r, err := b.Scheduler.RunNow(ctx, scheduler.RunNowParams{ScheduleID: s.ScheduleID})
	if err != nil {
		t.Fatal(err)
	}
	for e := range ended { // what runs must not change the counts later
		if e.RunID == r.RunID && e.Status == "success" {
			break
		}
	}
	return append(ids, s.ScheduleID, r.RunID)
}

func raw(t *testing.T, v any) json.RawMessage {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestContract(t *testing.T) {
	t.Parallel()
	gatewaytest.Run(t, target)
}

func TestFrontendAndCommandLineNameOnlyWhatExists(t *testing.T) {
	t.Parallel()
	a := gateway.NewAPI()
	Register(&Backend{}, a)
	gatewaytest.Mentions(t, a, []string{".ts", ".svelte", ".go"}, "../frontend/src", "../app/cli")
}
