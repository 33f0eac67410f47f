package cloudsync

import (
	"testing"

	"github.com/google/uuid"
)

func (d *device) tag(id uuid.UUID, tag string) {
	d.t.Helper()
	d.exec(`INSERT INTO memory_tags (memory_id, user_id, tag) VALUES (?, ?, ?)`, id, d.db.LocalUser().ID, tag)
}

func (d *device) untag(id uuid.UUID, tag string) {
	d.t.Helper()
	d.exec(`DELETE FROM memory_tags WHERE memory_id = ? AND tag = ?`, id, tag)
}

// Two devices remove a tag, and one of them adds it again. The other device's removal does not concern
// the new tag, which it has not seen.
func TestTagAddedAgainSurvivesConcurrentRemoval(t *testing.T) {
	t.Parallel()
	for _, first := range []bool{true, false} {
		a, b, _ := pair(t)
		id := a.remember("tagged")
		a.tag(id, "x")
		a.tag(id, "y")
		settleAll(a, b)
		a.untag(id, "x")
		a.untag(id, "y")
		a.now()
		a.tag(id, "x")
		b.untag(id, "x")
		b.untag(id, "y")
		if first {
			settleAll(a, b)
		} else {
			settleAll(b, a)
		}
		settleAll(a, b)
		same(t, a, b)
		if got := one[string](b, `SELECT group_concat(tag) FROM memory_tags WHERE memory_id = ?`, id); got != "x" {
			t.Errorf("tags: %s", got)
		}
		// Seen by both, it can be removed.
		b.untag(id, "x")
		a.tag(id, "z")
		settleAll(a, b)
		same(t, a, b)
		if got := one[string](a, `SELECT group_concat(tag) FROM memory_tags WHERE memory_id = ?`, id); got != "z" {
			t.Errorf("tags: %s", got)
		}
	}
}
