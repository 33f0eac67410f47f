package storage

import (
	"context"
	"database/sql"
	"strings"
)

// maxStmts bounds the statements kept; a program of this size has a few hundred.
const maxStmts = 512

// statements keeps the writer's INSERT, UPDATE and DELETE compiled between transactions.
// Compiling an UPDATE of a synced table compiles its triggers too, which takes longer than
// running it. Only the goroutine that has the turn may use it.
type statements struct {
	seen map[string]bool // ran once
	kept map[string]*sql.Stmt
}

// exec runs query, compiled when it is kept. A query that was seen before is noted in
// tx.compile: while the transaction holds the one connection nothing else can be compiled.
func (s *statements) exec(tx *Tx, query string, args []any) (sql.Result, error) {
	if st := s.kept[query]; st != nil {
		return tx.StmtContext(tx.ctx, st).ExecContext(tx.ctx, args...) //nolint:sqlclosecheck // ends with the transaction
	}
	if s.seen[query] {
		tx.compile = append(tx.compile, query)
	} else if worthKeeping(query) {
		if len(s.seen) >= 4*maxStmts {
			clear(s.seen)
		}
		if s.seen == nil {
			s.seen = map[string]bool{}
		}
		s.seen[query] = true
	}
	return tx.ExecContext(tx.ctx, query, args...)
}

func worthKeeping(query string) bool {
	verb, _, _ := strings.Cut(strings.TrimSpace(query), " ")
	switch strings.ToUpper(verb) {
	case "INSERT", "UPDATE", "DELETE":
		return !strings.Contains(query, ";") // several statements cannot be one
	}
	return false
}

// compileNoted compiles what a finished transaction noted. Trouble here is none: the query
// is then compiled anew each time, as before.
func (s *statements) compileNoted(ctx context.Context, w *sql.DB, queries []string) {
	for _, q := range queries {
		if s.kept[q] != nil {
			continue
		}
		if len(s.kept) >= maxStmts {
			for _, st := range s.kept {
				_ = st.Close()
			}
			clear(s.kept)
		}
		st, err := w.PrepareContext(ctx, q) //nolint:sqlclosecheck // kept; ends with the pool
		if err != nil {
			return
		}
		if s.kept == nil {
			s.kept = map[string]*sql.Stmt{}
		}
		s.kept[q] = st
	}
}
