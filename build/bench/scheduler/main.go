// Command scheduler measures backend/scheduler in one run with its peers: the cron libraries
// gronx and robfig/cron, and plain transactions of the same database. It prints one line per
// measurement: name, value, unit, ratio to the peer, peer, separated by tabs. -only runs the
// measurements whose name contains a text. All of them take about three minutes, because they wait
// for due times.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"

	"helix/backend/identity"
	"helix/backend/scheduler"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helixbench/figures"
)

func main() {
	only := flag.String("only", "", "run the measures whose name contains this")
	flag.Parse()
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	for _, m := range []struct {
		name string
		fn   func()
	}{
		{"next", nextTimes}, {"preview", previews}, {"claim", claims}, {"start", starts}, {"catchup", catchUp}, {"long", longJobs}, {"idle", idle},
	} {
		if strings.Contains(m.name, *only) {
			m.fn()
		}
	}
}

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// clock runs faster than the system clock, and starts at a given time.
type clock struct {
	start time.Time
	wall  time.Time
	scale int
}

func (c *clock) Mono() time.Duration { return time.Since(c.start) * time.Duration(c.scale) }
func (c *clock) Wall() time.Time     { return c.wall.Add(c.Mono()) }
func (c *clock) After(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTimer(d / time.Duration(c.scale))
	return t.C, func() { t.Stop() }
}

// jobs is a target that records when it starts.
type jobs struct {
	s     *scheduler.Service
	clock *clock
	never func(name string) bool // runs that do not end

	mu      sync.Mutex
	due     map[uuid.UUID]scheduler.Occurrence
	late    []float64 // ms
	started []time.Time
	ended   map[uuid.UUID]bool
}

func (j *jobs) Check(_ context.Context, t scheduler.Target) (scheduler.Target, error) { return t, nil }

func (j *jobs) Enqueue(_ *storage.Tx, o scheduler.Occurrence) (uuid.UUID, error) {
	id := storage.NewID()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.due[id] = o
	return id, nil
}

func (j *jobs) Start(run uuid.UUID) {
	j.mu.Lock()
	o := j.due[run]
	j.late = append(j.late, ms(j.clock.Wall().Sub(o.DueAt)))
	j.started = append(j.started, time.Now())
	stays := j.never != nil && j.never(o.Name)
	if !stays {
		j.ended[run] = true
	}
	j.mu.Unlock()
	if !stays {
		go j.s.Ended(run)
	}
}

func (j *jobs) State(_ context.Context, run uuid.UUID) (scheduler.TargetState, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.ended[run] {
		return scheduler.TargetState{Status: "running"}, nil
	}
	return scheduler.TargetState{Status: "success", Output: json.RawMessage(`1`)}, nil
}

func (j *jobs) Cancel(_ context.Context, run uuid.UUID, _ string) error {
	j.mu.Lock()
	j.ended[run] = true
	j.mu.Unlock()
	go j.s.Ended(run)
	return nil
}

// bench is one scheduler with one database.
type bench struct {
	dir  string
	db   *storage.DB
	svc  *scheduler.Service
	jobs *jobs
	ctx  context.Context
	end  func()
}

func open(dir string, c *clock, lanes map[string]int) *bench {
	b := &bench{dir: dir}
	key := filepath.Join(dir, "key")
	root, err := os.ReadFile(key)
	if err != nil {
		root = storagetest.NewRoot().Key
		figures.Check(os.WriteFile(key, root, 0o600))
	}
	b.db, err = storage.Open(context.Background(), storage.Options{Path: filepath.Join(dir, "helix.db"), Keys: storage.NewKeys(&storagetest.Root{Key: root})})
	figures.Check(err)
	b.svc = scheduler.New(b.db, scheduler.Options{Clock: c, MaxPerUser: 100_000, MinInterval: -1, Lanes: lanes})
	b.jobs = &jobs{s: b.svc, clock: c, due: map[uuid.UUID]scheduler.Occurrence{}, ended: map[uuid.UUID]bool{}}
	b.svc.Register("tool", b.jobs, "tool", "Tools")
	b.ctx = identity.With(context.Background(), identity.Identity{User: b.db.LocalUser().ID, Session: uuid.New(), Scopes: identity.Admin.Closed(), Client: identity.ClientTerminal, Pipe: "memory"})
	return b
}

func (b *bench) run() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.svc.Run(ctx) }()
	b.end = func() { cancel(); figures.Check(<-ended) }
}

func (b *bench) close() {
	if b.end != nil {
		b.end()
	}
	figures.Check(b.db.Close())
}

func (b *bench) create(name, cadence string) {
	_, err := b.svc.Create(b.ctx, scheduler.CreateParams{Name: name, Target: scheduler.Target{Kind: "tool", Name: name}, Cadence: json.RawMessage(cadence)})
	figures.Check(err)
}

func folder() string {
	dir, err := os.MkdirTemp("", "helix-bench-scheduler-")
	figures.Check(err)
	return dir
}

func once(at time.Time) string {
	return fmt.Sprintf(`{"type":"once","at":%q}`, at.UTC().Format(time.RFC3339Nano))
}

func (b *bench) startedBy(n int, limit time.Duration) {
	for until := time.Now().Add(limit); ; time.Sleep(5 * time.Millisecond) {
		b.jobs.mu.Lock()
		have := len(b.jobs.started)
		b.jobs.mu.Unlock()
		if have >= n {
			return
		}
		if time.Now().After(until) {
			figures.Check(fmt.Errorf("%d of %d runs have started", have, n))
		}
	}
}

// claims measures claiming: many schedules that are due at the same moment.
func claims() {
	dir := folder()
	defer os.RemoveAll(dir)
	b := open(dir, &clock{start: time.Now(), wall: time.Now(), scale: 1}, map[string]int{"tool": 10_000})
	defer b.close()
	const n = 500
	at := time.Now().Add(10 * time.Second)
	for i := range n {
		b.create(fmt.Sprintf("c%d", i), once(at))
	}
	var raw []float64
	figures.Check(b.db.Write(b.ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`CREATE TABLE bench_rows (id BLOB PRIMARY KEY, at INTEGER, status TEXT) STRICT`)
		return err
	}))
	plain := func() {
		for range 200 {
			begun := time.Now()
			figures.Check(b.db.Write(b.ctx, func(tx *storage.Tx) error {
				_, err := tx.Exec(`INSERT INTO bench_rows (id, at, status) VALUES (?, ?, 'queued')`, storage.NewID(), tx.Now)
				return err
			}))
			raw = append(raw, ms(time.Since(begun)))
		}
	}
	plain()
	time.Sleep(time.Until(at) + 10*time.Millisecond)
	begun := time.Now()
	b.run()
	b.startedBy(n, time.Minute)
	each := ms(time.Since(begun)) / n
	plain()
	tx := figures.Quantile(raw, 0.5)
	figures.Print("claim_tx, mean of 500 due together", each, "ms", each/tx, "raw_tx")
	figures.Print("raw_tx", tx, "ms", 0, "")
}

// starts measures the time from due to started.
func starts() {
	dir := folder()
	defer os.RemoveAll(dir)
	b := open(dir, &clock{start: time.Now(), wall: time.Now(), scale: 1}, nil)
	defer b.close()
	b.run()
	b.create("one", once(time.Now().Add(2*time.Second)))
	b.startedBy(1, time.Minute)
	figures.Print("due_to_start, one schedule", b.jobs.late[0], "ms", 0, "")
	b.jobs.mu.Lock()
	b.jobs.late, b.jobs.started = nil, nil
	b.jobs.mu.Unlock()
	const n = 1000
	from := time.Now().Add(5 * time.Second)
	for i := range n {
		b.create(fmt.Sprintf("s%d", i), once(from.Add(time.Duration(i)*time.Minute/n)))
	}
	b.startedBy(n, 3*time.Minute)
	figures.Print("due_to_start_p95, 1,000 in a minute", figures.Quantile(b.jobs.late, 0.95), "ms", 0, "")
}

// catchUp starts after a year in which nothing ran.
func catchUp() {
	dir := folder()
	defer os.RemoveAll(dir)
	now := time.Now()
	b := open(dir, &clock{start: now, wall: now, scale: 1}, nil)
	for i := range 50 {
		b.create(fmt.Sprintf("m%d", i), `{"type":"cron","expression":"* * * * *","timezone":"Europe/Berlin"}`)
	}
	b.run()
	time.Sleep(time.Second)
	b.close()
	b = open(dir, &clock{start: time.Now(), wall: now.AddDate(1, 0, 0), scale: 1}, nil)
	defer b.close()
	begun := time.Now()
	b.run()
	for {
		l, err := b.svc.List(b.ctx, scheduler.ListParams{Limit: 100})
		figures.Check(err)
		open := 0
		for _, s := range l.Schedules {
			if s.NextRunAt != nil && s.NextRunAt.Before(now.AddDate(0, 6, 0)) {
				open++
			}
		}
		if open == 0 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	figures.Print("catchup, 50 schedules each minute, a year", time.Since(begun).Seconds(), "s", 0, "")
	most := 0
	figures.Check(b.db.Read(b.ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT max(n) FROM (SELECT count(*) AS n FROM schedule_runs GROUP BY schedule_id)`).Scan(&most)
	}))
	figures.Print("catchup, rows of a schedule", float64(most), "rows", 0, "")
}

// longJobs compares start times with and without jobs that take an hour.
func longJobs() {
	dir := folder()
	defer os.RemoveAll(dir)
	b := open(dir, &clock{start: time.Now(), wall: time.Now(), scale: 1}, map[string]int{"tool": 20, "long": 20})
	defer b.close()
	b.jobs.never = func(name string) bool { return strings.HasPrefix(name, "hour") }
	b.run()
	measure := func(word string) float64 {
		b.jobs.mu.Lock()
		b.jobs.late, b.jobs.started = nil, nil
		b.jobs.mu.Unlock()
		from := time.Now().Add(time.Second)
		for i := range 100 {
			b.create(fmt.Sprintf("%s%d", word, i), once(from.Add(time.Duration(i)*50*time.Millisecond)))
		}
		b.startedBy(100, time.Minute)
		return figures.Quantile(b.jobs.late, 0.5)
	}
	without := measure("before")
	for i := range 20 {
		b.create(fmt.Sprintf("hour%d", i), once(time.Now().Add(time.Second)))
	}
	for until := time.Now().Add(10 * time.Minute); ; time.Sleep(time.Second) {
		st, err := b.svc.Status(b.ctx, struct{}{})
		figures.Check(err)
		moved := 0
		for _, l := range st.Lanes {
			if l.Lane == "long" {
				moved = l.Running
			}
		}
		if moved == 20 {
			break
		}
		if time.Now().After(until) {
			figures.Check(fmt.Errorf("only %d jobs moved to the long lane", moved))
		}
	}
	with := measure("after")
	figures.Print("start with 20 one-hour jobs", with, "ms", with/without, "without them")
}

func cpu() time.Duration {
	var r syscall.Rusage
	figures.Check(syscall.Getrusage(syscall.RUSAGE_SELF, &r))
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func heap() float64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// idle measures the cost of waiting: for 20 seconds, and for a simulated day.
func idle() {
	dir := folder()
	defer os.RemoveAll(dir)
	b := open(dir, &clock{start: time.Now(), wall: time.Now(), scale: 1}, nil)
	for i := range 50 {
		b.create(fmt.Sprintf("i%d", i), `{"type":"cron","expression":"0 0 1 1 *","timezone":"UTC"}`)
	}
	b.run()
	time.Sleep(2 * time.Second)
	before := cpu()
	time.Sleep(20 * time.Second)
	figures.Print("idle_cpu", float64(cpu()-before)/float64(20*time.Second)*100, "%", 0, "")
	b.close()

	const day = 24 * time.Hour
	c := &clock{start: time.Now(), wall: time.Now(), scale: int(day / (10 * time.Second))}
	b = open(dir, c, nil)
	defer b.close()
	b.run()
	time.Sleep(time.Second)
	size, was := heap(), cpu()
	time.Sleep(10 * time.Second)
	figures.Print("idle_day, processor time", float64(cpu()-was)/float64(day)*100, "%", 0, "")
	figures.Print("idle_day, heap", (heap()-size)/1024, "KiB more", 0, "")
}
