package gateway

import (
	"fmt"
	"reflect"
	"strings"
	"unicode"
)

// TypeName returns the name of a Go type outside Go: its package and name, without repeating the
// package, such as ToolsListParams. It is empty for unnamed types and for those that become a plain
// JSON type.
func TypeName(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	name := t.Name()
	if name == "" || t.PkgPath() == "" {
		return ""
	}
	if i := strings.IndexByte(name, '['); i >= 0 { // Page[helix/backend/tools.Tool] → PageTool
		args := strings.FieldsFunc(name[i:], func(r rune) bool { return r == '[' || r == ']' || r == ',' || r == ' ' })
		name = name[:i]
		for _, a := range args {
			name += title(a[strings.LastIndexAny(a, "./")+1:])
		}
	}
	pkg := title(t.PkgPath()[strings.LastIndexByte(t.PkgPath(), '/')+1:])
	if strings.HasPrefix(name, pkg) {
		return name
	}
	return pkg + title(name)
}

func title(s string) string {
	r := []rune(s)
	r[0] = unicode.ToUpper(r[0])
	return string(r)
}

// schemas collects the JSON Schemas of named types.
type schemas struct {
	types *types
	docs  Docs
	done  map[string]any
	from  map[string]reflect.Type
}

type obj = map[string]any

// of returns the schema of t; for a struct it is a reference to components.
func (s *schemas) of(t reflect.Type) any {
	p := s.types.plan(t)
	if p.enum != nil {
		return s.named(p, func() any { return obj{"type": "string", "enum": p.enum} })
	}
	switch p.shape {
	case uuidShape:
		return obj{"type": "string", "format": "uuid"}
	case timeShape:
		return obj{"type": "string", "format": "date-time"}
	case bytesShape:
		return obj{"type": "string", "contentEncoding": "base64"}
	case stringShape, textShape:
		if p.typ == reflect.TypeFor[BigInt]() {
			return obj{"type": "string", "pattern": "^-?[0-9]+$"}
		}
		return obj{"type": "string"}
	case boolShape:
		return obj{"type": "boolean"}
	case intShape:
		if k := p.typ.Kind(); k >= reflect.Uint && k <= reflect.Uint64 {
			return obj{"type": "integer", "minimum": 0}
		}
		return obj{"type": "integer"}
	case floatShape:
		return obj{"type": "number"}
	case listShape:
		return obj{"type": "array", "items": s.of(p.elem.typ)}
	case mapShape:
		return obj{"type": "object", "additionalProperties": s.of(p.elem.typ)}
	case structShape:
		return s.named(p, func() any { return s.object(p) })
	}
	return obj{} // anything
}

// named returns a reference to the schema of a named type, which it builds on first use.
func (s *schemas) named(p *plan, build func() any) any {
	name := TypeName(p.typ)
	if name == "" {
		return build()
	}
	if had := s.from[name]; had != nil && had != p.typ {
		panic(fmt.Sprintf("gateway: %s and %s are both called %s on the wire", had, p.typ, name))
	}
	if s.from[name] == nil {
		s.from[name] = p.typ
		schema := build().(obj)
		schema["title"] = name
		if d := s.docs[p.typ.PkgPath()+"."+p.typ.Name()]; d != "" {
			schema["description"] = d
		}
		s.done[name] = schema
	}
	return obj{"$ref": "#/components/schemas/" + name}
}

func (s *schemas) object(p *plan) any {
	props := obj{}
	required := []string{}
	for _, f := range p.fields {
		props[f.name] = s.field(f)
		if !f.optional {
			required = append(required, f.name)
		}
	}
	out := obj{"type": "object", "properties": props, "additionalProperties": false}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}

func (s *schemas) field(f *field) any {
	schema := s.of(f.plan.typ)
	if f.null {
		schema = obj{"anyOf": []any{schema, obj{"type": "null"}}}
	}
	d := s.docs.field(f)
	if d == "" {
		return schema
	}
	o := schema.(obj)
	if o["$ref"] != nil { // draft 7 ignores members next to a reference
		o = obj{"allOf": []any{schema}}
	}
	o["description"] = d
	return o
}

func (d Docs) field(f *field) string {
	return d[f.owner.PkgPath()+"."+f.owner.Name()+"."+f.goName]
}

// Field is one JSON field of a struct, for generators.
type Field struct {
	Name     string
	Type     reflect.Type
	Optional bool
	Null     bool // may be null
	Doc      string
}

// Shape describes a Go type to generators: Kind is any, string, boolean, number, list, map,
// struct or enum.
type Shape struct {
	Kind   string
	Elem   reflect.Type // of lists and maps
	Fields []Field
	Enum   []string
}

// ShapeOf describes t, which must be part of the table. docs may be nil.
func (a *API) ShapeOf(t reflect.Type, docs Docs) Shape {
	p := a.types.plan(t)
	if p.enum != nil {
		return Shape{Kind: "enum", Enum: p.enum}
	}
	switch p.shape {
	case anyShape, customShape:
		return Shape{Kind: "any"}
	case boolShape:
		return Shape{Kind: "boolean"}
	case intShape, floatShape:
		return Shape{Kind: "number"}
	case listShape:
		return Shape{Kind: "list", Elem: p.elem.typ}
	case mapShape:
		return Shape{Kind: "map", Elem: p.elem.typ}
	case structShape:
		s := Shape{Kind: "struct"}
		for _, f := range p.fields {
			s.Fields = append(s.Fields, Field{Name: f.name, Type: f.plan.typ, Optional: f.optional, Null: f.null, Doc: docs.field(f)})
		}
		return s
	}
	return Shape{Kind: "string"}
}

// Named returns the named structs and enums that the table uses, by their wire name.
func (a *API) Named() map[string]reflect.Type {
	s := a.collect(nil)
	return s.from
}

func (a *API) collect(docs Docs) *schemas {
	s := &schemas{types: a.types, docs: docs, done: map[string]any{}, from: map[string]reflect.Type{}}
	for _, m := range a.Methods() {
		s.of(m.Params)
		s.of(m.Result)
	}
	for _, e := range a.Events() {
		s.of(e.Type)
	}
	return s
}
