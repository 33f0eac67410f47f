// Package textmine reads what plain rules can read from a person's texts: sentences, quotations
// and negation, the terms that mark a group of texts, the people in them, signs of support and
// conflict, plans, wishes, fears and values, and the dates that they name. Rules are for English,
// with the commonest words of German. The same input always gives the same output.
package textmine

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Sentence is a sentence of a text, with offsets in bytes.
type Sentence struct {
	Start, End int
	Question   bool
	Tokens     []Token
}

// Token is a word of a sentence. "don't" gives two tokens, do and not, which share their offsets.
type Token struct {
	Start, End int
	Text       string // as written
	Lower      string // in lower case, contractions written out
	Quoted     bool   // inside of a quotation
	Negated    bool   // in the scope of a negation in its clause
	Break      bool   // punctuation that ends a clause stands before it
	Inner      bool   // neither first of its sentence nor of a quotation
}

// Parse cuts a text into sentences and words.
func Parse(text string) []Sentence {
	quotes := Quotations(text)
	var out []Sentence
	for _, span := range sentenceSpans(text) {
		s := Sentence{Start: span.Start, End: span.End}
		s.Question = strings.HasSuffix(strings.TrimRight(text[s.Start:s.End], " \t\n\"'”’)"), "?")
		s.Tokens = tokenize(text, s.Start, s.End, quotes)
		if len(s.Tokens) > 0 {
			markNegation(s.Tokens)
			out = append(out, s)
		}
	}
	return out
}

// Span is a part of a text, in bytes.
type Span struct{ Start, End int }

func isWord(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.Is(unicode.M, r)
}

func isApostrophe(r rune) bool { return r == '\'' || r == '’' }

// tokenize finds the words between two offsets.
func tokenize(text string, start, end int, quotes []Span) (out []Token) {
	first, broken := true, false
	for i := start; i < end; {
		r, size := utf8.DecodeRuneInString(text[i:end])
		if !isWord(r) {
			switch {
			case strings.ContainsRune(",;:()[]—–!?…", r), r == '.', r == '\n':
				broken = true
			case r == '-' && i+1 < end && text[i+1] == ' ':
				broken = true
			}
			if r == ':' || strings.ContainsRune("\"“„«»‘!?", r) {
				first = true
			}
			i += size
			continue
		}
		j := wordEnd(text, i, end)
		word := text[i:j]
		t := Token{Start: i, End: j, Text: word, Break: broken, Inner: !first}
		for len(quotes) > 0 && quotes[0].End <= i {
			quotes = quotes[1:]
		}
		t.Quoted = len(quotes) > 0 && quotes[0].Start <= i
		lower := strings.ToLower(strings.ReplaceAll(word, "’", "'"))
		for _, part := range expand(lower) {
			t.Lower = part
			out = append(out, t)
			t.Break, t.Inner = false, true
		}
		first, broken = false, false
		i = j
	}
	return out
}

// wordEnd finds the end of the word at i: apostrophes and hyphens between letters belong to it.
func wordEnd(text string, i, end int) int {
	j := i
	for j < end {
		r, size := utf8.DecodeRuneInString(text[j:end])
		if !isWord(r) {
			next, _ := utf8.DecodeRuneInString(text[j+size : end])
			if j == i || !isApostrophe(r) && r != '-' || !isWord(next) {
				break
			}
		}
		j += size
	}
	return j
}

// contractions are those that no rule of expand writes out.
var contractions = map[string][]string{
	"gonna": {"going", "to"}, "wanna": {"want", "to"}, "gotta": {"have", "to"}, "imma": {"i", "will"},
	"can't": {"can", "not"}, "won't": {"will", "not"}, "shan't": {"shall", "not"}, "cannot": {"can", "not"},
	"ain't": {"is", "not"}, "let's": {"let", "us"}, "i'd": {"i", "would"}, "we'd": {"we", "would"},
	"dont": {"do", "not"}, "doesnt": {"does", "not"}, "didnt": {"did", "not"}, "cant": {"can", "not"}, "wont": {"will", "not"},
	"im": {"i", "am"}, "ive": {"i", "have"},
}

func expand(w string) []string {
	if c := contractions[w]; c != nil {
		return c
	}
	if base, ok := strings.CutSuffix(w, "n't"); ok && base != "" {
		return []string{base, "not"}
	}
	for _, c := range [...][2]string{{"'m", "am"}, {"'re", "are"}, {"'ve", "have"}, {"'ll", "will"}, {"'d", "would"}} {
		if base, ok := strings.CutSuffix(w, c[0]); ok && base != "" {
			return []string{base, c[1]}
		}
	}
	if base, ok := strings.CutSuffix(w, "'s"); ok {
		switch base {
		case "it", "he", "she", "that", "what", "there", "who", "where", "how", "here":
			return []string{base, "is"}
		}
	}
	return []string{w}
}

// abbreviations end with a full stop that ends no sentence.
var abbreviations = set("mr mrs ms dr prof st jr sr vs etc approx no vol fig eg ie e.g i.e a.m p.m u.s z.b d.h bzw ca nr usw inc ltd co mt jan feb mar apr jun jul aug sep sept oct nov dec")

// sentenceSpans ends sentences at . ! ? … before white space, at blank lines, and at line ends
// before something that begins like a sentence or an item of a list.
func sentenceSpans(text string) (out []Span) {
	start := 0
	cut := func(end int) {
		part := text[start:end]
		trimmed := strings.TrimSpace(part)
		if trimmed != "" {
			from := start + strings.Index(part, trimmed)
			out = append(out, Span{from, from + len(trimmed)})
		}
		start = end
	}
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		i += size
		switch r {
		case '.', '!', '?', '…':
			if r == '.' && isAbbreviation(text[start:i-1]) {
				continue
			}
			for i < len(text) { // closing marks belong to the sentence
				c, n := utf8.DecodeRuneInString(text[i:])
				if !strings.ContainsRune(".!?…\"'”’»)]", c) {
					break
				}
				i += n
			}
			next, _ := utf8.DecodeRuneInString(text[i:])
			if i == len(text) || unicode.IsSpace(next) && !continues(text[i:], r) {
				cut(i)
			}
		case '\n':
			rest := strings.TrimLeft(text[i:], " \t")
			next, _ := utf8.DecodeRuneInString(rest)
			if next == '\n' || next == '\r' || unicode.IsUpper(next) || unicode.IsDigit(next) || strings.ContainsRune("-*•>\"“„#", next) {
				cut(i)
			}
		}
	}
	cut(len(text))
	return out
}

// continues reports whether what follows goes on with the sentence: "Really?" she asked.
func continues(rest string, mark rune) bool {
	next, _ := utf8.DecodeRuneInString(strings.TrimLeft(rest, " \t"))
	return unicode.IsLower(next) && mark != '.' && mark != '!'
}

func isAbbreviation(before string) bool {
	i := strings.LastIndexFunc(before, func(r rune) bool { return unicode.IsSpace(r) || r == '(' })
	w := strings.ToLower(before[i+1:])
	r, size := utf8.DecodeRuneInString(before[i+1:])
	return abbreviations[w] || size == len(w) && size > 0 && unicode.IsUpper(r) && r != 'I'
}

// elided are words that begin with an apostrophe, which opens no quotation.
var elided = set("cause til till em twas tis bout round n cuz")

var closers = map[rune]string{'"': `"`, '“': `”"`, '”': `”`, '„': "“”", '«': "»", '»': "«", '‘': "’", '\'': "'"}

// Quotations finds the parts of a text that quote: between quotation marks that are closed in the
// same paragraph, and lines that begin with >. Their marks are part of them.
func Quotations(text string) (out []Span) {
	lineStart := true
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		if lineStart && r == '>' {
			end := i + strings.IndexByte(text[i:]+"\n", '\n')
			out = append(out, Span{i, end})
			i = end
			continue
		}
		if end := closing(text, i, r, size); end > 0 {
			out = append(out, Span{i, end})
			i = end
			continue
		}
		lineStart = r == '\n' || lineStart && (r == ' ' || r == '\t')
		i += size
	}
	return out
}

// closing gives the end of the quotation that the mark at i opens, or 0.
func closing(text string, i int, mark rune, size int) int {
	want := closers[mark]
	if want == "" {
		return 0
	}
	before, _ := utf8.DecodeLastRuneInString(text[:i])
	after, _ := utf8.DecodeRuneInString(text[i+size:])
	if unicode.IsSpace(after) || i > 0 && isWord(before) {
		return 0
	}
	single := mark == '\'' || mark == '‘'
	if single && elided[strings.ToLower(text[i+size:max(i+size, wordEnd(text, i+size, len(text)))])] {
		return 0
	}
	for j := i + size; j < len(text); {
		r, n := utf8.DecodeRuneInString(text[j:])
		if r == '\n' && j+1 < len(text) && text[j+1] == '\n' {
			return 0
		}
		if strings.ContainsRune(want, r) {
			next, _ := utf8.DecodeRuneInString(text[j+n:])
			if !single || !isWord(next) {
				return j + n
			}
		}
		j += n
	}
	return 0
}

var (
	negations = set("not no never nobody nothing none neither nor without hardly barely rarely seldom nicht kein keine keinen nie niemals")
	// clauseWords end the scope of a negation.
	clauseWords = set("but because although though however so and or then if when while aber weil und oder")
)

// markNegation marks the words after a negation up to the end of its clause.
func markNegation(tokens []Token) {
	scope := false
	for i := range tokens {
		t := &tokens[i]
		if t.Break || clauseWords[t.Lower] {
			scope = false
		}
		t.Negated = scope
		if negations[t.Lower] && !(i+1 < len(tokens) && tokens[i+1].Lower == "only") {
			scope = true
		}
	}
}

// set makes a set of the words of a text.
func set(words string) map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.Fields(words) {
		out[w] = true
	}
	return out
}
