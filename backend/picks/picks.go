// Package picks manages tokens for files that a person chose in a native dialog or sent from a
// browser. Methods that read or write a file receive a token, never a path made up by a page.
package picks

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
)

// Prefix is the prefix of a path parameter that is a token of a native file dialog or of an upload.
const Prefix = "pick:"

const (
	dialogLife = 10 * time.Minute // lifetime of a token
	uploadLife = time.Hour        // the same for an upload, since its last use
)

// Picks holds the files that a person chose in a native file dialog, or sent from a browser. The page gets
// a token, and methods that access files accept only that token, not a path from the page.
type Picks struct {
	now     func() time.Time
	backups string // folder of our own backups, whose paths the window may use to read them
	home    string // value of ~; "": none

	mu  sync.Mutex
	all map[string]pick
}

type pick struct {
	user  uuid.UUID
	path  string
	write bool
	until time.Time
	name  string // original name of an upload; "": path is the person's own file
}

// New returns an empty set. backups is the folder of Helix's own backups. home is the person's home
// folder; "": ~ is not replaced.
func New(backups, home string) *Picks {
	return &Picks{now: time.Now, backups: backups, home: home, all: map[string]pick{}}
}

// Add returns a token with which user may access path for ten minutes: for writing, or only for reading.
func (p *Picks) Add(user uuid.UUID, path string, write bool) string {
	return p.add(pick{user: user, path: path, write: write}, dialogLife)
}

// addUpload is Add for a file that user has uploaded.
func (p *Picks) addUpload(user uuid.UUID, path, name string) string {
	return p.add(pick{user: user, path: path, name: name}, uploadLife)
}

func (p *Picks) add(k pick, life time.Duration) string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	token := Prefix + hex.EncodeToString(b[:])
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	for t, k := range p.all {
		if now.After(k.until) {
			delete(p.all, t)
		}
	}
	k.until = now.Add(life)
	p.all[token] = k
	return token
}

// uploaded returns the path of an upload of user.
func (p *Picks) uploaded(user uuid.UUID, token string) (path string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.all[token]
	return k.path, k.name != "" && k.user == user
}

// Name returns the original name of the upload of token, or "" if it is not one.
func (p *Picks) Name(token string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all[token].name
}

// Forget invalidates a token. It does not delete an uploaded file.
func (p *Picks) Forget(token string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.all, token)
}

// holdsPath reports whether any token refers to path.
func (p *Picks) holdsPath(path string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	for _, k := range p.all {
		if k.path == path && !now.After(k.until) {
			return true
		}
	}
	return false
}

// Expand replaces ~ at the beginning of a path by the person's home folder, and ~USER by that of a
// user of this computer, like a shell. If there is no home folder, ~ is kept.
func (p *Picks) Expand(path string) (string, error) {
	if !strings.HasPrefix(path, "~") {
		return path, nil
	}
	home, name, rest := p.home, path[1:], ""
	if i := strings.IndexFunc(name, func(r rune) bool { return r < 0x80 && os.IsPathSeparator(uint8(r)) }); i >= 0 {
		name, rest = name[:i], name[i:]
	}
	if name != "" {
		u, err := user.Lookup(name)
		if err != nil {
			return "", fault.NotFoundf("There is no user %q on this computer.", name).WithCause(err)
		}
		home = u.HomeDir
	}
	if home == "" {
		return path, nil
	}
	return filepath.Join(home, rest), nil
}

// Resolve converts a path parameter to a path. From the window it accepts only a token, a token of
// a folder followed by a slash and a relative path, and, for reading, the path of one of our own
// backups. The command line and other programs with the admin scope, which act as the person, may
// use any path, including ~/ and ~USER/ as in Expand.
func (p *Picks) Resolve(ctx context.Context, path string, write bool) (string, error) {
	id, _ := identity.From(ctx)
	if !strings.HasPrefix(path, Prefix) {
		if id.Pipe == "bridge" && path != "" && (write || filepath.Dir(filepath.Clean(path)) != p.backups) {
			return "", fault.Deniedf("Choose the file in the dialog; the window cannot name a path itself.")
		}
		path, err := p.Expand(path)
		if err == nil && path != "" && !filepath.IsAbs(path) {
			err = fault.Invalidf("The path must be absolute.")
		}
		return path, err
	}
	token, rest, _ := strings.Cut(path, "/")
	p.mu.Lock()
	k, ok := p.all[token]
	ok = ok && k.user == id.User && !p.now().After(k.until)
	if ok && k.name != "" {
		k.until = p.now().Add(uploadLife)
		p.all[token] = k
	}
	p.mu.Unlock()
	if !ok {
		return "", fault.Deniedf("This choice is no longer valid. Choose the file again.")
	}
	if write && !k.write {
		return "", fault.Deniedf("This file was chosen for reading. Choose where to save.")
	}
	if rest == "" {
		return k.path, nil
	}
	if !filepath.IsLocal(rest) {
		return "", fault.Deniedf("The path points outside the chosen folder.")
	}
	real, err := filepath.EvalSymlinks(k.path)
	if err != nil {
		return "", fault.NotFoundf("The chosen folder is gone.").WithCause(err)
	}
	full := filepath.Join(real, rest)
	dir, err := filepath.EvalSymlinks(filepath.Dir(full))
	if err != nil || (dir != real && !strings.HasPrefix(dir, real+string(filepath.Separator))) {
		return "", fault.Deniedf("The path points outside the chosen folder.").WithCause(err)
	}
	return full, nil
}
