package storage

import (
	"context"
	"fmt"
	"strings"
)

// dumpSchema returns the schema as text that a person can review and a test can compare: tables,
// indexes, views and triggers by name. It omits what SQLite creates itself, and the capture
// triggers of a former version.
func dumpSchema(ctx context.Context, q querier) (string, error) {
	var b strings.Builder
	err := eachRow(ctx, q, `SELECT type, name, sql FROM sqlite_master
		WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' AND name <> 'goose_db_version' AND NOT (type = 'trigger' AND name LIKE 'sync\_%' ESCAPE '\')
		ORDER BY CASE type WHEN 'table' THEN 0 WHEN 'index' THEN 1 WHEN 'view' THEN 2 ELSE 3 END, name`,
		func(scan func(...any) error) error {
			var typ, name, sql string
			if err := scan(&typ, &name, &sql); err != nil {
				return err
			}
			fmt.Fprintf(&b, "%s;\n\n", strings.TrimSpace(sql))
			return nil
		})
	return b.String(), err
}

// schemaDifference returns the first line in which two dumps differ, or "" if they are equal.
func schemaDifference(got, want string) string {
	if got == want {
		return ""
	}
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		var a, b string
		if i < len(g) {
			a = g[i]
		}
		if i < len(w) {
			b = w[i]
		}
		if a != b {
			return fmt.Sprintf("line %d is %q, expected %q", i+1, a, b)
		}
	}
	return "they differ"
}
