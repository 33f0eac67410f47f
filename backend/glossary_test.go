package backend_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// readGlossary returns the words that docs/glossary.md forbids, each with the term to use.
func readGlossary(t *testing.T) map[string]string {
	t.Helper()
	b, err := os.ReadFile("../docs/glossary.md")
	if err != nil {
		t.Fatal(err)
	}
	not := map[string]string{}
	for line := range strings.Lines(string(b)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 3 || strings.HasPrefix(cells[0], "-") || strings.TrimSpace(cells[0]) == "term" {
			continue
		}
		for word := range strings.SplitSeq(cells[2], ",") {
			if word = strings.TrimSpace(word); word != "" {
				not[strings.ToLower(word)] = strings.TrimSpace(cells[0])
			}
		}
	}
	return not
}

// TestTextsKeepToTheGlossary searches the texts that people read for words that the glossary
// forbids.
func TestTextsKeepToTheGlossary(t *testing.T) {
	t.Parallel()
	not := readGlossary(t)
	if len(not) < 40 {
		t.Fatalf("the glossary rules out %d words", len(not))
	}
	words := slices.Sorted(func(yield func(string) bool) {
		for w := range not {
			if !yield(regexp.QuoteMeta(w)) {
				return
			}
		}
	})
	slices.Reverse(words) // of two with the same beginning, the longer one is reported
	banned := regexp.MustCompile(`(?i)\b(` + strings.Join(words, "|") + `)\b`)
	texts := 0
	check := func(where, text string) {
		texts++
		for _, w := range banned.FindAllString(text, -1) {
			t.Errorf("%s: %q: use %q (docs/glossary.md) in %.120q", where, w, not[strings.ToLower(w)], text)
		}
	}
	goTexts(t, check)
	frontendTexts(t, check)
	help, err := filepath.Glob("../app/cli/testdata/help*")
	if err != nil || len(help) == 0 {
		t.Fatal("no help texts of the command line", err)
	}
	for _, name := range help {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			check(name, line)
		}
	}
	if texts < 5000 {
		t.Errorf("%d texts were checked; the search misses most of them", texts)
	}
}

// goTexts calls check with the sentences in Go code that reach people: string literals of several
// words outside SQL, tests and generated files.
func goTexts(t *testing.T, check func(where, text string)) {
	fset := token.NewFileSet()
	for _, dir := range []string{".", "../app"} {
		walk(t, dir, func(path string) {
			if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "test/") {
				return
			}
			f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if field, ok := n.(*ast.Field); ok && field.Tag != nil {
					tag, _ := strconv.Unquote(field.Tag.Value)
					check(fset.Position(field.Pos()).String(), reflect.StructTag(tag).Get("help"))
					return false
				}
				lit, ok := n.(*ast.BasicLit)
				if !ok || lit.Kind != token.STRING {
					return true
				}
				if text, err := strconv.Unquote(lit.Value); err == nil && isSentence(text) {
					check(fset.Position(lit.Pos()).String(), text)
				}
				return true
			})
		})
	}
}

var sql = regexp.MustCompile(`\b(SELECT|INSERT|UPDATE|DELETE FROM|WHERE|CREATE|JOIN|VALUES)\b|\bIN \(`)

func isSentence(text string) bool {
	return strings.Contains(text, " ") && !sql.MatchString(text) && len(text) < 4000
}

var (
	styles       = regexp.MustCompile(`(?s)<style.*?</style>`)
	scripts      = regexp.MustCompile(`(?s)<script.*?</script>`)
	comments     = regexp.MustCompile(`(?s)<!--.*?-->|/\*.*?\*/|(?m)^\s*//.*$|\s// .*$`)
	quoted       = regexp.MustCompile("\"([^\"\\n\\\\]*)\"|`([^`]*)`")
	code         = regexp.MustCompile("===|>=|=>|\n") // between two templates
	placeholders = regexp.MustCompile(`\$\{[^}]*\}`)
	markup       = regexp.MustCompile(`>([^<>{}]*[A-Za-z][^<>{}]*)<`)
)

// frontendTexts calls check with the quoted strings and the text between tags of the interface.
func frontendTexts(t *testing.T, check func(where, text string)) {
	walk(t, "../frontend/src", func(path string) {
		svelte := strings.HasSuffix(path, ".svelte")
		if !svelte && !strings.HasSuffix(path, ".ts") || strings.HasSuffix(path, ".test.ts") || strings.HasSuffix(path, ".gen.ts") || strings.HasSuffix(path, ".de.ts") {
			return
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text := comments.ReplaceAllString(styles.ReplaceAllString(string(b), ""), "")
		for _, m := range quoted.FindAllStringSubmatch(text, -1) {
			if s := placeholders.ReplaceAllString(m[1]+m[2], "…"); !code.MatchString(s) && (isSentence(s) || strings.Title(s) == s && len(s) > 2) { //nolint:staticcheck // ASCII labels
				check(path, s)
			}
		}
		if svelte {
			for _, m := range markup.FindAllStringSubmatch(scripts.ReplaceAllString(text, ""), -1) {
				check(path, strings.TrimSpace(m[1]))
			}
		}
	})
}

func walk(t *testing.T, dir string, file func(path string)) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules"):
			return filepath.SkipDir
		case !d.IsDir():
			file(filepath.ToSlash(path))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
