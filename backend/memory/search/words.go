package search

// Word is a word of a text.
type Word struct {
	Token      string // lower case, without diacritics
	Stem       string // English; equal for the forms of a word
	Start, End int    // bytes of the text
	Stop       bool   // says nothing about what the text is about
}

// Words cuts a text into words as search does.
func Words(text string) []Word {
	tokens := tokenize(text)
	out := make([]Word, len(tokens))
	for i, t := range tokens {
		out[i] = Word{t.token, stem(t.token), t.start, t.end, stopWords[t.token]}
	}
	return out
}
