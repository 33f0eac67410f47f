package search

import (
	"context"
	"math"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/identity"
	"helix/backend/storage"
)

// shown holds the fields of a hit that are read from the database.
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

// present reads the texts of the chosen items and builds the hits. It skips items that were deleted
// after the ranking.
func (x *Index) present(ctx context.Context, q *query, selected []chosen) (kept []chosen, hits []Hit, err error) {
	hits = []Hit{}
	texts, err := x.texts(ctx, selected)
	if err != nil {
		return nil, nil, err
	}
	for _, c := range selected {
		if t := texts[c.row.id]; t != nil {
			kept, hits = append(kept, c), append(hits, hitOf(q, &c, t))
		}
	}
	return kept, hits, nil
}

// texts reads the database fields of items, by id.
func (x *Index) texts(ctx context.Context, of []chosen) (map[uuid.UUID]*shown, error) {
	into := map[uuid.UUID]*shown{}
	if len(of) == 0 {
		return into, nil
	}
	return into, x.db.Read(ctx, func(tx *storage.Tx) error {
		for number := range kinds {
			if err := x.textsOfKind(tx, uint8(number), of, into, identity.UserID(ctx)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (x *Index) textsOfKind(tx *storage.Tx, number uint8, of []chosen, into map[uuid.UUID]*shown, user uuid.UUID) error {
	args := []any{user}
	for _, c := range of {
		if c.row.kind == number {
			args = append(args, c.row.id)
		}
	}
	if len(args) == 1 {
		return nil
	}
	k := kinds[number]
	return tx.Select(k.texts+Marks(len(args)-1)+")", args...).Each(func(row storage.Row) error {
		t := &shown{}
		var content []byte
		err := row.Scan(&t.id, &content, &t.title, &t.sourceRef, &t.turnID, &t.tier, &t.start, &t.end)
		if err != nil {
			return err
		}
		if t.text, err = x.o.Unseal(k.table, "content", t.id, content); err != nil {
			return err
		}
		if k.name == KindMemory {
			t.title = TitleOf([]byte(t.title))
		}
		into[t.id] = t
		return nil
	})
}

// hitOf builds the hit of one chosen item.
func hitOf(q *query, p *chosen, t *shown) Hit {
	row := &p.row
	h := Hit{
		ID: row.id, Kind: nameAt(kindNames, row.kind), Title: t.title, Score: rounded(p.score), Type: nameAt(Types, row.typ), Layer: int(row.layer),
		Tags: p.tags, Source: nameAt(Sources, row.source), SourceRef: t.sourceRef, Speaker: p.speaker, CreatedAt: time.UnixMicro(row.created).UTC(),
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
	h.Snippet = excerpt(t.text, passageOf(t.text, ws, q.stems, snippetBytes))
	h.Highlights = highlights(h.Snippet, q.stems)
	h.Evidence = []Evidence{evidenceOf(p, t, passageOf(t.text, ws, q.stems, quoteBytes))}
	if q.explain {
		h.Parts = explained(&p.candidate)
	}
	return h
}

// evidenceOf returns the part of the item that is quoted.
func evidenceOf(p *chosen, t *shown, at passage) Evidence {
	e := Evidence{Kind: nameAt(kindNames, p.row.kind), ID: p.row.id, TurnID: t.turnID}
	quote := t.text[at.start:at.end]
	e.Quote = strings.TrimSpace(quote)
	if p.row.family == nil {
		start := UTF16Len(t.text[:at.start])
		end := start + UTF16Len(quote)
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

// explained returns the components of a score.
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

// rounded rounds to six decimals, below which there is only floating-point noise.
func rounded(x float64) float64 { return math.Round(x*1e6) / 1e6 }
