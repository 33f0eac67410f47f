package sandbox

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"helix/backend/sandbox/qjs"
)

// The program cache is limited by number of programs and by total bytes of bytecode, since the
// bytecode of a 1 MiB source can be much larger.
const (
	maxPrograms     = 256
	maxProgramBytes = 64 << 20
)

// MaxSource is the size in bytes of the largest source that CompileJS accepts.
const MaxSource = 1 << 20

const (
	compileTime   = 10 * time.Second
	compileMemory = 128 << 20
)

// Program is compiled JavaScript, ready to run any number of times, by any goroutine.
type Program struct {
	name     string
	code     []byte // bytecode
	entry    Entry
	warnings []Warning
	lines    lineMap
}

func (*Program) runnable() {}

// Entry is how a source provides the function to run.
type Entry string

// The entry forms, in the order in which they are tried.
const (
	EntryDefault Entry = "default" // export default
	EntryExecute Entry = "execute" // function execute(params)
	EntryMain    Entry = "main"    // function main()
	EntryBody    Entry = "body"    // the text is the body of a function
)

// Entry returns the form that was found.
func (p *Program) Entry() Entry { return p.entry }

// Warning is advice about a source. Line starts at 1; 0 means the whole source.
type Warning struct {
	Message string `json:"message"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
}

// Warnings returns the compiler's warnings; never nil.
func (p *Program) Warnings() []Warning { return p.warnings }

// CompileJS compiles a source. The result is cached in memory, so compiling the same text again is
// cheap. An error has class compile and a CompileDetail with the position in the original text.
func (e *Engine) CompileJS(ctx context.Context, s Source) (*Program, error) {
	if err := e.begin(); err != nil {
		return nil, err
	}
	defer e.runs.Done()
	if s.Language == "" {
		s.Language = JavaScript
	}
	if s.Name == "" {
		s.Name = "tool.js"
		if s.Language == TypeScript {
			s.Name = "tool.ts"
		}
	}
	key := sha256.Sum256(fmt.Appendf(nil, "%d:%s%s\x00%s", len(s.Name), s.Name, s.Language, s.Text))
	if p, ok := e.programs.Get(key); ok {
		return p, nil
	}
	t, err := e.translate(ctx, s)
	if err != nil {
		return nil, err
	}
	code, cerr := e.bytecode(ctx, t.text, s.Name, t.module)
	if cerr != nil {
		return nil, compileFailure(ctx, s, t, cerr)
	}
	p := &Program{name: s.Name, code: code, entry: t.entry, warnings: t.warnings, lines: t.lines}
	e.programs.Put(key, p)
	return p, nil
}

// bytecode compiles JavaScript in the world for compiling, under the same limits and watchdog as
// runs.
func (e *Engine) bytecode(ctx context.Context, text, name string, module bool) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, contextError(ctx)
	}
	in, err := e.compiler()
	if err != nil {
		return nil, err
	}
	l := Limits{Wall: compileTime, CPU: compileTime}.effective(false)
	l.MemoryBytes = compileMemory
	c := newControl(ctx, e, Call{}, l)
	c.halt, c.fuel, c.peak = in.Halt, in.Fuel, in.MemoryBytes
	defer c.crosscheck(in)()
	var code []byte
	out := c.do(func() {
		in.Arm(l.Fuel)
		if err = in.SetLimits(l.StackBytes, l.MemoryBytes); err == nil {
			code, err = in.Compile(text, name, module)
		}
		c.settle(outcome{})
	}, nil)
	e.compiled(in, !c.crashed)
	if out.err != nil {
		return nil, out.err
	}
	return code, err
}

// compiler returns an instance of the compiling world.
func (e *Engine) compiler() (*qjs.Instance, error) {
	e.mu.Lock()
	t, err := e.compiling, error(nil)
	if t == nil {
		if t, err = e.art.template(e.art.manifest.Compile, "compile.snap"); err != nil {
			err = damaged(err)
		} else {
			e.compiling = t
		}
	}
	in := e.compilerSpare
	e.compilerSpare = nil
	e.mu.Unlock()
	if in != nil || err != nil {
		return in, err
	}
	if in, err = e.vm.Copy(e.background, t, qjs.Options{Clock: e.clock, Rand: e.o.Rand}); err == nil {
		in.Seed([8]byte{})
	}
	return in, err
}

// compiled returns the instance after use. One is kept.
func (e *Engine) compiled(in *qjs.Instance, again bool) {
	if again && in.Intact() && in.Reset() == nil {
		e.mu.Lock()
		if e.compilerSpare == nil && !e.closed {
			e.compilerSpare, in = in, nil
		}
		e.mu.Unlock()
	}
	if in != nil {
		in.Close()
	}
}

func compileFailure(ctx context.Context, s Source, t *translated, err error) *Error {
	var x *qjs.Exception
	if errors.As(err, &x) {
		d := CompileDetail{File: s.Name}
		if m := framePosition.FindStringSubmatch(x.Stack); m != nil {
			line, _ := strconv.Atoi(m[1])
			col, _ := strconv.Atoi(m[2])
			d.Line, d.Column = t.lines.original(line, col)
			d.LineText = lineOf(s.Text, d.Line)
		}
		return &Error{Class: ClassCompile, Message: located(d, x.Error()), Details: d}
	}
	var own *Error
	if errors.As(err, &own) {
		if own.Class == ClassTimeout && ctx.Err() == nil || own.Class == ClassCPU {
			return &Error{Class: ClassCompile, Message: "The source takes too long to compile.", Err: err}
		}
		if own.Class != ClassMemory && own.Class != ClassTrap {
			return own
		}
	}
	return &Error{Class: ClassCompile, Message: "The source cannot be compiled.", Err: err}
}

var framePosition = regexp.MustCompile(`:(\d+):(\d+)`)

func located(d CompileDetail, text string) string {
	if d.Line == 0 {
		return text
	}
	return fmt.Sprintf("%s:%d:%d: %s", d.File, d.Line, d.Column, text)
}

func lineOf(text string, n int) string {
	for i := 1; n > 0; i++ {
		line, rest, more := strings.Cut(text, "\n")
		if i == n {
			return strings.TrimRight(head([]byte(line)), "\r")
		}
		if !more {
			break
		}
		text = rest
	}
	return ""
}

// translated is a source as JavaScript that evaluates to its entry function, or as a module that
// exports it.
type translated struct {
	text     string
	module   bool
	entry    Entry
	warnings []Warning
	lines    lineMap
	forms    forms
}

// bodyHead turns a text into the body of a function. It is a separate line, so that only line
// numbers change.
const bodyHead = "(async function (params, helix) {\n"

func (e *Engine) translate(ctx context.Context, s Source) (*translated, error) {
	if strings.TrimSpace(s.Text) == "" {
		return nil, failf(ClassCompile, "The source is empty.")
	}
	if len(s.Text) > MaxSource {
		return nil, failf(ClassCompile, "The source is larger than %s.", size(MaxSource))
	}
	if err := checkNesting(s); err != nil {
		return nil, err
	}
	plain, failure := e.transformSource(ctx, s, s.Text, 0)
	if failure == nil {
		return arrange(s, plain)
	}
	if failure.Details == nil { // no position: it could not be compiled at all
		return nil, failure
	}
	// A return or await outside a function is valid in a body, so try the text as a body.
	body, again := e.transformSource(ctx, s, bodyHead+s.Text+"\n})", 1)
	if again != nil {
		if again.Details == nil {
			return nil, again
		}
		if m := importStatement.FindStringSubmatch(s.Text); m != nil {
			return nil, importError(s, m[1])
		}
		return nil, failure
	}
	if err := e.checkBody(ctx, s); err != nil {
		return nil, err
	}
	body.entry = EntryBody
	return body, nil
}

// checkBody rejects a text that is not the body of a function but closes the function around it and
// opens another, like "return 1 })(); (() => {". Only "," and "}" can follow the end of a method,
// and neither can follow a declaration, so no such text is valid inside both.
func (e *Engine) checkBody(ctx context.Context, s Source) *Error {
	for _, around := range [...][2]string{{"({ async body(params, helix) {\n", "\n} })"}, {"async function body(params, helix) {\n", "\n}"}} {
		if _, err := e.transformSource(ctx, s, around[0]+s.Text+around[1], 1); err != nil {
			return err
		}
	}
	return nil
}

// importStatement matches an import in a text that is not valid as a module.
var importStatement = regexp.MustCompile(`(?m)^\s*import\s*(?:[\w*{$][^;'"]*?from\s*)?["']([^"'\n]+)["']`)

// transformSource compiles the text of a source. above is the number of lines that text has before
// the first line of the source.
func (e *Engine) transformSource(ctx context.Context, s Source, text string, above int) (*translated, *Error) {
	r, failure := e.transform(ctx, Transform{Text: text, TypeScript: s.Language == TypeScript, Forms: above == 0})
	if failure != nil {
		return nil, failure
	}
	if len(r.Errors) > 0 {
		return nil, messageError(s, r.Errors[0], above)
	}
	t := &translated{text: string(r.Code), warnings: []Warning{}}
	if r.forms != nil {
		t.forms = *r.forms
	}
	m, err := parseMap(r.Map)
	if err != nil {
		return nil, &Error{Class: ClassCompile, Message: "The source cannot be compiled.", Err: err}
	}
	t.lines = lineMap{m: m, above: above}
	for _, w := range r.Warnings {
		x := Warning{Message: w.Text}
		if w.Line > above {
			x.Line, x.Column = w.Line-above, w.Column
		}
		t.warnings = append(t.warnings, x)
	}
	return t, nil
}

func messageError(s Source, m TransformMessage, above int) *Error {
	d := CompileDetail{File: s.Name}
	if m.Line > above {
		d.Line, d.Column, d.LineText = m.Line-above, m.Column, m.LineText
	}
	return &Error{Class: ClassCompile, Message: located(d, m.Text), Details: d}
}
