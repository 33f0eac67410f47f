package audit

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"helix/backend/fault"
	"helix/backend/jcs"
)

const (
	maxDetails = 8 << 10 // bytes of an entry's details
	maxDepth   = 200     // SQLite's JSON functions take up to 1,000
	minSecret  = 4       // shorter values would mask ordinary words
	minPart    = 6       // minimum length of a part of a secret at the edge of a text
)

// Redactor replaces secret values in text. The zero value uses only the patterns. It is safe for
// concurrent use.
type Redactor struct {
	mu    sync.RWMutex
	known map[string]int // value → number of calls of Add
	forms []form
	first [256]bool // first bytes of all forms
}

// form is one encoding of a known value.
type form struct {
	text string
	edge bool // also match a part of it at the edge of a text
}

// Add registers a value to be replaced in plain, base64, hexadecimal, URL-encoded and JSON-escaped
// form, until forget is called. Values shorter than 4 bytes are ignored.
func (r *Redactor) Add(value string) (forget func()) {
	if len(value) < minSecret {
		return func() {}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil {
		r.known = map[string]int{}
	}
	r.known[value]++
	r.rebuild()
	var once sync.Once
	return func() {
		once.Do(func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.known[value]--; r.known[value] <= 0 {
				delete(r.known, value)
			}
			r.rebuild()
		})
	}
}

func (r *Redactor) rebuild() {
	r.forms, r.first = nil, [256]bool{}
	seen := map[string]bool{}
	for v := range r.known {
		for i, f := range encodings(v) {
			if len(f) >= minSecret && !seen[f] {
				seen[f] = true
				r.forms = append(r.forms, form{text: f, edge: i == 0 && len(f) >= 2*minPart})
				r.first[f[0]] = true
			}
		}
	}
}

// encodings returns the forms in which v may appear in a text; the first is v itself.
func encodings(v string) []string {
	out := []string{v, url.QueryEscape(v), url.PathEscape(v), hex.EncodeToString([]byte(v)), strings.ToUpper(hex.EncodeToString([]byte(v)))}
	out = append(out, strings.ToLower(out[1]), percentAll(v), strings.ToLower(percentAll(v)))
	if j, err := json.Marshal(v); err == nil {
		out = append(out, string(j[1:len(j)-1]))
	}
	// In a longer base64 text the value begins at one of three bit offsets. The characters that
	// depend only on the value are the same each time.
	for off := range 3 {
		pad := append(make([]byte, off), v...)
		for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			s := enc.EncodeToString(pad)
			from := (off*8 + 5) / 6
			to := len(pad) * 8 / 6
			if to-from >= minSecret {
				out = append(out, s[from:to])
			}
		}
	}
	return out
}

func percentAll(v string) string {
	var b strings.Builder
	for i := range len(v) {
		b.WriteByte('%')
		b.WriteString(strings.ToUpper(hex.EncodeToString([]byte{v[i]})))
	}
	return b.String()
}

// String replaces known values, then everything that looks like a credential.
func (r *Redactor) String(s string) string {
	return redactPatterns(r.knownIn(s))
}

// knownIn replaces known values, including a long part of one at either end, because text that
// arrives in chunks can be cut anywhere.
func (r *Redactor) knownIn(s string) string {
	if r == nil || s == "" {
		return s
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	if len(r.forms) == 0 {
		return s
	}
	for _, f := range r.forms {
		if strings.Contains(s, f.text) {
			s = strings.ReplaceAll(s, f.text, mask)
		}
		if !f.edge {
			continue
		}
		for n := min(len(f.text)-1, len(s)); n >= minPart; n-- {
			if strings.HasSuffix(s, f.text[:n]) {
				s = s[:len(s)-n] + mask
				break
			}
		}
		for n := min(len(f.text)-1, len(s)); n >= minPart; n-- {
			if strings.HasPrefix(s, f.text[len(f.text)-n:]) {
				s = mask + s[n:]
				break
			}
		}
	}
	return s
}

func (r *Redactor) empty() bool {
	if r == nil {
		return true
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.forms) == 0
}

// mask replaces a secret.
const mask = "‹redacted›"

// reSecret matches credentials by their form. Digests (plain hexadecimal) are not secrets.
var reSecret = []*regexp.Regexp{
	regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`),
	regexp.MustCompile(`\b(?:sk|pk|rk)[-_](?:[a-z]+[-_])*[A-Za-z0-9_-]{16,}`),
	regexp.MustCompile(`\b(?:gh[pousr]|github_pat)_[A-Za-z0-9_]{20,}`),
	regexp.MustCompile(`\b(?:xox[abprs]|xapp)-[A-Za-z0-9-]{10,}`),
	regexp.MustCompile(`\b(?:AKIA|ASIA)[A-Z0-9]{16}\b`),
	regexp.MustCompile(`\bAIza[A-Za-z0-9_-]{30,}`),
	regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?`),
}

// reAfter matches a word that precedes a credential; group 1 is kept.
var reAfter = []*regexp.Regexp{
	regexp.MustCompile(`(?i)\b((?:bearer|basic|token)\s+|token["']?\s*[=:]\s*["']?)[A-Za-z0-9._~+/=-]{8,}`),
	regexp.MustCompile(`(?i)((?:passw(?:or)?d|passphrase|secret|api[_-]?key|access[_-]?key|private[_-]?key|auth[_-]?token|access[_-]?token|refresh[_-]?token|client[_-]?secret)["']?\s*[=:]\s*["']?)[^\s"'&,;‹]{3,}`),
	regexp.MustCompile(`([a-z][a-z0-9+.-]*://[^/\s:@]*:)[^/\s@]+(?:@)`),
}

// hints are lower-case words of which every match of a pattern, and every name of a secret member,
// contains one. They are grouped by their first letter.
var hints = [256][]string{
	'a': {"akia", "asia", "aiza", "apikey", "api_key", "api-key", "accesskey", "access_key", "access-key", "authorization"},
	'b': {"bearer", "basic"},
	'c': {"cookie", "credential"},
	'e': {"eyj"},
	'g': {"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"},
	'p': {"passw", "passphrase", "private", "pk-", "pk_"},
	'r': {"rk-", "rk_"},
	's': {"secret", "sk-", "sk_"},
	't': {"token"},
	'x': {"xox", "xapp-"},
	':': {"://"},
}

// suspicious is a fast check whether any pattern could match.
func suspicious[T string | []byte](s T) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
	next:
		for _, h := range hints[c] {
			if len(s)-i < len(h) {
				continue
			}
			for k := 1; k < len(h); k++ {
				d := s[i+k]
				if d >= 'A' && d <= 'Z' {
					d += 'a' - 'A'
				}
				if d != h[k] {
					continue next
				}
			}
			return true
		}
	}
	return false
}

func redactPatterns(s string) string {
	if len(s) < 8 || !suspicious(s) {
		return s
	}
	for _, re := range reSecret {
		s = re.ReplaceAllString(s, mask)
	}
	for i, re := range reAfter {
		to := "${1}" + mask
		if i == len(reAfter)-1 {
			to += "@"
		}
		s = re.ReplaceAllString(s, to)
	}
	return s
}

// secretField reports whether a member with this name contains a credential, whatever its value.
func secretField(name string) bool {
	if len(name) < 4 || len(name) > 40 {
		return false
	}
	var buf [40]byte
	n := buf[:0]
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case c == '_' || c == '-':
		case c >= 'A' && c <= 'Z':
			n = append(n, c+'a'-'A')
		default:
			n = append(n, c)
		}
	}
	switch string(n) {
	case "password", "passwd", "passphrase", "secret", "secretvalue", "token", "accesstoken", "refreshtoken", "authtoken", "idtoken", "apikey", "xapikey", "secretkey", "accesskey", "privatekey",
		"clientsecret", "authorization", "proxyauthorization", "cookie", "setcookie", "credential", "credentials":
		return true
	}
	return false
}

// encodeDetails returns the JSON that is stored and hashed: redacted, on one line, at most
// maxDetails bytes. It returns nil for nil.
func encodeDetails(v any, r *Redactor) ([]byte, error) {
	if v == nil {
		return nil, nil
	}
	if raw, ok := v.(json.RawMessage); ok && len(raw) == 0 {
		return nil, nil
	}
	b, err := jcs.Marshal(v)
	if err != nil {
		return nil, fault.Internalf(err, "The details of an audit entry are not JSON.")
	}
	b = scrub(b, r)
	if len(b) > maxDetails || depth(b) > maxDepth {
		b = truncate(b)
	}
	return b, nil
}

// depth returns the nesting depth of a JSON text. Brackets inside strings are counted too, so the
// result may be too large.
func depth(b []byte) (deepest int) {
	n := 0
	for _, c := range b {
		switch c {
		case '{', '[':
			n++
			deepest = max(deepest, n)
		case '}', ']':
			n--
		}
	}
	return deepest
}

// truncate returns the beginning of a text that is too long, as a string in valid JSON.
func truncate(b []byte) []byte {
	for n := min(len(b)-1, maxDetails-256); ; n /= 2 {
		cut := n
		for cut > 0 && !utf8.RuneStart(b[cut]) {
			cut--
		}
		out, _ := json.Marshal(struct {
			Truncated bool   `json:"truncated"`
			Bytes     int    `json:"bytes"`
			Head      string `json:"head"`
		}{true, len(b), string(b[:cut])})
		if len(out) <= maxDetails {
			return out
		}
	}
}

// leaf is one string value in a JSON text, including quotes.
type leaf struct {
	from, to int
	key      bool
	secret   bool // the name of the member indicates a secret
	text     string
	changed  bool
}

// scrub redacts the strings of a compact JSON text.
func scrub(b []byte, r *Redactor) []byte {
	if r.empty() && !suspicious(b) {
		return b
	}
	leaves, changed := make([]leaf, 0, 16), false
	var pendingSecret bool
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case ',', '}', ']':
			pendingSecret = false
		case '"':
			j := i + 1
			esc := false
			for ; b[j] != '"'; j++ {
				if b[j] == '\\' {
					esc = true
					j++
				}
			}
			l := leaf{from: i, to: j + 1, key: j+1 < len(b) && b[j+1] == ':', secret: pendingSecret}
			if esc {
				_ = json.Unmarshal(b[l.from:l.to], &l.text) // the encoder's own output
			} else {
				l.text = string(b[i+1 : j])
			}
			if l.key {
				pendingSecret = secretField(l.text)
			} else {
				pendingSecret = false
			}
			leaves = append(leaves, l)
			i = j
		}
	}
	if !r.empty() {
		changed = scrubSplit(leaves, r)
	}
	for i := range leaves {
		l := &leaves[i]
		now := l.text
		if !l.secret || now != "" {
			if l.secret {
				now = mask
			} else {
				now = r.String(now)
			}
		}
		if now != l.text {
			l.text, l.changed, changed = now, true, true
		}
	}
	if !changed {
		return scrubNumbers(b, r)
	}
	out := make([]byte, 0, len(b)+64)
	last := 0
	for _, l := range leaves {
		if l.changed {
			out = append(out, b[last:l.from]...)
			out = appendJSONString(out, l.text)
			last = l.to
		}
	}
	return scrubNumbers(append(out, b[last:]...), r)
}

// scrubSplit masks known values that are split across adjacent strings, such as the chunks of a stream.
func scrubSplit(leaves []leaf, r *Redactor) (changed bool) {
	var all strings.Builder
	starts := make([]int, 0, len(leaves))
	idx := make([]int, 0, len(leaves))
	for i, l := range leaves {
		if l.key {
			continue
		}
		idx, starts = append(idx, i), append(starts, all.Len())
		all.WriteString(l.text)
	}
	whole := all.String()
	type span struct{ from, to int }
	var spans []span
	r.mu.RLock()
	for _, f := range r.forms {
		for at := 0; ; {
			k := strings.Index(whole[at:], f.text)
			if k < 0 {
				break
			}
			spans = append(spans, span{at + k, at + k + len(f.text)})
			at += k + 1
		}
	}
	r.mu.RUnlock()
	for _, s := range spans {
		for k, i := range idx {
			from, to := max(s.from, starts[k]), min(s.to, starts[k]+len(leaves[i].text))
			if from < to && (s.from < starts[k] || s.to > starts[k]+len(leaves[i].text)) {
				leaves[i].changed, changed = true, true
			}
		}
	}
	for i := range leaves {
		if leaves[i].changed {
			leaves[i].text = mask
		}
	}
	return changed
}

// scrubNumbers masks known values that are numbers, such as a PIN.
func scrubNumbers(b []byte, r *Redactor) []byte {
	if r.empty() {
		return b
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	for v := range r.known {
		if _, err := strconv.ParseFloat(v, 64); err != nil || !bytes.Contains(b, []byte(v)) {
			continue
		}
		q := appendJSONString(nil, mask)
		for _, edge := range []string{",", "}", "]"} {
			for _, lead := range []string{":", "[", ","} {
				b = bytes.ReplaceAll(b, []byte(lead+v+edge), append(append([]byte(lead), q...), edge...))
			}
		}
	}
	return b
}

// appendJSONString appends s as JSON, with the escapes that the export requires.
func appendJSONString(b []byte, s string) []byte {
	b = append(b, '"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < 0x20 || c == 0x7f:
			b = append(b, '\\', 'u', '0', '0', "0123456789abcdef"[c>>4], "0123456789abcdef"[c&15])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
