package scheduler

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/scheduler/cadence"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helix/backend/testkit"
)

const killEnv = "HELIX_SCHEDULER_CHILD"

// killSetup is the configuration shared by parent and child.
type killSetup struct {
	Path, URL string
	Real      time.Time // real time at which the fast clock showed Wall
	Wall      time.Time
	Speed     time.Duration // factor of the clock
}

// fastClock is an accelerated clock that several processes share.
type fastClock struct {
	killSetup
	start time.Time
}

func (c fastClock) Wall() time.Time {
	return c.killSetup.Wall.Add(time.Since(c.Real) * c.Speed).UTC()
}
func (c fastClock) Mono() time.Duration { return time.Since(c.start) * c.Speed }
func (c fastClock) After(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTimer(d / c.Speed)
	return t.C, func() { t.Stop() }
}

// killTarget is a target whose runs are rows and whose effects are counted by the parent. An
// idempotent target repeats its effect after a kill; for others the outcome is unknown.
type killTarget struct {
	db         *storage.DB
	url        string
	idempotent bool
	speed      time.Duration
	ended      func(uuid.UUID)
}

func (t *killTarget) Check(_ context.Context, target Target) (Target, error) { return target, nil }

func (t *killTarget) Enqueue(tx *storage.Tx, o Occurrence) (uuid.UUID, error) {
	id := storage.NewID()
	key := fmt.Sprintf("%s|%d", o.ScheduleID, o.DueAt.UnixMicro())
	if !t.idempotent {
		key += fmt.Sprintf("|%d", o.Attempt)
	}
	_, err := tx.Exec(`INSERT INTO kill_runs (id, key, attempt, name, status) VALUES (?, ?, ?, ?, 'queued')`, id, key, o.Attempt, o.Name)
	return id, err
}

func (t *killTarget) set(id uuid.UUID, from, to string) (ok bool) {
	err := t.db.Write(context.Background(), func(tx *storage.Tx) error {
		r, err := tx.Exec(`UPDATE kill_runs SET status = ? WHERE id = ? AND status = ?`, to, id, from)
		if err != nil {
			return err
		}
		n, err := r.RowsAffected()
		ok = n == 1
		return err
	})
	return ok && err == nil
}

func (t *killTarget) Start(id uuid.UUID) {
	var key, status, name string
	var attempt int
	err := t.db.Read(context.Background(), func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT key, status, attempt, name FROM kill_runs WHERE id = ?`, id).Scan(&key, &status, &attempt, &name)
	})
	if err != nil {
		return
	}
	defer t.ended(id)
	switch {
	case status == "running" && !t.idempotent:
		t.set(id, "running", "unknown") // killed between intent and outcome
		return
	case status == "queued":
		if !t.set(id, "queued", "running") {
			return
		}
	case status != "running":
		return
	}
	if strings.Contains(name, "flaky") && attempt == 0 {
		t.set(id, "running", "failed")
		return
	}
	if strings.Contains(name, "slow") {
		time.Sleep(90 * time.Second / t.speed)
	}
	resp, err := http.PostForm(t.url, url.Values{"key": {key}})
	if err != nil {
		t.set(id, "running", "failed")
		return
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	t.set(id, "running", "success")
}

func (t *killTarget) State(ctx context.Context, id uuid.UUID) (st TargetState, err error) {
	err = t.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT status FROM kill_runs WHERE id = ?`, id).Scan(&st.Status)
	})
	switch st.Status {
	case "unknown":
		st.Status, st.Unknown, st.Error = "failed", true, &RunError{Kind: "internal", Message: "nobody knows"}
	case "failed":
		st.Error = &RunError{Kind: "unavailable", Message: "not now"}
	}
	return st, err
}

func (t *killTarget) Cancel(_ context.Context, id uuid.UUID, _ string) error {
	t.set(id, "queued", "cancelled")
	return nil // runs end by themselves
}

// killService opens the database of a setup with a scheduler on it.
func killService(k killSetup) (*Service, *storage.DB, error) {
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	root := &storagetest.Root{Key: bytes.Repeat([]byte{7}, storage.RootKeySize)}
	db, err := storage.Open(context.Background(), storage.Options{Path: k.Path, Keys: storage.NewKeys(root), Logger: quiet})
	if err != nil {
		return nil, nil, err
	}
	err = db.Write(context.Background(), func(tx *storage.Tx) error {
		_, err := tx.Exec(`CREATE TABLE IF NOT EXISTS kill_runs (id BLOB PRIMARY KEY, key TEXT NOT NULL, attempt INTEGER NOT NULL, name TEXT NOT NULL, status TEXT NOT NULL) STRICT`)
		return err
	})
	s := New(db, Options{Logger: quiet, Clock: fastClock{k, time.Now()}, Zone: func() string { return "UTC" }, MaxPerUser: 100})
	s.Register("skill", &killTarget{db, k.URL, true, k.Speed, s.Ended}, "skill", "")
	s.Register("tool", &killTarget{db, k.URL, false, k.Speed, s.Ended}, "tool", "")
	return s, db, err
}

// serveKillChild runs the scheduler until the parent kills it or exits.
func serveKillChild() bool {
	text := os.Getenv(killEnv)
	if text == "" {
		return false
	}
	var k killSetup
	if err := json.Unmarshal([]byte(text), &k); err != nil {
		panic(err)
	}
	s, _, err := killService(k)
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(3)
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(4)
	}()
	fmt.Println("ready")
	if err := s.Run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
	}
	return true
}

// effects counts the effects of targets.
type effects struct {
	mu    sync.Mutex
	count map[string]int
}

func (e *effects) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	key := r.PostFormValue("key")
	e.mu.Lock()
	defer e.mu.Unlock()
	e.count[key]++
}

func long() bool { return os.Getenv("HELIX_LONG") != "" }

// TestKill kills a scheduler at random moments. Each due time has exactly one chain of rows; an idempotent
// effect happened once, others at most once, and where it did not happen the run says so.
func TestKill(t *testing.T) {
	t.Parallel()
	testkit.SkipRaced(t, "a process of the test has no time for anything")
	kills, speed := 50, time.Duration(240)
	if long() {
		kills, speed = 1000, 60 // a minute is a second
	}
	seen := &effects{count: map[string]int{}}
	web := httptest.NewServer(seen)
	t.Cleanup(web.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	path := filepath.Join(storagetest.Dir(t), "helix.db")
	storagetest.Blank(t, path)
	k := killSetup{Path: path, URL: web.URL, Real: time.Now(), Wall: time.Date(2026, 3, 28, 23, 30, 0, 0, time.UTC), Speed: speed}
	s, db, err := killService(k)
	if err != nil {
		t.Fatal(err)
	}
	ctx := storagetest.Ctx(t, db)
	makeKillSchedules(t, ctx, s)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}

	text, err := json.Marshal(k)
	if err != nil {
		t.Fatal(err)
	}
	for range kills {
		cmd := exec.Command(os.Args[0], "-test.run=^$")
		cmd.Env = append(os.Environ(), killEnv+"="+string(text), "GOCOVERDIR="+t.TempDir())
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
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
		if _, err := out.Read(make([]byte, 5)); err != nil {
			t.Fatalf("the child does not begin: %v", err)
		}
		time.Sleep(time.Duration(rand.IntN(400)) * time.Millisecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = in.Close()
		if rand.IntN(20) == 0 {
			time.Sleep(2 * time.Minute / speed) // no run lasts longer than a due time waits
		}
	}

	if s, db, err = killService(k); err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rest(t, ctx, s, db)
	checkKills(t, ctx, s, seen, kills)
}

// makeKillSchedules creates 40 schedules of all kinds.
func makeKillSchedules(t *testing.T, ctx context.Context, s *Service) {
	t.Helper()
	cadences := []json.RawMessage{
		cronUTC("* * * * *"), cronUTC("*/2 * * * *"), every(time.Minute), every(90 * time.Second), every(5 * time.Minute),
		mustJSON(map[string]string{"type": "cron", "expression": "*/3 * * * *", "timezone": "Europe/Berlin"}),
		cronUTC("0,7,11,30 * * * *"), nil,
	}
	for i := range 40 {
		cadence := cadences[i%len(cadences)]
		if cadence == nil {
			cadence = onceAt(s.now().Add(30 * time.Minute)) // relative to now, not to the first schedule: the clock is fast
		}
		p := CreateParams{
			Name: fmt.Sprintf("%d", i), Cadence: cadence, Target: Target{Kind: []string{"skill", "tool"}[i/8%2]},
			MissedPolicy: []string{"skip", "once", "all"}[i%3], Overlap: []string{"skip", "queue", "cancelPrevious", "skip"}[i%4], AutoDisableAfter: ptr(0),
			Retry: &Retry{Max: 2, BaseSecs: 10, CapSecs: 20}, JitterSecs: int64(i % 5 / 4 * 20),
		}
		if i%7 == 3 {
			p.Name += " flaky"
		}
		if i%9 == 5 {
			p.Name += " slow"
		}
		if _, err := s.Create(ctx, p); err != nil {
			t.Fatal(err)
		}
	}
}

// rest lets active runs end without starting others.
func rest(t *testing.T, ctx context.Context, s *Service, db *storage.DB) {
	t.Helper()
	// Disable everything and wait for active runs. Pending retries are dropped.
	var list ListResult
	for off := 0; off == 0 || off < list.Total; off += 100 {
		var err error
		if list, err = s.List(ctx, ListParams{Limit: 100, Offset: off}); err != nil {
			t.Fatal(err)
		}
		for _, c := range list.Schedules {
			if _, err := s.Pause(ctx, ScheduleParams{c.ScheduleID}); err != nil && !fault.Is(err, fault.Conflict) {
				t.Fatal(err)
			}
		}
	}
	run, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(run) }()
	testkit.Eventually(t, "runs that are not over", func() (left int) {
		err := db.Read(ctx, func(tx *storage.Tx) error {
			return tx.QueryRow(`SELECT count(*) FROM schedule_runs WHERE target_run_id IS NOT NULL AND ` + open).Scan(&left)
		})
		if err != nil {
			t.Fatal(err)
		}
		return left
	}, func(left int) bool { return left == 0 })
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func checkKills(t *testing.T, ctx context.Context, s *Service, seen *effects, kills int) {
	t.Helper()
	m := &sim{t: t, db: s.db, ctx: ctx, s: s}
	list, err := s.List(ctx, ListParams{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	stats := map[string]int{}
	known := map[string]bool{}
	for _, c := range list.Schedules {
		rows := m.rows(c.ScheduleID)
		dues, chains := checkAccounted(t, m, c, rows)
		stats["due times"] += dues
		for due, chain := range chains {
			for _, r := range chain {
				stats[r.Trigger+" "+r.Status]++
			}
			key := fmt.Sprintf("%s|%d", c.ScheduleID, due.UnixMicro())
			if c.Target.Kind == "skill" {
				known[key] = true
				last := chain[len(chain)-1]
				if n := seen.count[key]; last.Status == "success" && n < 1 {
					t.Errorf("%s %v: success without its effect", c.Name, due)
				}
				continue
			}
			for _, r := range chain {
				key := fmt.Sprintf("%s|%d", key, r.Attempt)
				known[key] = true
				n := seen.count[key]
				if n > 1 || r.Status == "success" && n != 1 || n == 0 && r.Status == "success" {
					t.Errorf("%s %v #%d %s: %d effects", c.Name, due, r.Attempt, r.Status, n)
				}
				if n == 1 {
					stats["side effects"]++
				}
			}
		}
	}
	for key := range seen.count {
		if !known[key] {
			t.Errorf("an effect without a row: %s", key)
		}
	}
	t.Logf("%d kills: %v", kills, stats)
	if stats["due times"] < 5*kills || stats["due success"] == 0 || stats["due missed"] == 0 {
		t.Errorf("too little happened: %v", stats)
	}
}

// checkAccounted compares a schedule's rows with its cadence: each due time up to the last
// accounted one has one chain of attempts, or is covered by a row that stands for several. It
// returns the number of due times, and the chains.
func checkAccounted(t testing.TB, m *sim, c Schedule, rows []Run) (int, map[time.Time][]Run) {
	t.Helper()
	var through time.Time
	if err := m.db.Read(m.ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT last_due_at FROM schedule_state WHERE schedule_id = ?`, c.ScheduleID).Scan(storage.Time(&through))
	}); err != nil {
		t.Fatal(err)
	}
	cad, err := cadence.New(c.Cadence, c.CreatedAt, 0)
	if err != nil {
		t.Fatal(err)
	}
	chains := map[time.Time][]Run{}
	var spans []Run
	for _, r := range rows {
		if r.Trigger == "manual" {
			continue
		}
		if r.MissedCount != nil {
			spans = append(spans, r)
			continue
		}
		chains[r.DueAt] = append(chains[r.DueAt], r)
		if isOpen(r.Status) && r.TargetRunID != nil {
			t.Errorf("%s %v: still %s", c.Name, r.DueAt, r.Status)
		}
	}
	n, matched := 0, 0
	for d, ok := cad.Next(c.CreatedAt); ok && !d.At.After(through); d, ok = cad.Next(d.At) {
		n++
		chain := chains[d.At]
		in := slices.ContainsFunc(spans, func(r Run) bool { return !d.At.Before(r.DueAt) && !d.At.After(*r.LastMissedAt) })
		switch {
		case chain != nil:
			matched++
			if in {
				t.Errorf("%s %v: accounted twice", c.Name, d.At)
			}
			for i, r := range chain {
				if r.Attempt != i {
					t.Errorf("%s %v: attempt %d has number %d", c.Name, d.At, i, r.Attempt)
				}
				if i < len(chain)-1 && r.Status != "failed" {
					t.Errorf("%s %v: tried again after %s", c.Name, d.At, r.Status)
				}
			}
			if chain[0].Trigger == "catchup" && c.MissedPolicy == "skip" {
				t.Errorf("%s %v: ran late under the policy skip", c.Name, d.At)
			}
		case !in:
			t.Errorf("%s: %v is lost", c.Name, d.At)
		}
	}
	if matched != len(chains) {
		t.Errorf("%s: %d rows of times that were never due", c.Name, len(chains)-matched)
	}
	return n, chains
}
