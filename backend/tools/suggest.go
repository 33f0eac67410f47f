package tools

import (
	"encoding/json"
	"helix/backend/jcs"
	"slices"

	"github.com/tdewolff/parse/v2"
	"github.com/tdewolff/parse/v2/js"
)

// paramUse collects how a tool uses its parameters.
type paramUse struct {
	names    []string
	types    map[string]string
	defaults map[string]json.RawMessage
}

func (u *paramUse) add(name string) {
	if name != "" && !slices.Contains(u.names, name) && len(u.names) < 100 {
		u.names = append(u.names, name)
	}
}

// stringMethods and arrayMethods infer a type from a method call; methods that both types
// have are left out.
var (
	stringMethods = []string{"split", "trim", "toUpperCase", "toLowerCase", "replace", "replaceAll", "charAt", "charCodeAt", "codePointAt", "match", "matchAll", "startsWith", "endsWith", "padStart", "padEnd", "substring", "substr", "normalize", "localeCompare", "repeat"}
	arrayMethods  = []string{"map", "filter", "forEach", "reduce", "join", "push", "pop", "sort", "some", "every", "find", "findIndex", "flat", "flatMap", "reverse", "splice", "unshift", "shift"}
	numberMethods = []string{"toFixed", "toPrecision", "toExponential"}
)

func (u *paramUse) method(field, method string) {
	u.add(field)
	switch {
	case slices.Contains(stringMethods, method):
		u.setType(field, "string")
	case slices.Contains(arrayMethods, method):
		u.setType(field, "array")
	case slices.Contains(numberMethods, method):
		u.setType(field, "number")
	}
}

func (u *paramUse) setType(field, t string) {
	if u.types == nil {
		u.types = map[string]string{}
	}
	if _, ok := u.types[field]; !ok {
		u.types[field] = t
	}
}

func (u *paramUse) destructure(o *js.BindingObject) {
	for _, it := range o.List {
		var name string
		if it.Key != nil {
			if it.Key.Computed != nil {
				continue
			}
			name = string(it.Key.Literal.Data)
		} else if x, ok := it.Value.Binding.(*js.Var); ok {
			name = string(x.Name())
		}
		u.add(name)
		lit, ok := it.Value.Default.(*js.LiteralExpr)
		if !ok {
			continue
		}
		var def any
		switch {
		case lit.TokenType == js.StringToken:
			u.setType(name, "string")
			def = stringValue(lit.Data)
		case lit.TokenType == js.TrueToken, lit.TokenType == js.FalseToken:
			u.setType(name, "boolean")
			def = lit.TokenType == js.TrueToken
		case js.IsNumeric(lit.TokenType):
			u.setType(name, "number")
			if parse.Number(lit.Data) == len(lit.Data) {
				def = json.Number(lit.Data)
			}
		}
		if def == nil {
			continue
		}
		if b, err := json.Marshal(def); err == nil {
			if u.defaults == nil {
				u.defaults = map[string]json.RawMessage{}
			}
			u.defaults[name] = b
		}
	}
}

// schema returns a schema derived from the code, or nil if the code reads no parameters by name.
func (u *paramUse) schema() json.RawMessage {
	if len(u.names) == 0 {
		return nil
	}
	props := map[string]any{}
	for _, n := range u.names {
		p := map[string]any{}
		if t := u.types[n]; t != "" {
			p["type"] = t
		}
		if d, ok := u.defaults[n]; ok {
			p["default"] = d
		}
		props[n] = p
	}
	out, err := jcs.Marshal(map[string]any{"type": "object", "properties": props})
	if err != nil {
		return nil
	}
	return out
}
