package schema

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"helix/backend/fault"
	"helix/backend/jcs"
)

// Limits of one check. A unit of work is about 20 ns, so a check takes no more than about 100 ms,
// or the time to traverse a large value a few times.
const (
	maxWork       = 4_000_000
	workPerNode   = 24      // per node of the value, in addition to maxWork
	lookEvery     = 1 << 16 // units between two checks of the context
	maxFrames     = 4_000   // nested schemas and nested values
	maxValueDepth = 1_000
)

// checker is one check of one value.
type checker struct {
	s     *Schema
	ctx   context.Context // lives as long as one call
	left  int             // units of work
	look  int             // check ctx when left falls below it
	found []mismatch
}

// mismatch is a finding whose message has not been written yet: most of them are dropped, since
// another branch of the schema matches.
type mismatch struct {
	at      *frame
	keyword string
	message func() string
}

// stop is panicked to abort a check.
type stop struct{ err error }

func (c *checker) spend(n int) {
	if c.left -= n; c.left >= c.look {
		return
	}
	if err := context.Cause(c.ctx); err != nil {
		panic(stop{err})
	}
	if c.left < 0 {
		panic(stop{fault.Limitf("The schema needs too much work to check this value. Simplify the schema or check less at once.")})
	}
	c.look = max(c.left-lookEvery, 0)
}

// Check checks a value whose numbers are json.Number. The error is Invalid with Findings as
// details; Limit if the check would need too much work; and the context's error when it ends.
// Whether a check needs too much work depends only on the schema and the value.
func (s *Schema) Check(ctx context.Context, v any) error {
	_, err := s.check(ctx, v)
	return err
}

// check is Check that also returns how much of the work is left.
func (s *Schema) check(ctx context.Context, v any) (left int, err error) {
	c, err := s.checker(ctx, v)
	if err != nil {
		return 0, err
	}
	if err := c.guard(func() { c.eval(&frame{schema: s.root}, v, false, false) }); err != nil {
		return c.left, err
	}
	return c.left, c.mismatches()
}

// checker traverses v once, because the work allowed for a check depends on its size.
func (s *Schema) checker(ctx context.Context, v any) (*checker, error) {
	size, err := measure(v, 0)
	if err != nil {
		if bad, ok := errors.AsType[*badNumber](err); ok {
			slices.Reverse(bad.path)
			f := fault.As(jcs.TooLarge(pointer(bad.path), bad.number))
			p, _ := f.Details.(jcs.NumberProblem)
			return nil, f.WithDetails(Findings{[]Finding{{p.Path, "number", p.Message}}})
		}
		return nil, err
	}
	c := &checker{s: s, ctx: ctx, left: maxWork + workPerNode*size}
	c.look = max(c.left-lookEvery, 0)
	return c, nil
}

// guard runs fn and returns the error that stopped it.
func (c *checker) guard(fn func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case stop:
			err = fault.As(r.err)
		default:
			panic(r)
		}
	}()
	fn()
	return nil
}

// badNumber is a number that cannot be checked.
type badNumber struct {
	path   []string // innermost first
	number string
}

func (b *badNumber) Error() string { return b.number }

// measure counts the nodes of a value, and stops at one that cannot be checked.
func measure(v any, depth int) (n int, err error) {
	if depth > maxValueDepth {
		return 0, fault.Limitf("The value is nested more than %d levels deep.", maxValueDepth)
	}
	within := func(x any, name func() string) bool {
		var m int
		m, err = measure(x, depth+1)
		if bad, ok := err.(*badNumber); ok { //nolint:errorlint // it is not wrapped
			bad.path = append(bad.path, name())
		}
		n += m
		return err == nil
	}
	n = 1
	switch v := v.(type) {
	case nil, bool:
	case string:
		n += len(v) / 64
	case []any:
		for i, x := range v {
			if !within(x, func() string { return strconv.Itoa(i) }) {
				return 0, err
			}
		}
	case map[string]any:
		for k, x := range v {
			if n += len(k) / 64; !within(x, func() string { return k }) {
				return 0, err
			}
		}
	default:
		text, ok := numberText(v)
		if !ok || !jcs.NumberFits(text) {
			return 0, &badNumber{number: fmt.Sprint(v)}
		}
		n += len(text) / 16
	}
	return n, nil
}

// frame is one schema applied to one value. The enclosing frames determine the path to the value,
// cycles among references, and the dynamic scope.
type frame struct {
	schema *jsonschema.Schema
	up     *frame
	same   bool // the value is the same as that of up
	name   string
	index  int
	depth  int
}

func (f *frame) here(s *jsonschema.Schema) *frame {
	return &frame{schema: s, up: f, same: true, depth: f.depth + 1}
}

func (f *frame) member(s *jsonschema.Schema, name string) *frame {
	return &frame{schema: s, up: f, name: name, index: -1, depth: f.depth + 1}
}

func (f *frame) item(s *jsonschema.Schema, i int) *frame {
	return &frame{schema: s, up: f, index: i, depth: f.depth + 1}
}

func (f *frame) path() string {
	var parts []string
	for ; f.up != nil; f = f.up {
		switch {
		case f.same:
		case f.index >= 0:
			parts = append(parts, strconv.Itoa(f.index))
		default:
			parts = append(parts, f.name)
		}
	}
	slices.Reverse(parts)
	return pointer(parts)
}

// rest is the part of a value that a schema and its subschemas did not evaluate; as in the library,
// it decides unevaluatedProperties and unevaluatedItems.
type rest struct {
	props map[string]struct{}
	items map[int]struct{}
}

func (r *rest) empty() bool { return len(r.props) == 0 && len(r.items) == 0 }

func (c *checker) restOf(v any, s *jsonschema.Schema, needed bool) rest {
	var r rest
	switch v := v.(type) {
	case map[string]any:
		if s.AdditionalProperties == nil && (needed || s.UnevaluatedProperties != nil) {
			c.spend(4 * len(v))
			r.props = make(map[string]struct{}, len(v))
			for k := range v {
				r.props[k] = struct{}{}
			}
		}
	case []any:
		all, first := s.Items2020 != nil, len(s.PrefixItems)
		if s.DraftVersion < 2020 {
			all, first = s.AdditionalItems != nil, 0
			switch items := s.Items.(type) {
			case *jsonschema.Schema:
				all = true
			case []*jsonschema.Schema:
				first = len(items)
			}
		}
		if !all && (needed || s.UnevaluatedItems != nil) && first < len(v) {
			c.spend(4 * len(v))
			r.items = make(map[int]struct{}, len(v)-first)
			for i := first; i < len(v); i++ {
				r.items[i] = struct{}{}
			}
		}
	}
	return r
}

// keep removes from r everything that is not in other.
func (c *checker) keep(r *rest, other rest) {
	c.spend(len(r.props) + len(r.items))
	maps.DeleteFunc(r.props, func(k string, _ struct{}) bool { _, ok := other.props[k]; return !ok })
	maps.DeleteFunc(r.items, func(i int, _ struct{}) bool { _, ok := other.items[i]; return !ok })
}

// evaluation is the state of eval.
type evaluation struct {
	c     *checker
	f     *frame
	s     *jsonschema.Schema
	quiet bool // only the verdict matters
	bad   bool
	rest  rest
}

func (e *evaluation) fail(at *frame, keyword string, message func() string) {
	e.bad = true
	if e.quiet {
		return
	}
	e.c.spend(4)
	if len(e.c.found) < MaxFindings {
		e.c.found = append(e.c.found, mismatch{at, keyword, message})
	}
}

func (e *evaluation) failf(keyword, format string, args ...any) {
	e.fail(e.f, keyword, func() string { return fmt.Sprintf(format, args...) })
}

// child applies a schema to a member or an item.
func (e *evaluation) child(f *frame, v any) {
	if _, ok := e.c.eval(f, v, e.quiet, false); !ok {
		e.bad = true
	}
}

// also applies a schema to the same value without changing the verdict.
func (e *evaluation) also(s *jsonschema.Schema, v any, quiet bool) bool {
	r, ok := e.c.eval(e.f.here(s), v, e.quiet || quiet, !e.rest.empty())
	if ok {
		e.c.keep(&e.rest, r)
	}
	return ok
}

func (e *evaluation) must(s *jsonschema.Schema, v any) {
	if s != nil && !e.also(s, v, false) {
		e.bad = true
	}
}

// over reports that the verdict is known and nothing else is needed.
func (e *evaluation) over() bool { return e.quiet && e.bad }

// eval applies f's schema to v. The rest it returns is valid only if the schema matches.
func (c *checker) eval(f *frame, v any, quiet, needed bool) (rest, bool) {
	c.spend(6)
	s := f.schema
	e := &evaluation{c: c, f: f, s: s, quiet: quiet, rest: c.restOf(v, s, needed)}
	if s.Bool != nil {
		if !*s.Bool {
			e.failf("schema", "no value is allowed here")
		}
		return e.rest, *s.Bool
	}
	if f.depth > maxFrames {
		panic(stop{fault.Limitf("The schema needs too much work to check this value: it is nested too deep.")})
	}
	for up := f; up.same; {
		c.spend(1)
		if up = up.up; up.schema == s {
			e.failf("$ref", "the schema refers to itself without end")
			return e.rest, false
		}
	}
	e.general(v)
	if !e.bad && s.Ref != nil {
		e.must(s.Ref, v)
		if s.DraftVersion < 2019 {
			return e.rest, !e.bad
		}
	} else if e.bad {
		return e.rest, false
	}
	switch v := v.(type) {
	case map[string]any:
		e.object(v)
	case []any:
		e.array(v)
	case string:
		e.str(v)
	case nil, bool:
	default:
		e.number(v)
	}
	if e.over() {
		return e.rest, false
	}
	if s.DraftVersion >= 2019 {
		e.dynamic(v)
	}
	e.combine(v)
	if s.DraftVersion >= 2019 {
		e.unevaluated(v)
	}
	return e.rest, !e.bad
}

// general checks the keywords for values of any type; the first mismatch decides.
func (e *evaluation) general(v any) {
	s := e.s
	t := typeOf(v)
	if s.Types != nil && !s.Types.IsEmpty() {
		fits := *s.Types&t != 0
		if !fits && t == numberType && *s.Types&integerType != 0 {
			text, _ := numberText(v)
			e.c.spend(len(text))
			fits = isInteger(text)
		}
		if !fits {
			e.fail(e.f, "type", func() string { return "expected " + strings.Join(s.Types.ToStrings(), " or ") })
			return
		}
	}
	if s.Const != nil && !e.c.in(e.c.s.values[s.Const], t, v) {
		e.fail(e.f, "const", func() string { return "must be " + display([]any{*s.Const}) })
		return
	}
	if s.Enum != nil && !e.c.in(e.c.s.values[s.Enum], t, v) {
		e.fail(e.f, "enum", func() string { return "must be one of " + display(s.Enum.Values) })
		return
	}
	if s.Format != nil {
		text, ok := v.(string)
		e.c.spend(4 + len(text)/4)
		var err error
		if ok && s.Format.Name == "regex" {
			e.c.spend(50 * min(effort(text), maxPatternEffort))
			_, err = parsePattern(text)
		} else if ok {
			err = s.Format.Validate(v)
		}
		if err != nil {
			e.failf("format", "is not a valid %s: %s", s.Format.Name, shorten(err.Error(), 200))
		}
	}
}

func (e *evaluation) object(v map[string]any) {
	s := e.s
	if s.MinProperties != nil && len(v) < *s.MinProperties {
		e.failf("minProperties", "needs at least %d members, has %d", *s.MinProperties, len(v))
	}
	if s.MaxProperties != nil && len(v) > *s.MaxProperties {
		e.failf("maxProperties", "may have at most %d members, has %d", *s.MaxProperties, len(v))
	}
	e.need(v, s.Required, "required", "this value is required")
	if e.over() {
		return
	}
	for _, k := range sortedKeys(e.c, s.Dependencies) {
		if _, ok := v[k]; !ok {
			continue
		}
		switch dep := s.Dependencies[k].(type) {
		case []string:
			e.need(v, dep, "dependencies", fmt.Sprintf("this value is required beside %.100q", k))
		case *jsonschema.Schema:
			e.must(dep, v)
		}
	}
	if s.Properties != nil || s.PatternProperties != nil || s.AdditionalProperties != nil {
		e.members(v)
	}
	if s.DraftVersion == 4 || e.over() {
		return
	}
	if s.PropertyNames != nil {
		for _, k := range sortedKeys(e.c, v) {
			if e.child(e.f.member(s.PropertyNames, k), k); e.over() {
				return
			}
		}
	}
	for _, k := range sortedKeys(e.c, s.DependentSchemas) {
		if _, ok := v[k]; ok {
			e.must(s.DependentSchemas[k], v)
		}
	}
	for _, k := range sortedKeys(e.c, s.DependentRequired) {
		if _, ok := v[k]; ok {
			e.need(v, s.DependentRequired[k], "dependentRequired", fmt.Sprintf("this value is required beside %.100q", k))
		}
	}
}

func (e *evaluation) need(v map[string]any, names []string, keyword, message string) {
	e.c.spend(len(names))
	for _, name := range names {
		if _, ok := v[name]; !ok {
			e.fail(e.f.member(nil, name), keyword, func() string { return message })
		}
	}
}

func (e *evaluation) members(v map[string]any) {
	s := e.s
	rules := e.c.s.rules[s]
	for _, k := range sortedKeys(e.c, v) {
		if e.over() {
			return
		}
		known := false
		if sub, ok := s.Properties[k]; ok {
			known = true
			e.child(e.f.member(sub, k), v[k])
		}
		for _, r := range rules {
			if e.c.match(r.pattern, k) {
				known = true
				e.child(e.f.member(r.schema, k), v[k])
			}
		}
		if !known {
			switch more := s.AdditionalProperties.(type) {
			case nil:
				continue
			case bool:
				if !more {
					e.fail(e.f.member(nil, k), "additionalProperties", func() string { return "this property is not in the schema" })
				}
			case *jsonschema.Schema:
				e.child(e.f.member(more, k), v[k])
			}
		}
		delete(e.rest.props, k)
	}
}

func (e *evaluation) array(v []any) {
	s, c := e.s, e.c
	if s.MinItems != nil && len(v) < *s.MinItems {
		e.failf("minItems", "needs at least %d items, has %d", *s.MinItems, len(v))
	}
	if s.MaxItems != nil && len(v) > *s.MaxItems {
		e.failf("maxItems", "may have at most %d items, has %d", *s.MaxItems, len(v))
	}
	if s.UniqueItems && len(v) > 1 {
		e.unique(v)
	}
	first, others := s.PrefixItems, any(nil)
	if s.Items2020 != nil {
		others = s.Items2020
	}
	if s.DraftVersion < 2020 {
		others = s.Items
		if list, ok := s.Items.([]*jsonschema.Schema); ok {
			first, others = list, s.AdditionalItems
		}
	}
	n := min(len(first), len(v))
	for i, sub := range first[:n] {
		if e.over() {
			return
		}
		e.child(e.f.item(sub, i), v[i])
	}
	switch others := others.(type) {
	case bool:
		if !others && n < len(v) {
			e.failf("additionalItems", "may have at most %d items, has %d", n, len(v))
		}
	case *jsonschema.Schema:
		for i := n; i < len(v) && !e.over(); i++ {
			e.child(e.f.item(others, i), v[i])
		}
	}
	if s.Contains == nil || e.over() {
		return
	}
	mark, matched := len(c.found), 0
	for i, x := range v {
		if _, ok := c.eval(e.f.item(s.Contains, i), x, e.quiet, false); ok {
			matched++
			if s.DraftVersion >= 2020 {
				delete(e.rest.items, i)
			}
		}
	}
	least := 1
	if s.MinContains != nil {
		least = *s.MinContains
	}
	if matched >= least || len(c.found) == mark {
		c.found = c.found[:mark]
	}
	if matched < least {
		e.bad = true
		if len(c.found) == mark {
			e.failf("contains", "%d items match, at least %d must", matched, least)
		}
	}
	if s.MaxContains != nil && matched > *s.MaxContains {
		e.failf("maxContains", "%d items match, at most %d may", matched, *s.MaxContains)
	}
}

func (e *evaluation) unique(v []any) {
	seen := make(map[string]int, len(v))
	for i, x := range v {
		e.c.spend(12)
		key := string(e.c.key(nil, x))
		if j, ok := seen[key]; ok {
			e.failf("uniqueItems", "the items at %d and %d are equal", j, i)
			return
		}
		seen[key] = i
	}
}

func (e *evaluation) str(v string) {
	s := e.s
	if s.MinLength != nil || s.MaxLength != nil {
		e.c.spend(len(v) / 16)
		n := utf8.RuneCountInString(v)
		if s.MinLength != nil && n < *s.MinLength {
			e.failf("minLength", "needs at least %d characters, has %d", *s.MinLength, n)
		}
		if s.MaxLength != nil && n > *s.MaxLength {
			e.failf("maxLength", "may have at most %d characters, has %d", *s.MaxLength, n)
		}
	}
	if s.Pattern != nil && !e.c.match(s.Pattern.(*pattern), v) {
		e.failf("pattern", "does not match the pattern %.200q", s.Pattern.String())
	}
}

func (e *evaluation) number(v any) {
	s := e.s
	if s.Minimum == nil && s.Maximum == nil && s.ExclusiveMinimum == nil && s.ExclusiveMaximum == nil && s.MultipleOf == nil {
		return
	}
	text, _ := numberText(v)
	x, ok := e.c.rational(text)
	if !ok {
		e.failf("number", "cannot be compared")
		return
	}
	compare := func(limit *big.Rat) int {
		e.c.spend(4 + (limit.Num().BitLen()+limit.Denom().BitLen()+x.Num().BitLen()+x.Denom().BitLen())/64)
		return x.Cmp(limit)
	}
	if s.Minimum != nil && compare(s.Minimum) < 0 {
		e.failf("minimum", "must be at least %s", decimal(s.Minimum))
	}
	if s.Maximum != nil && compare(s.Maximum) > 0 {
		e.failf("maximum", "must be at most %s", decimal(s.Maximum))
	}
	if s.ExclusiveMinimum != nil && compare(s.ExclusiveMinimum) <= 0 {
		e.failf("exclusiveMinimum", "must be more than %s", decimal(s.ExclusiveMinimum))
	}
	if s.ExclusiveMaximum != nil && compare(s.ExclusiveMaximum) >= 0 {
		e.failf("exclusiveMaximum", "must be less than %s", decimal(s.ExclusiveMaximum))
	}
	if s.MultipleOf != nil && s.MultipleOf.Sign() != 0 {
		// x/m is an integer if x's numerator × m's denominator is divisible by the other two.
		a, b := new(big.Int).Mul(x.Num(), s.MultipleOf.Denom()), new(big.Int).Mul(x.Denom(), s.MultipleOf.Num())
		e.c.spend(4 + a.BitLen()*b.BitLen()/100_000)
		if a.Rem(a, b).Sign() != 0 {
			e.failf("multipleOf", "must be a multiple of %s", decimal(s.MultipleOf))
		}
	}
}

// dynamic follows $recursiveRef and $dynamicRef, outermost match first.
func (e *evaluation) dynamic(v any) {
	s := e.s
	if to := s.RecursiveRef; to != nil {
		if to.RecursiveAnchor {
			for f := e.f; f != nil; f = f.up {
				e.c.spend(6)
				if e.c.s.scopes[f.schema].root.RecursiveAnchor {
					to = f.schema
				}
			}
		}
		e.must(to, v)
	}
	if s.DynamicRef != nil {
		to, name := s.DynamicRef.Ref, s.DynamicRef.Anchor
		if name != "" && to.DynamicAnchor == name {
			for f := e.f; f != nil; f = f.up {
				e.c.spend(6)
				if found, ok := e.c.s.scopes[f.schema].anchors[name]; ok {
					to = found
				}
			}
		}
		e.must(to, v)
	}
}

// combine checks the keywords that combine schemas for the same value.
func (e *evaluation) combine(v any) {
	s, c := e.s, e.c
	if s.Not != nil && e.also(s.Not, v, true) {
		e.failf("not", "is excluded by the schema")
	}
	for _, sub := range s.AllOf {
		if e.must(sub, v); e.over() {
			return
		}
	}
	if len(s.AnyOf) > 0 {
		mark, matched := len(c.found), false
		for _, sub := range s.AnyOf {
			if e.also(sub, v, false) {
				matched = true
				if e.rest.empty() { // else each must report what it evaluated
					break
				}
			}
		}
		if matched {
			c.found = c.found[:mark]
		} else if e.bad = true; len(c.found) == mark {
			e.failf("anyOf", "matches none of the alternatives")
		}
	}
	if len(s.OneOf) > 0 {
		mark, matched := len(c.found), -1
		for i, sub := range s.OneOf {
			if !e.also(sub, v, matched >= 0) {
				continue
			}
			c.found = c.found[:mark]
			if matched >= 0 {
				e.failf("oneOf", "matches both alternative %d and %d", matched+1, i+1)
				break
			}
			matched = i
		}
		if matched < 0 {
			if e.bad = true; len(c.found) == mark {
				e.failf("oneOf", "matches none of the alternatives")
			}
		}
	}
	if s.If != nil {
		if e.also(s.If, v, true) {
			e.must(s.Then, v)
		} else {
			e.must(s.Else, v)
		}
	}
}

func (e *evaluation) unevaluated(v any) {
	s := e.s
	if obj, ok := v.(map[string]any); ok && s.UnevaluatedProperties != nil {
		for _, k := range sortedKeys(e.c, e.rest.props) {
			e.child(e.f.member(s.UnevaluatedProperties, k), obj[k])
		}
		e.rest.props = nil
	}
	if arr, ok := v.([]any); ok && s.UnevaluatedItems != nil {
		for _, i := range sortedKeys(e.c, e.rest.items) {
			e.child(e.f.item(s.UnevaluatedItems, i), arr[i])
		}
		e.rest.items = nil
	}
}

// mismatches writes the messages of the findings.
func (c *checker) mismatches() error {
	if len(c.found) == 0 {
		return nil
	}
	out := make([]Finding, len(c.found))
	for i, m := range c.found {
		out[i] = Finding{m.at.path(), m.keyword, shorten(m.message(), 300)}
	}
	return fault.Invalidf("%s: %s", pathOr(out[0].Path, "the value"), out[0].Message).WithDetails(Findings{out})
}

// sortedKeys makes the order of findings, and the work, deterministic.
func sortedKeys[K cmp.Ordered, V any](c *checker, m map[K]V) []K {
	if len(m) == 0 {
		return nil
	}
	c.spend(8 * len(m))
	keys := slices.AppendSeq(make([]K, 0, len(m)), maps.Keys(m))
	slices.Sort(keys)
	return keys
}
