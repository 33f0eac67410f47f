// Package picks holds the files that a person chose in a native dialog or sent from a browser: a
// method that reads or writes a file gets a token for it, and no path that a page has made up.
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

// Prefix marks a path parameter that is the token of a native file dialog or of an upload.
const Prefix = "pick:"

const (
	dialogLife = 10 * time.Minute // how long a token may be used
	uploadLife = time.Hour        // the same of an upload, from its last use on
)

// Picks remembers what a person chose in a native file dialog, or sent from a browser. The page
// gets a token; only that token, not a path of the page's making, reaches methods that touch
// files.
type Picks struct {
	now     func() time.Time
	backups string // folder of our own backups, which the window may name to read them
	home    string // what ~ stands for; "": nothing

	mu  sync.Mutex
	all map[string]pick
}

type pick struct {
	user  uuid.UUID
	path  string
	write bool
	until time.Time
	name  string // of an upload, as the person knows it; "": path is the person's own file
}

// New returns an empty set. backups is the folder of Helix's own backups, home the person's home
// folder; "": ~ stands for nothing.
func New(backups, home string) *Picks {
	return &Picks{now: time.Now, backups: backups, home: home, all: map[string]pick{}}
}

// Add returns a token for path that user may use for ten minutes: for writing, or only for
// reading.
func (p *Picks) Add(user uuid.UUID, path string, write bool) string {
	return p.add(pick{user: user, path: path, write: write}, dialogLife)
}

// addUpload is Add for a file that user has sent.
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

// uploaded finds an upload of user.
func (p *Picks) uploaded(user uuid.UUID, token string) (path string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.all[token]
	return k.path, k.name != "" && k.user == user
}

// Name is what the person calls the upload of token; "": it is no upload.
func (p *Picks) Name(token string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all[token].name
}

// Forget ends a token; a file that was sent is not removed by it.
func (p *Picks) Forget(token string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.all, token)
}

// holdsPath reports whether a token stands for path.
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
// user of this computer, as a shell does. Where the person has none, ~ is left as it is.
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

// Resolve turns a path parameter into a path. From the window only a token is accepted,
// below a picked folder a relative name after a slash, and to read one of our own backups
// its path; the command line and other programs with the admin scope, which run as the
// person, may name paths themselves, also with ~/ or ~USER/ as Expand reads them.
func (p *Picks) Resolve(ctx context.Context, path string, write bool) (string, error) {
	id, _ := identity.From(ctx)
	if !strings.HasPrefix(path, Prefix) {
		if id.Pipe == "bridge" && path != "" && (write || filepath.Dir(filepath.Clean(path)) != p.backups) {
			return "", fault.Deniedf("Choose the file in the dialog. The window can't set a path itself.")
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
		return "", fault.NotFoundf("The chosen folder no longer exists.").WithCause(err)
	}
	full := filepath.Join(real, rest)
	dir, err := filepath.EvalSymlinks(filepath.Dir(full))
	if err != nil || (dir != real && !strings.HasPrefix(dir, real+string(filepath.Separator))) {
		return "", fault.Deniedf("The path points outside the chosen folder.").WithCause(err)
	}
	return full, nil
}
