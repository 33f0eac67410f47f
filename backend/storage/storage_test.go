package storage

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"helix/backend/fault"
)

func open(t *testing.T) *DB {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a b é", "helix.db")
	putBlank(t, path)
	db, err := Open(t.Context(), Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func addUser(tx *Tx, name string) error {
	_, err := tx.Exec(`INSERT INTO users (id, display_name, created_at) VALUES (?, ?, ?)`, NewID(), name, tx.Now)
	return err
}

func count(t *testing.T, db *DB) (n int) {
	t.Helper()
	if err := db.Read(t.Context(), func(tx *Tx) error {
		return tx.QueryRow(`SELECT count(*) FROM users WHERE id <> (SELECT user_id FROM sync_local)`).Scan(&n)
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestWriteCommitsAndRollsBack(t *testing.T) {
	t.Parallel()
	db := open(t)
	ran := 0
	if err := db.Write(t.Context(), func(tx *Tx) error {
		tx.AfterCommit(func() { ran++ })
		return addUser(tx, "a")
	}); err != nil {
		t.Fatal(err)
	}
	boom := errors.New("boom")
	if err := db.Write(t.Context(), func(tx *Tx) error {
		tx.AfterCommit(func() { ran += 10 })
		return errors.Join(addUser(tx, "b"), boom)
	}); !errors.Is(err, boom) {
		t.Fatalf("err = %v", err)
	}
	func() {
		defer func() { _ = recover() }()
		_ = db.Write(t.Context(), func(tx *Tx) error { _ = addUser(tx, "c"); panic("x") })
	}()
	if n := count(t, db); n != 1 || ran != 1 {
		t.Fatalf("rows = %d, after-commit = %d, want 1 and 1", n, ran)
	}
}

func TestNestedCalls(t *testing.T) {
	t.Parallel()
	db := open(t)
	err := db.Write(t.Context(), func(tx *Tx) error {
		if err := addUser(tx, "a"); err != nil {
			return err
		}
		for _, ctx := range []context.Context{t.Context(), tx.Context()} {
			var n int
			if err := db.Read(ctx, func(tx *Tx) error {
				return tx.QueryRow(`SELECT count(*) FROM users WHERE id <> (SELECT user_id FROM sync_local)`).Scan(&n)
			}); err != nil || n != 1 {
				t.Errorf("read inside write: n = %d, err = %v", n, err)
			}
			if err := db.Write(ctx, func(*Tx) error { return nil }); fault.KindOf(err) != fault.Internal {
				t.Errorf("write inside write: %v", err)
			}
		}
		done := make(chan int)
		go func() { done <- countRow(db) }()
		if n := <-done; n != 0 {
			t.Errorf("another goroutine sees uncommitted rows: %d", n)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func countRow(db *DB) (n int) {
	_ = db.Read(context.Background(), func(tx *Tx) error {
		return tx.QueryRow(`SELECT count(*) FROM users WHERE id <> (SELECT user_id FROM sync_local)`).Scan(&n)
	})
	return n
}

func TestReadersCannotWriteAndWaitersLeave(t *testing.T) {
	t.Parallel()
	db := open(t)
	if err := db.Read(t.Context(), func(tx *Tx) error { return addUser(tx, "x") }); err == nil {
		t.Fatal("a reader wrote")
	}
	in, out := make(chan struct{}), make(chan struct{})
	go func() { _ = db.Write(context.Background(), func(*Tx) error { close(in); <-out; return nil }) }()
	<-in
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := db.Write(ctx, func(*Tx) error { return nil }); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("err = %v", err)
	}
	close(out)
}

func TestNowNeverRepeatsOrGoesBack(t *testing.T) {
	t.Parallel()
	db := open(t)
	db.lastAt.Store(time.Now().Add(time.Hour).UnixMicro()) // the clock was set back an hour
	last := time.UnixMicro(db.lastAt.Load())
	for range 3 {
		if err := db.Write(t.Context(), func(tx *Tx) error {
			if !tx.Now.After(last) {
				t.Errorf("now %v is not after %v", tx.Now, last)
			}
			last = tx.Now
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWanted(t *testing.T) {
	t.Parallel()
	db := open(t)
	ctx := context.Background()
	done := make(chan error, 1)
	err := db.Write(ctx, func(tx *Tx) error {
		if tx.Wanted() {
			t.Error("wanted, and nobody waits")
		}
		go func() { done <- db.Write(ctx, func(*Tx) error { return nil }) }()
		for !tx.Wanted() {
			runtime.Gosched()
		}
		return nil
	})
	if err = errors.Join(err, <-done); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithCancel(ctx)
	err = db.Write(ctx, func(tx *Tx) error {
		go func() { done <- db.Write(short, func(*Tx) error { return nil }) }()
		for !tx.Wanted() {
			runtime.Gosched()
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("a canceled wait gives %v", err)
		}
		if tx.Wanted() {
			t.Error("who gave up still waits")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
