package sandbox

import (
	"context"
	"regexp"
	"unicode/utf8"

	"github.com/evanw/esbuild/pkg/api"

	"helix/backend/sandbox/worker"
)

// esbuild cannot be stopped, and a short text can make it take all memory or run for hours:
// it folds the strings of enums, whose length may double with each member, indents by depth,
// and compares every declaration with every other. So only what is small and free of the
// words that it grows exponentially on is compiled in this process. Everything else is
// compiled in a child process, which has a bound on memory and time.

// Transform is a source to be turned into JavaScript.
type Transform struct {
	Text       string
	TypeScript bool
	// KeepImports leaves import() in the output. Otherwise it becomes a call of require,
	// which no tool has.
	KeepImports bool
	// Forms asks for the entry forms of the output.
	Forms bool
}

// Transformed is what a Transform gave. Errors is empty when there is code.
type Transformed struct {
	Code, Map        []byte
	Errors, Warnings []TransformMessage

	forms *forms // nil: not asked for, or the output cannot be parsed
}

// TransformMessage is an error or a warning of the compiler. Line and Column count from 1,
// Column in characters; both are 0 when it has no place.
type TransformMessage = worker.Message

const (
	// smallTransform is the size in bytes up to which a source is compiled in this process:
	// what takes quadratic time in it takes less than 0.1 s.
	smallTransform = 8 << 10
	// smallTransformed bounds the output of one, since it is parsed in this process too.
	smallTransformed = 1 << 20
	// maxTransformed is the most code and map together, in bytes.
	maxTransformed = 12 << 20

	maxTransformErrors   = 20
	maxTransformWarnings = 100
	maxMessageText       = 1 << 10

	// lineLimit wraps longer lines of output, and thereby bounds their indentation.
	lineLimit = 2000
)

// growing finds words on which a short source can take exponential time or memory. They
// count inside of strings and comments too, which costs only time. A keyword has no escapes.
var growing = regexp.MustCompile(`\b(enum|namespace|module|using)\b`)

// Transform turns a source into JavaScript. Syntax errors are in the result; the error is
// *Error: the source is nested too deeply or too expensive to compile (class compile), or it
// needs a child process and none can be started (class unavailable). A nil Engine compiles
// what needs no child.
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

// runTransform runs the compiler. It is nil when the output is larger than limit.
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
		// The tree parser has limits that the language has not, and knows no return outside of
		// a function: then there are no forms.
		if f, err := findForms(withoutShebang(string(r.Code))); err == nil {
			out.forms = &f
		}
	}
	return out
}

// messages takes the first of what the compiler found: each costs the length of its line.
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
