package config

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zalando/go-keyring"

	"helix/backend/fault"
)

// Keyring is the part of the system's keyring that Helix uses. For a missing item, Get returns
// keyring.ErrNotFound of zalando/go-keyring. A call may block forever.
type Keyring interface {
	Get(service, user string) (string, error)
	Set(service, user, secret string) error
}

// RootOptions configure OpenRoot.
type RootOptions struct {
	Keyring    Keyring       // nil: the system's
	Item       string        // name of the item under service helix; default root
	Passphrase string        // wraps the key file; HELIX_KEY_PASSPHRASE
	Timeout    time.Duration // total for all keyring calls of one operation; default 3 s
	Logger     *slog.Logger  // nil: slog.Default()

	scryptN int // lower in tests; default 2^17
}

// Where a key can be stored.
const (
	PlaceKeyring     = "keyring"
	PlaceFile        = "file"
	PlaceUnprotected = "file, unprotected"
	PlaceNone        = "none"
)

const (
	keyringService = "helix"
	keyringItem    = "root"
	keySize        = 32
)

// Root is the root key and the gateway's token: in one item of the keyring, or, without a keyring,
// in the files <config>/root.key and <state>/gateway-token. It implements storage.Root and is safe
// for concurrent use.
type Root struct {
	o     RootOptions
	paths Paths

	mu       sync.Mutex
	ring     *item // content of the keyring item; nil if there is none that we can use
	ringErr  error // why ring is nil: errNoItem, errBadItem, errSlow or the system's error
	file     []byte
	fileSafe bool // the key file is wrapped with the passphrase
	fileErr  error
	token    string // of the token file
}

// item is the value of the keyring item.
type item struct {
	V            int    `json:"v"`
	RootKey      string `json:"rootKey"`
	GatewayToken string `json:"gatewayToken"`
}

var (
	errNoItem  = errors.New("the keyring holds no key of Helix")
	errBadItem = errors.New("the keyring holds a value that is not a key of Helix")
	errSlow    = errors.New("keyring timed out")
)

// OpenRoot reads the existing keys within the time limit, and creates nothing. It fails only when
// ctx ends; missing or invalid items are reported by Problems.
func OpenRoot(ctx context.Context, p Paths, o RootOptions) (*Root, error) {
	if o.Keyring == nil {
		o.Keyring = systemKeyring{}
	}
	if o.Item == "" {
		o.Item = keyringItem
	}
	if o.Timeout == 0 {
		o.Timeout = 3 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.scryptN == 0 {
		o.scryptN = 1 << 17
	}
	r := &Root{o: o, paths: p}
	return r, r.Reload(ctx)
}

// OpenRoot is OpenRoot with the folders and the passphrase of this configuration. A separate data
// folder (--data-dir) has a separate keyring item, named in the file keyring-item of its config
// folder, so that two installations do not share a key.
func (s *Service) OpenRoot(ctx context.Context, o RootOptions) (*Root, error) {
	if o.Passphrase == "" {
		o.Passphrase, _ = s.Env("HELIX_KEY_PASSPHRASE")
	}
	if o.Logger == nil {
		o.Logger = s.o.Logger
	}
	if o.Item == "" && s.o.DataDir != "" {
		name, err := itemName(ctx, filepath.Join(s.paths.Config, "keyring-item"))
		if err != nil {
			return nil, err
		}
		o.Item = name
	}
	return OpenRoot(ctx, s.paths, o)
}

func itemName(ctx context.Context, path string) (string, error) {
	b, err := os.ReadFile(path)
	if name := strings.TrimSpace(string(b)); err == nil && strings.HasPrefix(name, keyringItem+"-") {
		return name, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	name := keyringItem + "-" + strings.ToLower(rand.Text())[:12]
	return name, WriteFile(ctx, path, []byte(name+"\n"))
}

// Reload reads the keyring and the files again, for example after the keyring was unlocked.
func (r *Root) Reload(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.o.Timeout)
	defer cancel()
	it, ringErr := r.readRing(ctx)
	if ringErr != nil && errors.Is(context.Cause(ctx), context.Canceled) {
		return context.Canceled
	}
	key, safe, fileErr := r.readKeyFile()
	token, tokenErr := readToken(r.tokenFile())
	if tokenErr != nil && !errors.Is(tokenErr, fs.ErrNotExist) {
		r.o.Logger.Warn("read gateway token", "err", tokenErr)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ring, r.ringErr = it, ringErr
	r.file, r.fileSafe, r.fileErr = key, safe, fileErr
	r.token = token
	return nil
}

// within runs one keyring call and stops waiting when ctx ends. The goroutine of a call that blocks
// forever cannot be stopped; each explicit Reload adds at most one.
func within[T any](ctx context.Context, fn func() (T, error)) (T, error) {
	type result struct {
		v   T
		err error
	}
	done := make(chan result, 1)
	go func() {
		v, err := fn()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.v, r.err
	case <-ctx.Done():
		var zero T
		return zero, errSlow
	}
}

func (r *Root) readRing(ctx context.Context) (*item, error) {
	text, err := within(ctx, func() (string, error) { return r.o.Keyring.Get(keyringService, r.o.Item) })
	switch {
	case errors.Is(err, keyring.ErrNotFound):
		return nil, errNoItem
	case err != nil:
		return nil, err
	}
	var it item
	if json.Unmarshal([]byte(text), &it) != nil || it.V != 1 || decodeKey(it.RootKey) == nil {
		return nil, errBadItem
	}
	return &it, nil
}

// writeRing stores the item and reads it back, because some keyrings accept it without storing it.
func (r *Root) writeRing(ctx context.Context, it item) error {
	ctx, cancel := context.WithTimeout(ctx, r.o.Timeout)
	defer cancel()
	it.V = 1
	text, err := json.Marshal(it)
	if err != nil {
		return err
	}
	if _, err := within(ctx, func() (struct{}, error) {
		return struct{}{}, r.o.Keyring.Set(keyringService, r.o.Item, string(text))
	}); err != nil {
		return err
	}
	back, err := r.readRing(ctx)
	if err != nil {
		return err
	}
	if *back != it {
		return errBadItem
	}
	return nil
}

func decodeKey(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != keySize {
		return nil
	}
	return b
}

func newSecret() []byte {
	b := make([]byte, keySize)
	_, _ = rand.Read(b) // never fails, according to its documentation
	return b
}

// Candidates returns the root keys found, that of the keyring first.
func (r *Root) Candidates() [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out [][]byte
	if r.ring != nil {
		out = append(out, decodeKey(r.ring.RootKey))
	}
	if r.file != nil {
		out = append(out, slices.Clone(r.file))
	}
	return out
}

// Place returns where key is stored: keyring, file, "file, unprotected" or none.
func (r *Root) Place(key []byte) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case len(key) == 0:
		return PlaceNone
	case r.ring != nil && slices.Equal(decodeKey(r.ring.RootKey), key):
		return PlaceKeyring
	case slices.Equal(r.file, key) && r.fileSafe:
		return PlaceFile
	case slices.Equal(r.file, key):
		return PlaceUnprotected
	}
	return PlaceNone
}

// Create generates a root key and stores it: in the keyring if that is available and holds nothing
// else, otherwise in the key file.
func (r *Root) Create(ctx context.Context) ([]byte, error) {
	key := newSecret()
	return key, r.store(ctx, key, false)
}

// Replace stores key in place of the current one.
func (r *Root) Replace(ctx context.Context, key []byte) error {
	if len(key) != keySize {
		return fault.Invalidf("A root key must have %d bytes.", keySize)
	}
	return r.store(ctx, slices.Clone(key), true)
}

func (r *Root) store(ctx context.Context, key []byte, replace bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if errors.Is(r.ringErr, errNoItem) || replace && r.ring != nil {
		it := item{V: 1, RootKey: hex.EncodeToString(key), GatewayToken: r.token}
		if r.ring != nil {
			it.GatewayToken = r.ring.GatewayToken
		}
		if it.GatewayToken == "" {
			it.GatewayToken = hex.EncodeToString(newSecret())
		}
		err := r.writeRing(ctx, it)
		if err == nil {
			r.ring, r.ringErr = &it, nil
			return r.dropFiles()
		}
		r.o.Logger.Warn("store root key in the keyring", "err", err)
		r.ring, r.ringErr = nil, err
	}
	if r.fileErr != nil && !errors.Is(r.fileErr, fs.ErrNotExist) && !replace {
		return r.fileErr // a key file that cannot be opened is never overwritten
	}
	if err := r.writeKeyFile(ctx, key); err != nil {
		return err
	}
	r.file, r.fileSafe, r.fileErr = key, r.o.Passphrase != "", nil
	return nil
}

// MoveToKeyring moves the key from the file to the keyring and removes the files. If the keyring
// refuses it, the call is Unavailable and changes nothing.
func (r *Root) MoveToKeyring(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		if r.ring != nil {
			return nil
		}
		return fault.Unavailablef("There is no key file to move.")
	}
	read, cancel := context.WithTimeout(ctx, r.o.Timeout)
	was, err := r.readRing(read)
	cancel()
	switch {
	case err == nil && was.RootKey != hex.EncodeToString(r.file):
		return fault.Conflictf("The keyring already contains another Helix key. Nothing was changed.")
	case err != nil && !errors.Is(err, errNoItem):
		return fault.Unavailablef("The keyring didn't respond. Nothing was changed.").WithCause(err)
	}
	it := item{V: 1, RootKey: hex.EncodeToString(r.file), GatewayToken: r.token}
	if it.GatewayToken == "" {
		it.GatewayToken = hex.EncodeToString(newSecret())
	}
	if err := r.writeRing(ctx, it); err != nil {
		return fault.Unavailablef("Couldn't store the key in the keyring. Nothing was changed.").WithCause(err)
	}
	r.ring, r.ringErr = &it, nil
	return r.dropFiles()
}

// dropFiles removes the files once the keyring has their content.
func (r *Root) dropFiles() error {
	var errs []error
	for _, f := range []string{r.keyFile(), r.keyFile() + ".bak", r.tokenFile(), r.tokenFile() + ".bak"} {
		if err := os.Remove(f); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	r.file, r.fileSafe, r.fileErr, r.token = nil, false, fs.ErrNotExist, ""
	return errors.Join(errs...)
}

// Token returns the gateway's root token, 64 hex characters, and where it is stored: keyring or
// file. It creates one if there is none.
func (r *Root) Token(ctx context.Context) (token, source string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ring != nil {
		if decodeKey(r.ring.GatewayToken) == nil {
			it := *r.ring
			it.GatewayToken = hex.EncodeToString(newSecret())
			if err := r.writeRing(ctx, it); err != nil {
				return r.fileToken(ctx)
			}
			r.ring = &it
		}
		return r.ring.GatewayToken, PlaceKeyring, nil
	}
	return r.fileToken(ctx)
}

func (r *Root) fileToken(ctx context.Context) (string, string, error) {
	if r.token == "" {
		token := hex.EncodeToString(newSecret())
		if err := WriteFile(ctx, r.tokenFile(), []byte(token+"\n")); err != nil {
			return "", "", err
		}
		r.token = token
	}
	return r.token, PlaceFile, nil
}

// Problems returns problems with the storage of the key, for the status and doctor.
func (r *Root) Problems() []Problem {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := []Problem{}
	switch {
	case errors.Is(r.ringErr, errSlow):
		out = append(out, Problem{Code: "keyring_timeout", Message: "keyring timed out", Hint: "Unlock the keyring and start Helix again.", Degraded: true})
	case errors.Is(r.ringErr, errBadItem):
		out = append(out, Problem{Code: "keyring_value", Message: "The keyring item does not contain a Helix key.", Hint: "Use your recovery code, or restore the item helix/" + r.o.Item + ".", Degraded: true})
	case r.ringErr != nil && !errors.Is(r.ringErr, errNoItem):
		out = append(out, Problem{Code: "keyring_missing", Message: "No system keyring found.", Hint: "The key is kept in a file; set HELIX_KEY_PASSPHRASE to protect it."})
	}
	if r.fileErr != nil && !errors.Is(r.fileErr, fs.ErrNotExist) {
		out = append(out, Problem{Code: "key_file", Message: fault.As(r.fileErr).Message, Hint: "Set HELIX_KEY_PASSPHRASE, or use your recovery code.", Degraded: true})
	}
	if r.file != nil && !r.fileSafe {
		out = append(out, Problem{Code: "key_unprotected", Message: "The key file is not encrypted.", Hint: "Move it to the keyring, or set HELIX_KEY_PASSPHRASE."})
	}
	for _, f := range []string{r.keyFile(), r.tokenFile()} {
		if othersCanRead(f) {
			out = append(out, Problem{Code: "key_readable", Message: filepath.Base(f) + " can be read by other users of this computer.", Hint: "chmod 600 " + f, Degraded: true})
		}
	}
	return out
}

func (r *Root) keyFile() string   { return filepath.Join(r.paths.Config, "root.key") }
func (r *Root) tokenFile() string { return filepath.Join(r.paths.State, "gateway-token") }

func readToken(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(b))
	if decodeKey(token) == nil {
		return "", errors.New("not a token")
	}
	return token, nil
}

// systemKeyring is the keyring of this computer.
type systemKeyring struct{}

var errNoBus = errors.New("no session bus")

func (systemKeyring) Get(service, user string) (string, error) {
	if !SessionBus() {
		return "", errNoBus
	}
	return keyring.Get(service, user)
}

func (systemKeyring) Set(service, user, secret string) error {
	if !SessionBus() {
		return errNoBus
	}
	return keyring.Set(service, user, secret)
}
