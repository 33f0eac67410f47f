package main

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"helixbench/figures"
)

//go:embed flow.mjs
var flow string

// nodeRate returns how many runs per second the Node peer makes: three functions in a vm context,
// each of which stores one row, through sqlite3 with the same settings as ours.
func nodeRate(dir string, stretch time.Duration) float64 {
	script := filepath.Join(dir, "flow.mjs")
	figures.Check(os.WriteFile(script, []byte(flow), 0o600))
	cmd := exec.Command("node", script, filepath.Join(dir, "peer.db"), strconv.Itoa(int(stretch.Milliseconds())))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	figures.Check(err)
	v, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	figures.Check(err)
	return v
}
