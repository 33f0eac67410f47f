package footprint

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"helix/backend/testkit"
)

func TestParseMapping(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]mapping{
		"00400000-0055d000 r-xp 00000000 fe:00 10424563                           /usr/bin/helix":           {0x400000, 0x55d000, "/usr/bin/helix"},
		"7f0000000000-7f0000001000 r--p 00000000 fe:00 7                          /usr/lib/libX.so.1":       {0x7f0000000000, 0x7f0000001000, "/usr/lib/libX.so.1"},
		"00400000-0055d000 rw-p 00000000 fe:00 10424563                           /usr/bin/helix":           {}, // can be written to
		"00400000-0055d000 r--s 00000000 fe:00 10424563                           /usr/share/icons.cache":   {}, // shared
		"00400000-0055d000 r-xp 00000000 fe:00 10424563                           /usr/bin/helix (deleted)": {}, // may be another file by now
		"00400000-0055d000 r-xp 00000000 00:00 0                                  [vdso]":                   {},
		"00400000-0055d000 r-xp 00000000 00:00 0 ":                                                          {},
	} {
		if m, ok := parseMapping(line); !ok || m != want {
			t.Errorf("%s: %+v, %v", line, m, ok)
		}
	}
	for _, line := range []string{"", "Rss:                1332 kB", "VmFlags: rd ex mr mw me sd", "no-address r-xp 00000000 fe:00 1 /x"} {
		if _, ok := parseMapping(line); ok {
			t.Errorf("%q begins a mapping", line)
		}
	}
}

func TestPagesOfAFileAreUnmappedAndReadTheSameAgain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "library")
	content := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := unix.Mmap(int(f.Fd()), 0, len(content), unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_POPULATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(b) //nolint:errcheck // the test ends
	m, kB := resident(t, path)
	if kB != len(content)>>10 {
		t.Fatalf("%d kB are mapped", kB)
	}
	m.unmap()
	if _, kB := resident(t, path); kB != 0 {
		t.Errorf("%d kB are still mapped", kB)
	}
	if !bytes.Equal(b, content) {
		t.Error("the content changed")
	}
}

func TestTheProgramRunsOnWithoutItsPages(t *testing.T) {
	if !testkit.Alone(t) {
		return
	}
	for range 20 {
		Release()
	}
}

// resident returns the mapping of a file, and how many kB of it the process has in memory.
func resident(t *testing.T, path string) (mapping, int) {
	t.Helper()
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var m mapping
	for s := bufio.NewScanner(f); s.Scan(); {
		if next, ok := parseMapping(s.Text()); ok {
			m = next
		} else if n, ok := strings.CutPrefix(s.Text(), "Rss:"); ok && m.path == path {
			v, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(n), " kB"))
			if err != nil {
				t.Fatal(err)
			}
			return m, v
		}
	}
	t.Fatal("the file is not mapped")
	return m, 0
}
