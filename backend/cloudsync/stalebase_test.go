package cloudsync

import (
	"testing"

	"helix/backend/storage"
)

// Former versions of Helix left bases behind. An edit that started from one is sent nevertheless, and
// merges with the edit of another device without a loss.
func TestEditWithAStaleBaseIsSent(t *testing.T) {
	t.Parallel()
	a, b, _ := pair(t)
	id := a.remember("first")
	settleAll(a, b)
	for name, leave := range map[string]func(tx *storage.Tx, former string) error{
		"an earlier version": func(tx *storage.Tx, former string) error { return setBase(tx, rowKey{"memories", id}, former) },
		"a base of counts only": func(tx *storage.Tx, _ string) error {
			m, _ := a.table("memories")
			r, err := m.readRow(tx, id)
			if err != nil {
				return err
			}
			text, err := m.encodeBase(tx, id, Version{Values: r.Values, Meta: newMeta()}, false)
			if err != nil {
				return err
			}
			return setBase(tx, rowKey{"memories", id}, text)
		},
	} {
		a.edit(id, name+": before")
		former := one[string](a, `SELECT row FROM sync_base WHERE row_id = ?`, id)
		settleAll(a, b)
		a.write(func(tx *storage.Tx) error { return leave(tx, former) })
		a.edit(id, name+": after")
		a.exec(`UPDATE memories SET access_count = access_count + 1 WHERE id = ?`, id)
		a.now()
		if n := one[int](a, `SELECT (SELECT count(*) FROM sync_outbox) + (SELECT count(*) FROM change_log) + (SELECT count(*) FROM sync_base)`); n != 0 {
			t.Errorf("%s: %d entries are left", name, n)
		}
		b.now()
		if got := b.text(id); got != name+": after" {
			t.Errorf("%s: the other device has %q", name, got)
		}

		a.write(func(tx *storage.Tx) error { return leave(tx, former) })
		a.edit(id, name+": concurrent")
		b.exec(`UPDATE memories SET pinned = 1 - pinned, access_count = access_count + 1 WHERE id = ?`, id)
		settleAll(b, a)
		same(t, a, b)
		if got := b.text(id); got != name+": concurrent" {
			t.Errorf("%s: merged to %q", name, got)
		}
	}
	if got := one[int](b, `SELECT access_count FROM memories WHERE id = ?`, id); got != 4 {
		t.Errorf("counted 4 times, and the count is %d", got)
	}
}
