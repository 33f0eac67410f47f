package backend

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/gateway"
	"helix/backend/sandbox"
	"helix/backend/storage"
	"helix/backend/testkit"
	"helix/backend/tools"
	"helix/backend/wasmtools"
)

func wasmFile(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("tools", "testdata", "wasm", name+".wasm"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// executor is a backend with the additional port of POST /execute and a few skills.
type executor struct {
	*Backend
	urls  []string // of the main server and of the port that serves only /execute
	token string
	ids   map[string]uuid.UUID
}

func newExecutor(t *testing.T) *executor {
	t.Helper()
	port := testkit.FreePort(t)
	extra := fmt.Sprintf("http://127.0.0.1:%d", port)
	o := testOptions(t.TempDir())
	o.Extra = []gateway.Extra{{Port: port, Routes: map[string]string{"/execute": "/execute"}}}
	e := &executor{Backend: startWith(t, o), ids: map[string]uuid.UUID{}}
	e.urls = []string{e.Gateway.URL(), extra}
	var err error
	if e.token, _, err = e.Root.Token(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"echo", "trap", "spin", "call", "off"} {
		file := name
		if name == "off" {
			file = "echo"
		}
		r, err := e.WasmTools.CreateWasm(e.as(e.LocalUser()), wasmtools.CreateWasmParams{Name: name, Wasm: wasmFile(t, file), Origin: wasmtools.WasmLocal, TimeoutMs: 1000})
		if err != nil {
			t.Fatal(err)
		}
		e.ids[name] = r.Skill.ID
	}
	return e
}

// post sends a body and returns status, header and text of the response.
func (e *executor) post(t *testing.T, url, body string, head http.Header) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/execute", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range head {
		if req.Header[k] = v; k == "Host" {
			req.Host = v[0]
		}
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	if ct := r.Header.Get("Content-Type"); ct != "application/json" {
		t.Errorf("content type %q", ct)
	}
	return r.StatusCode, string(text)
}

func (e *executor) bearer() http.Header {
	return http.Header{"Authorization": {"Bearer " + e.token}}
}

func (e *executor) body(name, input string) string {
	if input != "" {
		input = `,"input":` + input
	}
	return `{"skill_id":"` + e.ids[name].String() + `"` + input + `}`
}

func TestPostExecute(t *testing.T) {
	t.Parallel()
	e := newExecutor(t)
	ctx := e.as(e.LocalUser())
	other, err := e.DB.AddUser(t.Context(), "Other")
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := e.WasmTools.CreateWasm(e.as(other.ID), wasmtools.CreateWasmParams{Name: "theirs", Wasm: wasmFile(t, "echo")})
	if err != nil {
		t.Fatal(err)
	}
	e.ids["foreign"], e.ids["unknown"] = foreign.Skill.ID, uuid.New()
	off := false
	if _, err := e.WasmTools.UpdateWasm(ctx, wasmtools.UpdateWasmParams{SkillID: e.ids["off"], Patch: wasmtools.WasmPatch{IsEnabled: &off}}); err != nil {
		t.Fatal(err)
	}
	wants := []string{"state"}
	if _, err := e.WasmTools.UpdateWasm(ctx, wasmtools.UpdateWasmParams{SkillID: e.ids["call"], Patch: wasmtools.WasmPatch{Capabilities: &wants}}); err != nil {
		t.Fatal(err)
	}
	gone, err := e.WasmTools.CreateWasm(ctx, wasmtools.CreateWasmParams{Name: "gone", Wasm: append(wasmFile(t, "echo"), 0, 2, 1, 'x'), Origin: wasmtools.WasmLocal})
	if err != nil {
		t.Fatal(err)
	}
	e.ids["gone"] = gone.Skill.ID
	if err := e.DB.Blobs().Each(func(r storage.Ref, _ time.Time) error {
		if "sha256:"+r.String() == gone.Skill.WasmBytecode {
			return e.DB.Blobs().Remove(r)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, url := range e.urls {
		for _, c := range []struct {
			name, body string
			status     int
			class      string
			text       string // part of the response
		}{
			{"input and output", e.body("echo", `{"a":[1,2,{"b":"ü"}]}`), 200, "", `{"success":true,"output":{"a":[1,2,{"b":"ü"}]}}`},
			{"no input", e.body("echo", ""), 200, "", `"output":{}`},
			{"null is an output", e.body("echo", "null"), 200, "", `"output":null`},
			{"the skill fails", e.body("trap", ""), 500, "trap", ""},
			{"the skill takes too long", e.body("spin", ""), 500, "timeout", ""},
			{"somebody else's", e.body("foreign", ""), 404, "not_found", "Skill not found."},
			{"unknown", e.body("unknown", ""), 404, "not_found", "Skill not found."},
			{"disabled", e.body("off", ""), 403, "host_denied", "disabled"},
			{"not granted", e.body("call", `{"op":"state.keys"}`), 403, "host_denied", "Approvals"},
			{"module is missing", e.body("gone", ""), 503, "unavailable", "module not downloaded yet"},
			{"not JSON", `{"skill_id":`, 400, "input", "expected"},
			{"a list", `[]`, 400, "input", "expected"},
			{"null", `null`, 400, "input", "expected"},
			{"empty", ``, 400, "input", "expected"},
			{"no id", `{"input":1}`, 400, "input", "skill_id"},
			{"not an id", `{"skill_id":"echo"}`, 400, "input", "skill_id"},
			{"an id in another form", `{"skill_id":"{` + e.ids["echo"].String() + `}"}`, 400, "input", "skill_id"},
			{"an id that is a number", `{"skill_id":7}`, 400, "input", "skill_id"},
			{"more members", `{"skill_id":"` + e.ids["echo"].String() + `","user_id":"x"}`, 400, "input", "only"},
			{"too large", `{"skill_id":"` + e.ids["echo"].String() + `","input":"` + strings.Repeat("x", 4<<20) + `"}`, 413, "input", "4 MiB"},
		} {
			status, text := e.post(t, url, c.body, e.bearer())
			var a struct {
				Success    bool
				Output     json.RawMessage
				Error      *string
				ErrorClass string `json:"error_class"`
			}
			if err := json.Unmarshal([]byte(text), &a); err != nil || status != c.status || a.ErrorClass != c.class || !strings.Contains(text, c.text) ||
				a.Success != (status == 200) || (a.Error == nil) != a.Success {
				t.Errorf("%s: %d %.300s (%v)", c.name, status, text, err)
			}
		}
		for _, c := range []struct {
			name   string
			head   http.Header
			status int
		}{
			{"no token", http.Header{}, 401},
			{"wrong token", http.Header{"Authorization": {"Bearer " + strings.Repeat("0", 64)}}, 401},
			{"foreign Origin", http.Header{"Authorization": {"Bearer " + e.token}, "Origin": {"https://evil.example"}}, 403},
			{"foreign Host", http.Header{"Authorization": {"Bearer " + e.token}, "Host": {"evil.example"}}, 403},
			{"from another site", http.Header{"Authorization": {"Bearer " + e.token}, "Sec-Fetch-Site": {"cross-site"}}, 403},
		} {
			if status, text := e.post(t, url, e.body("echo", "1"), c.head); status != c.status {
				t.Errorf("%s: %d %s", c.name, status, text)
			}
		}
	}
	if status, text := e.get(t, e.urls[1]+"/rpc"); status != 404 {
		t.Errorf("the port serves more than /execute: %d %s", status, text)
	}
	h, err := e.Tools.WasmExecutions(ctx, tools.SkillExecutionsParams{SkillID: e.ids["spin"]})
	if err != nil || len(h.Executions) != 2 || h.Executions[0].Status != wasmtools.SkillTimeout || h.Executions[0].MemoryUsedMb <= 0 {
		t.Errorf("history: %+v %v", h, err)
	}
}

func (e *executor) get(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = e.bearer()
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(b)
}

// Only this computer can reach the listeners: addresses of other interfaces do not respond.
func TestExecuteIsClosedToOtherComputers(t *testing.T) {
	t.Parallel()
	e := newExecutor(t)
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, a := range addrs {
		n, ok := a.(*net.IPNet)
		if !ok || n.IP.IsLoopback() || n.IP.IsLinkLocalUnicast() {
			continue
		}
		for _, u := range e.urls {
			_, port, _ := net.SplitHostPort(strings.TrimPrefix(u, "http://"))
			c, err := (&net.Dialer{Timeout: 2 * time.Second}).DialContext(t.Context(), "tcp", net.JoinHostPort(n.IP.String(), port))
			if err == nil {
				c.Close() //nolint:errcheck // nothing was sent
				t.Errorf("%s:%s is open", n.IP, port)
			}
			tried++
		}
	}
	if tried == 0 {
		t.Skip("this computer has no other address")
	}
}

// If the client disconnects, its run is canceled.
func TestExecuteEndsWithItsClient(t *testing.T) {
	t.Parallel()
	e := newExecutor(t)
	ctx := e.as(e.LocalUser())
	ms := int64(60_000)
	if _, err := e.WasmTools.UpdateWasm(ctx, wasmtools.UpdateWasmParams{SkillID: e.ids["spin"], Patch: wasmtools.WasmPatch{TimeoutMs: &ms}}); err != nil {
		t.Fatal(err)
	}
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(e.urls[0], "http://"))
	if err != nil {
		t.Fatal(err)
	}
	running, ended := make(chan struct{}), make(chan wasmtools.SkillStatus, 1)
	defer bus.Subscribe(e.Bus, func(_ uuid.UUID, x tools.SkillExecutionChanged) {
		if x.Seq == 1 {
			close(running)
		} else if x.Status != wasmtools.SkillRunning {
			ended <- x.Status
		}
	})()
	body := e.body("spin", "")
	if _, err := io.WriteString(c, "POST /execute HTTP/1.1\r\nHost: "+strings.TrimPrefix(e.urls[0], "http://")+"\r\nAuthorization: Bearer "+e.token+
		"\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"+body); err != nil {
		t.Fatal(err)
	}
	<-running
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case s := <-ended:
		if s != wasmtools.SkillCanceled {
			t.Errorf("it ended as %s", s)
		}
	case <-time.After(patience):
		t.Error("it goes on without its client")
	}
}

// The status of a call that produced no result.
func TestExecuteStatus(t *testing.T) {
	t.Parallel()
	queue := &sandbox.Error{Class: sandbox.ClassUnavailable, Message: "full", Details: sandbox.LimitDetail{Limit: sandbox.LimitQueue, Max: 256, Value: 256}}
	for _, c := range []struct {
		err    error
		status int
		class  string
	}{
		{fault.Invalidf("x"), 400, "input"},
		{fault.Deniedf("x"), 403, "host_denied"},
		{fault.NotFoundf("x"), 404, "not_found"},
		{fault.Limitf("x"), 429, "limit"},
		{queue, 429, "unavailable"},
		{fault.Unavailablef("%s", queue.Message).WithCause(queue), 429, "unavailable"},
		{fault.Unavailablef("x"), 503, "unavailable"},
		{fault.New(fault.Canceled, "x"), 500, "canceled"},
		{errors.New("x"), 500, "internal"},
	} {
		if got, class := executeStatus(c.err), executeClass(c.err); got != c.status || class != c.class {
			t.Errorf("%v: %d %s, want %d %s", c.err, got, class, c.status, c.class)
		}
	}
}

func FuzzReadExecute(f *testing.F) {
	for _, s := range []string{`{"skill_id":"0190a5c4-0000-7000-8000-000000000001","input":{"a":1}}`, `{"skill_id":null}`, `{"skill_id":"urn:uuid:0190a5c4-0000-7000-8000-000000000001"}`, `[]`, `{"input":`, "null", `{"skill_id":"x","skill_id":"y"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		p, err := readExecute(body)
		if err != nil {
			return
		}
		if p.SkillID == uuid.Nil || !json.Valid(body) || len(p.Input) > 0 && !json.Valid(p.Input) {
			t.Errorf("%q gives %+v", body, p)
		}
	})
}

// What a module writes to its standard output is its result and never reaches the program's own;
// the test is not parallel, because it replaces that.
func TestGuestOutputStaysInside(t *testing.T) { //nolint:paralleltest // see above
	e := newExecutor(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, errs := os.Stdout, os.Stderr
	os.Stdout, os.Stderr = w, w
	status, text := e.post(t, e.urls[0], e.body("echo", `"Zwiebelkuchen"`), e.bearer())
	os.Stdout, os.Stderr = out, errs
	w.Close() //nolint:errcheck // nothing is written to it any more
	leaked, err := io.ReadAll(r)
	if err != nil || status != 200 || !strings.Contains(text, "Zwiebelkuchen") {
		t.Fatalf("%d %s %v", status, text, err)
	}
	if strings.Contains(string(leaked), "Zwiebelkuchen") || strings.Contains(string(leaked), "echoing") {
		t.Errorf("leaked: %s", leaked)
	}
}

// The state of the sandbox is reported with the limits of each profile, and clearing the cache
// notifies all clients.
func TestSandboxStatus(t *testing.T) {
	t.Parallel()
	o := testOptions(t.TempDir())
	o.Flags["sandbox.minIsolation"] = "process+landlock"
	b := startWith(t, o)
	ctx := b.as(b.LocalUser())
	heard := make(chan wasmtools.SandboxChanged, 10)
	defer bus.Subscribe(b.Bus, func(user uuid.UUID, e wasmtools.SandboxChanged) {
		if user == uuid.Nil {
			heard <- e
		}
	})()
	s, err := b.WasmTools.SandboxStatus(ctx, struct{}{})
	if err != nil || !s.Ready || s.MinIsolation != "process+landlock" || len(s.Profiles) != 4 || s.Profiles[3].Name != "wasm" || s.Profiles[3].WallMs != 5000 ||
		s.Profiles[0].MemoryBytes != 64<<20 || s.Profiles[1].HostCalls != 1000 || len(s.Tiers) != 2 || !strings.HasPrefix(s.Isolation, "process") || s.Reasons == nil {
		t.Errorf("%+v %v", s, err)
	}
	if s.Cache.Modules == 0 {
		t.Errorf("nothing is in the cache: %+v", s.Cache)
	}
	r, err := b.WasmTools.SandboxClearCache(ctx, struct{}{})
	if err != nil || r.Modules != s.Cache.Modules || r.Bytes == 0 {
		t.Errorf("%+v %v", r, err)
	}
	for e := range heard { // an earlier state may be reported first
		if e.Status.Cache.Modules == 0 {
			break
		}
	}
	if s, err = b.WasmTools.SandboxStatus(ctx, struct{}{}); err != nil || s.Cache.Modules != 0 {
		t.Errorf("%+v %v", s.Cache, err)
	}
	// Cleared code is compiled again on demand.
	if x, err := b.Tools.RunCode(ctx, tools.RunCodeParams{Kind: tools.CodeJavaScript, Code: "return 1"}); err != nil || string(x.Output) != "1" {
		t.Errorf("%+v %v", x, err)
	}
}
