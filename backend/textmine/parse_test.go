package textmine

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func texts(text string) (out []string) {
	for _, s := range Parse(text) {
		out = append(out, text[s.Start:s.End])
	}
	return out
}

func TestSentences(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"":                                   nil,
		" ... !":                             nil,
		"One. Two! Three? Four":              {"One.", "Two!", "Three?", "Four"},
		"Dr. Meyer came at 5 p.m. yesterday": {"Dr. Meyer came at 5 p.m. yesterday"},
		"It costs 3.50 now. Good.":           {"It costs 3.50 now.", "Good."},
		"He said \"Stop.\" Then he left.":    {"He said \"Stop.\"", "Then he left."},
		"\"Really?\" she asked. I nodded.":   {"\"Really?\" she asked.", "I nodded."},
		"a line\nthat goes on\nNext line":    {"a line\nthat goes on", "Next line"},
		"- milk\n- eggs\n\nthe end":          {"- milk", "- eggs", "the end"},
		"J. R. Smith wrote it. So did I. Ok": {"J. R. Smith wrote it.", "So did I.", "Ok"},
	} {
		if got := texts(text); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	var got []string
	for _, s := range Parse("I don’t think we'd re-do it; Anna's can't, gonna stay.") {
		for _, token := range s.Tokens {
			got = append(got, token.Lower)
		}
	}
	want := strings.Fields("i do not think we would re-do it anna's can not going to stay")
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestQuotationsAreFoundAndBalanced(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		`He said "I want it" and left`:        {`"I want it"`},
		"„Ich gehe“, sagte sie. »Nein«":       {"„Ich gehe“", "»Nein«"},
		"It's the dogs' house, 'cause I say":  nil,
		"She wrote 'come home soon' to me":    {"'come home soon'"},
		"A 5\" screen and a 6\" one":          nil,
		"never \"closed\n\nnext paragraph":    nil,
		"> quoted mail\nmy answer":            {"> quoted mail"},
		"“I can’t,” he said, “not today.” Ok": {"“I can’t,”", "“not today.”"},
	} {
		var got []string
		for _, q := range Quotations(text) {
			got = append(got, text[q.Start:q.End])
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestNegationEndsWithItsClause(t *testing.T) {
	t.Parallel()
	var negated []string
	for _, s := range Parse("I never liked cold water, but warm water is fine. Not only rain but snow fell.") {
		for _, token := range s.Tokens {
			if token.Negated {
				negated = append(negated, token.Lower)
			}
		}
	}
	if want := []string{"liked", "cold", "water"}; !slices.Equal(negated, want) {
		t.Errorf("%q, want %q", negated, want)
	}
}

func TestLemmas(t *testing.T) {
	t.Parallel()
	for w, want := range map[string]string{
		"memories": "memory", "running": "run", "hoped": "hope", "argued": "argue", "arguing": "argue", "supported": "support",
		"encouraged": "encourage", "children": "child", "boxes": "box", "glass": "glass", "studied": "study", "sing": "sing",
		"betrayed": "betray", "disagreed": "disagree", "yelling": "yell", "blamed": "blame", "sister's": "sister", "bus": "bus",
	} {
		if got := Lemma(w); got != want {
			t.Errorf("%s: %s, want %s", w, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"He said \"I want to go.\" I don't.", "„Ach“ »x« 'a b' ‘c’ > d\n\n\"", "I'm 5'4\" tall… ok?!", "\xff'\xfe\"", "My goal is to to to",
		"my sister, Anna, and I'd hope that we", "next Friday in in two", "I must've", "’’’'' I", "Hey Jo-Ann! \"Mel\" is 'here'",
	} {
		f.Add(seed)
	}
	at := time.Date(2024, 3, 6, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		inside := func(what string, s Span) {
			if s.Start < 0 || s.End < s.Start || s.End > len(text) {
				t.Errorf("%s: %+v of %d bytes", what, s, len(text))
			}
			if utf8.ValidString(text) && !utf8.ValidString(text[s.Start:s.End]) {
				t.Errorf("%s cuts a character: %q", what, text[s.Start:s.End])
			}
		}
		last := 0
		for _, s := range Parse(text) {
			inside("sentence", Span{s.Start, s.End})
			if s.Start < last {
				t.Errorf("sentences overlap at %d", s.Start)
			}
			last = s.End
			before := s.Start
			for _, token := range s.Tokens {
				inside("token", Span{token.Start, token.End})
				if token.Start < before || token.End > s.End || text[token.Start:token.End] != token.Text {
					t.Errorf("token %+v of the sentence %d to %d", token, s.Start, s.End)
				}
				before = token.Start
			}
			for _, d := range Dates(s, at) {
				inside("date", d.Span)
				if !d.From.Before(d.To) {
					t.Errorf("date %+v", d)
				}
			}
		}
		last = 0
		for _, q := range Quotations(text) {
			inside("quotation", q)
			if q.Start < last {
				t.Errorf("quotations overlap at %d", q.Start)
			}
			last = q.End
		}
		prospects, outcomes := Prospects(text, at)
		for _, p := range prospects {
			inside("prospect", p.Span)
			if !strings.Contains(text[p.Start:p.End], p.Object) {
				t.Errorf("%q is not in %q", p.Object, text[p.Start:p.End])
			}
		}
		for _, o := range outcomes {
			inside("outcome", o.Span)
		}
		for _, r := range Relations(text) {
			inside("relation", r.Span)
		}
		docs := []Doc{{Speaker: "Mel", Text: text}, {Text: text}}
		for _, p := range People(docs, Corrections{}) {
			for _, m := range p.Mentions {
				inside("mention", m.Span)
			}
		}
		Terms(docs[:1], docs, 5)
	})
}
