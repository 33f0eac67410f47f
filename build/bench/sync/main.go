// Command sync measures backend/cloudsync against its peers in one run: COPY of PostgreSQL, upserts
// of many rows with the SQLite driver that Helix uses, and PouchDB with express-pouchdb on Node, both
// with leveldb. PostgreSQL is started here, with fsync. It prints one line per measurement: name,
// value, unit, ratio to the peer, peer, separated by tabs. HELIX_BENCH_FULL=1 or -full copies a
// million rows for the memory measure.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"helix/backend/cloudsync/hubtest"
)

type bench struct {
	ctx  context.Context
	dir  string
	full bool
	rows int
	pg   *hubtest.Server
	hubs int
	peer *pouch // started by the first measurement that needs it
}

func main() {
	full := flag.Bool("full", os.Getenv("HELIX_BENCH_FULL") == "1", "a million rows for the memory of a first copy")
	rows := flag.Int("rows", 30_000, "rows of the push and of the first copy")
	only := flag.String("only", "", "run the measures whose name contains this")
	profile := flag.String("profile", "", "write a CPU profile to this `file`")
	flag.Parse()
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	if job := os.Getenv("HELIX_BENCH_COPY"); job != "" {
		copyAlone(job)
		return
	}
	dir, err := os.MkdirTemp("", "helix-bench-sync-")
	check(err)
	defer os.RemoveAll(dir) //nolint:errcheck // temporary
	pg, err := hubtest.Start(freePort(), "fsync=on", "shared_buffers=256MB", "max_wal_size=4GB", "jit=off")
	check(err)
	defer func() { check(pg.Stop()) }()
	b := &bench{ctx: context.Background(), dir: dir, full: *full, rows: *rows, pg: pg}
	defer b.stopPeer()
	if *profile != "" {
		f, err := os.Create(*profile)
		check(err)
		check(pprof.StartCPUProfile(f))
		defer pprof.StopCPUProfile()
	}
	for _, m := range []struct {
		name string
		fn   func()
	}{
		{"push", b.push}, {"copy", b.firstCopy}, {"large", b.large}, {"delta", b.delta}, {"trips", b.trips}, {"relay", b.relay}, {"memory", b.memory},
	} {
		if strings.Contains(m.name, *only) {
			m.fn()
		}
	}
}

func check(err error) {
	if err != nil {
		_, file, line, _ := runtime.Caller(1)
		fmt.Fprintf(os.Stderr, "%s:%d: %v\n", filepath.Base(file), line, err)
		os.Exit(1)
	}
}

func took(fn func()) float64 {
	t := time.Now()
	fn()
	return time.Since(t).Seconds()
}

func quantile(xs []float64, q float64) float64 {
	xs = slices.Clone(xs)
	slices.Sort(xs)
	return xs[min(len(xs)-1, int(q*float64(len(xs))))]
}

func median(xs []float64) float64 { return quantile(xs, 0.5) }
