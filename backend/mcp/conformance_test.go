//go:build conformance && linux

package mcp

import (
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"gopkg.in/yaml.v3"

	"helix/backend/bus"
	"helix/backend/callable"
	"helix/backend/oauth"
	"helix/backend/storage"
	"helix/backend/testkit"
)

// scenario is set by the conformance suite for the client that it starts.
const scenario = "MCP_CONFORMANCE_SCENARIO"

// conform runs the scenarios of the conformance suite for a client or a server, each as a test. Those
// that fail must be the listed ones.
func conform(t *testing.T, mode string, args ...string) {
	dir, err := filepath.Abs("../../build/mcp-conformance")
	if err != nil {
		t.Fatal(err)
	}
	suite := func(args ...string) *exec.Cmd {
		cmd := exec.Command(dir+"/node_modules/.bin/node", append([]string{dir + "/node_modules/.bin/conformance"}, args...)...)
		cmd.Env = append(os.Environ(), "NO_COLOR=1")
		return cmd
	}
	text, err := os.ReadFile(dir + "/expected-failures.yml")
	if err != nil {
		t.Fatal(err)
	}
	var expected map[string][]string
	if err := yaml.Unmarshal(text, &expected); err != nil {
		t.Fatal(err)
	}
	list, err := suite("list", "--"+mode).Output()
	if err != nil {
		t.Fatalf("run make test-mcp-conformance: %v", err)
	}
	names := []string{}
	for line := range strings.Lines(string(list)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "- "); ok {
			names = append(names, strings.Fields(name)[0])
		}
	}
	for _, name := range expected[mode] {
		if !slices.Contains(names, name) {
			t.Errorf("%s is expected to fail, but is no scenario", name)
		}
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := t.TempDir()
			text, err := suite(append([]string{mode, "--scenario", name, "--output-dir", out}, args...)...).CombinedOutput()
			passed, failed := checks(t, out)
			t.Logf("%d passed, failed: %q", passed, failed)
			switch known := slices.Contains(expected[mode], name); {
			case known && len(failed) == 0 && passed > 0:
				t.Error("passed, but is listed in expected-failures.yml")
			case !known && (len(failed) > 0 || passed == 0):
				t.Errorf("%v\n%s", err, text)
			}
		})
	}
}

// checks reads what a scenario found. A check of the time between two requests is left out, because
// it fails on a busy machine.
func checks(t *testing.T, dir string) (passed int, failed []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.Name() != "checks.json" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var list []struct{ ID, Status, ErrorMessage string }
		if err := json.Unmarshal(text, &list); err != nil {
			return err
		}
		for _, c := range list {
			switch {
			case c.Status == "SUCCESS":
				passed++
			case c.ID != "client-sse-retry-timing" && (c.Status == "FAILURE" || c.Status == "WARNING"):
				failed = append(failed, c.ID+": "+c.ErrorMessage)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return passed, failed
}

// TestServerConformance runs the server scenarios against helix serve, which HELIX_BIN names, with
// tools that the scenarios call.
func TestServerConformance(t *testing.T) {
	bin := os.Getenv("HELIX_BIN")
	if bin == "" {
		t.Fatal("run make test-mcp-conformance")
	}
	data := t.TempDir()
	command := func(args ...string) *exec.Cmd {
		cmd := exec.Command(bin, append([]string{"--data-dir", data}, args...)...)
		cmd.Env, cmd.Stderr = append(os.Environ(), "HELIX_MCP_SERVE_HTTP=true"), os.Stderr
		return cmd
	}
	serve := command("serve", "--addr", "127.0.0.1:0", "--no-link")
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = serve.Process.Signal(os.Interrupt)
		_ = serve.Wait() // ended by the signal
	})
	testkit.Eventually(t, "the start", func() error { _, err := os.Stat(filepath.Join(data, "run", "endpoint.json")); return err }, func(err error) bool { return err == nil })
	rpc := func(method string, params, out any) {
		b, err := json.Marshal(params)
		if err != nil {
			t.Fatal(err)
		}
		text, err := command("rpc", method, string(b)).Output()
		if err == nil {
			err = json.Unmarshal(text, out)
		}
		if err != nil {
			t.Fatalf("%s: %v", method, err)
		}
	}
	for name, code := range map[string]string{
		"test_simple_text":         `return "This is a simple text response for testing."`,
		"test_error_handling":      `throw new Error("This tool intentionally returns an error for testing")`,
		"json_schema_2020_12_tool": `return null`,
	} {
		schema := `{"type":"object"}`
		if strings.HasPrefix(name, "json") {
			schema = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","$defs":{"address":{"type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}},"properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"}},"additionalProperties":false}`
		}
		rpc("tools.create", map[string]any{"name": name, "code": code, "description": "For the conformance suite.", "parameters": json.RawMessage(schema)}, &struct{}{})
		rpc("mcp.expose", ExposeParams{ExposeTool, name, true}, &struct{}{})
	}
	var exposed ExposedResult
	rpc("mcp.exposed", struct{}{}, &exposed)
	var made struct{ Token string }
	rpc("tokens.create", map[string]any{"name": "suite", "scopes": []string{"write"}}, &made)

	// The suite has no token, so this adds it. It passes on the names that a foreign page would send.
	target := strings.TrimSuffix(strings.TrimPrefix(exposed.URL, "http://"), "/mcp")
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", target, r.In.Host
		if own := r.In.Context().Value(http.LocalAddrContextKey).(net.Addr).String(); r.In.Host == own {
			r.Out.Host = target
			if r.In.Header.Get("Origin") == "http://"+own {
				r.Out.Header.Set("Origin", "http://"+target)
			}
		}
		r.Out.Header.Set("Authorization", "Bearer "+made.Token)
	}, FlushInterval: -1})
	t.Cleanup(func() { proxy.CloseClientConnections(); proxy.Close() })
	t.Run("scenarios", func(t *testing.T) { conform(t, "server", "--url", proxy.URL+"/mcp") })
}

// TestClientConformance runs the client scenarios. The suite starts this program again as the client
// of each.
func TestClientConformance(t *testing.T) {
	if os.Getenv(scenario) != "" {
		conformingClient(t, flag.Arg(0))
		return
	}
	conform(t, "client", "--timeout", "300000", "--command", os.Args[0]+" -test.run=^TestClientConformance$")
}

// conformingClient uses a server as a person with Helix does: adds it, signs in when it asks for that,
// approves its tools, calls each and answers what it asks.
func conformingClient(t *testing.T, url string) {
	var given struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
	}
	_ = json.Unmarshal([]byte(os.Getenv("MCP_CONFORMANCE_CONTEXT")), &given) // few scenarios have one
	e := setup(t, func(o *Options) { o.Version = "1.0.0" })
	e.s.o.OAuth = oauth.New(oauth.Options{DB: e.db, Secrets: storage.NewSecrets(e.db), Logger: discard})
	t.Cleanup(func() { e.s.Close(); e.s.o.OAuth.Close() })
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	ended := make(chan AuthChanged, 1)
	t.Cleanup(bus.Subscribe(e.db.Bus(), func(_ uuid.UUID, a AuthChanged) { ended <- a }))
	if _, err := e.s.Add(e.ctx, AddParams{Server{Name: "remote", URL: url}}); err != nil {
		t.Fatal(err)
	}
	signIns := 0
	// signedIn repeats what needs a sign-in. A person gives up after the third.
	signedIn := func(fn func() error) error {
		for {
			err := fn()
			if r, _ := e.s.GetServer(e.ctx, NameParams{"remote"}); err == nil || r.State != StateNeedsAuth || signIns == 3 {
				return err
			}
			signIns++
			f, err := e.s.AuthStart(e.ctx, AuthStartParams{Name: "remote", ClientID: given.ID, ClientSecret: given.Secret})
			if err != nil {
				return err
			}
			page, err := http.Get(f.AuthURL)
			if err != nil {
				return err
			}
			page.Body.Close()
			if a := <-ended; a.State != AuthReady {
				return fmt.Errorf("the sign-in ended: %s", a.Error)
			}
		}
	}
	if err := signedIn(func() error { _, err := e.s.Start(e.ctx, NameParams{"remote"}); return err }); err != nil {
		t.Fatal(err)
	}
	for _, name := range e.approve("remote", "*").Tools {
		input := map[string]string{"add_numbers": `{"a":5,"b":3}`}[name]
		if err := signedIn(func() error { return e.callAndAccept("remote."+name, input) }); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// callAndAccept calls a tool, and sends the forms of its server as they are filled in by default.
func (e *env) callAndAccept(id, input string) (err error) {
	end := make(chan struct{})
	go func() {
		defer close(end)
		_, err = e.reg.Call(e.ctx, callable.Ref{Kind: Kind, ID: id}, callable.Request{Input: json.RawMessage(input), Caller: callable.Caller{Kind: "skill", Attended: true}})
	}()
	testkit.Eventually(e, "the end of "+id, func() bool {
		select {
		case <-end:
			return true
		default:
		}
		for _, q := range e.asked() {
			if err := e.answer(&q, "approve", defaults(q.Question.Form)); err != nil {
				e.Error(err)
			}
		}
		return false
	}, func(ended bool) bool { return ended })
	return err
}

// defaults returns the answer that a form has before anyone changes it.
func defaults(form json.RawMessage) string {
	var f struct {
		Properties map[string]struct{ Default any }
	}
	_ = json.Unmarshal(form, &f) // a question may have no form
	out := map[string]any{}
	for name, p := range f.Properties {
		if p.Default != nil {
			out[name] = p.Default
		}
	}
	b, _ := json.Marshal(out) //nolint:errchkjson // values that were JSON
	return string(b)
}
