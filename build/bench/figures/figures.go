// Package figures prints the rows of a benchmark, one per line: name, value, unit, ratio to the
// peer, peer, and whether the goal was met, separated by tabs. All goals are in goals.tsv, separate
// from the benchmarks.
package figures

import (
	_ "embed"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

//go:embed goals.tsv
var goalsFile string

// Goal limits a row. A row has at most one goal per peer.
type Goal struct {
	Area, Name string // Name may end in * to match a prefix
	Peer       string // text in the row's peer; "" matches every peer
	Of         string // value or ratio
	Op         string // <= or >=
	Bound      float64
}

func (g Goal) String() string { return fmt.Sprintf("%s %s %g", g.Of, g.Op, g.Bound) }

// Verdict returns whether a row meets the goal, as text.
func (g Goal) Verdict(value, ratio float64) string {
	x := value
	if g.Of == "ratio" {
		x = ratio
	}
	if g.Op == "<=" && x <= g.Bound || g.Op == ">=" && x >= g.Bound {
		return g.String() + " met"
	}
	return g.String() + " MISSED"
}

// Goals reads goals.tsv.
func Goals() ([]Goal, error) {
	var out []Goal
	for i, line := range strings.Split(goalsFile, "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) != 6 {
			return nil, fmt.Errorf("goals.tsv line %d has %d fields, want 6", i+1, len(f))
		}
		bound, err := strconv.ParseFloat(f[5], 64)
		if err != nil || f[3] != "value" && f[3] != "ratio" || f[4] != "<=" && f[4] != ">=" {
			return nil, fmt.Errorf("goals.tsv line %d: %q", i+1, line)
		}
		out = append(out, Goal{Area: f[0], Name: f[1], Peer: f[2], Of: f[3], Op: f[4], Bound: bound})
	}
	return out, nil
}

// area is the running benchmark: the name of its program.
var area = filepath.Base(os.Args[0])

// Print writes a row and evaluates it with goals.tsv. A ratio of 0 and an empty peer mean that
// there is none. A row with a goal for its ratio, but without a ratio, is not evaluated.
func Print(name string, value float64, unit string, ratio float64, peer string) {
	verdict := "-"
	goals, err := Goals()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	for _, g := range goals {
		prefix, many := strings.CutSuffix(g.Name, "*")
		if g.Area != area || name != g.Name && !(many && strings.HasPrefix(name, prefix)) || !strings.Contains(peer, g.Peer) || g.Of == "ratio" && ratio == 0 {
			continue
		}
		verdict = g.Verdict(value, ratio)
		break
	}
	Fprint(os.Stdout, name, value, unit, ratio, peer, verdict)
}

// Fprint writes a row with its verdict.
func Fprint(w io.Writer, name string, value float64, unit string, ratio float64, peer, verdict string) {
	r := "-"
	if ratio != 0 {
		r = fmt.Sprintf("%.3g", ratio)
	}
	if peer == "" {
		peer = "-"
	}
	fmt.Fprintf(w, "%s\t%.4g\t%s\t%s\t%s\t%s\n", name, value, unit, r, peer, verdict)
}

// Check ends the program if err is not nil, and prints the line of the caller.
func Check(err error) {
	if err != nil {
		_, file, line, _ := runtime.Caller(1)
		fmt.Fprintf(os.Stderr, "bench %s: %s:%d: %v\n", area, filepath.Base(file), line, err)
		os.Exit(1)
	}
}

// Quantile returns the value that the share q of v is below. It does not change v.
func Quantile(v []float64, q float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[min(len(v)-1, int(float64(len(v))*q))]
}
