package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"helix/backend/fault"
)

// Bounds of a schema. maxWork bounds one validation: a schema whose references multiply
// (each level twice) would otherwise take exponential time.
const (
	maxSchemaBytes = 64 << 10
	maxSchemaDepth = 32
	maxSchemaNodes = 10_000
	maxRefDepth    = 64
	maxParamErrors = 20
	maxWork        = 5_000_000
)

const schemaURL = "helix:parameters"

// ParamError is one place where parameters break the schema.
type ParamError struct {
	Path    string `json:"path"` // JSON pointer into the parameters, "" for the whole
	Keyword string `json:"keyword"`
	Message string `json:"message"`
}

// ParamErrors are the details of the error for parameters that break the schema.
type ParamErrors struct {
	Errors []ParamError `json:"errors"` // at most 20
}

// schema is a compiled schema of parameters with what the host needs beside validation.
type schema struct {
	compiled *jsonschema.Schema
	doc      any
	plain    bool // cannot branch beyond a small multiple of schema and value
	secrets  bool // some value is marked format: password or x-secret
}

// errRemote is what a reference to another document gives; nothing is ever fetched.
var errRemote = errors.New("references to other documents are not followed")

type noLoader struct{}

func (noLoader) Load(string) (any, error) { return nil, errRemote }

// schemaProblem is an error in a schema with its place.
type schemaProblem struct {
	path, msg string
}

func (e *schemaProblem) Error() string { return e.msg }

// compileSchema checks a schema's bounds and compiles it. $schema chooses draft-07, 2019-09
// or 2020-12 (the default). The error is a *schemaProblem.
func compileSchema(raw json.RawMessage) (*schema, error) {
	if len(raw) > maxSchemaBytes {
		return nil, &schemaProblem{"", fmt.Sprintf("The schema has %d bytes; at most %d are allowed.", len(raw), maxSchemaBytes)}
	}
	doc, err := readJSON(raw, maxSchemaDepth, maxSchemaNodes)
	if err != nil {
		return nil, &schemaProblem{"", "The schema is not usable: " + err.Error() + "."}
	}
	switch doc.(type) {
	case map[string]any, bool:
	default:
		return nil, &schemaProblem{"", "A schema is a JSON object."}
	}
	if p := findRemoteRef(doc, ""); p != "" {
		return nil, &schemaProblem{p, "The schema refers to another document. Only references inside it (#…) are followed."}
	}
	if p := refDepth(doc); p != "" {
		return nil, &schemaProblem{p, fmt.Sprintf("References are nested more than %d deep.", maxRefDepth)}
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	c.AssertFormat()
	if err := c.AddResource(schemaURL, doc); err != nil {
		return nil, schemaError(err)
	}
	s, err := c.Compile(schemaURL)
	if err != nil {
		return nil, schemaError(err)
	}
	return &schema{compiled: s, doc: doc, plain: plainSchema(doc, new(int)), secrets: hasSecretMark(doc)}, nil
}

func schemaError(err error) error {
	var invalid *jsonschema.SchemaValidationError
	var rx *jsonschema.InvalidRegexError
	var load *jsonschema.LoadURLError
	var ve *jsonschema.ValidationError
	switch {
	case errors.As(err, &rx):
		return &schemaProblem{fragment(rx.URL), fmt.Sprintf("The pattern %q cannot be used: only patterns with linear running time are (no look-around, no back-references).", shorten(rx.Regex, 100))}
	case errors.As(err, &load):
		return &schemaProblem{fragment(load.URL), "The schema refers to another document. Only references inside it (#…) are followed."}
	case errors.As(err, &invalid) && errors.As(invalid.Err, &ve):
		var out []ParamError
		collect(ve, &out)
		if len(out) > 0 {
			for _, o := range out {
				if o.Keyword == "format" && strings.HasSuffix(o.Path, "/pattern") {
					return &schemaProblem{o.Path, "The pattern cannot be used: only patterns with linear running time are (no look-around, no back-references)."}
				}
			}
			return &schemaProblem{out[0].Path, "Not a valid JSON Schema: " + out[0].Message + "."}
		}
	}
	return &schemaProblem{"", "Not a valid JSON Schema: " + strings.ReplaceAll(shorten(err.Error(), 300), schemaURL, "") + "."}
}

func fragment(u string) string {
	if _, f, ok := strings.Cut(u, "#"); ok {
		return f
	}
	return ""
}

// findRemoteRef returns the place of the first reference that leaves the document.
func findRemoteRef(v any, path string) string {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range sortedKeys(v) {
			p := path + "/" + escapePointer(k)
			if s, ok := v[k].(string); ok {
				switch k {
				case "$ref", "$dynamicRef", "$recursiveRef":
					if !strings.HasPrefix(s, "#") {
						return p
					}
				}
			}
			if k == "const" || k == "enum" || k == "default" || k == "examples" {
				continue
			}
			if bad := findRemoteRef(v[k], p); bad != "" {
				return bad
			}
		}
	case []any:
		for i, x := range v {
			if bad := findRemoteRef(x, fmt.Sprintf("%s/%d", path, i)); bad != "" {
				return bad
			}
		}
	}
	return ""
}

// refDepth returns the place of a chain of references longer than maxRefDepth.
func refDepth(doc any) string {
	root, ok := doc.(map[string]any)
	if !ok {
		return ""
	}
	var refs func(v any, path string) string
	refs = func(v any, path string) string {
		switch v := v.(type) {
		case map[string]any:
			if _, ok := v["$ref"].(string); ok {
				at := any(v)
				for n := 0; ; n++ {
					m, ok := at.(map[string]any)
					if !ok {
						break
					}
					next, ok := m["$ref"].(string)
					if !ok || next == "#" {
						break
					}
					if n >= maxRefDepth {
						return path + "/$ref"
					}
					at = pointer(root, strings.TrimPrefix(next, "#"))
				}
			}
			for _, k := range sortedKeys(v) {
				if bad := refs(v[k], path+"/"+escapePointer(k)); bad != "" {
					return bad
				}
			}
		case []any:
			for i, x := range v {
				if bad := refs(x, fmt.Sprintf("%s/%d", path, i)); bad != "" {
					return bad
				}
			}
		}
		return ""
	}
	return refs(root, "")
}

// pointer follows a JSON pointer; nil when it leads nowhere.
func pointer(v any, p string) any {
	if p == "" {
		return v
	}
	for _, tok := range strings.Split(strings.TrimPrefix(p, "/"), "/") {
		tok = strings.ReplaceAll(strings.ReplaceAll(tok, "~1", "/"), "~0", "~")
		switch x := v.(type) {
		case map[string]any:
			v = x[tok]
		case []any:
			n := -1
			if _, err := fmt.Sscanf(tok, "%d", &n); err != nil || n < 0 || n >= len(x) {
				return nil
			}
			v = x[n]
		default:
			return nil
		}
	}
	return v
}

func escapePointer(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "~", "~0"), "/", "~1")
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

// apply checks params, fills in defaults and returns them as they go to the tool. Params nil
// or null are {}. The error is Invalid with ParamErrors as details.
func (s *schema) apply(params json.RawMessage) (json.RawMessage, error) {
	if len(bytes.TrimSpace(params)) == 0 || bytes.Equal(bytes.TrimSpace(params), []byte("null")) {
		params = json.RawMessage("{}")
	}
	v, err := readJSON(params, 64, 0)
	if err != nil {
		return nil, paramFault([]ParamError{{Keyword: "json", Message: err.Error()}})
	}
	if err := s.bounded(v); err != nil { // also filling in defaults follows what branches
		return nil, err
	}
	changed := fillDefaults(s.doc, s.doc, &v, 0)
	if changed {
		if err := s.bounded(v); err != nil {
			return nil, err
		}
	}
	if err := paramErrors(s.compiled.Validate(v)); err != nil {
		return nil, err
	}
	if !changed {
		return params, nil
	}
	return marshal(v)
}

// bounded refuses a value whose check would take more than maxWork steps.
func (s *schema) bounded(v any) error {
	if !s.plain && validationWork(s.compiled, v) > maxWork {
		return paramFault([]ParamError{{Keyword: "schema", Message: "the schema branches too often to check these parameters"}})
	}
	return nil
}

// plainSchema reports whether validation costs at most a small multiple of schema and
// value: no references and few combinators.
func plainSchema(v any, combos *int) bool {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			switch k {
			case "$ref", "$dynamicRef", "$recursiveRef":
				return false
			case "anyOf", "oneOf", "allOf", "not", "if":
				if *combos++; *combos > 64 {
					return false
				}
			}
			if !plainSchema(x, combos) {
				return false
			}
		}
	case []any:
		for _, x := range v {
			if !plainSchema(x, combos) {
				return false
			}
		}
	}
	return true
}

// fillDefaults sets absent properties that have a default, following properties, items,
// allOf and local references. It reports whether anything was set.
func fillDefaults(root, sch any, v *any, depth int) bool {
	m, ok := sch.(map[string]any)
	if !ok || depth > maxRefDepth {
		return false
	}
	changed := false
	if ref, ok := m["$ref"].(string); ok && strings.HasPrefix(ref, "#") && (ref == "#" || strings.HasPrefix(ref, "#/")) {
		changed = fillDefaults(root, pointer(root, strings.TrimPrefix(ref, "#")), v, depth+1)
	}
	if all, ok := m["allOf"].([]any); ok {
		for _, s := range all {
			changed = fillDefaults(root, s, v, depth+1) || changed
		}
	}
	switch x := (*v).(type) {
	case map[string]any:
		props, _ := m["properties"].(map[string]any)
		for _, name := range sortedKeys(props) {
			p, _ := props[name].(map[string]any)
			cur, present := x[name]
			if !present {
				def, ok := p["default"]
				if !ok {
					continue
				}
				x[name], changed = clone(def), true
				continue
			}
			if fillDefaults(root, props[name], &cur, depth+1) {
				x[name], changed = cur, true
			}
		}
	case []any:
		for i := range x {
			changed = fillDefaults(root, m["items"], &x[i], depth+1) || changed
		}
	}
	return changed
}

func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			out[k] = clone(x)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = clone(x)
		}
		return out
	}
	return v
}

func paramErrors(err error) error {
	var ve *jsonschema.ValidationError
	if err == nil {
		return nil
	}
	if !errors.As(err, &ve) {
		return paramFault([]ParamError{{Keyword: "schema", Message: shorten(err.Error(), 200)}})
	}
	var out []ParamError
	collect(ve, &out)
	return paramFault(out)
}

func paramFault(list []ParamError) error {
	msg := "The parameters do not match the tool's schema."
	if len(list) > 0 {
		where := list[0].Path
		if where == "" {
			where = "the parameters"
		}
		msg = fmt.Sprintf("The parameters do not match the tool's schema: %s: %s.", where, list[0].Message)
	}
	return fault.Invalidf("%s", msg).WithDetails(ParamErrors{list})
}

var english = message.NewPrinter(language.English)

// collect lists the leaves of a validation error, at most maxParamErrors.
func collect(e *jsonschema.ValidationError, out *[]ParamError) {
	if len(*out) >= maxParamErrors {
		return
	}
	if len(e.Causes) > 0 {
		for _, c := range e.Causes {
			collect(c, out)
		}
		return
	}
	path := ""
	for _, t := range e.InstanceLocation {
		path += "/" + escapePointer(t)
	}
	keyword := strings.Join(e.ErrorKind.KeywordPath(), "/")
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		for _, m := range k.Missing {
			if len(*out) < maxParamErrors {
				*out = append(*out, ParamError{path + "/" + escapePointer(m), "required", "this value is required"})
			}
		}
		return
	case *kind.AdditionalProperties:
		for _, m := range k.Properties {
			if len(*out) < maxParamErrors {
				*out = append(*out, ParamError{path + "/" + escapePointer(m), "additionalProperties", "the schema does not know this name"})
			}
		}
		return
	}
	*out = append(*out, ParamError{path, keyword, shorten(e.ErrorKind.LocalizedString(english), 300)})
}

// CheckJSON validates a value against a JSON Schema, within the bounds that parameters of
// tools have. An error is Invalid and says what is wrong with the schema, or that the value
// is no JSON; the list holds what is wrong with the value, at most 20 places.
func CheckJSON(raw, value json.RawMessage) ([]ParamError, error) {
	s, err := compileSchema(raw)
	if err != nil {
		return nil, fault.Invalidf("%s", err)
	}
	v, err := readJSON(value, 64, 0)
	if err != nil {
		return nil, fault.Invalidf("The value is not usable: %s.", err)
	}
	err = s.bounded(v)
	if err == nil {
		err = paramErrors(s.compiled.Validate(v))
	}
	if err == nil {
		return nil, nil
	}
	if p, ok := fault.As(err).Details.(ParamErrors); ok {
		return p.Errors, nil
	}
	return nil, err
}
