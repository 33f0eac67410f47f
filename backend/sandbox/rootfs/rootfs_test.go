package rootfs

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"helix/backend/fault"
)

type world struct{ base, docs, secret, data, own string }

func setup(t *testing.T) world {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := world{base, filepath.Join(base, "docs"), filepath.Join(base, "private"), filepath.Join(base, "docs", "helix"), filepath.Join(base, "docs", "helix", "own")}
	for _, d := range []string{w.docs, w.secret, w.data, w.own, filepath.Join(w.docs, "sub")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{w.docs, filepath.Join(w.docs, "sub"), w.secret, w.data, w.own} {
		if err := os.WriteFile(filepath.Join(d, "a.txt"), []byte("text of "+filepath.Base(d)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// openers are the ways to open; the portable one is tested on every system.
var openers = map[string]func(f *FS, path string) (*os.File, error){
	"open": func(f *FS, path string) (*os.File, error) {
		file, _, err := f.Open(path)
		return file, err
	},
	"walk": func(_ *FS, path string) (*os.File, error) {
		file, err := walk(path)
		if err != nil {
			return nil, pathError(err)
		}
		return file, nil
	},
}

func TestRead(t *testing.T) {
	t.Parallel()
	w := setup(t)
	f := New([]string{w.data}, w.own)
	for _, p := range []string{"a.txt", "sub/a.txt", "./sub//a.txt", "helix/own/a.txt"} {
		b, err := f.Read(w.docs+"/"+p, 100)
		if err != nil || !strings.HasPrefix(string(b), "text of ") {
			t.Errorf("Read %s = %q, %v", p, b, err)
		}
	}
	for path, kind := range map[string]fault.Kind{"none": fault.NotFound, "a.txt/x": fault.NotFound, "sub": fault.Invalid} {
		if _, err := f.Read(filepath.Join(w.docs, path), 100); !fault.Is(err, kind) {
			t.Errorf("Read %s: %v, want %s", path, err, kind)
		}
	}
	if _, err := f.Read(filepath.Join(w.docs, "a.txt"), 3); !fault.Is(err, fault.Limit) {
		t.Errorf("large file: %v", err)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	w := setup(t)
	link := func(target, name string) string {
		p := filepath.Join(w.docs, name)
		if err := os.Symlink(target, p); err != nil {
			t.Skip("no symbolic links here")
		}
		return p
	}
	f := New([]string{w.data}, w.own)
	cases := map[string]struct {
		path string
		why  error
	}{
		"link to a file outside": {link("/etc/passwd", "passwd"), ErrLink},
		"link to a file inside":  {link(filepath.Join(w.docs, "a.txt"), "inside"), ErrLink},
		"below a linked folder":  {link(w.secret, "out") + "/a.txt", ErrLink},
		"link to a forbidden":    {link(w.data, "data") + "/a.txt", ErrLink},
		"dot dot":                {w.docs + "/../private/a.txt", ErrNotReal},
		"relative":               {"a.txt", ErrNotReal},
		"empty":                  {"", ErrNotReal},
		"NUL":                    {w.docs + "/a.txt\x00", ErrNotReal},
		"forbidden folder":       {w.data, ErrForbidden},
		"in a forbidden folder":  {filepath.Join(w.data, "a.txt"), ErrForbidden},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := f.Read(c.path, 100); !fault.Is(err, fault.Denied) || !errors.Is(err, c.why) {
				t.Errorf("Read(%q) = %v, want denied: %v", c.path, err, c.why)
			}
			if _, err := f.List(c.path, 100); !fault.Is(err, fault.Denied) || !errors.Is(err, c.why) {
				t.Errorf("List(%q) = %v, want denied: %v", c.path, err, c.why)
			}
			if !errors.Is(c.why, ErrLink) {
				return
			}
			if _, err := openers["walk"](f, c.path); !errors.Is(err, c.why) {
				t.Errorf("walk(%q) = %v, want %v", c.path, err, c.why)
			}
		})
	}
	// A link in place of the excepted folder does not grant access.
	if _, err := New([]string{w.data}, filepath.Join(w.docs, "data")).Read(filepath.Join(w.data, "a.txt"), 100); !errors.Is(err, ErrForbidden) {
		t.Errorf("excepted through a link: %v", err)
	}
}

// TestExchangedWhileOpening swaps a folder and a link to another one as fast as it can: either the
// folder's file is read or nothing.
func TestExchangedWhileOpening(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("open folders cannot be renamed here")
	}
	w := setup(t)
	sub, aside, out := filepath.Join(w.docs, "sub"), filepath.Join(w.docs, "aside"), filepath.Join(w.docs, "out")
	if err := os.Symlink(w.secret, out); err != nil {
		t.Skip("no symbolic links here")
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			for _, move := range [][2]string{{sub, aside}, {out, sub}, {sub, out}, {aside, sub}} {
				if err := os.Rename(move[0], move[1]); err != nil {
					t.Error(err)
					return
				}
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	f := New(nil, "")
	for name, open := range openers {
		read, refused := 0, 0
		for range 3000 {
			file, err := open(f, filepath.Join(sub, "a.txt"))
			if err != nil {
				refused++
				continue
			}
			b := make([]byte, 100)
			n, _ := file.Read(b)
			file.Close()
			if read++; string(b[:n]) != "text of sub" {
				t.Fatalf("%s: read %q through an exchanged link", name, b[:n])
			}
		}
		t.Logf("%s: %d read, %d refused", name, read, refused)
	}
	close(stop)
	wg.Wait()
}

func TestList(t *testing.T) {
	t.Parallel()
	w := setup(t)
	f := New([]string{w.data}, "")
	got, err := f.List(w.docs, 10)
	if err != nil || len(got) != 3 {
		t.Fatalf("List = %v, %v", got, err)
	}
	if got[0].Name != "a.txt" || got[0].Size != int64(len("text of docs")) || got[0].IsDir || got[0].Modified.IsZero() || !got[2].IsDir {
		t.Fatalf("List = %+v", got)
	}
	if _, err := f.List(w.docs, 2); !fault.Is(err, fault.Limit) {
		t.Fatalf("List over the limit: %v", err)
	}
	if _, err := f.List(filepath.Join(w.docs, "a.txt"), 2); !fault.Is(err, fault.Invalid) {
		t.Fatalf("List of a file: %v", err)
	}
}
