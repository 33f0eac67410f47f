package cloudsync

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// stageHead are the columns that each staging table has in addition to those of its row.
var stageHead = []string{"id", "dot", "prev_dot", "hlc", "sync_meta", "schema_ver", deletedAt, "extra"}

// stage is send for batches larger than one call of sync.push. It copies the rows into staging
// tables with COPY and then calls sync.merge once per table.
func (s *Service) stage(ctx context.Context, c *pgx.Conn, batch []sent) (before int64, answers []answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	places := map[rowKey]int{}
	var tables []string
	for i, x := range batch { // parents before children
		places[x.rowKey] = i
		if len(tables) == 0 || tables[len(tables)-1] != x.table {
			tables = append(tables, x.table)
		}
	}
	columns, err := s.stageTables(ctx, c, tables)
	if err != nil {
		return 0, nil, err
	}
	if _, err := c.Exec(ctx, `begin`); err != nil {
		return 0, nil, err
	}
	committed := false
	defer func() {
		if !committed {
			_, _ = c.Exec(context.WithoutCancel(ctx), `rollback`) // fails if the connection is lost
		}
	}()
	rest := batch
	var merges pgx.Batch
	merges.Queue(`select sync.lock()`)
	for _, t := range tables {
		n := slices.IndexFunc(rest, func(x sent) bool { return x.table != t })
		if n < 0 {
			n = len(rest)
		}
		text, err := stageText(columns[t], rest[:n])
		if err != nil {
			return 0, nil, err
		}
		if _, err := c.PgConn().CopyFrom(ctx, bytes.NewReader(text), fmt.Sprintf(`copy pg_temp.stage_%s ("%s") from stdin`, t, strings.Join(slices.Concat(stageHead, columns[t]), `", "`))); err != nil {
			return 0, nil, err
		}
		merges.Queue(`select $1, row_id, result, coalesce(dot, 0) from sync.merge($1)`, t)
		rest = rest[n:]
	}
	merges.Queue(`commit`)
	before, answers, err = merged(c.SendBatch(ctx, &merges), tables, places)
	committed = err == nil
	return before, answers, err
}

// merged reads the results of sync.lock, of one sync.merge per table, and of commit.
func merged(results pgx.BatchResults, tables []string, places map[rowKey]int) (before int64, answers []answer, err error) {
	defer func() {
		if e := results.Close(); err == nil {
			err = e
		}
	}()
	if err := results.QueryRow().Scan(&before); err != nil {
		return 0, nil, err
	}
	answers = make([]answer, len(places))
	for range tables {
		rows, err := results.Query()
		if err != nil {
			return 0, nil, err
		}
		var k rowKey
		var a answer
		if _, err := pgx.ForEachRow(rows, []any{&k.table, &k.id, &a.result, &a.dot}, func() error {
			i, ok := places[k]
			if !ok {
				return fmt.Errorf("the hub answered for %s %s, which was not sent", k.table, k.id)
			}
			answers[i] = a
			return nil
		}); err != nil {
			return 0, nil, err
		}
	}
	_, err = results.Exec()
	return before, answers, err
}

// stageTables creates the staging tables of this connection. It returns for each table the columns
// besides stageHead, which are those that the hub has.
func (s *Service) stageTables(ctx context.Context, c *pgx.Conn, tables []string) (map[string][]string, error) {
	if s.staged.conn != c {
		x := staged{conn: c, columns: map[string][]string{}}
		if err := c.QueryRow(ctx, `select to_regprocedure('sync.insert_new(text)') is not null`).Scan(&x.insertsNew); err != nil {
			return nil, err
		}
		s.staged = x
	}
	for _, name := range tables {
		if s.staged.columns[name] != nil {
			continue
		}
		var hub []string
		if err := c.QueryRow(ctx, `select sync.columns_of($1)`, name).Scan(&hub); err != nil {
			return nil, err
		}
		t, _ := s.table(name)
		columns := []string{"created_at", "updated_at"}
		for _, col := range t.columns {
			if slices.Contains(hub, col.Name) {
				columns = append(columns, col.Name)
			}
		}
		if _, err := c.Exec(ctx, fmt.Sprintf(`create temp table stage_%[1]s on commit delete rows as select "%[2]s" from public.%[1]s with no data`, name, strings.Join(slices.Concat(stageHead, columns), `", "`))); err != nil {
			return nil, err
		}
		s.staged.columns[name] = columns
	}
	return s.staged.columns, nil
}

// staged describes the staging tables that exist on a connection.
type staged struct {
	conn       *pgx.Conn
	columns    map[string][]string
	insertsNew bool // the hub has sync.insert_new
}

// stageText encodes rows in the text format of COPY.
func stageText(columns []string, part []sent) ([]byte, error) {
	place := make(map[string]int, len(columns))
	for i, c := range columns {
		place[c] = i
	}
	var b []byte
	row := make([]json.RawMessage, len(columns))
	for _, x := range part {
		var deleted, cols json.RawMessage
		if err := eachMember(x.payload, func(name []byte, value json.RawMessage) {
			switch string(name) {
			case "deletedAt":
				deleted = value
			case "cols":
				cols = value
			}
		}); err != nil {
			return nil, err
		}
		clear(row)
		extra := []byte{'{'}
		if err := eachMember(cols, func(name []byte, value json.RawMessage) {
			if i, ok := place[string(name)]; ok {
				row[i] = value
				return
			}
			if len(extra) > 1 {
				extra = append(extra, ',')
			}
			extra = append(append(append(append(extra, '"'), name...), '"', ':'), value...)
		}); err != nil {
			return nil, err
		}
		b = append(b, x.id.String()...)
		b = strconv.AppendInt(append(b, '\t'), int64(x.dot), 10)
		if b = append(b, '\t'); x.prev.Valid {
			b = strconv.AppendInt(b, x.prev.Int64, 10)
		} else {
			b = append(b, `\N`...)
		}
		b = strconv.AppendInt(append(b, '\t'), x.hlc, 10)
		b = hex.AppendEncode(append(b, '\t', '\\', '\\', 'x'), x.rawMeta)
		b = strconv.AppendInt(append(b, '\t'), SchemaVersion, 10)
		for _, v := range append([]json.RawMessage{deleted, append(extra, '}')}, row...) {
			var err error
			if b, err = appendCopy(append(b, '\t'), v); err != nil {
				return nil, err
			}
		}
		b = append(b, '\n')
	}
	return b, nil
}

// appendCopy appends a JSON value as a field in the text format of COPY. A string is written
// without quotes, any other value as JSON.
func appendCopy(b []byte, v json.RawMessage) ([]byte, error) {
	if len(v) == 0 || v[0] == 'n' {
		return append(b, `\N`...), nil
	}
	text := []byte(v)
	if v[0] == '"' {
		if text = v[1 : len(v)-1]; bytes.IndexByte(text, '\\') >= 0 {
			var s string
			if err := json.Unmarshal(v, &s); err != nil {
				return nil, err
			}
			text = []byte(s)
		}
	}
	for _, c := range text {
		switch c {
		case '\\':
			b = append(b, '\\', '\\')
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, c)
		}
	}
	return b, nil
}

var errPayload = errors.New("cloudsync: a payload of an unknown form")

// eachMember calls fn for each member of a JSON object. It handles only payloads as this device
// writes them, without white space.
func eachMember(object json.RawMessage, fn func(name []byte, value json.RawMessage)) error {
	b := object
	if len(b) < 2 || b[0] != '{' {
		return errPayload
	}
	for b = b[1:]; len(b) > 0 && b[0] != '}'; {
		if b[0] == ',' {
			b = b[1:]
		}
		n := stringLength(b)
		if n < 0 || n >= len(b) || b[n] != ':' {
			return errPayload
		}
		name := b[1 : n-1]
		b = b[n+1:]
		m := valueLength(b)
		if m <= 0 {
			return errPayload
		}
		fn(name, json.RawMessage(b[:m]))
		b = b[m:]
	}
	return nil
}

// valueLength returns the length of the JSON value at the beginning of b; -1 if there is none.
// Arrays are not supported.
func valueLength(b []byte) int {
	if len(b) == 0 || b[0] == '[' {
		return -1
	}
	if b[0] == '"' {
		return stringLength(b)
	}
	if b[0] != '{' {
		return bytes.IndexAny(b, ",}")
	}
	for i, depth := 0, 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			n := stringLength(b[i:])
			if n < 0 {
				return -1
			}
			i += n - 1
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return -1
}

// stringLength returns the length of the JSON string at the beginning of b, including its quotes;
// -1 if there is none.
func stringLength(b []byte) int {
	if len(b) == 0 || b[0] != '"' {
		return -1
	}
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}
