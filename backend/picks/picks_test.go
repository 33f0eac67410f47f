package picks

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
)

func TestPicks(t *testing.T) {
	t.Parallel()
	now := time.Now()
	p := New("/srv/helix/backups", "/home/ada")
	p.now = func() time.Time { return now }
	me, other := uuid.New(), uuid.New()
	dir := t.TempDir()
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc", filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	file, folder := p.Add(me, "/tmp/x.json", false), p.Add(me, dir, true)

	window := identity.With(t.Context(), identity.Identity{User: me, Client: identity.ClientWindow, Pipe: "bridge"})
	cli := identity.With(t.Context(), identity.Identity{User: me, Client: identity.ClientWindow, Pipe: "websocket"})
	foreign := identity.With(t.Context(), identity.Identity{User: other, Client: identity.ClientWindow, Pipe: "bridge"})
	get := func(path string, write bool) (string, fault.Kind) {
		s, err := p.Resolve(window, path, write)
		return s, fault.KindOf(err)
	}
	for _, c := range []struct {
		path  string
		write bool
		want  string
		kind  fault.Kind
	}{
		{file, false, "/tmp/x.json", ""},
		{file, true, "", fault.Denied},
		{folder, true, dir, ""},
		{folder + "/a.zip", true, filepath.Join(dir, "a.zip"), ""},
		{folder + "/../a.zip", true, "", fault.Denied},
		{folder + "/out/passwd", false, "", fault.Denied},
		{"/etc/passwd", false, "", fault.Denied},
		{"pick:0000", false, "", fault.Denied},
		{"", true, "", ""},
		{"/srv/helix/backups/a.zip", false, "/srv/helix/backups/a.zip", ""},
		{"/srv/helix/backups/a.zip", true, "", fault.Denied},
		{"/srv/helix/backups/../secret.zip", false, "", fault.Denied},
		{"/srv/helix/backups/sub/a.zip", false, "", fault.Denied},
	} {
		if got, kind := get(c.path, c.write); got != c.want || kind != c.kind {
			t.Errorf("%s (write %v) = %q, %q; want %q, %q", c.path, c.write, got, kind, c.want, c.kind)
		}
	}
	if _, err := p.Resolve(foreign, file, false); !fault.Is(err, fault.Denied) {
		t.Errorf("another user used the token: %v", err)
	}
	if s, err := p.Resolve(cli, "/srv/x", true); err != nil || s != "/srv/x" {
		t.Errorf("command line path: %q, %v", s, err)
	}
	if s, err := p.Resolve(cli, "~/x/y.zip", false); err != nil || s != "/home/ada/x/y.zip" {
		t.Errorf("path below the home folder: %q, %v", s, err)
	}
	if s, err := p.Resolve(cli, "~root/x", false); err != nil || s != "/root/x" {
		t.Errorf("path below the home folder of a user: %q, %v", s, err)
	}
	if _, err := p.Resolve(cli, "~nobody.of.this.name/x", false); !fault.Is(err, fault.NotFound) {
		t.Errorf("home folder of an unknown user: %v", err)
	}
	if s, err := p.Resolve(cli, "~", false); err != nil || s != "/home/ada" {
		t.Errorf("the home folder: %q, %v", s, err)
	}
	if _, err := p.Resolve(window, "~/x", false); !fault.Is(err, fault.Denied) {
		t.Errorf("the window named a path: %v", err)
	}
	if _, err := p.Resolve(cli, "x", true); !fault.Is(err, fault.Invalid) {
		t.Errorf("relative path: %v", err)
	}
	now = now.Add(dialogLife + time.Second)
	if _, kind := get(file, false); kind != fault.Denied {
		t.Error("an expired token was accepted")
	}
}
