package memory

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/memory/search"
	"helix/backend/storage"
)

// change holds the fields that an edit sets, validated and normalized. Absent fields are left unchanged.
type change struct {
	content    *string
	typ        *string
	layer      *int
	tags       *[]string
	tier       *string
	salience   *float64
	occurredAt **time.Time
	metadata   json.RawMessage
	untrusted  *bool
	valence    **float64
}

func checkChange(ctx context.Context, p UpdateParams) (c change, err error) {
	if p.Content != nil {
		text, err := checkContent("content", *p.Content)
		if err != nil {
			return c, err
		}
		c.content = &text
	}
	if p.Type != nil {
		if err := checkType("type", *p.Type); err != nil {
			return c, err
		}
		c.typ = p.Type
	}
	if p.Layer != nil {
		if *p.Layer != 0 {
			if err := checkLayer("layer", *p.Layer); err != nil {
				return c, err
			}
		}
		c.layer = p.Layer
	}
	if p.Tags != nil {
		tags, err := checkTags("tags", *p.Tags)
		if err != nil {
			return c, err
		}
		c.tags = &tags
	}
	if p.SalienceTier != nil {
		value, err := checkTier(ctx, "salienceTier", *p.SalienceTier)
		if err != nil {
			return c, err
		}
		c.tier, c.salience = p.SalienceTier, &value
	}
	if p.OccurredAt != nil {
		var at *time.Time
		if err := json.Unmarshal(p.OccurredAt, &at); err != nil {
			return c, invalid("occurredAt", "occurredAt is not a time as in RFC 3339, such as 2026-05-08T13:56:00Z.")
		}
		if err := checkTime("occurredAt", at); err != nil {
			return c, err
		}
		at = micros(at)
		c.occurredAt = &at
	}
	if p.Metadata != nil {
		if c.metadata, err = checkMetadata("metadata", p.Metadata); err != nil {
			return c, err
		}
	}
	if p.EmotionalValence != nil {
		var v *float64
		if err := json.Unmarshal(p.EmotionalValence, &v); err != nil {
			return c, invalid("emotionalValence", "emotionalValence must be between -1 and 1.")
		}
		if v != nil {
			if err := checkValence("emotionalValence", *v); err != nil {
				return c, err
			}
		}
		c.valence = &v
	}
	c.untrusted = p.Untrusted
	return c, nil
}

// Update changes a memory unless it has been edited since the given version. In that case the error
// is a Conflict whose details contain the current memory, and nothing changes. The previous state
// is kept; see History.
func (s *Service) Update(ctx context.Context, p UpdateParams) (UpdateResult, error) {
	id, err := parseID("id", p.ID)
	if err != nil {
		return UpdateResult{}, err
	}
	if p.Version < 1 {
		return UpdateResult{}, invalid("version", "Give the version of the memory that you edited.")
	}
	c, err := checkChange(ctx, p)
	if err != nil {
		return UpdateResult{}, err
	}
	var out UpdateResult
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		m, err := s.memory(tx, identity.UserID(ctx), id)
		if err != nil {
			return err
		}
		stale, err := edited(tx, m, p.Version)
		if err != nil {
			return err
		}
		if stale {
			return errStale(m)
		}
		if c.untrusted != nil && m.Untrusted && !*c.untrusted && !mayTrust(ctx) {
			return errTrust()
		}
		before := m.state()
		if err := s.changeTx(tx, m, c, origin(ctx)); err != nil {
			return err
		}
		if after := m.state(); m.Version != before.Version {
			if out.UndoToken, err = tx.KeepUndo(m.user, undoUpdate, updateUndo{ID: m.ID, Before: before, After: after}); err != nil {
				return err
			}
			changed(tx, m.user, "update", m.ID)
		}
		out.Item = m.Item
		return nil
	})
	return out, err
}

// edited reports whether m was edited after version. Reinforcements increment the version too, but
// do not conflict with an edit of an older version.
func edited(tx *storage.Tx, m *memoryRow, version int64) (bool, error) {
	if version >= m.Version {
		return version > m.Version, nil
	}
	var yes bool
	err := tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM memory_revisions WHERE memory_id = ? AND version >= ?)`, m.ID, version).Scan(&yes)
	return yes, err
}

func errStale(m *memoryRow) error {
	return fault.Conflictf("This memory has changed since you opened it. Nothing was overwritten. Compare your text with the current one.").WithDetails(m.Item)
}

// changeTx makes an edit: it keeps the previous state as a revision, writes the row and its tags,
// and updates search. m is then the edited memory. An edit that changes nothing writes nothing and
// does not increment the version.
func (s *Service) changeTx(tx *storage.Tx, m *memoryRow, c change, origin string) error {
	next := *m
	set, args := []string{}, []any{}
	field := func(sql string, v any) { set, args = append(set, sql+" = ?"), append(args, v) }
	words := false
	if c.content != nil && *c.content != m.Content {
		content, err := s.seal("memories", "content", m.ID, *c.content)
		if err != nil {
			return err
		}
		next.Content, next.hash, words = *c.content, textHash(*c.content), true
		field("content", content)
		field("content_hash", next.hash[:])
	}
	if c.typ != nil && *c.typ != m.Type {
		next.Type = *c.typ
		field("type", next.Type)
	}
	if c.layer != nil && *c.layer != m.Layer {
		next.Layer = *c.layer
		field("layer", nullInt(next.Layer))
	}
	if c.tier != nil && (*c.tier != m.SalienceTier || *c.salience != m.Salience) {
		next.SalienceTier, next.Salience = *c.tier, *c.salience
		field("salience_tier", next.SalienceTier)
		field("salience", next.Salience)
	}
	if c.occurredAt != nil && !sameTime(*c.occurredAt, m.OccurredAt) {
		next.OccurredAt = *c.occurredAt
		field("occurred_at", next.OccurredAt)
	}
	if c.metadata != nil && string(c.metadata) != string(m.Metadata) {
		next.Metadata, next.Title = c.metadata, search.TitleOf(c.metadata)
		words = words || next.Title != m.Title
		field("metadata", c.metadata)
	}
	if c.untrusted != nil && *c.untrusted != m.Untrusted {
		next.Untrusted = *c.untrusted
		field("untrusted", next.Untrusted)
	}
	if c.valence != nil && !sameNumber(*c.valence, m.EmotionalValence) {
		next.EmotionalValence = *c.valence
		field("emotional_valence", next.EmotionalValence)
	}
	retag := c.tags != nil && !slices.Equal(*c.tags, m.Tags)
	if len(set) == 0 && !retag {
		return nil
	}
	if err := s.keepRevision(tx, m, origin); err != nil {
		return err
	}
	field("version", m.Version+1)
	field("updated_at", tx.Now)
	if _, err := tx.Exec(`UPDATE memories SET `+strings.Join(set, ", ")+` WHERE id = ?`, append(args, m.ID)...); err != nil {
		return err
	}
	next.Version, next.UpdatedAt = m.Version+1, tx.Now
	if retag {
		add, remove := difference(*c.tags, m.Tags), difference(m.Tags, *c.tags)
		if err := writeTags(tx, &next, add, remove); err != nil {
			return err
		}
		words = true
	}
	if origin == "person" || origin == "agent" {
		if err := strengthen(tx, &next, gainEdit); err != nil {
			return err
		}
	}
	if next.hash != m.hash && s.o.Embedder != nil {
		next.EmbeddingState = "queued"
	}
	*m = next
	if words {
		return s.search.Put(tx, m.entry())
	}
	return s.search.Put(tx, m.attributes())
}

// keepRevision stores the current state of a memory as a revision, before an edit.
func (s *Service) keepRevision(tx *storage.Tx, m *memoryRow, origin string) error {
	id := storage.NewID()
	content, err := s.seal("memory_revisions", "content", id, m.Content)
	if err != nil {
		return err
	}
	tags, err := json.Marshal(m.Tags)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(`INSERT INTO memory_revisions (id, user_id, memory_id, version, content, tags, edited_at, origin, created_at, updated_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, id, m.user, m.ID, m.Version, content, string(tags), tx.Now, origin, tx.Now, tx.Now); err != nil {
		return err
	}
	return trimRevisions(tx, m.ID)
}

// rowState holds the fields of a memory that an edit can change, except the text, which is in the
// revision itself.
type rowState struct {
	Version    int64           `json:"version"`
	Hash       []byte          `json:"hash"`
	Type       string          `json:"type"`
	Layer      int             `json:"layer"`
	Tags       []string        `json:"tags"`
	Tier       string          `json:"tier"`
	Salience   float64         `json:"salience"`
	OccurredAt *time.Time      `json:"occurredAt"`
	Metadata   json.RawMessage `json:"metadata"`
	Untrusted  bool            `json:"untrusted"`
	Valence    *float64        `json:"valence,omitempty"`
}

func (m *memoryRow) state() rowState {
	return rowState{
		Version: m.Version, Hash: slices.Clone(m.hash[:]), Type: m.Type, Layer: m.Layer, Tags: slices.Clone(m.Tags), Tier: m.SalienceTier, Salience: m.Salience,
		OccurredAt: m.OccurredAt, Metadata: m.Metadata, Untrusted: m.Untrusted, Valence: m.EmotionalValence,
	}
}

func sameTime(a, b *time.Time) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Equal(*b)
}

func sameNumber(a, b *float64) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// difference returns the elements of a that are not in b.
func difference(a, b []string) []string {
	var out []string
	for _, v := range a {
		if !slices.Contains(b, v) {
			out = append(out, v)
		}
	}
	return out
}

// updateUndo holds what is needed to undo an edit.
type updateUndo struct {
	ID     uuid.UUID `json:"id"`
	Before rowState  `json:"before"`
	After  rowState  `json:"after"`
}
