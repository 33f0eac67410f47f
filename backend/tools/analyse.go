package tools

import (
	"bytes"
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/tdewolff/parse/v2/js"
)

// analysis is the result of analyzing the syntax tree of a tool.
type analysis struct {
	entry     Entry
	errors    []Problem
	warnings  []Problem
	dangerous []string
	hosts     []hostUse       // hosts in string literals
	helix     map[string]bool // members of helix used in the code: fetch, fs, state, …
	helixAny  bool            // helix cannot be tracked: it is passed on, or indexed with a computed name
	params    *paramUse
}

type hostUse struct {
	scheme, host, port string
	line, column       int
}

// analyse parses code and lists errors and suspicious constructs. The result is only advice,
// because the sandbox is the security boundary.
func (k checker) analyse(ctx context.Context, code string, lang Language) *analysis {
	a := &analysis{helix: map[string]bool{}, params: &paramUse{}}
	if strings.TrimSpace(code) == "" {
		a.errors = append(a.errors, problemf("blank", "code", "The code is empty."))
		return a
	}
	if k.large != nil && len(code) > longCode {
		select {
		case k.large <- struct{}{}:
			defer func() { <-k.large }()
		case <-ctx.Done():
			a.errors = append(a.errors, problemf(codeTooCostly, "code", "The check was canceled before it began."))
			return a
		}
	}
	src, problems := k.parseSource(ctx, code, lang)
	if problems != nil {
		a.errors = problems
		return a
	}
	if src.ast == nil {
		a.entry, a.helixAny = EntryBody, true
		a.warnings = append(a.warnings, problemf("unread", "code", "The code is valid, but uses syntax that the checks cannot follow; there are no further findings."))
		return a
	}
	v := &visitor{a: a, src: src, helixName: "helix", paramsName: "params", fors: emptyForPlaces(src.text)}
	v.module()
	js.Walk(v, src.ast)
	a.errors = orEmpty(a.errors)
	slices.SortStableFunc(a.warnings, func(x, y Problem) int { return (x.Line-y.Line)*100_000 + x.Column - y.Column })
	return a
}

func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

type visitor struct {
	a          *analysis
	src        *source
	helixName  string
	paramsName string
	seen       map[string]bool // findings that are reported only once
	fors       []int           // offsets of "for (;;)" in source order
}

func (v *visitor) warn(code string, data []byte, format string, args ...any) {
	p := problemf(code, "code", format, args...)
	p.Line, p.Column = v.src.place(v.src.offset(data))
	key := code + "\x00" + p.Message
	if v.seen == nil {
		v.seen = map[string]bool{}
	}
	if p.Line == 0 && v.seen[key] {
		return
	}
	v.seen[key] = true
	if len(v.a.warnings) < 100 {
		v.a.warnings = append(v.a.warnings, p)
	}
}

func (v *visitor) danger(name string) {
	if !slices.Contains(v.a.dangerous, name) {
		v.a.dangerous = append(v.a.dangerous, name)
	}
}

// module finds imports, exports and the entry point.
func (v *visitor) module() {
	list := v.src.ast.List
	if v.src.wrapped {
		v.a.entry = EntryBody
		return
	}
	var forms []Entry
	fn := map[Entry]*js.Params{}
	exported, badDefault := false, false
	named := func(f *js.FuncDecl) {
		if f.Name == nil {
			return
		}
		switch string(f.Name.Name()) {
		case "execute":
			forms, fn[EntryExecute] = append(forms, EntryExecute), &f.Params
		case "main":
			forms, fn[EntryMain] = append(forms, EntryMain), &f.Params
		}
	}
	for _, st := range list {
		switch st := st.(type) {
		case *js.ImportStmt:
			v.importError(st.Module)
		case *js.ExportStmt:
			exported = true
			if st.Module != nil {
				v.importError(st.Module)
			}
			for _, al := range st.List {
				if string(al.Binding) == "default" {
					forms = append(forms, EntryDefault)
				}
			}
			switch d := st.Decl.(type) {
			case *js.FuncDecl:
				if st.Default {
					forms, fn[EntryDefault] = append(forms, EntryDefault), &d.Params
				} else {
					named(d)
				}
			case *js.ArrowFunc:
				if st.Default {
					forms, fn[EntryDefault] = append(forms, EntryDefault), &d.Params
				}
			default:
				if !st.Default || st.Decl == nil {
					break
				}
				if isFunction(d) {
					forms = append(forms, EntryDefault)
				} else {
					badDefault = true
				}
			}
		case *js.FuncDecl:
			named(st)
		}
	}
	order := []Entry{EntryDefault, EntryExecute, EntryMain}
	for _, e := range order {
		if slices.Contains(forms, e) {
			v.a.entry = e
			break
		}
	}
	switch {
	case v.a.entry == "" && badDefault:
		v.a.errors = append(v.a.errors, problemf("no_entry", "code", "The default export is not a function."))
	case v.a.entry == "" && exported:
		v.a.errors = append(v.a.errors, problemf("no_entry", "code", "No entry point found: export a default function, or name a function execute or main."))
	case v.a.entry == "":
		v.a.entry = EntryBody
	}
	slices.Sort(forms)
	if n := len(slices.Compact(forms)); n > 1 {
		v.a.warnings = append(v.a.warnings, problemf("two_entries", "code", "Found %d entry points; using %s.", n, v.a.entry))
	}
	if p := fn[v.a.entry]; p != nil {
		v.bindEntry(p)
	}
}

func isFunction(e js.IExpr) bool {
	switch e := e.(type) {
	case *js.GroupExpr:
		return isFunction(e.X)
	case *js.Var, *js.FuncDecl, *js.ArrowFunc, *js.CallExpr, *js.DotExpr:
		return true
	}
	return false
}

func (v *visitor) importError(module []byte) {
	p := problemf("import", "code", "A tool can't import %s: everything it can use is in helix.", module)
	p.Line, p.Column = v.src.place(v.src.offset(module))
	v.a.errors = append(v.a.errors, p)
}

// bindEntry records the names that the entry function gives to params and helix.
func (v *visitor) bindEntry(p *js.Params) {
	if len(p.List) > 0 {
		switch b := p.List[0].Binding.(type) {
		case *js.Var:
			v.paramsName = string(b.Name())
		case *js.BindingObject:
			v.a.params.destructure(b)
		}
	}
	if len(p.List) > 1 {
		switch b := p.List[1].Binding.(type) {
		case *js.Var:
			v.helixName = string(b.Name())
		case *js.BindingObject:
			for _, it := range b.List {
				if it.Key != nil {
					v.a.helix[string(it.Key.Literal.Data)] = true
				} else if x, ok := it.Value.Binding.(*js.Var); ok {
					v.a.helix[string(x.Name())] = true
				}
			}
		}
	}
}

// Enter visits one node.
func (v *visitor) Enter(n js.INode) js.IVisitor {
	switch n := n.(type) {
	case *js.DotExpr:
		if x, ok := n.X.(*js.Var); ok {
			name, _ := memberName(n.Y)
			if v.isHelix(x) {
				v.a.helix[name] = true
				return nil
			}
			if string(x.Name()) == v.paramsName {
				v.a.params.add(name)
			}
		}
		if outer, ok := n.X.(*js.DotExpr); ok {
			if x, ok := outer.X.(*js.Var); ok && string(x.Name()) == v.paramsName {
				field, _ := memberName(outer.Y)
				method, _ := memberName(n.Y)
				v.a.params.method(field, method)
			}
		}
	case *js.IndexExpr:
		v.index(n)
	case *js.CallExpr:
		v.call(n.X, n.Args.List)
	case *js.NewExpr:
		var args []js.Arg
		if n.Args != nil {
			args = n.Args.List
		}
		v.call(n.X, args)
	case *js.Var:
		v.variable(n)
	case *js.LiteralExpr:
		if n.TokenType == js.StringToken {
			v.text(stringValue(n.Data), n.Data)
		}
	case *js.TemplateExpr:
		for _, p := range n.List {
			v.text(strings.Trim(string(p.Value), "`${}"), p.Value)
		}
		if len(n.List) == 0 {
			v.text(strings.Trim(string(n.Tail), "`"), n.Tail)
		}
	case *js.VarDecl:
		for _, b := range n.List {
			o, ok := b.Binding.(*js.BindingObject)
			x, isVar := b.Default.(*js.Var)
			if ok && isVar && string(x.Name()) == v.paramsName {
				v.a.params.destructure(o)
			}
		}
	case *js.WhileStmt:
		v.loop(n.Cond, n.Body, nil)
	case *js.DoWhileStmt:
		v.loop(n.Cond, n.Body, nil)
	case *js.ForStmt:
		var place []byte
		if n.Cond == nil && noInit(n.Init) && n.Post == nil && len(v.fors) > 0 {
			place = v.src.text[v.fors[0]:][:3]
			v.fors = v.fors[1:]
		}
		v.loop(n.Cond, n.Body, place)
	}
	return v
}

// noInit reports whether the first part of a for is empty; the parser may put an empty
// declaration there.
func noInit(e js.IExpr) bool {
	d, ok := e.(*js.VarDecl)
	return e == nil || ok && len(d.List) == 0
}

// Exit does nothing.
func (v *visitor) Exit(js.INode) {}

func (v *visitor) isHelix(x *js.Var) bool { return string(x.Name()) == v.helixName }

// global reports whether x is a variable that the code does not declare itself.
func global(x *js.Var, name string) bool {
	for x.Link != nil {
		x = x.Link
	}
	return x.Decl == js.NoDecl && string(x.Data) == name
}

func memberName(y js.IExpr) (string, []byte) {
	switch y := y.(type) {
	case *js.LiteralExpr:
		return string(y.Data), y.Data
	case js.LiteralExpr:
		return string(y.Data), y.Data
	case *js.Var:
		return string(y.Data), y.Data
	}
	return "", nil
}

func (v *visitor) variable(x *js.Var) {
	if v.isHelix(x) && x.Decl != js.ArgumentDecl {
		v.a.helixAny = true
	}
	if global(x, "eval") {
		v.danger("eval")
		v.warn("eval", x.Data, "eval runs text as code. It throws when the tool runs.")
	}
}

func (v *visitor) index(n *js.IndexExpr) {
	x, ok := n.X.(*js.Var)
	if !ok {
		if lit, ok := n.X.(*js.LiteralExpr); ok && lit.TokenType == js.ThisToken {
			v.warn("computed_global", lit.Data, "A global is looked up under a computed name.")
		}
		return
	}
	for _, g := range []string{"globalThis", "self", "window", "global"} {
		if global(x, g) {
			v.danger(g + "[…]")
			v.warn("computed_global", x.Data, "A global is looked up under a computed name: %s[…].", g)
		}
	}
	lit, ok := n.Y.(*js.LiteralExpr)
	if !ok || lit.TokenType != js.StringToken {
		return
	}
	if string(x.Name()) == v.paramsName {
		v.a.params.add(stringValue(lit.Data))
	}
}

func (v *visitor) call(f js.IExpr, args []js.Arg) {
	for {
		g, ok := f.(*js.GroupExpr)
		if !ok {
			break
		}
		f = g.X
	}
	switch f := f.(type) {
	case *js.Var:
		if global(f, "Function") {
			v.danger("Function")
			v.warn("function_constructor", f.Data, "Function makes code from text. It throws when the tool runs.")
		}
	case *js.DotExpr:
		if name, data := memberName(f.Y); name == "constructor" {
			v.danger("constructor")
			v.warn("constructor_call", data, ".constructor is called, which can reach Function. It throws when the tool runs.")
		}
	case *js.IndexExpr:
		if lit, ok := f.Y.(*js.LiteralExpr); ok && stringValue(lit.Data) == "constructor" {
			v.danger("constructor")
			v.warn("constructor_call", lit.Data, "[\"constructor\"] is called, which can reach Function. It throws when the tool runs.")
		}
	case *js.LiteralExpr:
		if f.TokenType == js.ImportToken {
			v.danger("import()")
			data := f.Data
			if v.src.offset(data) < 0 && len(args) > 0 {
				if lit, ok := args[0].Value.(*js.LiteralExpr); ok {
					data = lit.Data
				}
			}
			v.warn("dynamic_import", data, "import() loads code. It throws when the tool runs.")
		}
	}
}

// text searches a string for a host.
func (v *visitor) text(s string, data []byte) {
	scheme, _, ok := strings.Cut(s, "://")
	if !ok || scheme != "https" && scheme != "http" || len(s) > 4096 {
		return
	}
	if i := strings.IndexAny(s, " \t\n`\"'<>"); i > 0 {
		s = s[:i]
	}
	u, err := url.Parse(s)
	if err != nil || u.Hostname() == "" {
		return
	}
	h := hostUse{scheme: u.Scheme, host: strings.ToLower(u.Hostname()), port: u.Port()}
	if h.port == "" && !strings.HasSuffix(u.Host, ":") { // "http://localhost:${port}" leaves the port open
		h.port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	h.line, h.column = v.src.place(v.src.offset(data))
	v.a.hosts = append(v.a.hosts, h)
}

// loop warns about a loop that contains no way out and never waits.
func (v *visitor) loop(cond js.IExpr, body js.IStmt, place []byte) {
	if cond != nil {
		lit, ok := cond.(*js.LiteralExpr)
		if !ok || !bytes.Equal(lit.Data, []byte("true")) && !bytes.Equal(lit.Data, []byte("1")) {
			return
		}
		if place == nil {
			place = lit.Data
		}
	}
	e := &exits{}
	if body != nil {
		js.Walk(e, body)
	}
	if !e.found {
		v.warn("endless_loop", place, "This loop never ends; the time limit will stop it.")
	}
}

// exits searches for a way out of a loop: break, return, throw, await or yield outside of nested
// functions. A break of an inner loop counts too, because a missed warning is better than a false one.
type exits struct{ found bool }

func (e *exits) Enter(n js.INode) js.IVisitor {
	if e.found {
		return nil
	}
	switch n := n.(type) {
	case *js.FuncDecl, *js.ArrowFunc, *js.MethodDecl, *js.ClassDecl:
		return nil
	case *js.BranchStmt:
		e.found = n.Type == js.BreakToken || n.Label != nil
	case *js.ReturnStmt, *js.ThrowStmt, *js.YieldExpr:
		e.found = true
	case *js.UnaryExpr:
		e.found = n.Op == js.AwaitToken
	case *js.ForOfStmt:
		e.found = n.Await
	}
	return e
}

func (e *exits) Exit(js.INode) {}
