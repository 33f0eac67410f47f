//go:build window && linux

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"helix/app/tray/traytest"
	"helix/backend"
	"helix/backend/gateway"
)

// windows counts the visible windows of the program.
func (w *window) windows() (int, error) {
	all, err := w.desktop.Windows(w.pid())
	return len(all), err
}

func (w *window) waitWindows(want int) {
	w.t.Helper()
	eventually(w.t, fmt.Sprintf("%d windows", want), func() error {
		n, err := w.windows()
		if err == nil && n != want {
			err = fmt.Errorf("%d windows", n)
		}
		return err
	})
}

// closeWindow presses the close button of the window's frame.
func (w *window) closeWindow() {
	w.t.Helper()
	c := exec.Command("sh", "-c", fmt.Sprintf(`xdotool windowactivate --sync $(xdotool search --onlyvisible --pid %d --name '^Helix$' | head -1) key alt+F4`, w.pid()))
	c.Env = w.env
	if out, err := c.CombinedOutput(); err != nil {
		w.t.Fatalf("close the window: %v: %s", err, out)
	}
}

// entry waits for an entry of the tray's menu and returns its number.
func (w *window) entry(p *traytest.Panel, item, label string) (id int32) {
	w.t.Helper()
	eventually(w.t, "the entry "+label, func() error {
		shown, ids := p.Layout(item)
		n, ok := ids[label]
		if !ok {
			return fmt.Errorf("the menu is %+v", shown)
		}
		id = n
		return nil
	})
	return id
}

// choose clicks an entry until done reports its effect: the tray drops a click that comes too early.
func (w *window) choose(p *traytest.Panel, item, label string, done func() error) {
	w.t.Helper()
	if err := p.Click(item, w.entry(p, item, label)); err != nil {
		w.t.Fatal(err)
	}
	eventually(w.t, "the effect of "+label, done)
}

// client is a session of its own: the bridge has one, which the page needs here.
func (w *window) client() *gateway.Client {
	w.t.Helper()
	other, err := backend.Running(w.t.Context(), backend.Options{DataDir: w.dataDir})
	if err != nil || other == nil {
		w.t.Fatalf("the backend does not answer: %v", err)
	}
	c, err := gateway.Dial(w.t.Context(), other.ClientOptions("e2e"))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

func (w *window) hash(want string) func() error {
	return func() error {
		var at string
		if err := w.js(&at, "return location.hash"); err != nil {
			return err
		}
		if !strings.HasPrefix(at, want) {
			return errors.New("the page is at " + at)
		}
		return nil
	}
}

// TestTray drives the icon as a panel does: every kind of entry, and what closing the window does
// with and without a panel.
func TestTray(t *testing.T) {
	dir := t.TempDir()
	w := launch(t, dir)
	w.waitText("Tools")
	panel := traytest.StartPanel(t, w.desktop.Bus) // late: the icon registers itself then
	item := <-panel.Items
	has := func(label string) func() error {
		return func() error {
			shown, ids := panel.Layout(item)
			if _, ok := ids[label]; !ok {
				return fmt.Errorf("the menu is %+v", shown)
			}
			return nil
		}
	}
	eventually(t, "the gateway in the menu", has("Gateway: Running"))

	t.Run("entries work", func(t *testing.T) {
		w.t = t
		w.choose(panel, item, "Settings", w.hash("#/settings"))
		w.choose(panel, item, "Approvals", w.hash("#/approvals"))
		w.choose(panel, item, "New Chat", w.hash("#/chat"))
		w.choose(panel, item, "Pause Background Work > Until I resume", has("Resume Background Work"))
		w.waitText("Background work is paused")
		w.choose(panel, item, "Resume Background Work", has("Pause Background Work > For 1 hour"))
		var made struct{ SkillID string }
		c := w.client()
		call := func(out any, method string, params any) {
			t.Helper()
			if err := c.Call(t.Context(), method, params, out); err != nil {
				t.Fatal(err)
			}
		}
		call(&made, "skills.create_composite", map[string]any{"skill": map[string]any{"name": "From the tray", "steps": []any{map[string]any{"stepId": "s", "toolType": "transform", "value": 42}}}})
		call(nil, "app.pin_skill", map[string]any{"skillId": made.SkillID, "pinned": true})
		w.choose(panel, item, "Run Skill > From the tray", func() error {
			var h struct{ Executions []struct{ Status string } }
			if call(&h, "skills.history", map[string]any{"skillId": made.SkillID}); len(h.Executions) == 0 || h.Executions[0].Status != "completed" {
				return fmt.Errorf("runs %+v", h.Executions)
			}
			return nil
		})
		w.choose(panel, item, "Restart Gateway", has("Gateway: Running"))
	})

	t.Run("closing hides to the tray", func(t *testing.T) {
		w.t = t
		w.waitWindows(1)
		w.closeWindow()
		w.waitWindows(0)
		w.choose(panel, item, "Show Window", func() error { return nil })
		w.waitWindows(1)
		w.choose(panel, item, "Hide Window", func() error { return nil })
		w.waitWindows(0)
	})

	t.Run("twenty starts with links reach the one window", func(t *testing.T) {
		w.t = t
		var wg sync.WaitGroup
		errs := make([]error, 20)
		for i := range errs {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				c := exec.CommandContext(ctx, program(t), "--data-dir", dir, "helix://approvals")
				c.Env = w.env
				if out, err := c.CombinedOutput(); err != nil {
					errs[i] = fmt.Errorf("%w: %s", err, out)
				}
			})
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		w.waitWindows(1)
		eventually(t, "the link", w.hash("#/approvals"))
	})

	t.Run("the window returns when the panel ends", func(t *testing.T) {
		w.t = t
		w.choose(panel, item, "Hide Window", func() error { return nil })
		w.waitWindows(0)
		if err := panel.Conn.Close(); err != nil {
			t.Fatal(err)
		}
		w.waitWindows(1)
	})

	t.Run("closing without a panel quits", func(t *testing.T) {
		w.t = t
		pid := w.pid()
		w.closeWindow()
		eventually(t, "the end of the program", func() error {
			if alive(pid) {
				return errors.New("still running")
			}
			return nil
		})
	})
}
