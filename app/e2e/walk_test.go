//go:build window

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

// walk goes the way of the README with the keyboard alone: a tool, a skill, an import, insights, a
// memo and the state of sync. The commands work on the open window, which shows what they did.
func (w *window) walk(t *testing.T) {
	helix := func(args ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		c := exec.CommandContext(ctx, headless(t), append([]string{"--data-dir", w.dataDir}, args...)...)
		c.Env = w.env
		out, err := c.Output()
		if err != nil {
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				err = fmt.Errorf("%w: %s", err, exit.Stderr)
			}
			t.Fatalf("helix %s: %v", strings.Join(args, " "), err)
		}
		return string(out)
	}
	dir := t.TempDir()

	helix("tool", "templates", "--new", "Text Counter")
	if out := helix("tool", "run", "Text Counter", "--input", `{"text":"to be or not to be"}`); !strings.Contains(out, `"words":6`) {
		t.Fatalf("the tool gave %s", out)
	}
	w.goTo("Tools", "Text Counter")

	skill, err := json.Marshal(map[string]any{"skill": map[string]any{"name": "Count words", "steps": []map[string]any{{"stepId": "count", "toolType": "custom", "toolName": "Text Counter", "parameters": map[string]any{"text": "a b c"}}}}})
	if err != nil {
		t.Fatal(err)
	}
	helix("rpc", "skills.create_composite", string(skill))
	if out := helix("skill", "run", "Count words"); !strings.Contains(out, `"words":3`) {
		t.Fatalf("the skill gave %s", out)
	}
	w.goTo("Skills", "Count words")

	notes := filepath.Join(dir, "notes.jsonl")
	if err := os.WriteFile(notes, diary(), 0o600); err != nil {
		t.Fatal(err)
	}
	helix("memory", "import", notes)
	w.goTo("Memory", "tomatoes")

	helix("synthesis", "--user-id", "me", "--limit", "10000")
	w.goTo("Insights", "tomatoes")

	memo := filepath.Join(dir, "memo.wav")
	if out, err := exec.Command("flite", "-t", "remember to water the tomatoes tomorrow", "-o", memo).CombinedOutput(); err != nil {
		t.Fatalf("flite: %v: %s", err, out)
	}
	helix("voice", "transcribe", "--store", memo)
	w.goTo("Voice", "tomorrow")

	if out := helix("sync", "status"); !strings.Contains(out, "off") {
		t.Fatalf("sync is %s", out)
	}
	w.goTo("Sync", "Connect")
}

// diary returns sixty entries about two topics.
func diary() []byte {
	entries := []string{
		"I watered the tomatoes in the garden before breakfast", "I ran five kilometers along the river this morning",
		"The tomato seedlings in the garden need more compost", "My running shoes are worn out after the long run",
		"We planted beans and tomatoes in the garden bed", "We ran the river loop and my knee felt fine",
		"The garden tomatoes are finally turning red", "The evening run along the river was cold but good",
	}
	var b strings.Builder
	for i := range 60 {
		fmt.Fprintf(&b, "{\"content\":\"%s, day %d.\",\"occurredAt\":\"2026-%02d-%02dT08:00:00Z\"}\n", entries[i%len(entries)], i, 1+i/28, 1+i%28)
	}
	return []byte(b.String())
}

// goTo opens a screen from the palette with the keyboard, and waits for its text.
func (w *window) goTo(screen, text string) {
	w.t.Helper()
	w.keys("\uE009k")
	eventually(w.t, "the palette", func() error {
		var focused bool
		if err := w.js(&focused, `return document.activeElement?.closest("[role=dialog]") !== null && document.activeElement?.matches("input") === true`); err != nil || !focused {
			return errors.Join(err, errors.New("its field has no focus"))
		}
		return nil
	})
	w.keys("Go to " + screen)
	eventually(w.t, "the entry of "+screen, func() error {
		var first string
		if err := w.js(&first, `return document.querySelector("[role=dialog] [role=option][aria-selected=true]")?.textContent ?? ""`); err != nil || !strings.Contains(first, screen) {
			return errors.Join(err, fmt.Errorf("the palette has chosen %q", first))
		}
		return nil
	})
	w.keys("\uE007")
	w.waitText(text)
	w.screenshot("walk-" + strings.ToLower(screen))
}

// keys presses keys one after the other. A first key of Control is held during the others.
func (w *window) keys(text string) {
	w.t.Helper()
	key := func(kind string, k rune) map[string]string {
		return map[string]string{"type": kind, "value": string(k)}
	}
	const control = '\uE009'
	var actions []map[string]string
	held := strings.HasPrefix(text, string(control))
	for _, k := range strings.TrimPrefix(text, string(control)) {
		actions = append(actions, key("keyDown", k), key("keyUp", k))
	}
	if held {
		actions = append(append([]map[string]string{key("keyDown", control)}, actions...), key("keyUp", control))
	}
	if _, err := w.request("POST", "/actions", map[string]any{"actions": []map[string]any{{"type": "key", "id": "keyboard", "actions": actions}}}); err != nil {
		w.t.Fatal(err)
	}
}
