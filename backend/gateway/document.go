package gateway

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"runtime"
	"strings"
	"unicode"

	"helix/backend/fault"
)

// Discover returns the OpenRPC 1.3.2 document of every method and event.
func (s *Server) Discover(context.Context, struct{}) (json.RawMessage, error) {
	return s.document(), nil
}

func (s *Server) document() []byte {
	s.docOnce.Do(func() {
		r, err := gzip.NewReader(bytes.NewReader(s.o.OpenRPC))
		if err == nil {
			s.doc, err = io.ReadAll(r)
		}
		if err != nil { // there is none
			s.doc = bytes.TrimSpace(s.api.Document(nil))
		}
	})
	return s.doc
}

// Docs contains the comments of the source, by "import/path.Type", "import/path.Type.Field",
// "import/path.Func" and "import/path.(*Type).Method". A nil Docs is empty.
type Docs map[string]string

// Method returns the comment of the function behind m, without the function's name.
func (d Docs) Method(m MethodInfo) string {
	name := FuncName(m.Fn)
	text := d[name]
	goName := name[strings.LastIndexByte(name, '.')+1:]
	if rest, ok := strings.CutPrefix(text, goName+" "); ok {
		r := []rune(rest)
		r[0] = unicode.ToUpper(r[0])
		return string(r)
	}
	return text
}

// Type returns the comment of a named type.
func (d Docs) Type(t reflect.Type) string { return d[t.PkgPath()+"."+t.Name()] }

// FuncName returns the full name of a function or method value, such as
// helix/backend/tools.(*Service).List.
func FuncName(fn any) string {
	f := runtime.FuncForPC(reflect.ValueOf(fn).Pointer())
	if f == nil {
		return ""
	}
	return strings.TrimSuffix(f.Name(), "-fm")
}

// Document returns the OpenRPC document of the table, indented, with the comments of docs.
func (a *API) Document(docs Docs) []byte {
	s := a.collect(docs)
	methods := []any{}
	for _, m := range a.Methods() {
		methods = append(methods, s.method(m))
	}
	events := []any{}
	for _, e := range a.Events() {
		ev := obj{"name": e.Name, "schema": s.of(e.Type)}
		if d := docs.Type(e.Type); d != "" {
			ev["description"] = d
		}
		if e.Transient {
			ev["x-transient"] = true
		}
		events = append(events, ev)
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	err := enc.Encode(obj{
		"openrpc": "1.3.2",
		"info": obj{"title": "Helix", "version": "1", "description": "Every method and event of the Helix backend. Version is that of the protocol. " +
			"Params are named. An event arrives as a notification whose params are {seq, time, data}; x-events describes data."},
		"methods":    methods,
		"components": obj{"schemas": s.done, "errors": errorTable()},
		"x-events":   events,
	})
	if err != nil {
		panic(err) // maps of strings and lists only
	}
	return buf.Bytes()
}

func (s *schemas) method(m MethodInfo) obj {
	p := s.types.plan(m.Params)
	params := []any{}
	for _, required := range []bool{true, false} { // the standard requires that required ones come first
		for _, f := range p.fields {
			_, fixed := m.Preset[f.name]
			if (f.optional || fixed) == required {
				continue
			}
			schema := s.of(f.plan.typ)
			if fixed {
				schema = obj{"type": "string", "const": m.Preset[f.name]}
			}
			d := obj{"name": f.name, "required": required, "schema": schema}
			if doc := s.docs.field(f); doc != "" {
				d["description"] = doc
			}
			params = append(params, d)
		}
	}
	out := obj{"name": m.Name, "paramStructure": "by-name", "params": params,
		"result":  obj{"name": "result", "schema": s.of(m.Result)},
		"x-scope": scopeName(m.Scope), "x-costly": m.Costly}
	if m.Deadline > 0 {
		out["x-deadline-ms"] = m.Deadline.Milliseconds()
	}
	if m.AliasOf != "" {
		out["x-alias-of"] = m.AliasOf
	}
	if name := TypeName(m.Params); name != "" {
		out["x-params-type"] = name
	}
	if doc := s.docs.Method(m); doc != "" {
		out["description"] = doc
		out["summary"], _, _ = strings.Cut(strings.ReplaceAll(doc, "\n", " "), ". ")
	}
	return out
}

// ErrorRow is one row of the error table.
type ErrorRow struct {
	Kind   string
	Code   int
	Name   string // data.code
	Status int    // HTTP
}

// ErrorRows returns the table of error codes on the wire.
func ErrorRows() []ErrorRow {
	rows := []ErrorRow{
		{"parse", -32700, "INVALID_REQUEST", http.StatusBadRequest},
		{"request", -32600, "INVALID_REQUEST", http.StatusBadRequest},
		{"method", -32601, "INVALID_REQUEST", http.StatusNotFound},
		{"params", -32602, "INVALID_REQUEST", http.StatusBadRequest},
		{"unauthenticated", -32001, "UNAUTHORIZED", http.StatusUnauthorized},
	}
	for _, k := range []fault.Kind{fault.Unavailable, fault.Denied, fault.NotFound, fault.Conflict, fault.Timeout, fault.Canceled, fault.Limit, fault.Invalid, fault.Internal} {
		code, name, status := kindCode(k)
		rows = append(rows, ErrorRow{string(k), code, name, status})
	}
	return rows
}

func errorTable() obj {
	out := obj{}
	for _, r := range ErrorRows() {
		out[r.Kind] = obj{"code": r.Code, "message": r.Name}
	}
	return out
}
