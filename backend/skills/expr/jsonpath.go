package expr

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/theory/jsonpath/spec"
)

// Path is a parsed RFC 9535 query. It is safe for concurrent use.
type Path struct {
	text  string
	query *spec.PathQuery
	costs map[*spec.FilterSelector]*filterCost
}

// Node is a value of a document with its normalized path (RFC 9535, section 2.7).
type Node struct {
	Path  string
	Value any
}

// ParsePath parses a query that begins with $.
func ParsePath(text string) (*Path, error) {
	if err := checkText(text); err != nil {
		return nil, err
	}
	p, err := newParser().Parse(rewrite(text))
	if err != nil {
		return nil, invalidf("%q is not a path: %s.", text, parseReason(err))
	}
	out := &Path{text: text, query: p.Query(), costs: map[*spec.FilterSelector]*filterCost{}}
	for _, seg := range out.query.Segments() {
		for _, sel := range seg.Selectors() {
			if f, ok := sel.(*spec.FilterSelector); ok {
				out.costs[f] = costOf(f)
			}
		}
	}
	return out, nil
}

// String returns the source text.
func (p *Path) String() string { return p.text }

// Singular reports whether the path can match at most one node.
func (p *Path) Singular() bool { return p.query.Singular() != nil }

// Head returns the names at the beginning of the path, such as steps, fetch, output for
// $.steps.fetch.output[*]. They show what the path depends on, without a document.
func (p *Path) Head() []string { return head(p.query) }

func head(q *spec.PathQuery) []string {
	var names []string
	for _, seg := range q.Segments() {
		if seg.IsDescendant() || len(seg.Selectors()) != 1 {
			break
		}
		n, ok := seg.Selectors()[0].(spec.Name)
		if !ok {
			break
		}
		names = append(names, string(n))
	}
	return names
}

// Select returns the values that the path matches in doc, in document order; members of objects are
// ordered by the code points of their names. The error is of kind limit.
func (p *Path) Select(doc any) (values []any, err error) {
	return p.selectWithin(doc, &budget{MaxNodes})
}

// selectWithin is Select that also deducts the visited nodes from a budget shared by several evaluations.
func (p *Path) selectWithin(doc any, all *budget) (values []any, err error) {
	own := &budget{min(MaxNodes, all.left)}
	before := own.left
	defer func() { all.left -= before - max(own.left, 0) }()
	err = guard(own, func(b *budget) {
		w := walker{b: b, root: doc, costs: p.costs}
		values = []any{}
		w.query(p.query, func(_ *step, v any) { values = append(values, v) })
	})
	if err != nil {
		return nil, err
	}
	return values, nil
}

// Locate is Select that returns the normalized path of the first most nodes. Other nodes have no
// path, because the path of a deep node is long.
func (p *Path) Locate(doc any, most int) (nodes []Node, err error) {
	err = guard(&budget{MaxNodes}, func(b *budget) {
		w := walker{b: b, root: doc, costs: p.costs, locate: true}
		nodes = []Node{}
		w.query(p.query, func(s *step, v any) {
			n := Node{Value: v}
			if len(nodes) < most {
				n.Path = s.String()
			}
			nodes = append(nodes, n)
		})
	})
	if err != nil {
		return nil, err
	}
	return nodes, nil
}

// step is the path from the root to a node, as a list that begins with the last part.
type step struct {
	up    *step
	name  string
	index int // -1: a name
}

// String returns the normalized path.
func (s *step) String() string {
	var parts spec.NormalizedPath
	for ; s != nil; s = s.up {
		if s.index >= 0 {
			parts = append(parts, spec.Index(s.index))
		} else {
			parts = append(parts, spec.Name(s.name))
		}
	}
	slices.Reverse(parts)
	return parts.String()
}

// walker evaluates one query. It walks the parsed query itself, because the library uses Go's map
// order, which is random.
type walker struct {
	b      *budget
	root   any
	costs  map[*spec.FilterSelector]*filterCost
	price  map[*spec.FilterSelector]int // cost of one evaluation over root
	locate bool
}

// charge deducts the cost of one evaluation of a filter from the budget.
func (w *walker) charge(f *spec.FilterSelector) {
	n, ok := w.price[f]
	if !ok {
		n = w.costs[f].one(w.root)
		if w.price == nil {
			w.price = map[*spec.FilterSelector]int{}
		}
		w.price[f] = n
	}
	w.b.spend(n)
}

type visit func(at *step, v any)

func (w *walker) query(q *spec.PathQuery, yield visit) { w.segments(q.Segments(), nil, w.root, yield) }

func (w *walker) segments(rest []*spec.Segment, at *step, v any, yield visit) {
	w.b.spend(1)
	if len(rest) == 0 {
		yield(at, v)
		return
	}
	if !rest[0].IsDescendant() {
		w.segment(rest[0], rest[1:], at, v, yield)
		return
	}
	w.descend(rest[0], rest[1:], at, v, yield)
}

// segment applies the selectors of one segment to one node.
func (w *walker) segment(s *spec.Segment, rest []*spec.Segment, at *step, v any, yield visit) {
	for _, sel := range s.Selectors() {
		w.selector(sel, at, v, func(at *step, v any) { w.segments(rest, at, v, yield) })
	}
}

func (w *walker) descend(s *spec.Segment, rest []*spec.Segment, at *step, v any, yield visit) {
	w.segment(s, rest, at, v, yield)
	w.children(at, v, func(at *step, v any) {
		w.b.spend(1)
		w.descend(s, rest, at, v, yield)
	})
}

func (w *walker) selector(sel spec.Selector, at *step, v any, yield visit) {
	switch sel := sel.(type) {
	case spec.Name:
		if m, ok := v.(map[string]any); ok {
			if e, ok := m[string(sel)]; ok {
				yield(w.named(at, string(sel)), e)
			}
		}
	case spec.Index:
		if a, ok := v.([]any); ok {
			i := int(sel)
			if i < 0 {
				i += len(a)
			}
			if i >= 0 && i < len(a) {
				yield(w.indexed(at, i), a[i])
			}
		}
	case spec.SliceSelector:
		if a, ok := v.([]any); ok {
			w.slice(sel, at, a, yield)
		}
	case spec.WildcardSelector:
		w.children(at, v, yield)
	case *spec.FilterSelector:
		w.children(at, v, func(at *step, v any) {
			w.charge(sel)
			if sel.Eval(v, w.root) {
				yield(at, v)
			}
		})
	}
}

func (w *walker) slice(sel spec.SliceSelector, at *step, a []any, yield visit) {
	lower, upper := sel.Bounds(len(a))
	switch by := sel.Step(); {
	case by > 0:
		for i := lower; i < upper; i += by {
			yield(w.indexed(at, i), a[i])
			if by > upper-i { // the next index could overflow
				return
			}
		}
	case by < 0:
		for i := upper; i > lower; i += by {
			yield(w.indexed(at, i), a[i])
			if by < lower-i {
				return
			}
		}
	}
}

func (w *walker) children(at *step, v any, yield visit) {
	switch v := v.(type) {
	case []any:
		for i, e := range v {
			yield(w.indexed(at, i), e)
		}
	case map[string]any:
		w.b.spend(len(v))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			yield(w.named(at, k), v[k])
		}
	}
}

func (w *walker) named(at *step, name string) *step {
	if !w.locate {
		return nil
	}
	return &step{up: at, name: name, index: -1}
}

func (w *walker) indexed(at *step, i int) *step {
	if !w.locate {
		return nil
	}
	return &step{up: at, index: i}
}

// checkText checks the limits on the work of the parser itself.
func checkText(text string) error {
	if len(text) > MaxText {
		return invalidf("The expression is %d bytes long; %d are allowed.", len(text), MaxText)
	}
	depth := 0
	for _, t := range tokens(text) {
		switch t.text {
		case "(", "[":
			if depth++; depth > MaxDepth {
				return invalidf("The expression is nested more than %d deep.", MaxDepth)
			}
		case ")", "]":
			depth--
		case ours + "match", ours + "search":
			return invalidf("Unknown function %s.", t.text)
		}
	}
	return nil
}

// token is a part of a query: a string literal with its quotes, a run of name characters, or one
// other character.
type token struct {
	text string
	kind tokenKind
}

type tokenKind int

const (
	tokenMark tokenKind = iota
	tokenWord
	tokenText
)

// tokens splits a query into tokens. It is lenient: an unclosed string extends to the end, and the
// parser reports the error.
func tokens(text string) []token {
	var out []token
	for i := 0; i < len(text); {
		j := i + 1
		kind := tokenMark
		switch c := text[i]; {
		case c == '"' || c == '\'':
			kind = tokenText
			for j < len(text) && text[j] != c {
				if text[j] == '\\' {
					j++
				}
				j++
			}
			j = min(j+1, len(text))
		case wordByte(c):
			kind = tokenWord
			for j < len(text) && wordByte(text[j]) {
				j++
			}
		}
		out = append(out, token{text[i:j], kind})
		i = j
	}
	return out
}

func wordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

// ours is the prefix of the functions that replace the library's.
const ours = "helix_"

// rewrite converts a query to a form that the library parses correctly. It writes the shorthand
// members true, false and null, which the library takes for literals, as ['true'] etc.; renames the
// functions match and search to ours; and removes blanks before && and ||, which the library
// rejects after some comparisons.
func rewrite(text string) string {
	ts := tokens(text)
	var b strings.Builder
	for i := 0; i < len(ts); i++ {
		t := ts[i]
		if t.text == "." && i+1 < len(ts) && ts[i+1].kind == tokenWord {
			switch name := ts[i+1].text; name {
			case "true", "false", "null":
				if i > 0 && ts[i-1].text == "." {
					b.WriteByte('.') // of the descendant segment, whose first dot is already written
				}
				b.WriteString("['" + name + "']")
				i++
				continue
			}
		}
		if blank(t) {
			next := i + 1
			for next < len(ts) && blank(ts[next]) {
				next++
			}
			if next+1 < len(ts) && ts[next].text == ts[next+1].text && (ts[next].text == "&" || ts[next].text == "|") {
				i = next - 1
				continue
			}
		}
		if (t.text == "match" || t.text == "search") && (i == 0 || ts[i-1].text != ".") && i+1 < len(ts) && ts[i+1].text == "(" {
			b.WriteString(ours)
		}
		b.WriteString(t.text)
	}
	return b.String()
}

func blank(t token) bool {
	return t.kind == tokenMark && strings.ContainsAny(t.text, " \t\r\n")
}

func parseReason(err error) string {
	s := strings.TrimPrefix(err.Error(), "jsonpath: ")
	return strings.ReplaceAll(s, ours, "")
}

// filterCost is the cost of one evaluation of a filter. It is derived from the canonical text of
// the filter, because the operands in the library's filters cannot be walked.
type filterCost struct {
	scans   int               // number of segments and selectors that may visit the whole document
	nested  int               // number of filters inside the filter
	queries [][]spec.Selector // queries for a single node of the root that is compared or measured
}

func costOf(f *spec.FilterSelector) *filterCost {
	c := &filterCost{nested: -1}
	ts := tokens(f.String())
	for i := 0; i < len(ts); i++ {
		switch t := ts[i]; t.text {
		case "?":
			c.nested++
		case "*", ":":
			c.scans++
		case ".":
			if i+1 < len(ts) && ts[i+1].text == "." {
				c.scans++
				i++
			}
		case "$":
			if sel := singleNode(ts[i+1:]); len(sel) > 0 {
				c.queries = append(c.queries, sel)
			} else if sel != nil {
				c.scans++ // $ itself
			}
		}
	}
	return c
}

// singleNode parses ["name"] and [index] selectors. It returns nil if there is another kind of
// segment, whose cost is counted separately.
func singleNode(ts []token) []spec.Selector {
	out := []spec.Selector{}
	for len(ts) > 0 && ts[0].text == "[" {
		sign, at := 1, 1
		if len(ts) > at && ts[at].text == "-" {
			sign, at = -1, at+1
		}
		if len(ts) <= at+1 || ts[at+1].text != "]" {
			return nil
		}
		switch t := ts[at]; t.kind {
		case tokenText:
			name, err := strconv.Unquote(t.text)
			if err != nil {
				return nil
			}
			out = append(out, spec.Name(name))
		case tokenWord:
			n, err := strconv.Atoi(t.text)
			if err != nil {
				return nil
			}
			out = append(out, spec.Index(sign*n))
		default:
			return nil
		}
		ts = ts[at+2:]
	}
	return out
}

// one returns the cost of one evaluation over the document root.
func (c *filterCost) one(root any) int {
	cost := 1
	if c.scans > 0 || c.nested > 0 {
		size := weight(root, MaxNodes)
		cost = mul(c.scans+1, size)
		for range c.nested {
			cost = mul(cost, size)
		}
	}
	for _, q := range c.queries {
		v := root
		for _, sel := range q {
			found := sel.Select(v, nil)
			if len(found) == 0 {
				v = nil
				break
			}
			v = found[0]
		}
		cost += weight(v, MaxNodes)
	}
	return min(cost, MaxNodes+1)
}

func mul(a, b int) int {
	if a != 0 && b > MaxNodes/cmp.Or(a, 1) {
		return MaxNodes + 1
	}
	return a * b
}

// names parses ["name"] selectors of a canonical text up to the first other token.
func names(ts []token) []string {
	out := []string{}
	for len(ts) > 2 && ts[0].text == "[" && ts[1].kind == tokenText && ts[2].text == "]" {
		name, err := strconv.Unquote(ts[1].text)
		if err != nil {
			break
		}
		out = append(out, name)
		ts = ts[3:]
	}
	return out
}
