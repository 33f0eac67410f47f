package storage

import (
	"container/list"
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"sync/atomic"
)

// In modernc, parsing a statement costs more than running it on a row that is in memory, so each
// connection caches its most recently used statements. The whole program has a few hundred texts.
const (
	cachedStatements = 256
	cachedLength     = 16 << 10 // longer texts are scripts and imports
)

// cachedConn is a connection of modernc with a cache of prepared statements. database/sql
// uses a connection from one goroutine at a time.
type cachedConn struct {
	driver.Conn
	immediate bool // begin write transactions with the lock
	watch     *atomic.Pointer[StatementFunc]
	stmts     map[string]*list.Element
	order     *list.List // of *cachedStmt, most recent first
}

type cachedStmt struct {
	driver.Stmt
	query string
	busy  bool // its rows are being read
}

// StatementFunc is called with a statement and its arguments before the statement runs.
type StatementFunc func(query string, args []driver.NamedValue)

// OnStatement makes fn the function that is called for every statement from now on, on the
// goroutine that runs it; nil removes it. Tests use it to record the statements that they explain.
func (db *DB) OnStatement(fn StatementFunc) {
	if fn == nil {
		db.watch.Store(nil)
		return
	}
	db.watch.Store(&fn)
}

func newCachedConn(c driver.Conn, immediate bool, watch *atomic.Pointer[StatementFunc]) *cachedConn {
	return &cachedConn{Conn: c, immediate: immediate, watch: watch, stmts: map[string]*list.Element{}, order: list.New()}
}

// get returns a statement for query. once reports that it is not in the cache and must be closed
// after use.
func (c *cachedConn) get(ctx context.Context, query string) (s *cachedStmt, once bool, err error) {
	e := c.stmts[query]
	if e != nil {
		if s = e.Value.(*cachedStmt); !s.busy {
			c.order.MoveToFront(e)
			return s, false, nil
		}
	}
	ds, err := c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, query)
	if err != nil {
		return nil, false, err
	}
	s = &cachedStmt{Stmt: ds, query: query}
	if e != nil || len(query) > cachedLength { // the same text twice at once, or a script
		return s, true, nil
	}
	c.stmts[query] = c.order.PushFront(s)
	for e := c.order.Back(); e != nil && c.order.Len() > cachedStatements; {
		prev := e.Prev()
		if old := e.Value.(*cachedStmt); !old.busy {
			c.order.Remove(e)
			delete(c.stmts, old.query)
			_ = old.Close()
		}
		e = prev
	}
	return s, false, nil
}

// ExecContext implements driver.ExecerContext.
func (c *cachedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if fn := c.watch.Load(); fn != nil {
		(*fn)(query, args)
	}
	s, once, err := c.get(ctx, query)
	if err != nil {
		return nil, err
	}
	if once {
		defer s.Close()
	}
	return s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
}

// QueryContext implements driver.QueryerContext.
func (c *cachedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if fn := c.watch.Load(); fn != nil {
		(*fn)(query, args)
	}
	s, once, err := c.get(ctx, query)
	if err != nil {
		return nil, err
	}
	rows, err := s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
	if err != nil {
		if once {
			_ = s.Close()
		}
		return nil, err
	}
	s.busy = true
	return &cachedRows{Rows: rows, s: s, once: once}, nil
}

// cachedRows return their statement to the cache when they are closed.
type cachedRows struct {
	driver.Rows
	s      *cachedStmt
	once   bool
	closed bool
}

func (r *cachedRows) Close() error {
	if r.closed {
		return nil
	}
	r.closed = true
	err := r.Rows.Close()
	r.s.busy = false
	if r.once {
		err = errors.Join(err, r.s.Stmt.Close())
	}
	return err
}

func (r *cachedRows) Next(dest []driver.Value) error {
	if r.closed {
		return io.EOF
	}
	return r.Rows.Next(dest)
}

// BeginTx implements driver.ConnBeginTx. It ignores ctx: no one else writes to the file, so there
// is no wait, and after a successful BEGIN the caller must know about the transaction.
func (c *cachedConn) BeginTx(_ context.Context, o driver.TxOptions) (driver.Tx, error) {
	begin := "BEGIN"
	if c.immediate && !o.ReadOnly {
		begin = "BEGIN IMMEDIATE"
	}
	if _, err := c.ExecContext(context.Background(), begin, nil); err != nil {
		return nil, err
	}
	return (*cachedTx)(c), nil
}

type cachedTx cachedConn

// Commit rolls back when it fails, so that no transaction stays open, as database/sql expects.
func (t *cachedTx) Commit() error {
	c := (*cachedConn)(t)
	_, err := c.ExecContext(context.Background(), "COMMIT", nil)
	if err != nil {
		_, _ = c.ExecContext(context.Background(), "ROLLBACK", nil) // fails when SQLite has already rolled back
	}
	return err
}

func (t *cachedTx) Rollback() error {
	_, err := (*cachedConn)(t).ExecContext(context.Background(), "ROLLBACK", nil)
	if err != nil && sqliteCode(err)&0xff == 1 { // a full disk or damage already caused a rollback
		return nil
	}
	return err
}

// PrepareContext implements driver.ConnPrepareContext. Such statements are not cached; the caller
// closes them.
func (c *cachedConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	return c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, query)
}

// Ping implements driver.Pinger.
func (c *cachedConn) Ping(ctx context.Context) error { return c.Conn.(driver.Pinger).Ping(ctx) }

// ResetSession implements driver.SessionResetter.
func (c *cachedConn) ResetSession(ctx context.Context) error {
	return c.Conn.(driver.SessionResetter).ResetSession(ctx)
}

// IsValid implements driver.Validator.
func (c *cachedConn) IsValid() bool { return c.Conn.(driver.Validator).IsValid() }

// Close finalizes the statements first, because SQLite keeps a connection open while it has any.
func (c *cachedConn) Close() error {
	var err error
	for e := c.order.Front(); e != nil; e = e.Next() {
		err = errors.Join(err, e.Value.(*cachedStmt).Stmt.Close())
	}
	c.order.Init()
	clear(c.stmts)
	return errors.Join(err, c.Conn.Close())
}
