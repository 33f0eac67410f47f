package cloudsync

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/google/uuid"

	"helix/backend/storage"
)

// storm is what several replicas did, by the only rules that matter in the end.
type storm struct {
	r        *rand.Rand
	replicas []*device
	memories []uuid.UUID
	deleted  map[uuid.UUID]bool // documents that somebody deleted
	docs     []uuid.UUID
	count    map[uuid.UUID]int64           // what all have counted
	newest   map[uuid.UUID]int64           // largest last_accessed
	salience map[uuid.UUID]written         // the write with the latest stamp
	writers  map[uuid.UUID]map[int]bool    // who wrote content
	added    map[uuid.UUID]map[string]bool // tags that somebody added
	removed  map[uuid.UUID]map[string]bool // tags that somebody removed
}

type written struct {
	Stamp
	value float64
}

// step is one random act of one replica.
func (s *storm) step() {
	i := s.r.IntN(len(s.replicas))
	d := s.replicas[i]
	switch n := s.r.IntN(100); {
	case n < 8:
		_, _ = d.Coordinate(d.ctx, CoordinateParams{}) // what fails is tried again later
	case n < 9: // killed after it sent
		d.sendOnly()
		s.replicas[i] = d.reopened()
	case n < 10: // all is delivered once more
		d.exec(`UPDATE sync_cursor SET seq = 0`)
	case n < 11: // its clock jumps, within what the hub accepts
		d.exec(`UPDATE sync_local SET hlc_high = hlc_high + ?`, s.r.Int64N(10_000)<<16)
	case n < 17 || len(s.memories) == 0:
		id := d.remember("one two three\nfour five six\n")
		s.memories = append(s.memories, id)
		s.writers[id], s.added[id], s.removed[id] = map[int]bool{}, map[string]bool{}, map[string]bool{}
	case n < 20:
		id := uuid.UUID(storage.NewID())
		d.exec(`INSERT INTO documents (id, user_id, source_uri, content_hash, created_at, updated_at) VALUES (?, ?, ?, zeroblob(32), 1, 1)`, id, d.db.LocalUser().ID, id.String())
		d.exec(`INSERT INTO chunks (id, document_id, user_id, seq, content, content_hash, created_at, updated_at) VALUES (?, ?, ?, 0, 'part', zeroblob(32), 1, 1)`, storage.NewID(), id, d.db.LocalUser().ID)
		s.docs = append(s.docs, id)
	case n < 24 && len(s.docs) > 0:
		if id := s.docs[s.r.IntN(len(s.docs))]; s.has(d, "documents", id) {
			d.exec(`UPDATE documents SET deleted_at = ? WHERE id = ?`, s.r.IntN(1000)+1, id)
			s.deleted[id] = true
		}
	case n < 28:
		d.fill(1, s.r) // one row into each synced table
	default:
		if id := s.memories[s.r.IntN(len(s.memories))]; s.has(d, "memories", id) {
			s.edit(d, i, id, s.r.IntN(6))
		}
	}
}

func (s *storm) has(d *device, table string, id uuid.UUID) bool {
	return one[bool](d, `SELECT EXISTS (SELECT 1 FROM `+table+` WHERE id = ?)`, id)
}

// edit changes one memory and notes what that means for the end.
func (s *storm) edit(d *device, i int, id uuid.UUID, kind int) {
	tag := string(rune('a' + s.r.IntN(5)))
	switch kind {
	case 0:
		n := s.r.Int64N(5) - 1
		d.exec(`UPDATE memories SET access_count = access_count + ? WHERE id = ?`, n, id)
		s.count[id] += n
	case 1:
		at := s.r.Int64N(1 << 40)
		d.exec(`UPDATE memories SET last_accessed = max(coalesce(last_accessed, 0), ?) WHERE id = ?`, at, id)
		s.newest[id] = max(s.newest[id], at)
	case 2:
		value := float64(s.r.IntN(1000)) / 10
		if one[float64](d, `SELECT salience FROM memories WHERE id = ?`, id) == value {
			return
		}
		d.exec(`UPDATE memories SET salience = ? WHERE id = ?`, value, id)
		w := written{Stamp{HLC: one[int64](d, `SELECT max(hlc) FROM change_log WHERE row_id = ?`, id), Dot: newDot(one[int64](d, `SELECT site FROM sync_local`), 0)}, value}
		if w.after(s.salience[id].Stamp) {
			s.salience[id] = w
		}
	case 3:
		words := []string{"one", "two", "three", "four", "five", "six"}
		words[s.r.IntN(6)] = fmt.Sprintf("w%d", s.r.IntN(100))
		d.edit(id, fmt.Sprintf("%s %s %s\n%s %s %s\n", words[0], words[1], words[2], words[3], words[4], words[5]))
		s.writers[id][i] = true
	case 4:
		d.exec(`INSERT INTO memory_tags (memory_id, user_id, tag) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`, id, d.db.LocalUser().ID, tag)
		s.added[id][tag] = true
	case 5:
		if one[bool](d, `SELECT EXISTS (SELECT 1 FROM memory_tags WHERE memory_id = ? AND tag = ?)`, id, tag) {
			d.exec(`DELETE FROM memory_tags WHERE memory_id = ? AND tag = ?`, id, tag)
			s.removed[id][tag] = true
		}
	}
}

// check compares one replica with the model; the replicas are the same.
func (s *storm) check(t *testing.T) {
	t.Helper()
	d := s.replicas[0]
	for _, id := range s.memories {
		if n := one[int64](d, `SELECT access_count FROM memories WHERE id = ?`, id); n != s.count[id] {
			t.Errorf("memory %s counts %d, want %d", id, n, s.count[id])
		}
		if n := one[int64](d, `SELECT coalesce(last_accessed, 0) FROM memories WHERE id = ?`, id); n != s.newest[id] {
			t.Errorf("memory %s was last accessed at %d, want %d", id, n, s.newest[id])
		}
		if w, ok := s.salience[id]; ok {
			if got := one[float64](d, `SELECT salience FROM memories WHERE id = ?`, id); got != w.value {
				t.Errorf("memory %s has salience %v, want the last write %v", id, got, w.value)
			}
		}
		have := readSet(one[any](d, `SELECT json_group_array(tag) FROM memory_tags WHERE memory_id = ?`, id))
		for tag := range s.added[id] {
			if !s.removed[id][tag] && !slices.Contains(have, tag) {
				t.Errorf("memory %s lost tag %s, which nobody removed", id, tag)
			}
		}
		for _, tag := range have {
			if !s.added[id][tag] {
				t.Errorf("memory %s has tag %s, which nobody added", id, tag)
			}
		}
	}
	for _, id := range s.docs {
		if got := one[bool](d, `SELECT deleted_at IS NOT NULL FROM documents WHERE id = ?`, id); got != s.deleted[id] {
			t.Errorf("document %s: deleted %v, want %v", id, got, s.deleted[id])
		}
	}
	if err := d.db.Read(d.ctx, func(tx *storage.Tx) error {
		return tx.Select(`SELECT row_id, field FROM sync_conflicts WHERE status = 'open' AND table_name = 'memories'`).Each(func(r storage.Row) error {
			var id uuid.UUID
			var field string
			if err := r.Scan(&id, &field); err != nil {
				return err
			}
			if w, ok := s.writers[id]; ok && (field != "content" || len(w) < 2) {
				t.Errorf("memory %s has a conflict in %s, which %d replicas wrote", id, field, len(w))
			}
			return nil
		})
	}); err != nil {
		t.Fatal(err)
	}
}

// TestStorm lets three replicas change rows of all synced tables at random: offline most of the
// time, killed after sending, with repeated delivery and jumping clocks. In the end all have what the
// model has. HELIX_STORM is the number of steps, HELIX_STORM_SEED the seed (make storm).
func TestStorm(t *testing.T) {
	t.Parallel()
	steps, seed := 700, uint64(1)
	if n, err := strconv.Atoi(os.Getenv("HELIX_STORM")); err == nil {
		steps = n
	}
	if n, err := strconv.ParseUint(os.Getenv("HELIX_STORM_SEED"), 10, 64); err == nil {
		seed = n
	}
	a, b, _ := pair(t)
	c := newDevice(t)
	c.join(a)
	s := &storm{
		r: rand.New(rand.NewPCG(seed, 7)), replicas: []*device{a, b, c}, deleted: map[uuid.UUID]bool{}, count: map[uuid.UUID]int64{}, newest: map[uuid.UUID]int64{},
		salience: map[uuid.UUID]written{}, writers: map[uuid.UUID]map[int]bool{}, added: map[uuid.UUID]map[string]bool{}, removed: map[uuid.UUID]map[string]bool{},
	}
	for range steps {
		s.step()
	}
	settleAll(s.replicas...)
	settleAll(s.replicas...)
	for _, d := range s.replicas {
		if n := one[int](d, `SELECT (SELECT count(*) FROM sync_outbox) + (SELECT count(*) FROM change_log) + (SELECT count(*) FROM sync_base)`); n != 0 {
			t.Errorf("%d changes are left", n)
		}
		d.noDeadLetters()
	}
	same(t, s.replicas...)
	s.check(t)
	t.Logf("seed %d: %d memories, %d documents, %d conflicts", seed, len(s.memories), len(s.docs), one[int](a, `SELECT count(*) FROM sync_conflicts`))
}
