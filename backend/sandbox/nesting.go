package sandbox

import (
	"strings"
	"unicode/utf8"
)

// Parsers of programming languages are recursive, and a Go program that runs out of stack cannot
// recover: 130 KiB of "(" would end the process. So before anything parses a source, nesting
// computes an upper bound of its depth in one pass without recursion. It knows just enough of the
// syntax to skip strings and comments and to detect where a statement ends. Where it could be wrong
// (is this / a division or a regular expression?) it continues to count everything, so that it errs
// on the side of rejecting.

const (
	// smallSource is a size in bytes below which no nesting is harmful.
	smallSource = 16 << 10
	// maxDepth is the maximum total of open brackets and of operators that wait for their operand.
	maxDepth = 5000
	// maxCommas limits one sequence of commas outside list and object literals.
	maxCommas = 20_000
)

// checkNesting refuses a source that is nested too deeply to be parsed safely.
func checkNesting(s Source) *Error {
	if len(s.Text) <= smallSource {
		return nil
	}
	n := nesting{text: s.Text, levels: []level{{kind: block}}, start: true}
	if n.scan() {
		return nil
	}
	d := CompileDetail{File: s.Name, Line: 1 + strings.Count(s.Text[:min(n.pos, len(s.Text))], "\n"), Column: 1}
	return &Error{Class: ClassCompile, Message: located(d, "the source is nested too deeply"), Details: d}
}

type levelKind byte

const (
	block    levelKind = iota // statements
	literal                   // an object
	brackets                  // [ ]
	group                     // ( )
	header                    // ( ) after if, for, while, with
	template                  // ${ } inside a template
)

type level struct {
	kind   levelKind
	chain  int // operators since the last end of a statement or element
	commas int
	elses  int // of one if statement, each nested in the previous one
}

type nesting struct {
	text   string
	pos    int
	levels []level
	depth  int  // levels and chains of all of them
	strict bool // possibly wrong: skip nothing from here on

	start  bool   // at the start of a statement or after an operator: an operand follows
	word   string // the last token if it was a word
	dot    bool   // the last token was a dot, so a word is a name
	header bool   // the last token closed the ( ) of an if or a loop
	unsure bool   // the last token may or may not have ended an operand
	begun  bool   // the statement has begun
}

func (n *nesting) top() *level { return &n.levels[len(n.levels)-1] }

// count counts an operator that may nest.
func (n *nesting) count() {
	n.top().chain++
	n.depth++
}

// end ends a statement or element: what was open on this level is closed.
func (n *nesting) end() {
	t := n.top()
	n.depth -= t.chain
	t.chain, t.commas = 0, 0
}

// operator records a token after which an operand follows.
func (n *nesting) operator() {
	n.start, n.word, n.dot, n.header, n.unsure = true, "", false, false, false
}

// operand records a token that may end an expression.
func (n *nesting) operand() {
	n.start, n.word, n.dot, n.header, n.unsure = false, "", false, false, false
}

func (n *nesting) scan() bool {
	for n.pos < len(n.text) {
		if n.depth > maxDepth || n.top().commas > maxCommas {
			return false
		}
		c := n.text[n.pos]
		switch {
		case c == '\n' || c == '\r' || strings.HasPrefix(n.text[n.pos:], "\u2028") || strings.HasPrefix(n.text[n.pos:], "\u2029"):
			n.newline()
		case c == ' ' || c == '\t':
			n.pos++
		case isWordByte(c):
			n.scanWord()
		case c == '"' || c == '\'':
			n.skipString(c)
		case c == '`':
			n.skipTemplate()
		case c == '/':
			n.slash()
		default:
			n.punctuation(c)
		}
	}
	return n.depth <= maxDepth && n.top().commas <= maxCommas
}

func isWordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '$' || c == '#' || c == '@' || c == '\\' || c >= utf8.RuneSelf
}

// newline ends a statement if the previous one could end here and a token follows that starts a
// statement, as automatic semicolon insertion does.
func (n *nesting) newline() {
	_, w := utf8.DecodeRuneInString(n.text[n.pos:])
	n.pos += w
	if n.strict || n.start || n.header || n.unsure || n.top().kind != block {
		return
	}
	rest := strings.TrimLeft(n.text[n.pos:min(len(n.text), n.pos+256)], " \t\r\n")
	if rest == "" || isWordByte(rest[0]) && !strings.HasPrefix(rest, "instanceof") && !strings.HasPrefix(rest, "in ") || rest[0] == '}' {
		n.end()
		n.begun = false
	}
}

// operatorWords are followed by an operand.
var operatorWords = map[string]bool{
	"return": true, "typeof": true, "case": true, "do": true, "else": true, "in": true, "instanceof": true, "new": true, "void": true,
	"delete": true, "throw": true, "await": true, "yield": true, "of": true, "extends": true, "default": true, "if": true, "for": true,
	"while": true, "with": true, "as": true, "satisfies": true, "keyof": true, "infer": true, "is": true, "asserts": true, "readonly": true, "unique": true,
}

func (n *nesting) scanWord() {
	from := n.pos
	for n.pos < len(n.text) && isWordByte(n.text[n.pos]) && !strings.HasPrefix(n.text[n.pos:], "\u2028") && !strings.HasPrefix(n.text[n.pos:], "\u2029") {
		n.pos++
	}
	if n.pos == from {
		n.pos++
		return
	}
	w := n.text[from:n.pos]
	if t := n.top(); w == "else" {
		t.elses++
		n.depth++
	} else if !n.begun {
		n.depth -= t.elses
		t.elses = 0
	}
	n.begun = true
	if n.dot || !operatorWords[w] {
		n.operand()
		n.word = w
		return
	}
	n.count()
	// These can also be names, so what follows is uncertain.
	name := w == "of" || w == "await" || w == "yield" || w == "as" || w == "satisfies" || w == "keyof" || w == "infer" || w == "is" || w == "asserts" || w == "readonly" || w == "unique"
	n.operator()
	n.word, n.unsure = w, name
}

func (n *nesting) skipString(quote byte) {
	n.begun = true
	i := n.pos + 1
	for i < len(n.text) && n.text[i] != quote && n.text[i] != '\n' {
		if n.text[i] == '\\' {
			i++
		}
		i++
	}
	if n.strict {
		n.pos++
		return
	}
	n.pos = min(i+1, len(n.text))
	n.operand()
}

// skipTemplate skips text up to the end of a template or to the code inside it.
func (n *nesting) skipTemplate() {
	n.begun = true
	n.pos++
	if n.strict {
		return
	}
	for n.pos < len(n.text) {
		switch n.text[n.pos] {
		case '\\':
			n.pos++
		case '`':
			n.pos++
			n.count() // a tagged template continues an expression
			n.operand()
			return
		case '$':
			if strings.HasPrefix(n.text[n.pos:], "${") {
				n.pos += 2
				n.open(template)
				return
			}
		}
		n.pos++
	}
}

func (n *nesting) slash() {
	rest := n.text[n.pos:]
	switch {
	case n.strict:
		n.pos++
		n.count()
	case strings.HasPrefix(rest, "//"):
		if i := strings.IndexAny(rest, "\n\r\u2028\u2029"); i >= 0 {
			n.pos += i
		} else {
			n.pos = len(n.text)
		}
	case strings.HasPrefix(rest, "/*"):
		if i := strings.Index(rest[2:], "*/"); i >= 0 {
			n.pos += i + 4
		} else {
			n.pos = len(n.text)
		}
	case n.unsure:
		n.strict = true
	case n.start || n.header:
		n.skipPattern()
	default:
		n.pos++
		n.count()
		n.operator()
	}
}

func (n *nesting) skipPattern() {
	class := false
	for i := n.pos + 1; i < len(n.text); i++ {
		switch c := n.text[i]; {
		case c == '\\':
			i++
		case c == '\n':
			n.strict = true // this is not a regular expression after all
			return
		case c == '[':
			class = true
		case c == ']':
			class = false
		case c == '/' && !class:
			n.pos = i + 1
			n.operand()
			return
		}
	}
	n.strict = true
}

func (n *nesting) open(k levelKind) {
	n.levels = append(n.levels, level{kind: k})
	n.depth++
	n.operator()
	n.begun = false
}

func (n *nesting) close(kinds ...levelKind) level {
	t := *n.top()
	match := false
	for _, k := range kinds {
		match = match || t.kind == k
	}
	if len(n.levels) == 1 || !match {
		return level{kind: literal} // unbalanced: the parser will report a syntax error
	}
	n.end()
	n.levels = n.levels[:len(n.levels)-1]
	n.depth -= 1 + t.elses
	return t
}

func (n *nesting) punctuation(c byte) {
	rest := n.text[n.pos:]
	n.pos++
	switch c {
	case '(':
		k := group
		if n.word == "if" || n.word == "for" || n.word == "while" || n.word == "with" || n.word == "await" {
			k = header
		}
		n.count()
		n.open(k)
	case '[':
		n.count()
		n.open(brackets)
	case '{':
		n.openBrace()
	case ')':
		t := n.close(group, header)
		n.operand()
		n.begun = true
		if t.kind == header {
			n.header, n.start = true, true
		}
	case ']':
		n.close(brackets)
		n.operand()
		n.begun = true
	case '}':
		n.closeBrace()
	case ';':
		n.end()
		n.operator()
		n.begun = false
	case ',':
		n.comma()
	default:
		n.begun = true
		if strings.HasPrefix(rest, "<!--") || strings.HasPrefix(rest, "-->") {
			n.strict = true // an HTML-like comment
		}
		plus := strings.HasPrefix(rest, "++") || strings.HasPrefix(rest, "--")
		if plus {
			n.pos++
		}
		n.count()
		wasOperand := !n.start
		n.operator()
		n.dot = c == '.' || c == '?' && strings.HasPrefix(rest, "?.")
		// After x++, x! and a<b>, either an operator or an operand may follow.
		n.unsure = plus && wasOperand || c == '!' && wasOperand || c == '>'
	}
}

func (n *nesting) comma() {
	t := n.top()
	if t.kind == brackets || t.kind == literal {
		n.end()
	} else {
		n.depth -= t.chain
		t.chain = 0
		t.commas++
	}
	n.operator()
	n.begun = true
}

// openBrace tells a block from an object by the tokens before it.
func (n *nesting) openBrace() {
	k := block
	if n.start && n.begun && !n.header && n.word != "else" && n.word != "do" && !n.afterArrow() {
		k = literal
	}
	n.count()
	n.open(k)
}

func (n *nesting) afterArrow() bool {
	return strings.HasSuffix(strings.TrimRight(n.text[:n.pos-1], " \t\r\n"), "=>")
}

func (n *nesting) closeBrace() {
	t := n.close(block, literal, template)
	n.begun = true
	switch t.kind {
	case template:
		n.operand()
		n.pos-- // skipTemplate steps over one character: the brace
		n.skipTemplate()
	case block:
		n.operand()
		n.unsure = true // a block, or a function's body inside an expression
		if n.top().kind == block && !n.strict {
			n.end()
			n.begun = false
			n.start = true
		}
	default:
		n.operand()
	}
}
