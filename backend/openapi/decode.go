package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"gopkg.in/yaml.v3"

	"helix/backend/fault"
	"helix/backend/jcs"
)

// Decode reads an object in JSON or YAML as a tree of map[string]any, []any, string, json.Number, bool
// and nil, within the limits of a description. The error names the line where it is known.
func Decode(raw []byte) (map[string]any, error) {
	raw = bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf"))
	v, err := decodeAny(raw)
	if err != nil {
		return nil, err
	}
	root, ok := v.(map[string]any)
	if !ok {
		return nil, fault.Invalidf("The text must be an object in JSON or YAML.")
	}
	return root, nil
}

// isJSONText reports whether a text is meant to be an object in JSON: in YAML, keys in braces have no quotes.
func isJSONText(raw []byte) bool {
	text, ok := bytes.CutPrefix(bytes.TrimLeft(raw, " \t\r\n"), []byte("{"))
	text = bytes.TrimLeft(text, " \t\r\n")
	return ok && (len(text) == 0 || text[0] == '"' || text[0] == '}')
}

func decodeAny(raw []byte) (any, error) {
	if isJSONText(raw) {
		v, err := jcs.Decode(raw, maxDepth, maxNodes)
		if err == nil {
			return v, nil
		}
		if json.Valid(raw) { // it is JSON, but beyond a limit
			return nil, fault.Invalidf("Couldn't read this as JSON or YAML: %s.", err)
		}
		return nil, jsonProblem(raw, err)
	}
	return decodeYAML(raw)
}

// jsonProblem adds the position to the error of a text that is not JSON.
func jsonProblem(raw []byte, err error) error {
	var s *json.SyntaxError
	var v any
	if !errors.As(json.Unmarshal(raw, &v), &s) {
		return fault.Invalidf("Couldn't read this as JSON or YAML: %s.", err)
	}
	before := raw[:min(int(s.Offset), len(raw))]
	line := bytes.Count(before, []byte("\n")) + 1
	column := len(before) - bytes.LastIndexByte(before, '\n') - 1
	return fault.Invalidf("Couldn't read this as JSON or YAML: line %d, column %d: %s.", line, max(column, 1), s)
}

func decodeYAML(raw []byte) (any, error) {
	if bytes.HasPrefix(raw, []byte("%YAML 1.")) { // the decoder refuses versions other than 1.1
		raw = append([]byte("#"), raw[1:]...)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		return nil, fault.Invalidf("Couldn't read this as JSON or YAML: %s.", err)
	}
	if doc.Kind == 0 {
		return nil, fault.Invalidf("The text is empty.")
	}
	r := yamlReader{}
	return r.value(&doc, 0)
}

type yamlReader struct{ seen int }

func (r *yamlReader) bad(n *yaml.Node, format string, args ...any) error {
	return fault.Invalidf("Couldn't read this as JSON or YAML: line %d, column %d: %s.", n.Line, n.Column, fmt.Sprintf(format, args...))
}

// value converts a node. An alias counts as all the values it stands for, so that a small text
// cannot become a large tree.
func (r *yamlReader) value(n *yaml.Node, depth int) (any, error) {
	if r.seen++; r.seen > maxNodes {
		return nil, fault.Limitf("The text has more than %d values.", maxNodes)
	}
	if depth > maxDepth {
		return nil, r.bad(n, "it is nested more than %d levels deep", maxDepth)
	}
	switch n.Kind {
	case yaml.DocumentNode:
		return r.value(n.Content[0], depth)
	case yaml.AliasNode:
		return r.value(n.Alias, depth+1)
	case yaml.SequenceNode:
		out := make([]any, 0, len(n.Content))
		for _, c := range n.Content {
			v, err := r.value(c, depth+1)
			if err != nil {
				return nil, err
			}
			out = append(out, v)
		}
		return out, nil
	case yaml.MappingNode:
		return r.mapping(n, depth)
	}
	return r.scalar(n)
}

func (r *yamlReader) mapping(n *yaml.Node, depth int) (any, error) {
	out := make(map[string]any, len(n.Content)/2)
	var merged []any
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, c := n.Content[i], n.Content[i+1]
		if k.Kind == yaml.AliasNode {
			k = k.Alias
		}
		if k.Kind != yaml.ScalarNode {
			return nil, r.bad(k, "a key must be text")
		}
		v, err := r.value(c, depth+1)
		if err != nil {
			return nil, err
		}
		if k.Tag == "!!merge" {
			merged = append(merged, v)
			continue
		}
		if _, twice := out[k.Value]; twice {
			return nil, r.bad(k, "the key %.80q appears twice", k.Value)
		}
		out[k.Value] = v
	}
	for len(merged) > 0 {
		v := merged[0]
		merged = merged[1:]
		if list, ok := v.([]any); ok {
			merged = append(list, merged...)
			continue
		}
		for k, v := range object(v) {
			if _, own := out[k]; !own {
				out[k] = v
			}
		}
	}
	return out, nil
}

func (r *yamlReader) scalar(n *yaml.Node) (any, error) {
	switch n.ShortTag() {
	case "!!null":
		return nil, nil
	case "!!bool":
		return n.Value == "true" || n.Value == "True" || n.Value == "TRUE", nil
	case "!!int", "!!float":
		if json.Valid([]byte(n.Value)) {
			if !jcs.NumberFits(n.Value) {
				return nil, r.bad(n, "a number is too large")
			}
			return json.Number(n.Value), nil
		}
		if v, err := strconv.ParseInt(n.Value, 0, 64); err == nil { // 0x1F, 0o17
			return json.Number(strconv.FormatInt(v, 10)), nil
		}
		if v, err := strconv.ParseFloat(n.Value, 64); err == nil && !math.IsInf(v, 0) && !math.IsNaN(v) { // .5 and 1.
			return json.Number(strconv.FormatFloat(v, 'g', -1, 64)), nil
		}
	}
	return n.Value, nil
}
