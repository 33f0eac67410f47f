//go:build window && linux

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"helix/backend/testkit"
)

// headless returns the path of the backend without a window: HELIX_BIN, or the one that make
// builds.
func headless(t *testing.T) string {
	t.Helper()
	p := os.Getenv("HELIX_BIN")
	if p == "" {
		p = filepath.Join("..", "..", "build", "bin", "helix")
	}
	p, err := filepath.Abs(p)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(p); err != nil {
		t.Fatalf("%v; run `make build`, or set HELIX_BIN", err)
	}
	return p
}

// served is a running `helix serve` and its ports.
type served struct {
	t     *testing.T
	bin   string
	dir   string
	env   []string
	pid   int
	url   string
	extra []string // addresses of the additional ports
}

// serve starts the backend with a temporary folder, without a keyring, with its additional port.
func serve(t *testing.T) *served {
	t.Helper()
	s := &served{t: t, bin: headless(t), dir: t.TempDir()}
	s.env = append(os.Environ(), "HOME="+s.dir, "DBUS_SESSION_BUS_ADDRESS=unix:path="+filepath.Join(s.dir, "none"))
	args := []string{"--data-dir", s.dir, "serve", "--addr", "127.0.0.1:0"}
	port := fmt.Sprint(testkit.FreePort(t))
	s.extra = append(s.extra, "http://127.0.0.1:"+port)
	args = append(args, "--sandbox-port", port)
	c := exec.Command(s.bin, args...)
	var out bytes.Buffer
	c.Env, c.Stdout, c.Stderr = s.env, &out, &out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		if err := c.Wait(); err != nil {
			t.Logf("helix serve: %v\n%s", err, out.String())
		}
	})
	eventually(t, "the backend", func() (err error) {
		s.pid, s.url, err = endpoint(s.dir)
		return err
	})
	return s
}

// helix runs a command of the command line as the owner and returns its standard output.
func (s *served) helix(args ...string) string {
	s.t.Helper()
	c := exec.Command(s.bin, append([]string{"--data-dir", s.dir, "--json"}, args...)...)
	c.Env = s.env
	var errs bytes.Buffer
	c.Stderr = &errs
	out, err := c.Output()
	if err != nil {
		s.t.Fatalf("helix %v: %v %s", args, err, errs.String())
	}
	return string(out)
}

// attempts is a page that tries everything that a page can send to each of the bases and reports
// the results: every value that is not "blocked" is a leak or an effect.
const attempts = `<!doctype html><meta charset=utf-8><title>A page of a stranger</title><body><script>
const bases = BASES, hosts = HOSTS, out = {};
const create = (name) => JSON.stringify({jsonrpc: "2.0", id: 1, method: "tools.create", params: {name, code: "return 1"}});
const within = (p) => Promise.race([p, new Promise((r) => setTimeout(r, 20000, "blocked"))]).catch(() => "blocked");
const loads = (tag, set) => within(new Promise((yes) => {
  const e = document.createElement(tag);
  e.onload = () => yes("loaded"); e.onerror = () => yes("blocked");
  set(e); document.body.append(e);
}));
async function all(b) {
  const ask = async (path, o) => { const r = await fetch(b + path, o); return r.status + " " + r.type + " " + await r.text(); };
  const jobs = {
    "fetch page": ask("/"), "fetch health": ask("/healthz"), "fetch document": ask("/openrpc.json"),
    "fetch with credentials": ask("/openrpc.json", {credentials: "include"}),
    "fetch with a token": ask("/openrpc.json", {headers: {authorization: "Bearer " + "0".repeat(64)}}),
    "no-cors page": ask("/", {mode: "no-cors"}), "no-cors health": ask("/healthz", {mode: "no-cors"}),
    "post json": ask("/rpc", {method: "POST", headers: {"content-type": "application/json"}, body: create("By fetch")}),
    "post text": ask("/rpc", {method: "POST", mode: "no-cors", headers: {"content-type": "text/plain"}, body: create("By text")}),
    "post session": ask("/session", {method: "POST", mode: "no-cors", body: JSON.stringify({ticket: "0".repeat(64)})}),
    "post execute": ask("/execute", {method: "POST", mode: "no-cors", body: "{}"}),
    "image": loads("img", (e) => { e.src = b + "/favicon.svg"; }), "blob": loads("img", (e) => { e.src = b + "/blobs/" + "ab".repeat(32) + "?exp=9999999999&sig=A"; }),
    "script": loads("script", (e) => { e.src = b + "/openrpc.json"; }), "asset": loads("script", (e) => { e.type = "module"; e.src = b + "ASSET"; }),
    "style": loads("link", (e) => { e.rel = "stylesheet"; e.href = b + "/"; }),
  };
  for (const path of ["/ws", "/sync"]) for (const protocol of ["helix.rpc.v1", undefined]) jobs["socket " + path + " " + protocol] = new Promise((yes) => {
    const w = protocol ? new WebSocket(b.replace("http", "ws") + path, protocol) : new WebSocket(b.replace("http", "ws") + path);
    w.onopen = () => { w.send(create("By socket")); }; w.onmessage = (m) => yes("heard " + m.data); w.onerror = () => yes("blocked");
  });
  jobs["events"] = new Promise((yes) => { const e = new EventSource(b + "/events"); e.onopen = () => yes("open"); e.onerror = () => { e.close(); yes("blocked"); }; });
  jobs["beacon"] = Promise.resolve(navigator.sendBeacon(b + "/rpc", create("By beacon")) && "blocked");
  jobs["form"] = new Promise((yes) => {
    const f = document.createElement("form"), i = document.createElement("iframe"), n = document.createElement("input");
    i.name = "f" + Math.random(); i.onload = () => { let t = "blocked"; try { t = "read " + i.contentDocument.body.textContent } catch {} if (t !== "read ") yes(t); };
    f.action = b + "/rpc"; f.method = "POST"; f.enctype = "text/plain"; f.target = i.name;
    n.name = create("By form").slice(0, -1) + ',"x":"'; n.value = '"}'; f.append(n); document.body.append(i, f); f.submit();
  });
  jobs["frame"] = new Promise((yes) => {
    const i = document.createElement("iframe");
    i.onload = () => { let t = "blocked"; try { t = "read " + i.contentDocument.documentElement.textContent } catch {} yes(t); };
    i.src = b + "/"; document.body.append(i);
  });
  const got = {};
  await Promise.all(Object.entries(jobs).map(async ([k, p]) => { got[k] = String(await within(p)); }));
  return got;
}
(async () => {
  await Promise.all(bases.map(async (b) => { out[b] = await all(b); }));
  await fetch("/report?" + location.hostname, {method: "POST", body: JSON.stringify(out)});
  const next = hosts[hosts.indexOf(location.hostname) + 1];
  if (next) location.hostname = next; // the same page under the next name
})();
</script>`

// stranger serves the page and receives its report.
type stranger struct {
	*httptest.Server
	page   string
	report chan report
}

// report contains the results of the page under the name host, by base and attempt.
type report struct {
	host string
	got  map[string]map[string]string
}

func newStranger(t *testing.T) *stranger {
	s := &stranger{report: make(chan report, 10)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/report" {
			var got map[string]map[string]string
			if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
				t.Error(err)
			}
			s.report <- report{r.URL.RawQuery, got}
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(s.page)) // the page is gone
	}))
	t.Cleanup(s.Close)
	return s
}

// careless is a server that accepts every page: the page's attempts must succeed there, otherwise
// the test would prove nothing.
func careless(t *testing.T) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Access-Control-Allow-Headers", "*")
		switch {
		case strings.HasSuffix(r.URL.Path, ".svg"):
			w.Header().Set("Content-Type", "image/svg+xml")
			_, _ = w.Write([]byte(`<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>`)) // the page has gone
		case strings.HasSuffix(r.URL.Path, ".json"):
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = w.Write([]byte("0")) // the same
		default:
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte("careless")) // the same
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// chromium opens address in a separate browser until done is closed or the time is over, and
// returns its output.
func chromium(t *testing.T, done <-chan struct{}, address string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := exec.CommandContext(ctx, "/usr/bin/chromium", append([]string{"--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-features=HttpsUpgrades,HttpsFirstBalancedModeAutoEnable,LocalNetworkAccessChecks", "--user-data-dir=" + t.TempDir(),
		"--host-resolver-rules=MAP rebound.example 127.0.0.1, MAP evil.example 127.0.0.1"}, append(args, address)...)...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) } // the process and its children
	c.WaitDelay = 10 * time.Second
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Start(); err != nil {
		t.Fatalf("no chromium: %v", err)
	}
	if done != nil {
		go func() {
			select {
			case <-done:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	if err := c.Wait(); err != nil && ctx.Err() == nil {
		t.Fatalf("chromium: %v\n%s", err, errs.String())
	}
	return out.String()
}

// TestCrossOriginPagesAreRefused opens a page from another port and from other names in a real
// browser while the backend runs. None of its attempts returns anything or has an effect.
func TestCrossOriginPagesAreRefused(t *testing.T) {
	s := serve(t)
	s.helix("tool", "list")
	before := [2]string{s.helix("tool", "list"), s.helix("rpc", "audit.list", "{}")}
	open := careless(t)
	page := newStranger(t)
	bases := append([]string{s.url, strings.Replace(s.url, "127.0.0.1", "localhost", 1), strings.Replace(s.url, "127.0.0.1", "rebound.example", 1), open.URL}, s.extra...)
	list, err := json.Marshal(bases)
	if err != nil {
		t.Fatal(err)
	}
	page.page = strings.NewReplacer("BASES", string(list), "HOSTS", `["127.0.0.1", "localhost", "evil.example"]`, "ASSET", s.asset()).Replace(attempts)
	done, reports := make(chan struct{}), []report{}
	go func() {
		defer close(done)
		for len(reports) < 3 {
			select {
			case r := <-page.report:
				reports = append(reports, r)
			case <-time.After(patience - 10*time.Second):
				return
			}
		}
	}()
	chromium(t, done, page.URL+"/")
	<-done
	if len(reports) != 3 || reports[0].host != "127.0.0.1" || reports[2].host != "evil.example" {
		t.Fatalf("the page reported %v", reports)
	}
	for _, r := range reports {
		for _, b := range bases {
			if len(r.got[b]) < 20 {
				t.Errorf("from %s: only %d attempts on %s", r.host, len(r.got[b]), b)
			}
			for what, answer := range r.got[b] {
				if b != open.URL && answer != "blocked" {
					t.Errorf("from %s, %s of %s: %.300s", r.host, what, b, answer)
				}
			}
		}
		for what, want := range map[string]string{"fetch page": "200 cors careless", "post json": "200 cors careless", "no-cors page": "0 opaque ", "image": "loaded", "script": "loaded"} {
			if got := r.got[open.URL][what]; got != want {
				t.Errorf("from %s: %s of the careless server gave %q", r.host, what, got)
			}
		}
	}
	after := [2]string{s.helix("tool", "list"), s.helix("rpc", "audit.list", "{}")}
	if after != before {
		t.Errorf("something happened:\n%s\n%s", before, after)
	}
}

// asset returns the address of the interface's own script.
func (s *served) asset() string {
	s.t.Helper()
	resp, err := http.Get(s.url + "/") //nolint:noctx // a short call
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(resp.Body); err != nil {
		s.t.Fatal(err)
	}
	_, rest, ok := strings.Cut(b.String(), `src="./assets/`) // not the script of the theme
	path, _, _ := strings.Cut(rest, `"`)
	if !ok {
		s.t.Fatalf("the interface is not built: %.300s", b.String())
	}
	return "/assets/" + path
}

// TestReboundNameSeesNoInterface opens Helix's own port under a name that was later bound to this
// computer: the page is refused, and the interface does not start.
func TestReboundNameSeesNoInterface(t *testing.T) {
	s := serve(t)
	for _, host := range []string{"rebound.example", "127.0.0.1"} {
		dom := chromium(t, nil, strings.Replace(s.url, "127.0.0.1", host, 1)+"/", "--dump-dom", "--virtual-time-budget=3000")
		own := strings.Contains(dom, "/assets/")
		if own != (host == "127.0.0.1") {
			t.Errorf("%s: %.500s", host, dom)
		}
		if host != "127.0.0.1" && !strings.Contains(dom, "only for programs on this computer") {
			t.Errorf("%s: not refused: %.500s", host, dom)
		}
	}
}

// TestTokenIsInNoProcessList reads the arguments and the environment of the running backend as
// another program on the computer can, and the files that lead to it.
func TestTokenIsInNoProcessList(t *testing.T) {
	s := serve(t)
	b, err := os.ReadFile(filepath.Join(s.dir, "state", "gateway-token"))
	if err != nil {
		t.Fatal(err)
	}
	token := strings.TrimSpace(string(b))
	_, ticket, ok := strings.Cut(s.helix("ui", "--print"), "#ticket=")
	if !ok || len(ticket) < 64 || len(token) != 64 {
		t.Fatalf("the token has %d characters, the ticket %d", len(token), len(ticket))
	}
	ticket = ticket[:64]
	for _, file := range []string{fmt.Sprintf("/proc/%d/cmdline", s.pid), fmt.Sprintf("/proc/%d/environ", s.pid), fmt.Sprintf("/proc/%d/comm", s.pid), filepath.Join(s.dir, "run", "endpoint.json")} {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
		}
		if bytes.Contains(content, []byte(token)) || bytes.Contains(content, []byte(ticket)) {
			t.Errorf("%s holds the token or a ticket", file)
		}
	}
	list, err := filepath.Glob(filepath.Join(s.dir, "*", "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range list {
		if content, err := os.ReadFile(file); err != nil || bytes.Contains(content, []byte(token)) {
			t.Errorf("%s: %v, or it holds the token", file, err)
		}
	}
}
