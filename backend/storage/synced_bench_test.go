package storage

import (
	"fmt"
	"path/filepath"
	"testing"
)

// BenchmarkCapture compares the update of a synced row with the same table without triggers;
// the goal is at most 1.8 times.
func BenchmarkCapture(b *testing.B) {
	for _, capture := range []bool{false, true} {
		for _, perTx := range []int{1, 1000} {
			b.Run(fmt.Sprintf("capture=%v/rows=%d", capture, perTx), func(b *testing.B) {
				db, err := Open(b.Context(), Options{Path: filepath.Join(b.TempDir(), "helix.db")})
				if err != nil {
					b.Fatal(err)
				}
				defer db.Close()
				const rows = 2000
				ids := make([][]byte, rows)
				if err := db.Write(b.Context(), func(tx *Tx) error {
					if _, err := tx.Exec(notesSQL); err != nil {
						return err
					}
					for i := range ids {
						id := NewID()
						ids[i] = id[:]
						if _, err := tx.Exec(`INSERT INTO notes (id, user_id, title, body, created_at, updated_at, sync_meta) VALUES (?, x'01', 'title', ?, 1, 1, x'01')`, ids[i], make([]byte, 300)); err != nil {
							return err
						}
					}
					return nil
				}); err != nil {
					b.Fatal(err)
				}
				if capture {
					if err := db.refreshTriggers(b.Context(), notesList); err != nil {
						b.Fatal(err)
					}
				}
				n := 0
				for b.Loop() {
					if err := db.Write(b.Context(), func(tx *Tx) error {
						for range perTx {
							n++
							if _, err := tx.Exec(`UPDATE notes SET title = ?, updated_at = ? WHERE id = ?`, fmt.Sprint(n), n, ids[n%rows]); err != nil {
								return err
							}
						}
						return nil
					}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
