// Command xcheck type-checks packages for other systems:
//
//	go run ./build/xcheck -test windows/amd64,darwin/arm64 ./backend/... ./app/cli/...
//	go run ./build/xcheck -cgo -tags desktop,production darwin/arm64,darwin/amd64 .
//
// -test includes the tests of the packages, -cgo the files that need a C compiler, which may be
// missing here, and -dir names the folder of another module. `go list` names the files, and names of
// C are taken to be right. Errors are reported in this module; in its dependencies only what they
// export is read.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	var o options
	flag.StringVar(&o.dir, "dir", ".", "the module's `folder`")
	flag.StringVar(&o.tags, "tags", "", "build `tags`, separated by commas")
	flag.BoolVar(&o.cgo, "cgo", false, "check files with cgo")
	flag.BoolVar(&o.test, "test", false, "check tests")
	flag.Parse()
	if flag.NArg() < 2 {
		fmt.Fprintln(os.Stderr, "usage: xcheck [-dir MODULE] [-tags TAGS] [-cgo] [-test] SYSTEM/ARCH[,SYSTEM/ARCH…] PACKAGE…")
		os.Exit(2)
	}
	bad := 0
	for target := range strings.SplitSeq(flag.Arg(0), ",") {
		r, err := check(o, target, flag.Args()[1:]...)
		if err != nil {
			fmt.Fprintln(os.Stderr, "xcheck:", err)
			os.Exit(1)
		}
		for _, e := range r.errors {
			fmt.Println(e)
		}
		fmt.Printf("%s: %d packages, %d files with cgo, %d errors\n", target, r.packages, r.cgo, len(r.errors))
		bad += len(r.errors)
	}
	if bad > 0 {
		os.Exit(1)
	}
}

// listed is a package as go list prints it, after those that it imports.
type listed struct {
	Dir, ImportPath   string
	Module            *struct{ Main bool }
	GoFiles, CgoFiles []string
	ImportMap         map[string]string
}

type options struct {
	dir, tags string
	cgo, test bool
}

type report struct {
	packages, cgo int
	errors        []error
}

// check checks packages and everything that they import.
func check(o options, target string, patterns ...string) (r report, err error) {
	system, arch, _ := strings.Cut(target, "/")
	list := exec.Command("go", append([]string{"list", "-deps", fmt.Sprintf("-test=%t", o.test), "-json=Dir,ImportPath,Module,GoFiles,CgoFiles,ImportMap", "-tags", o.tags}, patterns...)...)
	list.Dir, list.Env, list.Stderr = o.dir, append(os.Environ(), "GOOS="+system, "GOARCH="+arch, "CGO_ENABLED=0"), os.Stderr
	if o.cgo {
		list.Env = append(list.Env, "CGO_ENABLED=1")
	}
	out, err := list.StdoutPipe()
	if err != nil {
		return r, err
	}
	if err := list.Start(); err != nil {
		return r, err
	}
	fset, done := token.NewFileSet(), map[string]*types.Package{}
	for dec := json.NewDecoder(out); ; r.packages++ {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return r, errors.Join(err, list.Wait())
		}
		if strings.HasSuffix(p.ImportPath, ".test") { // the main package of a test, which go test writes
			continue
		}
		own := p.Module != nil && p.Module.Main
		var files []*ast.File
		for _, name := range slices.Concat(p.GoFiles, p.CgoFiles) {
			f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil && own {
				r.errors = append(r.errors, err)
			}
			files = append(files, f)
		}
		r.cgo += len(p.CgoFiles)
		info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
		var found []error
		conf := types.Config{
			Importer: importer{done, p.ImportMap}, FakeImportC: true, IgnoreFuncBodies: !own, Sizes: types.SizesFor("gc", arch),
			Error: func(err error) {
				if own {
					found = append(found, err)
				}
			},
		}
		path, _, _ := strings.Cut(p.ImportPath, " ")                // a package with its tests is "path [path.test]"
		done[p.ImportPath], _ = conf.Check(path, fset, files, info) //nolint:errcheck // Error has them all
		r.errors = append(r.errors, slices.DeleteFunc(found, func(err error) bool { return aboutC(err, info) })...)
	}
	return r, list.Wait()
}

// aboutC reports whether an error is about a value whose type is made of names of C. Such a type is
// invalid here, which is no error of the program.
func aboutC(err error, info *types.Info) bool {
	var e types.Error
	if !errors.As(err, &e) {
		return false
	}
	for x, of := range info.Types {
		if x.Pos() == e.Pos && of.Type != nil && of.Type.Underlying() == types.Typ[types.Invalid] {
			return true
		}
	}
	return false
}

// importer finds packages that were checked before.
type importer struct {
	done    map[string]*types.Package
	renamed map[string]string // vendored packages of the standard library
}

// Import implements types.Importer.
func (i importer) Import(path string) (*types.Package, error) {
	if at, ok := i.renamed[path]; ok {
		path = at
	}
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	if p := i.done[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("no package %s", path)
}
