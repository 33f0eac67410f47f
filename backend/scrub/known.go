package scrub

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	minKnown = 4       // shorter values would blank ordinary words
	maxKnown = 4 << 10 // a longer value is matched in pieces of this size
)

// newKnown returns the stage that replaces known values, or nil without any.
func newKnown(known []Secret, replacement func(name string) string) *stage {
	const whole, opening = "[secret]", "[secret "
	var patterns, with []string
	for _, k := range known {
		text := replacement(k.Name)
		for value := range pieces(k.Value) {
			for _, p := range encodings(value) {
				if len(p) >= minKnown && !strings.Contains(whole, p) && !strings.Contains(opening, p) {
					patterns, with = append(patterns, p), append(with, text)
				}
			}
		}
	}
	if patterns == nil {
		return nil
	}
	return &stage{anchors: newAutomaton(patterns), ahead: maxGram, overlaps: true,
		match: func(_ []byte, start, end, index int) (int, int, string) { return start, end, with[index] }}
}

// pieces splits a value between runes.
func pieces(v string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for len(v) > maxKnown {
			n := maxKnown
			for n > maxKnown-utf8.UTFMax && !utf8.RuneStart(v[n]) {
				n--
			}
			if !yield(v[:n]) {
				return
			}
			v = v[n:]
		}
		yield(v)
	}
}

// encodings returns the forms in which v may appear in a text. In base64, a value starts at one of
// three bit offsets of the surrounding text; the characters that depend only on the value are the
// same each time.
func encodings(v string) []string {
	if len(v) < minKnown {
		return nil
	}
	b := []byte(v)
	lower := hex.EncodeToString(b)
	out := []string{lower, strings.ToUpper(lower)}
	if utf8.ValidString(v) { // otherwise its removal could split a rune
		out = append(out, v)
		plain := &strings.Builder{}
		e := json.NewEncoder(plain)
		e.SetEscapeHTML(false)
		_ = e.Encode(v) // a string always encodes
		html, _ := json.Marshal(v)
		for _, q := range []string{strings.TrimSuffix(plain.String(), "\n"), string(html)} {
			out = append(out, q[1:len(q)-1], strings.ReplaceAll(q[1:len(q)-1], "/", `\/`))
		}
	}
	component := strings.NewReplacer("+", "%20", "%21", "!", "%27", "'", "%28", "(", "%29", ")", "%2A", "*", "%7E", "~")
	var every strings.Builder
	for i := range b {
		every.WriteString("%" + strings.ToUpper(lower[2*i:2*i+2]))
	}
	for _, q := range []string{url.QueryEscape(v), url.PathEscape(v), component.Replace(url.QueryEscape(v)), every.String()} {
		out = append(out, q, lowerEscapes(q))
	}
	for offset := range 3 {
		padded := append(make([]byte, offset), b...)
		from, to := (offset*8+5)/6, len(padded)*8/6
		for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			out = append(out, enc.EncodeToString(padded)[from:to])
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// lowerEscapes converts the digits of percent escapes to lower case.
func lowerEscapes(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:i+3], strings.ToLower(s[i+1:i+3]))
		}
	}
	return string(b)
}

// newPaths returns the stage that replaces host paths, or nil without any.
func newPaths(paths map[string]string) *stage {
	var patterns, with []string
	for host, virtual := range paths {
		host = strings.TrimRight(host, `/\`)
		if len(host) < minGram {
			continue // the root of a file system reveals nothing
		}
		for _, p := range []string{host, strings.ReplaceAll(host, `\`, `\\`), strings.ReplaceAll(host, `\`, "/")} {
			if !strings.Contains(virtual, p) && !slices.Contains(patterns, p) {
				patterns, with = append(patterns, p), append(with, strings.TrimRight(virtual, "/"))
			}
		}
	}
	if patterns == nil {
		return nil
	}
	return &stage{anchors: newAutomaton(patterns), ahead: maxGram, overlaps: true,
		match: func(text []byte, start, end, index int) (int, int, string) {
			if start > 0 && (word[text[start-1]] || text[start-1] == '.') || end < len(text) && (word[text[end]] || text[end] == '-') {
				return 0, 0, ""
			}
			return start, end, with[index]
		}}
}
