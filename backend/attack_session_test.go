package backend

import (
	"encoding/json"
	"testing"
	"time"

	"helix/backend/gateway"
	"helix/backend/permission"
	"helix/backend/tools"
)

// TestSessionRightsEndWithTheSession grants something for one session over a real socket: another
// session of the same person does not have it, and it ends when the socket is closed.
func TestSessionRightsEndWithTheSession(t *testing.T) {
	t.Parallel()
	a := attack(t)
	dial := func() *gateway.Client {
		c, err := gateway.Dial(t.Context(), gateway.ClientOptions{URL: a.Gateway.URL(), Token: a.root, Client: gateway.ClientInfo{ID: "test"}, Scopes: []string{"admin"}})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	tool := a.tool(t, tools.CreateParams{Name: "Keeper", Code: "await helix.state.set('a', 1); return 7", Capabilities: []string{"state(1KiB)"}})
	one, other := dial(), dial()
	defer other.Close()
	runs := func(c *gateway.Client) bool {
		var r struct{ Success bool }
		return c.Call(t.Context(), "tools.execute", map[string]any{"toolId": tool}, &r) == nil && r.Success
	}
	if runs(one) {
		t.Fatal("it ran without a right")
	}
	var l permission.ListApprovalsResult
	if err := one.Call(t.Context(), "approvals.list", map[string]any{"subjectId": tool}, &l); err != nil || len(l.Approvals) != 1 {
		t.Fatalf("%+v %v", l, err)
	}
	var answer json.RawMessage
	if err := one.Call(t.Context(), "approvals.decide", map[string]any{"id": l.Approvals[0].ID, "decision": "approve", "scope": "session", "definitionHash": l.Approvals[0].DefinitionHash}, &answer); err != nil {
		t.Fatal(err)
	}
	if !runs(one) {
		t.Fatal("the right does not hold in its session")
	}
	if runs(other) {
		t.Error("another session has the right")
	}
	one.Close()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		g, err := a.Permission.List(a.as(a.LocalUser()), permission.ListParams{SubjectID: tool.String(), State: "expired"})
		if err != nil {
			t.Fatal(err)
		}
		if g.Total == 1 {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatal("the right outlived its session")
		}
	}
}
