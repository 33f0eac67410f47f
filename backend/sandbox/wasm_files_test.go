package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"helix/backend/fault"
	"helix/backend/sandbox/rootfs"
)

// folderHost gives a module the folder at path as /docs, as tools do: each path is checked and
// opened exactly.
func folderHost(path string) HostFunc {
	files := rootfs.New(nil, "")
	return func(_ context.Context, op string, req json.RawMessage) (json.RawMessage, error) {
		var p PathRequest
		if err := json.Unmarshal(req, &p); err != nil {
			return nil, fault.Invalidf("no path")
		}
		if op == OpFolders {
			return jsonObject(FoldersResponse{[]Folder{{Name: "/docs", Path: path}}}), nil
		}
		if p.Path != path && !strings.HasPrefix(p.Path, path+string(filepath.Separator)) {
			return nil, fault.Deniedf("Not this one.").WithDetails(Refusal{Reason: ReasonCapability, Capability: "filesystem:read(" + p.Path + ")"})
		}
		switch op {
		case OpReadBytes:
			b, err := files.Read(p.Path, 4<<20)
			if err != nil {
				return nil, err
			}
			return jsonObject(BytesResponse{Content: b, Modified: "2026-01-02T03:04:05Z"}), nil
		case OpList:
			list, err := files.List(p.Path, 100)
			if err != nil {
				return nil, err
			}
			out := ListResponse{Entries: []DirEntry{}}
			for _, e := range list {
				out.Entries = append(out.Entries, DirEntry{e.Name, e.Size, e.IsDir, "2026-01-02T03:04:05Z"})
			}
			return jsonObject(out), nil
		}
		return nil, fault.Invalidf("no operation %q", op)
	}
}

// docs returns a folder with some files and a secret next to it.
func docs(t testing.TB) string {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(base, "docs")
	for name, text := range map[string]string{"docs/a.txt": "text of a", "docs/sub/b.bin": "\x00\xff\x01", "secret.txt": "secret", "docs-other/c.txt": "other"} {
		p := filepath.Join(base, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o700), os.WriteFile(p, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFilesFromGo(t *testing.T) {
	t.Parallel()
	wasm := fromGo(t, "program")
	host := folderHost(docs(t))
	ask := func(in string) (string, *Error) {
		res, err := tryModule(t, wasm, Call{Input: json.RawMessage(in), Host: host})
		return string(res.Output), err
	}
	for in, want := range map[string]string{
		`{"do":"read","path":"/docs/a.txt"}`:          `{"text":"text of a"}`,
		`{"do":"read","path":"/docs/./sub/../a.txt"}`: `{"text":"text of a"}`,
		`{"do":"list","path":"/docs"}`:                `{"names":["a.txt","sub"]}`,
		`{"do":"list","path":"/docs/sub"}`:            `{"names":["b.bin"]}`,
		`{"do":"stat","path":"/docs/a.txt"}`:          `{"dir":false,"size":9,"time":"2026-01-02T03:04:05Z"}`,
		`{"do":"stat","path":"/docs/sub"}`:            `{"dir":true,"size":0,"time":"2026-01-02T03:04:05Z"}`,
	} {
		if got, err := ask(in); err != nil || got != want {
			t.Errorf("%s: %s, %v", in, got, err)
		}
	}
	for in, says := range map[string]string{
		`{"do":"read","path":"/docs/../secret.txt"}`:        "secret.txt",
		`{"do":"read","path":"/docs/none"}`:                 "no such file",
		`{"do":"read","path":"/etc/passwd"}`:                "/etc/passwd",
		`{"do":"read","path":"/docs-other/c.txt"}`:          "c.txt",
		`{"do":"read","path":"/docs/sub/../../secret.txt"}`: "secret.txt",
		`{"do":"write","path":"/docs/new.txt"}`:             "Read-only",
		`{"do":"write","path":"/docs/a.txt"}`:               "Read-only",
		`{"do":"remove","path":"/docs/a.txt"}`:              "Read-only",
	} {
		got, err := ask(in)
		if err == nil || err.Class != ClassTrap || !strings.Contains(strings.ToLower(err.Message), strings.ToLower(says)) {
			t.Errorf("%s: %s, %v", in, got, err)
		}
	}
}

func TestFilesFromC(t *testing.T) {
	t.Parallel()
	res := runModule(t, fromC(t, "files"), Call{Host: folderHost(docs(t))})
	if got := string(res.Output); got != `{"first":"text of a","from5":"of a","size":9,"names":["a.txt","sub"]}` {
		t.Errorf("output %s", got)
	}
	if res.Usage.HostCalls == 0 {
		t.Error("opening is no host call?")
	}
	// Without a host, or with one that provides nothing, there are no folders.
	for _, host := range []Host{nil, HostFunc(func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
		return nil, fault.Invalidf("Unknown operation.")
	})} {
		if err := wantModuleClass(t, fromC(t, "files"), Call{Host: host}, ClassTrap); !strings.Contains(err.Message, "exit 5: open") {
			t.Errorf("%v", err)
		}
	}
}

// TestRefusedPaths opens forbidden paths in the forms in which a guest can write them.
func TestRefusedPaths(t *testing.T) {
	t.Parallel()
	dir := docs(t)
	special := map[string]errno{}
	if runtime.GOOS != "windows" {
		for name, target := range map[string]string{
			"passwd": "/etc/passwd", "up": "..", "secret": "../secret.txt", "inside": "a.txt", "loop": "loop", "environ": "/proc/self/environ",
		} {
			if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
			special[name] = errnoAcces
		}
		special["up/secret.txt"] = errnoAcces
		special["inside/x"] = errnoAcces
		if l, err := net.Listen("unix", filepath.Join(dir, "s")); err == nil {
			t.Cleanup(func() { l.Close() })
			special["s"] = errnoAcces
		}
	}
	inRun(t, Call{Host: folderHost(dir)}, func(w *moduleRun, m guestMemory) {
		open := func(fd uint64, path string, flags, rights uint64) (errno, uint64) {
			m.WriteString(1000, path)
			e := wasiCall(w, m, "path_open", fd, 1, 1000, uint64(len(path)), flags, rights, rights, 0, 500)
			got, _ := m.ReadUint32Le(500)
			return e, uint64(got)
		}
		for path, want := range special {
			for _, p := range []string{path, "./" + path, "sub/../" + path} {
				if e, _ := open(3, p, 0, rightRead); e != want {
					t.Errorf("open %q = %d, want %d", p, e, want)
				}
			}
		}
		for path, want := range map[string]errno{
			"..": errnoNotcapable, "../secret.txt": errnoNotcapable, "sub/../../secret.txt": errnoNotcapable, "../docs/a.txt": errnoNotcapable,
			"/etc/passwd": errnoNotcapable, "/": errnoNotcapable, "//a.txt": errnoNotcapable, "..\\secret.txt": errnoNotcapable, "a.txt\x00": errnoNotcapable,
			"../docs-other/c.txt": errnoNotcapable, "": errnoNoent, "A.TXT": errnoNoent, "a.txt/": errnoOK, "\xff": errnoIlseq,
			"none": errnoNoent, "none/../a.txt": errnoOK, "sub/b.bin": errnoOK, "a.txt/../a.txt": errnoOK, "./././a.txt": errnoOK, ".": errnoOK, "sub": errnoOK,
			"a\u0301.txt": errnoNoent, "ａ.txt": errnoNoent, strings.Repeat("x/", 2100): errnoNametoo,
		} {
			e, fd := open(3, path, 0, rightRead)
			if e != want {
				t.Errorf("open %q = %d, want %d", path, e, want)
			}
			if e == errnoOK {
				wasiCall(w, m, "fd_close", fd)
			}
		}
		for _, c := range []struct {
			flags, rights uint64
			want          errno
		}{
			{openCreate, rightRead, errnoRofs}, {openTruncate, rightRead, errnoRofs}, {openCreate | openExclusive, rightRead, errnoRofs}, {0, rightWrite, errnoRofs},
			{openDirectory, rightRead, errnoNotdir}, {0, math.MaxUint64, errnoRofs}, {0, 0, errnoOK},
		} {
			if e, _ := open(3, "a.txt", c.flags, c.rights); e != c.want {
				t.Errorf("flags %d, rights %x: %d, want %d", c.flags, c.rights, e, c.want)
			}
		}
		// A subfolder can be opened and listed, but not left.
		e, sub := open(3, "sub", openDirectory, rightRead)
		if e != errnoOK {
			t.Fatal(e)
		}
		if e, _ := open(sub, "b.bin", 0, rightRead); e != errnoOK {
			t.Errorf("below: %d", e)
		}
		if e, _ := open(sub, "../a.txt", 0, rightRead); e != errnoNotcapable {
			t.Errorf("out of it: %d", e)
		}
		// It is not a preopened folder, so it has no name.
		if e := wasiCall(w, m, "fd_prestat_get", sub, 0); e != errnoBadf {
			t.Errorf("prestat: %d", e)
		}
		if e := wasiCall(w, m, "fd_renumber", 3, sub); e != errnoNotsup {
			t.Errorf("renumber: %d", e)
		}
		for name, p := range map[string][]uint64{
			"path_create_directory": {3, 1000, 1}, "path_remove_directory": {3, 1000, 1}, "path_unlink_file": {3, 1000, 1}, "path_rename": {3, 1000, 1, 3, 1000, 1},
			"path_symlink": {1000, 1, 3, 1000, 1}, "path_link": {3, 0, 1000, 1, 3, 1000, 1}, "path_filestat_set_times": {3, 0, 1000, 1, 0, 0, 0},
			"fd_allocate": {4, 0, 0}, "fd_filestat_set_size": {4, 0}, "fd_filestat_set_times": {4, 0, 0, 0},
		} {
			if e := wasiCall(w, m, name, p...); e != errnoRofs {
				t.Errorf("%s = %d", name, e)
			}
		}
	})
	if b, err := os.ReadFile(filepath.Join(dir, "a.txt")); err != nil || string(b) != "text of a" {
		t.Errorf("a.txt is %q, %v", b, err)
	}
}

func TestReadingFiles(t *testing.T) {
	t.Parallel()
	content := []byte("0123456789")
	big := bytes.Repeat([]byte("x"), 4<<20)
	host := HostFunc(func(_ context.Context, op string, req json.RawMessage) (json.RawMessage, error) {
		switch {
		case op == OpFolders:
			return jsonObject(FoldersResponse{[]Folder{{Path: "/srv/docs"}, {Name: "/b", Path: "/srv/b"}, {Name: "/c", Path: "relative"}}}), nil
		case op == OpList:
			return jsonObject(ListResponse{[]DirEntry{{Name: "ab", Size: 1}, {Name: "cdef", IsDir: true}, {Name: "ü", Size: 2}}}), nil
		case strings.Contains(string(req), "big"):
			return jsonObject(BytesResponse{Content: big}), nil
		case strings.Contains(string(req), "odd"):
			return json.RawMessage(`"what"`), nil
		}
		return jsonObject(BytesResponse{Content: content}), nil
	})
	inRun(t, Call{Host: host}, func(w *moduleRun, m guestMemory) {
		name := func(fd uint64) string {
			if wasiCall(w, m, "fd_prestat_get", fd, 0) != errnoOK {
				return ""
			}
			n, _ := m.ReadUint32Le(4)
			if e := wasiCall(w, m, "fd_prestat_dir_name", fd, 100, uint64(n)-1); e != errnoNametoo {
				t.Errorf("a short buffer: %d", e)
			}
			wasiCall(w, m, "fd_prestat_dir_name", fd, 100, uint64(n))
			b, _ := m.Read(100, n)
			return string(b)
		}
		if a, b, c := name(3), name(4), name(5); a != "/srv/docs" || b != "/b" || c != "" {
			t.Errorf("folders %q %q %q", a, b, c)
		}
		open := func(path string) (errno, uint64) {
			m.WriteString(1000, path)
			e := wasiCall(w, m, "path_open", 3, 0, 1000, uint64(len(path)), 0, 0, 0, 0, 500)
			fd, _ := m.ReadUint32Le(500)
			return e, uint64(fd)
		}
		e, fd := open("f")
		if e != errnoOK || fd != 5 {
			t.Fatal(e, fd)
		}
		if e, _ := open("odd"); e != errnoIO {
			t.Errorf("an odd answer: %d", e)
		}
		read := func(fd, n uint64) string {
			m.WriteUint32Le(0, 2000)
			m.WriteUint32Le(4, uint32(n))
			if e := wasiCall(w, m, "fd_read", fd, 0, 1, 8); e != errnoOK {
				t.Fatal(e)
			}
			got, _ := m.ReadUint32Le(8)
			b, _ := m.Read(2000, got)
			return string(b)
		}
		seek := func(delta int64, whence uint64) (errno, uint64) {
			e := wasiCall(w, m, "fd_seek", fd, uint64(delta), whence, 600)
			at, _ := m.ReadUint64Le(600)
			return e, at
		}
		if a, b, c := read(fd, 4), read(fd, 100), read(fd, 100); a != "0123" || b != "456789" || c != "" {
			t.Errorf("read %q %q %q", a, b, c)
		}
		for _, c := range []struct {
			delta  int64
			whence uint64
			e      errno
			at     uint64
		}{{2, 0, errnoOK, 2}, {3, 1, errnoOK, 5}, {-1, 2, errnoOK, 9}, {1000, 0, errnoOK, 1000}, {-1, 0, errnoInval, 0}, {-11, 2, errnoInval, 0}, {math.MaxInt64, 1, errnoOverflow, 0}, {math.MinInt64, 1, errnoInval, 0}, {0, 3, errnoInval, 0}, {5, 0, errnoOK, 5}} {
			if e, at := seek(c.delta, c.whence); e != c.e || e == errnoOK && at != c.at {
				t.Errorf("seek(%d, %d) = %d, %d", c.delta, c.whence, e, at)
			}
		}
		if got := read(fd, 2); got != "56" {
			t.Errorf("after seeking %q", got)
		}
		for at, want := range map[uint64]string{0: "012", 8: "89", 10: "", math.MaxInt64: ""} {
			m.WriteUint32Le(0, 2000)
			m.WriteUint32Le(4, 3)
			if e := wasiCall(w, m, "fd_pread", fd, 0, 1, at, 8); e != errnoOK {
				t.Errorf("pread at %d: %d", at, e)
			}
			n, _ := m.ReadUint32Le(8)
			if b, _ := m.Read(2000, n); string(b) != want {
				t.Errorf("pread at %d: %q", at, b)
			}
		}
		if e := wasiCall(w, m, "fd_pread", fd, 0, 1, math.MaxUint64, 8); e != errnoInval {
			t.Errorf("pread at -1: %d", e)
		}
		// A folder, read in pieces with a small buffer.
		var names []string
		for cookie, left := uint64(0), 10; left > 0; left-- {
			if e := wasiCall(w, m, "fd_readdir", 3, 3000, 40, cookie, 8); e != errnoOK {
				t.Fatal(e)
			}
			n, _ := m.ReadUint32Le(8)
			if n < 24 {
				break
			}
			size, _ := m.ReadUint32Le(3016)
			next, _ := m.ReadUint64Le(3000)
			b, _ := m.Read(3024, size)
			names, cookie = append(names, string(b)), next
		}
		if !slices.Equal(names, []string{"ab", "cdef", "ü"}) {
			t.Errorf("names %q", names)
		}
		if e := wasiCall(w, m, "fd_readdir", 3, 3000, 100, math.MaxUint64, 8); e != errnoOK {
			t.Errorf("a cookie that was not given: %d", e)
		}
		if e := wasiCall(w, m, "fd_read", 3, 0, 1, 8); e != errnoIsdir {
			t.Errorf("reading a folder: %d", e)
		}
		// Open files are limited in total size and number.
		var opened []uint64
		for {
			e, fd := open("big")
			if e != errnoOK {
				if e != errnoNfile || len(opened) != 3 {
					t.Errorf("after %d large files: %d", len(opened), e)
				}
				break
			}
			opened = append(opened, fd)
		}
		wasiCall(w, m, "fd_close", opened[0])
		if e, fd := open("big"); e != errnoOK || fd != opened[0] {
			t.Errorf("after closing one: %d, %d", e, fd)
		}
		n := 0
		for {
			if e, _ := open("f"); e != errnoOK {
				if e != errnoNfile {
					t.Error(e)
				}
				break
			}
			n++
		}
		if n > maxOpen {
			t.Errorf("%d files", n)
		}
	})
	// Opening counts as a host call.
	w, _ := inRun(t, Call{Host: host, Limits: Limits{HostCalls: 2}}, func(w *moduleRun, m guestMemory) {
		m.WriteString(1000, "f")
		for i, want := range []errno{errnoOK, errnoOK, errnoNfile, errnoNfile} {
			if e := wasiCall(w, m, "path_open", 3, 0, 1000, 1, 0, 0, 0, 0, 500); e != want {
				t.Errorf("open %d: %d", i, e)
			}
		}
		if w.refusal == nil || w.refusal.Class != ClassHostDenied {
			t.Error("the refusal is not remembered")
		}
	})
	if w.usage.HostCalls != 2 {
		t.Errorf("%d host calls", w.usage.HostCalls)
	}
}
