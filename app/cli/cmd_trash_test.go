package cli

import (
	"regexp"
	"strings"
	"testing"
)

func TestTrashOnTheCommandLine(t *testing.T) {
	t.Parallel()
	file, data := skillFiles(t, skillTexts), dataFolder(t)
	do := func(code int, want string, args ...string) result {
		t.Helper()
		r := helix(t, data, "", args...)
		if r.code != code || !strings.Contains(r.stdout+r.stderr, want) {
			t.Fatalf("%v: %+v, want %q", args, r, want)
		}
		return r
	}
	do(0, "Nothing in the trash", "trash")
	for range 2 {
		do(0, "", "tool", "create", file("counter.js"))
		do(0, "", "tool", "delete", "counter")
	}
	do(0, "", "memory", "add", "The spare key is with Nora.")
	list := do(0, "", "memory", "list", "--json")
	do(0, "", "memory", "delete", regexp.MustCompile(`"id":"([0-9a-f-]{36})"`).FindStringSubmatch(list.stdout)[1])
	do(0, "The spare key is with Nora.", "trash", "list", "NORA")
	if r := do(0, "terminal", "trash", "--kind", "tool"); strings.Contains(r.stdout, "Nora") || strings.Count(r.stdout, "counter") != 2 {
		t.Errorf("%s", r.stdout)
	}
	do(2, "kind", "trash", "--kind", "tools")
	do(3, "Nothing in the trash is named", "trash", "restore", "nothing")
	r := do(7, "2 items in the trash are named", "trash", "restore", "Counter")
	ids := regexp.MustCompile(`[0-9a-f-]{36}`).FindAllString(r.stderr, -1)
	do(0, "1 restored", "trash", "restore", ids[0])
	do(4, "Permanently delete tool counter?", "trash", "purge", "counter")
	do(0, "1 permanently deleted", "trash", "purge", ids[1], "--yes")
	do(4, "Permanently delete 1 memory?", "trash", "empty")
	do(0, "The trash is empty", "trash", "empty", "--kind", "tool")
	do(0, "1 permanently deleted", "trash", "empty", "--yes")
	do(0, "Nothing in the trash", "trash")
}
