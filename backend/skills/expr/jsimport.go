package expr

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
)

// ImportCondition converts a condition written in JavaScript to one of RFC 9535. It accepts only
// paths, literals, comparisons, && || !, parentheses, .length and comparison with undefined;
// everything else is an error. The text is parsed, never executed.
func ImportCondition(text string) (string, error) {
	refuse := invalidf("condition: %q is JavaScript; write an RFC 9535 condition such as $.step1.count > 0", text)
	if len(text) > MaxText {
		return "", refuse
	}
	ts, ok := jsTokens(text)
	if !ok {
		return "", refuse
	}
	p := &jsParser{ts: ts}
	out := p.or()
	if p.bad || len(p.ts) > 0 {
		return "", refuse
	}
	if _, err := ParseCondition(out); err != nil {
		return "", refuse
	}
	return out, nil
}

// looksLikeCode guesses whether a text is JavaScript. It is used only for the error message.
func looksLikeCode(text string) bool { return codeSign.MatchString(text) }

var codeSign = regexp.MustCompile("===|!==|=>|[;`]|\\?\\.|\\b(new|typeof|function|return|this|window|process|constructor|undefined)\\b|\\.\\w+\\s*\\(|[\\w$)\\]]\\s*=[^=]")

type jsToken struct {
	kind byte   // 'n' name, 'd' number, 's' string, 'o' operator, '$' root
	text string // the value of a string
}

var (
	jsName   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*`)
	jsNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?`)
	jsOps    = []string{"===", "!==", "==", "!=", "<=", ">=", "&&", "||", "<", ">", "!", "(", ")", "[", "]", "."}
)

func jsTokens(text string) (out []jsToken, ok bool) {
	for text = strings.TrimLeft(text, " \t\r\n"); text != ""; text = strings.TrimLeft(text, " \t\r\n") {
		switch c := text[0]; {
		case c == '$':
			out, text = append(out, jsToken{'$', "$"}), text[1:]
			continue
		case c == '"' || c == '\'':
			s, rest, ok := jsString(text)
			if !ok {
				return nil, false
			}
			out, text = append(out, jsToken{'s', s}), rest
			continue
		}
		if m := jsName.FindString(text); m != "" {
			out, text = append(out, jsToken{'n', m}), text[len(m):]
			continue
		}
		if m := jsNumber.FindString(text); m != "" {
			out, text = append(out, jsToken{'d', m}), text[len(m):]
			continue
		}
		found := false
		for _, op := range jsOps {
			if strings.HasPrefix(text, op) {
				out, text, found = append(out, jsToken{'o', op}), text[len(op):], true
				break
			}
		}
		if !found {
			return nil, false
		}
	}
	return out, true
}

// jsString parses a string literal with the escapes that JSON has too.
func jsString(text string) (value, rest string, ok bool) {
	quote := text[0]
	var body strings.Builder
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == quote:
			var s string
			err := json.Unmarshal([]byte(`"`+body.String()+`"`), &s)
			return s, text[i+1:], err == nil
		case c == '\\' && i+1 < len(text):
			i++
			if text[i] == '\'' {
				body.WriteByte('\'')
			} else {
				body.WriteString(text[i-1 : i+1])
			}
		case c == '"':
			body.WriteString(`\"`)
		default:
			body.WriteByte(c)
		}
	}
	return "", "", false
}

// jsParser is a recursive descent parser. Its depth is limited by the length of the text.
type jsParser struct {
	ts    []jsToken
	bad   bool
	depth int
}

func (p *jsParser) is(op string) bool {
	if len(p.ts) == 0 || p.ts[0].kind != 'o' || p.ts[0].text != op {
		return false
	}
	p.ts = p.ts[1:]
	return true
}

func (p *jsParser) fail() string { p.bad = true; return "" }

func (p *jsParser) or() string {
	if p.depth++; p.depth > MaxDepth {
		return p.fail()
	}
	defer func() { p.depth-- }()
	out := p.and()
	for !p.bad && p.is("||") {
		out += " || " + p.and()
	}
	return out
}

func (p *jsParser) and() string {
	out := p.not()
	for !p.bad && p.is("&&") {
		out += " && " + p.not()
	}
	return out
}

func (p *jsParser) not() string {
	negate := false
	for p.is("!") {
		negate = !negate
	}
	if p.is("(") {
		out := p.or()
		if !p.is(")") {
			return p.fail()
		}
		if negate {
			return "!(" + out + ")"
		}
		return "(" + out + ")"
	}
	if negate {
		a := p.operand()
		return "!" + a.truthy(p)
	}
	return p.comparison()
}

// operand is one side of a comparison.
type operand struct {
	text      string
	path      bool
	length    bool // the operand is the length of the value at path text
	undefined bool
}

func (o operand) String() string {
	if o.length {
		return "length(" + o.text + ")"
	}
	return o.text
}

// truthy converts a bare operand to its truth value in JavaScript.
func (o operand) truthy(p *jsParser) string {
	switch {
	case o.length:
		return "(length(" + o.text + ") > 0)"
	case o.path:
		t := o.text
		return "(" + t + " && " + t + " != false && " + t + " != null && " + t + " != 0 && " + t + " != '')"
	}
	return p.fail()
}

// jsCompare lists the comparison operators, longer ones first, with their form in RFC 9535.
var jsCompare = []struct{ js, rfc string }{
	{"===", "=="}, {"!==", "!="}, {"==", "=="}, {"!=", "!="},
	{"<=", "<="}, {">=", ">="}, {"<", "<"}, {">", ">"},
}

func (p *jsParser) comparison() string {
	a := p.operand()
	for _, op := range jsCompare {
		if p.is(op.js) {
			return p.compare(a, op.rfc, p.operand())
		}
	}
	return a.truthy(p)
}

func (p *jsParser) compare(a operand, op string, b operand) string {
	if a.undefined {
		a, b = b, a
	}
	if !b.undefined {
		return a.String() + " " + op + " " + b.String()
	}
	switch {
	case !a.path || a.length:
		return p.fail()
	case op == "==":
		return "!" + a.text
	case op == "!=":
		return a.text
	}
	return p.fail()
}

func (p *jsParser) operand() operand {
	if p.bad || len(p.ts) == 0 {
		p.fail()
		return operand{}
	}
	t := p.ts[0]
	p.ts = p.ts[1:]
	switch t.kind {
	case 'd':
		return operand{text: t.text}
	case 's':
		return operand{text: Quote(t.text)}
	case '$':
		return p.path("$")
	case 'n':
		switch t.text {
		case "true", "false", "null":
			return operand{text: t.text}
		case "undefined":
			return operand{undefined: true}
		case "new", "typeof", "void", "delete", "in", "instanceof", "function", "this", "return", "await":
			p.fail()
			return operand{}
		}
		return p.path("$" + Member(t.text))
	}
	p.fail()
	return operand{}
}

// path parses .name, [number] and ['name'] after the beginning of a path.
func (p *jsParser) path(text string) operand {
	o := operand{text: text, path: true}
	for !p.bad && !o.length {
		switch {
		case p.is("."):
			if len(p.ts) == 0 || p.ts[0].kind != 'n' {
				p.fail()
				return o
			}
			if name := p.ts[0].text; name == "length" {
				o.length = true
			} else {
				o.text += Member(name)
			}
			p.ts = p.ts[1:]
		case p.is("["):
			if len(p.ts) == 0 {
				p.fail()
				return o
			}
			t := p.ts[0]
			p.ts = p.ts[1:]
			n, err := strconv.Atoi(t.text)
			switch {
			case t.kind == 's':
				o.text += "[" + Quote(t.text) + "]"
			case t.kind == 'd' && err == nil && n >= 0:
				o.text += "[" + strconv.Itoa(n) + "]"
			default:
				p.fail()
			}
			if !p.is("]") {
				p.fail()
			}
		default:
			return o
		}
	}
	return o
}

var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Member returns the path segment for a member: .name if the name allows it, else ['name'].
func Member(name string) string {
	if plainName.MatchString(name) {
		return "." + name
	}
	return "[" + Quote(name) + "]"
}

// Quote returns s as a string literal of RFC 9535.
func Quote(s string) string {
	var b strings.Builder
	b.WriteByte('\'')
	for _, r := range s {
		switch {
		case r == '\'' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20:
			b.WriteString("\\u00" + string("0123456789abcdef"[r>>4]) + string("0123456789abcdef"[r&15]))
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('\'')
	return b.String()
}
