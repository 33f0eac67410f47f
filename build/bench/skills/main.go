// Command skills measures backend/skills in one run with its peers: the same writes as plain
// transactions, a Node process that runs three functions and stores one row each, and the bare
// JSONPath library. It prints one line per measurement: name, value, unit, ratio to the peer, peer,
// separated by tabs. -only runs the measurements whose name contains a text.
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
	"runtime/pprof"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/callable"
	"helix/backend/identity"
	"helix/backend/skills"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helixbench/figures"
)

type bench struct {
	dir string
	db  *storage.DB
	log *storage.Group // commits the journals
	svc *skills.Service
	ctx context.Context
	end func()

	gate chan struct{} // blocks the calls of bench.hold
}

func main() {
	only := flag.String("only", "", "run the measures whose name contains this")
	profile := flag.String("cpuprofile", "", "write a CPU profile of the measures to this `file`")
	flag.Parse()
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	if *profile != "" {
		f, err := os.Create(*profile)
		figures.Check(err)
		figures.Check(pprof.StartCPUProfile(f))
		defer func() { pprof.StopCPUProfile(); figures.Check(f.Close()) }()
	}
	for _, m := range []struct {
		name string
		fn   func(*bench)
	}{
		{"step", (*bench).steps}, {"commits", (*bench).commits}, {"runs", (*bench).runs}, {"jsonpath", jsonpaths},
		{"long", (*bench).long}, {"map", (*bench).items}, {"memory", (*bench).memory}, {"history", (*bench).history},
	} {
		if strings.Contains(m.name, *only) {
			b := open()
			m.fn(b)
			b.close()
		}
	}
}

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

func open() *bench {
	dir, err := os.MkdirTemp("", "helix-bench-skills-")
	figures.Check(err)
	b := &bench{dir: dir, gate: make(chan struct{})}
	b.db, err = storage.Open(context.Background(), storage.Options{Path: filepath.Join(dir, "helix.db"), Keys: storage.NewKeys(storagetest.NewRoot())})
	figures.Check(err)
	b.log = storage.NewGroup(b.db, 64)
	set := callable.NewSet(callable.Builtin, nil)
	reg := callable.NewRegistry(nil)
	reg.Add(set)
	b.svc = skills.New(b.db, skills.Options{Callables: reg, Limits: skills.Limits{Live: 64}, Writes: b.log})
	reg.Add(b.svc.Provider())
	schema := json.RawMessage(`{"type":"object"}`)
	for name, run := range map[string]func(context.Context, callable.Request) (any, error){
		"bench.effect": func(context.Context, callable.Request) (any, error) {
			return json.RawMessage(`{"ok":true,"count":17}`), nil
		},
		"bench.sleep": func(ctx context.Context, _ callable.Request) (any, error) {
			select {
			case <-time.After(10 * time.Millisecond):
			case <-ctx.Done():
			}
			return json.RawMessage(`1`), nil
		},
		"bench.hold": func(ctx context.Context, _ callable.Request) (any, error) {
			select {
			case <-b.gate:
			case <-ctx.Done():
			}
			return json.RawMessage(`1`), nil
		},
	} {
		set.Add(callable.Func{Info: callable.Info{Name: name, Title: name, Input: schema}, Run: run})
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.svc.Run(ctx) }()
	b.end = func() { cancel(); figures.Check(<-ended) }
	b.ctx = identity.With(context.Background(), identity.Identity{User: b.db.LocalUser().ID, Session: uuid.New(), Scopes: identity.Admin.Closed(), Client: identity.ClientTerminal, Pipe: "memory"})
	return b
}

func (b *bench) close() {
	b.end()
	b.svc.Close()
	figures.Check(b.db.Close())
	figures.Check(os.RemoveAll(b.dir))
}

// chain returns a skill of n steps that call one after the other.
func chain(n int, tool string) json.RawMessage {
	steps := make([]map[string]any, n)
	for i := range steps {
		steps[i] = map[string]any{"stepId": fmt.Sprintf("s%d", i), "toolType": "builtin", "toolName": tool, "parameters": map[string]any{"n": i}}
		if i > 0 {
			steps[i]["inputMapping"] = map[string]any{"before": fmt.Sprintf("$.s%d.count", i-1)}
		}
	}
	return skill(steps)
}

func skill(steps any) json.RawMessage {
	raw, err := json.Marshal(map[string]any{"name": fmt.Sprintf("Bench %s", uuid.NewString()), "overallTimeoutMs": 3_600_000, "steps": steps})
	figures.Check(err)
	return raw
}

func (b *bench) save(def json.RawMessage) uuid.UUID {
	m, err := b.svc.CreateComposite(b.ctx, skills.SaveParams{Skill: def})
	figures.Check(err)
	return m.SkillID
}

func (b *bench) run(id uuid.UUID) skills.ExecuteResult {
	r, err := b.svc.ExecuteComposite(b.ctx, skills.ExecuteParams{SkillID: &id, Input: json.RawMessage(`{"n":1}`), WaitMs: 600_000})
	figures.Check(err)
	if !r.Success {
		figures.Check(fmt.Errorf("the run ended %s: %+v", r.Status, r.Error))
	}
	return r
}

// rawTx measures one plain transaction that stores the same payload.
func (b *bench) rawTx(n int) []float64 {
	payload := `{"toolHash":"0123456789abcdef0123456789abcdef","input":{"before":17,"n":3},"inputHash":"0123456789abcdef","idempotencyKey":"0123456789abcdef0123456789abcdef","tier":"sideEffecting"}`
	figures.Check(b.db.Write(b.ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`CREATE TABLE IF NOT EXISTS bench_rows (id INTEGER PRIMARY KEY, run BLOB, seq INTEGER, payload TEXT, at INTEGER) STRICT`)
		return err
	}))
	var all []float64
	for i := range n {
		begun := time.Now()
		figures.Check(b.db.Write(b.ctx, func(tx *storage.Tx) error {
			_, err := tx.Exec(`INSERT INTO bench_rows (run, seq, payload, at) VALUES (?, ?, ?, ?)`, uuid.Nil, i, payload, tx.Now)
			return err
		}))
		all = append(all, ms(time.Since(begun)))
	}
	return all
}

// steps measures a step with an effect that is journaled: intent and outcome.
func (b *bench) steps() {
	id := b.save(chain(50, "bench.effect"))
	var mu sync.Mutex
	var last time.Time
	var each []float64
	stop := bus.Subscribe(b.db.Bus(), func(_ uuid.UUID, e skills.RunEvent) {
		mu.Lock()
		defer mu.Unlock()
		switch now := time.Now(); e.Type {
		case "run.created", "run.started":
			last = time.Time{}
		case "step.intent":
			if !last.IsZero() {
				each = append(each, ms(now.Sub(last)))
			}
			last = now
		}
	})
	defer stop()
	b.run(id)
	mu.Lock()
	each = nil
	mu.Unlock()
	var raw []float64
	for range 10 { // alternating, so that both see the same disk
		b.run(id)
		raw = append(raw, b.rawTx(50)...)
	}
	mu.Lock()
	defer mu.Unlock()
	p50, tx := figures.Quantile(each, 0.5), figures.Quantile(raw, 0.5)
	figures.Print("step_persisted_p50", p50, "ms", p50/tx, "raw_tx")
	figures.Print("step_persisted_p95", figures.Quantile(each, 0.95), "ms", 0, "")
	figures.Print("raw_tx", tx, "ms", 0, "")
}

// commits counts the transactions of a run.
func (b *bench) commits() {
	one, many := b.save(chain(1, "bench.effect")), b.save(chain(50, "bench.effect"))
	count := func(id uuid.UUID) float64 {
		b.run(id)
		before := b.log.Commits()
		b.run(id)
		return float64(b.log.Commits() - before)
	}
	short, long := count(one), count(many)
	step := (long - short) / 49
	figures.Print("commits_per_step", step, "commits", 0, "")
	figures.Print("commits_per_run", short-step, "commits", 0, "")
}

// runs measures short runs, eight at a time.
func (b *bench) runs() {
	steps := []map[string]any{
		{"stepId": "a", "toolType": "transform", "value": map[string]any{"n": "$.input.n", "list": []any{1, 2, 3}}},
		{"stepId": "b", "toolType": "transform", "value": map[string]any{"sum": "$.a.list[*]"}},
		{"stepId": "c", "toolType": "transform", "value": map[string]any{"all": "$.b.sum", "n": "$.a.n"}},
	}
	id := b.save(skill(steps))
	b.run(id)
	const stretch = 3 * time.Second
	rate := func() float64 {
		var wg sync.WaitGroup
		var done [8]int
		begun := time.Now()
		for w := range done {
			wg.Go(func() {
				for time.Since(begun) < stretch {
					b.run(id)
					done[w]++
				}
			})
		}
		wg.Wait()
		n := 0
		for _, d := range done {
			n += d
		}
		return float64(n) / time.Since(begun).Seconds()
	}
	var ours, node []float64
	for range 3 {
		ours = append(ours, rate())
		node = append(node, nodeRate(b.dir, stretch))
	}
	r, p := figures.Quantile(ours, 0.5), figures.Quantile(node, 0.5)
	figures.Print("runs_per_s", r, "runs/s", r/220, "n8n, one instance, as published (220/s)")
	figures.Print("runs_per_s", r, "runs/s", r/p, "node, three functions, one row each")
}

// long compares the time of a step in a long skill with that in a short one.
func (b *bench) long() {
	per := func(n int) float64 {
		id := b.save(chain(n, "bench.effect"))
		b.run(id)
		var all []float64
		for range 5 {
			begun := time.Now()
			b.run(id)
			all = append(all, ms(time.Since(begun))/float64(n))
		}
		return figures.Quantile(all, 0.5)
	}
	short, long := per(50), per(500)
	figures.Print("step_of_500", long, "ms", long/short, "step of 50")
}

// items measures how much a map gains from running items concurrently.
func (b *bench) items() {
	list := make([]int, 1000)
	took := func(parallel int) float64 {
		id := b.save(skill([]map[string]any{
			{"stepId": "list", "toolType": "transform", "value": list},
			{"stepId": "each", "toolType": "map", "items": "$.list", "concurrency": parallel, "steps": []map[string]any{
				{"stepId": "call", "toolType": "builtin", "toolName": "bench.sleep"},
			}},
		}))
		begun := time.Now()
		b.run(id)
		return time.Since(begun).Seconds()
	}
	one, eight := took(1), took(8)
	figures.Print("map_1000_items", eight, "s", one/eight, "concurrency 1 (times as fast)")
}

func heap() float64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// memory measures the memory of a live run, and what finished ones leave.
func (b *bench) memory() {
	const n = 32
	id := b.save(chain(50, "bench.hold"))
	before := heap()
	for range n {
		_, err := b.svc.ExecuteComposite(b.ctx, skills.ExecuteParams{SkillID: &id, Async: true})
		figures.Check(err)
	}
	time.Sleep(time.Second)
	figures.Print("memory_per_live_run", (heap()-before)/n/(1<<20), "MiB", 0, "")
	close(b.gate)
	for {
		h, err := b.svc.History(b.ctx, skills.HistoryParams{Status: "running", Limit: 1})
		figures.Check(err)
		if len(h.Executions) == 0 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	short := b.save(chain(1, "bench.effect"))
	var wg sync.WaitGroup
	some := func(n int) {
		for range 8 {
			wg.Go(func() {
				for range n / 8 {
					b.run(short)
				}
			})
		}
		wg.Wait()
	}
	some(1000)
	before = heap()
	some(10_000)
	figures.Print("heap_after_10000_runs", (heap()-before)/(1<<20), "MiB more", 0, "")
}

// history measures a page of a long history.
func (b *bench) history() {
	id := b.save(chain(1, "bench.effect"))
	b.run(id)
	figures.Check(b.db.Write(b.ctx, func(tx *storage.Tx) error {
		return tx.WithoutCapture(func() error {
			_, err := tx.Exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
				INSERT INTO composite_skill_executions (id, composite_skill_id, user_id, version_id, definition_hash, trigger, input_params, final_output, status,
					steps_completed, total_steps, device_id, started_at, finished_at, created_at, updated_at)
				SELECT randomblob(16), composite_skill_id, user_id, version_id, definition_hash, trigger, input_params, final_output,
					CASE WHEN i % 10 = 0 THEN 'failed' ELSE 'completed' END, 1, 1, device_id, created_at - i * 60000000, created_at - i * 60000000, created_at - i * 60000000, updated_at
				FROM n, (SELECT * FROM composite_skill_executions LIMIT 1)`)
			return err
		})
	}))
	var all []float64
	page := func(p skills.HistoryParams) skills.HistoryResult {
		begun := time.Now()
		r, err := b.svc.History(b.ctx, p)
		figures.Check(err)
		all = append(all, ms(time.Since(begun)))
		return r
	}
	for range 20 {
		p := skills.HistoryParams{SkillID: &id}
		for range 5 {
			r := page(p)
			p.Cursor = r.NextCursor
		}
		page(skills.HistoryParams{Status: "failed"})
		page(skills.HistoryParams{})
	}
	figures.Print("history_p95_of_100000", figures.Quantile(all, 0.95), "ms", 0, "")
}
