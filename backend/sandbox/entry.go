package sandbox

import (
	"fmt"
	"strings"

	"github.com/tdewolff/parse/v2"
	"github.com/tdewolff/parse/v2/js"
)

// forms is what a syntax tree shows about the entry points of a program.
type forms struct {
	byDefault bool
	execute   bool
	main      bool
	exports   bool   // has any export
	imports   string // the first specifier imported
	imported  bool
}

func (f forms) entry() Entry {
	switch {
	case f.byDefault:
		return EntryDefault
	case f.execute:
		return EntryExecute
	case f.main:
		return EntryMain
	}
	return EntryBody
}

// arrange makes transformed text evaluate to its entry function.
func arrange(s Source, t *translated) (*translated, error) {
	t.text = withoutShebang(t.text)
	f := t.forms // empty if the tree parser does not know the syntax: then it can only be a body
	if f.imported {
		return nil, importError(s, f.imports)
	}
	t.entry = f.entry()
	if t.warnings = append(t.warnings, f.warnings()...); t.entry == EntryDefault {
		t.module = true
		return t, nil
	}
	if f.exports {
		return exported(s, t)
	}
	first, last := "(async function () {\n", "\n;return execute(...arguments)})"
	switch t.entry {
	case EntryMain:
		last = "\n;return main()})"
	case EntryBody:
		first, last = bodyHead, "\n})"
	}
	t.text = first + t.text + last
	t.lines.shift = 1
	return t, nil
}

// withoutShebang turns a shebang line into a comment.
func withoutShebang(text string) string {
	if strings.HasPrefix(text, "#!") {
		return "//" + text[2:]
	}
	return text
}

func importError(s Source, specifier string) *Error {
	d := CompileDetail{File: s.Name, Specifier: specifier}
	d.Line, d.Column = findLine(s.Text, specifier)
	return &Error{
		Class: ClassCompile, Details: d,
		Message: located(d, fmt.Sprintf("import of %q: a tool cannot import anything", specifier)),
	}
}

// exported completes a module that has exports but no default export.
func exported(s Source, t *translated) (*translated, error) {
	t.module = true
	switch t.entry {
	case EntryExecute:
		t.text += "\nexport default (...a) => execute(...a);"
	case EntryMain:
		t.text += "\nexport default () => main();"
	default:
		return nil, &Error{
			Class:   ClassCompile,
			Message: "The source has exports but no entry: export a default function, or declare function execute(params) or function main().",
			Details: CompileDetail{File: s.Name},
		}
	}
	return t, nil
}

func (f forms) warnings() []Warning {
	var found []string
	if f.byDefault {
		found = append(found, "export default")
	}
	if f.execute {
		found = append(found, "function execute")
	}
	if f.main {
		found = append(found, "function main")
	}
	if len(found) < 2 {
		return nil
	}
	return []Warning{{Message: fmt.Sprintf("The source has more than one entry (%s): %s runs.", strings.Join(found, ", "), found[0])}}
}

func findForms(text string) (f forms, err error) {
	defer func() {
		if x := recover(); x != nil {
			err = fmt.Errorf("syntax tree: %v", x)
		}
	}()
	ast, err := js.Parse(parse.NewInputString(text), js.Options{})
	if err != nil {
		return f, err
	}
	for _, st := range ast.List {
		switch n := st.(type) {
		case *js.ImportStmt:
			f.addImport(n.Module)
		case *js.ExportStmt:
			f.exports = true
			if n.Module != nil {
				f.addImport(n.Module)
			}
			f.byDefault = f.byDefault || n.Default
			for _, a := range n.List {
				f.byDefault = f.byDefault || n.Module == nil && string(a.Binding) == "default"
			}
			if d, ok := n.Decl.(*js.FuncDecl); ok && !n.Default {
				f.addFunction(d)
			}
		case *js.FuncDecl:
			f.addFunction(n)
		}
	}
	return f, nil
}

func (f *forms) addImport(module []byte) {
	if !f.imported {
		f.imported = true
		f.imports = strings.Trim(string(module), "\"'`")
	}
}

func (f *forms) addFunction(d *js.FuncDecl) {
	if d.Name == nil {
		return
	}
	switch string(d.Name.Data) {
	case "execute":
		f.execute = true
	case "main":
		f.main = true
	}
}

// findLine returns the position of an import statement with the specifier, or 0, 0.
func findLine(text, specifier string) (line, col int) {
	for i, l := range strings.Split(text, "\n") {
		for _, q := range []string{`"`, `'`} {
			if j := strings.Index(l, q+specifier+q); j >= 0 {
				return i + 1, len([]rune(l[:j])) + 1
			}
		}
	}
	return 0, 0
}
