package storage

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"helix/backend/identity"
)

// TestGroup writes from many goroutines concurrently; some writes fail and some panic, and none of
// these affects the others.
func TestGroup(t *testing.T) {
	t.Parallel()
	db := open(t)
	ctx := t.Context()
	if err := db.Write(ctx, func(tx *Tx) error {
		_, err := tx.Exec(`CREATE TABLE seen (n INTEGER NOT NULL UNIQUE) STRICT`)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	g := NewGroup(db, 0)
	mine := errors.New("mine")
	const n = 200
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			err := g.Write(ctx, 1, func(tx *Tx) error {
				if _, err := tx.Exec(`INSERT INTO seen (n) VALUES (?)`, i); err != nil {
					return err
				}
				switch i % 50 {
				case 7:
					return mine
				case 8:
					panic("a bug")
				}
				return nil
			})
			if i%50 == 7 && !errors.Is(err, mine) || i%50 == 8 && err == nil || i%50 != 7 && i%50 != 8 && err != nil {
				t.Errorf("write %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	var rows int
	if err := db.Read(ctx, func(tx *Tx) error {
		return tx.QueryRow(`SELECT count(*) FROM seen`).Scan(&rows)
	}); err != nil {
		t.Fatal(err)
	}
	if want := n - 2*n/50; rows != want {
		t.Errorf("%d rows, want %d", rows, want)
	}
	if g.busy || len(g.waiting) != 0 {
		t.Error("somebody is still waiting")
	}
}

// TestGroupSharesTransactions blocks the first write until others wait: those then share one
// transaction, and so one time.
func TestGroupSharesTransactions(t *testing.T) {
	t.Parallel()
	db := open(t)
	ctx := t.Context()
	g := NewGroup(db, 0)
	begun, goOn := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = g.Write(ctx, 1, func(*Tx) error { close(begun); <-goOn; return nil })
	})
	<-begun
	var mu sync.Mutex
	times := map[string]int{}
	canceled, cancel := context.WithCancel(ctx)
	for i := range 10 {
		wg.Go(func() {
			if err := g.Write(canceled, 1, func(tx *Tx) error {
				mu.Lock()
				times[fmt.Sprint(tx.Now.UnixMicro())]++
				mu.Unlock()
				return nil
			}); err != nil {
				t.Errorf("write %d: %v", i, err)
			}
		})
	}
	for waiting := 0; waiting < 10; {
		g.mu.Lock()
		waiting = len(g.waiting)
		g.mu.Unlock()
	}
	cancel() // it is too late to remove a write from its group
	close(goOn)
	wg.Wait()
	if n := g.Commits(); len(times) != 1 || n != 2 {
		t.Errorf("ten writes took %d transactions of %d", len(times), n)
	}
}

func TestGroupKeepsTheIdentityOfEachCaller(t *testing.T) {
	t.Parallel()
	db := open(t)
	user := db.LocalUser().ID
	g := NewGroup(db, 0)
	begun, goOn := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = g.Write(t.Context(), 1, func(*Tx) error { close(begun); <-goOn; return nil })
	})
	<-begun
	for range 5 {
		session := NewID()
		wg.Go(func() {
			ctx := identity.With(t.Context(), identity.Identity{User: user, Session: session})
			if err := g.Write(ctx, 1, func(tx *Tx) error {
				if id, _ := identity.From(tx.Context()); id.Session != session {
					t.Errorf("the write of %s runs as %s", session, id.Session)
				}
				return db.Read(tx.Context(), func(inner *Tx) error {
					if inner != tx {
						t.Error("a read leaves the transaction")
					}
					return nil
				})
			}); err != nil {
				t.Error(err)
			}
		})
	}
	for waiting := 0; waiting < 5; {
		g.mu.Lock()
		waiting = len(g.waiting)
		g.mu.Unlock()
	}
	close(goOn)
	wg.Wait()
}

func TestGroupRefusesAWriteInsideAWrite(t *testing.T) {
	t.Parallel()
	db := open(t)
	if err := db.Write(t.Context(), func(tx *Tx) error {
		if err := db.Together().Write(tx.Context(), 1, func(*Tx) error { return nil }); !errors.Is(err, errNested) {
			t.Errorf("%v", err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestUnsynced looks at which writes wait for the disk, which nothing else shows but a power failure.
func TestUnsynced(t *testing.T) {
	t.Parallel()
	db := open(t)
	ctx := t.Context()
	g := NewGroup(db, 0)
	level := func(tx *Tx) (n int) {
		if err := tx.QueryRow(`PRAGMA synchronous`).Scan(&n); err != nil {
			t.Error(err)
		}
		return n
	}
	const full, normal = 2, 1
	for range 3 { // each change must work more than once
		for name, x := range map[string]struct {
			write func(context.Context, func(*Tx) error) error
			want  int
		}{
			"Write":         {db.Write, full},
			"WriteUnsynced": {db.WriteUnsynced, normal},
			"Group.Write":   {func(ctx context.Context, fn func(*Tx) error) error { return g.Write(ctx, 1, fn) }, full},
			"Group.WriteUnsynced": {func(ctx context.Context, fn func(*Tx) error) error {
				return g.WriteUnsynced(ctx, 1, fn)
			}, normal},
		} {
			if err := x.write(ctx, func(tx *Tx) error {
				if got := level(tx); got != x.want {
					t.Errorf("%s: synchronous is %d, want %d", name, got, x.want)
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
		}
	}

	// A group that has one write that waits for the disk waits for it.
	var wg sync.WaitGroup
	first := make(chan struct{})
	wg.Go(func() {
		_ = g.WriteUnsynced(ctx, 1, func(*Tx) error {
			close(first)
			for { // until both others wait
				g.mu.Lock()
				n := len(g.waiting)
				g.mu.Unlock()
				if n == 2 {
					return nil
				}
				runtime.Gosched()
			}
		})
	})
	<-first
	for _, write := range []func(context.Context, int, func(*Tx) error) error{g.Write, g.WriteUnsynced} {
		wg.Go(func() {
			if err := write(ctx, 1, func(tx *Tx) error {
				if got := level(tx); got != full {
					t.Errorf("in a group: synchronous is %d", got)
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}
