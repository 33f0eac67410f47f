package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/cloudsync"
	"helix/backend/storage"
	"helixbench/figures"
)

var inviteParams = cloudsync.InviteParams{}

func enrollParams(link string) cloudsync.EnrollParams { return cloudsync.EnrollParams{Code: link} }

// delta measures the time from a commit on one device to the commit on another, while both run.
func (b *bench) delta() {
	x := b.hops(b.hub(), 1000, func(int) {})
	p := b.pouch()
	figures.Print("delta, commit to commit, p50", quantile(x, 0.5), "ms", quantile(x, 0.5)/p.p50, "PouchDB")
	figures.Print("delta, commit to commit, p99", quantile(x, 0.99), "ms", quantile(x, 0.99)/p.p99, "PouchDB")
}

// trips counts the round trips of a hop, with a proxy that delays each by 50 ms.
func (b *bench) trips() {
	dsn := b.hub()
	const away = 50 * time.Millisecond
	var late atomic.Int64 // 0 at first, because setting up takes many round trips
	addr, stop := proxy(dsn, &late)
	defer stop()
	const n = 20 // hops without the delay, and as many with it
	x := b.hops(through(dsn, addr), 2*n, func(i int) {
		if i == n {
			late.Store(int64(away))
		}
	})
	figures.Print("round trips of a hop", math.Round((median(x[n:])-median(x[:n]))/float64(away.Milliseconds())), "round trips", 0, "")
}

// hops measures n deltas in milliseconds. Before each it calls begin with its index.
func (b *bench) hops(dsn string, n int, begin func(i int)) []float64 {
	a := b.first(dsn, true)
	defer a.close()
	c := b.second(a)
	defer c.close()
	c.now("")
	ctx, cancel := context.WithCancel(b.ctx)
	var running sync.WaitGroup
	for _, d := range []*device{a, c} {
		running.Go(func() { check(d.Run(ctx)) })
	}
	defer running.Wait()
	defer cancel()
	came := make(chan time.Time, 100)
	defer bus.Subscribe(c.db.Bus(), func(uuid.UUID, cloudsync.Applied) { came <- time.Now() })()
	out := make([]float64, 0, n)
	for i := range n + 10 {
		begin(i - 10)
		var at time.Time
		id := storage.NewID()
		check(a.db.Write(a.ctx, func(tx *storage.Tx) error {
			_, err := tx.Exec(`INSERT INTO memories (id, user_id, content, content_hash, created_at, updated_at) VALUES (?, ?, ?, zeroblob(32), ?, ?)`, id, a.db.LocalUser().ID, text(i, 300), tx.Now, tx.Now)
			tx.AfterCommit(func() { at = time.Now() })
			return err
		}))
		select {
		case end := <-came:
			if i >= 10 { // warmed up: both are connected and listening
				out = append(out, float64(end.Sub(at).Microseconds())/1000)
			}
		case <-time.After(time.Minute):
			check(fmt.Errorf("change %d did not come", i))
		}
	}
	return out
}

// proxy forwards connections and delays each byte from the hub, so that each round trip takes that
// much longer.
func proxy(dsn string, late *atomic.Int64) (addr string, stop func()) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	target := hostOf(dsn)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			up, err := net.Dial("tcp", target)
			check(err)
			go func() { _, _ = io.Copy(up, c); _ = up.Close() }()
			go delay(c, up, late)
		}
	}()
	return l.Addr().String(), func() { _ = l.Close() }
}

func delay(to, from net.Conn, late *atomic.Int64) {
	type chunk struct {
		at time.Time
		b  []byte
	}
	chunks := make(chan chunk, 10_000)
	go func() {
		for c := range chunks {
			time.Sleep(time.Until(c.at))
			_, _ = to.Write(c.b)
		}
		_ = to.Close()
	}()
	defer close(chunks)
	for {
		b := make([]byte, 64<<10)
		n, err := from.Read(b)
		if n > 0 {
			chunks <- chunk{time.Now().Add(time.Duration(late.Load())), b[:n]}
		}
		if err != nil {
			return
		}
	}
}
