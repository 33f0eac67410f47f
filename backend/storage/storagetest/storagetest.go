// Package storagetest opens real databases for the tests of other packages. Only tests
// import it.
package storagetest

import (
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/identity"
	"helix/backend/storage"
)

// Root is a root key in memory.
type Root struct {
	mu  sync.Mutex
	Key []byte
}

// NewRoot returns a Root with a random key.
func NewRoot() *Root {
	key := make([]byte, storage.RootKeySize)
	_, _ = rand.Read(key)
	return &Root{Key: key}
}

// Candidates implements storage.Root.
func (r *Root) Candidates() [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Key == nil {
		return nil
	}
	return [][]byte{r.Key}
}

// Create implements storage.Root.
func (r *Root) Create(context.Context) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Key = NewRoot().Key
	return r.Key, nil
}

// Replace implements storage.Root.
func (r *Root) Replace(_ context.Context, key []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Key = key
	return nil
}

// Place implements storage.Root.
func (r *Root) Place([]byte) string { return "keyring" }

// Open returns a new database with keys in a folder of the test, see Dir, and closes it at the end.
func Open(t testing.TB) *storage.DB {
	t.Helper()
	path := filepath.Join(Dir(t), "helix.db")
	Blank(t, path)
	return OpenAt(t, path, NewRoot())
}

// Dir returns a folder for databases, which is removed after the test. It is in memory where the
// system has room there, because syncing each commit to a disk takes a third of the time of many
// tests. If TMPDIR is set, the folder is there.
func Dir(t testing.TB) string {
	t.Helper()
	if os.Getenv("TMPDIR") == "" {
		if dir, err := memoryDir(); err == nil {
			t.Cleanup(func() {
				if err := os.RemoveAll(dir); err != nil {
					t.Errorf("remove the folder of the database: %v", err)
				}
			})
			return dir
		}
	}
	return t.TempDir()
}

// OpenAt is Open for a file and a root key that a test will open again.
func OpenAt(t testing.TB, path string, root storage.Root) *storage.DB {
	t.Helper()
	db, err := storage.Open(context.Background(), storage.Options{Path: path, Keys: storage.NewKeys(root)})
	if err != nil {
		t.Fatalf("open database: %v", err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close database: %v", err)
		}
	})
	return db
}

// Ctx returns the test's context as a call of the local user with every scope.
func Ctx(t testing.TB, db *storage.DB) context.Context {
	t.Helper()
	return as(t, db.LocalUser().ID)
}

// Prune applies o.Retention to the rows of the local user and returns how many rows were removed.
func Prune(t testing.TB, db *storage.DB, o storage.ServiceOptions) (rows int64) {
	t.Helper()
	r, err := storage.NewService(db, o).Prune(Ctx(t, db), storage.PruneParams{})
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range r.Tables {
		for _, declared := range o.Retention {
			if table.Table == declared.Table {
				rows += table.Rows
			}
		}
	}
	return rows
}

// OtherUser adds another user to db and returns the context of a call of that user with every
// scope.
func OtherUser(t testing.TB, db *storage.DB) context.Context {
	t.Helper()
	u, err := db.AddUser(context.Background(), "Somebody else")
	if err != nil {
		t.Fatalf("add user: %v", err)
	}
	return as(t, u.ID)
}

func as(t testing.TB, user uuid.UUID) context.Context {
	return identity.With(t.Context(), identity.Identity{
		User: user, Session: uuid.New(), Scopes: identity.Admin.Closed(), Client: identity.ClientWindow, Label: "test", Pipe: "memory",
	})
}

// NoUndeclaredBlobReferences fails the test for each column that names a stored blob but is unknown
// to pruning, which would then delete a blob that a row still needs. Call it after a domain has
// written every kind of blob that it writes.
func NoUndeclaredBlobReferences(t testing.TB, db *storage.DB) {
	t.Helper()
	if err := db.Read(t.Context(), func(tx *storage.Tx) error {
		known, err := storage.BlobColumns(t.Context(), tx)
		if err != nil {
			return err
		}
		cols, err := columns(tx)
		if err != nil {
			return err
		}
		return db.Blobs().Each(func(ref storage.Ref, _ time.Time) error {
			var kept bool
			var undeclared []storage.BlobColumn
			for _, c := range cols {
				var holds bool
				if err := tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM "`+c.Table+`" WHERE instr(CAST("`+c.Column+`" AS BLOB), ?) OR instr(CAST("`+c.Column+`" AS BLOB), ?))`,
					[]byte(ref.String()), ref.SHA256[:]).Scan(&holds); err != nil {
					return err
				}
				switch {
				case holds && slices.Contains(known, c):
					kept = true
				case holds:
					undeclared = append(undeclared, c)
				}
			}
			if !kept && len(undeclared) > 0 {
				t.Errorf("%v refer to a blob and pruning does not know: let the name of the column end in _blob, or add a generated column whose name does", undeclared)
			}
			return nil
		})
	}); err != nil {
		t.Fatal(err)
	}
}

// columns lists all columns, including generated ones, of all tables that domains write.
func columns(tx *storage.Tx) (out []storage.BlobColumn, err error) {
	err = tx.Select(`SELECT m.name, c.name FROM sqlite_master m, pragma_table_xinfo(m.name) c
		WHERE m.type = 'table' AND m.sql NOT LIKE 'create virtual%' AND m.name NOT IN ('meta', 'change_log', 'audit_log')`).Each(func(row storage.Row) error {
		var c storage.BlobColumn
		if err := row.Scan(&c.Table, &c.Column); err != nil {
			return err
		}
		out = append(out, c)
		return nil
	})
	return out, err
}
