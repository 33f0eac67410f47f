package backend

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/scheduler"
	"helix/backend/skills"
	"helix/backend/skills/machine"
)

const scheduledCrashEnv = "HELIX_SCHEDULED_CRASH" // folder and port, with a space between

// TestScheduledCrashProcess is the process that TestScheduledToolAsksAfterCrash kills; on its own
// it does nothing.
func TestScheduledCrashProcess(t *testing.T) {
	dir, port, ok := strings.Cut(os.Getenv(scheduledCrashEnv), " ")
	if !ok {
		t.Skip("a part of TestScheduledToolAsksAfterCrash")
	}
	c := &chain{Backend: startWith(t, testOptions(dir)), t: t, port: port}
	c.ctx = c.as(c.LocalUser())
	c.asker("send")
	notices := make(chan scheduler.Notification, 8)
	defer bus.Subscribe(c.Bus, func(_ uuid.UUID, n scheduler.Notification) { notices <- n })()
	s, err := c.Scheduler.Create(c.ctx, scheduler.CreateParams{Name: "Send", Target: scheduler.Target{Kind: "tool", Name: "send"}, Cadence: json.RawMessage(`{"type":"interval","everySecs":86400}`)})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the first one is refused, and requests the permission
		if _, err := c.Scheduler.RunNow(c.ctx, scheduler.RunNowParams{ScheduleID: s.ScheduleID}); err != nil {
			t.Fatal(err)
		}
		select {
		case <-notices:
		case <-time.After(patience):
			t.Fatal("the process goes on")
		}
		c.answer("approve", "always")
	}
}

// TestScheduledToolAsksAfterCrash kills the process while a scheduled tool changes something
// outside. The next start notifies and asks a person, runs the next due time nevertheless, and the
// answer settles the run.
func TestScheduledToolAsksAfterCrash(t *testing.T) {
	t.Parallel()
	if os.Getenv(scheduledCrashEnv) != "" {
		t.Skip("a process of the test")
	}
	if runtime.GOOS == "windows" {
		t.Skip("a killed process cannot be told from a failed one here")
	}
	dir := t.TempDir()
	prepare(t, dir)
	var asked atomic.Int64
	first := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			close(first)
			<-r.Context().Done()
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte(`{"n":7}`)) //nolint:errcheck // the caller reads it
	}))
	t.Cleanup(srv.Close)
	var out bytes.Buffer
	cmd := exec.Command(os.Args[0], "-test.run=^TestScheduledCrashProcess$", "-test.timeout=10m")
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), scheduledCrashEnv+"="+dir+" "+srv.URL[strings.LastIndexByte(srv.URL, ':')+1:]), &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-first:
		_ = cmd.Process.Kill()
		<-ended
	case err := <-ended:
		t.Fatalf("the tool was not called: %v\n%s", err, &out)
	}

	c := &chain{Backend: startWith(t, testOptions(dir)), t: t}
	c.ctx = c.as(c.LocalUser())
	news := make(chan scheduler.RunEvent, 64)
	defer bus.Subscribe(c.Bus, func(_ uuid.UUID, e scheduler.RunEvent) { news <- e })()
	until := func(ok func(r scheduler.Run) bool) scheduler.Run {
		t.Helper()
		timer := time.NewTimer(patience)
		defer timer.Stop()
		for {
			list, err := c.Scheduler.Runs(c.ctx, scheduler.RunsParams{})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range list.Runs {
				if ok(r) {
					return r
				}
			}
			select {
			case <-news:
			case <-timer.C:
				t.Fatalf("the runs stand otherwise: %+v", list.Runs)
			}
		}
	}
	asks := until(func(r scheduler.Run) bool { return r.Status == "waiting" && r.Reason == machine.WaitUnknown })
	told, err := c.Scheduler.Notices(c.ctx, struct{}{})
	if err != nil || len(told.Notices) == 0 {
		t.Fatal(told, err)
	}
	if n := told.Notices[len(told.Notices)-1]; n.RunID == nil || *n.RunID != asks.RunID || n.Title != "Send needs your decision" {
		t.Fatalf("%+v", n)
	}
	next, err := c.Scheduler.RunNow(c.ctx, scheduler.RunNowParams{ScheduleID: asks.ScheduleID})
	if err != nil {
		t.Fatal(err)
	}
	until(func(r scheduler.Run) bool { return r.RunID == next.RunID && r.Status == "success" })
	// It is the only question of its run, so its step need not be specified.
	if _, err := c.Skills.Answer(c.ctx, skills.AnswerParams{ExecutionID: *asks.TargetRunID, Decision: machine.Done, Output: json.RawMessage(`{"n":8}`)}); err != nil {
		t.Fatal(err)
	}
	until(func(r scheduler.Run) bool { return r.RunID == asks.RunID && r.Status == "success" })
	if n := asked.Load(); n != 2 {
		t.Errorf("the tool was called %d times", n)
	}
}
