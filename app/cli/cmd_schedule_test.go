package cli

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"helix/backend/scheduler"
)

// TestScheduleNext needs no backend and no data folder.
func TestScheduleNext(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "not there")
	r := helix(t, dir, "", "schedules", "next", "--cron", "30 2 * * *", "--tz", "Europe/Berlin", "-n", "3")
	lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
	if r.code != 0 || len(lines) != 3 || !strings.Contains(lines[0], " +0") || !strings.Contains(r.stderr, "every day at 02:30, Berlin") {
		t.Errorf("exit %d: %s%s", r.code, r.stdout, r.stderr)
	}
	r = helix(t, dir, "", "schedule", "next", "--every", "90s", "-n", "100", "--json")
	var p scheduler.PreviewResult
	if err := json.Unmarshal([]byte(r.stdout), &p); err != nil || len(p.Times) != 100 || p.Description != "every 90 seconds" {
		t.Errorf("exit %d, %v: %s", r.code, err, r.stderr)
	}
	for _, bad := range []struct {
		args []string
		want string
	}{
		{[]string{"--cron", "60 * * * *"}, "field 1 (minute): 60 is outside 0–59"},
		{[]string{"--cron", "0 0 30 2 *"}, "this date never occurs"},
		{[]string{"--cron", "0 9 * * *", "--tz", "IST"}, "did you mean Asia/Kolkata?"},
		{[]string{"--every", "5s"}, "shortest interval is 60 s"},
		{[]string{"--at", "2001-01-01T00:00:00Z"}, "time has passed"},
		{[]string{"--at", "soon"}, "isn't a time"},
		{[]string{}, "Set the times"},
		{[]string{"--cron", "0 9 * * *", "-n", "101"}, "it must be 1 to 100"},
	} {
		r := helix(t, dir, "", append([]string{"schedule", "next"}, bad.args...)...)
		if r.code != 2 || !strings.Contains(r.stderr, bad.want) {
			t.Errorf("%v: exit %d, %s", bad.args, r.code, r.stderr)
		}
	}
}

// TestScheduleCommands creates a schedule for a real tool, runs it and lists its runs.
func TestScheduleCommands(t *testing.T) {
	t.Parallel()
	dir := dataFolder(t)
	data := filepath.Join(dir, "data")
	if r := helix(t, data, "", "tool", "templates", "--new", "Text Counter"); r.code != 0 {
		t.Fatalf("exit %d: %s", r.code, r.stderr)
	}
	do := func(code int, args ...string) result {
		t.Helper()
		r := helix(t, data, "", append([]string{"schedule"}, args...)...)
		if r.code != code {
			t.Errorf("%v: exit %d, want %d: %s%s", args, r.code, code, r.stdout, r.stderr)
		}
		return r
	}
	do(2, "create", "--name", "count", "--tool", "Text Counter", "--cron", "61 * * * *", "--input", `{"text":"a b"}`)
	do(2, "create", "--name", "count", "--cron", "0 9 * * *")
	do(3, "create", "--name", "count", "--tool", "No such tool", "--cron", "0 9 * * *")
	do(0, "create", "--name", "fade", "--decay", "--cron", "0 0 * * * *")
	do(0, "create", "--name", "count", "--tool", "Text Counter", "--cron", "0 9 * * 1-5", "--tz", "Europe/Berlin", "--input", `{"text":"a b"}`, "--missed", "skip", "--grace", "2h", "--notify", "always")
	list := do(0, "list")
	if !strings.Contains(list.stdout, "weekdays at 09:00, Berlin") {
		t.Errorf("list: %s", list.stdout)
	}
	var s scheduler.Schedule
	if err := json.Unmarshal([]byte(do(0, "show", "count", "--json").stdout), &s); err != nil || s.MissedPolicy != "skip" || s.GraceSecs != 7200 || s.Notification != "always" || s.Target.Kind != "tool" {
		t.Errorf("%+v, %v", s, err)
	}
	if r := do(0, "run", "count"); !strings.Contains(r.stdout, "2") {
		t.Errorf("run: %s%s", r.stdout, r.stderr)
	}
	if h := do(0, "history", "count"); !strings.Contains(h.stdout, "manual") || !strings.Contains(h.stdout, "success") {
		t.Errorf("history: %s", h.stdout)
	}
	do(0, "edit", "count", "--every", "1h")
	do(0, "pause", "count")
	do(0, "resume", "count")
	do(0, "pause-all", "--for", "1h")
	do(0, "resume-all")
	do(3, "show", "nobody")
	do(2, "cancel", "x")
	do(3, "cancel", s.ScheduleID.String())
	do(4, "delete", "count")
	do(0, "delete", "count", "--yes")
	do(3, "show", "count")
}
