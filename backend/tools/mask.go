package tools

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"helix/backend/jcs"
	"helix/backend/schema"
)

// masked replaces a value that must not be stored.
const masked = "[masked]"

// maxPayload is the maximum size of parameters and of an output in a usage row.
const maxPayload = 64 << 10

// maskParams replaces the values that the schema marks as secret. It returns the masked text and
// the masked strings, which are used to mask other texts.
func maskParams(s *schema.Schema, params json.RawMessage) (json.RawMessage, []string) {
	if !s.HasSecrets() {
		return params, nil
	}
	v, err := jcs.Decode(params, maxParamDepth, 0)
	if err != nil {
		return json.RawMessage("null"), nil
	}
	v, found := s.Redact(v, masked)
	out, err := jcs.Marshal(v)
	if err != nil {
		return json.RawMessage("null"), nil
	}
	return out, found
}

// maskText replaces each secret in JSON text. Secrets shorter than 4 characters are kept, because
// replacing them would damage ordinary words.
func maskText(text []byte, secrets []string) []byte {
	for _, s := range secrets {
		if len(s) < 4 {
			continue
		}
		quoted, err := jcs.Marshal(s)
		if err != nil {
			continue
		}
		text = bytes.ReplaceAll(text, quoted[1:len(quoted)-1], []byte(masked))
	}
	return text
}

// payload truncates text to the size limit of a usage row.
func payload(text json.RawMessage) json.RawMessage {
	if len(text) <= maxPayload {
		return text
	}
	head := strings.ToValidUTF8(string(text[:maxPayload/2]), "")
	q, err := jcs.Marshal(head)
	if err != nil {
		return json.RawMessage("null")
	}
	if len(q) > maxPayload-64 { // quoting has doubled it
		q, _ = jcs.Marshal(strings.ToValidUTF8(head[:maxPayload/8], ""))
	}
	return json.RawMessage(fmt.Sprintf(`{"truncated":true,"bytes":%d,"head":%s}`, len(text), q))
}
