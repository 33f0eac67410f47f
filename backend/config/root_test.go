package config

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zalando/go-keyring"

	"helix/backend/fault"
	"helix/backend/testkit"
)

// fakeKeyring replaces the system's keyring, which a test must not use.
type fakeKeyring struct {
	mu    sync.Mutex
	items map[string]string
	err   error         // returned by every call
	block chan struct{} // every call waits until it is closed
	deaf  bool          // Set accepts without storing
	gets  int
}

func (k *fakeKeyring) enter() error {
	if k.block != nil {
		<-k.block
	}
	return k.err
}

func (k *fakeKeyring) Get(service, user string) (string, error) {
	if err := k.enter(); err != nil {
		return "", err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.gets++
	v, ok := k.items[service+"/"+user]
	if !ok {
		return "", keyring.ErrNotFound
	}
	return v, nil
}

func (k *fakeKeyring) Set(service, user, secret string) error {
	if err := k.enter(); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.deaf {
		if k.items == nil {
			k.items = map[string]string{}
		}
		k.items[service+"/"+user] = secret
	}
	return nil
}

func hanging(t *testing.T) *fakeKeyring {
	k := &fakeKeyring{block: make(chan struct{})}
	t.Cleanup(func() { close(k.block) }) // lets the goroutine end, which a real prompt may never do
	return k
}

func rootPaths(t *testing.T) Paths {
	t.Helper()
	dir := t.TempDir()
	p := Paths{Config: filepath.Join(dir, "c"), State: filepath.Join(dir, "s")}
	if err := errors.Join(os.MkdirAll(p.Config, 0o700), os.MkdirAll(p.State, 0o700)); err != nil {
		t.Fatal(err)
	}
	return p
}

func testRootOptions(k Keyring) RootOptions {
	return RootOptions{Keyring: k, Logger: slog.New(slog.DiscardHandler), scryptN: 1 << 10}
}

func openRoot(t *testing.T, p Paths, o RootOptions) *Root {
	t.Helper()
	r, err := OpenRoot(t.Context(), p, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func create(t *testing.T, r *Root) []byte {
	t.Helper()
	key, err := r.Create(t.Context())
	if err != nil || len(key) != 32 {
		t.Fatalf("create: %x, %v", key, err)
	}
	return key
}

func codes(r *Root) (out []string) {
	for _, p := range r.Problems() {
		out = append(out, p.Code)
	}
	return out
}

// wantOnly checks that key is the only candidate and stored in place, and that the next start finds
// it again.
func wantOnly(t *testing.T, p Paths, o RootOptions, key []byte, place string) *Root {
	t.Helper()
	r := openRoot(t, p, o)
	if c := r.Candidates(); len(c) != 1 || !bytes.Equal(c[0], key) || r.Place(key) != place {
		t.Fatalf("%d candidates, place %q, want one in %q; problems %v", len(c), r.Place(key), place, r.Problems())
	}
	return r
}

func TestKeyringGood(t *testing.T) {
	t.Parallel()
	p, k := rootPaths(t), &fakeKeyring{}
	o := testRootOptions(k)
	r := openRoot(t, p, o)
	if len(r.Candidates()) != 0 || r.Place(nil) != PlaceNone || len(r.Problems()) != 0 || k.gets != 1 {
		t.Fatalf("an empty keyring: %v, %d prompts", r.Problems(), k.gets)
	}
	key := create(t, r)
	token, source, err := r.Token(t.Context())
	if err != nil || source != PlaceKeyring || len(token) != 64 {
		t.Fatalf("token %q from %s, %v", token, source, err)
	}
	var it item
	if err := json.Unmarshal([]byte(k.items["helix/root"]), &it); err != nil || len(k.items) != 1 || it.V != 1 || it.RootKey != hex.EncodeToString(key) || it.GatewayToken != token {
		t.Errorf("items %v, %v", k.items, err)
	}
	r = wantOnly(t, p, o, key, PlaceKeyring)
	if again, _, err := r.Token(t.Context()); err != nil || again != token {
		t.Errorf("token changed: %v", err)
	}
	if fs, _ := filepath.Glob(filepath.Join(p.Config, "*")); len(fs) != 0 {
		t.Errorf("files beside the keyring: %v", fs)
	}
	fresh := bytes.Repeat([]byte{9}, 32)
	if err := r.Replace(t.Context(), fresh); err != nil {
		t.Fatal(err)
	}
	r = wantOnly(t, p, o, fresh, PlaceKeyring)
	if again, _, _ := r.Token(t.Context()); again != token {
		t.Error("Replace lost the token")
	}
	next := strings.Repeat("ab", 32)
	if err := r.StoreToken(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	if again, _, _ := wantOnly(t, p, o, fresh, PlaceKeyring).Token(t.Context()); again != next {
		t.Error("StoreToken did not last")
	}
}

func TestKeyringThatIsNotThere(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		k       func(*testing.T) Keyring
		problem string
	}{
		"none":    {func(*testing.T) Keyring { return &fakeKeyring{err: errors.New("no D-Bus")} }, "keyring_missing"},
		"locked":  {func(*testing.T) Keyring { return &fakeKeyring{err: errors.New("the collection is locked")} }, "keyring_missing"},
		"hanging": {func(t *testing.T) Keyring { return hanging(t) }, "keyring_timeout"},
		"deaf":    {func(*testing.T) Keyring { return &fakeKeyring{deaf: true} }, ""},
		"wrong value": {func(*testing.T) Keyring {
			return &fakeKeyring{items: map[string]string{"helix/root": "somebody else's"}}
		}, "keyring_value"},
		"newer version": {func(*testing.T) Keyring {
			return &fakeKeyring{items: map[string]string{"helix/root": `{"v":2,"rootKey":"x"}`}}
		}, "keyring_value"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { keyFallsBackToFile(t, name, c.k(t), c.problem) })
		})
	}
}

// keyFallsBackToFile runs in a synctest bubble: its clock advances only while waiting, so that the
// time limit is measured exactly however busy the machine is.
func keyFallsBackToFile(t *testing.T, name string, k Keyring, problem string) {
	p := rootPaths(t)
	o := testRootOptions(k)
	begun := time.Now()
	r := openRoot(t, p, o)
	if took := time.Since(begun); took > 3500*time.Millisecond {
		t.Errorf("OpenRoot took %v", took)
	}
	if got := codes(r); problem == "" && len(got) != 0 || problem != "" && !slices.Equal(got, []string{problem}) {
		t.Errorf("problems %v", r.Problems())
	}
	begun = time.Now()
	key := create(t, r)
	if took := time.Since(begun); took > 3500*time.Millisecond {
		t.Errorf("Create took %v", took)
	}
	if r.Place(key) != PlaceUnprotected || !slices.Contains(codes(r), "key_unprotected") {
		t.Errorf("place %s, problems %v", r.Place(key), codes(r))
	}
	token, source, err := r.Token(t.Context())
	if err != nil || source != PlaceFile {
		t.Errorf("token from %s, %v", source, err)
	}
	for _, f := range []string{filepath.Join(p.Config, "root.key"), filepath.Join(p.State, "gateway-token")} {
		if st, err := os.Stat(f); err != nil || runtime.GOOS != "windows" && st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", f, st, err)
		}
	}
	r = wantOnly(t, p, o, key, PlaceUnprotected)
	if again, _, _ := r.Token(t.Context()); again != token {
		t.Error("the token changed")
	}
	if f, ok := k.(*fakeKeyring); ok && strings.Contains(name, "v") && len(f.items) > 1 {
		t.Errorf("a foreign item was written over: %v", f.items)
	}
}

func TestKeyFileWithPassphrase(t *testing.T) {
	t.Parallel()
	p, k := rootPaths(t), &fakeKeyring{err: errors.New("none")}
	o := testRootOptions(k)
	key := create(t, openRoot(t, p, o))
	o.Passphrase = "correct horse" // set later: the plain file is wrapped at once
	wantOnly(t, p, o, key, PlaceFile)
	files, _ := filepath.Glob(filepath.Join(p.Config, "*"))
	for _, f := range files {
		if b, _ := os.ReadFile(f); bytes.Contains(b, []byte(hex.EncodeToString(key))) {
			t.Errorf("%s still holds the plain key", f)
		}
	}
	wantOnly(t, p, o, key, PlaceFile)
	for _, pass := range []string{"", "wrong"} {
		o.Passphrase = pass
		r := openRoot(t, p, o)
		if len(r.Candidates()) != 0 || !slices.Contains(codes(r), "key_file") {
			t.Errorf("passphrase %q: %d candidates, %v", pass, len(r.Candidates()), codes(r))
		}
		if _, err := r.Create(t.Context()); err == nil {
			t.Error("a key file that does not open was written over")
		}
	}
	o.Passphrase = "correct horse"
	wantOnly(t, p, o, key, PlaceFile)
	for name, text := range map[string]string{"empty": "", "json": "{}", "short": `{"v":1,"rootKey":"00"}`, "newer": `{"v":2}`,
		"huge": `{"v":1,"wrapped":"` + strings.Repeat("00", 60) + `","salt":"00","n":1073741824,"r":8,"p":1}`, "odd n": `{"v":1,"wrapped":"` + strings.Repeat("00", 60) + `","salt":"00","n":7,"r":8,"p":1}`} {
		if err := os.WriteFile(filepath.Join(p.Config, "root.key"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if r := openRoot(t, p, o); len(r.Candidates()) != 0 || !slices.Contains(codes(r), "key_file") {
			t.Errorf("%s: %v", name, codes(r))
		}
	}
}

func TestScryptParametersOfTheManual(t *testing.T) {
	t.Parallel()
	testkit.SkipRaced(t, "one goroutine, and slow under it")
	p := rootPaths(t)
	o := testRootOptions(&fakeKeyring{err: errors.New("none")})
	o.scryptN, o.Passphrase = 0, "x"
	create(t, openRoot(t, p, o))
	var f keyFileV1
	b, _ := os.ReadFile(filepath.Join(p.Config, "root.key"))
	if err := json.Unmarshal(b, &f); err != nil || f.N != 1<<17 || f.R != 8 || f.P != 1 || f.RootKey != "" || len(f.Salt) != 32 {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestMoveToKeyring(t *testing.T) {
	t.Parallel()
	p, k := rootPaths(t), &fakeKeyring{err: errors.New("none")}
	o := testRootOptions(k)
	r := openRoot(t, p, o)
	key := create(t, r)
	token, _, _ := r.Token(t.Context())
	if err := r.MoveToKeyring(t.Context()); !fault.Is(err, fault.Unavailable) || r.Place(key) != PlaceUnprotected {
		t.Errorf("without a keyring: %v", err)
	}
	k.err, k.deaf = nil, true
	if err := r.MoveToKeyring(t.Context()); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a keyring that forgets: %v", err)
	}
	wantOnly(t, p, o, key, PlaceUnprotected)
	k.deaf = false
	k.items = map[string]string{"helix/root": `{"v":1,"rootKey":"` + strings.Repeat("11", 32) + `"}`}
	if err := r.MoveToKeyring(t.Context()); !fault.Is(err, fault.Conflict) {
		t.Errorf("over another key: %v", err)
	}
	k.items = nil
	if err := r.MoveToKeyring(t.Context()); err != nil || r.Place(key) != PlaceKeyring {
		t.Fatalf("%v, place %s", err, r.Place(key))
	}
	if again, source, _ := r.Token(t.Context()); again != token || source != PlaceKeyring {
		t.Errorf("the token did not move: %s", source)
	}
	wantOnly(t, p, o, key, PlaceKeyring)
	for _, dir := range []string{p.Config, p.State} {
		es, _ := os.ReadDir(dir)
		for _, e := range es {
			if b, _ := os.ReadFile(filepath.Join(dir, e.Name())); len(b) > 0 {
				t.Errorf("%s is left with %d bytes", e.Name(), len(b))
			}
		}
	}
	if err := r.MoveToKeyring(t.Context()); err != nil {
		t.Errorf("a second time: %v", err)
	}
}

func TestKeyringThatComesBack(t *testing.T) {
	t.Parallel()
	p, k := rootPaths(t), &fakeKeyring{}
	o := testRootOptions(k)
	key := create(t, openRoot(t, p, o))
	k.err = errors.New("locked")
	r := openRoot(t, p, o)
	if len(r.Candidates()) != 0 {
		t.Fatal("a key from nowhere")
	}
	k.err = nil
	if err := r.Reload(t.Context()); err != nil || r.Place(key) != PlaceKeyring || len(r.Problems()) != 0 {
		t.Errorf("after unlocking: %v, %s, %v", err, r.Place(key), r.Problems())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := OpenRoot(ctx, p, testRootOptions(hanging(t))); !errors.Is(err, context.Canceled) {
		t.Errorf("a start that was given up: %v", err)
	}
}

func TestDataFolderHasItsOwnItem(t *testing.T) {
	t.Parallel()
	k := &fakeKeyring{}
	names := map[string]bool{}
	for range 2 {
		p := newPlace(t)
		var first string
		for range 2 {
			r, err := p.load(t).OpenRoot(t.Context(), testRootOptions(k))
			if err != nil || !strings.HasPrefix(r.o.Item, "root-") || first != "" && r.o.Item != first {
				t.Fatalf("item %q after %q, %v", r.o.Item, first, err)
			}
			first = r.o.Item
		}
		names[first] = true
	}
	if len(names) != 2 {
		t.Errorf("two folders share an item: %v", names)
	}
	p := newPlace(t)
	p.o.DataDir, p.env["HELIX_KEY_PASSPHRASE"] = "", "pass"
	r, err := p.load(t).OpenRoot(t.Context(), testRootOptions(k))
	if err != nil || r.o.Item != "root" || r.o.Passphrase != "pass" {
		t.Errorf("item %q, %v", r.o.Item, err)
	}
}
