package rootfs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"helix/backend/fault"
)

type world struct{ base, granted, secret, data string }

func setup(t *testing.T) world {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := world{base, filepath.Join(base, "docs"), filepath.Join(base, "docs-private"), filepath.Join(base, "docs", "helix")}
	for _, d := range []string{w.granted, w.secret, w.data, filepath.Join(w.granted, "sub")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{filepath.Join(w.granted, "a.txt"), filepath.Join(w.granted, "sub", "b.txt"), filepath.Join(w.secret, "s.txt"), filepath.Join(w.data, "key")} {
		if err := os.WriteFile(f, []byte("text of "+filepath.Base(f)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func TestReadBelowGrant(t *testing.T) {
	t.Parallel()
	w := setup(t)
	f := New([]string{w.granted}, []string{w.data})
	for _, p := range []string{"a.txt", "sub/b.txt", "./sub//b.txt"} {
		b, err := f.Read(w.granted+"/"+p, 100)
		if err != nil || !strings.HasPrefix(string(b), "text of ") {
			t.Errorf("Read %s = %q, %v", p, b, err)
		}
	}
	if _, err := f.Read(filepath.Join(w.granted, "none"), 100); !fault.Is(err, fault.NotFound) {
		t.Errorf("missing file: %v", err)
	}
	if _, err := f.Read(filepath.Join(w.granted, "a.txt"), 3); !fault.Is(err, fault.Limit) {
		t.Errorf("large file: %v", err)
	}
	one := New([]string{filepath.Join(w.granted, "a.txt")}, nil)
	if _, err := one.Read(filepath.Join(w.granted, "a.txt"), 100); err != nil {
		t.Errorf("granted file: %v", err)
	}
	if _, err := one.Read(filepath.Join(w.granted, "sub", "b.txt"), 100); !fault.Is(err, fault.Denied) {
		t.Errorf("sibling of a granted file: %v", err)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	w := setup(t)
	link := func(target, name string) string {
		p := filepath.Join(w.granted, name)
		if err := os.Symlink(target, p); err != nil {
			t.Skip("no symbolic links here")
		}
		return p
	}
	f := New([]string{w.granted}, []string{w.data})
	cases := map[string]struct {
		path string
		why  error
	}{
		"link to a file outside": {link("/etc/passwd", "passwd"), ErrLink},
		"link to a file inside":  {link(filepath.Join(w.granted, "a.txt"), "inside"), ErrLink},
		"below a linked folder":  {link(w.secret, "out") + "/s.txt", ErrLink},
		"dot dot":                {w.granted + "/../docs-private/s.txt", ErrNotGranted},
		"dot dot back in":        {w.granted + "/sub/../a.txt", ErrNotGranted},
		"relative":               {"a.txt", ErrNotGranted},
		"empty":                  {"", ErrNotGranted},
		"same prefix":            {filepath.Join(w.secret, "s.txt"), ErrNotGranted},
		"absolute elsewhere":     {"/etc/passwd", ErrNotGranted},
		"NUL":                    {w.granted + "/a.txt\x00", ErrNotGranted},
		"a folder":               {filepath.Join(w.granted, "sub"), ErrNotRegular},
		"forbidden folder":       {filepath.Join(w.data, "key"), ErrForbidden},
		"case of the grant":      {strings.ToUpper(w.granted) + "/a.txt", ErrNotGranted},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := f.Read(c.path, 100)
			if !fault.Is(err, fault.Denied) || !errors.Is(err, c.why) {
				t.Fatalf("Read(%q) = %v, want denied: %v", c.path, err, c.why)
			}
		})
	}
	if _, err := f.List(w.data, 10); !errors.Is(err, ErrForbidden) {
		t.Errorf("List of a forbidden folder: %v", err)
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	w := setup(t)
	f := New([]string{w.granted}, []string{w.data})
	got, err := f.List(w.granted, 10)
	if err != nil || len(got) != 3 {
		t.Fatalf("List = %v, %v", got, err)
	}
	if got[0].Name != "a.txt" || got[0].Size != int64(len("text of a.txt")) || got[0].IsDir || got[0].Modified.IsZero() || !got[2].IsDir {
		t.Fatalf("List = %+v", got)
	}
	if got, err := f.List(filepath.Join(w.granted, "sub"), 10); err != nil || len(got) != 1 {
		t.Fatalf("List sub = %v, %v", got, err)
	}
	if _, err := f.List(w.granted, 2); !fault.Is(err, fault.Limit) {
		t.Fatalf("List over the limit: %v", err)
	}
}

func TestWrite(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	dir := filepath.Join(base, "state")
	if err := Write(dir, "notes/a.txt", []byte("12345"), 8); err != nil {
		t.Fatal(err)
	}
	if err := Write(dir, "notes/a.txt", []byte("12345678"), 8); err != nil {
		t.Fatalf("replacing within the quota: %v", err)
	}
	if err := Write(dir, "b.txt", []byte("1"), 8); !fault.Is(err, fault.Limit) {
		t.Fatalf("over the quota: %v", err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "notes", "a.txt"))
	if err != nil || string(b) != "12345678" {
		t.Fatalf("content = %q, %v", b, err)
	}
	for _, rel := range []string{"", ".", "..", "../x", "/etc/x", "a/../../x", "notes", "x\x00"} {
		if err := Write(dir, rel, nil, 100); !fault.Is(err, fault.Denied) {
			t.Errorf("Write(%q) = %v, want denied", rel, err)
		}
	}
	if err := os.Symlink(base, filepath.Join(dir, "out")); err == nil {
		if err := Write(dir, "out/x", []byte("x"), 100); !fault.Is(err, fault.Denied) {
			t.Errorf("through a link: %v", err)
		}
		if _, err := os.Stat(filepath.Join(base, "x")); err == nil {
			t.Error("a file was written outside")
		}
	}
	left, err := filepath.Glob(filepath.Join(dir, "*", ".*.tmp"))
	if err != nil || len(left) != 0 {
		t.Errorf("temporary files left: %v", left)
	}
}
