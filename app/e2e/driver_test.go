//go:build window && linux

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"helix/backend/testkit"
)

// program returns the path of the built window program.
func program(t *testing.T) string {
	t.Helper()
	p := os.Getenv("HELIX_WINDOW")
	if p == "" {
		t.Fatal("HELIX_WINDOW is not set; run `make test-window`")
	}
	return p
}

// patience is the time limit for waits without an event; it must only end before the test binary is
// stopped, so that the failure reports what was waited for.
const patience = 5 * time.Minute

// eventually polls until fn returns no error; it fails the test with the last one.
func eventually(t *testing.T, what string, fn func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := fn()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s did not happen: %v", what, err)
		}
		<-tick.C
	}
}

// desktop is a separate X server with a window manager and a session bus.
type desktop struct{ env []string }

var startDesktop = sync.OnceValues(func() (*desktop, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	x := exec.Command("Xvfb", "-displayfd", "3", "-screen", "0", "1400x1000x24", "-nolisten", "tcp")
	x.ExtraFiles = []*os.File{w}
	if err := start(x); err != nil {
		return nil, err
	}
	_ = w.Close()
	var n int
	if _, err := fmt.Fscan(r, &n); err != nil {
		return nil, fmt.Errorf("Xvfb gave no display: %w", err)
	}
	env := append(os.Environ(), fmt.Sprintf("DISPLAY=:%d", n), "LIBGL_ALWAYS_SOFTWARE=1", "NO_AT_BRIDGE=1", "WEBKIT_DISABLE_SANDBOX_THIS_IS_DANGEROUS=1", "GDK_BACKEND=x11")
	bus := exec.Command("dbus-daemon", "--session", "--print-address=1", "--nofork", "--nopidfile")
	bus.Env = env
	out, err := bus.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := start(bus); err != nil {
		return nil, err
	}
	var addr string
	if _, err := fmt.Fscan(out, &addr); err != nil {
		return nil, fmt.Errorf("no session bus: %w", err)
	}
	env = append(env, "DBUS_SESSION_BUS_ADDRESS="+addr)
	wm := exec.Command("openbox")
	wm.Env = env
	if err := start(wm); err != nil {
		return nil, err
	}
	return &desktop{env: env}, nil
})

var (
	startedMu sync.Mutex
	started   []*exec.Cmd
)

func start(c *exec.Cmd) error {
	if err := c.Start(); err != nil {
		return err
	}
	startedMu.Lock()
	started = append(started, c)
	startedMu.Unlock()
	return nil
}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, c := range started {
		_ = c.Process.Kill()
		_ = c.Wait()
	}
	os.Exit(code)
}

// shim builds the automation library once.
var shim = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "helix-e2e-*")
	if err != nil {
		return "", err
	}
	flags, err := exec.Command("pkg-config", "--cflags", "--libs", "webkit2gtk-4.1").Output()
	if err != nil {
		return "", fmt.Errorf("pkg-config webkit2gtk-4.1: %w", err)
	}
	lib := filepath.Join(dir, "automation.so")
	args := append([]string{"-shared", "-fPIC", "-o", lib, filepath.Join("testdata", "automation.c")}, strings.Fields(string(flags))...)
	if out, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the shim: %w\n%s", err, out)
	}
	return lib, nil
})

// window is one driven program.
type window struct {
	t       *testing.T
	base    string // address of the session
	dataDir string
	env     []string
	driver  *exec.Cmd
}

// launch starts the program with a new or given data folder and waits for its page.
func launch(t *testing.T, dataDir string, args ...string) *window {
	t.Helper()
	d, err := startDesktop()
	if err != nil {
		t.Fatal(err)
	}
	lib, err := shim()
	if err != nil {
		t.Fatal(err)
	}
	port := testkit.FreePort(t)
	// On a busy machine the first page may take longer than the program waits before it starts again
	// with another renderer; it has done so here.
	if err := errors.Join(os.MkdirAll(filepath.Join(dataDir, "state"), 0o700), os.WriteFile(filepath.Join(dataDir, "state", "window.json"), []byte(`{"noDmabuf":true}`), 0o600)); err != nil {
		t.Fatal(err)
	}

	w := &window{t: t, dataDir: dataDir, env: append(d.env, "HOME="+dataDir, "LD_PRELOAD="+lib)}
	w.driver = exec.Command("WebKitWebDriver", fmt.Sprintf("--port=%d", port))
	w.driver.Env = w.env
	w.driver.Stderr = os.Stderr
	if err := start(w.driver); err != nil {
		t.Fatal(err)
	}
	root := fmt.Sprintf("http://127.0.0.1:%d", port)
	eventually(t, "the driver's answer", func() error {
		_, err := request("GET", root+"/status", nil)
		return err
	})
	caps := map[string]any{"capabilities": map[string]any{"alwaysMatch": map[string]any{
		"webkitgtk:browserOptions": map[string]any{"binary": program(t), "args": append([]string{"--data-dir", dataDir}, args...)},
	}}}
	raw, err := request("POST", root+"/session", caps)
	if err != nil {
		t.Fatal(err)
	}
	var s struct{ SessionID string }
	if err := json.Unmarshal(raw, &s); err != nil || s.SessionID == "" {
		t.Fatalf("no session: %s", raw)
	}
	w.base = root + "/session/" + s.SessionID
	t.Cleanup(func() {
		_, _ = request("DELETE", w.base, nil) // a closed window answers "no such window"
		_ = w.driver.Process.Kill()
	})
	return w
}

func request(method, url string, body any) (json.RawMessage, error) {
	var r io.Reader
	if method == "POST" {
		if body == nil {
			body = map[string]any{}
		}
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		r = bytes.NewReader(b)
	}
	req, err := http.NewRequest(method, url, r)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	c := http.Client{Timeout: patience}
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var out struct{ Value json.RawMessage }
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s %s: %s", method, url, out.Value)
	}
	return out.Value, nil
}

// js runs a script in the page and decodes its result into out.
func (w *window) js(out any, script string, args ...any) error {
	if args == nil {
		args = []any{}
	}
	raw, err := request("POST", w.base+"/execute/sync", map[string]any{"script": script, "args": args})
	if err != nil || out == nil {
		return err
	}
	return json.Unmarshal(raw, out)
}

// waitText waits until the page's text contains s.
func (w *window) waitText(s string) {
	w.t.Helper()
	eventually(w.t, fmt.Sprintf("the text %q", s), func() error {
		var text string
		if err := w.js(&text, "return document.body ? document.body.innerText : ''"); err != nil {
			return err
		}
		if !strings.Contains(text, s) {
			return fmt.Errorf("the page says %.400q", text)
		}
		return nil
	})
}

// click clicks the first element that matches the CSS selector.
func (w *window) click(css string) {
	w.t.Helper()
	eventually(w.t, "a click on "+css, func() error {
		raw, err := request("POST", w.base+"/element", map[string]any{"using": "css selector", "value": css})
		if err != nil {
			return err
		}
		var el map[string]string
		if err := json.Unmarshal(raw, &el); err != nil {
			return err
		}
		for _, id := range el {
			_, err = request("POST", w.base+"/element/"+id+"/click", nil)
		}
		return err
	})
}

// screenshot saves the display, including the window frame, if HELIX_SHOTS is set to a folder. It
// uses the X server: WebKit's own screenshot waits for a next frame, which an idle page never
// draws.
func (w *window) screenshot(name string) {
	w.t.Helper()
	dir := os.Getenv("HELIX_SHOTS")
	if dir == "" {
		return
	}
	c := exec.Command("import", "-window", "root", filepath.Join(dir, "window-"+name+".png"))
	c.Env = w.env
	if out, err := c.CombinedOutput(); err != nil {
		w.t.Fatalf("screenshot (is imagemagick installed?): %v: %s", err, out)
	}
}
