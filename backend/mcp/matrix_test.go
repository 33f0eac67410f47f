//go:build linux

package mcp

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/permission"
	"helix/backend/storage"
)

// The matrix of the tools' package with an MCP tool as the subject: grant × caller.
func TestPermissionMatrix(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"", "agent", "skill", "schedule", "voice", "mcp"} {
		t.Run("called by "+kind, func(t *testing.T) {
			t.Parallel()
			e := setup(t)
			e.add("files", "plain")
			granted := e.approve("files", "note").Grants
			calls := 0
			call := func(session uuid.UUID) error {
				calls++
				who, _ := identity.From(e.ctx)
				if session != uuid.Nil {
					who.Session = session
				}
				_, err := e.reg.Call(identity.With(e.ctx, who), callable.Ref{Kind: Kind, ID: "files.note"}, callable.Request{Input: json.RawMessage(`{"text":"n"}`), Caller: callable.Caller{Kind: kind, Run: uuid.New()}})
				return err
			}
			allowed := func(when string, session uuid.UUID) {
				t.Helper()
				before := e.notes()
				if err := call(session); err != nil || e.notes() != before+1 {
					t.Errorf("%s: %v, %d effects", when, err, e.notes()-before)
				}
			}
			// refused returns the question that waits, at once, for an unattended call as for any other.
			refused := func(when string, session uuid.UUID, reason callable.Reason) uuid.UUID {
				t.Helper()
				before := e.notes()
				err := call(session)
				r, _ := callable.RefusalOf(err)
				if !fault.Is(err, fault.Denied) || r.Reason != reason || e.notes() != before {
					t.Errorf("%s: %v, %+v, %d effects", when, err, r, e.notes()-before)
				}
				return r.PendingApprovalID
			}
			answer := func(id uuid.UUID, p permission.AnswerParams) {
				t.Helper()
				asked, err := e.perm.GetApproval(e.ctx, permission.GetApprovalParams{ID: id})
				if err != nil {
					t.Fatal(err)
				}
				p.ID, p.DefinitionHash = id, asked.Approval.DefinitionHash
				if _, err := e.perm.AnswerApproval(e.ctx, p); err != nil {
					t.Fatal(err)
				}
			}
			allowed("always", uuid.Nil)
			if _, err := e.perm.Revoke(e.ctx, permission.RevokeParams{GrantID: &granted[0].ID}); err != nil {
				t.Fatal(err)
			}
			id := refused("without a grant", uuid.Nil, callable.ReasonNeedsApproval)
			answer(id, permission.AnswerParams{Decision: "approve", Scope: "once"})
			allowed("once", uuid.Nil)
			id = refused("a second time", uuid.Nil, callable.ReasonNeedsApproval)
			answer(id, permission.AnswerParams{Decision: "approve", Scope: "session"})
			allowed("in the session", uuid.Nil)
			id = refused("in another session", uuid.New(), callable.ReasonNeedsApproval)
			answer(id, permission.AnswerParams{Decision: "deny", Remember: true})
			refused("denied", uuid.Nil, callable.Reason(permission.ReasonDeniedByUser))

			// Each call has an entry for the decision, and each allowed one another for its end, as tools have.
			var actions []string
			if err := e.db.Read(e.ctx, func(tx *storage.Tx) (err error) {
				actions, err = storage.Collect(tx.Select(`SELECT action || ' ' || outcome FROM audit_log WHERE subject_id = 'files.note' AND action IN (?, ?, ?) ORDER BY seq`, audit.Start, audit.Complete, audit.Error), storage.RowTo[string])
				return err
			}); err != nil {
				t.Fatal(err)
			}
			ok, no := []string{"start ok", "complete ok"}, []string{"start denied"}
			if want := slices.Concat(ok, no, ok, no, ok, no, no); !slices.Equal(actions, want) {
				t.Errorf("%d calls: %v, want %v", calls, actions, want)
			}
		})
	}
}

// Whoever calls through a token, as MCP clients do, answers no question about a call.
func TestClientsNeitherAnswerNorWidenTheirRights(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.add("files", "plain")
	if _, err := e.s.Start(e.ctx, NameParams{"files"}); err != nil {
		t.Fatal(err)
	}
	_, err := e.call("files.note", `{"text":"n"}`)
	r, _ := callable.RefusalOf(err)
	asked, err := e.perm.GetApproval(e.ctx, permission.GetApprovalParams{ID: r.PendingApprovalID})
	if err != nil {
		t.Fatal(err)
	}
	who, _ := identity.From(e.ctx)
	who.Client, who.Scopes, who.Token = identity.ClientToken, identity.Write.Closed(), uuid.New()
	client := identity.With(e.ctx, who)
	if _, err := e.perm.AnswerApproval(client, permission.AnswerParams{ID: r.PendingApprovalID, Decision: "approve", Scope: "always", DefinitionHash: asked.Approval.DefinitionHash}); !fault.Is(err, fault.Denied) {
		t.Errorf("an answer: %v", err)
	}
	s, err := e.s.GetServer(e.ctx, NameParams{"files"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.s.ApproveServer(client, ApproveParams{Name: "files", DefinitionHash: s.DefinitionHash, Tools: []string{"*"}}); !fault.Is(err, fault.Denied) {
		t.Errorf("an approval of the server's tools: %v", err)
	}
	if tool := e.tool("files.note"); tool.State != ToolNew {
		t.Errorf("%+v", tool)
	}
}
