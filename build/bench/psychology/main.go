// Command psychology measures backend/psychology over 100,000 memories and 10,000 entries, and
// compares a run of decay with one UPDATE of the same rows and columns in the same database. It
// prints one line per measurement: name, value, unit, ratio to the peer, peer, separated by tabs.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"helix/backend/identity"
	"helix/backend/memory"
	"helix/backend/psychology"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helixbench/figures"
)

const (
	memories = 100_000
	entries  = 10_000
)

func p95(n int, fn func()) float64 {
	var ms []float64
	for range n {
		t := time.Now()
		fn()
		ms = append(ms, time.Since(t).Seconds()*1000)
	}
	slices.Sort(ms)
	return ms[len(ms)*95/100]
}

func main() {
	law := psychology.LawOf(1)
	var sink float64
	t := time.Now()
	for i := range 10_000_000 {
		sink += law.Retention(0.9, float64(i%8760), 0.1)
	}
	each := time.Since(t).Seconds() / 10_000_000
	figures.Print("retention", each*1e9, "ns", 0, "")
	figures.Print("retention.100k", each*1e5*1000, "ms", 0, "")
	if sink < 0 {
		return
	}

	dir, err := os.MkdirTemp("", "helix-bench-")
	figures.Check(err)
	defer os.RemoveAll(dir)
	db, err := storage.Open(context.Background(), storage.Options{Path: filepath.Join(dir, "helix.db"), Keys: storage.NewKeys(storagetest.NewRoot())})
	figures.Check(err)
	defer db.Close()
	ctx := identity.With(context.Background(), identity.Identity{User: db.LocalUser().ID, Scopes: identity.Read | identity.Write | identity.Admin, Client: identity.ClientTerminal})
	mem := memory.New(db, memory.Options{})
	defer mem.Close()
	s := psychology.New(db, mem, psychology.Options{Dir: dir})
	figures.Print("layer.p95", p95(50, func() {
		_, err := s.UpdateLayer(ctx, psychology.UpdateLayerParams{LayerNumber: 1, Data: json.RawMessage(`{"at":"` + time.Now().String() + `"}`)})
		figures.Check(err)
	}), "ms", 0, "")
	figures.Print("layers.p95", p95(50, func() { // only the layers exist yet
		_, err := s.DecayRun(ctx, psychology.RunParams{})
		figures.Check(err)
	}), "ms", 0, "")
	fill(ctx, db, mem, s)

	exec := func(query string, args ...any) {
		figures.Check(db.Write(ctx, func(tx *storage.Tx) error { _, err := tx.Exec(query, args...); return err }))
	}
	exec(`UPDATE memories SET retention = 0.9, decayed_at = 1`)
	t = time.Now()
	exec(`UPDATE memories SET retention = 0.4, decayed_at = 2`)
	exec(`UPDATE psychology_entries SET retention = 0.4, decayed_at = 2`)
	peer := time.Since(t).Seconds()
	exec(`UPDATE memories SET retention = NULL, decayed_at = NULL`)
	exec(`UPDATE psychology_entries SET retention = NULL, decayed_at = NULL`)

	runtime.GC()
	debug.FreeOSMemory()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	stop, peak := make(chan struct{}), make(chan uint64)
	go func() {
		var most uint64
		for tick := time.NewTicker(10 * time.Millisecond); ; {
			select {
			case <-stop:
				tick.Stop()
				peak <- most
				return
			case <-tick.C:
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				most = max(most, m.HeapInuse)
			}
		}
	}()
	t = time.Now()
	r, err := s.DecayRun(ctx, psychology.RunParams{})
	figures.Check(err)
	took := time.Since(t).Seconds()
	close(stop)
	figures.Print("run.first", took, "s", 0, "")
	figures.Print("run.first against one UPDATE", took/peer, "times", took/peer, "one UPDATE")
	figures.Print("run.first.memory", (float64(<-peak)-float64(before.HeapInuse))/(1<<20), "MiB", 0, "")
	if r.Changed != memories+entries {
		figures.Check(fmt.Errorf("%d changed", r.Changed))
	}
	var written int
	t = time.Now()
	_, err = s.DecayRun(ctx, psychology.RunParams{})
	figures.Check(err)
	took = time.Since(t).Seconds()
	figures.Check(db.Read(ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT count(*) FROM memories WHERE decayed_at > ?`, t).Scan(&written)
	}))
	figures.Print("run.again", took, "s", 0, "")
	figures.Print("run.again.written", float64(written), "rows", 0, "")

	exec(`UPDATE memories SET created_at = created_at - ?`, (2000 * time.Hour).Microseconds())
	t = time.Now()
	_, err = s.DecayRun(ctx, psychology.RunParams{})
	figures.Check(err)
	figures.Print("run.all cross a threshold", time.Since(t).Seconds(), "s", 0, "")

	var id uuid.UUID
	figures.Check(db.Read(ctx, func(tx *storage.Tx) error { return tx.QueryRow(`SELECT id FROM memories LIMIT 1`).Scan(&id) }))
	t = time.Now()
	for range 1000 {
		_, err := s.Forecast(ctx, psychology.ForecastParams{ID: &id})
		figures.Check(err)
	}
	figures.Print("forecasts.1000", time.Since(t).Seconds()*1000, "ms", 0, "")
	figures.Print("overview.p95", p95(40, func() {
		_, err := s.Overview(ctx, struct{}{})
		figures.Check(err)
	}), "ms", 0, "")
}

// fill stores memories and entries that have faded but crossed no threshold.
func fill(ctx context.Context, db *storage.DB, mem *memory.Service, s *psychology.Service) {
	for i := 0; i < memories; i += 100 {
		items := make([]memory.AddParams, 100)
		for k := range items {
			items[k] = memory.AddParams{Content: "text number " + strconv.Itoa(i+k)}
		}
		_, err := mem.AddBatch(ctx, memory.AddBatchParams{Items: items})
		figures.Check(err)
	}
	for i := range entries {
		_, err := s.UpsertEntry(ctx, psychology.UpsertParams{LayerNumber: 4, Kind: "goal", Data: json.RawMessage(`{"title":"goal ` + strconv.Itoa(i) + `"}`)})
		figures.Check(err)
	}
	figures.Check(db.Write(ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`UPDATE memories SET created_at = created_at - ?1`, (200 * time.Hour).Microseconds())
		if err == nil {
			_, err = tx.Exec(`UPDATE psychology_entries SET created_at = created_at - ?1`, (200 * time.Hour).Microseconds())
		}
		return err
	}))
}
