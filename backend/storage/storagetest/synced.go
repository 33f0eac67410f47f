package storagetest

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helix/backend/storage"
)

var capital = regexp.MustCompile(`[A-Z]`)

// Hashed fails the test unless every column of table that a definition hash covers is merged
// manually when two devices changed it. If such a field merged automatically, the hash would be
// outdated, and so would the permissions bound to it. hashed is the struct that the hash covers;
// the columns are named like its JSON fields.
func Hashed(t testing.TB, table string, hashed any) {
	t.Helper()
	i := slices.IndexFunc(storage.Synced, func(s storage.SyncedTable) bool { return s.Table == table })
	if i < 0 {
		t.Fatalf("%s is not in storage.Synced", table)
	}
	merge := map[string]storage.Merge{}
	for _, f := range storage.Synced[i].Fields {
		merge[f.Name] = f.Merge
	}
	names := []string{"definition_hash"}
	for _, f := range reflect.VisibleFields(reflect.TypeOf(hashed)) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, capital.ReplaceAllStringFunc(name, func(c string) string { return "_" + strings.ToLower(c) }))
	}
	for _, name := range names {
		if m, ok := merge[name]; ok && m != storage.ManualMerge || !ok && name != "kind" {
			t.Errorf("%s.%s is under the definition hash and merges as %q, want %q", table, name, m, storage.ManualMerge)
		}
	}
}
