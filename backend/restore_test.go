package backend

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/bus"
	"helix/backend/config"
	"helix/backend/fault"
	"helix/backend/gateway"
	"helix/backend/permission"
	"helix/backend/storage"
	"helix/backend/testkit"
	"helix/backend/tools"
)

// remote is a separate session with b, with the root token or another one.
type remote struct {
	t *testing.T
	c *gateway.Client
}

func (b *Backend) remote(t *testing.T, token string) (*remote, error) {
	t.Helper()
	if token == "" {
		var err error
		if token, _, err = b.Root.Token(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	c, err := gateway.Dial(t.Context(), gateway.ClientOptions{URL: b.Gateway.URL(), Token: token, Scopes: []string{"admin"}, Client: gateway.ClientInfo{ID: "restore-test"}})
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = c.Close() })
	return &remote{t, c}, nil
}

func (b *Backend) session(t *testing.T) *remote {
	t.Helper()
	r, err := b.remote(t, "")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *remote) try(method string, params, result any) error {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	return r.c.Call(ctx, method, params, result)
}

func (r *remote) call(method string, params, result any) {
	r.t.Helper()
	if err := r.try(method, params, result); err != nil {
		r.t.Fatalf("%s: %v", method, err)
	}
}

type none = struct{}

// world is the state at the time of the backup, and the changes since.
type world struct {
	file   string    // the file that the tool may read
	reader uuid.UUID // a tool whose permission was revoked after the backup
	asker  uuid.UUID // a tool whose permission was granted after the backup
	token  string    // of another program
	late   string    // a token created after the backup
	backup string
}

// makeWorld fills b over RPC, creates a backup, and changes everything afterwards.
func makeWorld(t *testing.T, b *Backend) *world {
	t.Helper()
	w := &world{file: filepath.Join(t.TempDir(), "note.txt"), backup: filepath.Join(t.TempDir(), "a.zip")}
	if err := os.WriteFile(w.file, []byte("a note"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := b.session(t)
	w.reader, w.asker = w.tool(r, "reader"), w.tool(r, "asker")
	w.allow(r, w.reader)
	var tok gateway.NewToken
	r.call("tokens.create", gateway.TokenParams{Name: "early", Scopes: []string{"read"}}, &tok)
	w.token = tok.Token
	r.call("config.set", config.SetParams{Values: map[string]any{"history.max_rows": 5000}}, nil)
	if err := b.Audit.Sign(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.call("storage.backup", storage.BackupParams{Path: w.backup}, nil)

	r.call("permissions.revoke", permission.RevokeParams{SubjectID: w.reader.String()}, nil)
	if err := w.run(r, w.reader); !fault.Is(err, fault.Denied) {
		t.Fatalf("the right was not taken back: %v", err)
	}
	w.allow(r, w.asker)
	r.call("tools.create", tools.CreateParams{Name: "late", Code: "return 1"}, nil)
	r.call("tokens.revoke", map[string]any{"id": tok.ID}, nil)
	r.call("tokens.create", gateway.TokenParams{Name: "late", Scopes: []string{"read"}}, &tok)
	w.late = tok.Token
	r.call("config.set", config.SetParams{Values: map[string]any{"history.max_rows": 7000}}, nil)
	if err := b.Audit.Sign(t.Context()); err != nil { // now the head outside the database is ahead of the backup
		t.Fatal(err)
	}
	return w
}

// tool creates a tool that reads the file.
func (w *world) tool(r *remote, name string) uuid.UUID {
	var made tools.CreateResult
	r.call("tools.create", tools.CreateParams{Name: name, Code: "return await helix.fs.readText(params.p)", Capabilities: []string{"filesystem:read(" + w.file + ")"}}, &made)
	return made.Tool.ID
}

// allow grants a tool its permission, by answering the question of its first run.
func (w *world) allow(r *remote, tool uuid.UUID) {
	r.t.Helper()
	if err := w.run(r, tool); !fault.Is(err, fault.Denied) {
		r.t.Fatalf("the first run was not asked about: %v", err)
	}
	var asked permission.ListApprovalsResult
	r.call("approvals.list", permission.ListApprovalsParams{SubjectID: tool.String()}, &asked)
	if len(asked.Approvals) != 1 {
		r.t.Fatalf("questions: %+v", asked)
	}
	r.call("approvals.decide", permission.AnswerParams{ID: asked.Approvals[0].ID, Decision: "approve", DefinitionHash: asked.Approvals[0].DefinitionHash, Scope: "always"}, nil)
	if err := w.run(r, tool); err != nil {
		r.t.Fatal(err)
	}
}

func (w *world) run(r *remote, tool uuid.UUID) error {
	var res tools.ExecuteResult
	err := r.try("tools.execute_custom", map[string]any{"toolId": tool, "params": map[string]any{"p": w.file}}, &res)
	if err == nil && (!res.Success || string(res.Output) != `"a note"`) {
		r.t.Fatalf("the tool answered %+v", res)
	}
	return err
}

// isRestored checks everything that a cache could have kept, in a new session.
func (w *world) isRestored(t *testing.T, b *Backend) {
	t.Helper()
	r := b.session(t)
	var list tools.ListResult
	r.call("tools.list", map[string]any{}, &list)
	if len(list.Tools) != 2 {
		t.Errorf("tools: %+v", list)
	}
	var rights permission.ListResult
	r.call("permissions.list", permission.ListParams{State: "active"}, &rights)
	if len(rights.Grants) != 1 {
		t.Errorf("rights: %+v", rights)
	}
	var rep audit.Report
	r.call("audit.verify", none{}, &rep) // before the next segment hides an old head
	if !rep.OK || rep.Entries == 0 {
		t.Errorf("audit: %+v", rep)
	}
	if err := w.run(r, w.reader); err != nil {
		t.Errorf("the tool with its right back: %v", err)
	}
	if err := w.run(r, w.asker); !fault.Is(err, fault.Denied) {
		t.Errorf("the right that the backup does not have: %v", err)
	}
	r.call("tools.create", tools.CreateParams{Name: "new", Code: "return 2"}, nil)
	if err := b.Audit.Sign(t.Context()); err != nil {
		t.Error(err)
	}
	r.call("audit.verify", none{}, &rep)
	if !rep.OK || rep.Entries == 0 || rep.Unsigned != 0 {
		t.Errorf("audit: %+v", rep)
	}
	var kept audit.ListResult
	r.call("audit.list", map[string]any{"actions": []string{"data.restore"}}, &kept)
	if len(kept.Entries) != 1 {
		t.Errorf("%d entries about the restore", len(kept.Entries))
	}
	if c, err := b.remote(t, w.token); err != nil {
		t.Errorf("the token of the backup: %v", err)
	} else {
		c.call("tools.list", map[string]any{}, nil)
	}
	if _, err := b.remote(t, w.late); !fault.Is(err, fault.Denied) {
		t.Errorf("a token that the backup does not have: %v", err)
	}
	var values config.GetResult
	r.call("config.get", config.GetParams{Keys: []string{"history.max_rows"}}, &values)
	if values.Values["history.max_rows"] != 5000.0 || b.Config.Current().HistoryMaxRows != 5000 {
		t.Errorf("settings: %v, in force %d", values, b.Config.Current().HistoryMaxRows)
	}
	var status storage.StatusResult
	r.call("storage.status", none{}, &status)
	if status.Recovery != nil || status.Sealed != "open" {
		t.Errorf("status: %+v", status)
	}
}

// A restore replaces the data of a running program: nothing may continue to return the old data.
func TestRestoreWhileRunning(t *testing.T) {
	t.Parallel()
	b := start(t)
	w := makeWorld(t, b)
	replaced := make(chan struct{}, 1)
	defer bus.Subscribe(b.Bus, func(uuid.UUID, config.Changed) {
		select {
		case replaced <- struct{}{}:
		default:
		}
	})()
	inside := b.as(b.LocalUser()) // like a schedule, without a session that ends
	direct := func() error {
		_, err := b.Tools.Execute(inside, tools.ExecuteParams{ToolID: &w.asker, Params: raw(t, map[string]any{"p": w.file})})
		return err
	}
	if err := direct(); err != nil {
		t.Fatal(err)
	}
	r := b.session(t)
	var res storage.RestoreResult
	err := r.try("storage.restore", storage.RestoreParams{Path: w.backup}, &res)
	if err != nil && !fault.Is(err, fault.Unavailable) { // the session of the caller ends, too
		t.Fatal(err)
	}
	<-replaced
	if err := direct(); !fault.Is(err, fault.Denied) {
		t.Errorf("a right that is gone, from inside: %v", err)
	}
	w.isRestored(t, b)
}

// A damaged file at start, then a restore in recovery mode, then everything works.
func TestRestoreOutOfRecovery(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b, ended := startIn(t, dir)
	w := makeWorld(t, b)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	path := b.Config.Paths().Database()
	if err := os.WriteFile(path, make([]byte, 8192), 0o600); err != nil { // not even a header
		t.Fatal(err)
	}
	b, ended = startIn(t, dir)
	defer func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	r := b.session(t)
	if err := r.try("tools.list", map[string]any{}, nil); !fault.Is(err, fault.Unavailable) {
		t.Fatalf("tools in recovery mode: %v", err)
	}
	var status storage.StatusResult
	r.call("storage.status", none{}, &status)
	if status.Recovery == nil || status.Recovery.Reason != "corrupt" {
		t.Fatalf("status: %+v", status)
	}
	if err := r.try("storage.restore", storage.RestoreParams{Path: w.backup}, nil); err != nil && !fault.Is(err, fault.Unavailable) {
		t.Fatal(err)
	}
	testkit.Eventually(t, "recovery", b.DB.Recovery, func(r *storage.RecoveryState) bool { return r == nil })
	w.isRestored(t, b)
}

// startIn is start with a given folder.
func startIn(t *testing.T, dir string) (*Backend, chan error) {
	t.Helper()
	b, err := Open(t.Context(), testOptions(dir))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- b.Run(context.WithoutCancel(t.Context())) }()
	if err := b.Gateway.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b, ended
}
