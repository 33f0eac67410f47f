package storage

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"runtime"
	"time"

	"modernc.org/sqlite"
)

// gated is the connector of a pool. It opens connections only while the gate admits the caller, so
// the pools survive a swap of the file: their connections are closed, and new ones open the new
// file.
type gated struct {
	driver.Connector
	db    *DB
	write bool
}

func (c gated) Connect(ctx context.Context) (driver.Conn, error) {
	if err := c.db.gate.check(ctx); err != nil {
		return nil, err
	}
	how, err := c.connector()
	if err != nil {
		return nil, err
	}
	conn, err := how.Connect(ctx)
	if err != nil {
		return nil, err
	}
	cached := newCachedConn(conn, c.write, &c.db.watch)
	if script := c.db.capture.Load(); script != nil && c.write {
		if _, err := cached.ExecContext(ctx, *script, nil); err != nil {
			return nil, errors.Join(fmt.Errorf("capture triggers: %w", err), cached.Close())
		}
	}
	return cached, nil
}

// readerCount returns how many reads run concurrently.
func readerCount() int { return min(8, max(2, runtime.NumCPU())) }

// openPools creates both pools; connections are opened on first use.
func (db *DB) openPools() error {
	w, err := sqlite.NewConnector(dsn(db.path, writerPragmas, true))
	if err != nil {
		return err
	}
	r, err := sqlite.NewConnector(dsn(db.path, readerPragmas, false))
	if err != nil {
		return err
	}
	db.writer = sql.OpenDB(gated{w, db, true})
	db.writer.SetMaxOpenConns(1)
	db.readers = sql.OpenDB(gated{r, db, false})
	db.readers.SetMaxOpenConns(readerCount())
	db.readers.SetMaxIdleConns(readerCount())
	return nil
}

// closeConns closes all connections of both pools. The readers go first, so that the writer, as the
// last connection, can remove the WAL. The gate must be closed and drained.
func (db *DB) closeConns(ctx context.Context) error {
	for _, p := range []*sql.DB{db.readers, db.writer} {
		p.SetMaxIdleConns(0)
		if err := untilZero(ctx, p); err != nil {
			return err
		}
	}
	db.closeRaw()
	db.writer.SetMaxIdleConns(1)
	db.readers.SetMaxIdleConns(readerCount())
	return nil
}

// untilZero waits for connections that a canceled call still holds: database/sql returns them to
// the pool a moment after the call returns, and has no way to wait for that.
func untilZero(ctx context.Context, p *sql.DB) error {
	t := time.NewTicker(5 * time.Millisecond)
	defer t.Stop()
	for p.Stats().OpenConnections > 0 {
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%d connections are still open", p.Stats().OpenConnections), ctx.Err())
		case <-t.C:
		}
	}
	return nil
}
