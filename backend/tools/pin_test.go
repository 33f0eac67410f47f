package tools

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/lifecycle"
	"helix/backend/permission"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helix/backend/testkit"
)

// granted creates a tool with an always grant for state.
func (b *bundle) granted(t testing.TB, name string) Tool {
	t.Helper()
	tool := b.create(t, CreateParams{Name: name, Code: "return await helix.state.get('a')", Capabilities: []string{"state"}})
	_, err := b.Execute(b.ctx, ExecuteParams{ToolID: &tool.ID})
	wantKind(t, err, fault.Denied)
	b.allow(t, tool, "always")
	b.run(t, tool, "")
	return tool
}

func TestEachDefinitionFieldSuspends(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	b := setup(t)
	for _, c := range []struct {
		patch   string
		suspend bool
	}{
		{`{"description":"new"}`, true}, {`{"language":"typescript"}`, true}, {`{"code":"return await helix.state.get('b')"}`, true},
		{`{"parameters":{"type":"object","title":"x"}}`, true}, {`{"capabilities":["state","tool(X)"]}`, true}, {`{"sandboxProfile":"strict"}`, true},
		{`{"limits":{"wallMs":1000}}`, true},
		{`{"name":"Other name %d"}`, false}, {`{"icon":"q"}`, false}, {`{"tags":["a"]}`, false}, {`{"visibility":"public"}`, false}, {`{"version":"3.0.0"}`, false},
		{`{"samples":[{"name":"s","params":{}}]}`, false}, {`{"author":"me"}`, false}, {`{"syncState":true}`, false},
		{`{"capabilities":["state","state(1MiB)"]}`, false},
	} {
		tool := b.granted(t, "P "+uuid.NewString()[:8])
		var events []Suspended
		cancel := bus.Subscribe(b.db.Bus(), func(_ uuid.UUID, e Suspended) { events = append(events, e) })
		text := c.patch
		if strings.Contains(text, "%d") {
			text = fmt.Sprintf(text, time.Now().Nanosecond())
		}
		r := b.update(t, tool, text)
		cancel()
		if got := len(r.SuspendedGrants) > 0; got != c.suspend || r.Tool.Suspended != c.suspend || (len(events) == 1) != c.suspend || (r.Tool.DefinitionHash != tool.DefinitionHash) != c.suspend {
			t.Errorf("%s: suspended %v, flag %v, %d events, hash %v", c.patch, got, r.Tool.Suspended, len(events), r.Tool.DefinitionHash != tool.DefinitionHash)
		}
		_, err := b.Execute(b.ctx, ExecuteParams{ToolID: &tool.ID})
		if c.suspend {
			if d := wantKind(t, err, fault.Denied).Details.(Denial); d.Reason != permission.ReasonDefinitionChanged || d.PendingApprovalID == nil {
				t.Errorf("%s: %+v", c.patch, d)
			}
		} else if err != nil {
			t.Errorf("%s: %v", c.patch, err)
		}
	}
}

func TestRollbackRevivesGrants(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	b := setup(t)
	tool := b.granted(t, "R")
	u := b.update(t, tool, `{"code":"return 2"}`)
	l, err := b.List(b.ctx, ListParams{})
	if err != nil || !l.Tools[0].Suspended {
		t.Fatalf("%+v %v", l, err)
	}
	c, err := b.Capabilities(b.ctx, ToolID{tool.ID})
	if err != nil || len(c.Grants) != 1 || !c.Grants[0].Suspended {
		t.Fatalf("%+v %v", c, err)
	}
	if _, err := b.Rollback(b.ctx, RollbackParams{ToolID: tool.ID, Version: "1.0.0"}); err != nil {
		t.Fatal(err)
	}
	if r := b.run(t, tool, ""); !r.Success {
		t.Errorf("%+v", r)
	}
	// A revoked grant stays revoked.
	if _, err := b.perm.Revoke(b.ctx, permission.RevokeParams{SubjectID: tool.ID.String()}); err != nil {
		t.Fatal(err)
	}
	cur, _ := b.Get(b.ctx, GetParams{ToolID: tool.ID})
	b.update(t, cur.Tool, `{"code":"return 3"}`)
	if _, err := b.Rollback(b.ctx, RollbackParams{ToolID: tool.ID, Version: "1.0.0"}); err != nil {
		t.Fatal(err)
	}
	_, err = b.Execute(b.ctx, ExecuteParams{ToolID: &tool.ID})
	wantKind(t, err, fault.Denied)
	_ = u
}

func TestDeleteRevokes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tool := b.granted(t, "D")
	sh, err := b.Share(b.ctx, ShareParams{ToolID: tool.ID, Access: AccessLink})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Delete(b.ctx, ToolID{tool.ID}); err != nil {
		t.Fatal(err)
	}
	_, err = b.Execute(b.ctx, ExecuteParams{ToolID: &tool.ID})
	wantKind(t, err, fault.NotFound)
	_, err = b.ResolveShare(b.ctx, ResolveShareParams{URL: sh.URL})
	wantKind(t, err, fault.NotFound)
	if _, err := b.Restore(b.ctx, ToolID{tool.ID}); err != nil {
		t.Fatal(err)
	}
	_, err = b.Execute(b.ctx, ExecuteParams{ToolID: &tool.ID})
	if d := wantKind(t, err, fault.Denied).Details.(Denial); d.Reason != permission.ReasonNeedsApproval {
		t.Errorf("%+v", d)
	}
	if a, err := b.Audit(b.ctx, AuditParams{ToolID: &tool.ID}); err != nil || len(a.Entries) == 0 {
		t.Errorf("%+v %v", a, err)
	}
}

// The matrix: capability × profile × grant × caller.
func TestMatrix(t *testing.T) {
	testkit.SkipRaced(t, "many runs of the engine, one after the other")
	t.Parallel()
	b := setup(t)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) }))
	t.Cleanup(srv.Close)
	port := mustPort(t, srv.URL)
	file := filepath.Join(b.o.Home, "f.txt")
	if err := os.WriteFile(file, []byte("ok"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.create(t, CreateParams{Name: "Inner", Code: "return 'ok'"})
	if _, err := b.SecretSet(b.ctx, SecretSetParams{Name: "S", Value: "valuevalue", Hosts: []string{"api.example.com"}}); err != nil {
		t.Fatal(err)
	}
	uses := map[string]string{
		"state":                           "await helix.state.set('k', 'ok'); return await helix.state.get('k')",
		"tool(Inner)":                     "return await helix.tool('Inner', {})",
		"filesystem:read(" + file + ")":   "return await helix.fs.readText(" + string(lifecycle.Text(file)) + ")",
		"network:localhost(" + port + ")": "return await (await helix.fetch('http://localhost:" + port + "/')).text()",
		"secret(S)":                       "return (await helix.secret('S')).length > 10 ? 'ok' : ''",
		"network:https(api.example.com)":  "return 'ok'", // asked for before the run, whether it is used or not
		"filesystem:write":                "await helix.fs.writeText('a.txt', 'x'); return 'ok'",
	}
	for capability, code := range uses {
		for _, profile := range []Profile{Strict, Standard, Permissive} {
			tool := b.create(t, CreateParams{Code: code, Capabilities: []string{capability}, SandboxProfile: profile})
			w, err := permission.ParseWant(capability)
			if err != nil {
				t.Fatal(err)
			}
			allowed := profileAllows(profile, w.Capability)
			for _, kind := range []string{"", "agent", "skill", "schedule", "voice"} {
				c := Caller{Kind: kind, RunID: uuid.New()}
				r, err := b.ExecuteFor(b.ctx, c, ExecuteParams{ToolID: &tool.ID})
				denied := fault.Is(err, fault.Denied) || err == nil && r.ErrorClass == "host_denied"
				if !denied {
					t.Errorf("%s under %s by %q without a grant: %+v %v", capability, profile, kind, r, err)
				}
			}
			if !allowed {
				b.allow(t, tool, "always")
				if _, err := b.Execute(b.ctx, ExecuteParams{ToolID: &tool.ID}); !fault.Is(err, fault.Denied) {
					t.Errorf("%s under %s: %v", capability, profile, err)
				}
				continue
			}
			b.allow(t, tool, "session")
			r, err := b.Execute(b.ctx, ExecuteParams{ToolID: &tool.ID})
			if err != nil || string(r.Output) != `"ok"` {
				t.Errorf("%s under %s with a session grant: %+v %v", capability, profile, r, err)
			}
			elsewhere := storagetest.Ctx(t, b.db) // another session of the same user
			if r, err := b.Execute(elsewhere, ExecuteParams{ToolID: &tool.ID}); err == nil && r.Success {
				t.Errorf("%s under %s: the session grant holds in another session", capability, profile)
			}
		}
	}
}

func TestExpiredAndNarrowGrants(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tool := b.granted(t, "E")
	if err := b.db.Write(b.ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`UPDATE capability_grants SET expires_at = ?`, tx.Now)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	fresh := setupOn(t, b.db) // a service that has not cached the grant
	_, err := fresh.Execute(b.ctx, ExecuteParams{ToolID: &tool.ID})
	if d := wantKind(t, err, fault.Denied).Details.(Denial); d.Reason != permission.ReasonNeedsApproval {
		t.Errorf("%+v", d)
	}
}

func TestRefusedWhenTheAuditLogIsDown(t *testing.T) {
	t.Parallel()
	b := setup(t)
	with := b.granted(t, "W")
	without := b.create(t, CreateParams{Name: "N", Code: "return 1"})
	if err := b.db.Write(b.ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`CREATE TRIGGER full BEFORE INSERT ON audit_log BEGIN SELECT RAISE(ABORT, 'disk full'); END`)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	_, err := b.Execute(b.ctx, ExecuteParams{ToolID: &with.ID})
	wantKind(t, err, fault.Unavailable)
	r, err := b.Execute(b.ctx, ExecuteParams{ToolID: &without.ID})
	if err != nil || string(r.Output) != "1" || len(r.Warnings) == 0 {
		t.Errorf("%+v %v", r, err)
	}
}

func TestRecover(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tool := b.create(t, CreateParams{Name: "Crashed", Code: "return 1"})
	id := storage.NewID()
	if err := b.db.Write(b.ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`INSERT INTO custom_tool_runs VALUES (?, ?, ?, '{"a":1}', '1.0.0', ?, 'user', NULL, ?)`, id, tool.ID, b.db.LocalUser().ID, [32]byte{}, tx.Now)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time there is nothing to do
		if err := b.Recover(b.ctx); err != nil {
			t.Fatal(err)
		}
	}
	u := b.usage(t, tool)
	if len(u.Entries) != 1 || u.Entries[0].ID != id || u.Entries[0].Status != StatusFailure || u.Entries[0].Error != "app stopped" || string(u.Entries[0].Params) != `{"a":1}` {
		t.Fatalf("%+v", u)
	}
	if g, _ := b.Get(b.ctx, GetParams{ToolID: tool.ID}); g.Tool.UsageCount != 1 {
		t.Errorf("count %d", g.Tool.UsageCount)
	}
}

// TestKilledDuringARun starts this test binary as a child that runs an endless tool, kills it, and
// opens its database: exactly one row records the run.
func TestKilledDuringARun(t *testing.T) {
	testkit.SkipRaced(t, "a process of the test has no time for anything")
	if dir := os.Getenv("HELIX_TEST_KILL"); dir != "" {
		victim(t, dir)
		return
	}
	t.Parallel()
	engine.open(t)
	loops := 1
	if os.Getenv("HELIX_LONG") != "" {
		loops = 200
	}
	for range loops {
		killedOnce(t)
	}
}

func killedOnce(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledDuringARun$")
	cmd.Env = append(os.Environ(), "HELIX_TEST_KILL="+dir, "TMPDIR="+t.TempDir()) // the killed process cleans up nothing
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 7)
	for n := 0; n < len(buf); {
		k, err := out.Read(buf[n:])
		if err != nil {
			t.Fatalf("the child ended early: %v %q", err, buf[:n])
		}
		n += k
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	key, err := os.ReadFile(filepath.Join(dir, "key"))
	if err != nil {
		t.Fatal(err)
	}
	db := storagetest.OpenAt(t, filepath.Join(dir, "helix.db"), &storagetest.Root{Key: key})
	defer db.Close()
	b := setupOn(t, db)
	defer b.Close()
	if err := b.Recover(context.Background()); err != nil {
		t.Fatal(err)
	}
	u, err := b.Usage(b.ctx, UsageParams{})
	if err != nil || len(u.Entries) != 1 || u.Entries[0].Status != StatusFailure || u.Entries[0].Error != "app stopped" {
		t.Fatalf("%+v %v", u, err)
	}
	if l, _ := b.List(b.ctx, ListParams{}); l.Tools[0].UsageCount != 1 {
		t.Errorf("count %d", l.Tools[0].UsageCount)
	}
}

func victim(t *testing.T, dir string) {
	root := storagetest.NewRoot()
	if err := os.WriteFile(filepath.Join(dir, "key"), root.Key, 0o600); err != nil {
		t.Fatal(err)
	}
	b := setupOn(t, storagetest.OpenAt(t, filepath.Join(dir, "helix.db"), root))
	tool := b.create(t, CreateParams{Name: "Endless", Code: "for (;;) {}"})
	bus.Subscribe(b.db.Bus(), func(_ uuid.UUID, e Execution) {
		if e.State == "running" {
			_, _ = os.Stdout.WriteString("running")
		}
	})
	b.run(t, tool, "")
}

func TestManyRunsLeakNothing(t *testing.T) {
	testkit.SkipRaced(t, "many runs of the engine, one after the other")
	t.Parallel()
	if !testkit.Alone(t) {
		return
	}
	n := 100
	if os.Getenv("HELIX_LONG") != "" {
		n = 1000
	}
	b := setup(t)
	tool := b.create(t, CreateParams{Code: "console.log(params.i); return params.i"})
	b.run(t, tool, `{"i":0}`)
	runtime.GC()
	before := runtime.NumGoroutine()
	for i := range n {
		b.run(t, tool, fmt.Sprintf(`{"i":%d}`, i))
	}
	// Every leak would occur n times; pools grow by a few.
	testkit.Eventually(t, fmt.Sprintf("goroutines, %d before", before), runtime.NumGoroutine, func(now int) bool { return now <= before+n/10 })
	if len(b.running)+len(b.slots)+len(b.keys) != 0 {
		t.Error("something of the runs is still held")
	}
	if u := b.usage(t, tool); u.Summary.Runs != n+1 {
		t.Errorf("%+v", u.Summary)
	}
}

func TestPrune(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tool := b.create(t, CreateParams{Code: "return 1"})
	other := b.create(t, CreateParams{Code: "return 1"})
	if err := b.db.Write(b.ctx, func(tx *storage.Tx) error {
		for i := range 20 {
			for _, id := range []uuid.UUID{tool.ID, other.ID} {
				at := tx.Now.Add(-time.Duration(i) * 24 * time.Hour)
				if id == other.ID && i > 2 {
					continue
				}
				if _, err := tx.Exec(`INSERT INTO custom_tool_usage (id, custom_tool_id, user_id, status, timestamp, created_at, updated_at) VALUES (?, ?, ?, 'success', ?, ?, ?)`,
					storage.NewID(), id, b.db.LocalUser().ID, at, at, at); err != nil {
					return err
				}
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	pol := storage.DefaultPolicy()
	pol.HistoryAge, pol.HistoryRows = 10*24*time.Hour, 12
	// Ten of the one and three of the other are recent enough, and twelve of them are kept.
	if n := storagetest.Prune(t, b.db, storage.ServiceOptions{Policy: func() storage.Policy { return pol }, Retention: Retention()}); n != 11 {
		t.Fatalf("%d rows left", n)
	}
	if b.usage(t, tool).Summary.Runs+b.usage(t, other).Summary.Runs != 12 {
		t.Errorf("%+v %+v", b.usage(t, tool).Summary, b.usage(t, other).Summary)
	}
}

func TestFunctionsForModels(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(t, CreateParams{Name: "Text Counter", Code: "return 1", Description: "Counts."})
	b.create(t, CreateParams{Name: "Text-Counter", Code: "return 2"})
	off := b.create(t, CreateParams{Name: "Off", Code: "return 3"})
	if _, err := b.SetEnabled(b.ctx, SetEnabledParams{ToolID: off.ID}); err != nil {
		t.Fatal(err)
	}
	s := b.granted(t, "Suspended")
	b.update(t, s, `{"code":"return 1"}`)
	f, err := b.Functions(b.ctx)
	if err != nil || len(f) != 2 || f[0].Name != "tool_text_counter" || f[1].Name != "tool_text_counter_2" || f[0].Tokens == 0 {
		t.Errorf("%+v %v", f, err)
	}
}

func TestAuditSurvivesAndShowsEdits(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	dir := t.TempDir()
	root := storagetest.NewRoot()
	path := filepath.Join(dir, "helix.db")
	var tool Tool
	t.Run("first start", func(t *testing.T) {
		b := setupOn(t, storagetest.OpenAt(t, path, root))
		tool = b.create(t, CreateParams{Name: "A", Code: "return params.word"})
		b.run(t, tool, `{"word":"planted-word"}`)
	})
	b := setupOn(t, storagetest.OpenAt(t, path, root))
	a, err := b.Audit(b.ctx, AuditParams{ToolID: &tool.ID})
	if err != nil || !a.Verified || len(a.Entries) < 3 || a.Head < 3 {
		t.Fatalf("%+v %v", a, err)
	}
	if strings.Contains(string(lifecycle.Text(a)), "planted-word") {
		t.Error("contents are in the audit log")
	}
	if err := b.db.Write(b.ctx, func(tx *storage.Tx) error {
		rows, err := tx.Query(`SELECT 'DROP TRIGGER ' || name FROM sqlite_master WHERE type = 'trigger' AND tbl_name LIKE 'audit_%'`)
		if err != nil {
			return err
		}
		defer rows.Close()
		var drops []string
		for rows.Next() {
			var q string
			if err := rows.Scan(&q); err != nil {
				return err
			}
			drops = append(drops, q)
		}
		for _, q := range append(drops, `UPDATE audit_details SET details = replace(details, '1.0.0', '6.6.6')`) {
			if _, err := tx.Exec(q); err != nil {
				return err
			}
		}
		return rows.Err()
	}); err != nil {
		t.Fatal(err)
	}
	if a, err = b.Audit(b.ctx, AuditParams{ToolID: &tool.ID}); err != nil || a.Verified {
		t.Errorf("an edited entry was not noticed: %v", err)
	}
}

func TestIdentityDecidesWhoseTools(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, err := b.Execute(identity.With(context.Background(), identity.Identity{}), ExecuteParams{Code: "return 1"})
	if err == nil {
		t.Error("nobody ran a draft")
	}
	if l, err := b.List(context.Background(), ListParams{}); err != nil || l.Total != 0 {
		t.Errorf("%+v %v", l, err)
	}
}
