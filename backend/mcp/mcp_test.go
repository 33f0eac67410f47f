//go:build linux

package mcp

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"helix/backend/audit"
	"helix/backend/bus"
	"helix/backend/callable"
	"helix/backend/callable/callabletest"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/permission"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"

	"github.com/google/uuid"
)

// env is a service on a real database with permissions.
type env struct {
	*testing.T
	s    *Service
	perm *permission.Service
	reg  *callable.Registry
	db   *storage.DB
	ctx  context.Context
	dir  string
	now  time.Time // 0: the real time
}

func setup(t *testing.T, change ...func(*Options)) *env {
	t.Helper()
	e := &env{T: t, db: storagetest.Open(t), dir: t.TempDir()}
	log := audit.New(e.db, audit.Options{})
	e.perm = permission.New(e.db, e.db.Bus(), permission.Options{Audit: log})
	o := Options{
		Gate: callable.Gate{Permission: e.perm, Record: log.RecordWith}, StateDir: e.dir, ShellPath: func() []string { return nil },
		Getenv: func(k string) string {
			return map[string]string{"PATH": os.Getenv("PATH"), "HOME": e.dir, "HELIX_KEY_PASSPHRASE": "no", "PUBLIC": "yes"}[k]
		},
		Secret: storage.NewSecrets(e.db).Value, SetSecret: storage.NewSecrets(e.db).SetTx,
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
	o.Gate.Logger = discard
	e.reg = callable.NewRegistry(e.perm)
	o.Callables = e.reg
	o.Logger = discard
	e.s = New(e.db, o)
	t.Cleanup(func() { e.s.Close() })
	e.perm.Register(string(Kind), e.s, nil)
	e.perm.RegisterAnswerer(string(Kind), e.s.AnswerApproval)
	e.reg.Add(e.s.Provider())
	who, _ := identity.From(storagetest.Ctx(t, e.db))
	who.Client, who.Scopes, who.Session = identity.ClientWindow, identity.Admin.Closed(), uuid.New()
	e.ctx = identity.With(t.Context(), who)
	return e
}

// add adds this test program as a server.
func (e *env) add(name, kind string, change ...func(*Server)) ServerResult {
	e.Helper()
	s := Server{Name: name, Command: os.Args[0], Env: map[string]string{asServer: kind, "NOTES": filepath.Join(e.dir, "notes")}, StartTimeoutMs: maxTimeoutMs, TimeoutMs: maxTimeoutMs}
	for _, f := range change {
		f(&s)
	}
	r, err := e.s.Add(e.ctx, AddParams{s})
	if err != nil {
		e.Fatal(err)
	}
	return r.Server
}

// approve starts a server and approves tools of it.
func (e *env) approve(name string, tools ...string) ApproveResult {
	e.Helper()
	if _, err := e.s.Start(e.ctx, NameParams{name}); err != nil {
		e.Fatal(err)
	}
	r, err := e.s.GetServer(e.ctx, NameParams{name})
	if err != nil {
		e.Fatal(err)
	}
	out, err := e.s.ApproveServer(e.ctx, ApproveParams{Name: name, DefinitionHash: r.DefinitionHash, Tools: tools})
	if err != nil {
		e.Fatal(err)
	}
	return out
}

func (e *env) call(id, input string) (callable.Result, error) {
	return e.reg.Call(e.ctx, callable.Ref{Kind: Kind, ID: id}, callable.Request{Input: json.RawMessage(input), Caller: callable.Caller{Kind: "skill", Label: "Test"}})
}

func (e *env) tool(id string) Tool {
	e.Helper()
	server, name, _ := cutID(id)
	r, err := e.s.ListTools(e.ctx, ToolsParams{Name: server, Query: id, Limit: 100})
	if err != nil {
		e.Fatal(err)
	}
	for _, t := range r.Tools {
		if t.Name == name {
			return t
		}
	}
	e.Fatalf("%s is not listed", id)
	return Tool{}
}

func (e *env) notes() int {
	b, _ := os.ReadFile(filepath.Join(e.dir, "notes"))
	return strings.Count(string(b), "\n")
}

func TestNewToolsCannotBeCalledUntilApproved(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.add("files", "plain")
	if _, err := e.s.Start(e.ctx, NameParams{"files"}); err != nil {
		t.Fatal(err)
	}
	if tool := e.tool("files.echo"); tool.State != ToolNew || !tool.Hints.ReadOnly || tool.Tier != "side_effecting" || tool.Function != "mcp_files_echo" {
		t.Errorf("%+v", tool)
	}
	_, err := e.call("files.echo", `{"text":"hello"}`)
	if r, ok := callable.RefusalOf(err); !ok || r.Reason != callable.ReasonNeedsApproval || r.PendingApprovalID == uuid.Nil {
		t.Fatalf("%v, %+v", err, r)
	}
	if got := e.approve("files", "echo"); len(got.Grants) != 1 || got.Grants[0].Resource != "files.echo" {
		t.Errorf("%+v", got)
	}
	out, err := e.call("files.echo", `{"text":"hello"}`)
	if err != nil || string(out.Output) != `{"text":"hello"}` || !out.Untrusted {
		t.Fatalf("%s, %v", out.Output, err)
	}
	if _, err := e.call("files.fail", `{}`); !fault.Is(err, fault.Denied) {
		t.Errorf("a tool that was not chosen: %v", err)
	}
}

func TestApprovalInApprovalsCounts(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.add("files", "plain")
	if _, err := e.s.Start(e.ctx, NameParams{"files"}); err != nil {
		t.Fatal(err)
	}
	_, err := e.call("files.echo", `{"text":"a"}`)
	r, _ := callable.RefusalOf(err)
	asked, err := e.perm.GetApproval(e.ctx, permission.GetApprovalParams{ID: r.PendingApprovalID})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.perm.AnswerApproval(e.ctx, permission.AnswerParams{ID: r.PendingApprovalID, Decision: "approve", Scope: "always", DefinitionHash: asked.Approval.DefinitionHash}); err != nil {
		t.Fatal(err)
	}
	if tool := e.tool("files.echo"); tool.State != ToolApproved {
		t.Errorf("%+v", tool)
	}
	_, err = e.call("files.echo", `{"text":"a"}`)
	if r, ok := callable.RefusalOf(err); err != nil && (!ok || r.Reason != callable.ReasonNeedsApproval) {
		t.Errorf("%v", err) // the definition is approved; the capability may still be asked for
	}
}

func TestProviderConformance(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.add("files", "plain")
	e.approve("files", "*")
	begun := make(chan struct{}, 1)
	defer bus.Subscribe(e.db.Bus(), func(uuid.UUID, Progress) { begun <- struct{}{} })()
	run := storage.NewID()
	nothing, err := e.perm.Begin(e.ctx, nil, permission.Subject{Kind: string(Kind), ID: "files", DefinitionHash: e.hash("files")}, run)
	if err != nil {
		t.Fatal(err)
	}
	note := callabletest.Case{ID: "files.note", Input: `{"text":"n"}`}
	callabletest.Run(t, callabletest.Harness{
		Ctx: e.ctx, Registry: e.reg, Kind: Kind, Good: callabletest.Case{ID: "files.echo", Input: `{"text":"a"}`}, Bad: `{"text":1}`,
		Acts: &note, Effects: e.notes, Needs: &note, Nothing: nothing, Permission: e.perm, Outside: &callabletest.Case{ID: "files.echo", Input: `{"text":"a"}`},
		Slow: &callabletest.Case{ID: "files.wait", Input: `{}`}, Begun: begun,
		Audited: func() (n int) {
			if err := e.db.Read(e.ctx, func(tx *storage.Tx) error { return tx.QueryRow(`SELECT count(*) FROM audit_log`).Scan(&n) }); err != nil {
				t.Fatal(err)
			}
			return n
		},
	})
}

func (e *env) hash(name string) [32]byte {
	r, err := e.s.row(e.ctx, name)
	if err != nil {
		e.Fatal(err)
	}
	return r.hash
}
