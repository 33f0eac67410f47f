package cloudsync

import (
	"bytes"
	"context"
	"encoding/json"
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
	var b bytes.Buffer
	for _, x := range part {
		var p struct {
			DeletedAt json.RawMessage            `json:"deletedAt"`
			Cols      map[string]json.RawMessage `json:"cols"`
		}
		if err := json.Unmarshal(x.payload, &p); err != nil {
			return nil, err
		}
		values := []json.RawMessage{p.DeletedAt, nil}
		for _, c := range columns {
			values = append(values, p.Cols[c])
			delete(p.Cols, c)
		}
		values[1] = json.RawMessage(jsonText(p.Cols)) // extra
		prev := `\N`
		if x.prev.Valid {
			prev = strconv.FormatInt(x.prev.Int64, 10)
		}
		fmt.Fprintf(&b, "%s\t%d\t%s\t%d\t\\\\x%x\t%d", x.id, x.dot, prev, x.hlc, x.rawMeta, SchemaVersion)
		for _, v := range values {
			text, err := copyText(v)
			if err != nil {
				return nil, err
			}
			b.WriteByte('\t')
			b.WriteString(text)
		}
		b.WriteByte('\n')
	}
	return b.Bytes(), nil
}

var copyEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`, "\t", `\t`)

// copyText returns a JSON value as a field in the text format of COPY. A string is written without
// quotes, any other value as JSON.
func copyText(v json.RawMessage) (text string, err error) {
	if len(v) == 0 || v[0] == 'n' {
		return `\N`, nil
	}
	if text = string(v); v[0] == '"' {
		err = json.Unmarshal(v, &text)
	}
	return copyEscapes.Replace(text), err
}
