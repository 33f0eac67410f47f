package memory

import (
	"context"
	"database/sql"
	"slices"
	"strings"

	"github.com/google/uuid"

	"helix/backend/storage"
)

// catalogLoaded loads the catalog when nobody has, and waits for the load that runs.
func (s *Service) catalogLoaded(ctx context.Context) error {
	c := &s.search.catalog
	for {
		c.mu.Lock()
		switch c.state {
		case catalogReady:
			c.mu.Unlock()
			return nil
		case catalogLoading:
			ready := c.ready
			c.mu.Unlock()
			select {
			case <-ready:
				continue
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		c.state, c.ready, c.pending = catalogLoading, make(chan struct{}), nil
		c.mu.Unlock()
		fresh, err := s.loadCatalog(ctx)
		c.mu.Lock()
		c.state = catalogEmpty
		if err == nil {
			c.state, c.catalogRows = catalogReady, fresh.catalogRows
			for i := range c.pending {
				c.applyLocked(&c.pending[i])
			}
		}
		c.pending = nil
		close(c.ready)
		c.mu.Unlock()
		return err
	}
}

// loadCatalog reads all items into another catalog: queries may still use the one there is.
func (s *Service) loadCatalog(ctx context.Context) (*catalog, error) {
	c := &catalog{catalogRows: catalogRows{people: map[uuid.UUID]*owner{}, families: map[uuid.UUID]*family{}, numbers: map[itemKey]uint32{}}}
	c.tagSets.id("")
	c.speakerID("")
	if err := s.checkItems(ctx); err != nil {
		return nil, err
	}
	if err := s.checkWords(ctx); err != nil {
		return nil, err
	}
	return c, s.db.Read(ctx, func(tx *storage.Tx) error {
		if s.o.Private {
			if err := s.loadWords(tx); err != nil {
				return err
			}
		}
		for _, part := range catalogQueries {
			if err := c.load(tx, part); err != nil {
				return err
			}
		}
		return nil
	})
}

// catalogQueries read the attributes of each kind of item; a turn has those of its
// conversation and a chunk those of its document.
var catalogQueries = []struct{ kind, query string }{
	{KindMemory, `SELECT s.item, s.tokens, s.user_id, m.id, NULL, 0, m.type, m.layer, m.source, '', m.untrusted, m.pinned, m.salience, m.retention,
		m.occurred_at, m.created_at, (SELECT json_group_array(t.tag) FROM memory_tags t WHERE t.memory_id = m.id)
		FROM search_items s JOIN memories m ON m.id = s.item_id WHERE s.kind = 'memory'`},
	{KindTurn, `SELECT s.item, s.tokens, s.user_id, t.id, s.parent_id, s.seq, c.type, c.layer, c.source, t.speaker, c.untrusted, 0, 50, NULL,
		t.occurred_at, t.created_at, c.tags
		FROM search_items s JOIN conversation_turns t ON t.id = s.item_id JOIN conversations c ON c.id = t.conversation_id WHERE s.kind = 'turn' ORDER BY s.parent_id, s.seq`},
	{KindChunk, `SELECT s.item, s.tokens, s.user_id, k.id, s.parent_id, s.seq, d.type, d.layer, d.source, '', d.untrusted, 0, 50, NULL,
		d.occurred_at, k.created_at, d.tags
		FROM search_items s JOIN chunks k ON k.id = s.item_id JOIN documents d ON d.id = k.document_id WHERE s.kind = 'chunk' ORDER BY s.parent_id, s.seq`},
}

func (c *catalog) load(tx *storage.Tx, part struct{ kind, query string }) error {
	kind := nameIndex(kindNames, part.kind)
	var typ, source, speaker, tags, lastTags string
	var set uint32
	return tx.Select(part.query).Each(func(from storage.Row) error {
		r := row{kind: kind}
		var item uint32
		var user, parent uuid.UUID
		var layer, occurred sql.NullInt64
		var retention sql.NullFloat64
		if err := from.Scan(&item, &r.tokens, &user, &r.id, &parent, &r.seq, &typ, &layer, &source, &speaker, &r.untrusted, &r.pinned, &r.salience,
			&retention, &occurred, &r.created, &tags); err != nil {
			return err
		}
		r.typ, r.source, r.layer, r.speaker = nameIndex(typeNames, typ), nameIndex(sourceNames, source), uint8(layer.Int64), c.speakerID(speaker)
		if r.occurred = noTime; occurred.Valid {
			r.occurred = occurred.Int64
		}
		if r.retention = -1; retention.Valid {
			r.retention = float32(retention.Float64)
		}
		if tags != lastTags {
			lastTags = strings.Clone(tags)
			var list []string
			if err := storage.JSON(&list).Scan(tags); err != nil {
				return err
			}
			slices.Sort(list)
			set = c.tagSets.id(strings.Join(list, tagSeparator))
		}
		if r.tags = set; tags == "[]" || tags == "" {
			r.tags = 0
		}
		c.insert(item, r, user, parent)
		return nil
	})
}
