package skills

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	printer "golang.org/x/text/message"

	"helix/backend/fault"
	"helix/backend/skills/expr"
)

// Bounds of a schema and of one check.
const (
	maxSchemas     = 256
	maxSchemaBytes = 256 << 10
	maxSchemaWork  = 5_000_000 // (schema, value) pairs; references can make them many
	maxFindings    = 20
)

// schemaCache keeps compiled schemas by their text.
type schemaCache struct {
	mu sync.Mutex
	m  map[string]compiledSchema
}

type compiledSchema struct {
	schema *jsonschema.Schema
	err    error
}

// noLoader refuses references to other documents; nothing is ever fetched.
type noLoader struct{}

func (noLoader) Load(string) (any, error) {
	return nil, errors.New("references to other documents are not followed")
}

func (c *schemaCache) get(raw json.RawMessage) (*jsonschema.Schema, error) {
	c.mu.Lock()
	found, ok := c.m[string(raw)]
	c.mu.Unlock()
	if ok {
		return found.schema, found.err
	}
	found.schema, found.err = compileSchema(raw)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.m) >= maxSchemas || c.m == nil {
		c.m = map[string]compiledSchema{}
	}
	c.m[string(raw)] = found
	return found.schema, found.err
}

func compileSchema(raw json.RawMessage) (*jsonschema.Schema, error) {
	if len(raw) > maxSchemaBytes {
		return nil, fault.Limitf("The schema has %d bytes; %d are allowed.", len(raw), maxSchemaBytes)
	}
	doc, err := expr.Decode(raw)
	if err != nil {
		return nil, fault.Invalidf("The schema is not JSON.")
	}
	const place = "helix:schema"
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	c.AssertFormat()
	if err := c.AddResource(place, doc); err != nil {
		return nil, fault.Invalidf("The schema cannot be used.").WithCause(err)
	}
	s, err := c.Compile(place)
	if err != nil {
		return nil, fault.Invalidf("The schema cannot be used.").WithCause(err)
	}
	return s, nil
}

// check validates a value. An error names the first place that is wrong, below lead, and
// holds all of them as details. It is pure.
func (c *schemaCache) check(raw json.RawMessage, v any, lead string) error {
	s, err := c.get(raw)
	if err != nil {
		return err
	}
	if work := (&schemaWork{memo: map[workPair]int64{}}).of(s, newWorkNode(v)); work > maxSchemaWork {
		return fault.Limitf("the schema branches too often to check this value")
	}
	err = s.Validate(v)
	var ve *jsonschema.ValidationError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &ve):
		return fault.Invalidf("the value cannot be checked").WithCause(err)
	}
	var found []Finding
	findings(ve, &found)
	if len(found) == 0 {
		return fault.Invalidf("the value does not match the schema")
	}
	where := strings.TrimPrefix(lead+found[0].Path, "/")
	if where == "" {
		where = "the input"
	}
	return fault.Invalidf("%s: %s", where, found[0].Message).WithDetails(map[string]any{"errors": found})
}

var english = printer.NewPrinter(language.English)

// findings lists the leaves of a validation error.
func findings(e *jsonschema.ValidationError, out *[]Finding) {
	if len(*out) >= maxFindings {
		return
	}
	for _, c := range e.Causes {
		findings(c, out)
	}
	if len(e.Causes) > 0 {
		return
	}
	escape := func(s string) string { return strings.ReplaceAll(strings.ReplaceAll(s, "~", "~0"), "/", "~1") }
	path := ""
	for _, t := range e.InstanceLocation {
		path += "/" + escape(t)
	}
	add := func(at, keyword, text string) {
		if len(*out) < maxFindings {
			*out = append(*out, Finding{at, keyword, text})
		}
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		for _, m := range k.Missing {
			add(path+"/"+escape(m), "required", "this value is required")
		}
	case *kind.AdditionalProperties:
		for _, m := range k.Properties {
			add(path+"/"+escape(m), "additionalProperties", "the schema does not know this name")
		}
	case *kind.Type:
		add(path, "type", fmt.Sprintf("expected %s", strings.Join(k.Want, " or ")))
	default:
		text := e.ErrorKind.LocalizedString(english)
		if len(text) > 300 {
			text = text[:300] + "…"
		}
		add(path, strings.Join(e.ErrorKind.KeywordPath(), "/"), text)
	}
}

// schemaWork counts how many (schema, value) pairs a check visits, without visiting each:
// pairs that come again are counted from memory, so that counting a schema which doubles at
// every level takes schema × value steps although the number is 2ⁿ.
type schemaWork struct{ memo map[workPair]int64 }

type workPair struct {
	s *jsonschema.Schema
	n *workNode
}

// workNode is a value with an identity.
type workNode struct {
	props map[string]*workNode
	items []*workNode
}

func newWorkNode(v any) *workNode {
	n := &workNode{}
	switch v := v.(type) {
	case map[string]any:
		n.props = make(map[string]*workNode, len(v))
		for k, x := range v {
			n.props[k] = newWorkNode(x)
		}
	case []any:
		for _, x := range v {
			n.items = append(n.items, newWorkNode(x))
		}
	}
	return n
}

func (w *schemaWork) of(s *jsonschema.Schema, n *workNode) int64 {
	if s == nil {
		return 0
	}
	key := workPair{s, n}
	if c, ok := w.memo[key]; ok {
		return c
	}
	w.memo[key] = 1 // a cycle on the same value ends in the library at once
	total := int64(1)
	add := func(c int64) {
		if total > math.MaxInt64-c {
			total = math.MaxInt64
			return
		}
		total += c
	}
	same := append([]*jsonschema.Schema{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else}, s.AllOf...)
	if s.DynamicRef != nil {
		same = append(same, s.DynamicRef.Ref)
	}
	same = append(append(same, s.AnyOf...), s.OneOf...)
	for _, d := range s.DependentSchemas {
		same = append(same, d)
	}
	for _, sub := range same {
		add(w.of(sub, n))
	}
	for name, child := range n.props {
		add(1)
		add(w.of(s.Properties[name], child))
		for rx, p := range s.PatternProperties {
			if rx.MatchString(name) {
				add(w.of(p, child))
			}
		}
		if p, ok := s.AdditionalProperties.(*jsonschema.Schema); ok {
			add(w.of(p, child))
		}
		add(w.of(s.UnevaluatedProperties, child))
	}
	for i, child := range n.items {
		add(1)
		if i < len(s.PrefixItems) {
			add(w.of(s.PrefixItems[i], child))
		}
		switch items := s.Items.(type) {
		case *jsonschema.Schema:
			add(w.of(items, child))
		case []*jsonschema.Schema:
			if i < len(items) {
				add(w.of(items[i], child))
			}
		}
		add(w.of(s.Items2020, child))
		add(w.of(s.Contains, child))
		add(w.of(s.UnevaluatedItems, child))
	}
	w.memo[key] = total
	return total
}
