package memory

import (
	"context"
	"database/sql"
	"math"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/identity"
	"helix/backend/storage"
)

// shown is what the database adds to a hit.
type shown struct {
	id        uuid.UUID
	text      string
	title     string
	sourceRef string
	turnID    string
	tier      string // of salience
	start     *int64
	end       *int64
}

// show reads the texts of what was picked and makes hits of it. What was deleted between the
// ranking and the reading is left out.
func (s *Service) show(ctx context.Context, r *request, f *found) error {
	if len(f.picked) == 0 {
		return nil
	}
	texts := map[uuid.UUID]*shown{}
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		for kind := range showQueries {
			if err := s.showKind(tx, uint8(kind), f.picked, texts, identity.UserID(ctx)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	kept := f.picked[:0]
	for _, p := range f.picked {
		if t := texts[p.row.id]; t != nil {
			kept = append(kept, p)
			f.Results = append(f.Results, hitOf(r, &p, t))
		}
	}
	f.picked = kept
	return nil
}

// showQueries read texts by kind; the + keeps SQLite from walking through all of a user's rows.
var showQueries = []struct{ table, query string }{
	{"memories", `SELECT id, content, metadata, coalesce(source_ref, ''), '', salience_tier, NULL, NULL FROM memories WHERE deleted_at IS NULL AND +user_id = ? AND id IN (`},
	{"conversation_turns", `SELECT t.id, t.content, c.title, c.external_id, coalesce(t.external_id, ''), '', NULL, NULL FROM conversation_turns t
		JOIN conversations c ON c.id = t.conversation_id WHERE t.deleted_at IS NULL AND +t.user_id = ? AND t.id IN (`},
	{"chunks", `SELECT k.id, k.content, CASE WHEN k.heading = '' THEN d.title ELSE d.title || ' › ' || k.heading END, d.source_uri, '', '', k.start_offset, k.end_offset FROM chunks k
		JOIN documents d ON d.id = k.document_id WHERE k.deleted_at IS NULL AND +k.user_id = ? AND k.id IN (`},
}

func (s *Service) showKind(tx *storage.Tx, kind uint8, of []picked, into map[uuid.UUID]*shown, user uuid.UUID) error {
	args := []any{user}
	for _, p := range of {
		if p.row.kind == kind {
			args = append(args, p.row.id)
		}
	}
	if len(args) == 1 {
		return nil
	}
	q := showQueries[kind]
	return tx.Select(q.query+marks(len(args)-1)+")", args...).Each(func(row storage.Row) error {
		t := &shown{}
		var content []byte
		var start, end sql.NullInt64
		err := row.Scan(&t.id, &content, &t.title, &t.sourceRef, &t.turnID, &t.tier, &start, &end)
		if err != nil {
			return err
		}
		if t.text, err = s.open(q.table, "content", t.id, content); err != nil {
			return err
		}
		if kind == nameIndex(kindNames, KindMemory) {
			t.title = titleOf([]byte(t.title))
		}
		if start.Valid && end.Valid {
			t.start, t.end = &start.Int64, &end.Int64
		}
		into[t.id] = t
		return nil
	})
}

// hitOf describes one item that was picked.
func hitOf(r *request, p *picked, t *shown) Hit {
	row := &p.row
	h := Hit{
		ID: row.id, Kind: nameAt(kindNames, row.kind), Title: t.title, Score: rounded(p.score), Type: nameAt(typeNames, row.typ), Layer: int(row.layer),
		Tags: p.tags, Source: nameAt(sourceNames, row.source), SourceRef: t.sourceRef, Speaker: p.speaker, CreatedAt: time.UnixMicro(row.created).UTC(),
		Untrusted: row.untrusted, Pinned: row.pinned, SalienceTier: t.tier,
	}
	if h.Tags == nil {
		h.Tags = []string{}
	}
	if row.occurred != noTime {
		at := time.UnixMicro(row.occurred).UTC()
		h.OccurredAt = &at
	}
	if row.retention >= 0 {
		v := rounded(float64(row.retention))
		h.Retention = &v
	}
	ws := tokenize(t.text)
	h.Snippet = excerpt(t.text, passageOf(t.text, ws, r.query.stems, snippetBytes))
	h.Highlights = highlights(h.Snippet, r.query.stems)
	h.Evidence = []Evidence{evidenceOf(p, t, passageOf(t.text, ws, r.query.stems, quoteBytes))}
	if r.explain {
		h.Parts = explained(&p.candidate)
	}
	return h
}

// evidenceOf names the part of the item that is quoted.
func evidenceOf(p *picked, t *shown, at passage) Evidence {
	e := Evidence{Kind: nameAt(kindNames, p.row.kind), ID: p.row.id, TurnID: t.turnID}
	quote := t.text[at.start:at.end]
	e.Quote = strings.TrimSpace(quote)
	if p.row.family == nil {
		start := unitsOf(t.text[:at.start])
		end := start + unitsOf(quote)
		e.StartOffset, e.EndOffset = &start, &end
		return e
	}
	seq, parent := p.row.seq, p.row.family.id
	e.Seq = &seq
	if e.Kind == KindTurn {
		e.ConversationID = &parent
		return e
	}
	e.DocumentID, e.StartOffset, e.EndOffset = &parent, t.start, t.end
	return e
}

// explained says what a score is made of.
func explained(c *candidate) *Parts {
	p := &Parts{RRF: rounded(c.fused), Cues: rounded(c.cue), Recency: rounded(c.prior.recency), Salience: rounded(c.prior.salience), Retention: rounded(c.prior.retention),
		Pinned: rounded(c.prior.pinned), Window: rounded(c.window.score)}
	if c.keyword.rank > 0 {
		rank, score := c.keyword.rank, rounded(c.keyword.score)
		p.BM25Rank, p.BM25 = &rank, &score
	}
	if c.vector.rank > 0 {
		rank, score := c.vector.rank, rounded(c.vector.score)
		p.VectorRank, p.Cosine = &rank, &score
	}
	return p
}

// rounded keeps six decimals: what is below is noise of the arithmetic.
func rounded(x float64) float64 { return math.Round(x*1e6) / 1e6 }
