package gateway

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// BigInt is a counter that may exceed 2^53, above which JavaScript loses digits. It is sent as a
// string.
type BigInt int64

// MarshalText returns the decimal digits.
func (n BigInt) MarshalText() ([]byte, error) { return strconv.AppendInt(nil, int64(n), 10), nil }

// UnmarshalText parses decimal digits.
func (n *BigInt) UnmarshalText(b []byte) error {
	v, err := strconv.ParseInt(string(b), 10, 64)
	*n = BigInt(v)
	return err
}

// shape is how a Go type is represented in JSON.
type shape uint8

const (
	anyShape    shape = iota // interface, json.RawMessage
	customShape              // has its own UnmarshalJSON
	textShape                // has its own UnmarshalText
	uuidShape
	timeShape
	bytesShape
	stringShape
	boolShape
	intShape
	floatShape
	listShape
	mapShape
	structShape
)

// plan is a Go type prepared for strict decoding and for schemas.
type plan struct {
	typ      reflect.Type // without pointers
	shape    shape
	nullable bool     // pointer, map, slice or any
	enum     []string // allowed values of a type with a method Enum
	elem     *plan    // of lists and maps
	fields   []*field
	byName   map[string]*field
	required int  // how many fields are required
	done     bool // false while the type is still being walked
}

// field is one JSON field of a struct.
type field struct {
	name     string
	goName   string
	owner    reflect.Type // the struct that declares it: an embedded one keeps its comment
	optional bool
	null     bool // a pointer that is written as null
	index    int  // position among the required fields; -1: optional
	plan     *plan
}

// types prepares each Go type once. One goroutine fills it while the table is built.
type types struct{ plans map[reflect.Type]*plan }

func newTypes() *types { return &types{plans: map[reflect.Type]*plan{}} }

var (
	rawType       = reflect.TypeFor[json.RawMessage]()
	numberType    = reflect.TypeFor[json.Number]()
	uuidType      = reflect.TypeFor[uuid.UUID]()
	timeType      = reflect.TypeFor[time.Time]()
	jsonUnmarshal = reflect.TypeFor[json.Unmarshaler]()
	jsonMarshal   = reflect.TypeFor[json.Marshaler]()
	textUnmarshal = reflect.TypeFor[encoding.TextUnmarshaler]()
	textMarshal   = reflect.TypeFor[encoding.TextMarshaler]()
)

// plan returns the plan of t. It panics for types that cannot be represented on the wire.
func (ts *types) plan(t reflect.Type) *plan {
	if p := ts.plans[t]; p != nil {
		return p
	}
	p := &plan{typ: t}
	if t.Kind() == reflect.Pointer {
		inner := ts.plan(t.Elem())
		if !inner.done { // a recursive type: share its plan, which will soon be complete
			return inner
		}
		*p = *inner
		p.nullable = true
		ts.plans[t] = p
		return p
	}
	ts.plans[t] = p // before going deeper, because types may be recursive
	defer func() { p.done = true }()
	p.enum = enumOf(t)
	ptr := reflect.PointerTo(t)
	switch {
	case t == rawType || t.Kind() == reflect.Interface:
		p.shape, p.nullable = anyShape, true
	case t == uuidType:
		p.shape = uuidShape
	case t == timeType:
		p.shape = timeShape
	case t == numberType:
		p.shape = floatShape
	case ptr.Implements(jsonUnmarshal) || ptr.Implements(jsonMarshal):
		p.shape, p.nullable = customShape, true
	case ptr.Implements(textUnmarshal) || ptr.Implements(textMarshal):
		p.shape = textShape
	default:
		ts.byKind(p, t)
	}
	return p
}

func (ts *types) byKind(p *plan, t reflect.Type) {
	switch t.Kind() {
	case reflect.String:
		p.shape = stringShape
	case reflect.Bool:
		p.shape = boolShape
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		p.shape = intShape
	case reflect.Float32, reflect.Float64:
		p.shape = floatShape
	case reflect.Slice, reflect.Array:
		if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 {
			p.shape, p.nullable = bytesShape, true
			return
		}
		p.shape, p.nullable = listShape, t.Kind() == reflect.Slice
		p.elem = ts.plan(t.Elem())
	case reflect.Map:
		if t.Key().Kind() != reflect.String {
			panic(fmt.Sprintf("gateway: %s: map keys must be strings", t))
		}
		p.shape, p.nullable = mapShape, true
		p.elem = ts.plan(t.Elem())
	case reflect.Struct:
		p.shape = structShape
		for _, f := range ts.structFields(t) {
			f.index = -1
			if !f.optional {
				f.index = p.required
				p.required++
			}
			p.fields = append(p.fields, f)
		}
		p.byName = make(map[string]*field, len(p.fields))
		for _, f := range p.fields {
			p.byName[f.name] = f
		}
		if p.required > 64 {
			panic(fmt.Sprintf("gateway: %s has more than 64 required fields", t))
		}
	default:
		panic(fmt.Sprintf("gateway: %s has no place on the wire", t))
	}
}

// structFields lists the JSON fields of t in order; the fields of embedded structs are included
// unless it has one of that name.
func (ts *types) structFields(t reflect.Type) []*field {
	var own, embedded []*field
	for i := range t.NumField() {
		f := t.Field(i)
		tag, hasTag := f.Tag.Lookup("json")
		name, opts, _ := strings.Cut(tag, ",")
		if tag == "-" || (!f.IsExported() && !f.Anonymous) {
			continue
		}
		if f.Anonymous && name == "" {
			e := f.Type
			if e.Kind() == reflect.Pointer {
				panic(fmt.Sprintf("gateway: %s embeds a pointer", t))
			}
			embedded = append(embedded, ts.structFields(e)...)
			continue
		}
		if name == "" {
			if !hasTag {
				panic(fmt.Sprintf("gateway: %s.%s has no json tag", t, f.Name))
			}
			name = f.Name
		}
		words := strings.Split(opts, ",")
		if slices.Contains(words, "string") {
			panic(fmt.Sprintf("gateway: %s.%s: use gateway.BigInt instead of the option string", t, f.Name))
		}
		omit := slices.Contains(words, "omitempty") || slices.Contains(words, "omitzero")
		pointer := f.Type.Kind() == reflect.Pointer
		own = append(own, &field{name: name, goName: f.Name, owner: t, optional: pointer || omit, null: pointer && !omit, plan: ts.plan(f.Type)})
	}
	for _, e := range embedded {
		if !slices.ContainsFunc(own, func(o *field) bool { return o.name == e.name }) {
			own = append(own, e)
		}
	}
	return own
}

// enumOf calls the method Enum of t's zero value, which lists the allowed values.
func enumOf(t reflect.Type) []string {
	m, ok := t.MethodByName("Enum")
	if !ok || m.Type.NumIn() != 1 || m.Type.NumOut() != 1 || m.Type.Out(0).Kind() != reflect.Slice {
		return nil
	}
	list := m.Func.Call([]reflect.Value{reflect.Zero(t)})[0]
	out := make([]string, list.Len())
	for i := range out {
		out[i] = fmt.Sprint(list.Index(i).Interface())
	}
	return out
}
