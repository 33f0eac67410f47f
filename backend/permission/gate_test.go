package permission

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOnlyPermissionAccessesGrants checks that no other package reads or writes grants, except storage, which lists the tables.
func TestOnlyPermissionAccessesGrants(t *testing.T) {
	t.Parallel()
	tables := []string{"capability_grants", "capability_denials", "pending_approvals"}
	n := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if d.Name() == "permission" || d.Name() == "testdata" {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || filepath.Base(path) == "synced.go" {
			return nil
		}
		n++
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, line := range strings.Split(string(b), "\n") {
			for _, table := range tables {
				for _, verb := range []string{"FROM " + table, "INTO " + table, "UPDATE " + table, "JOIN " + table} {
					if strings.Contains(line, verb) {
						t.Errorf("%s touches %s: ask permission.Service instead", path, table)
					}
				}
			}
		}
		return nil
	})
	if err != nil || n < 10 {
		t.Fatalf("looked at %d files: %v", n, err)
	}
}
