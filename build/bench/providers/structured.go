package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"helix/backend/providers"
	"helixbench/figures"
)

// said is a model that always gives the same answer.
type said providers.Reply

// Complete implements providers.Completer.
func (s said) Complete(context.Context, providers.Request) (providers.Reply, error) {
	return providers.Reply(s), nil
}

// HoldsToSchema implements providers.Completer.
func (said) HoldsToSchema(context.Context, providers.Request) bool { return true }

// validate reads and checks an answer of 4 KB in the way of every structured answer, compared with
// JSON.parse and a function compiled by ajv. Times are processor time. Both collect garbage after
// about 16 MiB: that is Node's young generation, and as much memory is held here, because Go's
// collections depend on the live heap, which is larger in a backend.
func validate() {
	const doc = `{"type":"object","additionalProperties":false,"required":["patterns"],"properties":{"patterns":{"type":"array","maxItems":50,"items":{"type":"object","additionalProperties":false,
"required":["type","layer","description","confidence","evidence"],"properties":{"type":{"enum":["goal","habit","value"]},"layer":{"type":"integer","minimum":1,"maximum":7},"description":{"type":"string","minLength":1,"maxLength":500},
"confidence":{"type":"number","minimum":0,"maximum":1},"evidence":{"type":"array","items":{"type":"object","additionalProperties":false,"required":["id","quote"],"properties":{"id":{"type":"string","pattern":"^t[0-9]+$"},"quote":{"type":"string"}}}}}}}}}`
	var patterns []any
	for size := 0; size < 4000; {
		p := map[string]any{"type": "goal", "layer": 1 + len(patterns)%7, "description": strings.Repeat("You want to run. ", 8), "confidence": 0.25,
			"evidence": []any{map[string]any{"id": "t1", "quote": "I want to run a marathon."}, map[string]any{"id": "t22", "quote": "Bought shoes."}}}
		b, err := json.Marshal(p)
		figures.Check(err)
		size += len(b)
		patterns = append(patterns, p)
	}
	answer, err := json.Marshal(map[string]any{"patterns": patterns})
	figures.Check(err)
	model := said{Reason: providers.FinishStop, Parts: []providers.Part{providers.TextPart(string(answer))}}
	const repeat = 200
	held := make([]byte, 16<<20)
	defer runtime.KeepAlive(held)
	runtime.GC()
	var mine []float64
	for range 15 {
		began := cpu()
		for range repeat {
			_, report, err := providers.Structured(context.Background(), model, providers.Request{}, json.RawMessage(doc), true, nil)
			figures.Check(err)
			if report.Attempts != 1 {
				figures.Check(fmt.Errorf("%+v", report))
			}
		}
		mine = append(mine, (cpu()-began)/repeat)
	}
	slices.Sort(mine)
	dir, err := os.MkdirTemp("", "helix-bench-")
	figures.Check(err)
	defer os.RemoveAll(dir)
	figures.Check(os.WriteFile(filepath.Join(dir, "schema.json"), []byte(doc), 0o600))
	figures.Check(os.WriteFile(filepath.Join(dir, "answer.json"), answer, 0o600))
	out, err := exec.Command("node", "providers/validate.mjs", dir).Output()
	figures.Check(err)
	peer, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	figures.Check(err)
	figures.Print("structured.validate", mine[len(mine)/2], "µs", mine[len(mine)/2]/peer, "ajv")
}
