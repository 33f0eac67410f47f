package storage

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/cipher"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/testkit"
)

// memRoot stores the root key in memory.
type memRoot struct {
	mu     sync.Mutex
	key    []byte
	made   int
	refuse error // returned by Create and Replace
	hidden bool  // exists, but is not readable until Reload
}

func (r *memRoot) Candidates() [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.key == nil || r.hidden {
		return nil
	}
	return [][]byte{r.key}
}

func (r *memRoot) Create(context.Context) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuse != nil {
		return nil, r.refuse
	}
	r.made++
	r.key = make([]byte, RootKeySize)
	_, _ = rand.Read(r.key)
	return r.key, nil
}

func (r *memRoot) Replace(_ context.Context, key []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.key, r.hidden = slices.Clone(key), false
	return r.refuse
}

func (r *memRoot) Place(key []byte) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.key != nil && bytes.Equal(r.key, key) {
		return "keyring"
	}
	return "none"
}

func (r *memRoot) Reload(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hidden = false
	return nil
}

// openWith opens the database at path with keys in root; the caller must close it.
func openWith(t *testing.T, path string, root Root) *DB {
	t.Helper()
	db, err := Open(t.Context(), Options{Path: path, Keys: NewKeys(root)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func shut(t *testing.T, db *DB) {
	t.Helper()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func asUser(ctx context.Context, id uuid.UUID) context.Context {
	return identity.With(ctx, identity.Identity{User: id, Scopes: identity.Admin.Closed(), Client: identity.ClientWindow})
}

func TestFirstStartHappensOnce(t *testing.T) {
	t.Parallel()
	root, path := &memRoot{}, filepath.Join(t.TempDir(), "helix.db")
	db := openWith(t, path, root)
	user, dev := db.LocalUser(), db.Device()
	sig, err := db.Sign([]byte("m"))
	if err != nil || user.ID == uuid.Nil || user.DisplayName == "" || dev.ID == uuid.Nil || !ed25519.Verify(dev.PublicKey, []byte("m"), sig) {
		t.Fatalf("user %v, device %v, err %v", user, dev, err)
	}
	write(t, db, func(tx *Tx) error {
		if tx.Device().ID != dev.ID || tx.Bus() == nil || tx.Bus() != db.Bus() {
			t.Error("Tx does not know its device and bus")
		}
		_, err := db.Sign([]byte("inside a transaction"))
		return err
	})
	shut(t, db)
	db = openWith(t, path, root)
	if db.LocalUser() != user || db.Device().ID != dev.ID || root.made != 1 {
		t.Errorf("second start: user %v, device %v, %d root keys", db.LocalUser(), db.Device().ID, root.made)
	}
	if sig2, err := db.Sign([]byte("m")); err != nil || !bytes.Equal(sig, sig2) {
		t.Errorf("signature differs: %v", err)
	}
}

// A crash after any step of the first start is repaired by the next one: the steps are undone one
// by one and the start is repeated.
func TestFirstStartAfterACrash(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	for _, undo := range []string{
		`UPDATE sync_local SET device_id = NULL; DELETE FROM device_keys`,                        // before the device key
		`UPDATE sync_local SET device_id = NULL; DELETE FROM device_keys; DELETE FROM data_keys`, // root key created, no data key
	} {
		root, path := &memRoot{}, filepath.Join(t.TempDir(), "helix.db")
		db := openWith(t, path, root)
		user := db.LocalUser()
		exec(t, db, undo)
		shut(t, db)
		db = openWith(t, path, root)
		if db.LocalUser() != user || root.made != 1 {
			t.Errorf("%s: user changed or %d root keys", undo, root.made)
		}
		if _, err := db.Sign([]byte("x")); err != nil {
			t.Errorf("%s: %v", undo, err)
		}
	}
	// The root key could not be stored: the start reports that, and the next one continues.
	root, path := &memRoot{refuse: errors.New("no")}, filepath.Join(t.TempDir(), "helix.db")
	if _, err := Open(t.Context(), Options{Path: path, Keys: NewKeys(root)}); err == nil {
		t.Fatal("started without a place for the key")
	}
	root.refuse = nil
	if db := openWith(t, path, root); db.Device().ID == uuid.Nil {
		t.Error("no device key")
	}
}

func TestLockedStateMakesNoKey(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	root, path := &memRoot{}, filepath.Join(t.TempDir(), "helix.db")
	db := openWith(t, path, root)
	user, dev := db.LocalUser(), db.Device()
	ctx := asUser(t.Context(), user.ID)
	secrets := NewSecrets(db)
	if _, err := secrets.Set(ctx, SecretsSetParams{Name: "a", Value: "v"}); err != nil {
		t.Fatal(err)
	}
	code, err := db.Keys().ExportRecovery(ctx, struct{}{})
	if err != nil || len(code.Groups) != 24 {
		t.Fatal(code, err)
	}
	shut(t, db)

	for name, r := range map[string]*memRoot{"gone": {}, "another key": {key: bytes.Repeat([]byte{7}, 32)}, "hidden": {key: root.key, hidden: true}} {
		db := openWith(t, path, r)
		if db.Keys().State() != "locked" || !db.Keys().Locked() || r.made != 0 {
			t.Fatalf("%s: state %s, %d root keys made", name, db.Keys().State(), r.made)
		}
		if db.LocalUser() != user || db.Device().ID != dev.ID || !db.Device().PublicKey.Equal(dev.PublicKey) {
			t.Errorf("%s: unsealed values are not there", name)
		}
		exec(t, db, `INSERT INTO meta (key, value) VALUES (?, 'works')`, name)
		for what, err := range map[string]error{
			"value":  func() error { _, err := NewSecrets(db).Value(ctx, "a"); return err }(),
			"set":    func() error { _, err := NewSecrets(db).Set(ctx, SecretsSetParams{Name: "b", Value: "v"}); return err }(),
			"sign":   func() error { _, err := db.Sign(nil); return err }(),
			"rotate": func() error { _, err := db.Keys().Rotate(ctx, struct{}{}); return err }(),
			"code":   func() error { _, err := db.Keys().ExportRecovery(ctx, struct{}{}); return err }(),
		} {
			if !fault.Is(err, fault.Unavailable) || fault.As(err).Message != "The key is not in the keyring." {
				t.Errorf("%s: %s answers %v", name, what, err)
			}
		}
		if l, err := NewSecrets(db).List(ctx, SecretsListParams{}); err != nil || l.Total != 1 {
			t.Errorf("%s: names are not listed: %v", name, err)
		}
		st, err := db.Keys().Status(ctx, struct{}{})
		if err != nil || !st.Locked || st.Current != 0 || len(st.Keys) != 1 {
			t.Errorf("%s: status %+v, %v", name, st, err)
		}
		switch name {
		case "hidden":
			if st, err := db.Keys().Unlock(ctx, struct{}{}); err != nil || st.State != "keyring" {
				t.Errorf("unlock: %+v, %v", st, err)
			}
		default:
			if _, err := db.Keys().Unlock(ctx, struct{}{}); !fault.Is(err, fault.Unavailable) {
				t.Errorf("%s: unlock answers %v", name, err)
			}
			if st, err := db.Keys().ImportRecovery(ctx, ImportRecoveryParams{Code: strings.ToLower(code.Code)}); err != nil || st.State != "keyring" {
				t.Errorf("%s: import: %+v, %v", name, st, err)
			}
		}
		if v, err := NewSecrets(db).Value(ctx, "a"); err != nil || string(v) != "v" {
			t.Errorf("%s: after unlock %q, %v", name, v, err)
		}
		if _, err := db.Sign(nil); err != nil {
			t.Errorf("%s: after unlock: %v", name, err)
		}
		shut(t, db)
		if name == "another key" { // the data keys were wrapped with the key in the keyring
			if !bytes.Equal(r.key, bytes.Repeat([]byte{7}, 32)) {
				t.Error("the key of the keyring was written over")
			}
			db := openWith(t, path, r)
			if db.Keys().Locked() {
				t.Error("locked again after the import")
			}
			if _, err := db.Keys().ImportRecovery(ctx, ImportRecoveryParams{Code: RecoveryCode(r.key)}); err != nil {
				t.Error(err)
			}
			if err := db.keys.rewrap(ctx, r.key, root.key); err != nil { // back, for the other cases
				t.Error(err)
			}
			shut(t, db)
		} else if !bytes.Equal(r.key, root.key) {
			t.Errorf("%s: the key is not back in its place", name)
		}
	}
}

// In recovery mode the keys report what is known and change nothing.
func TestKeysWithoutADatabase(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "helix.db")
	if err := os.WriteFile(path, bytes.Repeat([]byte("not a database "), 100), 0o600); err != nil {
		t.Fatal(err)
	}
	root := &memRoot{}
	db := openWith(t, path, root)
	if db.Recovery() == nil {
		t.Fatal("not in recovery mode")
	}
	k := db.Keys()
	if st, err := k.Status(t.Context(), struct{}{}); err != nil || st.State != "none" || st.Keys == nil || root.made != 0 {
		t.Errorf("status %+v, %v, %d root keys made", st, err, root.made)
	}
	for what, err := range map[string]error{
		"rotate": func() error { _, err := k.Rotate(t.Context(), struct{}{}); return err }(),
		"export": func() error { _, err := k.ExportRecovery(t.Context(), struct{}{}); return err }(),
		"import": func() error {
			_, err := k.ImportRecovery(t.Context(), ImportRecoveryParams{Code: RecoveryCode(make([]byte, 32))})
			return err
		}(),
		"unlock": func() error { _, err := k.Unlock(t.Context(), struct{}{}); return err }(),
		"sign":   func() error { _, err := db.Sign(nil); return err }(),
	} {
		if !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := k.work(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestSealIsBoundToItsPlace(t *testing.T) {
	t.Parallel()
	db := openWith(t, filepath.Join(t.TempDir(), "helix.db"), &memRoot{})
	k, id := db.Keys(), NewID()
	for _, plain := range [][]byte{nil, {}, []byte("x"), bytes.Repeat([]byte("long"), 5000)} {
		sealed, err := k.Seal("t", "c", id, plain)
		if err != nil {
			t.Fatal(err)
		}
		if sealed[0] != 0x01 || sealed[1] != 1 || len(sealed) != 2+12+len(plain)+16 {
			t.Errorf("form: % x", sealed[:2])
		}
		if got, err := k.Unseal("t", "c", id, sealed); err != nil || !bytes.Equal(got, plain) {
			t.Errorf("unseal: %q, %v", got, err)
		}
		again, _ := k.Seal("t", "c", id, plain)
		if bytes.Equal(again, sealed) {
			t.Error("two seals are equal")
		}
		other := NewID()
		for name, try := range map[string]func() ([]byte, error){
			"table":  func() ([]byte, error) { return k.Unseal("u", "c", id, sealed) },
			"column": func() ([]byte, error) { return k.Unseal("t", "d", id, sealed) },
			"row":    func() ([]byte, error) { return k.Unseal("t", "c", other, sealed) },
			"bit": func() ([]byte, error) {
				b := slices.Clone(sealed)
				b[len(b)-1] ^= 1
				return k.Unseal("t", "c", id, b)
			},
			"nonce": func() ([]byte, error) { b := slices.Clone(sealed); b[3] ^= 1; return k.Unseal("t", "c", id, b) },
			"key":   func() ([]byte, error) { b := slices.Clone(sealed); b[1] = 9; return k.Unseal("t", "c", id, b) },
			"short": func() ([]byte, error) { return k.Unseal("t", "c", id, sealed[:20]) },
			"empty": func() ([]byte, error) { return k.Unseal("t", "c", id, nil) },
		} {
			got, err := try()
			if got != nil || !fault.Is(err, fault.Internal) {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		}
		if _, err := k.Unseal("t", "d", id, sealed); err == nil || !strings.Contains(err.Error(), "t.d") {
			t.Errorf("the error does not name table and column: %v", err)
		}
	}
	a, _ := k.Seal("t", "c", id, []byte("same"))
	if b, err := k.SealChanged("t", "c", id, a, []byte("same")); err != nil || !bytes.Equal(a, b) {
		t.Error("an unchanged value was sealed anew")
	}
	if b, err := k.SealChanged("t", "c", id, a, []byte("other")); err != nil || bytes.Equal(a, b) {
		t.Error("a changed value was not sealed")
	}
	if b, err := k.SealChanged("t", "c", id, nil, []byte("first")); err != nil || b == nil {
		t.Error("a first value was not sealed")
	}
}

func TestRotationUnderLoad(t *testing.T) {
	t.Parallel()
	root, path := &memRoot{}, filepath.Join(t.TempDir(), "helix.db")
	db := openWith(t, path, root)
	ctx := asUser(t.Context(), db.LocalUser().ID)
	s := NewSecrets(db)
	const rows = 450 // three batches
	write(t, db, func(tx *Tx) error {
		for i := range rows {
			id := NewID()
			sealed, err := db.keys.Seal("secrets", "value", id, fmt.Append(nil, "value ", i))
			if err != nil {
				return err
			}
			if _, err := tx.Exec(`INSERT INTO secrets (id, user_id, name, value, created_at, updated_at) VALUES (?, ?, ?, ?, 1, 1)`, id, db.LocalUser().ID, fmt.Sprint("s", i), sealed); err != nil {
				return err
			}
		}
		return nil
	})
	select { // a signal of the start
	case <-db.keys.wake:
	default:
	}
	if _, err := db.Keys().Rotate(ctx, struct{}{}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-db.keys.wake:
	default:
		t.Error("Rotate does not wake Run")
	}
	if st, err := db.Keys().Status(ctx, struct{}{}); err != nil || st.Pending != rows+1 || st.Current != 2 || len(st.Keys) != 2 || st.Keys[0].RetiredAt == nil {
		t.Fatalf("status %+v, %v", st, err)
	}
	run, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := db.Keys().Run(run); err != nil {
			t.Error(err)
		}
	})
	for w := range 3 {
		wg.Go(func() {
			for i := range 60 {
				name := fmt.Sprint("s", (i*7+w)%rows)
				if i%2 == w%2 {
					if _, err := s.Set(ctx, SecretsSetParams{Name: name, Value: "new " + name}); err != nil {
						t.Error(err)
					}
				} else if v, err := s.Value(ctx, name); err != nil || !bytes.HasPrefix(v, []byte("value ")) && string(v) != "new "+name {
					t.Errorf("%s = %q, %v", name, v, err)
				}
				if i == 30 && w == 0 {
					if _, err := db.Keys().Rotate(ctx, struct{}{}); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	const patience = 5 * time.Minute
	for begun := time.Now(); ; {
		st, err := db.Keys().Status(ctx, struct{}{})
		if err != nil {
			t.Fatal(err)
		}
		if time.Since(begun) > patience {
			t.Fatalf("the rows do not move: %+v", st)
		}
		if done, err := db.keys.doneTo(ctx); err != nil || done == 3 && st.Pending == 0 {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		db.keys.nudge()
	}
	stop()
	wg.Wait()
	shut(t, db)
	db = openWith(t, path, root) // everything can be opened with what is on disk
	s = NewSecrets(db)
	for i := range rows {
		if v, err := s.Value(ctx, fmt.Sprint("s", i)); err != nil || !strings.HasPrefix(string(v), "value ") && !strings.HasPrefix(string(v), "new ") {
			t.Fatalf("s%d = %q, %v", i, v, err)
		}
	}
	if _, err := db.Sign([]byte("the device key moved too")); err != nil {
		t.Error(err)
	}
	if got := changes(t, db); slices.ContainsFunc(got, func(c change) bool { return c.Tbl == "secrets" }) {
		t.Error("rotation was captured as an edit")
	}
}

func TestUsesAreCountedAndAWornKeyRetires(t *testing.T) {
	t.Parallel()
	root, path := &memRoot{}, filepath.Join(t.TempDir(), "helix.db")
	db := openWith(t, path, root)
	for range 10 {
		if _, err := db.keys.Seal("t", "c", uuid.Nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	uses := func() int64 {
		st, err := db.Keys().Status(t.Context(), struct{}{})
		if err != nil {
			t.Fatal(err)
		}
		return st.Keys[0].Uses
	}
	if u := uses(); u != 11 { // and the device key
		t.Errorf("uses = %d while open", u)
	}
	shut(t, db)
	db = openWith(t, path, root)
	if u := uses(); u != 11 {
		t.Errorf("uses = %d after a clean stop", u)
	}
	// Half a block later, Run reserves the next one; at 2^31 uses the key is retired.
	exec(t, db, `UPDATE data_keys SET uses = ?`, int64(maxUses-useBlock))
	db.keys.left.Store(useBlock/2 + 1)
	if _, err := db.keys.Seal("t", "c", uuid.Nil, nil); err != nil {
		t.Fatal(err)
	}
	select {
	case <-db.keys.wake:
	default:
		t.Fatal("Run was not woken")
	}
	if err := db.keys.work(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st, _ := db.Keys().Status(t.Context(), struct{}{}); st.Current != 2 || st.Pending != 0 {
		t.Errorf("status %+v", st)
	}
}

// No word of a sealed value is in any file that Helix writes.
func TestNoPlainTextOfSealedColumnsOnDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := openWith(t, filepath.Join(dir, "helix.db"), &memRoot{})
	ctx := asUser(t.Context(), db.LocalUser().ID)
	words := []string{"xylophone-secret-word", "marmalade-secret-word"}
	for i, w := range words {
		if _, err := NewSecrets(db).Set(ctx, SecretsSetParams{Name: fmt.Sprint("n", i), Value: w}); err != nil {
			t.Fatal(err)
		}
	}
	exec(t, db, `INSERT INTO meta (key, value) VALUES ('probe', 'plain-word-that-is-found')`)
	if _, err := NewService(db, ServiceOptions{}).Backup(ctx, BackupParams{}); err != nil {
		t.Fatal(err)
	}
	seed, err := deviceSeed(db)
	if err != nil {
		t.Fatal(err)
	}
	scan := func() (found bool) {
		if err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			for _, b := range contents(t, p) {
				for _, w := range words {
					if bytes.Contains(b, []byte(w)) {
						t.Errorf("%s holds %q", p, w)
					}
				}
				if bytes.Contains(b, seed) || bytes.Contains(b, db.keys.ring.Load().root) {
					t.Errorf("%s holds a key", p)
				}
				found = found || bytes.Contains(b, []byte("plain-word-that-is-found"))
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return found
	}
	if !scan() {
		t.Error("the search finds nothing at all: it proves nothing")
	}
	shut(t, db)
	scan()
}

func deviceSeed(db *DB) ([]byte, error) {
	var sealed []byte
	id := db.Device().ID
	if err := db.readers.QueryRow(`SELECT private_key FROM device_keys WHERE id = ?`, id[:]).Scan(&sealed); err != nil {
		return nil, err
	}
	return db.keys.Unseal("device_keys", "private_key", id, sealed)
}

// contents returns the bytes of a file, and of the files in it if it is a zip.
func contents(t *testing.T, path string) [][]byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out := [][]byte{b}
	z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return out
	}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		in, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, in)
	}
	return out
}

func BenchmarkSealUnseal(b *testing.B) {
	key := make([]byte, 32)
	aead, _ := newAEAD(key)
	k := NewKeys(nil)
	k.ring.Store(&keyring{current: 1, keys: map[uint64]cipher.AEAD{1: aead}})
	k.left.Store(1 << 60)
	for _, n := range []int{300, 6 << 10} {
		plain, id := make([]byte, n), NewID()
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				s, err := k.Seal("memories", "content", id, plain)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := k.Unseal("memories", "content", id, s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
