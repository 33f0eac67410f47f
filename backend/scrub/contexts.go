package scrub

import (
	"math"
	"slices"
	"strings"
)

const (
	minPassword = 8
	minRandom   = 24
	maxRandom   = 512
	minBits     = 3.8 // minimum entropy in bits per character
	tokenHex    = 64  // length of Helix's own tokens
)

var (
	names = bytesOf(token)
	gaps  = bytesOf(" \t\"'`\\=:>([{")
	value = bytesOf("A-Za-z0-9+/=_.~-")
)

// newContexts returns the stage that replaces random text next to a word that announces a secret.
func newContexts() *stage {
	var patterns []string
	for _, w := range []string{"key", "token", "password", "passwd", "passphrase", "bearer", "secret", "credential"} {
		patterns = append(patterns, w, strings.ToUpper(w), strings.ToUpper(w[:1])+w[1:])
	}
	return &stage{anchors: newAutomaton(patterns), ahead: 2 << 10,
		match: func(text []byte, start, end, index int) (int, int, string) {
			from, to := beside(text, start, end, strings.HasPrefix(strings.ToLower(patterns[index]), "pass"))
			return from, to, "[secret]"
		}}
}

// beside returns the secret that follows the word text[start:end], if any.
func beside(text []byte, start, end int, password bool) (int, int) {
	name := names.run(text, end, 25)
	if name-end > 24 {
		return 0, 0
	}
	from := gaps.run(text, name, 13)
	if from == name || from-name > 12 {
		return 0, 0
	}
	to := value.run(text, from, maxRandom+1)
	v := text[from:to]
	if len(v) < minPassword || len(v) > maxRandom || publicName(text, start, name) {
		return 0, 0
	}
	assigned := slices.ContainsFunc(text[name:from], func(c byte) bool { return c == '=' || c == ':' })
	switch {
	case len(v) == tokenHex && bytesOf(hexes).run(v, 0, len(v)) == len(v):
		return from, to
	case isPath(v) || !mixed(v):
	case len(v) >= minRandom && entropy(v) >= minBits && jumps(v)*20 >= len(v)*7:
		return from, to
	case password && assigned:
		return from, to
	}
	return 0, 0
}

// publicName reports whether the name around a word shows that the value is not a secret.
func publicName(text []byte, start, end int) bool {
	for start > 0 && end-start < 40 && names[text[start-1]] {
		start--
	}
	name := strings.ToLower(string(text[start:end]))
	for _, w := range []string{"public", "hash", "digest", "sha", "etag", "fingerprint", "checksum", "_id", "-id", "monkey", "keyboard", "keyword", "tokeniz"} {
		if strings.Contains(name, w) && !strings.Contains(name, "access_key") {
			return true
		}
	}
	return false
}

// isPath reports whether v looks like a path or a file name.
func isPath(v []byte) bool {
	s := string(v)
	if strings.HasPrefix(s, "/") || strings.HasPrefix(s, "./") || strings.HasPrefix(s, "../") || strings.HasPrefix(s, "~/") {
		return strings.Count(s, "/") > 1
	}
	dot := strings.LastIndexByte(s, '.')
	return dot > 0 && len(s)-dot <= 6 && strings.Contains(s[:dot], "/")
}

// class returns the kind of a character: lower, upper, digit or other.
func class(c byte) int {
	switch {
	case c >= 'a' && c <= 'z':
		return 1
	case c >= 'A' && c <= 'Z':
		return 2
	case c >= '0' && c <= '9':
		return 4
	}
	return 8
}

// mixed reports whether v has lower case, upper case and digits, unlike digests, UUIDs and words.
func mixed(v []byte) bool {
	all := 0
	for _, c := range v {
		all |= class(c)
	}
	return all&7 == 7
}

// jumps counts the changes of class: identifiers have few, random text has many.
func jumps(v []byte) int {
	n := 0
	for i := 1; i < len(v); i++ {
		if class(v[i]) != class(v[i-1]) {
			n++
		}
	}
	return n
}

// entropy returns the Shannon entropy of v in bits per byte.
func entropy(v []byte) float64 {
	var count [256]int
	for _, c := range v {
		count[c]++
	}
	bits := 0.0
	for _, n := range count {
		if n > 0 {
			p := float64(n) / float64(len(v))
			bits -= p * math.Log2(p)
		}
	}
	return bits
}
