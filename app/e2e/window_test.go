//go:build window && linux

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// endpoint reads the endpoint file of a data folder.
func endpoint(dir string) (pid int, url string, err error) {
	b, err := os.ReadFile(filepath.Join(dir, "run", "endpoint.json"))
	if err != nil {
		return 0, "", err
	}
	var e struct {
		PID int
		URL string
	}
	return e.PID, e.URL, errors.Join(json.Unmarshal(b, &e), nil)
}

func alive(pid int) bool {
	_, err := os.Stat(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil
}

// pid returns the process of the program that uses this window's data folder.
func (w *window) pid() int {
	w.t.Helper()
	out, err := exec.Command("pgrep", "-f", "--", "--data-dir "+w.dataDir).Output()
	if err != nil {
		return 0
	}
	for _, f := range strings.Fields(string(out)) {
		var n int
		if _, err := fmt.Sscan(f, &n); err != nil {
			continue
		}
		if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", n)); err == nil && strings.HasSuffix(exe, "helix-desktop") {
			return n
		}
	}
	return 0
}

// call makes one call through the page's own bridge, as a page script would.
func (w *window) call(out any, method string, params any) {
	w.t.Helper()
	p, err := json.Marshal(params)
	if err != nil {
		w.t.Fatal(err)
	}
	const script = `
		window.__answer = null;
		const [method, params] = arguments;
		window.go.app.Bridge.Open().then((session) => {
			const off = window.runtime.EventsOn("rpc", (id, frame) => {
				if (id !== session) return;
				const m = JSON.parse(frame);
				if (m.id === "e2e") { window.__answer = m; off(); }
			});
			return window.go.app.Bridge.Send(session, JSON.stringify({ jsonrpc: "2.0", id: "e2e", method, params: JSON.parse(params) }));
		}).catch((e) => { window.__answer = { error: { message: String(e) } }; });`
	if err := w.js(nil, script, method, string(p)); err != nil {
		w.t.Fatal(err)
	}
	var got struct {
		Result json.RawMessage
		Error  *struct{ Message string }
	}
	eventually(w.t, "the answer to "+method, func() error {
		var raw json.RawMessage
		if err := w.js(&raw, "return window.__answer"); err != nil {
			return err
		}
		if string(raw) == "null" {
			return errors.New("no answer yet")
		}
		return json.Unmarshal(raw, &got)
	})
	if got.Error != nil {
		w.t.Fatalf("%s: %s", method, got.Error.Message)
	}
	if err := json.Unmarshal(got.Result, out); err != nil {
		w.t.Fatal(err)
	}
}

// reload reloads the page, like the palette's Reload.
func (w *window) reload() {
	w.t.Helper()
	if _, err := w.request("POST", "/refresh", nil); err != nil {
		w.t.Fatal(err)
	}
}

var screens = []struct{ hash, text string }{
	{"#/tools", "Tools"}, {"#/skills", "Build a skill"}, {"#/schedules", "New schedule"}, {"#/approvals", "Waiting"}, {"#/activity", "Activity"}, {"#/settings", "Settings"},
}

// TestWindow tests the real window in one process: restarting it for each part would take most of
// the time.
func TestWindow(t *testing.T) {
	dir := t.TempDir()
	w := launch(t, dir)
	w.waitText("Tools")

	t.Run("the process of the window loads no graphics driver", func(t *testing.T) {
		maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", w.pid()))
		if err != nil {
			t.Fatal(err)
		}
		for _, driver := range []string{"/dri/", "libLLVM", "libEGL_mesa"} {
			if strings.Contains(string(maps), driver) {
				t.Errorf("%s is loaded", driver)
			}
		}
	})

	t.Run("every screen in light and dark", func(t *testing.T) {
		for _, theme := range []string{"light", "dark"} {
			if err := w.js(nil, "document.documentElement.dataset.theme = arguments[0]", theme); err != nil {
				t.Fatal(err)
			}
			for _, s := range screens {
				if err := w.js(nil, "location.hash = arguments[0]", s.hash); err != nil {
					t.Fatal(err)
				}
				w.waitText(s.text)
				w.screenshot(strings.TrimPrefix(s.hash, "#/") + "-" + theme)
			}
		}
	})

	t.Run("calls and events through the bridge", func(t *testing.T) {
		var made struct{ Tool struct{ ID string } }
		w.call(&made, "tools.create", map[string]any{"name": "From the window", "code": "export default (p) => p.n * 2"})
		var run struct {
			Success bool
			Output  json.Number
		}
		w.call(&run, "tools.execute_custom", map[string]any{"toolId": made.Tool.ID, "params": map[string]any{"n": 21}})
		if !run.Success || run.Output.String() != "42" {
			t.Fatalf("the tool gave %+v", run)
		}
		// The test took over the page's session; after a reload the page has a new one, and the
		// list shows what was created meanwhile.
		w.reload()
		if err := w.js(nil, "location.hash = '#/tools'"); err != nil {
			t.Fatal(err)
		}
		w.waitText("From the window")
	})

	t.Run("the builder stays usable", w.builder)

	t.Run("the walk of the README by keyboard", w.walk)

	t.Run("a second start hands over", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		second := exec.CommandContext(ctx, program(t), "--data-dir", dir)
		second.Env = w.env
		out, err := second.CombinedOutput()
		if err != nil {
			t.Fatalf("the second start failed: %v\n%s", err, out)
		}
	})

	t.Run("quitting leaves nothing behind", func(t *testing.T) {
		pid := w.pid()
		if pid == 0 {
			t.Fatal("the program is not running")
		}
		if err := exec.Command("kill", "-TERM", fmt.Sprint(pid)).Run(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the end of the program", func() error {
			if alive(pid) {
				return errors.New("still running")
			}
			return nil
		})
		if _, _, err := endpoint(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the endpoint file is still there: %v", err)
		}
		b, err := os.ReadFile(filepath.Join(dir, "state", "window.json"))
		if err != nil || !strings.Contains(string(b), `"w"`) {
			t.Errorf("the window's place was not remembered: %s, %v", b, err)
		}
	})
}

// TestDamagedDatabase checks that a start-up failure is shown in the window.
func TestDamagedDatabase(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "data", "helix.db"), []byte(strings.Repeat("this is not a database. ", 500)), 0o600); err != nil {
		t.Fatal(err)
	}
	w := launch(t, dir)
	w.waitText("damaged")
	w.screenshot("recovery")
}

// TestNoDisplay runs the program without a display.
func TestNoDisplay(t *testing.T) {
	for _, display := range []string{"DISPLAY=", "DISPLAY=:987", "WAYLAND_DISPLAY=gone"} { // nobody listens there
		c := exec.Command(program(t), "--data-dir", t.TempDir())
		c.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), display}
		out, err := c.CombinedOutput()
		if c.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "No display found. Use `helix serve`.") || strings.Contains(string(out), "goroutine") {
			t.Errorf("%s: exit %d, %v: %s", display, c.ProcessState.ExitCode(), err, out)
		}
	}
	c := exec.Command(program(t), "--version")
	c.Env = []string{"PATH=" + os.Getenv("PATH")}
	if out, err := c.Output(); err != nil || !strings.HasPrefix(string(out), "helix-desktop ") {
		t.Fatalf("--version: %v: %s", err, out)
	}
}
