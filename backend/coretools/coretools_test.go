package coretools

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"helix/backend/audit"
	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/permission"
	"helix/backend/schema"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helix/backend/testkit"
)

func TestMain(m *testing.M) {
	os.Exit(testkit.Run(m, goleak.IgnoreTopFunction("database/sql.(*DB).connectionOpener")))
}

// env provides the tools on a real database with permissions. home contains files of the user, data
// is Helix's own folder.
type env struct {
	*testing.T
	s          *Service
	set        *callable.Set
	perm       *permission.Service
	db         *storage.DB
	ctx        context.Context
	home, data string
	now        time.Time // 0: the real time
}

func setup(t *testing.T, change ...func(*Options)) *env {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err == nil && strings.HasPrefix(base, "/tmp/") { // in calls /tmp is that of the workspace
		if base, err = os.MkdirTemp("/var/tmp", "helix-coretools-"); err == nil {
			t.Cleanup(func() { os.RemoveAll(base) })
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	e := &env{T: t, db: storagetest.Open(t), home: filepath.Join(base, "home"), data: filepath.Join(base, "data")}
	for _, dir := range []string{e.home, e.data} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	log := audit.New(e.db, audit.Options{})
	dir := filepath.Join(e.data, "workspaces")
	e.perm = permission.New(e.db, e.db.Bus(), permission.Options{
		Audit: log, Home: e.home, Own: []string{e.data}, StateDir: func(s permission.Subject) string { return VaultFolder(dir, s) },
	})
	o := Options{
		DB: e.db, Gate: callable.Gate{Permission: e.perm, Record: log.RecordWith}, Dir: dir, Own: []string{e.data},
		Now: func() time.Time {
			if e.now.IsZero() {
				return time.Now()
			}
			return e.now
		},
	}
	for _, f := range change {
		f(&o)
	}
	o.Gate.Logger = cmp.Or(o.Logger, o.Gate.Logger)
	e.s = New(o)
	t.Cleanup(func() { e.s.Close() })
	e.perm.Register(string(callable.Builtin), e.s.Subjects(), nil)
	e.set = callable.NewSet(callable.Builtin, log.Record)
	e.set.Add(e.s.Callables()...)
	e.ctx = storagetest.Ctx(t, e.db)
	return e
}

// call makes one call with the input v and decodes its output.
func (e *env) call(name string, v any, change ...func(*callable.Request)) (map[string]any, error) {
	e.Helper()
	input, err := json.Marshal(v)
	if err != nil {
		e.Fatal(err)
	}
	r := callable.Request{Input: input, Caller: callable.Caller{Kind: "agent", Label: "Test", Run: uuid.MustParse("01999999-0000-7000-8000-000000000001")}}
	for _, f := range change {
		f(&r)
	}
	info, err := e.set.Find(e.ctx, name, "")
	if err != nil || len(info) != 1 {
		e.Fatalf("%s: %v %v", name, info, err)
	}
	out, err := e.set.Call(e.ctx, callable.Ref{Kind: callable.Builtin, ID: name}, r)
	if err != nil {
		return nil, err
	}
	if found, err := schema.CheckJSON(e.ctx, info[0].Output, out.Output); err != nil || len(found) > 0 {
		e.Errorf("%s gave %s, which breaks its own schema: %v %v", name, out.Output, found, err)
	}
	var got map[string]any
	if err := json.Unmarshal(out.Output, &got); err != nil {
		e.Fatal(err)
	}
	return got, nil
}

type in = map[string]any

func (e *env) must(name string, v any, change ...func(*callable.Request)) map[string]any {
	e.Helper()
	out, err := e.call(name, v, change...)
	if err != nil {
		e.Fatalf("%s %v: %v", name, v, err)
	}
	return out
}

// fails checks that a call fails with an error of a kind.
func (e *env) fails(kind fault.Kind, name string, v any, change ...func(*callable.Request)) error {
	e.Helper()
	out, err := e.call(name, v, change...)
	if !fault.Is(err, kind) {
		e.Errorf("%s %v: %v, %v; want %s", name, v, out, err, kind)
	}
	return err
}

// answer answers the one open question.
func (e *env) answer(decision, scope string) permission.Approval {
	e.Helper()
	open, err := e.perm.ListApprovals(e.ctx, permission.ListApprovalsParams{})
	if err != nil || len(open.Approvals) != 1 {
		e.Fatalf("open questions: %+v, %v", open.Approvals, err)
	}
	a := open.Approvals[0]
	if _, err := e.perm.AnswerApproval(e.ctx, permission.AnswerParams{ID: a.ID, Decision: decision, DefinitionHash: a.DefinitionHash, Scope: scope, Remember: decision == "deny"}); err != nil {
		e.Fatal(err)
	}
	return a
}

// asks checks that a call is refused with a question, and answers it.
func (e *env) asks(name string, v any, scope string) permission.Approval {
	e.Helper()
	err := e.fails(fault.Denied, name, v)
	if r, ok := callable.RefusalOf(err); !ok || r.Reason != callable.ReasonNeedsApproval || r.PendingApprovalID == uuid.Nil {
		e.Fatalf("%s %v: %v %+v", name, v, err, r)
	}
	return e.answer("approve", scope)
}

// never checks that a call is refused without a question.
func (e *env) never(name string, v any) {
	e.Helper()
	if r, ok := callable.RefusalOf(e.fails(fault.Denied, name, v)); !ok || r.Reason != permission.ReasonNever {
		e.Errorf("%s %v: %+v", name, v, r)
	}
}

func (e *env) file(path, text string) string {
	e.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		e.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		e.Fatal(err)
	}
	return path
}

// in returns a path on this computer in the user's workspace.
func (e *env) in(parts ...string) string {
	e.Helper()
	w, err := e.s.workspace(e.ctx)
	if err != nil {
		e.Fatal(err)
	}
	return filepath.Join(append([]string{w.dir}, parts...)...)
}

func (e *env) undo(token any) (Undone, error) {
	text, _ := token.(string)
	return e.s.Undo(e.ctx, UndoParams{Token: text})
}

func TestDescriptionsAndSchemas(t *testing.T) {
	t.Parallel()
	e := setup(t, func(o *Options) { o.Search = "https://search.example" })
	want := []string{"file.delete", "file.edit", "file.list", "file.read", "file.search", "file.write", "vault.copyto", "web.fetch", "web.search"}
	list, err := e.set.List(e.ctx)
	if err != nil || len(list) != len(want) {
		t.Fatalf("%d tools, %v", len(list), err)
	}
	for n, i := range list {
		if i.Name != want[n] || i.Title == "" || len(i.Description) < 60 {
			t.Errorf("%+v", i)
		}
		for _, raw := range []json.RawMessage{i.Input, i.Output} {
			if found, err := schema.CheckJSON(e.ctx, raw, json.RawMessage(`"not an object"`)); err != nil || len(found) == 0 {
				t.Errorf("%s: %s: %v %v", i.Name, raw, found, err)
			}
		}
	}
	if list, err := setup(t).set.Find(e.ctx, "web.search", ""); err != nil || len(list) != 0 {
		t.Errorf("without an engine: %+v, %v", list, err)
	}
}
