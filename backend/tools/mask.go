package tools

import (
	"encoding/json"
	"fmt"
	"strings"

	"helix/backend/jcs"
)

// maxPayload is the maximum size of parameters and of an output in a usage row.
const maxPayload = 64 << 10

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
