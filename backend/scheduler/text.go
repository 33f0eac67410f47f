package scheduler

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"

	"helix/backend/skills/expr"
)

// outputText returns a run's output as text: a string unquoted, anything else as JSON.
func outputText(output json.RawMessage) string {
	if len(output) == 0 || string(output) == "null" {
		return ""
	}
	var text string
	if json.Unmarshal(output, &text) == nil {
		return strings.ToValidUTF8(text, "\uFFFD")
	}
	var b bytes.Buffer
	if json.Compact(&b, output) == nil {
		return strings.ToValidUTF8(b.String(), "\uFFFD")
	}
	return strings.ToValidUTF8(string(output), "\uFFFD")
}

// clip truncates a text to at most n characters (Unicode code points) at a grapheme boundary, so
// that no letter loses its marks and no emoji a part.
func clip(text string, n int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= n {
		return text
	}
	size, chars, state, rest := 0, 0, -1, text
	for rest != "" {
		var cluster string
		cluster, rest, _, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if chars += utf8.RuneCountInString(cluster); chars > n {
			return text[:size]
		}
		size += len(cluster)
	}
	return text
}

// clipBytes is clip by bytes.
func clipBytes(text string, n int) string {
	if len(text) <= n {
		return text
	}
	size, state, rest := 0, -1, text
	for rest != "" {
		var cluster string
		cluster, rest, _, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if size+len(cluster) > n {
			break
		}
		size += len(cluster)
	}
	return text[:size]
}

// decode decodes JSON for conditions, with numbers as json.Number.
func decode(b json.RawMessage) any {
	if len(b) == 0 {
		return nil
	}
	v, err := expr.Decode(b)
	if err != nil {
		return string(b)
	}
	return v
}
