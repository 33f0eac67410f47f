package tools

import (
	"strings"

	"helix/backend/fault"
	"helix/backend/lifecycle"
)

func checkVersion(v string) error {
	if !lifecycle.IsVersion(v) {
		return fault.Invalidf("%q is not a semantic version such as 1.2.3.", shorten(v, 64))
	}
	return nil
}

// shorten cuts s to n characters with an ellipsis.
func shorten(s string, n int) string {
	count := 0
	for i := range s {
		if count == n {
			return s[:i] + "…"
		}
		count++
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
