package search

import (
	"context"
	"database/sql"
	"slices"
	"strings"

	"github.com/google/uuid"

	"helix/backend/storage"
)

// Load loads the catalog if it is not loaded, or waits for the load in progress.
func (x *Index) Load(ctx context.Context) error {
	c := &x.catalog
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
		fresh, err := x.loadCatalog(ctx)
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

// loadCatalog reads all items into a new catalog. Queries may use the old one meanwhile.
func (x *Index) loadCatalog(ctx context.Context) (*catalog, error) {
	c := &catalog{catalogRows: catalogRows{people: map[uuid.UUID]*owner{}, families: map[uuid.UUID]*family{}, numbers: map[itemKey]uint32{}}}
	c.tagSets.id("")
	c.speakerID("")
	if err := x.checkItems(ctx); err != nil {
		return nil, err
	}
	if err := x.CheckWords(ctx); err != nil {
		return nil, err
	}
	return c, x.db.Read(ctx, func(tx *storage.Tx) error {
		if x.o.Private {
			if err := x.loadWords(tx); err != nil {
				return err
			}
		}
		for number := range kinds {
			if err := c.load(tx, uint8(number)); err != nil {
				return err
			}
		}
		return nil
	})
}

// load reads the items of one kind.
func (c *catalog) load(tx *storage.Tx, number uint8) error {
	var typ, source, speaker, tags, lastTags string
	var set uint32
	return tx.Select(kinds[number].attributes).Each(func(from storage.Row) error {
		r := row{kind: number}
		var item uint32
		var user, parent uuid.UUID
		var layer, occurred sql.NullInt64
		var retention sql.NullFloat64
		if err := from.Scan(&item, &r.tokens, &user, &r.id, &parent, &r.seq, &typ, &layer, &source, &speaker, &r.untrusted, &r.pinned, &r.salience,
			&retention, &occurred, &r.created, &tags); err != nil {
			return err
		}
		r.typ, r.source, r.layer, r.speaker = nameIndex(Types, typ), nameIndex(Sources, source), uint8(layer.Int64), c.speakerID(speaker)
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
