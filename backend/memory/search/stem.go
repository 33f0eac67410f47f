package search

// stem reduces a lower-case token to its stem like the porter tokenizer of FTS5, so that search
// words match indexed words (M. F. Porter, An algorithm for suffix stripping, 1980). Tokens of less
// than 3 or more than 64 bytes are returned unchanged.
func stem(token string) string {
	if len(token) < 3 || len(token) > 64 {
		return token
	}
	b := append(make([]byte, 0, len(token)+1), token...)
	b = stemPlural(b)
	b = stemPast(b)
	if n := len(b); b[n-1] == 'y' && hasVowel(b[:n-1]) {
		b[n-1] = 'i'
	}
	b = replaceSuffix(b, stemStep2, 0)
	b = replaceSuffix(b, stemStep3, 0)
	b = replaceSuffix(b, stemStep4, 1)
	if n := len(b); b[n-1] == 'e' {
		if m := measure(b[:n-1]); m > 1 || m == 1 && !endsShort(b[:n-1]) {
			b = b[:n-1]
		}
	}
	if n := len(b); n > 1 && b[n-1] == 'l' && b[n-2] == 'l' && measure(b[:n-1]) > 1 {
		b = b[:n-1]
	}
	return string(b)
}

// suffix is an ending and its replacement.
type suffix struct{ from, to string }

// The endings of steps 2 to 4. An ending must precede its own suffixes.
var (
	stemStep2 = []suffix{
		{"ational", "ate"}, {"tional", "tion"}, {"enci", "ence"}, {"anci", "ance"}, {"izer", "ize"}, {"logi", "log"},
		{"bli", "ble"}, {"alli", "al"}, {"entli", "ent"}, {"eli", "e"}, {"ousli", "ous"}, {"ization", "ize"},
		{"ation", "ate"}, {"ator", "ate"}, {"alism", "al"}, {"iveness", "ive"}, {"fulness", "ful"}, {"ousness", "ous"},
		{"aliti", "al"}, {"iviti", "ive"}, {"biliti", "ble"},
	}
	stemStep3 = []suffix{
		{"icate", "ic"}, {"ative", ""}, {"alize", "al"}, {"iciti", "ic"}, {"ical", "ic"}, {"ful", ""}, {"ness", ""},
	}
	stemStep4 = []suffix{
		{"al", ""}, {"ance", ""}, {"ence", ""}, {"er", ""}, {"ic", ""}, {"able", ""}, {"ible", ""}, {"ant", ""},
		{"ement", ""}, {"ment", ""}, {"ent", ""}, {"ion", ""}, {"ou", ""}, {"ism", ""}, {"ate", ""}, {"iti", ""},
		{"ous", ""}, {"ive", ""}, {"ize", ""},
	}
)

// replaceSuffix replaces the first matching ending if more than m vowel-consonant pairs remain before it.
func replaceSuffix(b []byte, of []suffix, m int) []byte {
	for _, s := range of {
		n := len(b) - len(s.from)
		if n <= 0 || string(b[n:]) != s.from {
			continue
		}
		if measure(b[:n]) > m && (s.from != "ion" || b[n-1] == 's' || b[n-1] == 't') {
			b = append(b[:n], s.to...)
		}
		return b
	}
	return b
}

// stemPlural is step 1a.
func stemPlural(b []byte) []byte {
	n := len(b)
	if b[n-1] != 's' || b[n-2] == 's' {
		return b
	}
	if b[n-2] == 'e' && (n > 4 && b[n-4] == 's' && b[n-3] == 's' || n > 3 && b[n-3] == 'i') {
		return b[:n-2]
	}
	return b[:n-1]
}

// stemPast is step 1b: -eed, -ed and -ing.
func stemPast(b []byte) []byte {
	n := len(b)
	switch {
	case n > 3 && string(b[n-3:]) == "eed":
		if measure(b[:n-3]) > 0 {
			b = b[:n-1]
		}
		return b
	case n > 2 && string(b[n-2:]) == "ed" && hasVowel(b[:n-2]):
		b = b[:n-2]
	case n > 3 && string(b[n-3:]) == "ing" && hasVowel(b[:n-3]):
		b = b[:n-3]
	default:
		return b
	}
	n = len(b)
	if n > 2 {
		switch string(b[n-2:]) {
		case "at", "bl", "iz":
			return append(b, 'e')
		}
	}
	if c := b[n-1]; n > 1 && !isVowel(c, false) && c != 'l' && c != 's' && c != 'z' && c == b[n-2] {
		return b[:n-1]
	}
	if measure(b) == 1 && endsShort(b) {
		return append(b, 'e')
	}
	return b
}

func isVowel(c byte, y bool) bool {
	return c == 'a' || c == 'e' || c == 'i' || c == 'o' || c == 'u' || y && c == 'y'
}

func hasVowel(b []byte) bool {
	for i, c := range b {
		if isVowel(c, i > 0) {
			return true
		}
	}
	return false
}

// measure counts the vowel-consonant pairs, at most 2.
func measure(b []byte) int {
	pairs, consonant, inVowels := 0, false, false
	for _, c := range b {
		consonant = !isVowel(c, consonant)
		if !consonant {
			inVowels = true
		} else if inVowels {
			inVowels = false
			if pairs++; pairs == 2 {
				break
			}
		}
	}
	return pairs
}

// endsShort reports whether b ends in consonant, vowel, consonant, where the last is not w, x or y.
func endsShort(b []byte) bool {
	if c := b[len(b)-1]; c == 'w' || c == 'x' || c == 'y' {
		return false
	}
	mask, consonant := 0, false
	for _, c := range b {
		consonant = !isVowel(c, consonant)
		mask <<= 1
		if consonant {
			mask |= 1
		}
	}
	return mask&7 == 5
}
