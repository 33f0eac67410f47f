package voice

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"unicode"

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
)

// tokens splits a text as the index does: into runs of letters and digits, in lower case and
// without diacritics.
func tokens(text string) []string {
	folded := strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Mn, r) {
			return -1
		}
		return unicode.ToLower(r)
	}, norm.NFD.String(text))
	return strings.FieldsFunc(folded, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
}

// matchQuery converts a text to an FTS5 query. Every word is quoted, so that it cannot act as an
// operator, and the last one may be a prefix.
func matchQuery(text string) string {
	words := tokens(text)
	if len(words) == 0 {
		return `""`
	}
	return `"` + strings.Join(words, `" "`) + `"*`
}

// contains reports whether a text contains all words of a query.
func contains(text, query string) bool {
	have := tokens(text)
	want := tokens(query)
	for i, w := range want {
		if !slices.ContainsFunc(have, func(h string) bool { return matches(h, w, i == len(want)-1) }) {
			return false
		}
	}
	return len(want) > 0
}

func matches(have, want string, beginning bool) bool {
	return have == want || beginning && strings.HasPrefix(have, want)
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
			return s.searchSealed(tx, p, from, where, args, &out)
		}
		const index = from + ` JOIN voice_transcript_items i ON i.transcript_id = t.id JOIN voice_transcripts_fts f ON f.rowid = i.item`
		where = ` WHERE voice_transcripts_fts MATCH ? AND t.id = (` + currentOf + `) AND ` + where
		args = append([]any{matchQuery(p.Query)}, args...)
		if err := tx.QueryRow(`SELECT count(*)`+index+where, args...).Scan(&out.Total); err != nil {
			return err
		}
		return tx.Select(`SELECT t.id, r.id, m.id, m.title, t.text, t.words, m.recorded_at, -bm25(voice_transcripts_fts, 1, 2, 2)`+index+where+` ORDER BY bm25(voice_transcripts_fts, 1, 2, 2), t.id DESC LIMIT ? OFFSET ?`,
			append(args, p.Limit, p.Offset)...).Each(func(row storage.Row) error {
			h, _, err := s.hit(row, p.Query)
			out.Results = append(out.Results, h)
			return err
		})
	})
	return out, err
}

// searchSealed searches the texts themselves, newest first, because with private storage there is
// no index of their words.
func (s *Service) searchSealed(tx *storage.Tx, p SearchParams, from, where string, args []any, out *SearchResult) error {
	return tx.Select(`SELECT t.id, r.id, m.id, m.title, t.text, t.words, m.recorded_at, 0`+from+` WHERE t.id = (`+currentOf+`) AND `+where+` ORDER BY m.recorded_at DESC, t.id DESC`, args...).Each(func(row storage.Row) error {
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

// hit reads a row of a search. text is all text that was searched.
func (s *Service) hit(row storage.Row, query string) (h Hit, text string, err error) {
	var transcript, memo uuid.UUID
	var title, body, list []byte
	if err := row.Scan(&transcript, &h.RecordingID, &memo, &title, &body, &list, storage.Time(&h.RecordedAt), &h.Score); err != nil {
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
	for _, w := range words {
		for i, q := range want {
			if slices.ContainsFunc(tokens(w.Text), func(t string) bool { return matches(t, q, i == len(want)-1) }) {
				h.Matches = append(h.Matches, audio.Span{StartMs: w.StartMs, EndMs: w.EndMs})
				break
			}
		}
	}
	if len(h.Matches) > 0 {
		h.StartMs, h.EndMs = h.Matches[0].StartMs, h.Matches[0].EndMs
	}
	h.Snippet = snippet(said, want)
	return h, h.Title + "\n" + said, nil
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
