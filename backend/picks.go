package backend

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
)

// pickPrefix marks a path parameter that is the token of a native file dialog.
const pickPrefix = "pick:"

// pickLife is how long a token may be used.
const pickLife = 10 * time.Minute

// Picks remembers what a person chose in a native file dialog. The page gets a token; only
// that token, not a path of the page's making, reaches methods that touch files.
type Picks struct {
	now     func() time.Time
	backups string // folder of our own backups, which the window may name to read them

	mu  sync.Mutex
	all map[string]pick
}

type pick struct {
	user  uuid.UUID
	path  string
	write bool
	until time.Time
}

func newPicks(backups string) *Picks {
	return &Picks{now: time.Now, backups: backups, all: map[string]pick{}}
}

// Add returns a token for path that user may use for ten minutes: for writing, or only for
// reading.
func (p *Picks) Add(user uuid.UUID, path string, write bool) string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	token := pickPrefix + hex.EncodeToString(b[:])
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	for t, k := range p.all {
		if now.After(k.until) {
			delete(p.all, t)
		}
	}
	p.all[token] = pick{user: user, path: path, write: write, until: now.Add(pickLife)}
	return token
}

// Resolve turns a path parameter into a path. From the window only a token is accepted,
// below a picked folder a relative name after a slash, and to read one of our own backups
// its path; the command line and other programs with the admin scope, which run as the
// person, may name paths themselves.
func (p *Picks) Resolve(ctx context.Context, path string, write bool) (string, error) {
	id, _ := identity.From(ctx)
	if !strings.HasPrefix(path, pickPrefix) {
		if id.Pipe == "bridge" && path != "" && (write || filepath.Dir(filepath.Clean(path)) != p.backups) {
			return "", fault.Deniedf("Choose the file in the dialog; the window cannot name a path itself.")
		}
		if path != "" && !filepath.IsAbs(path) {
			return "", fault.Invalidf("The path must be absolute.")
		}
		return path, nil
	}
	token, rest, _ := strings.Cut(path, "/")
	p.mu.Lock()
	k, ok := p.all[token]
	p.mu.Unlock()
	if !ok || k.user != id.User || p.now().After(k.until) {
		return "", fault.Deniedf("This choice is no longer valid. Choose the file again.")
	}
	if write && !k.write {
		return "", fault.Deniedf("This file was chosen for reading. Choose where to save.")
	}
	if rest == "" {
		return k.path, nil
	}
	if !filepath.IsLocal(rest) {
		return "", fault.Deniedf("The name leads out of the chosen folder.")
	}
	real, err := filepath.EvalSymlinks(k.path)
	if err != nil {
		return "", fault.NotFoundf("The chosen folder is gone.").WithCause(err)
	}
	full := filepath.Join(real, rest)
	dir, err := filepath.EvalSymlinks(filepath.Dir(full))
	if err != nil || (dir != real && !strings.HasPrefix(dir, real+string(filepath.Separator))) {
		return "", fault.Deniedf("The name leads out of the chosen folder.").WithCause(err)
	}
	return full, nil
}

// pathParam makes fn resolve one path parameter before it runs.
func pathParam[P, R any](b *Backend, write bool, field func(*P) *string, fn func(context.Context, P) (R, error)) func(context.Context, P) (R, error) {
	return func(ctx context.Context, p P) (R, error) {
		f := field(&p)
		path, err := b.Picks.Resolve(ctx, *f, write)
		if err != nil {
			var zero R
			return zero, err
		}
		*f = path
		return fn(ctx, p)
	}
}
