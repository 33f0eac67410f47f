package recordings

import (
	"math/rand/v2"
	"strings"
)

// pieces are the building blocks of the texts: words and their contractions, code, numbers, all kinds
// of white space, other scripts, and symbols composed of several characters.
var pieces = []string{
	"the", "boat", "Sea", "HTTPServer", "camelCaseName", "don't", "WE'LL", "it's", "naïve", "Straße", "ﬁne", "ǅ", "ʰ",
	"0", "7", "42", "1234567890", "3.14159", "1e-9", "٣٤", "Ⅷ", "½", "²",
	" ", " ", " ", "  ", "\n", "\n\n", "\r\n", "\t", " \n ", "\u00a0", "\u3000", "    ",
	".", ",", "!", "?!", "...", "—", "//", "/*", "*/", "{}", "();", "==", "<p>", "&amp;", "\"", "'", "`", "\\", "#include", "http://x.org/a?b=c", "$", "€",
	"海", "日本語", "中文字符", "한국어", "Привет", "мир", "مرحبا", "שלום", "हिन्दी", "ไทย", "Ελλάδα",
	"😀", "👩‍👩‍👧", "🇩🇪", "é", "a\u0301\u0323", "\u200b", "\u200d", "𝒳", "\u0000",
}

// Texts returns the same 1,000 texts each time.
func Texts() []string {
	r := rand.New(rand.NewPCG(7, 11))
	out := []string{"", "a", " ", "\n", strings.Repeat("a", 100_000), strings.Repeat("ab ", 5_000), strings.Repeat(" ", 3_000), strings.Repeat("海", 3_000), strings.Repeat("😀", 2_000), strings.Repeat("1", 1_000)}
	for len(out) < 1_000 {
		var b strings.Builder
		narrow := pieces // half of the texts use few different pieces, so that they are often adjacent
		if r.IntN(2) == 0 {
			from := r.IntN(len(pieces) - 5)
			narrow = pieces[from : from+5]
		}
		for range 1 + r.IntN(120) {
			b.WriteString(narrow[r.IntN(len(narrow))])
		}
		out = append(out, b.String())
	}
	return out
}
