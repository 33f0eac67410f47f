// Command all runs benchmarks and writes their rows, together with the goals, to a Markdown file:
// one section per area with its date, commit and machine. Areas that are not run keep their
// section.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// areas in the order of the file.
var areas = []string{"gateway", "storage", "audit", "tools", "sandbox", "skills", "scheduler", "embed", "vector", "cluster", "memory", "valence", "synthesis", "providers", "agent", "psychology", "sync", "discovery", "container", "channels", "audio", "reliability"}

const head = `# Benchmarks

Each section is the output of ` + "`make bench-AREA`" + `, and ` + "`make bench`" + ` writes them all. Peers run in the
same run on the same machine. A ratio is ours divided by the peer's, unless the row says
otherwise. The machine is shared, so figures by the clock vary; ratios and processor time vary
less. "MISSED" marks a goal that was not met in this run.
`

func main() {
	out := flag.String("out", "../../docs/benchmarks.md", "the `file` to write")
	flag.Parse()
	run := flag.Args()
	if len(run) == 0 {
		run = areas
	}
	old, err := os.ReadFile(*out)
	check(err)
	sections := split(string(old))
	failed := false
	for _, area := range run {
		if !slices.Contains(areas, area) {
			check(fmt.Errorf("no area is called %q; there are %s", area, strings.Join(areas, ", ")))
		}
		text, err := measure(area)
		if err != nil {
			fmt.Fprintf(os.Stderr, "bench %s: %v\n", area, err)
			failed = true
			continue
		}
		sections[area] = text
		check(write(*out, sections))
	}
	if failed {
		os.Exit(1)
	}
}

// measure runs one area, copies its output to standard output, and returns its section.
func measure(area string) (string, error) {
	fmt.Printf("== %s\n", area)
	var rows bytes.Buffer
	bin := filepath.Join("bin", area)
	build := exec.Command("go", "build", "-o", bin, "./"+area)
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return "", err
	}
	c := exec.Command("./" + bin)
	c.Stdout, c.Stderr = io.MultiWriter(os.Stdout, &rows), os.Stderr
	if err := c.Run(); err != nil {
		return "", err
	}
	return section(area, rows.String()), nil
}

func section(area, rows string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n%s, commit %s, %s\n\n", area, time.Now().UTC().Format("2006-01-02"), commit(), machine())
	b.WriteString("| row | value | unit | ratio | peer | goal |\n|---|---|---|---|---|---|\n")
	for line := range strings.Lines(rows) {
		if f := strings.Split(strings.TrimSpace(line), "\t"); len(f) == 6 {
			fmt.Fprintf(&b, "| %s |\n", strings.Join(f, " | "))
		}
	}
	return b.String()
}

// split returns the sections of a file written by write.
func split(text string) map[string]string {
	out := map[string]string{}
	for _, part := range strings.Split(text, "\n## ")[1:] {
		area, _, _ := strings.Cut(part, "\n")
		out[area] = "## " + strings.TrimRight(part, "\n") + "\n"
	}
	return out
}

func write(path string, sections map[string]string) error {
	text := head
	for _, area := range areas {
		if s := sections[area]; s != "" {
			text += "\n" + s
		}
	}
	return os.WriteFile(path, []byte(text), 0o644) //nolint:gosec // documentation
}

func commit() string {
	b, err := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(b))
}

// machine describes the processor, without the name of the computer.
func machine() string {
	model := runtime.GOARCH
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%s, %d cores, %s", model, runtime.NumCPU(), runtime.GOOS)
}

func check(err error) {
	if err != nil && !os.IsNotExist(err) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
