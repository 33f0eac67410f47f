package storage

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// Tx is one transaction. Its Exec, Query and QueryRow run under the context of the call
// that opened it and bind Go values the way the schema stores them: uuid.UUID as 16 bytes,
// time.Time as microseconds, json.RawMessage as text, the zero UUID and the zero time as
// NULL. It must not be used by two goroutines at once or after its function returned.
type Tx struct {
	*sql.Tx
	Now time.Time // never goes back, and differs between write transactions

	ctx   context.Context
	db    *DB
	write bool
	gid   uint64
	muted int // depth of WithoutCapture
	after []func()
}

// TrashAge returns how long deleted items can be restored.
func (tx *Tx) TrashAge() time.Duration { return tx.db.TrashAge() }

type txKey struct{ db *DB }

// Read runs fn in a read-only transaction, which sees a snapshot. Inside a Write of the same call
// it runs in that transaction and sees its changes.
func (db *DB) Read(ctx context.Context, fn func(*Tx) error) error {
	if tx := db.current(ctx); tx != nil {
		return fn(tx)
	}
	v, err := db.gate.enter(ctx)
	if err != nil {
		return err
	}
	defer db.gate.leave(v)
	stx, err := db.readers.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return db.codedError(ctx, err)
	}
	defer stx.Rollback()
	tx := &Tx{Tx: stx, Now: db.now(false), db: db}
	tx.ctx = context.WithValue(ctx, txKey{db}, tx)
	return db.codedError(ctx, fn(tx))
}

// Write runs fn in the one write transaction and commits when it returns nil; an error or
// a panic rolls back. It waits for other writes until ctx ends. A Write inside a Write of the same
// call fails with Internal at once instead of deadlocking.
func (db *DB) Write(ctx context.Context, fn func(*Tx) error) error {
	return db.writeTx(ctx, syncFull, fn)
}

// Result returns what fn returns in a transaction, for in being Read or Write of a DB, or like them.
func Result[T any](ctx context.Context, in func(context.Context, func(*Tx) error) error, fn func(*Tx) (T, error)) (out T, err error) {
	err = in(ctx, func(tx *Tx) error {
		out, err = fn(tx)
		return err
	})
	return out, err
}

// WriteUnsynced is Write without waiting for the disk. It is for what can be obtained again, such as
// a page of the feed, and for the ends of calls, which are otherwise found interrupted at the next
// start. A crash of Helix loses nothing. A power failure may undo the transaction, but then also
// everything that was committed after it: the next Write makes both durable.
func (db *DB) WriteUnsynced(ctx context.Context, fn func(*Tx) error) error {
	return db.writeTx(ctx, syncNormal, fn)
}

// A syncLevel is a level of SQLite's synchronous pragma: with syncFull a commit waits until the log
// is on the disk, with syncNormal only a checkpoint does.
type syncLevel string

const (
	syncFull   syncLevel = "FULL"
	syncNormal syncLevel = "NORMAL"
)

func (db *DB) writeTx(ctx context.Context, level syncLevel, fn func(*Tx) error) (err error) {
	if db.current(ctx) != nil {
		return errNested
	}
	db.queued.Add(1)
	select {
	case _, ok := <-db.turn:
		db.queued.Add(-1)
		if !ok {
			return sql.ErrConnDone
		}
	case <-ctx.Done():
		db.queued.Add(-1)
		return ctx.Err()
	}
	tx, err := db.runWrite(ctx, level, fn)
	if err != nil {
		return db.codedError(ctx, err)
	}
	for _, f := range tx.after {
		f()
	}
	return nil
}

// Wanted reports whether another write is waiting for this transaction to end. Code that writes in
// a long series ends its transaction then.
func (tx *Tx) Wanted() bool { return tx.write && tx.db.queued.Load() > 0 }

// runWrite runs fn in a transaction and then returns the turn, which the caller has taken.
func (db *DB) runWrite(ctx context.Context, level syncLevel, fn func(*Tx) error) (*Tx, error) {
	defer func() {
		db.owner.Store(nil)
		db.turn <- struct{}{}
	}()
	if err := db.gate.check(ctx); err != nil {
		return nil, err
	}
	if db.synced != level { // the level can't change within a transaction
		if _, err := db.writer.ExecContext(ctx, "PRAGMA synchronous = "+string(level)); err != nil {
			return nil, err
		}
		db.synced = level
	}
	if list := db.uncaptured.Load(); list != nil {
		if err := db.createTriggers(ctx, *list); err != nil {
			return nil, fmt.Errorf("capture triggers: %w", err)
		}
	}
	stx, err := db.writer.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer stx.Rollback()
	tx := &Tx{Tx: stx, Now: db.now(true), db: db, write: true, gid: goroutineID()}
	tx.ctx = context.WithValue(ctx, txKey{db}, tx)
	db.owner.Store(tx)
	if err := fn(tx); err != nil {
		return nil, err
	}
	if err := tx.endCapture(); err != nil {
		return nil, err
	}
	if err := stx.Commit(); err != nil {
		return nil, err
	}
	return tx, nil
}

// current returns the transaction that the caller is already in: the one in ctx, or, if fn used the
// outer context, the one of this goroutine.
func (db *DB) current(ctx context.Context) *Tx {
	if tx, ok := ctx.Value(txKey{db}).(*Tx); ok {
		return tx
	}
	if tx := db.owner.Load(); tx != nil && tx.gid == goroutineID() {
		return tx
	}
	return nil
}

// goroutineID reads the number that the runtime prints in a stack trace. It serves only to
// distinguish a nested call from a concurrent one; nothing is stored under it.
func goroutineID() uint64 {
	var buf [32]byte
	b := buf[len("goroutine "):runtime.Stack(buf[:], false)]
	for i, c := range b {
		if c < '0' || c > '9' {
			b = b[:i]
			break
		}
	}
	n, err := strconv.ParseUint(string(b), 10, 64)
	if err != nil {
		panic(fmt.Sprintf("goroutine id: %v", err))
	}
	return n
}

// Context returns a context that carries the transaction; pass it to code that itself calls Read.
func (tx *Tx) Context() context.Context { return tx.ctx }

// AfterCommit runs fn once the transaction has committed, in order of registration and
// before Write returns. It is dropped on rollback. In a Read it runs at once.
func (tx *Tx) AfterCommit(fn func()) {
	if !tx.write {
		fn()
		return
	}
	tx.after = append(tx.after, fn)
}

// Exec runs a statement.
func (tx *Tx) Exec(query string, args ...any) (sql.Result, error) {
	r, err := tx.ExecContext(tx.ctx, query, bind(args)...)
	return r, wrapSQL(err, query)
}

// Query runs a query; close the rows.
func (tx *Tx) Query(query string, args ...any) (*sql.Rows, error) {
	r, err := tx.QueryContext(tx.ctx, query, bind(args)...)
	return r, wrapSQL(err, query)
}

// QueryRow runs a query that returns at most one row.
func (tx *Tx) QueryRow(query string, args ...any) *sql.Row {
	return tx.QueryRowContext(tx.ctx, query, bind(args)...)
}

func bind(args []any) []any {
	out := make([]any, len(args))
	for i, a := range args {
		switch v := a.(type) {
		case uuid.UUID:
			if v != uuid.Nil {
				out[i] = v[:]
			}
		case *uuid.UUID:
			if v != nil {
				out[i] = v[:]
			}
		case time.Time:
			if !v.IsZero() {
				out[i] = v.UnixMicro()
			}
		case *time.Time:
			if v != nil {
				out[i] = v.UnixMicro()
			}
		case json.RawMessage:
			if v != nil {
				out[i] = string(v)
			}
		case [32]byte:
			out[i] = v[:]
		default:
			out[i] = a
		}
	}
	return out
}

// Time returns a scanner of microseconds into dst; NULL is the zero time.
func Time(dst *time.Time) sql.Scanner { return &timeScanner{dst} }

type timeScanner struct{ dst *time.Time }

func (s *timeScanner) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*s.dst = time.Time{}
	case int64:
		*s.dst = time.UnixMicro(v).UTC()
	default:
		return fmt.Errorf("time column holds %T", src)
	}
	return nil
}

// TimePtr returns a scanner of nullable microseconds into dst; NULL is nil.
func TimePtr(dst **time.Time) sql.Scanner { return &timePtrScanner{dst} }

type timePtrScanner struct{ dst **time.Time }

func (s *timePtrScanner) Scan(src any) error {
	var t time.Time
	if err := Time(&t).Scan(src); err != nil {
		return err
	}
	*s.dst = nil
	if src != nil {
		*s.dst = &t
	}
	return nil
}

// JSON returns a scanner that decodes JSON text into dst; NULL leaves dst unchanged.
func JSON(dst any) sql.Scanner { return jsonScanner{dst} }

type jsonScanner struct{ dst any }

var _ driver.Valuer = (*uuid.UUID)(nil) // bind exists because this would store text

func (s jsonScanner) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		return nil
	case string:
		return json.Unmarshal([]byte(v), s.dst)
	case []byte:
		return json.Unmarshal(v, s.dst)
	}
	return fmt.Errorf("JSON column holds %T", src)
}

// wrapSQL adds the statement to an error of the driver; it goes to the log only.
func wrapSQL(err error, query string) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%w (in %.120q)", err, query)
}
