package definition

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"helix/backend/fault"
	"helix/backend/skills/expr"
)

// MaxSchemaBytes bounds one schema.
const MaxSchemaBytes = 256 << 10

// noLoader refuses references to other documents; nothing is ever fetched.
type noLoader struct{}

func (noLoader) Load(string) (any, error) {
	return nil, errors.New("references to other documents are not followed")
}

// CompileSchema reads a JSON Schema; $schema chooses the draft, by default 2020-12. The error
// says what is wrong with it.
func CompileSchema(raw json.RawMessage) (*jsonschema.Schema, error) {
	if len(raw) > MaxSchemaBytes {
		return nil, fault.Limitf("The schema has %d bytes; %d are allowed.", len(raw), MaxSchemaBytes)
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
		return nil, schemaError(err)
	}
	s, err := c.Compile(place)
	if err != nil {
		return nil, schemaError(err)
	}
	return s, nil
}

// schemaError says in a sentence why a schema cannot be used.
func schemaError(err error) error {
	var rx *jsonschema.InvalidRegexError
	var load *jsonschema.LoadURLError
	var invalid *jsonschema.SchemaValidationError
	var ve *jsonschema.ValidationError
	why := "it is no JSON Schema"
	switch {
	case errors.As(err, &rx):
		why = fmt.Sprintf("the pattern %.100q cannot be used; patterns have no look-around and no back-references", rx.Regex)
	case errors.As(err, &load):
		why = "it refers to another document; only references inside it (#…) are followed"
	case errors.As(err, &invalid) && errors.As(invalid.Err, &ve):
		for len(ve.Causes) > 0 {
			ve = ve.Causes[0]
		}
		if place := strings.Join(ve.InstanceLocation, "/"); place != "" {
			why = fmt.Sprintf("%s is not as JSON Schema wants it", place)
		}
	}
	return fault.Invalidf("The schema cannot be used: %s.", why).WithCause(err)
}

// schema takes a field that holds a JSON Schema.
func (r *reader) schema(key string) json.RawMessage {
	raw := r.raw(key)
	if raw == nil {
		return nil
	}
	if _, err := CompileSchema(raw); err != nil {
		r.bad(key, CodeSchema, "%s", message(err))
	}
	return raw
}

// maxNesting is how deep arrays and objects of a definition may be inside each other.
const maxNesting = 200

// keepable notes what canonical JSON cannot hold: numbers that no IEEE double is, and what is
// nested too deep.
func keepable(n *notes, path string, v any, depth int) {
	switch v := v.(type) {
	case map[string]any:
		if depth == maxNesting {
			n.bad(path, "", CodeLimit, "Arrays and objects are more than %d deep inside each other.", maxNesting)
			return
		}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			keepable(n, strings.TrimPrefix(path+expr.Member(k), "."), v[k], depth+1)
		}
	case []any:
		if depth == maxNesting {
			n.bad(path, "", CodeLimit, "Arrays and objects are more than %d deep inside each other.", maxNesting)
			return
		}
		for i, e := range v {
			keepable(n, index(path, i), e, depth+1)
		}
	case json.Number:
		if !exact(v.String()) {
			n.bad(path, "", CodeRange, "The number %.40s cannot be kept exactly; write it as a text.", v)
		}
	}
}

// exact reports whether a JSON number is what its nearest double is written as.
func exact(text string) bool {
	if len(text) <= 15 && !strings.ContainsAny(text, "eE") {
		return true
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || len(text) > 64 {
		return false
	}
	if f == 0 { // also what is too small for a double
		digits, _, _ := strings.Cut(strings.ToLower(text), "e")
		return !strings.ContainsAny(digits, "123456789")
	}
	a, ok := new(big.Rat).SetString(text)
	b, ok2 := new(big.Rat).SetString(strconv.FormatFloat(f, 'g', -1, 64))
	return ok && ok2 && a.Cmp(b) == 0
}
