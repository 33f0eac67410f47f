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

// blank is a database with the schema and nothing in it, made once a test program: to make
// the schema is most of what a first start takes.
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

// Blank puts an empty database of the program's schema at path, where nothing is yet. The
// first start over it makes the user, the device and the keys as ever.
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
