package backend

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"unicode"

	"helix/backend/fault"
	"helix/backend/permission"
	"helix/backend/storage"
	"helix/backend/tools"
)

// tries runs a tool that tries each of params.all with the statement in code, which may use x, and
// returns the result of each attempt: "got …" or "refused …".
func (a *attacked) tries(t *testing.T, name, code string, capabilities []string, tree string, all []string) map[string]string {
	t.Helper()
	tool := a.tool(t, tools.CreateParams{Name: name, SandboxProfile: "permissive", Capabilities: capabilities, Code: `
		const out = {};
		for (const x of params.all) {
			try { out[x] = "got " + String(await (async () => { ` + code + ` })()); }
			catch (e) { out[x] = "refused " + e.message; }
		}
		return out;`})
	a.allowAll(t, tool)
	if tree != "" { // as if the person had allowed the folder and not only the requested file
		a.run(t, tool, map[string]any{"all": all[len(all)-1:]})
		a.allowPending(t, tool)
		if err := a.DB.Write(a.as(a.LocalUser()), func(tx *storage.Tx) error {
			_, err := tx.Exec(`UPDATE capability_grants SET resource = ? WHERE subject_id = ? AND capability = 'filesystem:read'`, tree, tool.String())
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	r := a.run(t, tool, map[string]any{"all": all})
	out := map[string]string{}
	if !r.Success || json.Unmarshal(r.Output, &out) != nil || len(out) != len(slices.Compact(slices.Sorted(slices.Values(all)))) {
		t.Fatalf("%s: %s %s", name, r.Output, r.Error)
	}
	return out
}

// TestHostileTools runs tools that try to escape the sandbox, all at once on one backend.
func TestHostileTools(t *testing.T) {
	t.Parallel()
	a := attack(t)
	for name, try := range map[string]func(*testing.T, *attacked){
		"read Helix": toolsCannotReadHelix, "reach Helix": toolsCannotReachHelix, "answer approvals": toolsCannotAnswerApprovals,
		"see other runs": runsDoNotSeeOneAnother, "pass the quota": stateStaysWithinItsQuota, "names are data": namesAreData,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			try(t, a)
		})
	}
}

// toolsCannotReadHelix grants the parent of all Helix folders, and reads.
func toolsCannotReadHelix(t *testing.T, a *attacked) {
	if runtime.GOOS == "windows" {
		t.Skip("paths of another kind")
	}
	real, err := filepath.EvalSymlinks(a.dir)
	if err != nil {
		t.Fatal(err)
	}
	docs := filepath.Join(real, "docs")
	if err := os.MkdirAll(filepath.Join(docs, "a", "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(docs, "ok.txt"), []byte("fine"), 0o600); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(real, "data")
	for name, target := range map[string]string{"data": data, "db": filepath.Join(data, "helix.db"), "state": "../state", "up": "..", "proc": "/proc/self", "fd": "/dev/fd", "loop": "loop", "a/b/c": "../../../config"} {
		if err := os.Symlink(target, filepath.Join(docs, name)); err != nil {
			t.Skip("no symbolic links here")
		}
	}
	paths := []string{
		filepath.Join(data, "helix.db"), data, data + "/.", data + "/../data/helix.db", filepath.Join(real, "docs/../data/helix.db"), "//" + data + "//helix.db",
		filepath.Join(real, "state/gateway-token"), filepath.Join(real, "state/helix.log"), filepath.Join(real, "config/root.key"), filepath.Join(real, "run/endpoint.json"), filepath.Join(real, "cache"),
		docs + "/data/helix.db", docs + "/db", docs + "/state/gateway-token", docs + "/up/state/gateway-token", docs + "/a/b/c/root.key", docs + "/loop",
		docs + "/proc/environ", docs + "/fd/0", "/proc/self/environ", "/proc/self/root" + data + "/helix.db", "/proc/self/cwd/../data/helix.db", "/dev/fd/3", "/dev/stdin", "/etc/passwd",
		"~/data/helix.db", "$HOME/data/helix.db", "$STATE/../../helix.db", "$WORKSPACE/x", "file://" + data + "/helix.db", data + "/helix.db\x00.txt", "data/helix.db", "../data/helix.db", "",
		strings.ToUpper(data) + "/HELIX.DB", data + "%2fhelix.db", data + "\\helix.db", data + "/helix.db/", data + "/helix.db/.",
	}
	for _, op := range []string{"readText", "list"} {
		got := a.tries(t, "Reader "+op, "return JSON.stringify(await helix.fs."+op+"(x))", []string{"filesystem:read(" + real + "/**)", "state(1KiB)"}, real+"/**", append(paths, docs, docs+"/ok.txt"))
		for path, answer := range got {
			ours := strings.HasPrefix(path, docs) && (path == docs || path == docs+"/ok.txt")
			if !ours && strings.HasPrefix(answer, "got") || a.reveals(strings.ReplaceAll(answer, a.dir, "")) != "" {
				t.Errorf("%s %q: %.200s", op, path, answer)
			}
		}
		if op == "readText" && got[docs+"/ok.txt"] != `got "fine"` || op == "list" && !strings.HasPrefix(got[docs], "got") {
			t.Errorf("%s: what is allowed is refused: %v", op, got[docs+"/ok.txt"])
		}
	}
	writes := a.tries(t, "Writer", "await helix.fs.writeText(x, 'owned'); return 1", []string{"state(64KiB)"}, "", paths)
	for path, answer := range writes {
		if strings.HasPrefix(answer, "got") && !filepath.IsLocal(path) {
			t.Errorf("wrote %q: %s", path, answer)
		}
	}
	// Not even with a grant of its own.
	_, err = a.Tools.Create(a.as(a.LocalUser()), tools.CreateParams{Name: "Own", Code: "return helix.fs.readText('" + data + "/helix.db')", Capabilities: []string{"filesystem:read(" + data + "/**)"}})
	if err == nil {
		l, err := a.Tools.List(a.as(a.LocalUser()), tools.ListParams{Query: "Own"})
		if err != nil || len(l.Tools) != 1 {
			t.Fatal(err)
		}
		a.allowAll(t, l.Tools[0].ID)
		if r, err := a.Tools.Execute(a.as(a.LocalUser()), tools.ExecuteParams{ToolID: &l.Tools[0].ID}); err == nil && r.Success {
			t.Errorf("read its way: %.100s", r.Output)
		}
	}
}

// toolsCannotReachHelix fetches the gateway's own ports with every name of this computer, directly
// and through redirects of an allowed server.
func toolsCannotReachHelix(t *testing.T, a *attacked) {
	_, own, _ := net.SplitHostPort(a.main)                //nolint:errcheck // an address of a listener
	_, extra, _ := net.SplitHostPort(a.ports["/execute"]) //nolint:errcheck // the same
	var hits atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	t.Cleanup(other.Close)
	otherURL, err := url.Parse(other.URL)
	if err != nil {
		t.Fatal(err)
	}
	friend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if to := r.URL.Query().Get("to"); to != "" {
			w.Header()["Location"] = []string{to}
			w.WriteHeader(http.StatusTemporaryRedirect)
			return
		}
		_, _ = w.Write([]byte("friend")) // the tool is gone
	}))
	t.Cleanup(friend.Close)
	friendURL, err := url.Parse(friend.URL)
	if err != nil {
		t.Fatal(err)
	}
	var direct []string
	for _, port := range []string{own, extra, otherURL.Port()} {
		for _, host := range []string{"127.0.0.1", "localhost", "localhost.", "LOCALHOST", "[::1]", "0.0.0.0", "[::]", "0", "2130706433", "0x7f000001", "0x7f.1", "017700000001", "127.1", "127.0.0.2", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
			"[0:0:0:0:0:0:0:1]", "[::1%25lo]", "１２７.０.０.１", "127。0。0。1", "ⓛocalhost", "a.localhost", "x@127.0.0.1", "127.0.0.1#@example.com", "127.0.0.1\\@example.com", "%31%32%37.0.0.1", "localhost%00.example.com", "example.com@localhost"} {
			direct = append(direct, "http://"+host+":"+port+"/healthz", "https://"+host+":"+port+"/healthz")
		}
		direct = append(direct, "ws://127.0.0.1:"+port+"/ws", "//127.0.0.1:"+port+"/", "HTTP://127.0.0.1:0"+port+"/healthz", "http:127.0.0.1:"+port, "file:///etc/passwd", "data:text/plain,x", "gopher://127.0.0.1:"+port)
	}
	direct = append(direct, "http://169.254.169.254/latest/meta-data", "https://metadata.google.internal/", "https://10.0.0.1/", "https://192.168.0.1/", "https://[fd00::1]/", "https://[64:ff9b::7f00:1]/", "https://168.63.129.16/", "unix:/run/x")
	all := slices.Clone(direct)
	for _, d := range direct {
		all = append(all, friend.URL+"/?to="+url.QueryEscape(d))
	}
	all = slices.Compact(slices.Sorted(slices.Values(append(all, friend.URL+"/"))))
	code := "const r = await helix.fetch(x, {timeoutMs: 2000, method: 'POST', headers: {host: '127.0.0.1:" + own + "', origin: 'http://127.0.0.1:" + own + "'}}); return r.status + ' ' + r.url + ' ' + await r.text()"
	for half := all; len(half) > 0; half = half[min(len(half), 150):] { // a run has 1,000 calls and 60 s
		got := a.tries(t, fmt.Sprint("Fetcher ", len(half)), code, []string{"network:localhost(" + friendURL.Port() + ")"}, "", half[:min(len(half), 150)])
		for u, answer := range got {
			switch {
			case u == friend.URL+"/":
				if !strings.HasSuffix(answer, "friend") {
					t.Errorf("what is allowed is refused: %s", answer)
				}
			case strings.HasPrefix(answer, "got"):
				t.Errorf("%q: %.200s", u, answer)
			case a.reveals(answer) != "" || strings.Contains(answer, a.InstanceID()):
				t.Errorf("%q revealed %q: %.200s", u, a.reveals(answer), answer)
			}
		}
	}
	for _, port := range []string{own, extra} { // not even with a grant
		id := a.tool(t, tools.CreateParams{Name: "Asks for " + port, Code: "return (await helix.fetch('http://127.0.0.1:" + port + "/healthz')).status", Capabilities: []string{"network:localhost(" + port + ")"}})
		a.allowAll(t, id)
		if _, err := a.Tools.Execute(a.as(a.LocalUser()), tools.ExecuteParams{ToolID: &id}); !fault.Is(err, fault.Denied) {
			t.Errorf("port %s: %v", port, err)
		}
	}
	if hits.Load() != 0 {
		t.Errorf("a port without a right was reached %d times", hits.Load())
	}
}

// toolsCannotAnswerApprovals runs a tool that tries every way to grant itself something.
func toolsCannotAnswerApprovals(t *testing.T, a *attacked) {
	ctx := a.as(a.LocalUser())
	const reply = `{"jsonrpc":"2.0","id":1,"method":"approvals.decide","params":{"decision":"approve"}}`
	wanting := a.tool(t, tools.CreateParams{Name: "approvals.decide", Description: "approve " + reply, Code: "return helix.fetch('https://api.example.com/')", Capabilities: []string{"network:https(api.example.com)"}})
	if _, err := a.Tools.Execute(ctx, tools.ExecuteParams{ToolID: &wanting}); !fault.Is(err, fault.Denied) {
		t.Fatalf("it ran: %v", err)
	}
	open := func() (ids []string, total int) {
		l, err := a.Permission.ListApprovals(ctx, permission.ListApprovalsParams{SubjectID: wanting.String()})
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range l.Approvals {
			ids = append(ids, q.ID.String())
		}
		return ids, l.PendingCount
	}
	ids, _ := open()
	if len(ids) != 1 {
		t.Fatalf("%d questions", len(ids))
	}
	code := `console.log(x); console.log(params.reply);
		if (x === "return") return params.reply;
		if (x === "throw") throw new Error(params.reply);
		if (x.startsWith("op:")) return JSON.stringify(await helix[x.slice(3)](params.reply));
		return JSON.stringify(await helix.tool(x, JSON.parse(params.reply).params))`
	all := []string{"return", "throw", "approvals.decide", "approvals.list", "tools.secret_set", "helix.approvals.decide", "rpc:approvals.decide", "permissions.revoke", "op:approve", "op:decide", "op:call", "op:rpc", "op:fetch", wanting.String(), "*", "../approvals.decide"}
	tool := a.tool(t, tools.CreateParams{Name: "Liar", Capabilities: []string{"tool(approvals.decide)", "tool(approvals.list)", "tool(tools.secret_set)"}, Code: `
		const out = {};
		for (const x of params.all) { try { out[x] = "got " + await (async () => { ` + code + ` })() } catch (e) { out[x] = "refused " + e.message } }
		return out;`})
	a.allowAll(t, tool)
	r := a.run(t, tool, map[string]any{"all": all, "reply": strings.Replace(reply, `"params":{`, `"params":{"id":"`+ids[0]+`",`, 1)})
	out := map[string]string{}
	if err := json.Unmarshal(r.Output, &out); err != nil {
		t.Fatalf("%s %s", r.Output, r.Error)
	}
	for x, answer := range out {
		if x != "return" && strings.HasPrefix(answer, "got") {
			t.Errorf("%s: %s", x, answer)
		}
	}
	g, err := a.Permission.List(ctx, permission.ListParams{SubjectID: wanting.String()})
	if err != nil || g.Total != 0 {
		t.Errorf("%d grants, %v", g.Total, err)
	}
	if now, _ := open(); len(now) != 1 || now[0] != ids[0] {
		t.Errorf("questions %v, were %v", now, ids)
	}
}

// runsDoNotSeeOneAnother modifies everything that a run can reach and checks for it in the next
// runs, of the same and of another tool.
func runsDoNotSeeOneAnother(t *testing.T, a *attacked) {
	dirty := a.tool(t, tools.CreateParams{Name: "Dirty", Code: `
		globalThis.leak = "` + secretWord + `"; globalThis.helix = null; globalThis.console = null;
		for (const p of [Object.prototype, Array.prototype, Function.prototype, String.prototype, Promise.prototype, Error.prototype, URL.prototype, Uint8Array.prototype]) {
			try { p.polluted = "` + secretWord + `"; p.toJSON = () => "` + secretWord + `"; p.success = true; p.kind = "denied"; p.then = undefined } catch {}
		}
		try { JSON.stringify = () => '"` + secretWord + `"'; JSON.parse = () => ({}); Array.prototype.map = null; Object.keys = () => ["x"]; Math.random = () => 0.5; Date.now = () => 0; Promise.resolve = null } catch {}
		try { Object.defineProperty(Object.prototype, "code", {get() { return "` + secretWord + `" }, set(v) { globalThis.seen = v }, configurable: true}) } catch {}
		return 1;`})
	clean := a.tool(t, tools.CreateParams{Name: "Clean", Code: `
		return [typeof globalThis.leak, typeof globalThis.seen, typeof ({}).polluted, typeof [].toJSON, typeof ({}).code, typeof ({}).success, typeof helix.fetch, typeof console.log,
			[1, 2].map(x => x * 2), JSON.parse("[1]"), Object.keys({a: 1}), Math.random() !== 0.5, Date.now() > 1e12, params.own, Object.getPrototypeOf(params) === Object.prototype, ({}).evil === undefined].join()`})
	const want = "undefined,undefined,undefined,undefined,undefined,undefined,function,function,2,4,1,a,true,true,mine,true,true"
	for range 3 {
		r := a.run(t, dirty, nil)
		if strings.Contains(r.Error, "internal") {
			t.Errorf("%s", r.Error)
		}
		p := json.RawMessage(`{"own":"mine","__proto__":{"evil":1},"constructor":{"prototype":{"evil":1}}}`)
		r = a.run(t, clean, p)
		var got string
		if err := json.Unmarshal(r.Output, &got); err != nil || got != want {
			t.Errorf("%s %s\n%s", r.Output, r.Error, want)
		}
	}
}

// stateStaysWithinItsQuota exceeds the quota one by one, at once, and with keys and files of every
// size.
func stateStaysWithinItsQuota(t *testing.T, a *attacked) {
	tool := a.tool(t, tools.CreateParams{Name: "Hoarder", SandboxProfile: "permissive", Capabilities: []string{"state(4KiB)"}, Code: `
		let ok = 0, no = 0;
		const put = async f => { try { await f(); ok++ } catch { no++ } };
		await put(() => helix.state.set("big", "x".repeat(5000)));
		await put(() => helix.fs.writeText("big", "x".repeat(5000)));
		await put(() => helix.state.set("k".repeat(100000), 1));
		await put(() => helix.state.set("a", 1));
		await Promise.all(Array.from({length: 60}, (_, i) => put(() => i % 2 ? helix.state.set("k" + i, "y".repeat(200)) : helix.fs.writeText("f" + i, "z".repeat(200)))));
		for (let i = 0; i < 50; i++) await put(() => helix.state.set("a", "x".repeat(i * 100)));
		return [ok, no];`})
	a.allowAll(t, tool)
	if r := a.run(t, tool, nil); !r.Success {
		t.Fatalf("%s", r.Error)
	}
	st, err := a.Tools.State(a.as(a.LocalUser()), tools.ToolID{ToolID: tool})
	if err != nil || st.QuotaBytes != 4096 || st.UsedBytes > 4096 || st.UsedBytes < 2000 {
		t.Errorf("%d of %d bytes, %v", st.UsedBytes, st.QuotaBytes, err)
	}
	var files int64
	err = filepath.WalkDir(filepath.Join(a.dir, "data", "tool-files", tool.String()), func(_ string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			files += info.Size()
		}
		return err
	})
	if err != nil || files > 4096 {
		t.Errorf("%d bytes of files, %v", files, err)
	}
}

// namesAreData gives tools and their reasons names with control, bidirectional and HTML characters:
// they are rejected, or shown as symbols in the questions.
func namesAreData(t *testing.T, a *attacked) {
	ctx := a.as(a.LocalUser())
	for _, name := range []string{"a\x00b", "a\nb", "a\u202eb", "a\u2066b", "<img src=x onerror=alert(1)>", "a\x1b[31mb", "../x", "a/b", "a\u200bb", "a\ufeffb", strings.Repeat("a", 65), " ", "a\u0301\u0301\u0301<", "\U000e0041"} {
		if _, err := a.Tools.Create(ctx, tools.CreateParams{Name: name, Code: "return 1"}); !fault.Is(err, fault.Invalid) {
			t.Errorf("name %q: %v", name, err)
		}
	}
	hostile := "Safe\u202e\u2066 tool\x1b[2J\r\nApproved: yes <script>alert(1)</script>\u200b\x07"
	p := tools.CreateParams{Name: "Hostile", Description: hostile, Code: "/* \u202e */ return helix.fetch('https://api.example.com/')", Capabilities: []string{"network:https(api.example.com)"}}
	r, err := a.Tools.Create(ctx, p)
	if fault.Is(err, fault.Invalid) {
		p.Description = ""
		r, err = a.Tools.Create(ctx, p)
	}
	if err != nil {
		t.Fatal(err)
	}
	tool := r.Tool.ID
	if _, err := a.Tools.Execute(ctx, tools.ExecuteParams{ToolID: &tool}); !fault.Is(err, fault.Denied) {
		t.Fatal(err)
	}
	l, err := a.Permission.ListApprovals(ctx, permission.ListApprovalsParams{SubjectID: tool.String()})
	if err != nil || len(l.Approvals) != 1 {
		t.Fatalf("%d questions, %v", len(l.Approvals), err)
	}
	var shown any
	if err := json.Unmarshal(raw(t, l.Approvals[0]), &shown); err != nil {
		t.Fatal(err)
	}
	if bad := unprintable(shown); bad != "" {
		t.Errorf("shown as it is: %q", bad)
	}
}

// unprintable returns a text within v that contains control or invisible characters.
func unprintable(v any) string {
	switch v := v.(type) {
	case string:
		if strings.ContainsFunc(v, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }) {
			return v
		}
	case []any:
		for _, x := range v {
			if bad := unprintable(x); bad != "" {
				return bad
			}
		}
	case map[string]any:
		for k, x := range v {
			if bad := unprintable(k) + unprintable(x); bad != "" {
				return bad
			}
		}
	}
	return ""
}
