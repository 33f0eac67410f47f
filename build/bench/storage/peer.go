package main

import (
	"context"
	"database/sql/driver"

	"github.com/mattn/go-sqlite3"
)

// connector opens a connection of the peer and sets the pragmas that cannot be set in its DSN.
type connector struct {
	dsn     string
	pragmas []string
}

func (c connector) Connect(context.Context) (driver.Conn, error) {
	conn, err := c.Driver().Open(c.dsn)
	if err != nil {
		return nil, err
	}
	for _, p := range c.pragmas {
		if _, err := conn.(*sqlite3.SQLiteConn).Exec(p, nil); err != nil {
			return nil, err
		}
	}
	return conn, nil
}

func (connector) Driver() driver.Driver { return &sqlite3.SQLiteDriver{} }
