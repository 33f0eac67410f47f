package search

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helix/backend/testkit"
)

// Our tokenizer and stemmer produce the terms that FTS5 stores, for English and other texts.
func TestTermsAreThoseOfFTS5(t *testing.T) {
	t.Parallel()
	testkit.SkipRaced(t, "one goroutine, and slow under it")
	texts := []string{
		"Caresses ponies ties caress cats feed agreed plastered bled motoring sing conflated troubled sized hopping tanned falling hissing fizzed failing filing",
		"happy sky relational conditional rational valenci hesitanci digitizer conformabli radicalli differentli vileli analogousli vietnamization predication operator",
		"feudalism decisiveness hopefulness callousness formaliti sensitiviti sensibiliti triplicate formative formalize electriciti electrical hopeful goodness",
		"revival allowance inference airliner gyroscopic adjustable defensible irritant replacement adjustment dependent adoption homologou communism activate angulariti",
		"homologous effective bowdlerize probate rate cease controll roll possibly apologies analogy archaeology as is us yes gas being seeing ing eed ed", //nolint:misspell // as the stemmer's own list has it
		"Crème brûlée, naïve façade — Ærøskøbing Straße ŁÓDŹ İstanbul Ελληνικά ΆΝΘΡΩΠΟΣ Привет ЁЛКА עִבְרִית العربية हिन्दी 漢字かな 한국어 ①②③ ½ 3.14 x² 1,000 a_b c-d e'f",
		"e\u0301cole no\u0308el 🎉 family 👨‍👩‍👧 \u0000 zero\u0000byte tab\tnew\nline \u00adsoft \ufeffbom",
	}
	files, err := filepath.Glob(filepath.Join("..", "..", "..", "..", "shared", "data", "locomo", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(raw))
	}
	db := storagetest.Open(t)
	want := map[string]bool{}
	err = db.Write(context.Background(), func(tx *storage.Tx) error {
		for i, text := range texts {
			if _, err := tx.Exec(`INSERT INTO search_fts (rowid, title, tags, content) VALUES (?, '', '', ?)`, i+1, text); err != nil {
				return err
			}
		}
		rows, err := tx.Query(`SELECT DISTINCT term FROM search_terms`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var term string
			if err := rows.Scan(&term); err != nil {
				return err
			}
			want[term] = true
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, text := range texts {
		for _, w := range tokenize(text) {
			got[stem(w.token)] = true
		}
	}
	var missing, extra []string
	for term := range want {
		if !got[term] {
			missing = append(missing, term)
		}
	}
	for term := range got {
		if !want[term] {
			extra = append(extra, term)
		}
	}
	slices.Sort(missing)
	slices.Sort(extra)
	if len(missing)+len(extra) > 0 {
		t.Errorf("of %d terms FTS5 has %q and we have %q", len(want), missing, extra)
	}
}

// FuzzSnippet checks that a passage is a part of the text that begins and ends between characters.
func FuzzSnippet(f *testing.F) {
	f.Add("one two three. Four five six, seven eight.", "five", 12)
	f.Add(strings.Repeat("x", 600), "x", 100)
	f.Add(strings.Repeat("日本語 ", 200), "日本語", 50)
	f.Fuzz(func(t *testing.T, text, query string, size int) {
		if size < 8 || size > 1000 || !utf8.ValidString(text) {
			return
		}
		p := passageOf(text, tokenize(text), termsOf(query, true).stems, size)
		if p.start < 0 || p.end < p.start || p.end > len(text) || p.end-p.start > size {
			t.Fatalf("%v of %d bytes, at most %d", p, len(text), size)
		}
		if !utf8.ValidString(text[p.start:p.end]) {
			t.Fatalf("cut within a character: %q", text[p.start:p.end])
		}
		highlights(text, termsOf(query, true).stems)
	})
}

func TestParseQuery(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{`What did Caroline say about adoption?`, `"caroline" OR "say" OR "adoption"`},
		{`the "red car" and "red car" of AND "x"`, `"x" OR "red car"`},
		{`to be or not to be`, `"to" OR "be" OR "or" OR "not"`},
		{`NEAR(a b) title:c* -d ^e`, `"near" OR "b" OR "title" OR "c" OR "e"`},
		{"\x00 \" ' *", ``},
	} {
		if got := FTSQuery(c.text, true); got != c.want {
			t.Errorf("%q becomes %s, want %s", c.text, got, c.want)
		}
	}
}
