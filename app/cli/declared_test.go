package cli

import (
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"helix/backend/permission"
	"helix/backend/tools"
)

// apiSchema is a part of the API's document in which names are looked up.
type apiSchema struct {
	Ref        string `json:"$ref"`
	Properties map[string]apiSchema
}

type apiMethod struct {
	Name   string
	Params []struct{ Name string }
	Result struct{ Schema apiSchema }
}

// readAPI returns the methods of the API by name, and a function that reports whether a result has a
// field, such as channel.name.
func readAPI(t *testing.T) (map[string]apiMethod, func(apiSchema, string) bool) {
	t.Helper()
	f, err := os.Open("../../backend/openrpc.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Methods    []apiMethod
		Components struct{ Schemas map[string]apiSchema }
	}
	if err := json.NewDecoder(z).Decode(&doc); err != nil {
		t.Fatal(err)
	}
	methods := map[string]apiMethod{}
	for _, m := range doc.Methods {
		methods[m.Name] = m
	}
	has := func(s apiSchema, path string) bool {
		var ok bool
		for name := range strings.SplitSeq(path, ".") {
			if s.Ref != "" {
				s = doc.Components.Schemas[s.Ref[strings.LastIndex(s.Ref, "/")+1:]]
			}
			s, ok = s.Properties[name]
			if !ok {
				return false
			}
		}
		return true
	}
	return methods, has
}

// answered returns the method that the Run of each command type calls with the command's arguments.
func answered(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !strings.HasPrefix(file.Name(), "cmd_") || strings.HasSuffix(file.Name(), "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil || fn.Name.Name != "Run" {
				continue
			}
			receiver := fn.Recv.List[0].Type
			if p, ok := receiver.(*ast.StarExpr); ok {
				receiver = p.X
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				at := -1
				switch f := call.Fun.(type) {
				case *ast.Ident:
					if f.Name == "answer" {
						at = 1
					}
				case *ast.SelectorExpr:
					if f.Sel.Name == "changeChat" {
						at = 0
					}
				}
				if at >= 0 {
					method, err := strconv.Unquote(call.Args[at].(*ast.BasicLit).Value)
					if err != nil {
						t.Fatal(err)
					}
					out[receiver.(*ast.Ident).Name] = method
				}
				return true
			})
		}
	}
	return out
}

// What a command declares exists in the API: its method, the parameters that its arguments, flags and
// constants are, and the fields that its messages name.
func TestDeclaredCommandsMatchTheAPI(t *testing.T) {
	t.Parallel()
	methods, has := readAPI(t)
	calls := answered(t)
	var g grammar
	p, err := kong.New(&g, kong.Vars{"version": "0"}, kong.ExplicitGroups(groups))
	if err != nil {
		t.Fatal(err)
	}
	field := regexp.MustCompile(`\$\{?([\w.]+)`)
	checked := 0
	for _, node := range p.Model.Leaves(false) {
		declared := node.Tag.Get("call")
		name := cmp.Or(declared, calls[node.Target.Type().Name()])
		if name == "" {
			continue
		}
		checked++
		method, ok := methods[name]
		if !ok {
			t.Errorf("%s: the API has no method %s", node.FullPath(), name)
			continue
		}
		isParam := func(name string) bool {
			return slices.ContainsFunc(method.Params, func(p struct{ Name string }) bool { return p.Name == name })
		}
		params := []string{}
		values := slices.Clone(node.Positional)
		for _, f := range node.Flags {
			if f.Name != "yes" && f.Name != "help" {
				values = append(values, f.Value)
			}
		}
		for _, v := range values {
			if v.Tag.Get("param") != "-" {
				params = append(params, cmp.Or(v.Tag.Get("param"), v.Name))
			}
		}
		if with := node.Tag.Get("with"); with != "" {
			var constants map[string]any
			if err := json.Unmarshal([]byte(with), &constants); err != nil {
				t.Errorf("%s: %v", node.FullPath(), err)
			}
			params = append(params, sortedKeys(constants)...)
		}
		for _, param := range params {
			if !isParam(param) {
				t.Errorf("%s: %s has no parameter %s", node.FullPath(), name, param)
			}
		}
		for _, m := range field.FindAllStringSubmatch(node.Tag.Get("confirm"), -1) {
			if !slices.Contains(params, m[1]) {
				t.Errorf("%s: the question names %s, which is no parameter", node.FullPath(), m[1])
			}
		}
		for _, m := range field.FindAllStringSubmatch(node.Tag.Get("say"), -1) {
			if path := strings.Trim(m[1], "."); !slices.Contains(params, path) && !has(method.Result.Schema, path) {
				t.Errorf("%s: the message names %s, which is neither a parameter nor a field of the result", node.FullPath(), path)
			}
		}
	}
	if checked < 90 {
		t.Errorf("only %d commands were checked", checked)
	}
}

// fixedResult answers every call with the same result.
type fixedResult struct{ result any }

func (f fixedResult) Call(_ context.Context, _ string, _, result any) error {
	raw, err := json.Marshal(f.result)
	if err == nil {
		err = json.Unmarshal(raw, result)
	}
	return err
}

func (fixedResult) Events(context.Context, []string, int64, func(event) error) error { return nil }
func (fixedResult) Close() error                                                     { return nil }

// The columns of a list show the fields that the wire has: these two were empty.
func TestListsShowWhoAndWhy(t *testing.T) {
	t.Parallel()
	for want, run := range map[string]struct {
		result any
		cmd    interface{ Run(*command) error }
	}{
		"Invoices": {permission.ListResult{Grants: []permission.Grant{{Subject: permission.SubjectRef{Kind: "tool", Name: "Invoices"}}}}, &permissionsListCmd{}},
		"it broke": {tools.UsageResult{Entries: []tools.UsageEntry{{Error: "it broke"}}}, &toolUsageCmd{}},
	} {
		var out strings.Builder
		c := &command{Globals: Globals{Timeout: time.Minute}, env: Env{Stdout: &out, Stderr: io.Discard}, ctx: t.Context(), conn: fixedResult{run.result}, node: &kong.Node{Tag: &kong.Tag{}}}
		if err := run.cmd.Run(c); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("got %q, %v; want %q in it", out.String(), err, want)
		}
	}
}
