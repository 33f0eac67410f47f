package memory

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"helix/backend/fault"
	"helix/backend/storage"
	"helix/backend/vector"
)

const (
	compareRows  = 4096 // items whose tags are compared at a time
	followRows   = 512  // items whose vectors are read at a time
	reopenAfter  = 10 * time.Second
	retiredClose = 30 * time.Second
	restAfter    = 10 * time.Minute // idle time after which query caches are freed, as with the encoder's weights
)

// openIndexes opens the indexes of the plan, compares them with the database, repairs the
// differences and makes the active one serve queries.
func (s *Service) openIndexes(ctx context.Context) (err error) {
	e := &s.embedding
	e.opening.Lock()
	defer e.opening.Unlock()
	if e.serving.Load() == nil && !e.failedAt.IsZero() && time.Since(e.failedAt) < reopenAfter {
		return nil // already reported
	}
	defer func() {
		e.failedAt = time.Time{}
		if err != nil {
			e.failedAt = time.Now()
		}
	}()
	p, err := s.ensurePlan(ctx)
	if err != nil {
		return err
	}
	for _, id := range p.models() {
		g, err := s.openGeneration(id)
		if err != nil {
			return err
		}
		if !g.ready.Load() {
			if err := s.compare(ctx, g); err != nil {
				return err
			}
		}
		if id == p.active {
			e.mu.Lock()
			if g.ready.Load() && !e.closed && e.plan.Load() == p {
				e.serving.Store(g)
			}
			e.mu.Unlock()
		}
	}
	return nil
}

// openGeneration opens the index of a model. It starts with an empty index if the file is unusable.
func (s *Service) openGeneration(id string) (*generation, error) {
	e := &s.embedding
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, fault.Unavailablef("Helix is stopping.")
	}
	if g := e.gens[id]; g != nil {
		return g, nil
	}
	if e.dir == "" {
		e.dir = s.o.VectorDir
		if e.dir == "" {
			dir, err := os.MkdirTemp(s.o.TempDir, "helix-vectors-")
			if err != nil {
				return nil, fault.Internalf(err, "Not enough space for the vector index.")
			}
			e.dir = dir
		}
	}
	e.retired = slices.DeleteFunc(e.retired, func(g *generation) bool {
		if g.id == id { // chosen again immediately
			s.closeGeneration(g)
		}
		return g.id == id
	})
	model := e.models[id]
	g := &generation{id: id, model: model, dims: model.Dims(), dir: filepath.Join(e.dir, modelDir(id))}
	var err error
	if g.index, err = vector.Open(g.dir, g.dims, id); err != nil {
		return nil, err
	}
	if why := g.index.Stats().Rebuilt; why != "" {
		s.log.Warn("the vector index is made again", "model", id, "reason", why)
	}
	e.gens[id] = g
	return g, nil
}

// modelDir returns the directory name of a model.
func modelDir(id string) string {
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.' {
			return r
		}
		return '-'
	}, strings.ToLower(id))
	sum := sha256.Sum256([]byte(id))
	return strings.Trim(clean[:min(len(clean), 48)], ".") + "-" + hex.EncodeToString(sum[:4])
}

// compare brings an index to the state of the database by comparing the tags of all items, and
// queues the items without a vector. Concurrent commits are followed as usual.
func (s *Service) compare(ctx context.Context, g *generation) error {
	e := &s.embedding
	epoch := e.epoch.Load()
	seen := vector.NewBitmap(0)
	for from, more := int64(0), true; more; {
		var differ, missing []int64
		rows := 0
		err := s.db.Read(ctx, func(tx *storage.Tx) error {
			list, err := tx.Query(`SELECT item, text_hash FROM search_items WHERE item > ? ORDER BY item LIMIT ?`, from, compareRows)
			if err != nil {
				return err
			}
			defer list.Close()
			for list.Next() {
				var hash []byte
				if err := list.Scan(&from, &hash); err != nil {
					return err
				}
				rows++
				seen.Set(uint32(from))
				if tag, ok := g.index.Tag(uint32(from)); !ok || tag != textTag(hash) {
					differ = append(differ, from)
				}
			}
			return list.Err()
		})
		if err != nil {
			return err
		}
		more = rows == compareRows
		// Only the differences are read again under the lock, in small batches, because
		// commits wait for it.
		for part := range slices.Chunk(differ, followRows) {
			e.mu.Lock()
			none, err := s.apply(ctx, g, part)
			e.mu.Unlock()
			if err != nil {
				return err
			}
			missing = append(missing, none...)
		}
		if err := s.queueMissing(ctx, g.id, missing); err != nil {
			return err
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	// Entries of the index without an item. An item that was added meanwhile is read again.
	held := g.index.IDs()
	held.AndNot(seen)
	var odd []int64
	for id := range held.All() {
		odd = append(odd, int64(id))
	}
	if _, err := s.apply(ctx, g, odd); err != nil {
		return err
	}
	if e.epoch.Load() == epoch && e.gens[g.id] == g {
		g.ready.Store(true)
	}
	return nil
}

// queueMissing queues items that have neither a vector nor a job.
func (s *Service) queueMissing(ctx context.Context, model string, items []int64) error {
	for part := range slices.Chunk(items, followRows) {
		list, _ := json.Marshal(part) // numbers only
		lacking := false
		const jobless = `FROM json_each(?2) n JOIN search_items i ON i.item = n.value
			WHERE NOT EXISTS (SELECT 1 FROM embedding_jobs j WHERE j.item = i.item AND j.model_id = ?1)`
		err := s.db.Read(ctx, func(tx *storage.Tx) error {
			return tx.QueryRow(`SELECT EXISTS (SELECT 1 `+jobless+`)`, model, string(list)).Scan(&lacking)
		})
		if err == nil && lacking {
			err = s.db.Write(ctx, func(tx *storage.Tx) error {
				// A vector may have been stored since; a superfluous job costs a few milliseconds.
				// Newer items, which have higher numbers, come first.
				_, err := tx.Exec(`INSERT OR IGNORE INTO embedding_jobs (item, model_id, user_id, queued_at)
					SELECT i.item, ?1, i.user_id, ?3 + i.item - (SELECT max(item) FROM search_items) `+jobless, model, string(list), tx.Now)
				return err
			})
			s.embedding.kick()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// following collects the items to update in the indexes when their transaction commits.
type following struct {
	mu    sync.Mutex
	tx    *storage.Tx // there is only one write transaction at a time
	items map[int64]bool
}

// follow updates the indexes for items once tx has committed. added means that there may be vectors
// that no index has yet.
func (s *Service) follow(tx *storage.Tx, added bool, items ...int64) {
	f := &s.embedding.following
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.tx != tx {
		f.tx, f.items = tx, map[int64]bool{}
		mine := f.items
		tx.AfterCommit(func() { s.committed(mine) })
	}
	for _, item := range items {
		f.items[item] = f.items[item] || added
	}
}

// committed brings the indexes up to date after a commit. An index that cannot be updated is not
// used until it has been compared again.
func (s *Service) committed(items map[int64]bool) {
	e := &s.embedding
	defer e.kick()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, g := range e.gens {
		var look []int64
		for item, added := range items {
			if !added {
				if _, ok := g.index.Tag(uint32(item)); !ok {
					continue
				}
			}
			look = append(look, item)
		}
		if len(look) == 0 {
			continue
		}
		if _, err := s.apply(s.life, g, look); err != nil && s.life.Err() == nil {
			s.log.Warn("the vector index is compared again", "model", g.id, "err", err)
			g.ready.Store(false)
			e.serving.CompareAndSwap(g, nil)
		}
	}
}

// apply reads items and updates the index for each: it sets the vector of the present text, or
// removes the item. It returns the items without a vector. The caller holds mu, so that updates are
// applied in the order in which they are read.
func (s *Service) apply(ctx context.Context, g *generation, items []int64) (missing []int64, err error) {
	slices.Sort(items)
	for part := range slices.Chunk(items, followRows) {
		list, _ := json.Marshal(part) // numbers only
		var add []vector.Vector
		var out []uint32
		err := s.db.Read(ctx, func(tx *storage.Tx) error {
			return tx.Select(`SELECT n.value, i.text_hash, v.vector FROM json_each(?) n LEFT JOIN search_items i ON i.item = n.value
				LEFT JOIN item_vectors v ON v.item_kind = i.kind AND v.item_id = i.item_id AND v.model_id = ? AND v.text_hash = i.text_hash`, string(list), g.id).Each(func(row storage.Row) error {
				var item int64
				var hash, stored []byte
				if err := row.Scan(&item, &hash, &stored); err != nil {
					return err
				}
				if hash != nil && stored != nil {
					vec, err := decodeVector(stored, g.dims)
					if err == nil {
						add = append(add, vector.Vector{ID: uint32(item), Tag: textTag(hash), Values: vec})
						return nil
					}
					s.log.Warn("a stored vector is left out", "model", g.id, "item", item, "err", err)
				}
				if hash != nil {
					missing = append(missing, item)
				}
				out = append(out, uint32(item))
				return nil
			})
		})
		if err != nil {
			return nil, err
		}
		for _, id := range out {
			if err := g.index.Remove(id); err != nil {
				return nil, err
			}
		}
		if err := g.index.AddBatch(add); err != nil {
			return nil, err
		}
		g.dirty.Store(true)
	}
	return missing, nil
}

// databaseReplaced discards all state that was read from the previous database.
func (s *Service) databaseReplaced() {
	e := &s.embedding
	e.mu.Lock()
	e.epoch.Add(1)
	e.plan.Store(nil)
	e.serving.Store(nil)
	for _, g := range e.gens {
		g.ready.Store(false)
	}
	e.mu.Unlock()
	e.progress.forget()
	e.kick()
}

// flushIndexes makes the indexes durable, frees caches that no query has used lately, and closes
// indexes that are out of use.
func (s *Service) flushIndexes() {
	e := &s.embedding
	e.mu.Lock()
	gens := make([]*generation, 0, len(e.gens))
	for _, g := range e.gens {
		gens = append(gens, g)
	}
	e.retired = slices.DeleteFunc(e.retired, func(g *generation) bool {
		if time.Since(g.retired) < retiredClose {
			return false
		}
		s.closeGeneration(g)
		if err := os.RemoveAll(g.dir); err != nil {
			s.log.Warn("the index of a former model stays", "model", g.id, "err", err)
		}
		return true
	})
	e.mu.Unlock()
	for _, g := range gens {
		g.index.Rest(restAfter)
		if g.dirty.Swap(false) {
			if err := g.index.Flush(); err != nil {
				g.dirty.Store(true)
				s.log.Warn("the vector index is not on disk yet", "model", g.id, "err", err)
			}
		}
	}
}

func (s *Service) closeGeneration(g *generation) {
	if err := g.index.Close(); err != nil {
		s.log.Warn("close a vector index", "model", g.id, "err", err)
	}
}

// closeIndexes flushes and closes all indexes. Later commits do not update them.
func (s *Service) closeIndexes() error {
	e := &s.embedding
	e.opening.Lock()
	defer e.opening.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	e.serving.Store(nil)
	var err error
	for _, g := range e.gens {
		err = errors.Join(err, g.index.Close())
	}
	for _, g := range e.retired {
		err = errors.Join(err, g.index.Close(), os.RemoveAll(g.dir))
	}
	clear(e.gens)
	e.retired = nil
	if s.o.VectorDir == "" && e.dir != "" {
		err = errors.Join(err, os.RemoveAll(e.dir))
	}
	return err
}

// lag caches for a moment whether a generation is behind.
type lag struct {
	mu     sync.Mutex
	at     time.Time
	behind bool
}

// behind reports whether more than 1 % of the items lack a vector. The answer may be half a second old.
func (g *generation) behind(s *Service) bool {
	g.lag.mu.Lock()
	defer g.lag.mu.Unlock()
	if time.Since(g.lag.at) < 500*time.Millisecond {
		return g.lag.behind
	}
	err := s.db.Read(s.life, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT count(*) > (SELECT count(*) FROM search_items) / 100 FROM
			(SELECT 1 FROM embedding_jobs WHERE model_id = ? AND error IS NULL LIMIT (SELECT 1 + count(*) / 100 FROM search_items))`, g.id).Scan(&g.lag.behind)
	})
	if err == nil {
		g.lag.at = time.Now()
	}
	return g.lag.behind
}
