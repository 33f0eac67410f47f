package storagetest

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"helix/backend/storage"
)

// blank is an empty database with the schema. It is created once per test program, because creating
// the schema takes most of the time of a first start.
var blank = sync.OnceValues(func() (_ []byte, err error) {
	dir, err := os.MkdirTemp("", "helix-blank-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "helix.db")
	db, err := storage.Open(context.Background(), storage.Options{Path: path})
	if err != nil {
		return nil, err
	}
	if err := db.Close(); err != nil {
		return nil, err
	}
	raw, err := sql.Open("sqlite", path)
	if err != nil {
		return nil, err
	}
	_, err = raw.Exec(`UPDATE sync_local SET user_id = NULL, epoch = NULL; DELETE FROM users; PRAGMA wal_checkpoint(TRUNCATE)`)
	if err = errors.Join(err, raw.Close()); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// Blank creates an empty database with the program's schema at path, where no file may exist yet.
// The first start that opens it creates the user, the device and the keys as usual.
func Blank(t testing.TB, path string) {
	t.Helper()
	b, err := blank()
	if err != nil {
		t.Fatalf("make a blank database: %v", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}
