package backend

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// proseReaders lists the files that may read an error's text, each with its reason.
var proseReaders = map[string]string{
	"app/app.go":                     "Wails panics with a text alone if GTK cannot open the display",
	"backend/sandbox/jsrun.go":       "wazero has no type for a panic that it recovered",
	"backend/sandbox/module_run.go":  "wazero gives the cause of a trap and the stack as one text",
	"backend/scheduler/create.go":    "encoding/json has no type for an unknown field",
	"backend/skills/machine/next.go": "joins the name of a parameter and the message about it without saying the name twice",
	"build/demo/main.go":             "shows what a person sees of the program's output",
	"frontend/src/lib/run/schema.ts": "JSON.parse tells the position of an error only in its message",
}

// TestNoProgramReadsProse finds decisions based on the text of an error: use its kind, code, field
// path or ids instead. It also finds records that are joined by their time.
func TestNoProgramReadsProse(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("git", "-C", "..", "ls-files", "backend/*.go", "app/*.go", "build/*.go", "main.go", "frontend/src/*.ts", "frontend/src/*.svelte").Output()
	if err != nil {
		t.Skip("not a repository: ", err)
	}
	used := map[string]bool{}
	for _, name := range strings.Fields(string(out)) {
		if strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, ".test.ts") || strings.HasSuffix(name, ".gen.ts") {
			continue
		}
		text, err := os.ReadFile(filepath.Join("..", name))
		if os.IsNotExist(err) {
			continue // removed, and not yet committed
		} else if err != nil {
			t.Fatal(err)
		}
		lines := proseInScript(string(text))
		if strings.HasSuffix(name, ".go") {
			lines = proseInGo(t, name, text)
		}
		used[name] = len(lines) > 0
		if proseReaders[name] != "" {
			continue
		}
		for _, line := range lines {
			t.Errorf("%s:%d: decide by a kind, code, field path or id, not by a text or a time", name, line)
		}
	}
	for name := range proseReaders {
		if !used[name] {
			t.Errorf("%s reads no error text any more: remove its exception", name)
		}
	}
}

var (
	// Trimming punctuation only changes how a text looks.
	readsText = regexp.MustCompile(`^(strings|bytes)\.(Contains|ContainsAny|HasPrefix|HasSuffix|EqualFold|Index|LastIndex|Cut|CutPrefix|CutSuffix|Split|SplitN|Fields)$|\.(MatchString|FindString\w*|FindAllString\w*)$`)

	scriptReads = []*regexp.Regexp{
		regexp.MustCompile(`\.(message|sentence)\)?\??\.(match|matchAll|search|includes|startsWith|endsWith|indexOf|split|replace)\(`),
		regexp.MustCompile(`\.(message|sentence) \?\? ""\)\.(match|includes|startsWith|endsWith|split|replace)\(`),
		regexp.MustCompile(`\b(message|problem|warning|refusal)\??\.(match|search|includes|startsWith|endsWith|indexOf)\(`),
		regexp.MustCompile(`\.(test|exec)\((\w+(\(\))?\??\.)*(message|sentence|problem|warning)\b`),
		regexp.MustCompile(`[!=]== [\w.?!]*\.message\b`),
		regexp.MustCompile(`\.message [!=]== [^"un]`),
		regexp.MustCompile(`\.message [!=]== "[^"]`),
		regexp.MustCompile(`Date\.parse\(.*[<>]=?.*&&.*Date\.parse\(`),
	}
)

// sentences are the fields whose texts are written for people.
var sentences = map[string]bool{"Message": true, "Sentence": true, "Unresolved": true}

func proseInScript(text string) (lines []int) {
	for i, line := range strings.Split(text, "\n") {
		for _, r := range scriptReads {
			if r.MatchString(line) {
				lines = append(lines, i+1)
				break
			}
		}
	}
	return lines
}

// proseInGo finds error texts, even under another name in the same function, that are searched or
// compared with a text.
func proseInGo(t *testing.T, name string, text []byte) (lines []int) {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, text, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		named := map[string]bool{} // variables that hold the text of an error
		isProse := func(e ast.Expr) (yes bool) {
			ast.Inspect(e, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.Ident:
					yes = yes || named[n.Name]
				case *ast.SelectorExpr:
					yes = yes || sentences[n.Sel.Name] || n.Sel.Name == "Error" && isCallOf(e, n)
				case *ast.FuncLit:
					return false
				}
				return !yes
			})
			return yes
		}
		add := func(n ast.Node) { lines = append(lines, files.Position(n.Pos()).Line) }
		ast.Inspect(d, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for i, e := range n.Rhs {
					if to, ok := n.Lhs[min(i, len(n.Lhs)-1)].(*ast.Ident); ok && len(n.Lhs) == len(n.Rhs) && isString(e) && isProse(e) {
						named[to.Name] = true
					}
				}
			case *ast.RangeStmt:
				x, ok := n.X.(*ast.SelectorExpr)
				if v, isName := n.Value.(*ast.Ident); ok && isName && sentences[x.Sel.Name] {
					named[v.Name] = true
				}
			case *ast.CallExpr:
				f, ok := n.Fun.(*ast.SelectorExpr)
				if ok && readsText.MatchString(selected(f)) && len(n.Args) > 0 && isProse(n.Args[0]) {
					add(n)
				}
			case *ast.BinaryExpr:
				if (n.Op == token.EQL || n.Op == token.NEQ) && (isProse(n.X) && isText(n.Y) || isProse(n.Y) && isText(n.X)) {
					add(n)
				}
			case *ast.SwitchStmt:
				if n.Tag != nil && isProse(n.Tag) {
					add(n)
				}
			}
			return true
		})
	}
	return lines
}

// isCallOf reports whether f is called without arguments within e, like the method of an error.
func isCallOf(e ast.Expr, f *ast.SelectorExpr) (yes bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		c, ok := n.(*ast.CallExpr)
		yes = yes || ok && c.Fun == ast.Expr(f) && len(c.Args) == 0
		return !yes
	})
	return yes
}

// isString reports whether e is an error text, or derived from one by a function of strings.
func isString(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		return sentences[e.Sel.Name]
	case *ast.CallExpr:
		f, ok := e.Fun.(*ast.SelectorExpr)
		return ok && (f.Sel.Name == "Error" && len(e.Args) == 0 || strings.HasPrefix(selected(f), "strings."))
	}
	return false
}

func isText(e ast.Expr) bool {
	l, ok := e.(*ast.BasicLit)
	if !ok || l.Kind != token.STRING {
		return false
	}
	text, err := strconv.Unquote(l.Value)
	return err == nil && text != ""
}

func TestProseReadersAreFound(t *testing.T) {
	t.Parallel()
	const src = `package x
func f(err error) bool {
	text := strings.ToLower(err.Error())
	other := name()
	_ = strings.Contains(other, "x") || err.Message == ""
	return strings.HasSuffix(err.Error(), "has changed") ||
		err.(*E).Message == "gone" ||
		strings.Contains(text, "busy") ||
		pattern.MatchString(fault.As(err).Message)
}
func g(p Preview) (changed bool) {
	for _, why := range p.Unresolved {
		changed = changed || strings.HasSuffix(why, "has changed")
	}
	return changed
}`
	if got := proseInGo(t, "x.go", []byte(src)); !slices.Equal(got, []int{6, 7, 8, 9, 13}) {
		t.Errorf("in Go: lines %v, want 6 to 9 and 13", got)
	}
	for line, want := range map[string]bool{
		`places.find(([, r]) => r.test(message))`:            true,
		`errors.some((e) => e.message.includes(name))`:       true,
		`edit.problem.startsWith("The date")`:                true,
		`(run.error?.message ?? "").replace(/^step/, "")`:    true,
		`output.text === run.error.message`:                  true,
		`if (e.message === "gone")`:                          true,
		`Date.parse(when) >= from && Date.parse(when) <= to`: true,
		`if (e.message === "") return`:                       false,
		`errors.some((e) => e.code === "missing")`:           false,
		`<p>{error.message}</p>`:                             false,
		`list.query.includes(text)`:                          false,
	} {
		if got := len(proseInScript(line)) > 0; got != want {
			t.Errorf("%s: found %v", line, got)
		}
	}
}
