package discovery

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/storage"
)

// Every state of a tool and of its installation, with every protocol and caller: only an active tool that is ready runs.
func TestToolRunsOnlyIfActiveAndReady(t *testing.T) {
	t.Parallel()
	e := setup(t)
	web := e.tool(true)
	mail := e.added("send-mail", "smtp://localhost:1/ada@example.com")
	e.signIn(mail, "login", "ada@example.com", "love lace")
	call := map[uuid.UUID]struct{ op, params string }{web: {"listNotes", `{}`}, mail: {"sendMail", `{"body":{"to":["grace@example.org"],"subject":"x","text":"x"}}`}}
	// "other" is an installation of another definition.
	set := func(id uuid.UUID, status, install string) {
		t.Helper()
		err := e.db.Write(e.ctx, func(tx *storage.Tx) error {
			if _, err := tx.Exec(`UPDATE tool_manifest SET status = ? WHERE id = ?`, status, id); err != nil {
				return err
			}
			state, hash := install, "(SELECT definition_hash FROM tool_manifest WHERE id = tool_id)"
			if install == "other" || status == StatusPending {
				state, hash = installReady, "zeroblob(32)"
			}
			_, err := tx.Exec(`UPDATE tool_install SET state = ?, active = ?, definition_hash = `+hash+` WHERE tool_id = ?`, state, status != StatusApproved, id)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	runs := 0
	for _, status := range []string{StatusPending, StatusApproved, StatusActive, StatusDisabled, StatusRevoked} {
		for _, install := range []string{"other", installInstalling, installReady, installFailed} {
			for id, c := range call {
				set(id, status, install)
				before := e.all.Load()
				for _, caller := range []string{"rpc", "agent", "skill", "schedule", "voice", "mcp", "cli"} {
					var err error
					if caller == "rpc" {
						_, err = e.run(id, c.op, c.params)
					} else {
						_, err = e.reg.Call(e.ctx, callable.Ref{Kind: Kind, ID: id.String() + "/" + c.op}, callable.Request{Input: []byte(c.params), Caller: callable.Caller{Kind: caller}})
					}
					ran := err == nil || id == mail && fault.Is(err, fault.Unavailable) // nothing listens on that port
					if want := status == StatusActive && install == installReady; ran != want || !ran && !fault.Is(err, fault.Denied) {
						t.Errorf("%s, %s, %s by %s: %v", c.op, status, install, caller, err)
					}
					if ran {
						runs++
					}
				}
				if status != StatusActive || install != installReady {
					if n := e.all.Load(); n != before {
						t.Errorf("%s, %s: %d requests", status, install, n-before)
					}
				}
			}
		}
	}
	if runs != 14 {
		t.Errorf("%d runs, want 14", runs)
	}
	if err := e.db.Write(e.ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`UPDATE tool_install SET approved_at = NULL WHERE tool_id = ?`, web)
		return err
	}); storage.ViolationOf(err) == "" {
		t.Errorf("the database has an installation that was never approved: %v", err)
	}
}

// Only the function after all checks sends anything: run through send and converse.
func TestOnlyRunSends(t *testing.T) {
	t.Parallel()
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	allowed := map[string][]string{"s.calls.Do": {"send"}, "s.dialer.Dial": {"dial"}, "s.send": {"run", "do"}, "s.converse": {"run", "dryRun"}, "s.run": {"Run", "Call", "try"}}
	found := map[string]bool{}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range tree.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				x, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				for name, in := range allowed {
					if strings.HasSuffix(name, "."+x.Sel.Name) && dotted(x) == name {
						found[name] = true
						if !slices.Contains(in, fn.Name.Name) {
							t.Errorf("%s uses %s; only %v may", fn.Name.Name, name, in)
						}
					}
				}
				return true
			})
		}
	}
	if len(found) != len(allowed) {
		t.Errorf("only %v are used", found)
	}
}

// dotted writes a selector without what stands before the service: c.s.send is s.send, and so is p.s.send.
func dotted(x *ast.SelectorExpr) string {
	switch v := x.X.(type) {
	case *ast.Ident:
		return v.Name + "." + x.Sel.Name
	case *ast.SelectorExpr:
		if v.Sel.Name == "s" {
			return "s." + x.Sel.Name
		}
		return dotted(v) + "." + x.Sel.Name
	}
	return x.Sel.Name
}
