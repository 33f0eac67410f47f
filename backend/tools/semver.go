package tools

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"helix/backend/fault"
)

// semver follows semver.org 2.0.0.
var semver = regexp.MustCompile(`^(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)

func checkVersion(v string) error {
	if len(v) > 64 || !semver.MatchString(v) {
		return fault.Invalidf("%q is not a semantic version such as 1.2.3.", shorten(v, 64))
	}
	return nil
}

// raisePatch returns the next patch version of v for which taken is false.
func raisePatch(v string, taken func(string) bool) string {
	m := semver.FindStringSubmatch(v)
	if m == nil {
		m = []string{"", "1", "0", "0"}
	}
	patch, _ := strconv.Atoi(m[3])
	for {
		patch++
		next := fmt.Sprintf("%s.%s.%d", m[1], m[2], patch)
		if !taken(next) {
			return next
		}
	}
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
