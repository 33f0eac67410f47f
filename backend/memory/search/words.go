package search

// Word is a word of a text.
type Word struct {
	Token      string // lower case, without diacritics
	Stem       string // English; equal for inflections of a word
	Start, End int    // byte offsets
	Stop       bool   // stop word
}

// Words splits a text into words as search does.
func Words(text string) []Word {
	tokens := tokenize(text)
	out := make([]Word, len(tokens))
	for i, t := range tokens {
		out[i] = Word{t.token, stem(t.token), t.start, t.end, stopWords[t.token]}
	}
	return out
}
