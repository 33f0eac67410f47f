package backend

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// timed lists the tests that may compare durations, each with its reason.
var timed = map[string]string{
	"app/cli/turn_test.go":              "in a bubble, where only waiting moves the clock",
	"backend/config/root_test.go":       "in a bubble, where the clock stands still but for waiting",
	"backend/sandbox/hostile_test.go":   "only where HELIX_TIMED asks for it",
	"backend/sandbox/wasm_wasi_test.go": "what the guest's clock says, compared with the system's",
	"backend/storage/blobs_test.go":     "the age that a file says it has",
	"frontend/e2e/memory-long.mjs":      "the pace of a wheel, as a hand turns it",
}

// TestNoTestMeasuresTime checks that tests never require something to be fast. A slow or busy
// machine is not a bug in Helix; make bench-* measures the speed of Helix and its peers. A test may
// require at least the time that it told something to wait, and may stop waiting for something that
// never happens.
func TestNoTestMeasuresTime(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("git", "-C", "..", "ls-files", "*_test.go", "frontend/e2e/*.mjs", "frontend/src/*.test.ts").Output()
	if err != nil {
		t.Skip("not a repository: ", err)
	}
	used := map[string]bool{}
	for _, name := range strings.Fields(string(out)) {
		text, err := os.ReadFile(filepath.Join("..", name))
		if os.IsNotExist(err) {
			continue // removed, and not yet committed
		} else if err != nil {
			t.Fatal(err)
		}
		var found []string
		if strings.HasSuffix(name, ".go") {
			found = timesInGo(t, name, text)
		} else {
			found = timesInScript(string(text))
		}
		if used[name] = len(found) > 0; timed[name] != "" {
			continue
		}
		for _, f := range found {
			t.Errorf("%s:%s: assert what happens; the time belongs to make bench-*", name, f)
		}
	}
	for name := range timed {
		if !used[name] {
			t.Errorf("%s measures no time any more: remove its exception", name)
		}
	}
}

// timesInGo finds comparisons that require an upper limit of a duration.
func timesInGo(t *testing.T, name string, text []byte) (found []string) {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, text, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		measured := map[string]bool{} // variables that hold a duration
		took := func(e ast.Expr) (yes bool) {
			ast.Inspect(e, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.Ident:
					yes = yes || measured[n.Name]
				case *ast.SelectorExpr:
					s := selected(n)
					yes = yes || s == "time.Since" || strings.HasPrefix(s, "time.") && n.Sel.Name == "Sub" || usage.MatchString(s)
				case *ast.FuncLit:
					return false
				}
				return !yes
			})
			return yes
		}
		ast.Inspect(d, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for i, e := range n.Rhs {
					if to, ok := n.Lhs[min(i, len(n.Lhs)-1)].(*ast.Ident); ok && took(e) {
						measured[to.Name] = true
					}
				}
			case *ast.BinaryExpr:
				most := n.Op == token.GTR || n.Op == token.GEQ
				least := n.Op == token.LSS || n.Op == token.LEQ
				if most && took(n.X) && !isPatience(n.Y) || least && took(n.Y) && !isPatience(n.X) {
					found = append(found, fmt.Sprint(files.Position(n.Pos()).Line))
				}
			}
			return true
		})
	}
	return found
}

func selected(e *ast.SelectorExpr) string {
	switch x := e.X.(type) {
	case *ast.Ident:
		return x.Name + "." + e.Sel.Name
	case *ast.SelectorExpr:
		return selected(x) + "." + e.Sel.Name
	case *ast.CallExpr:
		if f, ok := x.Fun.(*ast.SelectorExpr); ok {
			return selected(f) + "()." + e.Sel.Name
		}
	}
	return e.Sel.Name
}

// isPatience reports whether a limit only ends a wait for something that never happens.
func isPatience(e ast.Expr) bool {
	x, ok := e.(*ast.Ident)
	return ok && x.Name == "patience"
}

var (
	usage       = regexp.MustCompile(`^(u|a|o|.*\.?[uU]sage)\.([wW]all|[cC][pP][uU])$`) // the usage reported by a run
	scriptTimes = regexp.MustCompile(`check\(.*(\.p50|\.p95|\.worst|\.task|limits\.|performance\.now)|expect\((performance|Date)\.now\(\) - .*toBeLess`)
	scriptSleep = regexp.MustCompile(`waitForTimeout\(`)
	scriptTimed = regexp.MustCompile(`if \((timed|process\.env\.HELIX_TIMED)\b`)
)

// timesInScript finds the same in the tests of the interface, and waits of a fixed length.
func timesInScript(text string) (found []string) {
	for i, line := range strings.Split(text, "\n") {
		if (scriptTimes.MatchString(line) || scriptSleep.MatchString(line)) && !scriptTimed.MatchString(line) {
			found = append(found, fmt.Sprint(i+1))
		}
	}
	return found
}
