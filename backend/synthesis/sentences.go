package synthesis

import (
	"regexp"
	"slices"
	"strings"

	"helix/backend/lazyregexp"
)

// sentence is one sentence of a text, without quotations.
type sentence struct {
	text     string
	question bool
}

// quoted matches quotations: text between quotation marks, or a line quoted in a mail.
var quoted = lazyregexp.New(`(?m)"[^"\n]{2,400}"|“[^”\n]{2,400}”|„[^“”\n]{2,400}[“”]|«[^»\n]{2,400}»|^\s*>.*$|(?:^|[\s(])'[^'\n]{12,400}'`)

var abbreviation = lazyregexp.New(`(?i)\b(mr|mrs|ms|dr|st|vs|etc|e\.g|i\.e|prof|approx|no)\.$`)

// quotes are the possible beginnings of a match of quoted. Searching for them is cheaper than
// matching, and most texts have none.
var quotes = []string{`"`, "“", "„", "«", ">", " '", "\n'", "\t'", "('"}

var straight = strings.NewReplacer("’", "'", "‘", "'", "`", "'")

// sentences splits a text into sentences.
func sentences(body string) (out []sentence) {
	body = straight.Replace(withoutAttachments(body))
	if strings.HasPrefix(body, "'") || slices.ContainsFunc(quotes, func(q string) bool { return strings.Contains(body, q) }) {
		body = quoted().ReplaceAllString(body, " … ")
	}
	start := 0
	flush := func(end int) {
		if s := strings.Join(strings.Fields(body[start:end]), " "); s != "" && s != "…" {
			out = append(out, sentence{text: s, question: strings.HasSuffix(s, "?")})
		}
		start = end
	}
	for i := 0; i < len(body); i++ {
		switch c := body[i]; c {
		case '\n':
			flush(i + 1)
		case '.', '!', '?':
			for i+1 < len(body) && strings.IndexByte(".!?)", body[i+1]) >= 0 {
				i++
			}
			if i+1 == len(body) || body[i+1] == ' ' || body[i+1] == '\n' {
				if c != '.' || !abbreviation().MatchString(body[start:i+1]) {
					flush(i + 1)
				}
			}
		}
	}
	flush(len(body))
	return out
}

// negation matches a negation among the words before a cue, which invalidates the cue.
var negation = lazyregexp.New(`(?i)\b(not|no|never|none|nobody|without|hardly|barely|n't|don't|doesn't|didn't|won't|wouldn't|can't|cannot|couldn't|isn't|aren't|wasn't|weren't|haven't|hasn't|hadn't|kein\w*|nicht|nie)\b[^,;.]{0,24}$`)

// cued reports whether a sentence contains a cue that is not negated.
func cued(cue *regexp.Regexp, s string) bool {
	for _, at := range cue.FindAllStringIndex(s, -1) {
		if !negation().MatchString(s[:at[0]]) {
			return true
		}
	}
	return false
}
