//go:build window

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
)

// builder opens a skill of 120 steps on the canvas: it keeps drawing while the canvas is moved and
// the selection changes. The time between frames is printed; HELIX_TIMED=1, for an otherwise idle
// machine, requires 32 ms for half of them.
func (w *window) builder(t *testing.T) {
	const most = 32
	steps := make([]map[string]any, 120)
	for i := range steps {
		steps[i] = map[string]any{"stepId": fmt.Sprintf("s%d", i), "toolType": "transform", "value": map[string]any{"n": i}}
		if i > 0 {
			steps[i]["value"] = map[string]any{"n": fmt.Sprintf("$.s%d.n", i-1)}
		}
	}
	var made struct{ SkillID string }
	w.call(&made, "skills.create_composite", map[string]any{"skill": map[string]any{"name": "A hundred and twenty steps", "steps": steps}})
	w.reload()
	if err := w.js(nil, "location.hash = arguments[0]", "#/skills/"+made.SkillID+"/edit"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the canvas", func() error {
		var there bool
		if err := w.js(&there, "return document.querySelectorAll('.svelte-flow__node').length > 3"); err != nil || !there {
			return errors.Join(err, errors.New("no nodes yet"))
		}
		return nil
	})
	w.screenshot("builder-120")
	for _, part := range []struct{ name, move string }{
		{"panning", `document.querySelector('.svelte-flow__pane').dispatchEvent(new WheelEvent('wheel', { deltaY: n % 200 < 100 ? 60 : -60, clientX: 500, clientY: 400, bubbles: true, cancelable: true }))`},
		{"walking", `document.querySelector('[data-flow]').dispatchEvent(new KeyboardEvent('keydown', { key: n % 200 < 100 ? 'ArrowDown' : 'ArrowUp', bubbles: true, cancelable: true }))`},
	} {
		script := `
			window.__frames = null;
			const times = [];
			let n = 0, last = performance.now();
			document.querySelector('[data-flow]').focus();
			const frame = (now) => {
				times.push(now - last);
				last = now;
				if (n++ === 150) { window.__frames = times.slice(5); return; }
				` + part.move + `;
				requestAnimationFrame(frame);
			};
			requestAnimationFrame(frame);`
		if err := w.js(nil, script); err != nil {
			t.Fatal(err)
		}
		var times []float64
		eventually(t, "150 frames", func() error {
			var raw json.RawMessage
			if err := w.js(&raw, "return window.__frames"); err != nil {
				return err
			}
			if string(raw) == "null" {
				return errors.New("not yet")
			}
			return json.Unmarshal(raw, &times)
		})
		slices.Sort(times)
		p50, p95 := times[len(times)/2], times[len(times)*95/100]
		t.Logf("%s: p50 %.1f ms, p95 %.1f ms between frames", part.name, p50, p95)
		if os.Getenv("HELIX_TIMED") != "" && p50 > most {
			t.Errorf("%s: half of the frames take more than %.1f ms, want %d", part.name, p50, most)
		}
	}
}
