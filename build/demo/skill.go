package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// skillJSON chains the two tools: the table is read once, then each of its rows goes through
// the counter, four at a time.
const skillJSON = `{
  "name": "Package names",
  "inputSchema": {"type": "object", "required": ["csv"], "properties": {"csv": {"type": "string"}}},
  "steps": [
    {"stepId": "table", "toolType": "custom", "toolName": "CSV to JSON", "inputMapping": {"csv": "$.input.csv"}},
    {"stepId": "each", "toolType": "map", "items": "$.table.rows", "steps": [
      {"stepId": "count", "toolType": "custom", "toolName": "Text Counter", "inputMapping": {"text": "$.item.package"}, "outputMapping": "$.characters"}
    ]}
  ]
}`

// skill runs a skill of the two tools and replays the run.
func (d *demo) skill() error {
	d.say("Chain the two tools into a skill: read the table, then count the letters of each name in it.")
	file := filepath.Join(d.dir, "package-names.json")
	if err := os.WriteFile(file, []byte(skillJSON), 0o600); err != nil {
		return err
	}
	if _, _, err := d.run("skill", "validate", file); err != nil {
		return err
	}
	table, packages, err := goList(d.ctx)
	if err != nil {
		return err
	}
	input, err := json.Marshal(map[string]string{"csv": table})
	if err != nil {
		return err
	}
	inputFile := filepath.Join(d.dir, "table.json")
	if err := os.WriteFile(inputFile, input, 0o600); err != nil {
		return err
	}
	out, _, err := d.run("--json", "skill", "run", file, "--input", "@"+inputFile)
	if err != nil {
		return err
	}
	var r struct {
		Success         bool
		ExecutionID     string
		ExecutionTimeMs float64
		FinalOutput     []int
		LastSeq         int64
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		return err
	}
	want := 0
	for _, line := range strings.Split(strings.TrimSpace(table), "\n")[1:] {
		name, _, _ := strings.Cut(line, ",")
		want += len(name)
	}
	got := 0
	for _, n := range r.FinalOutput {
		got += n
	}
	if !r.Success || len(r.FinalOutput) != packages || got != want {
		return fmt.Errorf("the skill counted %d letters in %d names; there are %d in %d", got, len(r.FinalOutput), want, packages)
	}
	d.detail("%d names with %d letters, in %.0f ms: %d runs of tools, %d events on record.", packages, got, r.ExecutionTimeMs, packages+1, r.LastSeq)

	d.say("Replay that run: what was recorded goes through the engine again, and no tool is called.")
	var replay struct {
		Identical bool
		Events    int64
	}
	if err := d.rpc(&replay, "skills.replay", map[string]string{"executionId": r.ExecutionID}); err != nil {
		return err
	}
	if !replay.Identical || replay.Events != r.LastSeq {
		return fmt.Errorf("the replay is another run: %+v", replay)
	}
	d.detail("All %d events came out the same, byte by byte.", replay.Events)
	return nil
}
