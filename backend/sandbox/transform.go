package sandbox

import (
	"context"
	"regexp"
	"unicode/utf8"

	"github.com/evanw/esbuild/pkg/api"

	"helix/backend/sandbox/worker"
)

// esbuild cannot be stopped, and a short text can make it use all memory or run for hours: it folds
// the strings of enums, whose length may double with each member, indents by depth, and compares
// every declaration with every other. So only small sources without keywords that can cause
// exponential growth are compiled in this process. Everything else is compiled in a child process
// with limits on memory and time.

// Transform is a source to compile to JavaScript.
type Transform struct {
	Text       string
	TypeScript bool
	// KeepImports leaves import() in the output. Otherwise it becomes a call of require, which does
	// not exist in tools.
	KeepImports bool
	// Forms requests the entry forms of the output.
	Forms bool
}

// Transformed is the result of a Transform. Errors is empty if there is code.
type Transformed struct {
	Code, Map        []byte
	Errors, Warnings []TransformMessage

	forms *forms // nil: not requested, or the output cannot be parsed
}

// TransformMessage is an error or a warning of the compiler. Line and Column count from 1,
// Column in characters; both are 0 if it has no position.
type TransformMessage = worker.Message

const (
	// smallTransform is the size in bytes up to which a source is compiled in this process:
	// anything in it that takes quadratic time takes less than 0.1 s.
	smallTransform = 8 << 10
	// smallTransformed limits the output of such a source in bytes, since it is parsed in this
	// process too.
	smallTransformed = 1 << 20
	// maxTransformed is the maximum size in bytes of code and map together.
	maxTransformed = 12 << 20

	maxTransformErrors   = 20
	maxTransformWarnings = 100
	maxMessageText       = 1 << 10

	// lineLimit is the length beyond which lines of the output are wrapped, which also limits their
	// indentation.
	lineLimit = 2000
)

// growing matches keywords with which a short source can take exponential time or memory. It also
// matches inside strings and comments, which costs only time. Keywords cannot contain escapes.
var growing = regexp.MustCompile(`\b(enum|namespace|module|using)\b`)

// Transform compiles a source to JavaScript. Syntax errors are in the result; the error is *Error:
// the source is nested too deeply or too expensive to compile (class compile), or it needs a child
// process and none can be started (class unavailable). A nil Engine can only compile sources that
// need no child.
func (e *Engine) Transform(ctx context.Context, t Transform) (Transformed, error) {
	if e != nil {
		if err := e.enter(); err != nil {
			return Transformed{}, err
		}
		defer e.runs.Done()
	}
	r, err := e.transform(ctx, t)
	if err != nil {
		return r, err
	}
	return r, nil
}

func (e *Engine) transform(ctx context.Context, t Transform) (Transformed, *Error) {
	if err := checkNesting(Source{Name: "source", Text: t.Text}); err != nil {
		return Transformed{}, err
	}
	if len(t.Text) <= smallTransform && !growing.MatchString(t.Text) {
		r := runTransform(t, smallTransformed)
		if r != nil {
			return *r, nil
		}
	}
	if e == nil {
		return Transformed{}, failf(ClassUnavailable, "A source of this kind is compiled in a separate process, which cannot be started here.")
	}
	return e.compilers.transform(ctx, t)
}

// runTransform runs the compiler. It returns nil if the output is larger than limit bytes.
func runTransform(t Transform, limit int) *Transformed {
	o := api.TransformOptions{
		Loader: api.LoaderJS, Target: api.ES2022, Charset: api.CharsetUTF8, LegalComments: api.LegalCommentsNone,
		Sourcemap: api.SourceMapExternal, SourcesContent: api.SourcesContentExclude, LineLimit: lineLimit,
		LogLevel: api.LogLevelSilent, Platform: api.PlatformNeutral, TreeShaking: api.TreeShakingFalse,
		TsconfigRaw: `{"compilerOptions":{"verbatimModuleSyntax":true}}`,
	}
	if t.TypeScript {
		o.Loader = api.LoaderTS
	}
	if !t.KeepImports {
		o.Supported = map[string]bool{"dynamic-import": false}
	}
	r := api.Transform(t.Text, o)
	out := &Transformed{Errors: messages(r.Errors, maxTransformErrors), Warnings: messages(r.Warnings, maxTransformWarnings)}
	if len(out.Errors) > 0 {
		return out
	}
	if len(r.Code)+len(r.Map) > limit {
		return nil
	}
	out.Code, out.Map = r.Code, r.Map
	if t.Forms {
		// The tree parser has limits that the language does not have, and does not support return
		// outside a function: then there are no forms.
		if f, err := findForms(withoutShebang(string(r.Code))); err == nil {
			out.forms = &f
		}
	}
	return out
}

// messages converts the first of the compiler's messages; limit bounds their number, because each
// costs the length of its line.
func messages(list []api.Message, limit int) []TransformMessage {
	out := []TransformMessage{}
	for _, m := range list[:min(len(list), limit)] {
		x := TransformMessage{Text: clip(m.Text, maxMessageText)}
		if l := m.Location; l != nil {
			x.Line, x.LineText = l.Line, head([]byte(l.LineText))
			x.Column = utf8.RuneCountInString(l.LineText[:min(l.Column, len(l.LineText))]) + 1
		}
		out = append(out, x)
	}
	return out
}
