package logfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestLogStaysWithinItsBounds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := &File{path: filepath.Join(dir, "helix.log"), max: 1000, keep: 3, age: time.Hour}
	line := strings.Repeat("x", 99) + "\n"
	for range 200 {
		if n, err := l.Write([]byte(line)); n != len(line) || err != nil {
			t.Fatal(n, err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, _ = l.Write([]byte("after the end"))
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 3 {
		t.Fatalf("%d files, %v; want 3", len(files), err)
	}
	for _, f := range files {
		st, err := f.Info()
		if err != nil || st.Size() > 1000 || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %d bytes, mode %v, %v", f.Name(), st.Size(), st.Mode(), err)
		}
	}
}

func TestLogThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	l := &File{path: filepath.Join(t.TempDir(), "missing", "helix.log"), max: 10, keep: 1, age: time.Hour}
	if n, err := l.Write([]byte("lost")); n != 4 || err != nil {
		t.Fatal(n, err)
	}
}
