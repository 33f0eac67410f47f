package audit_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"helix/backend/audit"
	"helix/backend/storage/storagetest"
)

func TestDeviceKeyVerifiesAnExport(t *testing.T) {
	t.Parallel()
	db := storagetest.Open(t)
	ctx := storagetest.Ctx(t, db)
	s := audit.New(db, audit.Options{})
	if err := s.Record(ctx, audit.Entry{Action: "test.done"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Sign(ctx); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "log.jsonl")
	if _, err := s.Export(ctx, audit.ExportParams{Path: path}); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.DeviceKey(ctx, struct{}{})
	if err != nil || got.DeviceID != db.Device().ID {
		t.Fatalf("%+v, %v", got, err)
	}
	key, err := hex.DecodeString(got.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := audit.Verify(bytes.NewReader(file), []ed25519.PublicKey{key}); err != nil || !r.OK {
		t.Errorf("with the device's key: %+v, %v", r, err)
	}
	other, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := audit.Verify(bytes.NewReader(file), []ed25519.PublicKey{other}); err != nil || r.OK {
		t.Errorf("with another key: %+v, %v", r, err)
	}
}
