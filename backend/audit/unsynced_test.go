package audit

import (
	"testing"

	"helix/backend/storage"
)

// TestOnlyEndsAreNotWaitedFor looks at which entries are on the disk before Record returns.
func TestOnlyEndsAreNotWaitedFor(t *testing.T) {
	t.Parallel()
	e := setup(t, Options{})
	const full, normal = 2, 1
	for _, x := range []struct {
		name    string
		entries []Entry
		want    int
	}{
		{"start", []Entry{{Action: Start}}, full},
		{"end", []Entry{{Action: Complete}}, normal},
		{"failure", []Entry{{Action: Error, Outcome: Failed}}, normal},
		{"refusal", []Entry{{Action: Error, Outcome: Denied}}, full},
		{"end and start", []Entry{{Action: Complete}, {Action: Start}}, full},
	} {
		if err := e.s.RecordWith(e.ctx, func(tx *storage.Tx) error {
			var level int
			if err := tx.QueryRow(`PRAGMA synchronous`).Scan(&level); err != nil || level != x.want {
				t.Errorf("%s: synchronous is %d, want %d, %v", x.name, level, x.want, err)
			}
			return nil
		}, x.entries...); err != nil {
			t.Error(err)
		}
	}
}
