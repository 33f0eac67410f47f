package audit

import (
	"testing"

	"github.com/google/uuid"

	"helix/backend/storage"
	"helix/backend/storage/storagetest"
)

func BenchmarkAppend(b *testing.B) {
	db := storagetest.Open(b)
	New(db, Options{})
	ctx := storagetest.Ctx(b, db)
	run := uuid.New()
	b.ReportAllocs()
	for b.Loop() { // one operation is 100 entries in one transaction
		if err := db.Write(ctx, func(tx *storage.Tx) error {
			for i := range 100 {
				if err := Append(tx, Entry{Action: NetworkCall, SubjectKind: "tool", SubjectID: "0190f1c2-7b7c-7000-8000-000000000000", RunID: run,
					Details: map[string]any{"capability": "network:https", "resource": "api.example.com", "bytes": i, "micros": 1250}}); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			b.Fatal(err)
		}
	}
}
