package storagetest_test

import (
	"flag"
	"testing"

	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helix/backend/testkit"
)

var _ = flag.Bool("update", false, "write the golden files")

// The statements that package storage itself runs often. Pruning and the sizes of tables read
// everything by design, and their statements contain all columns of all tables.
func TestQueryPlans(t *testing.T) {
	t.Parallel()
	testkit.SkipRaced(t, "one goroutine, and slow under it")
	db := storagetest.Open(t)
	ctx := storagetest.Ctx(t, db)
	plans := storagetest.RecordPlans(t, db)
	do := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	secrets := storage.NewSecrets(db)
	do(secrets.Set(ctx, storage.SecretsSetParams{Name: "n", Value: "v"}))
	do(secrets.List(ctx, storage.SecretsListParams{}))
	do(secrets.Value(ctx, "n"))
	do(secrets.Delete(ctx, storage.SecretsDeleteParams{Name: "n"}))
	do(db.AddUser(ctx, "Somebody else"))
	plans.Check(t, []storagetest.Scan{
		{SQL: "FROM secrets WHERE user_id = ?", Reason: "a user has few secrets"},
	})
}

// A statement that can use two indexes, or none, is detected even with an empty database.
func TestWideStatementsAreFound(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]int{
		`SELECT id FROM memories WHERE content = ?`:                                                    1,
		`SELECT id FROM memories WHERE user_id = ?1 AND content = ?1 ORDER BY created_at`:              1,
		`SELECT id FROM memories WHERE id = ?`:                                                         0,
		`SELECT value FROM meta`:                                                                       0,
		`WITH x AS MATERIALIZED (SELECT id FROM memories WHERE id = ?) SELECT id FROM x`:               0,
		`SELECT rowid FROM search_fts WHERE search_fts MATCH ?`:                                        0,
		`SELECT rowid FROM search_fts`:                                                                 1,
		`SELECT m.id FROM json_each(?) j JOIN memories m ON m.id = j.value`:                            0,
		`SELECT i.item FROM search_items i JOIN memories m ON m.content = i.item_id WHERE i.item = ?1`: 1,
	} {
		steps, err := storagetest.WideSteps(t, query)
		if err != nil || len(steps) != want {
			t.Errorf("%s: %q, %v", query, steps, err)
		}
	}
}
