package embed

import (
	"encoding/csv"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// difficult returns 200 texts that are difficult for a tokenizer or an encoder.
func difficult() []string {
	texts := []string{
		"", " ", "   ", "\t", "\n", "\r\n", "\u00a0", "\u3000", "\u200b", "\ufeff", "\x00", "a\x00b", "▁", "▁▁a", " a ", "a  b", "a   b    c",
		".", "..", "...", "....", "?!?!", "-", "--", "—", "_", "~", "/", "\\", "'", "\"", "`", "<s>", "</s>", "extra_token_id_1", "<unk>",
		":", "a:", ": a", "://", "http://example.org", ":)", " :)", "a :) b", ":(", "):", "(:):", ":::::", "12:00", ":00", "at 9:00 and 10:00", ":-)", " :-)", "x :-) y:-)",
		"0", "1", "7", "42", "1234567890", "3.14159265358979", "-17", "+49 30 1234567", "1,000,000", "1e-9", "0x7fff", "50 %", "§ 12", "1/2", "½", "²", "x²+y²", "Ⅷ", "①②③",
		"A", "a", "I", "THE QUICK BROWN FOX", "the quick brown fox jumps over the lazy dog", "tHe QuIcK", "Donaudampfschifffahrtsgesellschaftskapitän",
		"supercalifragilisticexpialidocious", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", strings.Repeat("ab", 100), strings.Repeat("x", 1000), strings.Repeat("!", 300),
		"naïve café", "nai\u0308ve cafe\u0301", "ﬁne ﬂow ﬀ", "Ａｂｃ　１２３", "ｶﾞｷﾞｸﾞ", "Å Å", "ﷺ", "Zürich", "Straße", "İstanbul", "Ελληνικά γράμματα", "Привет, мир", "Ну что же",
		"日本語のテキスト", "我昨天去了饭店。", "한국어 문장입니다", "각", "각", "อักษรไทย", "हिन्दी में लिखा", "বাংলা", "தமிழ்", "አማርኛ", "ქართული", "Հայերեն", "ᚠᚢᚦ",
		"שלום עולם", "مرحبا بالعالم", "Mixed עברית and English", "\u202eright to left\u202c", "العدد ١٢٣٤", "نص طويل باللغة العربية مع كلمات كثيرة",
		"😀", "😀😀😀", "😀 😀 😀", "I love 🍕 and 🍣!", "👩‍👩‍👧‍👦", "👍🏽", "🇩🇪🇫🇷", "❤️", "☎", "™ ® ©", "→ ← ↑ ↓", "∑ ∫ √ ∞", "♠♣♥♦", "🂡", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢", "𝒳 = 𝒴", "\U0010ffff", "\ue000", "\ufffd", "\ufffd\ufffd a \ufffd",
		"░", "►", "═══", "▒▒▒ a ▒", "▄█▀", "°C", "€ 5,99", "£3", "¥100", "$5", "a\u0301\u0302\u0303", "Z\u0351\u036b\u0343", "e\u0327\u0301", "\u0301", "q\u0307\u0323", "q\u0323\u0307",
		"func main() { fmt.Println(\"hi\") }", "SELECT * FROM t WHERE a = 'b';", "{\"a\": [1, 2, {\"b\": null}]}", "<html><body>text</body></html>", "C:\\Users\\me\\file.txt", "/usr/local/bin/x", "me@example.org", "a+b=c", "#tag @you", "~~~",
		"tab\tseparated\tvalues", "line one\nline two\nline three", "  leading", "trailing  ", "soft\u00adhyphen", "zero\u200bwidth", "no\u00a0break", "word\u2060joiner", "em\u2003space", "line\u2028sep",
		"It's a dog's life, isn't it?", "“Quoted” ‘text’", "don’t", "O'Neill-Smith", "e.g. i.e. etc.", "U.S.A.", "Mr. and Mrs. O'Hara's", "rock 'n' roll", "a.m./p.m.",
		"Where did we eat the night before the move?", "You told me about the restaurant by the river.", "My mother's birthday is on 8 May.", "I am not happy.", "I am happy.", "Not bad at all!",
	}
	words := strings.Fields("alpha river 东 of the restaurant 😀 Übung moved 12:30 yesterday, isn't :-) привет and zzyzx naïve ... running")
	r := rand.New(rand.NewPCG(5, 1))
	for n := 2; len(texts) < 200; n = n*3/2 + 1 {
		if n > 700 {
			n = 100 + r.IntN(60) // about the length of one window
		}
		var b strings.Builder
		for range n {
			fmt.Fprintf(&b, "%s ", words[r.IntN(len(words))])
		}
		texts = append(texts, strings.TrimSpace(b.String()))
	}
	return texts
}

// ordinary returns n sentences: from the shared data if available, else composed of words.
func ordinary(t testing.TB, n int) []string {
	dir := os.Getenv("HELIX_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "data")
	}
	f, err := os.Open(filepath.Join(dir, "emobank", "emobank-train-dev.csv"))
	if err != nil {
		return generated(n)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	rows = rows[1:]
	texts := make([]string, 0, n)
	for i := range min(n, len(rows)) {
		texts = append(texts, rows[i*len(rows)/n][5])
	}
	return texts
}

func generated(n int) []string {
	subjects := strings.Fields("I We They Anna Peter Everyone Nobody Grandmother Alex Someone")
	verbs := strings.Split("went to,talked about,forgot,loved,could not find,bought,painted,worried about,dreamt of,never liked", ",")
	objects := strings.Split("the old house,a restaurant by the river,the new job,our holiday in Norway,her violin,the exam,that long letter,the garden,a broken window,their first dog", ",")
	ends := strings.Split(".,!, yesterday., before the move., in 2019; it rained., and it felt strange., at 7:30 pm.,?, again and again., with three friends from work.", ",")
	r := rand.New(rand.NewPCG(5, 2))
	texts := make([]string, n)
	for i := range texts {
		pick := func(s []string) string { return s[r.IntN(len(s))] }
		texts[i] = pick(subjects) + " " + pick(verbs) + " " + pick(objects) + pick(ends)
		if r.IntN(3) == 0 {
			texts[i] += " " + pick(subjects) + " " + pick(verbs) + " " + pick(objects) + pick(ends)
		}
	}
	return texts
}
