package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/lifecycle"
	"helix/backend/permission"
	"helix/backend/storage"
)

func (b *bundle) usage(t testing.TB, tool Tool) UsageResult {
	t.Helper()
	u, err := b.Usage(b.ctx, UsageParams{ToolID: &tool.ID, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestResultsOfRuns(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, c := range []struct {
		name, code, params, output, class, status string
	}{
		{"value", "return {a: params.x * 2}", `{"x":21}`, `{"a":42}`, "", "success"},
		{"nothing", "const a = 1;", "", "null", "", "success"},
		{"zero", "return 0", "", "0", "", "success"},
		{"false", "return false", "", "false", "", "success"},
		{"empty text", `return ""`, "", `""`, "", "success"},
		{"throws", "throw new Error('it broke: ' + params.a)", `{"a":7}`, "null", "thrown", "failure"},
		{"not JSON", "return () => 1", "", "null", "output", "failure"},
		{"denied inside", "return await helix.fetch('https://api.example.com/')", "", "null", "host_denied", "failure"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tool := b.create(t, CreateParams{Code: c.code})
			r := b.run(t, tool, c.params)
			if string(r.Output) != c.output || r.ErrorClass != c.class || r.Success != (c.class == "") {
				t.Fatalf("%s %q %q", r.Output, r.ErrorClass, r.Error)
			}
			u := b.usage(t, tool)
			if len(u.Entries) != 1 || string(u.Entries[0].Status) != c.status || u.Entries[0].ErrorClass != c.class || u.Entries[0].ID != r.ExecutionID {
				t.Fatalf("usage %+v", u)
			}
			if c.name == "throws" && (!strings.Contains(r.Error, "it broke: 7") || !strings.Contains(u.Entries[0].Error, "it broke: 7") || !strings.Contains(r.ErrorStack, "tool.js:1")) {
				t.Errorf("error %q stack %q row %q", r.Error, r.ErrorStack, u.Entries[0].Error)
			}
			first, last := r.AuditLog[0], r.AuditLog[len(r.AuditLog)-1]
			if first.Action != "start" || c.class == "" && last.Action != "complete" || c.class != "" && last.Action != "error" {
				t.Errorf("audit log %+v", r.AuditLog)
			}
		})
	}
}

func TestTimeoutRow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tool := b.create(t, CreateParams{Code: "const a = new Array(1e5).fill(1); for (;;) { a[0]++ }", Limits: &Limits{WallMs: 1000}})
	r := b.run(t, tool, "")
	if r.Success || r.ErrorClass != "timeout" && r.ErrorClass != "cpu" {
		t.Fatalf("%+v", r)
	}
	e := b.usage(t, tool).Entries[0]
	if e.Status != StatusTimeout || e.MemoryUsedMb <= 0 || e.ExecutionTimeMs < 100 {
		t.Errorf("row %+v", e)
	}
	if s := b.usage(t, tool).Summary; s.Runs != 1 || s.Timeout != 1 {
		t.Errorf("summary %+v", s)
	}
}

func TestRefusalsBeforeTheRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tool := b.create(t, CreateParams{Code: "return 1", Parameters: json.RawMessage(`{"type":"object","required":["a"],"properties":{"a":{"type":"integer"}},"additionalProperties":false}`)})
	for _, p := range []ExecuteParams{
		{}, {Code: "  "}, {ToolID: &tool.ID, Code: "return 2"}, {ToolID: &tool.ID, Draft: &Draft{}}, {ToolID: &tool.ID, Metadata: &RunMetadata{Name: "x"}},
		{Code: "return 1", Version: "1.0.0"}, {Code: "return ("}, {Code: "return 1", Draft: &Draft{Capabilities: []string{"env:read"}}},
	} {
		_, err := b.Execute(b.ctx, p)
		wantKind(t, err, fault.Invalid)
	}
	for params, n := range map[string]int{`{}`: 1, `{"a":"x"}`: 1, `{"a":1,"b":2,"c":3}`: 2, `[1]`: 1, `{"a":1,"a":2}`: 1} {
		_, err := b.Execute(b.ctx, ExecuteParams{ToolID: &tool.ID, Params: json.RawMessage(params)})
		f := wantKind(t, err, fault.Invalid)
		if d, ok := f.Details.(ParamErrors); !ok || len(d.Errors) != n {
			t.Errorf("%s: details %+v", params, f.Details)
		}
	}
	if _, err := b.SetEnabled(b.ctx, SetEnabledParams{ToolID: tool.ID}); err != nil {
		t.Fatal(err)
	}
	_, err := b.Execute(b.ctx, ExecuteParams{ToolID: &tool.ID, Params: json.RawMessage(`{"a":1}`)})
	if f := wantKind(t, err, fault.Denied); f.Details.(Denial).Reason != "disabled" {
		t.Errorf("%+v", f.Details)
	}
	if u := b.usage(t, tool); len(u.Entries) != 0 {
		t.Errorf("refused calls left rows: %+v", u)
	}
	a, err := b.Audit(b.ctx, AuditParams{ToolID: &tool.ID})
	if err != nil || !a.Verified {
		t.Fatalf("audit %+v, %v", a, err)
	}
	errors := 0
	for _, e := range a.Entries {
		if e.Action == "error" {
			errors++
		}
	}
	if errors != 5 {
		t.Errorf("%d entries for refused parameters, want 5", errors)
	}
}

func TestParallelRunsAreAllCounted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tool := b.create(t, CreateParams{Code: "return params.i"})
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			r, err := b.Execute(b.ctx, ExecuteParams{ToolID: &tool.ID, Params: json.RawMessage(fmt.Sprintf(`{"i":%d}`, i))})
			if err != nil || string(r.Output) != itoa(i) {
				t.Errorf("run %d: %s %v", i, r.Output, err)
			}
		})
	}
	wg.Wait()
	g, err := b.Get(b.ctx, GetParams{ToolID: tool.ID})
	if err != nil || g.Tool.UsageCount != 50 || g.Tool.LastUsed == nil {
		t.Errorf("count %d, %v", g.Tool.UsageCount, err)
	}
	if u := b.usage(t, tool); u.Summary.Runs != 50 || u.Summary.Success != 50 {
		t.Errorf("summary %+v", u.Summary)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.running) != 0 || len(b.slots) != 0 {
		t.Errorf("left behind: %d runs, %d slots", len(b.running), len(b.slots))
	}
}

func TestTooManyRuns(t *testing.T) {
	t.Parallel()
	b := setup(t, func(o *Options) { o.Parallel, o.MaxWaiting = 1, 1 })
	tool := b.create(t, CreateParams{Code: "await new Promise(r => setTimeout(r, 20000)); return 1"})
	states := make(chan Execution, 100)
	cancel := bus.Subscribe(b.db.Bus(), func(_ uuid.UUID, e Execution) { states <- e })
	defer cancel()
	var wg sync.WaitGroup
	ids := []uuid.UUID{}
	for i := range 2 {
		wg.Go(func() {
			r, err := b.Execute(b.ctx, ExecuteParams{ToolID: &tool.ID})
			if i == 0 && (err != nil || r.ErrorClass != "canceled") || i == 1 && !fault.Is(err, fault.Canceled) {
				t.Errorf("run %d: %+v %v", i, r, err)
			}
		})
		want := []string{"running", "queued"}[i]
		e := <-states
		if e.State != want || e.Seq != 1 {
			t.Errorf("event %+v, want %s", e, want)
		}
		ids = append(ids, e.ExecutionID)
	}
	_, err := b.Execute(b.ctx, ExecuteParams{ToolID: &tool.ID})
	if f := wantKind(t, err, fault.Limit); f.Details.(TooMany) != (TooMany{1, 1}) {
		t.Errorf("%+v", f.Details)
	}
	for _, id := range []uuid.UUID{ids[1], ids[0]} {
		if c, err := b.Cancel(b.ctx, CancelParams{ExecutionID: id}); err != nil || !c.Canceled {
			t.Errorf("cancel: %+v %v", c, err)
		}
	}
	wg.Wait()
	if c, err := b.Cancel(b.ctx, CancelParams{ExecutionID: ids[0]}); err != nil || c.Canceled {
		t.Errorf("cancel of a finished run: %+v %v", c, err)
	}
	u := b.usage(t, tool)
	if len(u.Entries) != 1 || u.Entries[0].ErrorClass != "canceled" || u.Entries[0].Status != StatusFailure {
		t.Errorf("rows %+v", u.Entries)
	}
}

func TestDraftRunsLeaveNoRow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r, err := b.Execute(b.ctx, ExecuteParams{
		Code: "return {p: params.a, n: skillName, v: skillVersion, by: skillAuthor}", Params: json.RawMessage(`{"a":1}`),
		Metadata: &RunMetadata{Name: "Try", Version: "0.1.0", Author: "me"}, Draft: &Draft{Parameters: json.RawMessage(`{"type":"object","required":["a"]}`)},
	})
	if err != nil || !r.Success || !r.Draft || string(r.Output) != `{"p":1,"n":"Try","v":"0.1.0","by":"me"}` {
		t.Fatalf("%+v %v", r, err)
	}
	u, err := b.Usage(b.ctx, UsageParams{})
	if err != nil || len(u.Entries) != 0 {
		t.Errorf("rows %+v %v", u, err)
	}
	a, err := b.Audit(b.ctx, AuditParams{ExecutionID: &r.ExecutionID})
	if err != nil || len(a.Entries) != 2 {
		t.Fatalf("%+v %v", a, err)
	}
	for _, e := range a.Entries {
		var d struct{ Draft bool }
		if json.Unmarshal(e.Details, &d) != nil || !d.Draft {
			t.Errorf("an entry is not marked as draft: %s", e.Details)
		}
	}
}

// A draft that needs a permission: only the scopes once and run are possible, and the answer restarts it.
func TestDraftApproval(t *testing.T) {
	t.Parallel()
	b := setup(t)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) }))
	t.Cleanup(srv.Close)
	port := mustPort(t, srv.URL)
	ended := b.ends()
	_, err := b.Execute(b.ctx, ExecuteParams{
		Code: "return await (await helix.fetch('http://localhost:" + port + "/')).text()", Draft: &Draft{Capabilities: []string{"network:localhost(" + port + ")"}},
	})
	f := wantKind(t, err, fault.Denied)
	den := f.Details.(Denial)
	if den.Reason != permission.ReasonNeedsApproval || den.PendingApprovalID == nil || den.Capability != "network:localhost" || den.Resource != port {
		t.Fatalf("%+v", den)
	}
	g, err := b.perm.GetApproval(b.ctx, permission.GetApprovalParams{ID: *den.PendingApprovalID})
	if err != nil || strings.Join(g.Scopes, ",") != "once,run" {
		t.Fatalf("scopes %v, %v", g.Scopes, err)
	}
	a, err := b.perm.AnswerApproval(b.ctx, permission.AnswerParams{ID: g.ID, Decision: "approve", DefinitionHash: g.DefinitionHash, Scope: "run", Rerun: true})
	if err != nil || a.RunID == nil {
		t.Fatalf("%+v %v", a, err)
	}
	if e := <-ended; e.ExecutionID != *a.RunID || e.State != "success" {
		t.Fatalf("%+v, run %v", e, a.RunID)
	}
}

// ends returns a channel with the last event of each run.
func (b *bundle) ends() chan Execution {
	ch := make(chan Execution, 1000)
	bus.Subscribe(b.db.Bus(), func(_ uuid.UUID, e Execution) {
		switch e.State {
		case "success", "failure", "timeout", "canceled":
			ch <- e
		}
	})
	return ch
}

func TestUnattendedDenialThenApprovalRerunsOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	hits := make(chan struct{}, 10)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { hits <- struct{}{}; _, _ = w.Write([]byte("ok")) }))
	t.Cleanup(srv.Close)
	port := mustPort(t, srv.URL)
	tool := b.create(t, CreateParams{Code: "const r = await helix.fetch(params.url); return await r.text()", Capabilities: []string{"network:localhost(" + port + ")"}})
	ended := b.ends()
	p := ExecuteParams{ToolID: &tool.ID, Params: json.RawMessage(`{"url":"http://localhost:` + port + `/x"}`), IdempotencyKey: "k1"}
	_, err := b.Execute(b.ctx, p)
	den := wantKind(t, err, fault.Denied).Details.(Denial)
	if e := <-ended; e.State != "failure" {
		t.Errorf("%+v", e)
	}
	u := b.usage(t, tool)
	if len(u.Entries) != 1 || u.Entries[0].ErrorClass != "host_denied" || u.Entries[0].ID != *den.ExecutionID || len(hits) != 0 {
		t.Fatalf("after the denial: %+v", u.Entries)
	}
	g, err := b.perm.GetApproval(b.ctx, permission.GetApprovalParams{ID: *den.PendingApprovalID})
	if err != nil {
		t.Fatal(err)
	}
	a, err := b.perm.AnswerApproval(b.ctx, permission.AnswerParams{ID: g.ID, Decision: "approve", DefinitionHash: g.DefinitionHash, Scope: "once", Rerun: true})
	if err != nil || a.RunID == nil {
		t.Fatalf("%+v %v", a, err)
	}
	if e := <-ended; e.State != "success" || e.ExecutionID != *a.RunID {
		t.Fatalf("%+v", e)
	}
	if err := b.Close(); err != nil { // the result for the key is stored after the last event
		t.Fatal(err)
	}
	if len(hits) != 1 || b.usage(t, tool).Summary.Runs != 2 {
		t.Errorf("%d requests, %+v", len(hits), b.usage(t, tool).Summary)
	}
	r, err := b.Execute(b.ctx, p) // the key returns the result of the restarted run
	if err != nil || r.ExecutionID != *a.RunID || string(r.Output) != `"ok"` || len(hits) != 1 {
		t.Errorf("repeat: %+v %v", r, err)
	}
}

func TestInteractiveRunWaitsForTheAnswer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tool := b.create(t, CreateParams{Code: "await helix.state.set('a', 1); return await helix.state.get('a')", Capabilities: []string{"state"}})
	for _, scope := range []string{"once", "run"} {
		asked := make(chan uuid.UUID, 10)
		cancel := bus.Subscribe(b.db.Bus(), func(_ uuid.UUID, e permission.ApprovalChanged) {
			if e.Status == "pending" {
				asked <- e.ID
			}
		})
		done := make(chan struct{})
		go func() {
			defer close(done)
			r, err := b.Execute(b.ctx, ExecuteParams{ToolID: &tool.ID, Interactive: true})
			if scope == "run" && (err != nil || string(r.Output) != "1") {
				t.Errorf("run: %+v %v", r, err)
			}
			if scope == "once" && (err != nil || !r.Success && r.ErrorClass != "host_denied") { // one use, two calls: the second asks again
				t.Errorf("once: %+v %v", r, err)
			}
		}()
		answer := func(id uuid.UUID, decision string) {
			g, err := b.perm.GetApproval(b.ctx, permission.GetApprovalParams{ID: id})
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := b.perm.AnswerApproval(b.ctx, permission.AnswerParams{ID: id, Decision: decision, DefinitionHash: g.DefinitionHash, Scope: scope}); err != nil {
				t.Error(err)
			}
		}
		answer(<-asked, "approve")
		if scope == "once" {
			answer(<-asked, "deny")
		}
		<-done
		cancel()
	}
}

func TestIdempotency(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tool := b.create(t, CreateParams{Code: "return Math.random()"})
	p := ExecuteParams{ToolID: &tool.ID, IdempotencyKey: "a", Params: json.RawMessage(`{"x":1}`)}
	one, err := b.Execute(b.ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	two, err := b.Execute(b.ctx, p)
	if err != nil || string(two.Output) != string(one.Output) || two.ExecutionID != one.ExecutionID {
		t.Errorf("%+v %v", two, err)
	}
	p.Params = json.RawMessage(`{"x":2}`)
	_, err = b.Execute(b.ctx, p)
	wantKind(t, err, fault.Conflict)
	if u := b.usage(t, tool); u.Summary.Runs != 1 {
		t.Errorf("%+v", u.Summary)
	}
}

func TestNestedTools(t *testing.T) {
	t.Parallel()
	b := setup(t)
	call := func(name string) string { return "return await helix.tool('" + name + "', {n: (params.n ?? 0) + 1})" }
	leaf := b.create(t, CreateParams{Name: "Leaf", Code: "return params.n"})
	names := []string{"Leaf", "L1", "L2", "L3", "L4"}
	tools := []Tool{leaf}
	for i := 1; i < len(names); i++ {
		tools = append(tools, b.create(t, CreateParams{Name: names[i], Code: call(names[i-1]), Capabilities: []string{"tool(" + names[i-1] + ")"}}))
	}
	grantAll := func(tool Tool) {
		_, err := b.Execute(b.ctx, ExecuteParams{ToolID: &tool.ID})
		wantKind(t, err, fault.Denied)
		b.allow(t, tool, "always")
	}
	for _, tool := range tools[1:] {
		grantAll(tool)
	}
	// A tool lends only what it holds: the middle one needs the capability of the innermost one too.
	r := b.run(t, tools[1], "")
	if string(r.Output) != "1" {
		t.Fatalf("one level: %+v", r)
	}
	r = b.run(t, tools[2], "")
	if r.Success || r.ErrorClass != "host_denied" {
		t.Fatalf("L2 lent what it does not hold: %+v", r)
	}
	// If all levels declare the capabilities of those below and are granted them, three levels
	// work; five are too deep.
	for i := 2; i < len(tools); i++ {
		caps := []string{}
		for j := range i {
			caps = append(caps, "tool("+names[j]+")")
		}
		u := b.update(t, tools[i], `{"capabilities":`+string(lifecycle.Text(caps))+`}`)
		tools[i] = u.Tool
		_, err := b.Execute(b.ctx, ExecuteParams{ToolID: &tools[i].ID})
		wantKind(t, err, fault.Denied) // the definition changed
		b.allow(t, tools[i], "always")
		if _, err := b.Execute(b.ctx, ExecuteParams{ToolID: &tools[i].ID}); err != nil {
			b.allow(t, tools[i], "always")
		}
	}
	r = b.run(t, tools[3], "")
	if string(r.Output) != "3" {
		t.Fatalf("three levels below: %+v", r)
	}
	r = b.run(t, tools[4], "")
	if r.Success || !strings.Contains(r.Error, "at most 4 levels deep") {
		t.Fatalf("five deep: %+v", r)
	}
	if u := b.usage(t, leaf); u.Entries[0].Caller != "tool" || u.Entries[0].ParentID == nil {
		t.Errorf("leaf row %+v", u.Entries[0])
	}
	ring := b.create(t, CreateParams{Name: "Ring", Code: "return await helix.tool('Ring', {})", Capabilities: []string{"tool(Ring)"}})
	grantAll(ring)
	r = b.run(t, ring, "")
	if r.Success || !strings.Contains(r.Error, "in a loop") {
		t.Errorf("ring: %+v", r)
	}
}

// TestNestedRunsShareTheLimits checks that a tool can do no more through another tool than by itself.
func TestNestedRunsShareTheLimits(t *testing.T) {
	t.Parallel()
	b := setup(t)
	inner := b.create(t, CreateParams{Name: "Inner", Capabilities: []string{"state"}, Code: "for (let i = 0; i < params.n; i++) await helix.state.set('k', i); return 'done'"})
	_, err := b.Execute(b.ctx, ExecuteParams{ToolID: &inner.ID, Params: json.RawMessage(`{"n":1}`)})
	wantKind(t, err, fault.Denied)
	b.allow(t, inner, "always")
	for calls, works := range map[int]bool{1: false, 4: false, 5: false, 6: true} { // one is for helix.tool
		outer := b.create(t, CreateParams{
			Name: fmt.Sprintf("Outer %d", calls), Limits: &Limits{HostCalls: calls}, Capabilities: []string{"tool(Inner)", "state"},
			Code: "return await helix.tool('Inner', {n: 5})",
		})
		_, err := b.Execute(b.ctx, ExecuteParams{ToolID: &outer.ID})
		wantKind(t, err, fault.Denied)
		b.allow(t, outer, "always")
		r := b.run(t, outer, "")
		if r.Success != works || !works && !strings.Contains(r.Error, "host calls") {
			t.Errorf("%d calls: %v %s %s", calls, r.Success, r.ErrorClass, r.Error)
		}
	}
}

func TestStateAndFiles(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tool := b.create(t, CreateParams{SandboxProfile: Permissive, Capabilities: []string{"state(2KiB)", "filesystem:write"}, Code: `
		if (params.op === "set") return await helix.state.set(params.k, params.v);
		if (params.op === "get") return await helix.state.get(params.k);
		if (params.op === "del") return await helix.state.delete(params.k);
		if (params.op === "keys") return await helix.state.keys();
		if (params.op === "write") return await helix.fs.writeText(params.k, params.v);`})
	do := func(p string) ExecuteResult { return b.run(t, tool, p) }
	_, err := b.Execute(b.ctx, ExecuteParams{ToolID: &tool.ID, Params: json.RawMessage(`{"op":"keys"}`)})
	wantKind(t, err, fault.Denied)
	b.allow(t, tool, "always")
	if r := do(`{"op":"get","k":"a"}`); string(r.Output) != "null" {
		t.Fatalf("%+v", r)
	}
	if r := do(`{"op":"set","k":"a","v":{"x":[1]}}`); !r.Success {
		t.Fatalf("%+v", r)
	}
	if r := do(`{"op":"set","k":"a","v":"` + strings.Repeat("x", 3000) + `"}`); r.Success || !strings.Contains(r.Error, "the limit is 2048") {
		t.Fatalf("over quota: %+v", r)
	}
	if r := do(`{"op":"get","k":"a"}`); string(r.Output) != `{"x":[1]}` {
		t.Fatalf("the old value went: %+v", r)
	}
	if r := do(`{"op":"write","k":"notes/a.txt","v":"hello"}`); !r.Success {
		t.Fatalf("%+v", r)
	}
	for _, bad := range []string{"/etc/passwd", "../x", "a/../../x", ".", "C:\\x", "a\\b"} {
		if r := do(`{"op":"write","k":` + string(lifecycle.Text(bad)) + `,"v":"x"}`); r.Success || r.ErrorClass != "host_denied" {
			t.Errorf("wrote to %q: %+v", bad, r)
		}
	}
	out := filepath.Join(b.dir, "outside")
	if err := os.Mkdir(out, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(out, filepath.Join(StateFolder(b.o.StateDir, tool.subject()), "link")); err != nil {
		t.Fatal(err)
	}
	if r := do(`{"op":"write","k":"link/x.txt","v":"x"}`); r.Success {
		t.Error("wrote through a link")
	}
	if l, _ := os.ReadDir(out); len(l) != 0 {
		t.Error("a file left the folder")
	}
	st, err := b.State(b.ctx, ToolID{tool.ID})
	if err != nil || len(st.Entries) != 2 || st.QuotaBytes != 2048 || st.Entries[1].Key != "file:notes/a.txt" || st.UsedBytes != st.Entries[0].SizeBytes+5 {
		t.Fatalf("%+v %v", st, err)
	}
	c, err := b.StateClear(b.ctx, StateClearParams{ToolID: tool.ID})
	if err != nil || c.Cleared != 2 {
		t.Fatalf("%+v %v", c, err)
	}
	if st, _ := b.State(b.ctx, ToolID{tool.ID}); len(st.Entries) != 0 {
		t.Errorf("%+v", st)
	}
	if r, err := b.StateRestore(b.ctx, StateRestoreParams{UndoToken: c.UndoToken}); err != nil || r.Cleared != 2 {
		t.Fatalf("%+v %v", r, err)
	}
	if st, _ := b.State(b.ctx, ToolID{tool.ID}); len(st.Entries) != 2 {
		t.Errorf("%+v", st)
	}
	_, err = b.StateRestore(b.ctx, StateRestoreParams{UndoToken: c.UndoToken})
	wantKind(t, err, fault.NotFound)
}

func TestReadingFiles(t *testing.T) {
	t.Parallel()
	b := setup(t)
	root, err := filepath.EvalSymlinks(b.o.Home)
	if err != nil {
		t.Fatal(err)
	}
	notes := filepath.Join(root, "notes")
	for _, d := range []string{notes, filepath.Join(root, "notes-2")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write := func(p, s string) {
		if err := os.WriteFile(p, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(notes, "a.txt"), "inside")
	write(filepath.Join(root, "notes-2", "b.txt"), "sibling")
	write(filepath.Join(root, "secret.txt"), "outside")
	if err := os.Symlink(filepath.Join(root, "secret.txt"), filepath.Join(notes, "link.txt")); err != nil {
		t.Fatal(err)
	}
	tool := b.create(t, CreateParams{Code: "return params.list ? (await helix.fs.list(params.p)).map(e => e.name) : await helix.fs.readText(params.p)",
		Capabilities: []string{"filesystem:read(~/notes/**)"}})
	run := func(p string, list bool) ExecuteResult {
		return b.run(t, tool, string(lifecycle.Text(map[string]any{"p": p, "list": list})))
	}
	if r := run(filepath.Join(notes, "a.txt"), false); r.Success || r.PendingApprovalID == nil {
		t.Fatalf("read without a right: %+v", r)
	}
	b.allow(t, tool, "always")
	if r := run(filepath.Join(notes, "a.txt"), false); string(r.Output) != `"inside"` {
		t.Fatalf("%+v", r)
	}
	if r := run("~/notes/a.txt", false); string(r.Output) != `"inside"` {
		t.Fatalf("%+v", r)
	}
	for _, bad := range []string{filepath.Join(notes, "link.txt"), filepath.Join(notes, "..", "secret.txt"), notes + "/../secret.txt", filepath.Join(root, "notes-2", "b.txt"), "/etc/passwd", "/proc/self/environ", "relative.txt"} {
		if r := run(bad, false); r.Success || strings.Contains(string(r.Output), "outside") {
			t.Errorf("read %s: %+v", bad, r)
		}
	}
}

func TestSecretsNeverReachTheTool(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const value = "s3cr3t-value-0123456789"
	if _, err := b.SecretSet(b.ctx, SecretSetParams{Name: "KEY", Value: value, Hosts: []string{"api.example.com"}}); err != nil {
		t.Fatal(err)
	}
	l, err := b.Secrets(b.ctx, struct{}{})
	if err != nil || len(l.Secrets) != 1 || strings.Contains(string(lifecycle.Text(l)), value) {
		t.Fatalf("%+v %v", l, err)
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Error("the secret's request left for a host that is not on its list")
	}))
	t.Cleanup(srv.Close)
	port := mustPort(t, srv.URL)
	tool := b.create(t, CreateParams{Code: `const k = await helix.secret("KEY"); console.log("key " + k);
		if (params.where) await helix.fetch(params.where, {headers: {authorization: "Bearer " + k}}); return k;`,
		Capabilities: []string{"secret(KEY)", "network:localhost(" + port + ")"}})
	_, err = b.Execute(b.ctx, ExecuteParams{ToolID: &tool.ID})
	wantKind(t, err, fault.Denied)
	b.allow(t, tool, "always")
	r := b.run(t, tool, "")
	if !r.Success || !strings.Contains(string(r.Output), placeholderPrefix) || strings.Contains(string(lifecycle.Text(r)), value) {
		t.Fatalf("%s", lifecycle.Text(r))
	}
	again := b.run(t, tool, "")
	if string(again.Output) == string(r.Output) {
		t.Error("the placeholder is the same in two runs")
	}
	r = b.run(t, tool, `{"where":"http://localhost:`+port+`/"}`)
	if r.Success || r.ErrorClass != "host_denied" {
		t.Errorf("%+v", r)
	}
	if err := b.db.Read(b.ctx, func(tx *storage.Tx) error {
		var n int
		if err := tx.QueryRow(`SELECT count(*) FROM custom_tool_usage WHERE input_params LIKE ?1 OR output_result LIKE ?1 OR error_message LIKE ?1`, "%"+value+"%").Scan(&n); err != nil || n != 0 {
			t.Errorf("%d rows hold the value, %v", n, err)
		}
		return tx.QueryRow(`SELECT count(*) FROM audit_details WHERE details LIKE ?`, "%"+value+"%").Scan(&n)
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.SecretDelete(b.ctx, SecretName{"KEY"}); err != nil {
		t.Fatal(err)
	}
	if r := b.run(t, tool, ""); r.Success || !strings.Contains(r.Error, "not found") {
		t.Errorf("after the delete: %+v", r)
	}
	for _, p := range []SecretSetParams{{Name: "a b", Value: "xxxx", Hosts: []string{"a.example.com"}}, {Name: "A", Value: "x", Hosts: []string{"a.example.com"}}, {Name: "A", Value: "xxxx"}, {Name: "A", Value: "xxxx", Hosts: []string{"*"}}, {Name: "A", Value: "xxxx", Hosts: []string{"localhost"}}} {
		_, err := b.SecretSet(b.ctx, p)
		wantKind(t, err, fault.Invalid)
	}
}

func TestSecretParametersAreMaskedInRows(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tool := b.create(t, CreateParams{Code: "return {echo: params.password, again: params.login.pin}", Parameters: json.RawMessage(`{"type":"object","properties":{
		"password":{"type":"string","format":"password"},"login":{"$ref":"#/$defs/login"}},"$defs":{"login":{"type":"object","properties":{"pin":{"type":"string","x-secret":true}}}}}`)})
	r := b.run(t, tool, `{"password":"hunter22!","login":{"pin":"99887766"}}`)
	if !r.Success || !strings.Contains(string(r.Output), "hunter22!") {
		t.Fatalf("%+v", r)
	}
	e := b.usage(t, tool).Entries[0]
	for _, s := range []string{"hunter22!", "99887766"} {
		if strings.Contains(string(e.Params), s) || strings.Contains(string(e.Output), s) {
			t.Errorf("the row holds %s: %s → %s", s, e.Params, e.Output)
		}
	}
}

func TestPayloadsAreTruncated(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tool := b.create(t, CreateParams{Code: `return "\u0001".repeat(100000)`})
	b.run(t, tool, `{"a":"`+strings.Repeat("é", 50_000)+`"}`)
	e := b.usage(t, tool).Entries[0]
	for _, p := range []json.RawMessage{e.Params, e.Output} {
		var cut struct {
			Truncated bool
			Bytes     int
			Head      string
		}
		if err := json.Unmarshal(p, &cut); err != nil || !cut.Truncated || cut.Bytes < 100_000 || cut.Head == "" || len(p) > maxPayload {
			t.Errorf("%d bytes: %.80s %v", len(p), p, err)
		}
	}
}

func TestProfileForbidsAtTheRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tool := b.create(t, CreateParams{Code: "return 1", SandboxProfile: Strict, Capabilities: []string{"network:https(api.example.com)"}})
	_, err := b.Execute(b.ctx, ExecuteParams{ToolID: &tool.ID})
	den := wantKind(t, err, fault.Denied).Details.(Denial)
	if den.Reason != "profile" || den.Capability != "network:https" || den.Resource != "api.example.com" {
		t.Errorf("%+v", den)
	}
	if u := b.usage(t, tool); len(u.Entries) != 1 || u.Entries[0].ErrorClass != "host_denied" {
		t.Errorf("%+v", u)
	}
}

func TestEventsOfARunAreInOrder(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var mu sync.Mutex
	var got []Execution
	bus.Subscribe(b.db.Bus(), func(_ uuid.UUID, e Execution) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, e)
	})
	tool := b.create(t, CreateParams{Code: "console.log('one'); helix.log('warn', 'two', {a: 1}); return 1"})
	r := b.run(t, tool, "")
	mu.Lock()
	defer mu.Unlock()
	if len(got) != 4 || got[0].State != "running" || got[1].Log == nil || got[1].Log.Message != "one" || got[2].Log.Level != "warn" || got[3].State != "success" {
		t.Fatalf("%+v", got)
	}
	for i, e := range got {
		if e.Seq != int64(i+1) || e.ExecutionID != r.ExecutionID {
			t.Errorf("event %d: %+v", i, e)
		}
	}
	if len(r.Logs) != 2 || string(r.Logs[1].Fields) != `{"a":1}` {
		t.Errorf("%+v", r.Logs)
	}
}

func TestCanceledContext(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tool := b.create(t, CreateParams{Code: "for (;;) {}"})
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	bus.Subscribe(b.db.Bus(), func(_ uuid.UUID, e Execution) {
		if e.State == "running" {
			cancel()
		}
	})
	r, err := b.Execute(ctx, ExecuteParams{ToolID: &tool.ID})
	if err != nil || r.ErrorClass != "canceled" {
		t.Fatalf("%+v %v", r, err)
	}
	if u := b.usage(t, tool); len(u.Entries) != 1 || u.Entries[0].ErrorClass != "canceled" {
		t.Errorf("%+v", u)
	}
}
