//go:build window && linux

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/app/autostart"
	"helix/app/tray/traytest"
)

// TestHiddenStart starts the program as the computer does, without a window, and lets it report by
// notifications; then it has no tray and asks before it quits.
func TestHiddenStart(t *testing.T) {
	dir := t.TempDir()
	exe, err := filepath.EvalSymlinks(program(t))
	if err != nil {
		t.Fatal(err)
	}
	d, err := startDesktop()
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, ".config")
	old, now := autostart.Linux(config, "/where/it/was/helix-desktop"), autostart.Linux(config, exe)
	if err := old.Set(true); err != nil {
		t.Fatal(err)
	}
	panel := traytest.StartPanel(t, d.Bus)
	service := traytest.StartNotifier(t, d.Bus)
	w := launch(t, dir, "--hidden")
	item := <-panel.Items
	w.waitText("Tools")
	c := w.client()
	call := func(out any, method string, params any) {
		t.Helper()
		if err := c.Call(t.Context(), method, params, out); err != nil {
			t.Fatal(err)
		}
	}
	next := func(t *testing.T, title string) (n traytest.Notification) {
		t.Helper()
		for n.Title != title { // others, such as that the window is hidden, may come first
			select {
			case n = <-service.Shown:
			case <-time.After(patience):
				t.Fatalf("%q was not shown", title)
			}
		}
		return n
	}

	t.Run("shows no window", func(t *testing.T) {
		w.t = t
		w.waitWindows(0)
	})

	t.Run("repairs the autostart entry of a program that was moved", func(t *testing.T) {
		file := filepath.Join(config, "autostart", autostart.AppID+".desktop")
		eventually(t, "the repair", func() error {
			b, err := os.ReadFile(file)
			if err == nil && !strings.Contains(string(b), exe) {
				err = fmt.Errorf("the entry is %s", b)
			}
			return err
		})
		if on, err := now.Enabled(); err != nil || !on {
			t.Errorf("enabled %v, %v", on, err)
		}
	})

	t.Run("a click on a notification opens what it is about", func(t *testing.T) {
		w.t = t
		var made struct{ SkillID string }
		call(&made, "skills.create_composite", map[string]any{"skill": map[string]any{"name": "Quiet work", "steps": []any{map[string]any{"stepId": "s", "toolType": "transform", "value": "the output"}}}})
		var run struct{ ExecutionID string }
		call(&run, "skills.execute_composite", map[string]any{"skillId": made.SkillID})
		n := next(t, "Skill finished")
		if n.Body != "Quiet work" {
			t.Errorf("the notification says %q", n.Body)
		}
		w.waitWindows(0)
		if err := service.Click(n.ID); err != nil {
			t.Fatal(err)
		}
		w.waitWindows(1)
		eventually(t, "the run", w.hash("#/activity/run/"+run.ExecutionID))
	})

	t.Run("links only read", w.links)

	t.Run("asks before it quits without a tray while a schedule is due", func(t *testing.T) {
		w.t = t
		var made struct{ Tool struct{ ID string } }
		call(&made, "tools.create", map[string]any{"name": "Soon", "code": "export default () => 1"})
		call(nil, "schedules.create", map[string]any{"name": "Soon", "target": map[string]any{"kind": "tool", "id": made.Tool.ID}, "cadence": map[string]any{"type": "interval", "everySecs": 1800}})
		w.entry(panel, item, "Quit Helix")
		if err := panel.Conn.Close(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the end of the tray", func() error {
			var state struct{ TrayHost bool }
			if call(&state, "app.state", struct{}{}); state.TrayHost {
				return errors.New("there is a tray")
			}
			return nil
		})
		w.waitWindows(1)
		pid := w.pid()
		w.closeWindow()
		w.waitText("Quit while work is running?")
		w.screenshot("ask")
		w.press("Keep running")
		w.gone("Quit while work is running?")
		w.closeWindow()
		w.waitText("Quit while work is running?")
		eventually(t, "the end of the program", func() error {
			if !alive(pid) {
				return nil // the answer to the click may have been lost with it
			}
			if err := w.tryPress("Quit"); err != nil {
				return err
			}
			return errors.New("still running")
		})
	})
}

// press clicks the button with this text, in the dialog if one is open.
func (w *window) press(text string) {
	w.t.Helper()
	eventually(w.t, "a click on "+text, func() error { return w.tryPress(text) })
}

func (w *window) tryPress(text string) error {
	const script = `const all = [...(document.querySelector("[role=dialog]") ?? document).querySelectorAll("button")];
		const b = all.find((b) => b.innerText.trim() === arguments[0] && !b.disabled); b?.click(); return b ? "" : all.map((b) => b.innerText.trim()).join(", ")`
	var others string
	if err := w.js(&others, script, text); err != nil {
		return err
	}
	if others != "" {
		return fmt.Errorf("the buttons are %s", others)
	}
	return nil
}

// gone waits until the page's text does not contain s.
func (w *window) gone(s string) {
	w.t.Helper()
	eventually(w.t, "the end of "+s, func() error {
		var text string
		if err := w.js(&text, "return document.body.innerText"); err != nil {
			return err
		}
		if strings.Contains(text, s) {
			return fmt.Errorf("the page says %.400q", text)
		}
		return nil
	})
}

// links follows links of every kind, good and bad. The page may only call methods that read, or that say with
// dryRun what they would do.
func (w *window) links(t *testing.T) {
	w.t = t
	var document struct {
		Methods []struct {
			Name  string
			Scope string `json:"x-scope"`
		}
	}
	c := w.client()
	if err := c.Call(t.Context(), "rpc.discover", struct{}{}, &document); err != nil {
		t.Fatal(err)
	}
	scopes := map[string]string{}
	for _, m := range document.Methods {
		scopes[m.Name] = m.Scope
	}
	if err := w.js(nil, `const b = window.go.app.Bridge, send = b.Send; window.__sent = [];
		b.Send = (session, frame) => { const { method, params } = JSON.parse(frame); if (!params?.dryRun) window.__sent.push(method); return send(session, frame); }`); err != nil {
		t.Fatal(err)
	}
	id := uuid.NewString()
	links := []string{"helix://chat/new", "helix://chat/" + id, "helix://tools/" + id, "helix://tools/shared/" + id, "helix://skills/" + id, "helix://runs/" + id, "helix://memory/" + id,
		"helix://approvals/" + id, "helix://sync/conflicts", "helix://settings", "helix://approvals/" + id + "/approve", "helix://tools/" + id + "?run=1", "helix://auth/callback?code=1&state=2", "javascript:alert(1)", "helix://settings/data"}
	if err := c.Call(t.Context(), "app.activate", map[string]any{"args": links}, nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the last link", w.hash("#/settings/data"))
	var sent []string
	eventually(t, "a call of a screen", func() error {
		if err := w.js(&sent, "return window.__sent"); err != nil {
			return err
		}
		if !slices.Contains(sent, "config.get") { // the settings, which the last link opens, read them
			return fmt.Errorf("the calls are %q", sent)
		}
		return nil
	})
	for _, m := range sent {
		if m == "app.focused" { // a link shows the window, which reports that it has the focus
			continue
		}
		if m != "" && scopes[m] != "read" {
			b, err := json.Marshal(sent)
			t.Errorf("%s has the scope %q; the calls are %s, %v", m, scopes[m], b, err)
		}
	}

	// A toast disappears by itself, so the page notes that it was there.
	const toast = "Helix doesn't recognize this link."
	if err := w.js(nil, `window.__refused = false;
		const [toast] = arguments;
		new MutationObserver(() => { window.__refused ||= document.body.innerText.includes(toast); }).observe(document.body, { childList: true, subtree: true, characterData: true });`, toast); err != nil {
		t.Fatal(err)
	}
	if err := c.Call(t.Context(), "app.activate", map[string]any{"args": []string{"helix://nothing/here"}}, nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the toast about a link that Helix doesn't know", func() error {
		var refused bool
		if err := w.js(&refused, "return window.__refused"); err != nil || !refused {
			return errors.Join(err, errors.New("it did not come"))
		}
		return nil
	})
}
