package cli

import (
	"regexp"
	"strings"
	"testing"

	"helix/backend/cloudsync/hubtest"
	"helix/backend/testkit"
)

func TestTwoDevicesSyncFromTheCommandLine(t *testing.T) {
	testkit.SkipRaced(t, "each command ends before the next begins")
	t.Parallel()
	first, second, dsn := dataFolder(t), dataFolder(t), hubtest.Database(t)
	do := func(dir string, code int, want, stdin string, args ...string) string {
		t.Helper()
		r := helix(t, dir, stdin, append([]string{"sync"}, args...)...)
		if out := r.stdout + r.stderr; r.code != code || !strings.Contains(out, want) {
			t.Fatalf("%v: %+v, want %d and %q", args, r, code, want)
		}
		return r.stdout
	}
	do(first, 0, "off", "", "status")
	do(first, 6, "isn't connected", "", "now")
	do(first, 6, "isn't connected", "", "status", "--check")
	do(first, 2, "Don't give the connection string as an argument", "", "setup", "--admin-dsn", dsn)
	do(first, 2, "not a connection string", "what?", "setup", "--admin-dsn", "-")
	signIn := []string{"setup", "--email", "a@example.com", "--publishable-key", "sb_publishable_x", "--project-url"}
	do(first, 2, "Enter the https address", "", append(signIn, "http://example.com")...)
	do(first, 6, "Couldn't reach the hub", "", append(signIn, "http://127.0.0.1:1")...)
	do(first, 0, "Connected as device", dsn, "setup", "--admin-dsn", "-", "--name", "desk")
	do(first, 7, "already connected", hubtest.Database(t), "setup", "--admin-dsn", "-")
	do(first, 0, "The hub is up to date", dsn, "setup", "--admin-dsn", "-")
	if r := helix(t, first, "", "memory", "add", "The spare key is with Nora."); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	do(first, 0, "sent", "", "now")
	link := do(first, 0, "helix-sync:", "", "invite", "laptop")
	do(second, 2, "neither a link", "", "enroll", "nothing")
	do(second, 0, "Connected as device", link, "enroll", "-", "--name", "laptop")
	third := dataFolder(t)
	do(third, 4, "wrong or has expired", link, "enroll", "-")
	do(second, 0, "received", "", "now")
	if r := helix(t, second, "", "memory", "list"); !strings.Contains(r.stdout, "Nora") {
		t.Errorf("%+v", r)
	}
	if r := helix(t, second, "", "memory", "search", "spare"); !strings.Contains(r.stdout, "Nora") {
		t.Errorf("%+v", r)
	}
	id := regexp.MustCompile(`"id":"([0-9a-f-]{36})"`).FindStringSubmatch(helix(t, first, "", "memory", "list", "--json").stdout)[1]
	if r := helix(t, first, "", "memory", "edit", id, "--text", "The spare bicycle is with Otto."); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	do(first, 0, "sent", "", "now")
	do(second, 0, "received", "", "now")
	if r := helix(t, second, "", "memory", "search", "bicycle"); !strings.Contains(r.stdout, "Otto") {
		t.Errorf("the changed text is not found: %+v", r)
	}
	do(first, 0, "0 failed", dsn, "selftest", "--admin-dsn", "-")
	do(second, 0, "last sync", "", "status")
	list := do(second, 0, "laptop", "", "devices")
	if !strings.Contains(list, "desk") || !strings.Contains(list, "this device") {
		t.Errorf("%s", list)
	}
	do(second, 0, "No conflicts", "", "conflicts")
	do(second, 0, "Everything is synced", "", "dead-letters")
	do(second, 0, "Paused", "", "pause")
	do(second, 0, "paused", "", "status")
	do(second, 0, "Resumed", "", "resume")
	laptop := ""
	for line := range strings.Lines(list) {
		if strings.Contains(line, "laptop") {
			laptop = strings.Fields(line)[0]
		}
	}
	do(first, 3, "No such device", "", "revoke", "018f3c5e-0000-7000-8000-000000000000", "--yes")
	do(first, 0, "Its access has ended", "", "revoke", laptop, "--yes")
	do(second, 4, "removed", "", "now")
	code := do(first, 0, "-", "", "recovery-code", "--yes")
	do(first, 0, "key version 2", "", "rotate-key", "--yes")
	do(first, 0, "sent", "", "now")
	do(third, 0, "Connected as device", code, "enroll", "-")
	do(third, 0, "received", "", "now")
	if r := helix(t, third, "", "memory", "list"); !strings.Contains(r.stdout, "Otto") {
		t.Errorf("after recovery: %+v", r)
	}
	do(second, 0, "Disconnected", "", "disconnect", "--yes")
	do(second, 7, "already has your data", dsn, "setup", "--admin-dsn", "-")
	if r := helix(t, second, "", "memory", "list"); !strings.Contains(r.stdout, "Otto") {
		t.Errorf("after disconnecting: %+v", r)
	}
}
