package voice

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"golang.org/x/text/unicode/norm"

	"helix/backend/audio"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
	"helix/backend/transcribe"
)

const (
	maxQuery     = 1000
	snippetRunes = 160
	mostRanked   = 500 // matches; of more, only the latest are ranked
)

// tokens splits a text into words, in lower case and without diacritics. The vowel signs of Hindi or Thai
// are no diacritics.
func tokens(text string) []string {
	folded := strings.Map(func(r rune) rune {
		if r >= 0x300 && r <= 0x36F || r == 0x3099 || r == 0x309A {
			return -1
		}
		return unicode.ToLower(r)
	}, norm.NFD.String(text))
	return strings.FieldsFunc(folded, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.IsMark(r) })
}

// matchQuery converts a text to an FTS5 query. Every word is quoted, so that it cannot act as an
// operator, and the last one may be a prefix, see beginning. FTS5 itself splits and folds the words:
// it composes no letters, so that Korean syllables must not be decomposed as in tokens, and it splits
// Hindi words at their vowel signs.
func matchQuery(text string) string {
	text = strings.Map(func(r rune) rune {
		if r == '"' || unicode.IsControl(r) {
			return ' '
		}
		return r
	}, norm.NFC.String(text))
	query := ""
	for _, f := range strings.Fields(text) {
		if len(tokens(f)) > 0 {
			query += ` "` + f + `"`
		}
	}
	if query == "" {
		return `""`
	}
	if words := tokens(text); beginning(words, len(words)-1) {
		query += "*"
	}
	return query
}

// beginning reports whether a word of a query also finds longer words: the last one may be unfinished. So many
// words begin with one or two letters that this would find almost everything, slowly.
func beginning(words []string, i int) bool {
	return i == len(words)-1 && utf8.RuneCountInString(words[i]) >= 3
}

// contains reports whether a text contains all words of a query.
func contains(text, query string) bool {
	have := tokens(text)
	want := tokens(query)
	for i, w := range want {
		if !slices.ContainsFunc(have, func(h string) bool { return matches(h, w, beginning(want, i)) }) {
			return false
		}
	}
	return len(want) > 0
}

func matches(have, want string, beginning bool) bool {
	return have == want || beginning && strings.HasPrefix(have, want) || unspaced(want) && strings.Contains(have, want)
}

// unspaced reports whether a word belongs to a language that is written without spaces, in which it may
// be any part of a text.
func unspaced(word string) bool {
	return strings.ContainsFunc(word, func(r rune) bool {
		return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
	})
}

// partsAt returns when a word of such a language is said, which engines may divide in any way.
func partsAt(said []transcribe.Word, want string) (out []audio.Span) {
	text, ends := "", []int{}
	for _, w := range said {
		text += strings.Join(tokens(w.Text), "")
		ends = append(ends, len(text))
	}
	for at := 0; ; {
		i := strings.Index(text[at:], want)
		if i < 0 {
			return out
		}
		from, _ := slices.BinarySearch(ends, at+i+1)
		to, _ := slices.BinarySearch(ends, at+i+len(want))
		out = append(out, audio.Span{StartMs: said[from].StartMs, EndMs: said[to].EndMs})
		at += i + len(want)
	}
}

// SearchTranscripts finds recordings whose text, title or tags contain all words, and the times at
// which they are said.
func (s *Service) SearchTranscripts(ctx context.Context, p SearchParams) (out SearchResult, err error) {
	if err := storage.CheckPage(&p.Limit, &p.Offset, 20, 100); err != nil {
		return out, err
	}
	if p.Query = strings.TrimSpace(p.Query); p.Query == "" || len(p.Query) > maxQuery {
		return out, fault.InvalidField("query", fault.CodeRange, "query has 1 to %d bytes.", maxQuery)
	}
	out.Results = []Hit{}
	where, args := filter(identity.UserID(ctx), p.From, p.To, p.Tags)
	const from = ` FROM voice_transcripts t JOIN voice_recordings r ON r.id = t.recording_id JOIN voice_memos m ON m.recording_id = r.id`
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		if s.o.Private {
			return s.searchTexts(tx, p, from, where, args, &out)
		}
		if unspaced(p.Query) {
			for _, word := range strings.Fields(p.Query) {
				if unspaced(word) {
					where, args = where+` AND (t.text LIKE ? ESCAPE '\' OR m.title LIKE ? ESCAPE '\' OR m.tags LIKE ? ESCAPE '\')`, append(args, storage.Like(word), storage.Like(word), storage.Like(word))
				}
			}
			return s.searchTexts(tx, p, from, where, args, &out)
		}
		// CROSS JOIN keeps the order: the index must be asked once, not for each memo. It has current transcripts only,
		// but another device may have made a later one; all columns behind the text take long to reach.
		const index = ` FROM voice_transcripts_fts f CROSS JOIN voice_transcript_items i ON i.item = f.rowid CROSS JOIN voice_transcripts t ON t.id = i.transcript_id
			CROSS JOIN voice_memos m ON m.recording_id = t.recording_id`
		where = ` WHERE voice_transcripts_fts MATCH ? AND NOT EXISTS (SELECT 1 FROM voice_transcripts c WHERE c.recording_id = t.recording_id AND c.rowid <> t.rowid AND c.id > t.id AND c.is_current = 1 AND c.deleted_at IS NULL) AND ` + where
		args = append([]any{matchQuery(p.Query)}, args...)
		// The index returns the latest transcripts first, so that the query ends at the limit, and the texts are
		// read only of the page.
		hits := `(SELECT t.id AS hit, bm25(voice_transcripts_fts, 1, 2, 2) AS score` + index + where + ` ORDER BY f.rowid DESC LIMIT ` + strconv.Itoa(mostRanked) + `)`
		if p.Offset > 0 { // such a page may be empty
			if err := tx.QueryRow(`SELECT count(*) FROM `+hits, args...).Scan(&out.Total); err != nil {
				return err
			}
		}
		return tx.Select(`SELECT t.id, t.recording_id, m.id, m.title, m.tags, t.text, t.words, m.recorded_at, -score, total FROM (SELECT hit, score, count(*) OVER () AS total FROM `+hits+` ORDER BY score, hit DESC LIMIT ? OFFSET ?)
				JOIN voice_transcripts t ON t.id = hit JOIN voice_memos m ON m.recording_id = t.recording_id ORDER BY score, hit DESC`,
			append(args, p.Limit, p.Offset)...).Each(func(row storage.Row) error {
			h, _, err := s.hit(row, p.Query, &out.Total)
			out.Results = append(out.Results, h)
			return err
		})
	})
	return out, err
}

// searchTexts searches the texts themselves, newest first: with private storage there is no index of
// their words, and the index doesn't know the words of languages without spaces.
func (s *Service) searchTexts(tx *storage.Tx, p SearchParams, from, where string, args []any, out *SearchResult) error {
	return tx.Select(`SELECT t.id, r.id, m.id, m.title, m.tags, t.text, t.words, m.recorded_at, 0`+from+` WHERE t.id = (`+currentOf+`) AND `+where+` ORDER BY m.recorded_at DESC, t.id DESC`, args...).Each(func(row storage.Row) error {
		h, text, err := s.hit(row, p.Query)
		if err != nil || !contains(text, p.Query) {
			return err
		}
		if out.Total++; out.Total > p.Offset && len(out.Results) < p.Limit {
			out.Results = append(out.Results, h)
		}
		return nil
	})
}

// hit reads a row of a search, and further columns of it to more. text is all text that was searched.
func (s *Service) hit(row storage.Row, query string, more ...any) (h Hit, text string, err error) {
	var transcript, memo uuid.UUID
	var title, tags, body, list []byte
	if err := row.Scan(append([]any{&transcript, &h.RecordingID, &memo, &title, &tags, &body, &list, storage.Time(&h.RecordedAt), &h.Score}, more...)...); err != nil {
		return h, "", err
	}
	h.MemoID = &memo
	keys := s.db.Keys()
	if h.Title, err = keys.OpenText("voice_memos", "title", memo, title); err != nil {
		return h, "", err
	}
	said, err := keys.OpenText("voice_transcripts", "text", transcript, body)
	if err != nil {
		return h, "", err
	}
	plain, err := keys.OpenText("voice_transcripts", "words", transcript, list)
	if err != nil {
		return h, "", err
	}
	var words []transcribe.Word
	if err := json.Unmarshal([]byte(plain), &words); err != nil {
		return h, "", err
	}
	h.StartMs, h.EndMs, h.Matches = -1, -1, []audio.Span{}
	want := tokens(query)
	part := make([]bool, len(want)) // part[i]: word i may match inside longer words
	for i, q := range want {
		if part[i] = unspaced(q); part[i] {
			h.Matches = append(h.Matches, partsAt(words, q)...)
		}
	}
	for _, w := range words {
		for i, q := range want {
			if part[i] {
				continue
			}
			if slices.ContainsFunc(tokens(w.Text), func(t string) bool { return matches(t, q, beginning(want, i)) }) {
				h.Matches = append(h.Matches, audio.Span{StartMs: w.StartMs, EndMs: w.EndMs})
				break
			}
		}
	}
	slices.SortStableFunc(h.Matches, func(a, b audio.Span) int { return cmp.Compare(a.StartMs, b.StartMs) })
	if len(h.Matches) > 0 {
		h.StartMs, h.EndMs = h.Matches[0].StartMs, h.Matches[0].EndMs
	}
	h.Snippet = snippet(said, want)
	return h, h.Title + "\n" + said + "\n" + string(tags), nil
}

// snippet returns the part of a text around the first word of a query.
func snippet(text string, want []string) string {
	fields := strings.Fields(text)
	at := slices.IndexFunc(fields, func(f string) bool {
		return slices.ContainsFunc(tokens(f), func(t string) bool {
			return slices.ContainsFunc(want, func(q string) bool { return strings.HasPrefix(t, q) })
		})
	})
	from := max(0, at-10)
	out := strings.Join(fields[from:], " ")
	if from > 0 {
		out = "…" + out
	}
	if r := []rune(out); len(r) > snippetRunes {
		out = string(r[:snippetRunes-1]) + "…"
	}
	return out
}
