package gatewaytest

import (
	"encoding/json"
	"reflect"
	"time"

	"github.com/google/uuid"

	"helix/backend/gateway"
)

var absent any = new(int)

// minimal returns the smallest request that m's schema allows.
func (g *Target) minimal(m gateway.MethodInfo) json.RawMessage {
	if m.Name == "connect" { // without requested scopes, the session would only have read
		return json.RawMessage(`{"minProtocol":1,"maxProtocol":1,"client":{"id":"contract"},"scopes":["admin"]}`)
	}
	for _, name := range []string{m.Name, m.AliasOf} {
		if p := g.Params[name]; p != nil && name != "" {
			return p
		}
	}
	obj := g.object(m.Params, 0)
	for name := range m.Preset {
		delete(obj, name)
	}
	raw, err := json.Marshal(obj)
	if err != nil {
		panic(err) // plain values only
	}
	return raw
}

func (g *Target) object(t reflect.Type, depth int) map[string]any {
	out := map[string]any{}
	for _, f := range g.API.ShapeOf(t, nil).Fields {
		if !f.Optional && depth < 8 {
			out[f.Name] = g.sample(f.Type, depth)
		}
	}
	return out
}

// sample returns a value that t accepts.
func (g *Target) sample(t reflect.Type, depth int) any {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t {
	case reflect.TypeFor[uuid.UUID]():
		return uuid.Must(uuid.NewV7()).String()
	case reflect.TypeFor[time.Time]():
		return time.Now().UTC().Format(time.RFC3339)
	case reflect.TypeFor[gateway.BigInt]():
		return "1"
	}
	s := g.API.ShapeOf(t, nil)
	switch s.Kind {
	case "enum":
		return s.Enum[0]
	case "boolean":
		return true
	case "number":
		return 1
	case "list":
		if t.Kind() == reflect.Array {
			out := make([]any, t.Len())
			for i := range out {
				out[i] = g.sample(s.Elem, depth+1)
			}
			return out
		}
		return []any{}
	case "map", "any":
		return map[string]any{}
	case "struct":
		return g.object(t, depth+1)
	}
	if t.Kind() == reflect.Slice { // bytes
		return "eA=="
	}
	return "x"
}

// wrong returns values of types other than f's.
func (g *Target) wrong(f gateway.Field) []any {
	all := map[string]any{"string": "text", "number": 1, "boolean": true, "list": []any{1}, "map": map[string]any{"a": 1}}
	same := map[string]string{"enum": "string", "struct": "map"}
	kind := g.API.ShapeOf(f.Type, nil).Kind
	if s := same[kind]; s != "" {
		kind = s
	}
	if kind == "any" {
		return nil
	}
	var out []any
	for _, k := range []string{"string", "number", "boolean", "list", "map"} {
		bytes := f.Type.Kind() == reflect.Slice && kind == "string"
		if k != kind && (!bytes || k != "list") {
			out = append(out, all[k])
		}
	}
	if kind == "list" { // elements are checked too
		if e := g.API.ShapeOf(g.API.ShapeOf(f.Type, nil).Elem, nil).Kind; e == "string" || e == "enum" {
			out = append(out, []any{1})
		}
	}
	return out
}

// withIDs returns requests in which every field that takes an id, and every text field, is one of
// ids.
func (g *Target) withIDs(m gateway.MethodInfo, ids []uuid.UUID) []json.RawMessage {
	out := []json.RawMessage{g.minimal(m)}
	for _, id := range ids {
		obj := map[string]any{}
		if json.Unmarshal(g.minimal(m), &obj) != nil {
			continue
		}
		used := false
		for _, f := range g.API.ShapeOf(m.Params, nil).Fields {
			if _, fixed := m.Preset[f.Name]; fixed {
				continue
			}
			t := f.Type
			s := g.API.ShapeOf(t, nil)
			switch {
			case t == reflect.TypeFor[uuid.UUID]():
				obj[f.Name], used = id.String(), true
			case s.Kind == "list" && s.Elem == reflect.TypeFor[uuid.UUID]():
				obj[f.Name], used = []any{id.String()}, true
			case s.Kind == "string" && !f.Optional && t.Kind() == reflect.String:
				obj[f.Name], used = id.String(), true
			}
		}
		if !used {
			break
		}
		raw, err := json.Marshal(obj)
		if err != nil {
			panic(err) // plain values only
		}
		out = append(out, raw)
	}
	return out
}
