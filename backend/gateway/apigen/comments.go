package apigen

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"reflect"
	"strings"

	"helix/backend/gateway"
)

const module = "helix"

// Comments returns the comments of every type and function that the table uses.
func Comments(a *gateway.API, root string) (gateway.Docs, error) {
	docs := gateway.Docs{}
	seen := map[string]bool{}
	read := func(pkg string) error {
		if seen[pkg] || (pkg != module && !strings.HasPrefix(pkg, module+"/")) {
			return nil
		}
		seen[pkg] = true
		return readPackage(docs, pkg, filepath.Join(root, filepath.FromSlash(strings.TrimPrefix(strings.TrimPrefix(pkg, module), "/"))))
	}
	for _, t := range a.Named() {
		if err := read(t.PkgPath()); err != nil {
			return nil, err
		}
	}
	for _, m := range a.Methods() {
		if err := read(packageOf(gateway.FuncName(m.Fn))); err != nil {
			return nil, err
		}
	}
	return docs, nil
}

// packageOf returns the package of a name such as "helix/backend/tools.(*Service).List".
func packageOf(fn string) string {
	slash := strings.LastIndexByte(fn, '/')
	dot := strings.IndexByte(fn[slash+1:], '.')
	if dot < 0 {
		return fn
	}
	return fn[:slash+1+dot]
}

func readPackage(docs gateway.Docs, pkg, dir string) error {
	fset := token.NewFileSet()
	pkgs, err := parser.ParseDir(fset, dir, func(i fs.FileInfo) bool { return !strings.HasSuffix(i.Name(), "_test.go") }, parser.ParseComments) //nolint:staticcheck // comments need no type checking
	if err != nil {
		return fmt.Errorf("read comments of %s: %w", pkg, err)
	}
	for _, p := range pkgs {
		for _, f := range p.Files {
			structFields(docs, pkg, f)
		}
		d := doc.New(p, pkg, doc.AllDecls|doc.PreserveAST)
		for _, f := range d.Funcs {
			docs[pkg+"."+f.Name] = clean(f.Doc)
		}
		for _, t := range d.Types {
			docs[pkg+"."+t.Name] = clean(t.Doc)
			for _, f := range t.Funcs {
				docs[pkg+"."+f.Name] = clean(f.Doc)
			}
			for _, m := range t.Methods {
				docs[pkg+"."+receiver(m.Recv)+"."+m.Name] = clean(m.Doc)
			}
		}
	}
	return nil
}

func receiver(recv string) string {
	if strings.HasPrefix(recv, "*") {
		return "(" + recv + ")"
	}
	return recv
}

// structFields reads the comment above each field, or at the end of its line.
func structFields(docs gateway.Docs, pkg string, f *ast.File) {
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		st, ok := spec.Type.(*ast.StructType)
		if !ok {
			return true
		}
		for _, field := range st.Fields.List {
			text := clean(field.Doc.Text())
			if text == "" {
				text = clean(field.Comment.Text())
			}
			for _, name := range field.Names {
				docs[pkg+"."+spec.Name.Name+"."+name.Name] = text
			}
		}
		return true
	})
}

// clean joins the lines of each paragraph.
func clean(text string) string {
	var paras []string
	for _, p := range strings.Split(strings.TrimSpace(text), "\n\n") {
		paras = append(paras, strings.Join(strings.Fields(p), " "))
	}
	return strings.Join(paras, "\n\n")
}

// typeName returns the wire name of a struct or enum, or "".
func typeName(t reflect.Type) string { return gateway.TypeName(t) }
