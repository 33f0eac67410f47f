package cloudsync

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"helix/backend/testkit"
)

// plan is a node of EXPLAIN (ANALYZE, FORMAT JSON).
type plan struct {
	NodeType string  `json:"Node Type"`
	Loops    float64 `json:"Actual Loops"`
	Rows     float64 `json:"Actual Rows"`
	Filtered float64 `json:"Rows Removed by Filter"`
	Joined   float64 `json:"Rows Removed by Join Filter"`
	Checked  float64 `json:"Rows Removed by Index Recheck"`
	Plans    []plan  `json:"Plans"`
}

// most returns the node that looks at most rows, and their number.
func (p plan) most() (string, float64) {
	name, n := p.NodeType, p.Loops*(p.Rows+p.Filtered+p.Joined+p.Checked)
	for _, child := range p.Plans {
		if c, m := child.most(); m > n {
			name, n = c, m
		}
	}
	return name, n
}

// Storing and reading n rows looks at a few times n rows, whether or not the server has statistics.
func TestHubNeverComparesEachRowWithAllRows(t *testing.T) {
	testkit.SkipRaced(t, "one goroutine")
	t.Parallel()
	const n = 700
	a, _, dsn := pair(t)
	for i := range n {
		a.remember(fmt.Sprint("memory ", i))
	}
	a.now()

	c := must[*pgx.ConnConfig](t)(pgx.ParseConfig(dsn))
	var plans []string
	c.OnNotice = func(_ *pgconn.PgConn, notice *pgconn.Notice) {
		if _, text, ok := strings.Cut(notice.Message, "plan:"); ok {
			plans = append(plans, text)
		}
	}
	conn := must[*pgx.Conn](t)(pgx.ConnectConfig(t.Context(), c))
	defer conn.Close(t.Context()) //nolint:errcheck // the test has ended
	exec := func(q string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	var role string
	if err := conn.QueryRow(t.Context(), `select role_name from app.device where user_id = (select user_id from public.memories limit 1) limit 1`).Scan(&role); err != nil {
		t.Fatal(err)
	}
	exec(`load 'auto_explain'`)
	for _, s := range []string{"log_min_duration = 0", "log_analyze = on", "log_timing = off", "log_nested_statements = on", "log_format = json", "log_level = notice"} {
		exec("set auto_explain." + s)
	}
	for _, statistics := range []string{"select 1", "analyze public.memories", "analyze"} {
		exec("reset session authorization")
		exec(statistics)
		exec("set session authorization " + pgx.Identifier{role}.Sanitize())
		exec(`drop table if exists pg_temp.stage_memories`)
		exec(`create temporary table stage_memories as select id, dot, prev_dot, hlc, sync_meta, schema_ver, deleted_at, extra, content from public.memories`)
		for _, call := range []string{
			`select * from sync.merge('memories')`,
			`select * from sync.push((select jsonb_build_object('tables', jsonb_build_array(jsonb_build_object('t', 'memories', 'rows', jsonb_agg(jsonb_build_object('id', id, 'dot', dot, 'prevDot', prev_dot,
				'hlc', hlc, 'schemaVer', schema_ver, 'cols', '{}'::jsonb, 'meta', encode(sync_meta, 'base64'), 'deletedAt', deleted_at))))) from public.memories))`,
			`select * from sync.pull(0, 2000)`,
		} {
			plans = nil
			rows, err := conn.Query(t.Context(), call)
			if err != nil {
				t.Fatal(err)
			}
			got := 0
			for rows.Next() {
				got++
			}
			if err := rows.Err(); err != nil || got < n {
				t.Fatalf("%.30s: %d rows: %v", call, got, err)
			}
			if len(plans) == 0 {
				t.Fatal("no plan was reported")
			}
			for _, text := range plans {
				var p struct{ Plan plan }
				if err := json.Unmarshal([]byte(text), &p); err != nil {
					t.Fatal(err)
				}
				if name, m := p.Plan.most(); m > 20*n {
					t.Errorf("%.30s after %s: %s looks at %.0f rows", call, statistics, name, m)
				}
			}
		}
	}
}
