package storage

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"helix/backend/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Run(m)) }

// blank is storagetest.Blank, which tests in this package cannot import.
var blank = sync.OnceValues(func() (_ []byte, err error) {
	dir, err := os.MkdirTemp("", "helix-blank-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "helix.db")
	db, err := Open(context.Background(), Options{Path: path})
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

func putBlank(t *testing.T, path string) {
	t.Helper()
	b, err := blank()
	must(t, err)
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(t, os.WriteFile(path, b, 0o600))
}
