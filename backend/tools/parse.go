package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"sort"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/tdewolff/parse/v2"
	"github.com/tdewolff/parse/v2/js"

	"helix/backend/fault"
	"helix/backend/sandbox"
)

// wrapper makes a valid function of a body with return and await. It adds one line.
const (
	wrapHead = "async function body(params, helix) {\n"
	wrapTail = "\n}"
)

// source is the syntax tree of a tool with the mapping back to lines and columns.
type source struct {
	ast     *js.AST
	text    []byte // the parsed text: the code itself, or esbuild's output for TypeScript
	given   string // the original code
	wrapped bool
	lines   []int      // offsets of the lines of text
	smap    *sourceMap // maps text to given; nil when they are the same
}

// moduleSyntax matches code that can only be a module or a named function. For such code the error
// of the unwrapped text is reported.
var moduleSyntax = regexp.MustCompile(`(?m)^\s*(export|import)\b|^\s*(async\s+)?function\s+(execute|main)\b`)

// parseSource parses code as a module, then as a function body. problems are syntax errors; if
// there are any, the tree is nil. If esbuild accepts the code and the tree parser does not, the
// tree is nil and there are no problems: the code is valid but cannot be analyzed.
func (k checker) parseSource(ctx context.Context, code string, lang Language) (*source, []Problem) {
	if err := sandbox.CheckNesting(sandbox.Source{Text: code, Language: sandbox.Language(lang)}); err != nil {
		p := problemf("nesting", "code", "The source is nested too deeply.")
		if d, ok := fault.As(err).Details.(sandbox.CompileDetail); ok {
			p.Line, p.Column = d.Line, d.Column
		}
		return nil, []Problem{p}
	}
	plain, problems := k.transform(ctx, code, lang, false)
	if len(problems) > 0 && problems[0].Code == codeTooCostly {
		return nil, problems
	}
	if problems == nil && plain.ast != nil {
		return plain, nil
	}
	if problems == nil { // the tree parser does not allow return outside of a function
		if wrapped, p := k.transform(ctx, code, lang, true); p == nil && wrapped.ast != nil {
			return wrapped, nil
		}
		return plain, nil
	}
	wrapped, wrappedProblems := k.transform(ctx, code, lang, true)
	if wrappedProblems == nil {
		return wrapped, nil
	}
	if moduleSyntax.MatchString(code) {
		return nil, problems
	}
	return nil, wrappedProblems
}

// transform compiles and parses code. For TypeScript it parses the compiled JavaScript.
func (k checker) transform(ctx context.Context, code string, lang Language, wrap bool) (*source, []Problem) {
	text := code
	if wrap {
		text = wrapHead + code + wrapTail
	}
	r, err := k.box.Transform(ctx, sandbox.Transform{Text: text, TypeScript: lang == TypeScript, KeepImports: true})
	if err != nil {
		return nil, []Problem{problemf(codeTooCostly, "code", "%s", fault.As(err).Message)}
	}
	if len(r.Errors) > 0 {
		return nil, syntaxProblems(r.Errors, wrap)
	}
	s := &source{given: code, wrapped: wrap}
	switch {
	case lang != TypeScript:
		s.parse([]byte(text))
	case len(r.Code) <= maxParsed:
		s.smap = readSourceMap(r.Map)
		s.parse(r.Code)
	}
	return s, nil
}

// codeTooCostly is the code of the problem that the code cannot be compiled within the limits on
// memory and time.
const codeTooCostly = "compile"

// maxParsed is the maximum size of code that is parsed for analysis, in bytes. Compiled code of a
// tool is larger only if that was intended.
const maxParsed = 2 * maxCode

func (s *source) parse(text []byte) {
	s.text = make([]byte, len(text), len(text)+1) // space for the end marker, so that the tree points into s.text
	copy(s.text, text)
	s.ast = parseTree(s.text)
	s.lines = lineStarts(s.text)
}

// parseTree returns nil if the parser does not support the syntax.
func parseTree(buf []byte) (ast *js.AST) {
	defer func() {
		if recover() != nil { // a parser bug must not prevent a save, because its findings are only advice
			ast = nil
		}
	}()
	ast, err := js.Parse(parse.NewInputBytes(buf), js.Options{})
	if err != nil {
		return nil
	}
	return ast
}

func syntaxProblems(list []sandbox.TransformMessage, wrap bool) []Problem {
	out := []Problem{}
	for _, m := range list {
		p := Problem{Code: "syntax", Field: "code", Message: m.Text, Line: m.Line, Column: m.Column}
		if wrap && p.Line > 0 {
			p.Line = max(1, p.Line-1)
		}
		out = append(out, p)
	}
	return out
}

func lineStarts(text []byte) []int {
	out := []int{0}
	for i, c := range text {
		if c == '\n' || c == '\r' && (i+1 == len(text) || text[i+1] != '\n') {
			out = append(out, i+1)
		}
	}
	return out
}

// offset returns where data, a part of the tree, begins in the text, or -1 if the parser created
// it. Parts are slices of the text, so the difference of the addresses is the offset.
func (s *source) offset(data []byte) int {
	if len(data) == 0 || len(s.text) == 0 {
		return -1
	}
	base := uintptr(unsafe.Pointer(unsafe.SliceData(s.text)))
	at := uintptr(unsafe.Pointer(unsafe.SliceData(data)))
	if at < base || at >= base+uintptr(len(s.text)) {
		return -1
	}
	return int(at - base)
}

// place returns line and column, from 1, in the original text; 0, 0 if unknown.
func (s *source) place(offset int) (line, column int) {
	if offset < 0 {
		return 0, 0
	}
	line = sort.SearchInts(s.lines, offset+1) - 1
	before := s.text[s.lines[line]:offset]
	if s.smap != nil {
		var ok bool
		if line, column, ok = s.smap.find(line, utf16Len(before)); !ok {
			return 0, 0
		}
	} else {
		column = utf8.RuneCount(before)
	}
	if s.wrapped {
		line--
	}
	if line < 0 {
		return 0, 0
	}
	return line + 1, column + 1
}

func utf16Len(b []byte) int {
	n := 0
	for _, r := range string(b) {
		if n++; r > 0xFFFF {
			n++
		}
	}
	return n
}

// sourceMap holds the mappings of a version 3 source map with a single source.
type sourceMap struct{ lines [][]mapping }

type mapping struct{ from, line, column int }

func readSourceMap(raw []byte) *sourceMap {
	var m struct{ Mappings string }
	if json.Unmarshal(raw, &m) != nil {
		return &sourceMap{}
	}
	out := &sourceMap{}
	var line, column int
	for _, l := range strings.Split(m.Mappings, ";") {
		var segs []mapping
		from := 0
		for _, seg := range strings.Split(l, ",") {
			v := decodeVLQ(seg)
			if len(v) < 4 {
				continue
			}
			from += v[0]
			line += v[2]
			column += v[3]
			segs = append(segs, mapping{from, line, column})
		}
		out.lines = append(out.lines, segs)
	}
	return out
}

func (m *sourceMap) find(line, column int) (int, int, bool) {
	if line >= len(m.lines) || len(m.lines[line]) == 0 {
		return 0, 0, false
	}
	segs := m.lines[line]
	i := sort.Search(len(segs), func(i int) bool { return segs[i].from > column }) - 1
	if i < 0 {
		return 0, 0, false
	}
	return segs[i].line, segs[i].column + column - segs[i].from, true
}

const base64Digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

func decodeVLQ(s string) []int {
	var out []int
	shift, value := 0, 0
	for i := range len(s) {
		d := strings.IndexByte(base64Digits, s[i])
		if d < 0 || shift > 25 {
			return nil
		}
		value |= (d & 31) << shift
		if d&32 != 0 {
			shift += 5
			continue
		}
		n := value >> 1
		if value&1 != 0 {
			n = -n
		}
		out, shift, value = append(out, n), 0, 0
	}
	return out
}

// stringValue returns the value of a string literal, with simple escapes decoded.
func stringValue(lit []byte) string {
	if len(lit) < 2 {
		return string(lit)
	}
	in := lit[1 : len(lit)-1]
	if !bytes.ContainsRune(in, '\\') {
		return string(in)
	}
	var s string
	if json.Unmarshal([]byte(`"`+strings.ReplaceAll(string(in), `"`, `\"`)+`"`), &s) == nil {
		return s
	}
	return strings.ReplaceAll(string(in), `\`, "")
}

func problemf(code, field, format string, args ...any) Problem {
	return Problem{Code: code, Field: field, Message: fmt.Sprintf(format, args...)}
}
