package audit

import (
	"bytes"
	"crypto/ed25519"
	"os"
	"path/filepath"
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
	for b.Loop() { // 100 entries in one transaction
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

func BenchmarkVerify(b *testing.B) {
	db := storagetest.Open(b)
	s := New(db, Options{})
	ctx := storagetest.Ctx(b, db)
	const n = 20000
	if err := db.Write(ctx, func(tx *storage.Tx) error {
		for i := range n {
			if err := Append(tx, Entry{Action: NetworkCall, SubjectKind: "tool", SubjectID: "0190f1c2-7b7c-7000-8000-000000000000", RunID: storage.NewID(),
				Details: map[string]any{"capability": "network:https", "resource": "api.example.com", "bytes": i, "micros": 1250}}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		b.Fatal(err)
	}
	path := filepath.Join(b.TempDir(), "x")
	if _, err := s.Export(ctx, ExportParams{Path: path}); err != nil {
		b.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	key := []ed25519.PublicKey{db.Device().PublicKey}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if r, err := Verify(bytes.NewReader(text), key); err != nil || !r.OK {
			b.Fatalf("%+v %v", r, err)
		}
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "entries/s")
}
