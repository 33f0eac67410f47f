package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// database returns the path of the database in a data folder.
func database(t *testing.T, dir string) string {
	t.Helper()
	found := ""
	if err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if filepath.Base(path) == "helix.db" {
			found = path
		}
		return err
	}); err != nil || found == "" {
		t.Fatalf("no database: %v", err)
	}
	return found
}

func TestCommandsSayThatTheDatabaseIsMissing(t *testing.T) {
	t.Parallel()
	dir := dataFolder(t)
	if r := helix(t, dir, "", "memory", "add", "The boiler is serviced in May."); r.code != 0 {
		t.Fatal(r)
	}
	if r := helix(t, dir, "", "backup", "create"); r.code != 0 {
		t.Fatal(r)
	}
	if err := os.Remove(database(t, dir)); err != nil {
		t.Fatal(err)
	}
	if r := helix(t, dir, "", "memory", "list"); r.code == 0 || !strings.Contains(r.stderr, "helix.db is missing") || !strings.Contains(r.stderr, "backup") {
		t.Errorf("list: %+v", r)
	}
	if r := helix(t, dir, "", "backup", "list"); r.code != 0 || !strings.Contains(r.stdout, ".zip") {
		t.Errorf("backup list: %+v", r)
	}
	if r := helix(t, dir, "", "db", "start-new"); r.code == 0 {
		t.Errorf("start-new did not ask: %+v", r)
	}
	if r := helix(t, dir, "", "db", "start-new", "--yes"); r.code != 0 {
		t.Errorf("start-new: %+v", r)
	}
	if r := helix(t, dir, "", "memory", "list"); r.code != 0 || strings.Contains(r.stdout, "boiler") {
		t.Errorf("list afterwards: %+v", r)
	}
	if r := helix(t, t.TempDir(), "", "memory", "list"); r.code != 0 {
		t.Errorf("another folder: %+v", r)
	}
}

func TestSalvageExitsWithAnErrorWhenRowsAreMissing(t *testing.T) {
	t.Parallel()
	dir := dataFolder(t)
	for _, text := range []string{"The boiler is serviced in May.", "The lease ends in June."} {
		if r := helix(t, dir, "", "memory", "add", text); r.code != 0 {
			t.Fatal(r)
		}
	}
	path := database(t, dir)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := helix(t, dir, "", "db", "salvage"); r.code != 0 {
		t.Errorf("a bit of the header: %+v", r)
	}
	if r := helix(t, dir, "", "memory", "list"); r.code != 0 || strings.Count(r.stdout, "The ") != 2 {
		t.Errorf("list: %+v", r)
	}
	if err := os.Truncate(path, int64(len(b))/2/4096*4096); err != nil {
		t.Fatal(err)
	}
	if r := helix(t, dir, "", "db", "salvage"); r.code == 0 || !strings.Contains(r.stderr, "--accept-loss") && !strings.Contains(r.stderr, "could be read") {
		t.Errorf("half a file: %+v", r)
	}
	if st, err := os.Stat(path); err != nil || st.Size() >= int64(len(b)) {
		t.Errorf("the database was replaced: %v %v", st.Size(), err)
	}
}
