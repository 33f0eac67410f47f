package permission

import (
	"strings"
)

// Covers reports whether pattern p matches every resource that pattern o matches. Both must be
// normalized. Paths are compared textually, including variables; use a Service for a comparison
// that resolves symbolic links.
func Covers(c Capability, p, o string) bool {
	switch c {
	case FilesystemRead, FilesystemWrite:
		return coversPath(p, o)
	case NetworkHTTPS:
		return splitHost(p).covers(splitHost(o))
	case NetworkLocalhost:
		a, err := parsePorts(p)
		b, err2 := parsePorts(o)
		return err == nil && err2 == nil && a.from <= b.from && b.to <= a.to
	case State:
		a, err := parseBytes(p)
		b, err2 := parseBytes(o)
		return err == nil && err2 == nil && b <= a
	case ToolCall, MCP:
		if base, wild := strings.CutSuffix(p, "*"); wild {
			return len(o) > len(base) && strings.EqualFold(o[:len(base)], base)
		}
		return strings.EqualFold(p, o)
	case Shell:
		return coversCommand(p, o)
	case Call:
		return parseTier(o) <= parseTier(p)
	}
	return p == o
}

// coversPath compares normalized path patterns textually.
func coversPath(p, o string) bool {
	dir, tree := strings.CutSuffix(p, "/**")
	item, _ := strings.CutSuffix(o, "/**")
	if foldPaths {
		dir, item = strings.ToLower(dir), strings.ToLower(item)
	}
	if !tree {
		return p == o || foldPaths && strings.EqualFold(p, o)
	}
	return item == dir || strings.HasPrefix(item, dir+"/")
}

// narrow returns the intersection of patterns a and b. ok is false if it is empty. narrow is
// commutative and idempotent, and the result is never wider than a or b.
func narrow(c Capability, a, b string) (string, bool) {
	if Covers(c, a, b) && Covers(c, b, a) {
		return min(a, b), true // equal except for case
	}
	if Covers(c, a, b) {
		return b, true
	}
	if Covers(c, b, a) {
		return a, true
	}
	if c == NetworkLocalhost {
		x, err := parsePorts(a)
		y, err2 := parsePorts(b)
		if r := (ports{max(x.from, y.from), min(x.to, y.to)}); err == nil && err2 == nil && r.from <= r.to {
			return r.String(), true
		}
	}
	return "", false
}

// implies reports whether a held capability includes the wanted one: state includes writing to the
// subject's own folder.
func implies(have, want Capability) bool {
	return have == want || have == State && want == FilesystemWrite
}
