package schema

import (
	"bytes"
	"encoding/json"

	"helix/backend/jcs"
)

// Masked stands for a value that must not be stored.
const Masked = "[masked]"

// RedactJSON replaces each secret in JSON text by Masked, and returns the replaced texts; see Redact. What can't be
// read becomes null.
func (s *Schema) RedactJSON(text json.RawMessage) (json.RawMessage, []string) {
	if !s.HasSecrets() {
		return text, nil
	}
	v, err := jcs.Decode(text, MaxDepth, 0)
	if err != nil {
		return json.RawMessage("null"), nil
	}
	v, found := s.Redact(v, Masked)
	out, err := jcs.Marshal(v)
	if err != nil {
		return json.RawMessage("null"), nil
	}
	return out, found
}

// Mask replaces each of the secrets in JSON or other text. Secrets shorter than 4 characters are kept, because
// replacing them would damage ordinary words.
func Mask(text []byte, secrets []string) []byte {
	for _, s := range secrets {
		if len(s) < 4 {
			continue
		}
		text = bytes.ReplaceAll(text, []byte(s), []byte(Masked))
		if quoted, err := jcs.Marshal(s); err == nil {
			text = bytes.ReplaceAll(text, quoted[1:len(quoted)-1], []byte(Masked))
		}
	}
	return text
}
