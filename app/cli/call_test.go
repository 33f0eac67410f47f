package cli

import (
	"regexp"
	"strings"
	"testing"
)

func TestDeleteNamesDependentsAndRestoreTakesNames(t *testing.T) {
	t.Parallel()
	file, data := skillFiles(t, skillTexts), t.TempDir()
	do := func(code int, args ...string) result {
		t.Helper()
		r := helix(t, data, "", args...)
		if r.code != code {
			t.Fatalf("%q: exit %d, want %d: %s%s", args, r.code, code, r.stdout, r.stderr)
		}
		return r
	}
	do(0, "tool", "create", file("counter.js"))
	do(0, "rpc", "skills.create_composite", `{"skill":`+skillTexts["calls.json"]+`}`)
	do(0, "rpc", "skills.create_composite", `{"skill":{"name":"Outer","steps":[{"stepId":"m","toolType":"map","items":"$.input.list","steps":[{"stepId":"s","toolType":"skill","toolName":"Calls"}]}]}}`)
	do(0, "schedule", "create", "--name", "Nightly", "--tool", "counter", "--every", "1h")
	do(0, "schedule", "create", "--name", "Weekly", "--skill", "Calls", "--every", "24h")

	for _, c := range []struct {
		kind, name string
		needs      []string
	}{
		{"tool", "counter", []string{"The schedule Nightly needs it.", "The skill Calls needs it."}},
		{"skill", "Calls", []string{"The schedule Weekly needs it.", "The skill Outer needs it."}},
		{"schedule", "Weekly", nil},
	} {
		r := do(4, c.kind, "delete", c.name)
		for _, want := range append(c.needs, "helix "+c.kind+" delete '"+c.name+"' --yes") {
			if !strings.Contains(r.stderr, want) {
				t.Errorf("%s: %q lacks %q", c.kind, r.stderr, want)
			}
		}
		if n := strings.Count(r.stderr, "needs it"); n != len(c.needs) {
			t.Errorf("%s: %s", c.kind, r.stderr)
		}
		do(0, c.kind, "show", c.name)
		do(0, c.kind, "rm", c.name, "--yes")
		do(3, c.kind, "show", c.name)
		do(0, c.kind, "restore", c.name)
		do(0, c.kind, "show", c.name)
		do(3, c.kind, "restore", c.name)
	}
	do(0, "skill", "delete", "Outer") // nothing needs it
	do(0, "skill", "restore", "outer")

	// Two deleted schedules of a name are told apart by their ids.
	do(0, "schedule", "remove", "Nightly", "--yes")
	do(0, "schedule", "create", "--name", "Nightly", "--tool", "counter", "--every", "1h")
	do(0, "schedule", "delete", "Nightly", "--yes")
	r := do(7, "schedule", "restore", "Nightly")
	ids := regexp.MustCompile(`[0-9a-f-]{36}`).FindAllString(r.stderr, -1)
	if len(ids) != 2 {
		t.Fatalf("%q names not two ids", r.stderr)
	}
	do(0, "schedule", "restore", ids[0])
}

func TestMemoryRestoreTakesTheBeginningOfTheText(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	for _, text := range []string{"The spare key is with Nora.", "The spare tire is flat."} {
		if r := helix(t, data, "", "memory", "add", text); r.code != 0 {
			t.Fatal(r)
		}
	}
	list := helix(t, data, "", "memory", "list", "--json")
	for _, id := range regexp.MustCompile(`"id":"([0-9a-f-]{36})"`).FindAllStringSubmatch(list.stdout, -1) {
		if r := helix(t, data, "", "memory", "delete", id[1]); r.code != 0 {
			t.Fatal(r)
		}
	}
	for _, c := range []struct {
		ref    string
		code   int
		stderr string
	}{{"the spare key", 0, "1 restored"}, {"The spare key", 3, "No deleted memory begins"}, {"nothing", 3, "--trash"}} {
		if r := helix(t, data, "", "memory", "restore", c.ref); r.code != c.code || !strings.Contains(r.stderr, c.stderr) {
			t.Errorf("%s: %+v", c.ref, r)
		}
	}
	if r := helix(t, data, "", "memory", "add", "The spare tire is new."); r.code != 0 {
		t.Fatal(r)
	}
	list = helix(t, data, "", "memory", "list", "--json")
	for _, id := range regexp.MustCompile(`"id":"([0-9a-f-]{36})"`).FindAllStringSubmatch(list.stdout, -1) {
		if r := helix(t, data, "", "memory", "rm", id[1]); r.code != 0 {
			t.Fatal(r)
		}
	}
	if r := helix(t, data, "", "memory", "restore", "The spare tire"); r.code != 7 || !strings.Contains(r.stderr, "Use an id") {
		t.Errorf("%+v", r)
	}
}
