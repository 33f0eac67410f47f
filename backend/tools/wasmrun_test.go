package tools

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/lifecycle"
	"helix/backend/permission"
	"helix/backend/sandbox"
	"helix/backend/schema"
	"helix/backend/storage"
	"helix/backend/wasmtools"
)

func TestSkillRuns(t *testing.T) {
	t.Parallel()
	b := setup(t)
	w := b.install(t, "echo")
	r := b.execute(t, w, `{"a":[1,"ü\u0000"]}`)
	if !r.Success || string(r.Output) != `{"a":[1,"ü\u0000"]}` || r.Status != wasmtools.SkillSuccess || r.Error != "" || r.Tier != "t0" || r.Isolation != "inprocess" ||
		r.PeakMemoryBytes < 80<<16 || r.Fuel == 0 || r.ExecutionTimeMs <= 0 || len(r.Logs) != 1 || r.Logs[0].Message != "echoing" || r.Reasons == nil ||
		r.Limits.WallMs != 5000 || r.Limits.MemoryBytes != 128<<20 || r.Limits.CPUMs != 5000 || len(r.AuditLog) < 2 {
		t.Errorf("%+v", r)
	}
	if r := b.execute(t, w, ``); string(r.Output) != `{}` {
		t.Errorf("no input: %s", r.Output)
	}
	for _, in := range []string{`0`, `false`, `""`, `null`, `"text"`} {
		if r := b.execute(t, w, in); string(r.Output) != in {
			t.Errorf("%s gives %s", in, r.Output)
		}
	}
	list := b.executions(t, w.ID)
	if len(list) != 7 {
		t.Fatalf("%d rows", len(list))
	}
	x := list[6]
	if x.ID != r.ExecutionID || x.SkillID != w.ID || x.Status != wasmtools.SkillSuccess || string(x.Input) != `{"a":[1,"ü\u0000"]}` || string(x.Output) != string(x.Input) ||
		x.MemoryUsedMb < 5 || x.ExecutionTimeMs <= 0 || x.Tier != "t0" || x.Isolation != "inprocess" || x.Version != "1.0.0" || x.Caller != "user" || x.Timestamp.IsZero() {
		t.Errorf("%+v", x)
	}
	page, err := b.WasmExecutions(b.ctx, SkillExecutionsParams{SkillID: w.ID, Limit: 3})
	if err != nil || len(page.Executions) != 3 || !page.More {
		t.Fatalf("%+v %v", page, err)
	}
	last, err := b.WasmExecutions(b.ctx, SkillExecutionsParams{SkillID: w.ID, Limit: 4, Before: &page.Executions[2].ID})
	if err != nil || len(last.Executions) != 4 || last.More || last.Executions[3].ID != x.ID {
		t.Fatalf("%+v %v", last, err)
	}
	got, err := b.GetWasm(b.ctx, wasmtools.GetWasmParams{SkillID: w.ID})
	if err != nil || got.Skill.Runs != 7 || got.Skill.LastStatus != wasmtools.SkillSuccess || got.Skill.LastRun == nil {
		t.Errorf("%+v %v", got, err)
	}
}

// Each way in which a run ends has its class, status and row.
func TestSkillEnds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, c := range []struct {
		module, class string
		status        wasmtools.SkillStatus
		change        func(*wasmtools.CreateWasmParams)
		input         string
	}{
		{"trap", "trap", wasmtools.SkillFailure, nil, ""},
		{"spin", "timeout", wasmtools.SkillTimeout, func(p *wasmtools.CreateWasmParams) { p.TimeoutMs = 100 }, ""},
		{"exit", "trap", wasmtools.SkillFailure, nil, ""},
		{"grow", "memory", wasmtools.SkillFailure, func(p *wasmtools.CreateWasmParams) { p.MemoryMb = 64; p.Wasm = growTo(t, 2000) }, ""},
		{"call", "output", wasmtools.SkillFailure, nil, `{"op":"log","message":"x"`}, // not a request
	} {
		if c.module == "call" {
			continue
		}
		w := b.install(t, c.module, func(p *wasmtools.CreateWasmParams) {
			if c.change != nil {
				c.change(p)
			}
		})
		r := b.execute(t, w, c.input)
		if r.Success || r.ErrorClass != c.class || r.Status != c.status || r.Error == "" || len(r.Output) != 0 {
			t.Errorf("%s: %+v", c.module, r)
		}
		x := b.executions(t, w.ID)
		if len(x) != 1 || x[0].Status != c.status || x[0].ErrorClass != c.class || x[0].Error == "" || x[0].MemoryUsedMb <= 0 || x[0].Output != nil {
			t.Errorf("%s: row %+v", c.module, x)
		}
		if c.class == "timeout" && (x[0].ExecutionTimeMs < 100 || x[0].CPUTimeMs <= 0 || r.Limits.WallMs != 100) {
			t.Errorf("%s: %+v %+v", c.module, x[0], r)
		}
	}
}

// growTo returns the module grow with another number of pages (below 16384: two bytes of LEB128).
func growTo(t *testing.T, pages int) []byte {
	t.Helper()
	b := module(t, "grow")
	at := strings.LastIndex(string(b), "\x41\xe8\x07\x49") // i32.const 1000, i32.lt_u
	if at < 0 {
		t.Fatal("the fixture has changed")
	}
	b[at+1], b[at+2] = byte(pages)|0x80, byte(pages>>7)
	return b
}

func TestSkillLimitsAreRead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	grow := b.install(t, "grow", func(p *wasmtools.CreateWasmParams) { p.MemoryMb = 128 })
	if r := b.execute(t, grow, ""); !r.Success || r.PeakMemoryBytes < 1000<<16 {
		t.Errorf("62.5 MiB under 128: %+v", r)
	}
	spin := b.install(t, "spin")
	r, err := b.ExecuteSkill(b.ctx, ExecuteSkillParams{SkillID: spin.ID, TimeoutMs: 150})
	if err != nil || r.ErrorClass != "timeout" || r.Limits.WallMs != 150 {
		t.Errorf("a lower limit of one call: %+v %v", r, err)
	}
	if r, err := b.ExecuteSkill(b.ctx, ExecuteSkillParams{SkillID: grow.ID, TimeoutMs: 600_000}); err != nil || r.Limits.WallMs != 5000 {
		t.Errorf("a call cannot raise a limit: %+v %v", r.Limits, err)
	}
	_, err = b.ExecuteSkill(b.ctx, ExecuteSkillParams{SkillID: grow.ID, Input: json.RawMessage(`"` + strings.Repeat("x", maxInput) + `"`)})
	wantKind(t, err, fault.Invalid)
	long := b.install(t, "echo", func(p *wasmtools.CreateWasmParams) { p.TimeoutMs = 60_000; p.MemoryMb = 256 })
	if r := b.execute(t, long, "1"); r.Limits.WallMs != 60_000 || r.Limits.MemoryBytes != 256<<20 || r.Limits.CPUMs != 5000 {
		t.Errorf("%+v", r.Limits)
	}
}

func TestSkillPayloadsAreTruncated(t *testing.T) {
	t.Parallel()
	b := setup(t)
	w := b.install(t, "echo")
	r := b.execute(t, w, `"`+strings.Repeat("é", 100_000)+`"`)
	if !r.Success || len(r.Output) != 200_002 {
		t.Fatalf("%d bytes, %s", len(r.Output), r.Error)
	}
	for _, text := range []json.RawMessage{b.executions(t, w.ID)[0].Input, b.executions(t, w.ID)[0].Output} {
		var cut struct {
			Truncated bool
			Bytes     int
			Head      string
		}
		if err := json.Unmarshal(text, &cut); err != nil || !cut.Truncated || cut.Bytes != 200_002 || len(text) > 64<<10 || !strings.HasPrefix(cut.Head, `"éé`) {
			t.Errorf("%d bytes, %+v, %v", len(text), cut.Bytes, err)
		}
	}
}

func TestSkillInputSchema(t *testing.T) {
	t.Parallel()
	b := setup(t)
	w := b.install(t, "echo", func(p *wasmtools.CreateWasmParams) {
		p.InputSchema = json.RawMessage(`{"type":"object","required":["a"],"properties":{"a":{"type":"integer"},"b":{"default":7},"pin":{"type":"string","format":"password"}}}`)
	})
	if r := b.execute(t, w, `{"a":1,"pin":"hunter2-hunter2"}`); string(r.Output) != `{"a":1,"b":7,"pin":"hunter2-hunter2"}` {
		t.Errorf("%s", r.Output)
	}
	if x := b.executions(t, w.ID)[0]; strings.Contains(string(x.Input)+string(x.Output), "hunter2") {
		t.Errorf("the row holds the secret: %s %s", x.Input, x.Output)
	}
	_, err := b.ExecuteSkill(b.ctx, ExecuteSkillParams{SkillID: w.ID, Input: json.RawMessage(`{"a":"x"}`)})
	wantKind(t, err, fault.Invalid)
	if n := len(b.executions(t, w.ID)); n != 1 {
		t.Errorf("%d rows: what never ran has none", n)
	}
}

// A grant is bound to the approved definition: other bytes or capabilities need a new approval.
func TestChangedSkillWaitsForApproval(t *testing.T) {
	t.Parallel()
	for name, patch := range map[string]func(*testing.T) wasmtools.WasmPatch{
		"bytes": func(t *testing.T) wasmtools.WasmPatch {
			return wasmtools.WasmPatch{Wasm: append(module(t, "call"), 0, 2, 1, 'x')}
		}, // a custom section
		"capabilities": func(*testing.T) wasmtools.WasmPatch {
			return wasmtools.WasmPatch{Capabilities: &[]string{"state", "tool(x)"}}
		},
		"description": func(*testing.T) wasmtools.WasmPatch { s := "other words"; return wasmtools.WasmPatch{Description: &s} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			w := b.install(t, "call", func(p *wasmtools.CreateWasmParams) { p.Capabilities = []string{"state"} })
			const set = `{"op":"state.set","key":"k","value":5}`
			_, err := b.ExecuteSkill(b.ctx, ExecuteSkillParams{SkillID: w.ID, Input: json.RawMessage(set)})
			f := wantKind(t, err, fault.Denied)
			den, _ := f.Details.(Denial)
			if den.PendingApprovalID == nil || den.Capability != "state" || den.ExecutionID == nil || !strings.HasPrefix(f.Message, "The skill") {
				t.Fatalf("%+v %+v", f, den)
			}
			if x := b.executions(t, w.ID); len(x) != 1 || x[0].Status != wasmtools.SkillFailure || x[0].ErrorClass != "host_denied" {
				t.Errorf("%+v", x)
			}
			b.agree(t, w.ID.String(), "always")
			if r := b.execute(t, w, set); !r.Success || string(r.Output) != "{}" {
				t.Fatalf("%+v", r)
			}
			u, err := b.UpdateWasm(b.ctx, wasmtools.UpdateWasmParams{SkillID: w.ID, Patch: patch(t)})
			if err != nil || len(u.SuspendedGrants) != 1 || !u.Skill.Suspended {
				t.Fatalf("%+v %v", u, err)
			}
			_, err = b.ExecuteSkill(b.ctx, ExecuteSkillParams{SkillID: w.ID, Input: json.RawMessage(set)})
			den, _ = wantKind(t, err, fault.Denied).Details.(Denial)
			if den.Reason != permission.ReasonDefinitionChanged || den.PendingApprovalID == nil {
				t.Fatalf("%+v %v", den, err)
			}
			if l, err := b.ListWasm(b.ctx, wasmtools.ListWasmParams{}); err != nil || !l.Skills[0].Suspended {
				t.Errorf("list: %+v %v", l, err)
			}
			b.agree(t, w.ID.String(), "always")
			if name == "capabilities" { // the added capability is asked for separately
				_, err := b.ExecuteSkill(b.ctx, ExecuteSkillParams{SkillID: w.ID})
				wantKind(t, err, fault.Denied)
				b.agree(t, w.ID.String(), "always")
			}
			if r := b.execute(t, w, `{"op":"state.get","key":"k"}`); !r.Success || string(r.Output) != `{"found":true,"value":5}` {
				t.Errorf("after the answer: %s %s", r.Output, r.Error)
			}
			if _, err := b.DeleteWasm(b.ctx, wasmtools.SkillID{SkillID: w.ID}); err != nil {
				t.Fatal(err)
			}
			if n := b.count(t, `SELECT count(*) FROM capability_grants WHERE subject_kind = 'wasm' AND revoked_at IS NULL AND suspended_at IS NULL`); n != 0 {
				t.Errorf("%d grants outlive the skill", n)
			}
		})
	}
}

// Modules use the same host as tools.
func TestSkillHost(t *testing.T) {
	t.Parallel()
	b := setup(t)
	doubler := b.create(t, CreateParams{Name: "doubler", Code: "return params.n * 2"})
	folder := filepath.Join(b.dir, "given")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "a.txt"), []byte("inside"), 0o600); err != nil {
		t.Fatal(err)
	}
	const value = "s3cr3t-s3cr3t"
	if _, err := b.SecretSet(b.ctx, SecretSetParams{Name: "KEY", Value: value, Hosts: []string{"api.example.com"}}); err != nil {
		t.Fatal(err)
	}
	w := b.install(t, "call", func(p *wasmtools.CreateWasmParams) {
		p.Capabilities = []string{"state", "tool(doubler)", "secret(KEY)", "filesystem:read(" + folder + "/**)", "filesystem:write($STATE/**)"}
	})
	if _, err := b.ExecuteSkill(b.ctx, ExecuteSkillParams{SkillID: w.ID}); fault.KindOf(err) != fault.Denied {
		t.Fatal(err)
	}
	b.agree(t, w.ID.String(), "always")
	quote := func(s string) string { return string(lifecycle.Text(s)) }
	for _, c := range []struct{ in, out string }{
		{`{"op":"tool","name":"doubler","params":{"n":21}}`, `{"output":42}`},
		{`{"op":"state.set","key":"a","value":{"b":1}}`, `{}`},
		{`{"op":"state.keys"}`, `{"keys":["a"]}`},
		{`{"op":"state.delete","key":"a"}`, `{"deleted":true}`},
		{`{"op":"log","level":"warn","message":"hello"}`, `{}`},
		{`{"op":"secret","name":"KEY"}`, `{"placeholder":"helix-secret-`},
		{`{"op":"process.spawn"}`, `"code":"invalid"`},
		{`{"op":"fetch","url":"https://api.example.com/"}`, `"code":"denied"`}, // not declared
		{`{"op":"fs.readText","path":"/etc/passwd"}`, `"name":"PermissionError"`},
		{`{"op":"tool","name":"other"}`, `"code":"denied"`},
	} {
		r := b.execute(t, w, c.in)
		if !strings.Contains(string(r.Output), c.out) || strings.Contains(string(r.Output), value) {
			t.Errorf("%s: %s, %+v", c.in, r.Output, r)
		}
	}
	// A pattern is asked about when the run names the resource.
	read := `{"op":"fs.readText","path":` + quote(filepath.Join(folder, "a.txt")) + `}`
	r := b.execute(t, w, read)
	if !strings.Contains(string(r.Output), `"code":"denied"`) {
		t.Fatalf("%+v", r)
	}
	b.agree(t, w.ID.String(), "always")
	if r := b.execute(t, w, read); string(r.Output) != `{"text":"inside"}` {
		t.Errorf("%s %s", r.Output, r.Error)
	}
	write := `{"op":"fs.writeText","path":"notes/a.txt","text":"kept"}`
	if r := b.execute(t, w, write); string(r.Output) != `{}` { // state includes files
		t.Errorf("%s", r.Output)
	}
	if got, err := os.ReadFile(filepath.Join(b.dir, "state", w.ID.String(), "notes", "a.txt")); err != nil || string(got) != "kept" {
		t.Errorf("%q %v", got, err)
	}
	if u := b.usage(t, doubler); len(u.Entries) != 1 || u.Entries[0].Caller != "skill" || u.Entries[0].ParentID == nil {
		t.Errorf("the tool's run: %+v", u.Entries)
	}
	var host SkillExecution
	for _, x := range b.executions(t, w.ID) {
		if strings.Contains(string(x.Input), "doubler") && x.Status == wasmtools.SkillSuccess {
			host = x
		}
	}
	if host.HostCalls != 1 {
		t.Errorf("%+v", host)
	}
	if n := b.count(t, `SELECT count(*) FROM audit_log WHERE subject_kind = 'wasm' AND action = 'permission_check' AND run_id = ?`, host.ID); n != 1 {
		t.Errorf("%d entries of the host call", n)
	}
}

func TestSecretsStayOutOfSkillRows(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const value = "topsecret-value-1"
	if _, err := b.SecretSet(b.ctx, SecretSetParams{Name: "KEY", Value: value, Hosts: []string{"api.example.com"}}); err != nil {
		t.Fatal(err)
	}
	w := b.install(t, "call", func(p *wasmtools.CreateWasmParams) { p.Capabilities = []string{"secret(KEY)"} })
	if _, err := b.ExecuteSkill(b.ctx, ExecuteSkillParams{SkillID: w.ID}); fault.KindOf(err) != fault.Denied {
		t.Fatal(err)
	}
	b.agree(t, w.ID.String(), "always")
	// The caller repeats the value in the input: the stored run does not contain it.
	if r := b.execute(t, w, `{"op":"secret","name":"KEY","note":"`+value+`"}`); !r.Success {
		t.Fatalf("%+v", r)
	}
	if x := b.executions(t, w.ID)[0]; strings.Contains(string(x.Input), value) || !strings.Contains(string(x.Input), schema.Masked) {
		t.Errorf("%s", x.Input)
	}
}

func TestModuleIsMissing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	w := b.install(t, "echo")
	if err := b.db.Blobs().Remove(w.Ref()); err != nil {
		t.Fatal(err)
	}
	_, err := b.ExecuteSkill(b.ctx, ExecuteSkillParams{SkillID: w.ID})
	if f := wantKind(t, err, fault.Unavailable); f.Message != "module not downloaded yet" {
		t.Errorf("%q", f.Message)
	}
	g, err := b.GetWasm(b.ctx, wasmtools.GetWasmParams{SkillID: w.ID, Report: true})
	if err != nil || g.Skill.Downloaded || g.Report != nil {
		t.Errorf("%+v %v", g, err)
	}
	if n := len(b.executions(t, w.ID)); n != 0 {
		t.Errorf("%d rows", n)
	}
}

func TestCancelSkill(t *testing.T) {
	t.Parallel()
	b := setup(t)
	w := b.install(t, "spin", func(p *wasmtools.CreateWasmParams) { p.TimeoutMs = 60_000 })
	var mu sync.Mutex
	var seen []SkillExecutionChanged
	running := make(chan uuid.UUID, 1)
	defer bus.Subscribe(b.db.Bus(), func(user uuid.UUID, e SkillExecutionChanged) {
		mu.Lock()
		defer mu.Unlock()
		if seen = append(seen, e); len(seen) == 1 {
			running <- e.ExecutionID
		}
	})()
	go func() {
		id := <-running
		other := identity.With(b.ctx, identity.Identity{User: uuid.New(), Scopes: identity.Admin.Closed(), Client: identity.ClientWindow})
		if r, err := b.Cancel(other, CancelParams{ExecutionID: id}); err != nil || r.Canceled {
			t.Errorf("somebody else cancels: %+v %v", r, err)
		}
		if r, err := b.Cancel(b.ctx, CancelParams{ExecutionID: id}); err != nil || !r.Canceled {
			t.Errorf("%+v %v", r, err)
		}
	}()
	r := b.execute(t, w, "")
	if r.Success || r.ErrorClass != "canceled" || r.Status != wasmtools.SkillCanceled {
		t.Errorf("%+v", r)
	}
	if x := b.executions(t, w.ID)[0]; x.Status != wasmtools.SkillCanceled || x.ErrorClass != "canceled" || x.CPUTimeMs < 0 {
		t.Errorf("%+v", x)
	}
	mu.Lock()
	defer mu.Unlock()
	if n := len(seen); n < 2 || seen[0].Status != wasmtools.SkillRunning || seen[n-1].Status != wasmtools.SkillCanceled || seen[n-1].SkillID != w.ID || seen[n-1].Seq != int64(n) {
		t.Errorf("%+v", seen)
	}
}

func TestInterruptedSkillRuns(t *testing.T) {
	t.Parallel()
	b := setup(t)
	w := b.install(t, "echo")
	id := storage.NewID()
	if err := b.db.Write(b.ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`INSERT INTO skill_executions (id, skill_id, user_id, input_params, status, timestamp, created_at, updated_at) VALUES (?, ?, ?, '{}', 'running', ?, ?, ?)`,
			id, w.ID, identity.UserID(b.ctx), tx.Now, tx.Now, tx.Now)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if n := b.count(t, `SELECT count(*) FROM change_log WHERE tbl = 'skill_executions'`); n != 0 {
		t.Errorf("a run that goes on is in the change log %d times", n)
	}
	if err := b.Recover(b.ctx); err != nil {
		t.Fatal(err)
	}
	if x := b.executions(t, w.ID); len(x) != 1 || x[0].Status != wasmtools.SkillFailure || x[0].ErrorClass != "interrupted" {
		t.Errorf("%+v", x)
	}
	if n := b.count(t, `SELECT count(*) FROM change_log WHERE tbl = 'skill_executions'`); n != 1 {
		t.Errorf("a run that ended is in the change log %d times", n)
	}
	// A finished run cannot be changed.
	err := b.db.Write(b.ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`UPDATE skill_executions SET status = 'success' WHERE id = ?`, id)
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "cannot change") {
		t.Errorf("a finished run changed: %v", err)
	}
}

// RunCode is for a person: what they list is granted for this run and recorded; anything else is refused.
func TestRunCode(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r, err := b.RunCode(b.ctx, RunCodeParams{Kind: CodeJavaScript, Name: "a.js", Code: "export default async (p, helix) => { await helix.state.set('k', p.n); return helix.state.get('k') }", Input: json.RawMessage(`{"n":3}`), Grants: []string{"state"}})
	if err != nil || !r.Success || string(r.Output) != "3" || r.Tier != "t0" {
		t.Fatalf("%+v %v", r, err)
	}
	if n := b.count(t, `SELECT count(*) FROM audit_log WHERE action = 'approval.decided' AND run_id = ?`, r.ExecutionID); n != 1 {
		t.Errorf("%d answers on record", n)
	}
	if r, err = b.RunCode(b.ctx, RunCodeParams{Kind: CodeJavaScript, Code: "export default (p, helix) => helix.state.get('k')"}); err != nil || r.Success || r.ErrorClass != "host_denied" {
		t.Errorf("nothing was named: %+v %v", r, err)
	}
	w := RunCodeParams{Kind: CodeWasm, Name: "call.wasm", Wasm: module(t, "call"), Input: json.RawMessage(`{"op":"state.keys"}`), Grants: []string{"state"}, Tier: "t0"}
	if r, err = b.RunCode(b.ctx, w); err != nil || !r.Success || string(r.Output) != `{"keys":[]}` || r.Tier != "t0" || r.Limits.WallMs != 5000 {
		t.Errorf("module: %+v %v", r, err)
	}
	dir := filepath.Join(b.dir, "given")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	code := "export default async (p, helix) => [await helix.fs.readText(p.dir + '/a.txt'), await helix.fs.readText(p.dir + '/a.txt')]"
	if r, err = b.RunCode(b.ctx, RunCodeParams{Kind: CodeTypeScript, Code: code, Input: lifecycle.Text(map[string]string{"dir": dir}), Grants: []string{"filesystem:read(" + dir + "/**)"}}); err != nil || string(r.Output) != `["x","x"]` {
		t.Errorf("a folder: %+v %v", r, err)
	}
	for name, p := range map[string]RunCodeParams{
		"no code":         {Kind: CodeJavaScript},
		"profile":         {Kind: CodeJavaScript, Code: "return 1", Profile: "loose"},
		"tier":            {Kind: CodeJavaScript, Code: "return 1", Tier: "t9"},
		"syntax":          {Kind: CodeJavaScript, Code: "return ("},
		"not wasm":        {Kind: CodeWasm, Wasm: []byte("hello")},
		"unknown grant":   {Kind: CodeJavaScript, Code: "return 1", Grants: []string{"env:read"}},
		"module and code": {Kind: CodeWasm, Code: "return 1", Wasm: module(t, "echo")},
	} {
		if _, err := b.RunCode(b.ctx, p); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := b.count(t, `SELECT count(*) FROM capability_grants WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?) AND uses_left IS NOT 0`, time.Now().Add(time.Second)); n != 0 {
		t.Errorf("%d rights outlive their runs", n)
	}
}

func TestTooManySkillRuns(t *testing.T) {
	t.Parallel()
	b := setup(t, func(o *Options) { o.Parallel, o.MaxWaiting = 1, -1 })
	if b.o.maxWaiting() > 0 {
		b.o.MaxWaiting = 1
	}
	w := b.install(t, "spin", func(p *wasmtools.CreateWasmParams) { p.TimeoutMs = 60_000 })
	begun := make(chan uuid.UUID, 10)
	defer bus.Subscribe(b.db.Bus(), func(_ uuid.UUID, e SkillExecutionChanged) {
		if e.Seq == 1 {
			begun <- e.ExecutionID
		}
	})()
	var wg sync.WaitGroup
	var ids []uuid.UUID
	for range 2 {
		wg.Go(func() { _, _ = b.ExecuteSkill(b.ctx, ExecuteSkillParams{SkillID: w.ID}) })
		ids = append(ids, <-begun)
	}
	_, err := b.ExecuteSkill(b.ctx, ExecuteSkillParams{SkillID: w.ID})
	wantKind(t, err, fault.Limit)
	for _, id := range ids {
		if _, err := b.Cancel(b.ctx, CancelParams{ExecutionID: id}); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	var se *sandbox.Error
	if errors.As(err, &se) {
		t.Error("the engine was asked")
	}
}

// An answered question can restart the run, which then has a row.
func TestSkillRunsAgainAfterTheAnswer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	w := b.install(t, "call", func(p *wasmtools.CreateWasmParams) { p.Capabilities = []string{"state"} })
	_, err := b.ExecuteSkill(b.ctx, ExecuteSkillParams{SkillID: w.ID, Input: json.RawMessage(`{"op":"state.keys"}`)})
	den, _ := wantKind(t, err, fault.Denied).Details.(Denial)
	q, err := b.perm.GetApproval(b.ctx, permission.GetApprovalParams{ID: *den.PendingApprovalID})
	if err != nil || q.Subject.Kind != "wasm" || q.Subject.Name != w.Name || strings.Contains(q.Sentence, "wasm") || !q.Run.Rerun {
		t.Fatalf("%+v %v", q, err)
	}
	ended := make(chan SkillExecutionChanged, 1)
	defer bus.Subscribe(b.db.Bus(), func(_ uuid.UUID, e SkillExecutionChanged) {
		if e.Status == wasmtools.SkillSuccess {
			ended <- e
		}
	})()
	a, err := b.perm.AnswerApproval(b.ctx, permission.AnswerParams{ID: q.ID, Decision: "approve", DefinitionHash: q.DefinitionHash, Scope: "run", Rerun: true})
	if err != nil || a.RunID == nil || a.RerunError != "" {
		t.Fatalf("%+v %v", a, err)
	}
	if e := <-ended; e.ExecutionID != *a.RunID || e.SkillID != w.ID {
		t.Errorf("%+v", e)
	}
	if x := b.executions(t, w.ID); len(x) != 2 || x[0].ID != *a.RunID || x[0].Status != wasmtools.SkillSuccess || string(x[0].Output) != `{"keys":[]}` {
		t.Errorf("%+v", x)
	}
}

// A secret can be restricted to one WASM tool.
func TestSecretOfOneSkill(t *testing.T) {
	t.Parallel()
	b := setup(t)
	one := b.install(t, "call", func(p *wasmtools.CreateWasmParams) { p.Capabilities = []string{"secret(KEY)"} })
	two := b.install(t, "call", func(p *wasmtools.CreateWasmParams) { p.Capabilities = []string{"secret(KEY)"} })
	set := SecretSetParams{Name: "KEY", Value: "0123456789", Hosts: []string{"api.example.com"}, ToolIDs: []uuid.UUID{one.ID}}
	if _, err := b.SecretSet(b.ctx, set); err != nil {
		t.Fatal(err)
	}
	set.ToolIDs = []uuid.UUID{uuid.New()}
	_, err := b.SecretSet(b.ctx, set)
	wantKind(t, err, fault.NotFound)
	for w, want := range map[*wasmtools.WasmSkill]string{&one: "placeholder", &two: "not_found"} {
		if _, err := b.ExecuteSkill(b.ctx, ExecuteSkillParams{SkillID: w.ID}); fault.KindOf(err) != fault.Denied {
			t.Fatal(err)
		}
		b.agree(t, w.ID.String(), "always")
		if r := b.execute(t, *w, `{"op":"secret","name":"KEY"}`); !strings.Contains(string(r.Output), want) {
			t.Errorf("%s: %s", want, r.Output)
		}
	}
}

// A revoked grant ends the run that uses it; disabling a WASM tool does not end its runs.
func TestRevokedRightEndsTheSkill(t *testing.T) {
	t.Parallel()
	b := setup(t)
	w := b.install(t, "spin", func(p *wasmtools.CreateWasmParams) { p.TimeoutMs, p.Capabilities = 60_000, []string{"state"} })
	if _, err := b.ExecuteSkill(b.ctx, ExecuteSkillParams{SkillID: w.ID}); fault.KindOf(err) != fault.Denied {
		t.Fatal(err)
	}
	b.agree(t, w.ID.String(), "always")
	running := make(chan struct{}, 100)
	defer bus.Subscribe(b.db.Bus(), func(_ uuid.UUID, e SkillExecutionChanged) { running <- struct{}{} })()
	go func() {
		<-running
		if _, err := b.DeleteWasm(b.ctx, wasmtools.SkillID{SkillID: w.ID}); err != nil {
			t.Error(err)
		}
	}()
	if r := b.execute(t, w, ""); r.Success || r.ErrorClass == "timeout" {
		t.Errorf("%s %s", r.ErrorClass, r.Error)
	}
}
