package expr

import (
	"github.com/theory/jsonpath/spec"
)

// Condition is a parsed logical expression of RFC 9535, such as $.fetch.count > 0 && $.input.mode
// == 'full'. It is safe for concurrent use.
type Condition struct {
	text   string
	filter *spec.FilterSelector
	cost   *filterCost
}

// ParseCondition parses a logical expression, as between ?( and ) in a query. Both $ and @
// refer to the document.
func ParseCondition(text string) (*Condition, error) {
	if err := checkText(text); err != nil {
		return nil, err
	}
	bad := func(why string) error {
		if looksLikeCode(text) {
			return invalidf("condition: %q is JavaScript; write an RFC 9535 condition such as $.step1.count > 0", text)
		}
		return invalidf("condition: %q cannot be read: %s", text, why)
	}
	if !closed(text) {
		return nil, bad("its brackets do not match")
	}
	p, err := newParser().Parse("$[?(" + rewrite(text) + ")]")
	if err != nil {
		return nil, bad(parseReason(err))
	}
	segs := p.Query().Segments()
	if len(segs) != 1 || segs[0].IsDescendant() || len(segs[0].Selectors()) != 1 {
		return nil, bad("it is not one expression")
	}
	f, ok := segs[0].Selectors()[0].(*spec.FilterSelector)
	if !ok {
		return nil, bad("it is not a logical expression")
	}
	return &Condition{text: text, filter: f, cost: costOf(f)}, nil
}

// closed reports whether the brackets of text are balanced.
func closed(text string) bool {
	var open []string
	for _, t := range tokens(text) {
		switch t.text {
		case "(", "[":
			open = append(open, t.text)
		case ")", "]":
			if len(open) == 0 || (open[len(open)-1] == "(") != (t.text == ")") {
				return false
			}
			open = open[:len(open)-1]
		}
	}
	return len(open) == 0
}

// String returns the source text.
func (c *Condition) String() string { return c.text }

// Holds evaluates the condition on doc. The error is of kind limit.
func (c *Condition) Holds(doc any) (ok bool, err error) {
	err = guard(&budget{MaxNodes}, func(b *budget) {
		b.spend(c.cost.one(doc))
		ok = c.filter.Eval(doc, doc)
	})
	return ok && err == nil, err
}

// OnlyExistence reports whether the condition is a bare path. Such a condition holds if the path
// matches anything, even false or 0, which is rarely intended.
func (c *Condition) OnlyExistence() bool {
	or := c.filter.LogicalOr
	for {
		if len(or) != 1 || len(or[0]) != 1 {
			return false
		}
		switch e := or[0][0].(type) {
		case *spec.ParenExpr:
			or = e.LogicalOr
		case *spec.ExistExpr:
			return true
		default:
			return false
		}
	}
}

// Heads returns the names at the beginning of each path of the condition; see Path.Head.
func (c *Condition) Heads() [][]string { return heads(c.filter.String()) }

// heads returns the names at the beginning of each root query in a canonical text.
func heads(canonical string) [][]string {
	var out [][]string
	filters := 0
	ts := tokens(canonical)
	for i, t := range ts {
		switch {
		case t.text == "?":
			filters++
		case t.text == "$", t.text == "@" && filters < 2: // inside an inner filter @ is not the document
			out = append(out, names(ts[i+1:]))
		}
	}
	return out
}
