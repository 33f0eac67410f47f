// Package schema validates JSON values against JSON Schema (draft-04 to 2020-12) with bounded work:
// neither a schema nor a value from outside can make a check, or the compilation of a schema, run
// for long, use much memory or crash the process. It is the only package that uses a JSON Schema
// library; any package above may import it.
//
// It compiles schemas with santhosh-tekuri/jsonschema, but does not use its validator, which cannot
// be stopped or limited, and dereferences nil for large exponents. The verdicts are the same.
package schema

import (
	"context"
	"encoding/json"
	"errors"
	"math/big"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"helix/backend/fault"
	"helix/backend/jcs"
)

// Limits of a schema. A schema within them compiles in well under a second.
const (
	MaxBytes     = 256 << 10
	MaxDepth     = 64     // of arrays and objects in its text
	MaxValues    = 20_000 // JSON values in its text
	MaxFindings  = 20
	maxSchemas   = 2_000   // subschemas: the time of compilation grows with their square
	maxPlaces    = 1 << 20 // bytes of the JSON pointers to all subschemas, which the library stores
	maxResources = 100     // each $id, and each reference to a non-schema keyword: the library copies its tables for it
)

// Finding is one mismatch between a value and a schema.
type Finding struct {
	Path    string `json:"path"` // JSON pointer into the value; "" for the whole value
	Keyword string `json:"keyword"`
	Message string `json:"message"`
}

// Findings is the details of an error about a value that does not match.
type Findings struct {
	Errors []Finding `json:"errors"` // at most 20
}

// Problem is the details of an error about a schema that cannot be used.
type Problem struct {
	Path string `json:"path"` // JSON pointer into the schema
}

// Schema is a compiled schema. It is safe for concurrent use.
type Schema struct {
	root    *jsonschema.Schema
	rules   map[*jsonschema.Schema][]rule     // of patternProperties, in a fixed order
	values  map[any]valueSet                  // by *jsonschema.Enum, and by the pointer to a const
	names   map[*jsonschema.Schema][]property // sorted
	limits  map[*big.Rat]double               // of the limits of numbers
	scopes  map[*jsonschema.Schema]*scope     // only if the schema has dynamic references
	secrets map[*jsonschema.Schema]bool

	defaults bool // some schema has a default
}

// rule is one pattern of patternProperties.
type rule struct {
	pattern *pattern
	schema  *jsonschema.Schema
}

// valueSet is the set of values that enum or const allows.
type valueSet struct {
	keys  map[string]struct{}
	types jsonschema.Types
}

// property is a member of an object that a schema names.
type property struct {
	name   string
	schema *jsonschema.Schema
}

// double is the float64 next to a number, which exact says it is.
type double struct {
	near  float64
	exact bool
}

// scope is a resource of the schema, in which dynamic references are resolved.
type scope struct {
	root    *jsonschema.Schema
	anchors map[string]*jsonschema.Schema // $dynamicAnchor
}

const address = "helix:schema"

// noLoader refuses references to other documents; nothing is ever fetched.
type noLoader struct{}

func (noLoader) Load(string) (any, error) {
	return nil, errors.New("references to other documents are not followed")
}

// Compile compiles a schema; $schema selects the draft, by default 2020-12. References must be
// within the schema, and patterns have linear running time (RE2). The error is Invalid, or Limit
// for a schema that is too large, with Problem as details.
func Compile(raw []byte) (*Schema, error) {
	if len(raw) > MaxBytes {
		return nil, limit("", "The schema has %d bytes; %d are allowed.", len(raw), MaxBytes)
	}
	doc, err := jcs.Decode(raw, MaxDepth, MaxValues)
	if err != nil {
		var p jcs.NumberProblem
		p, _ = fault.As(err).Details.(jcs.NumberProblem)
		return nil, problem(p.Path, "The schema cannot be used: %s.", text(err))
	}
	switch doc.(type) {
	case map[string]any, bool:
	default:
		return nil, problem("", "A schema is a JSON object, true or false.")
	}
	in := &inventory{schemas: map[string]map[string]any{}}
	if err := in.take(doc, "", ""); err != nil {
		return nil, err
	}
	if err := in.references(doc); err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	c.UseRegexpEngine(newPatterns().compile)
	c.AssertFormat()
	if err := c.AddResource(address, doc); err != nil {
		return nil, in.explain(err)
	}
	root, err := c.Compile(address)
	if err != nil {
		return nil, in.explain(err)
	}
	s := &Schema{root: root, rules: map[*jsonschema.Schema][]rule{}, values: map[any]valueSet{}, names: map[*jsonschema.Schema][]property{}, limits: map[*big.Rat]double{}, secrets: map[*jsonschema.Schema]bool{}}
	if err := s.prepare(c, in); err != nil {
		return nil, err
	}
	return s, nil
}

func text(err error) string {
	var f *fault.Error
	if errors.As(err, &f) {
		return f.Message
	}
	return err.Error()
}

func problem(path, format string, args ...any) error {
	return fault.Invalidf(format, args...).WithDetails(Problem{path})
}

func limit(path, format string, args ...any) error {
	return fault.Limitf(format, args...).WithDetails(Problem{path})
}

// CheckJSON compiles a schema and checks a JSON text against it. It returns the mismatches; an
// error is about the schema, the text or the work.
func CheckJSON(ctx context.Context, raw, value json.RawMessage) ([]Finding, error) {
	s, err := Compile(raw)
	if err != nil {
		return nil, err
	}
	return s.CheckJSON(ctx, value)
}

// CheckJSON checks a JSON text. It returns the mismatches; an error is about the text or the work.
func (s *Schema) CheckJSON(ctx context.Context, value json.RawMessage) ([]Finding, error) {
	v, size, err := jcs.DecodeSized(value, maxValueDepth, 0)
	if err != nil {
		return nil, fault.Invalidf("The value can't be used: %s.", text(err))
	}
	return s.CheckSized(ctx, v, size)
}

// CheckSized checks a value that jcs.DecodeSized has read at a depth of at most 1,000, with its size: there is no
// need to look at all of it before.
func (s *Schema) CheckSized(ctx context.Context, v any, size int) ([]Finding, error) {
	_, err := s.run(newChecker(s, ctx, size), v)
	return Mismatches(err)
}

// Mismatches extracts the findings from an error of Check, and returns other errors unchanged.
func Mismatches(err error) ([]Finding, error) {
	if err == nil {
		return nil, nil
	}
	if f, ok := fault.As(err).Details.(Findings); ok {
		return f.Errors, nil
	}
	return nil, err
}

// Cache stores compiled schemas, and the errors of invalid ones, by their text. The zero value is
// ready for use. It has two generations: entries that were not used while the younger one filled up
// are dropped.
type Cache struct {
	mu         sync.Mutex
	young, old map[string]cached
	bytes      int // of the texts in young
}

type cached struct {
	schema *Schema
	err    error
}

const (
	maxCached      = 128
	maxCachedBytes = 1 << 20 // of text; compiled, it is larger
)

// Compile is Compile with the cache.
func (c *Cache) Compile(raw []byte) (*Schema, error) {
	c.mu.Lock()
	found, ok := c.young[string(raw)]
	if !ok {
		if found, ok = c.old[string(raw)]; ok {
			c.put(string(raw), found)
		}
	}
	c.mu.Unlock()
	if !ok {
		found.schema, found.err = Compile(raw)
		if len(raw) <= MaxBytes {
			c.mu.Lock()
			c.put(string(raw), found)
			c.mu.Unlock()
		}
	}
	return found.schema, found.err
}

// CheckJSON is CheckJSON with the cache.
func (c *Cache) CheckJSON(ctx context.Context, raw, value json.RawMessage) ([]Finding, error) {
	s, err := c.Compile(raw)
	if err != nil {
		return nil, err
	}
	return s.CheckJSON(ctx, value)
}

func (c *Cache) put(key string, v cached) {
	if len(c.young) >= maxCached || c.bytes+len(key) > maxCachedBytes || c.young == nil {
		c.young, c.old, c.bytes = map[string]cached{}, c.young, 0
	}
	c.young[key] = v
	c.bytes += len(key)
}

// explain converts the library's error to a message with the position in the schema.
func (in *inventory) explain(err error) error {
	var load *jsonschema.LoadURLError
	var rx *jsonschema.InvalidRegexError
	var invalid *jsonschema.SchemaValidationError
	var ve *jsonschema.ValidationError
	switch {
	case errors.As(err, &rx):
		return problem(fragment(rx.URL), "The pattern %.100q cannot be used: %s.", rx.Regex, rx.Err)
	case errors.As(err, &load):
		return problem(in.leaving, "The schema refers to another document. Only references inside it (#…) are followed.")
	case errors.As(err, &invalid) && errors.As(invalid.Err, &ve):
		english := message.NewPrinter(language.English)
		path, why := "", ""
		eachLeaf(ve, func(leaf *jsonschema.ValidationError) {
			at := pointer(leaf.InstanceLocation)
			said := shorten(leaf.ErrorKind.LocalizedString(english), 300)
			if f, ok := leaf.ErrorKind.(*kind.Format); ok && f.Want == "regex" {
				said = "the pattern cannot be used: " + shorten(f.Err.Error(), 200)
			}
			if why == "" {
				path, why = at, said
			}
		})
		if u := fragment(invalid.URL); u != "" {
			path = u + path
		}
		return problem(path, "Not a valid JSON Schema: %s: %s.", pathOr(path, "the schema"), why)
	}
	return problem("", "Not a valid JSON Schema: %s.", strings.ReplaceAll(shorten(err.Error(), 300), address, ""))
}

func pathOr(path, whole string) string {
	if path == "" {
		return whole
	}
	return path
}

func eachLeaf(e *jsonschema.ValidationError, fn func(*jsonschema.ValidationError)) {
	if len(e.Causes) == 0 {
		fn(e)
	}
	for _, c := range e.Causes {
		eachLeaf(c, fn)
	}
}

func pointer(parts []string) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString("/" + jcs.EscapePointer(p))
	}
	return b.String()
}

// shorten truncates a text that may contain parts of a schema or value.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
