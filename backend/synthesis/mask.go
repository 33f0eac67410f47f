package synthesis

import (
	"cmp"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"helix/backend/lazyregexp"
)

// masked lists what is never sent to a model, in the order of the search.
var masked = []struct {
	kind  string
	re    func() *regexp.Regexp
	valid func(string) bool // nil: every match is masked
}{
	{"email", lazyregexp.New(`[\p{L}\p{N}._%+-]+@[\p{L}\p{N}.-]+\.\p{L}{2,}`), nil},
	{"account", lazyregexp.New(`\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b`), iban},
	{"card", lazyregexp.New(`\b(?:\d[ -]?){12,18}\d\b`), luhn},
	{"phone", lazyregexp.New(`(?:\+|\b00)\d[\d ()/.-]{6,18}\d\b|\(?\b0\d{1,4}\)?[ /.-]?\d[\d /.-]{4,12}\d\b|\(?\b\d{3}\)?[-. ]\d{3}[-. ]\d{4}\b`), phone},
	{"address", lazyregexp.New(`\b\d{1,5}[a-z]? (?:[A-Z][\p{L}'.-]+ ){1,3}(?:Street|St|Avenue|Ave|Road|Rd|Lane|Ln|Drive|Dr|Boulevard|Blvd|Court|Ct|Square|Way|Place)\b`), nil},
	{"address", lazyregexp.New(`\p{Lu}[\p{L}-]*(?:straße|strasse|str\.|weg|platz|allee|gasse|ring|damm|ufer) \d{1,4} ?[a-z]?\b`), nil},
}

// secretMark matches what Scrub leaves in place of a secret.
var secretMark = lazyregexp.New(`\[secret(?: [^\[\]\n]*)?\]`)

var dateLike = lazyregexp.New(`^\d{1,4}([./-])\d{1,2}[./-]\d{1,4}$`)

func digits(s string) string {
	return strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, s)
}

func phone(s string) bool {
	n := len(digits(s))
	return n >= 7 && n <= 15 && !dateLike().MatchString(s)
}

// luhn reports whether the check digit of a card number is correct (ISO/IEC 7812-1).
func luhn(s string) bool {
	sum, d := 0, digits(s)
	for i := range len(d) {
		v := int(d[len(d)-1-i] - '0')
		if i%2 == 1 {
			if v *= 2; v > 9 {
				v -= 9
			}
		}
		sum += v
	}
	return sum%10 == 0
}

// iban reports whether the check digits of an account number are correct (ISO 13616: the
// remainder by 97 is 1).
func iban(s string) bool {
	s = strings.ReplaceAll(s, " ", "")
	var b strings.Builder
	for _, r := range s[4:] + s[:4] {
		if r >= 'A' && r <= 'Z' {
			fmt.Fprint(&b, int(r-'A')+10)
		} else {
			b.WriteRune(r)
		}
	}
	n, ok := new(big.Int).SetString(b.String(), 10)
	return ok && new(big.Int).Mod(n, big.NewInt(97)).Int64() == 1
}

// masker replaces what must not be sent with placeholders. Equal values have the same placeholder,
// so that a model can recognize them across texts.
type masker struct {
	names []*regexp.Regexp
	marks map[string]string // placeholders by kind and value
	value map[string]string // values by placeholder
	count map[string]int    // by kind
}

func newMasker(names []string) *masker {
	m := &masker{marks: map[string]string{}, value: map[string]string{}, count: map[string]int{}}
	longest := slices.SortedFunc(slices.Values(names), func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	for _, n := range longest {
		if n = strings.TrimSpace(n); n != "" {
			m.names = append(m.names, regexp.MustCompile(`(?i)`+regexp.QuoteMeta(n)))
		}
	}
	return m
}

// text returns text with placeholders.
func (m *masker) text(text string) string {
	for _, k := range masked {
		text = k.re().ReplaceAllStringFunc(text, func(v string) string {
			if k.valid != nil && !k.valid(v) {
				return v
			}
			return m.mark(k.kind, v)
		})
	}
	for _, re := range m.names {
		text = m.name(re, text)
	}
	return text
}

// name replaces a name where it is a separate word.
func (m *masker) name(re *regexp.Regexp, text string) string {
	var b strings.Builder
	from := 0
	for _, at := range re.FindAllStringIndex(text, -1) {
		before, _ := utf8.DecodeLastRuneInString(text[:at[0]])
		first, _ := utf8.DecodeRuneInString(text[at[0]:])
		last, _ := utf8.DecodeLastRuneInString(text[:at[1]])
		end := at[1]
		if strings.HasPrefix(text[end:], "s") { // possessive, as in German
			end++
		}
		after, _ := utf8.DecodeRuneInString(text[end:])
		if inWord(before) && inWord(first) || inWord(last) && inWord(after) {
			continue // a part of another word
		}
		b.WriteString(text[from:at[0]] + m.mark("name", text[at[0]:at[1]]))
		from = at[1]
	}
	return b.String() + text[from:]
}

func inWord(r rune) bool {
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r))
}

func (m *masker) mark(kind, value string) string {
	key := kind + " " + strings.ToLower(strings.Join(strings.Fields(value), " "))
	if have, ok := m.marks[key]; ok {
		return have
	}
	m.count[kind]++
	made := fmt.Sprintf("[%s %d]", kind, m.count[kind])
	m.marks[key], m.value[made] = made, value
	return made
}

// restore replaces the placeholders in an answer by their values.
func (m *masker) restore(text string) string {
	return placeholders().ReplaceAllStringFunc(text, func(mark string) string { return cmp.Or(m.value[mark], mark) })
}

var placeholders = lazyregexp.New(`\[(?:email|account|card|phone|address|name) \d+\]`)

// removed lists the placeholders in a text, starting at an offset.
func removed(text string, from int) (out []Removed) {
	for _, at := range placeholders().FindAllStringIndex(text[from:], -1) {
		kind, _, _ := strings.Cut(text[from+at[0]+1:from+at[1]], " ")
		out = append(out, Removed{from + at[0], from + at[1], kind})
	}
	for _, at := range secretMark().FindAllStringIndex(text[from:], -1) {
		out = append(out, Removed{from + at[0], from + at[1], "secret"})
	}
	slices.SortFunc(out, func(a, b Removed) int { return a.Start - b.Start })
	return out
}
