package backend

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"helix/backend/cloudsync"
	"helix/backend/cloudsync/hubtest"
	"helix/backend/fault"
	"helix/backend/scheduler"
	"helix/backend/skills/machine"
	"helix/backend/testkit"
	"helix/backend/tools"
)

const leaseEnv = "HELIX_LEASE_PROCESS" // a leaseProcess

// leaseProcess is a device of TestOtherDeviceTakesOverAfterKill.
type leaseProcess struct {
	Dir, Port string
	Hub       string // of the first device
	Invite    string // of the second device
	Began     time.Time
}

// fastClock runs faster than the computer's clock, and equally in all processes.
type fastClock struct{ began, started time.Time }

const fastClockSpeed = 20

func (c fastClock) Wall() time.Time {
	return c.began.Add(fastClockSpeed * time.Since(c.began)).Round(0).UTC()
}
func (c fastClock) Mono() time.Duration { return fastClockSpeed * time.Since(c.started) }
func (c fastClock) After(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTimer(d / fastClockSpeed)
	return t.C, func() { t.Stop() }
}

func (p leaseProcess) open(t *testing.T) *chain {
	o := testOptions(p.Dir)
	o.clock = fastClock{p.Began, time.Now()}
	c := &chain{Backend: startWith(t, o), t: t, port: p.Port}
	c.ctx = c.as(c.LocalUser())
	return c
}

// TestLeaseProcess is a device of TestOtherDeviceTakesOverAfterKill; on its own it does nothing.
func TestLeaseProcess(t *testing.T) {
	text := os.Getenv(leaseEnv)
	if text == "" {
		t.Skip("a part of TestOtherDeviceTakesOverAfterKill")
	}
	var p leaseProcess
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	c := p.open(t)
	if p.Invite == "" {
		tool := c.allowed("send")
		if _, err := c.Sync.Setup(c.ctx, cloudsync.SetupParams{AdminDSN: p.Hub, Name: "A"}); err != nil {
			t.Fatal(err)
		}
		c.ctx = c.as(c.LocalUser())
		if _, err := c.Scheduler.Create(c.ctx, scheduler.CreateParams{
			Name: "Send", Target: scheduler.Target{Kind: "tool", ID: &tool.ID}, Cadence: json.RawMessage(`{"type":"interval","everySecs":60}`), Placement: &scheduler.Placement{Takeover: true},
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Sync.Coordinate(c.ctx, cloudsync.CoordinateParams{}); err != nil {
			t.Fatal(err)
		}
		made, err := c.Sync.Invite(c.ctx, cloudsync.InviteParams{})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("invite", made.Link)
	} else {
		if _, err := c.Sync.Enroll(c.ctx, cloudsync.EnrollParams{Code: p.Invite}); err != nil {
			t.Fatal(err)
		}
		c.ctx = c.as(c.LocalUser())
		if _, err := c.Sync.Coordinate(c.ctx, cloudsync.CoordinateParams{}); err != nil {
			t.Fatal(err)
		}
		list, err := c.Tools.List(c.ctx, tools.ListParams{})
		if err != nil || len(list.Tools) != 1 {
			t.Fatalf("%+v, %v", list, err)
		}
		if _, err := c.Tools.Execute(c.ctx, tools.ExecuteParams{ToolID: &list.Tools[0].ID}); !fault.Is(err, fault.Denied) { // grants do not travel
			t.Fatal(err)
		}
		c.answer("approve", "always")
		fmt.Println("ready")
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // until it is killed, or the test ends
}

// spawn starts the device in a process and returns it with its first line of output that has a prefix.
func (p leaseProcess) spawn(t *testing.T, prefix string) (cmd *exec.Cmd, line string) {
	t.Helper()
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command(os.Args[0], "-test.run=^TestLeaseProcess$", "-test.timeout=20m")
	cmd.Env = append(os.Environ(), leaseEnv+"="+string(text))
	stdin, err := cmd.StdinPipe() // open as long as this process lives
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Process.Kill() // it may have been killed before
		_ = cmd.Wait()
	})
	var all bytes.Buffer
	lines := bufio.NewScanner(io.TeeReader(out, &all))
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), prefix); ok {
			go io.Copy(io.Discard, out) //nolint:errcheck // ends with the process
			return cmd, strings.TrimSpace(rest)
		}
	}
	t.Fatalf("the process ended:\n%s", &all)
	return nil, ""
}

// Two backends on one hub may run a schedule. The one that holds the lease is killed during a run: the
// other one takes over, that run is not repeated, and when the first one is back it does not fire.
func TestOtherDeviceTakesOverAfterKill(t *testing.T) {
	t.Parallel()
	if os.Getenv(leaseEnv) != "" {
		t.Skip("a process of the test")
	}
	if runtime.GOOS == "windows" {
		t.Skip("a killed process cannot be told from a failed one here")
	}
	var calls atomic.Int64
	var hold atomic.Bool // the next call is not answered
	held := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		if hold.CompareAndSwap(true, false) {
			close(held)
			<-r.Context().Done()
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte(`{"n":7}`)) //nolint:errcheck // the caller reads it
	}))
	t.Cleanup(srv.Close)
	p := leaseProcess{Dir: t.TempDir(), Port: srv.URL[strings.LastIndexByte(srv.URL, ':')+1:], Hub: hubtest.Database(t), Began: time.Now()}
	prepare(t, p.Dir)
	a, invite := p.spawn(t, "invite")
	other := p
	other.Dir, other.Invite = t.TempDir(), invite
	prepare(t, other.Dir)
	b, _ := other.spawn(t, "ready")

	hold.Store(true)
	select {
	case <-held:
	case <-time.After(patience):
		t.Fatal("the first device runs nothing")
	}
	if err := a.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = a.Wait() // fails because it was killed
	before := calls.Load()
	hub, err := pgx.Connect(t.Context(), p.Hub)
	if err != nil {
		t.Fatal(err)
	}
	defer hub.Close(t.Context()) //nolint:errcheck // read to the end
	var holders int
	if err := hub.QueryRow(t.Context(), `select count(distinct device_id) from public.schedule_claims`).Scan(&holders); err != nil || holders != 1 {
		t.Fatalf("%d devices ran while the first one held the lease, %v", holders, err)
	}
	if _, err := hub.Exec(t.Context(), `update public.schedule_leases set expires_at = now() - interval '2 minutes'`); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the other device takes over", calls.Load, func(n int64) bool { return n >= before+2 })

	c := p.open(t) // the first device is back
	runs := func() []scheduler.Run {
		list, err := c.Scheduler.Runs(c.ctx, scheduler.RunsParams{Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		return list.Runs
	}
	byOther := func(list []scheduler.Run) (n int) {
		for _, r := range list {
			if r.Status == "success" && r.DeviceID != c.DB.Device().ID {
				n++
			}
		}
		return n
	}
	seen := calls.Load()
	testkit.Eventually(t, "the other device goes on", calls.Load, func(n int64) bool { return n >= seen+2 })
	testkit.Eventually(t, "its runs arrive", runs, func(list []scheduler.Run) bool { return byOther(list) >= 2 })
	if err := b.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = b.Wait() // fails because it was killed
	all, asked := runs(), 0
	byDue := map[string]scheduler.Run{}
	for _, r := range all {
		key := fmt.Sprint(r.DueAt.UnixMicro(), " ", r.Attempt)
		if former, twice := byDue[key]; twice {
			t.Errorf("two runs of one due time: %+v and %+v", former, r)
		}
		byDue[key] = r
		if r.Status == "waiting" && r.Reason == machine.WaitUnknown {
			asked++
		}
	}
	if asked != 1 {
		t.Errorf("%d runs wait for a decision; the killed one should: %+v", asked, all)
	}
	var claims, terms int64
	if err := hub.QueryRow(t.Context(), `select count(*), max(term) from public.schedule_claims`).Scan(&claims, &terms); err != nil || calls.Load() > claims || terms != 2 {
		t.Errorf("%d calls for %d due times on the hub, last term %d, %v", calls.Load(), claims, terms, err)
	}
}
