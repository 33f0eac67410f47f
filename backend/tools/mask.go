package tools

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// masked stands in stored rows where a value was that must not be kept.
const masked = "[masked]"

// maxPayload is how much of parameters and output a usage row keeps.
const maxPayload = 64 << 10

// hasSecretMark reports whether some part of a schema is marked as holding a secret.
func hasSecretMark(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		if isSecretMark(v) {
			return true
		}
		for _, x := range v {
			if hasSecretMark(x) {
				return true
			}
		}
	case []any:
		for _, x := range v {
			if hasSecretMark(x) {
				return true
			}
		}
	}
	return false
}

func isSecretMark(m map[string]any) bool {
	secret, _ := m["x-secret"].(bool)
	return secret || m["format"] == "password"
}

// maskParams replaces the values that the schema marks as secret. It returns the masked
// text and the masked strings, so that they can be found in other text too.
func (s *schema) maskParams(params json.RawMessage) (json.RawMessage, []string) {
	if !s.secrets {
		return params, nil
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(params))
	if err != nil {
		return json.RawMessage("null"), nil
	}
	var found []string
	maskValue(s.doc, s.doc, &v, 0, &found)
	out, err := marshal(v)
	if err != nil {
		return json.RawMessage("null"), nil
	}
	return out, found
}

func maskValue(root, sch any, v *any, depth int, found *[]string) {
	m, ok := sch.(map[string]any)
	if !ok || depth > maxRefDepth {
		return
	}
	if isSecretMark(m) {
		collectStrings(*v, found)
		*v = masked
		return
	}
	if ref, ok := m["$ref"].(string); ok && (ref == "#" || strings.HasPrefix(ref, "#/")) {
		maskValue(root, pointer(root, strings.TrimPrefix(ref, "#")), v, depth+1, found)
	}
	for _, k := range []string{"allOf", "anyOf", "oneOf"} {
		list, _ := m[k].([]any)
		for _, s := range list {
			maskValue(root, s, v, depth+1, found)
		}
	}
	for _, k := range []string{"then", "else", "if"} {
		maskValue(root, m[k], v, depth+1, found)
	}
	switch x := (*v).(type) {
	case map[string]any:
		props, _ := m["properties"].(map[string]any)
		for name, cur := range x {
			sub, known := props[name]
			if !known {
				sub = m["additionalProperties"]
			}
			maskValue(root, sub, &cur, depth+1, found)
			x[name] = cur
		}
	case []any:
		for i := range x {
			sub := m["items"]
			if prefix, ok := m["prefixItems"].([]any); ok && i < len(prefix) {
				sub = prefix[i]
			}
			maskValue(root, sub, &x[i], depth+1, found)
		}
	}
}

func collectStrings(v any, out *[]string) {
	switch v := v.(type) {
	case string:
		*out = append(*out, v)
	case map[string]any:
		for _, x := range v {
			collectStrings(x, out)
		}
	case []any:
		for _, x := range v {
			collectStrings(x, out)
		}
	}
}

// maskText replaces each secret in JSON text; secrets shorter than 4 characters are left,
// since they would tear ordinary words apart.
func maskText(text []byte, secrets []string) []byte {
	for _, s := range secrets {
		if len(s) < 4 {
			continue
		}
		quoted, err := marshal(s)
		if err != nil {
			continue
		}
		text = bytes.ReplaceAll(text, quoted[1:len(quoted)-1], []byte(masked))
	}
	return text
}

// payload cuts text to what a usage row keeps.
func payload(text json.RawMessage) json.RawMessage {
	if len(text) <= maxPayload {
		return text
	}
	head := strings.ToValidUTF8(string(text[:maxPayload/2]), "")
	q, err := marshal(head)
	if err != nil {
		return json.RawMessage("null")
	}
	if len(q) > maxPayload-64 { // quoting doubled it
		q, _ = marshal(strings.ToValidUTF8(head[:maxPayload/8], ""))
	}
	return json.RawMessage(fmt.Sprintf(`{"truncated":true,"bytes":%d,"head":%s}`, len(text), q))
}
