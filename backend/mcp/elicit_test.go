//go:build linux

package mcp

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/permission"
	"helix/backend/testkit"
)

// asked returns the open questions of MCP calls.
func (e *env) asked() []permission.Approval {
	e.Helper()
	r, err := e.perm.ListApprovals(e.ctx, permission.ListApprovalsParams{Status: "pending", Limit: 50})
	if err != nil {
		e.Fatal(err)
	}
	out := r.Approvals[:0]
	for _, a := range r.Approvals {
		if a.Question != nil {
			out = append(out, a)
		}
	}
	return out
}

type called struct {
	out callable.Result
	err error
}

// askThrough starts a call that asks for a name, and returns its question and its end.
func (e *env) askThrough(attended bool) (*permission.Approval, <-chan called) {
	e.Helper()
	end := make(chan called, 1)
	go func() {
		out, err := e.reg.Call(e.ctx, callable.Ref{Kind: Kind, ID: "files.ask"}, callable.Request{Input: json.RawMessage(`{}`), Caller: callable.Caller{Kind: "skill", Attended: attended}})
		end <- called{out, err}
	}()
	if !attended {
		return nil, end
	}
	list := testkit.Eventually(e, "the question", e.asked, func(l []permission.Approval) bool { return len(l) == 1 })
	return &list[0], end
}

func (e *env) answer(a *permission.Approval, decision, data string) error {
	_, err := e.perm.AnswerApproval(e.ctx, permission.AnswerParams{ID: a.ID, Decision: decision, DefinitionHash: a.DefinitionHash, Data: json.RawMessage(data)})
	return err
}

func TestServerAsksThePersonOfTheCall(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"", legacyProtocol} {
		t.Run("protocol "+protocol, func(t *testing.T) {
			t.Parallel()
			e := setup(t)
			e.add("files", "plain")
			e.approve("files", "ask")
			if protocol != "" { // as after an earlier start
				if _, err := e.s.Stop(e.ctx, NameParams{"files"}); err != nil {
					t.Fatal(err)
				}
				e.setProtocol(protocol)
			}
			q, end := e.askThrough(true)
			if q.Question.Message != "The server says: What is your name?" || !strings.Contains(string(q.Question.Form), "minLength") || q.Subject.ID != "files.ask" {
				t.Errorf("%+v", q.Question)
			}
			if err := e.answer(q, "approve", `{"name":"A"}`); !fault.Is(err, fault.Invalid) {
				t.Errorf("an answer against the form: %v", err)
			}
			if err := e.answer(q, "approve", `{"name":"Ada"}`); err != nil {
				t.Fatal(err)
			}
			if r := <-end; r.err != nil || string(r.out.Output) != `"accept Ada"` {
				t.Errorf("%s, %v", r.out.Output, r.err)
			}
			q, end = e.askThrough(true)
			if err := e.answer(q, "deny", ""); err != nil {
				t.Fatal(err)
			}
			if r := <-end; r.err != nil || string(r.out.Output) != `"decline \u003cnil\u003e"` && string(r.out.Output) != `"decline <nil>"` {
				t.Errorf("%s, %v", r.out.Output, r.err)
			}
			if left := e.asked(); len(left) != 0 {
				t.Errorf("open: %+v", left)
			}
		})
	}
}

func TestQuestionOfAnUnattendedCallIsDeclined(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.add("files", "plain")
	e.approve("files", "ask")
	_, end := e.askThrough(false)
	if r := <-end; r.err != nil || !strings.Contains(string(r.out.Output), "decline") || len(e.asked()) != 0 {
		t.Errorf("%s, %v, %d questions", r.out.Output, r.err, len(e.asked()))
	}
}

func TestQuestionEndsWithItsCall(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.add("files", "plain")
	e.approve("files", "ask")
	q, end := e.askThrough(true)
	if _, err := e.s.Stop(e.ctx, NameParams{"files"}); err != nil {
		t.Fatal(err)
	}
	if r := <-end; r.err == nil {
		t.Errorf("the call of a stopped server succeeded: %s", r.out.Output)
	}
	testkit.Eventually(t, "the end of the question", e.asked, func(l []permission.Approval) bool { return len(l) == 0 })
	if err := e.answer(q, "approve", `{"name":"Ada"}`); !fault.Is(err, fault.Conflict) {
		t.Errorf("a late answer: %v", err)
	}
}

// setProtocol stores what a server spoke when it last started.
func (e *env) setProtocol(version string) {
	e.Helper()
	if err := e.s.db.Write(e.ctx, setProtocolTx(version)); err != nil {
		e.Fatal(err)
	}
}

func TestEveryProtocolVersionIsSpoken(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"} {
		for _, transport := range []string{Stdio, HTTP} {
			t.Run(version+" over "+transport, func(t *testing.T) {
				t.Parallel()
				entry := func(*Server) {}
				if transport == HTTP {
					server := httptest.NewServer(versionHandler(version))
					t.Cleanup(server.Close)
					entry = func(s *Server) { s.Command, s.Env, s.URL = "", nil, server.URL }
				}
				e := setup(t) // it is closed before the server, which waits for its clients
				e.add("files", "version:"+version, entry)
				e.approve("files", "echo")
				r, err := e.s.GetServer(e.ctx, NameParams{"files"})
				if err != nil || r.Protocol != version {
					t.Fatalf("spoke %q: %v", r.Protocol, err)
				}
				for range 2 { // the second start already knows the version
					if out, err := e.call("files.echo", `{"text":"hi"}`); err != nil || string(out.Output) != `"hi"` {
						t.Fatalf("%s, %v", out.Output, err)
					}
					if _, err := e.call("files.echo", `{"text":1}`); !fault.Is(err, fault.Invalid) {
						t.Errorf("invalid arguments: %v", err)
					}
					if r, err := e.s.Test(e.ctx, NameParams{"files"}); err != nil || !r.OK {
						t.Errorf("%+v, %v", r, err)
					}
					if _, err := e.s.Restart(e.ctx, NameParams{"files"}); err != nil {
						t.Fatal(err)
					}
				}
			})
		}
	}
}
