package expr

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"helix/backend/fault"
)

// Template builds a JSON value from a document. In its JSON form a string that begins with $ is a
// path, and $$ stands for a literal $. Objects and arrays are evaluated recursively; any other
// value is copied. An object with a key $path, $literal, $concat or $merge is an operator:
//
//	{"$path": P, "default": v, "optional": true, "mode": "one"|"first"|"all"}
//	{"$literal": v}                 v, unevaluated
//	{"$concat": [template, …]}      texts joined, or arrays joined
//	{"$merge": [template, …]}       objects merged, later members win
//
// A path that can match at most one node evaluates to its value. Matching nothing is an error
// unless there is a default or the part is optional; an optional part without a match is omitted
// from its object or array. Any other path evaluates to the array of its matches.
type Template struct {
	eval template
	uses []Use
}

// Use is one path of a template. Covered means that the template handles a path without a match: it
// has a default, or the part is optional.
type Use struct {
	Where   string // location in the template, such as query[0]
	Path    *Path
	Covered bool
}

// absent is the result of an optional part that matches nothing.
type absent struct{}

// take adds the size of a value that becomes part of the result.
func (e *evaluation) take(v any, where *place) error { return e.locate(e.meter.Take(v), where) }

// grow adds bytes of the result that are not part of any value.
func (e *evaluation) grow(n int, where *place) error { return e.locate(e.meter.take(n), where) }

func (e *evaluation) locate(err error, where *place) error {
	if err != nil && where != nil {
		return fault.Limitf("%s%s", at(where), fault.As(err).Message)
	}
	return err
}

// template evaluates one part; where is its location for errors.
type template interface {
	eval(e *evaluation, where *place) (any, error)
}

// evaluation is the state that the parts of a template share during an evaluation.
type evaluation struct {
	doc   any
	meter *Meter
	nodes budget // shared by all paths
}

// place is the location of a part in a template. Its text is built only on demand, because building
// it for each part would copy the names of all parents.
type place struct {
	up    *place
	name  string
	index int // used if name is empty
}

func (p *place) member(name string) *place { return &place{up: p, name: Member(name)} }
func (p *place) item(i int) *place         { return &place{up: p, index: i} }

// maxPlace is the maximum length of the text of a place.
const maxPlace = 256

// String returns the place in the form query[0], or "" for the template itself.
func (p *place) String() string {
	var parts []string
	for ; p != nil; p = p.up {
		if p.name != "" {
			parts = append(parts, p.name)
		} else {
			parts = append(parts, fmt.Sprintf("[%d]", p.index))
		}
	}
	var b strings.Builder
	for _, part := range slices.Backward(parts) {
		if b.Len()+len(part) > maxPlace {
			b.WriteString("…")
			break
		}
		b.WriteString(part)
	}
	return strings.TrimPrefix(b.String(), ".")
}

// ParseTemplate parses a template from its decoded JSON form.
func ParseTemplate(v any) (*Template, error) {
	p := &templateParser{}
	t, err := p.parse(v, nil, 0)
	if err != nil {
		return nil, err
	}
	return &Template{eval: t, uses: p.uses}, nil
}

// Uses returns the paths of the template in their order in it. Members of objects are ordered by name.
func (t *Template) Uses() []Use { return t.uses }

// Eval evaluates the template on doc. The error names the part that failed and is of kind invalid
// or limit. The value has at most MaxSize bytes as JSON.
func (t *Template) Eval(doc any) (any, error) { return t.EvalWithin(doc, NewMeter(MaxSize)) }

// EvalWithin is Eval with a size limit shared by several evaluations.
func (t *Template) EvalWithin(doc any, m *Meter) (any, error) {
	v, err := t.eval.eval(&evaluation{doc: doc, meter: m, nodes: budget{maxTemplateNodes}}, nil)
	if _, ok := v.(absent); ok {
		return nil, err
	}
	return v, err
}

type templateParser struct {
	uses  []Use
	paths map[string]*Path // each text is parsed once
}

// Limits of one template: its nesting depth, the number of its paths, and the nodes that they may
// visit together.
const (
	maxTemplateDepth = 64
	maxTemplatePaths = 10_000
	maxTemplateNodes = 4 * MaxNodes
)

func (p *templateParser) parse(v any, where *place, depth int) (template, error) {
	if depth > maxTemplateDepth {
		return nil, invalidf("%sthe template is nested more than %d deep", at(where), maxTemplateDepth)
	}
	switch v := v.(type) {
	case string:
		if rest, ok := strings.CutPrefix(v, "$$"); ok {
			return literal{"$" + rest}, nil
		}
		if !strings.HasPrefix(v, "$") {
			return literal{v}, nil
		}
		return p.path(v, where)
	case []any:
		out := make(list, len(v))
		for i, e := range v {
			t, err := p.parse(e, where.item(i), depth+1)
			if err != nil {
				return nil, err
			}
			out[i] = t
		}
		return out, nil
	case map[string]any:
		for _, op := range [...]string{"$path", "$literal", "$concat", "$merge"} {
			if _, ok := v[op]; ok {
				return p.operator(op, v, where, depth)
			}
		}
		out := object{}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			t, err := p.parse(v[k], where.member(k), depth+1)
			if err != nil {
				return nil, err
			}
			out = append(out, member{k, t})
		}
		return out, nil
	}
	return literal{v}, nil
}

func (p *templateParser) path(text string, where *place) (*pathPart, error) {
	if len(p.uses) >= maxTemplatePaths {
		return nil, fault.Limitf("The template has more than %d paths.", maxTemplatePaths)
	}
	q := p.paths[text]
	if q == nil {
		var err error
		if q, err = ParsePath(text); err != nil {
			return nil, fault.Invalidf("%s%s", at(where), fault.As(err).Message)
		}
		if p.paths == nil {
			p.paths = map[string]*Path{}
		}
		p.paths[text] = q
	}
	p.uses = append(p.uses, Use{Where: where.String(), Path: q})
	return &pathPart{path: q}, nil
}

func (p *templateParser) operator(op string, v map[string]any, where *place, depth int) (template, error) {
	for k := range v {
		if k != op && (op != "$path" || k != "default" && k != "optional" && k != "mode") {
			return nil, invalidf("%s%s does not go with %q", at(where), op, k)
		}
	}
	switch op {
	case "$literal":
		return literal{v[op]}, nil
	case "$path":
		return p.pathOperator(v, where)
	}
	parts, ok := v[op].([]any)
	if !ok {
		return nil, invalidf("%s%s needs an array", at(where), op)
	}
	out := make([]template, len(parts))
	for i, e := range parts {
		var err error
		if out[i], err = p.parse(e, where.item(i), depth+1); err != nil {
			return nil, err
		}
	}
	if op == "$merge" {
		return merge(out), nil
	}
	return concat(out), nil
}

func (p *templateParser) pathOperator(v map[string]any, where *place) (template, error) {
	text, ok := v["$path"].(string)
	if !ok {
		return nil, invalidf("%s$path needs a text", at(where))
	}
	q, err := p.path(text, where)
	if err != nil {
		return nil, err
	}
	if d, ok := v["default"]; ok {
		q.def, q.hasDef = d, true
	}
	if o, ok := v["optional"]; ok {
		if q.optional, ok = o.(bool); !ok {
			return nil, invalidf("%soptional is true or false", at(where))
		}
	}
	if m, ok := v["mode"]; ok {
		q.mode, _ = m.(string)
		if q.mode != "one" && q.mode != "first" && q.mode != "all" {
			return nil, invalidf("%smode is one, first or all", at(where))
		}
	}
	p.uses[len(p.uses)-1].Covered = q.hasDef || q.optional || q.mode == "all"
	return q, nil
}

func at(where *place) string {
	if where == nil {
		return ""
	}
	return where.String() + ": "
}

type literal struct{ v any }

func (l literal) eval(e *evaluation, where *place) (any, error) { return l.v, e.take(l.v, where) }

type pathPart struct {
	path     *Path
	def      any
	hasDef   bool
	optional bool
	mode     string // empty: one for a singular path, else all
}

func (p *pathPart) eval(e *evaluation, where *place) (any, error) {
	found, err := p.path.selectWithin(e.doc, &e.nodes)
	if err != nil {
		return nil, fault.Limitf("%s%s: %s", at(where), p.path, fault.As(err).Message)
	}
	mode := p.mode
	if mode == "" {
		mode = "all"
		if p.path.Singular() {
			mode = "one"
		}
	}
	switch {
	case mode == "all":
		return found, e.take(found, where)
	case len(found) == 1, len(found) > 1 && mode == "first":
		return found[0], e.take(found[0], where)
	case len(found) > 1:
		return nil, invalidf("%s%s matches %d values, one is wanted", at(where), p.path, len(found))
	case p.hasDef:
		return p.def, e.take(p.def, where)
	case p.optional:
		return absent{}, nil
	}
	return nil, invalidf("%s%s matches nothing", at(where), p.path)
}

type list []template

func (l list) eval(e *evaluation, where *place) (any, error) {
	if err := e.grow(2+len(l), where); err != nil {
		return nil, err
	}
	out := make([]any, 0, len(l))
	for i, t := range l {
		v, err := t.eval(e, where.item(i))
		if err != nil {
			return nil, err
		}
		if _, ok := v.(absent); !ok {
			out = append(out, v)
		}
	}
	return out, nil
}

type member struct {
	name string
	t    template
}

type object []member

func (o object) eval(e *evaluation, where *place) (any, error) {
	if err := e.grow(2, where); err != nil {
		return nil, err
	}
	out := make(map[string]any, len(o))
	for _, m := range o {
		if err := e.grow(textSize(m.name)+2, where); err != nil {
			return nil, err
		}
		v, err := m.t.eval(e, where.member(m.name))
		if err != nil {
			return nil, err
		}
		if _, ok := v.(absent); !ok {
			out[m.name] = v
		}
	}
	return out, nil
}

type merge []template

func (m merge) eval(e *evaluation, where *place) (any, error) {
	out := map[string]any{}
	for i, t := range m {
		v, err := t.eval(e, where.item(i))
		if err != nil {
			return nil, err
		}
		switch v := v.(type) {
		case absent, nil:
		case map[string]any:
			maps.Copy(out, v)
		default:
			return nil, invalidf("%s$merge joins objects, and part %d is %s", at(where), i+1, kind(v))
		}
	}
	return out, nil
}

type concat []template

func (c concat) eval(e *evaluation, where *place) (any, error) {
	var parts []any
	arrays := 0
	for i, t := range c {
		v, err := t.eval(e, where.item(i))
		if err != nil {
			return nil, err
		}
		switch v.(type) {
		case absent, nil:
			continue
		case []any:
			arrays++
		case map[string]any:
			return nil, invalidf("%s$concat joins texts or arrays, and part %d is an object", at(where), i+1)
		}
		parts = append(parts, v)
	}
	if arrays == 0 {
		return joinText(parts), nil
	}
	if arrays < len(parts) {
		return nil, invalidf("%s$concat joins texts or arrays, not both", at(where))
	}
	out := []any{}
	for _, p := range parts {
		out = append(out, p.([]any)...)
	}
	return out, nil
}

func joinText(parts []any) string {
	var b strings.Builder
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			b.WriteString(p)
		case json.Number:
			b.WriteString(p.String())
		default:
			fmt.Fprint(&b, p) // true or false
		}
	}
	return b.String()
}

func kind(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "a text"
	case []any:
		return "an array"
	case map[string]any:
		return "an object"
	}
	return "a number"
}
