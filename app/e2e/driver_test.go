//go:build window && linux

package e2e

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"helix/app/e2e/windowtest"
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

// The desktop and the shim are started and built once for all tests.
var (
	started      *windowtest.Desktop
	startDesktop = sync.OnceValues(func() (_ *windowtest.Desktop, err error) {
		started, err = windowtest.StartDesktop()
		return started, err
	})
	shimDir string
	shim    = sync.OnceValues(func() (string, error) { return windowtest.BuildShim(shimDir) })
)

func TestMain(m *testing.M) {
	var err error
	if shimDir, err = os.MkdirTemp("", "helix-e2e-*"); err != nil {
		panic(err)
	}
	code := m.Run()
	if started != nil {
		started.Close()
	}
	_ = os.RemoveAll(shimDir)
	os.Exit(code)
}

// window is one driven program.
type window struct {
	t       *testing.T
	session *windowtest.Session
	desktop *windowtest.Desktop
	dataDir string
	env     []string
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
	// On a busy machine the first page may take longer than the program waits before it starts again
	// with another renderer; it has done so here.
	if err := errors.Join(os.MkdirAll(filepath.Join(dataDir, "state"), 0o700), os.WriteFile(filepath.Join(dataDir, "state", "window.json"), []byte(`{"noDmabuf":true}`), 0o600)); err != nil {
		t.Fatal(err)
	}
	w := &window{t: t, desktop: d, dataDir: dataDir, env: append(append([]string{}, d.Env...), "HOME="+dataDir, "XDG_CONFIG_HOME=", "LD_PRELOAD="+lib)}
	w.session, err = windowtest.Drive(w.env, testkit.FreePort(t), patience, program(t), append([]string{"--data-dir", dataDir}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.session.Close)
	return w
}

// request sends a request of the W3C protocol.
func (w *window) request(method, path string, body any) (json.RawMessage, error) {
	return w.session.Request(method, path, body)
}

// js runs a script in the page and decodes its result into out.
func (w *window) js(out any, script string, args ...any) error {
	return w.session.JS(out, script, args...)
}

// waitText waits until the page's text contains s.
func (w *window) waitText(s string) {
	w.t.Helper()
	if err := w.session.WaitText(s); err != nil {
		w.t.Fatalf("the text %q did not come: %v", s, err)
	}
}

// click clicks the first element that matches the CSS selector.
func (w *window) click(css string) {
	w.t.Helper()
	if err := w.session.Click(css); err != nil {
		w.t.Fatalf("couldn't click %s: %v", css, err)
	}
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
