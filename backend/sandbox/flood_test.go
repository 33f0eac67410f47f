package sandbox

import (
	"context"
	"encoding/json"
	"testing"
	"time"
)

// A tool that computes endlessly, in whatever form, or calls the host endlessly, is ended by the
// limit that it reaches: it is not reported as waiting, and the error has a message.
func TestEndlessWorkEndsWithItsLimit(t *testing.T) {
	t.Parallel()
	host := HostFunc(func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage("null"), nil
	})
	for _, text := range []string{
		"const loop = () => { Promise.resolve().then(loop) }; loop(); await new Promise(() => {})",
		"const loop = () => Promise.resolve().then(loop); return loop()",
		"const loop = () => { queueMicrotask(loop) }; loop(); await new Promise(() => {})",
		"const loop = async () => { await null; loop(); loop() }; await loop(); await new Promise(() => {})",
		"const all = []; const loop = () => { all.push({}); Promise.resolve().then(loop) }; loop(); await new Promise(() => {})",
		"const all = []; const loop = async () => { all.push(new Promise(() => {})); await null; await loop() }; await loop()",
		"for (;;) await null",
		"for await (const x of (async function* () { for (;;) yield 1 })());",
		"for (;;) helix.state.get('x').catch(() => {})",
		"for (;;) helix.fetch('http://127.0.0.1/').catch(() => {})",
		"for (;;) helix.fetch('http://127.0.0.1/')",
		"const all = []; for (;;) all.push(helix.fetch('http://127.0.0.1/' + all.length))",
		"const ask = () => { helix.state.get('a').then(ask, ask); helix.state.get('a').then(ask, ask) }; ask(); await new Promise(() => {})",
		"const ask = () => helix.tool('x').catch(() => Promise.all([ask(), ask()])); return ask()",
	} {
		for _, memory := range []int64{8 << 20, 11 << 20} {
			_, err := try(t, text, Call{Host: host, Limits: Limits{Wall: time.Minute, CPU: 100 * time.Millisecond, MemoryBytes: memory}})
			if err == nil || err.Class != ClassCPU && err.Class != ClassMemory {
				t.Errorf("%s\nwith %d MiB ends with %v", text, memory>>20, err)
			}
		}
	}
	wantClass(t, "throw null", Call{}, ClassThrown)
	wantClass(t, "await new Promise(() => {})", Call{}, ClassThrown)
}
