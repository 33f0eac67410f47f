package apigen

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"helix/backend/gateway"
)

// TypeScript returns one interface per struct, the maps Methods and Events from name to types, and
// the list of methods with their scopes.
func TypeScript(a *gateway.API, docs gateway.Docs) []byte {
	g := tsGen{a: a, docs: docs}
	g.line("// Generated from the method table of the backend by `make generate`. Do not edit.")
	g.line("/* eslint-disable */")
	named := a.Named()
	for _, name := range slices.Sorted(maps.Keys(named)) {
		g.declare(name, named[name])
	}
	g.line("")
	g.line("/** Every method: what it takes and what it gives. */")
	g.line("export interface Methods {")
	for _, m := range a.Methods() {
		g.comment("  ", methodComment(m, docs))
		g.line("  %q: { params: %s; result: %s };", m.Name, g.params(m), g.ref(m.Result))
	}
	g.line("}")
	g.line("")
	g.line("/** Every event: the data it carries. */")
	g.line("export interface Events {")
	for _, e := range a.Events() {
		g.comment("  ", docs.Type(e.Type))
		g.line("  %q: %s;", e.Name, g.ref(e.Type))
	}
	g.line("}")
	g.line("")
	g.line("/** A scope that a session may hold. */")
	g.line(`export type Scope = "none" | "read" | "write" | "approve" | "admin";`)
	g.line("")
	g.line("/** What the client must know of each method besides its types. */")
	g.line("export const METHODS = [")
	for _, m := range a.Methods() {
		extra := ""
		if m.AliasOf != "" {
			extra = fmt.Sprintf(", aliasOf: %q", m.AliasOf)
		}
		if m.Deadline > 0 {
			extra += fmt.Sprintf(", deadlineMs: %d", m.Deadline.Milliseconds())
		}
		g.line("  { name: %q, scope: %q, costly: %t%s },", m.Name, scopeOf(m.Scope), m.Costly, extra)
	}
	g.line("] as const satisfies readonly { name: keyof Methods; scope: Scope; costly: boolean; aliasOf?: keyof Methods; deadlineMs?: number }[];")
	g.line("")
	g.line("/** The scope that each method requires. */")
	g.line("export const scopes = Object.fromEntries(METHODS.map((m) => [m.name, m.scope])) as Record<keyof Methods, Scope>;")
	g.line("")
	g.line("/** The names of all events. */")
	g.line("export const EVENTS = [")
	for _, e := range a.Events() {
		g.line("  %q,", e.Name)
	}
	g.line("] as const satisfies readonly (keyof Events)[];")
	return g.buf.Bytes()
}

func scopeOf(s gateway.Scope) string {
	names := s.Names()
	if len(names) == 0 {
		return "none"
	}
	return names[len(names)-1]
}

func methodComment(m gateway.MethodInfo, docs gateway.Docs) string {
	text := docs.Method(m)
	if m.AliasOf != "" {
		text = strings.TrimSpace("Another name of " + m.AliasOf + ". " + text)
	}
	return text
}

type tsGen struct {
	buf  bytes.Buffer
	a    *gateway.API
	docs gateway.Docs
}

func (g *tsGen) line(format string, args ...any) {
	if len(args) == 0 {
		g.buf.WriteString(format)
	} else {
		fmt.Fprintf(&g.buf, format, args...)
	}
	g.buf.WriteByte('\n')
}

func (g *tsGen) comment(indent, text string) {
	if text == "" {
		return
	}
	text = strings.ReplaceAll(text, "*/", "*\\/")
	if !strings.Contains(text, "\n") {
		g.line("%s/** %s */", indent, text)
		return
	}
	g.line("%s/**", indent)
	for l := range strings.SplitSeq(text, "\n") {
		g.line("%s", strings.TrimRight(indent+" * "+l, " "))
	}
	g.line("%s */", indent)
}

func (g *tsGen) declare(name string, t reflect.Type) {
	s := g.a.ShapeOf(t, g.docs)
	g.line("")
	g.comment("", g.docs.Type(t))
	if s.Kind == "enum" {
		g.line("export type %s = %s;", name, union(s.Enum))
		return
	}
	if len(s.Fields) == 0 {
		g.line("export type %s = Record<string, never>;", name)
		return
	}
	g.line("export interface %s {", name)
	for _, f := range s.Fields {
		g.comment("  ", f.Doc)
		g.line("  %s%s: %s;", key(f.Name), map[bool]string{true: "?"}[f.Optional], g.fieldType(f))
	}
	g.line("}")
}

func (g *tsGen) fieldType(f gateway.Field) string {
	t := g.ref(f.Type)
	if f.Null {
		t += " | null"
	}
	return t
}

func (g *tsGen) ref(t reflect.Type) string {
	s := g.a.ShapeOf(t, g.docs)
	switch s.Kind {
	case "any":
		return "unknown"
	case "list":
		elem := g.ref(s.Elem)
		if strings.ContainsAny(elem, "|&") {
			elem = "(" + elem + ")"
		}
		return elem + "[]"
	case "map":
		return "Record<string, " + g.ref(s.Elem) + ">"
	case "enum":
		if name := typeName(t); name != "" {
			return name
		}
		return union(s.Enum)
	case "struct":
		if name := typeName(t); name != "" {
			return name
		}
		if len(s.Fields) == 0 {
			return "Record<string, never>"
		}
		var parts []string
		for _, f := range s.Fields {
			parts = append(parts, key(f.Name)+map[bool]string{true: "?"}[f.Optional]+": "+g.fieldType(f))
		}
		return "{ " + strings.Join(parts, "; ") + " }"
	}
	return s.Kind
}

// params returns the type of a method's params; a field that an alias fixes is optional.
func (g *tsGen) params(m gateway.MethodInfo) string {
	t := g.ref(m.Params)
	if len(m.Preset) == 0 {
		return t
	}
	var names, parts []string
	for _, n := range slices.Sorted(maps.Keys(m.Preset)) {
		names = append(names, strconv.Quote(n))
		parts = append(parts, fmt.Sprintf("%s?: %q", key(n), m.Preset[n]))
	}
	return fmt.Sprintf("Omit<%s, %s> & { %s }", t, strings.Join(names, " | "), strings.Join(parts, "; "))
}

func union(values []string) string {
	var q []string
	for _, v := range values {
		q = append(q, strconv.Quote(v))
	}
	return strings.Join(q, " | ")
}

func key(name string) string {
	for i, r := range name {
		if r != '_' && r != '$' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (i == 0 || r < '0' || r > '9') {
			return strconv.Quote(name)
		}
	}
	return name
}
