package gateway

import (
	"encoding/json"
	"flag"
	"fmt"
	"testing"

	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helix/backend/testkit"
)

var _ = flag.Bool("update", false, "write the golden files")

func TestQueryPlans(t *testing.T) {
	t.Parallel()
	testkit.SkipRaced(t, "one goroutine, and slow under it")
	var db *storage.DB
	with := withDB(t)
	f := setup(t, func(o *Options) { with(o); db = o.DB })
	plans := storagetest.RecordPlans(t, db)
	admin := f.memory(t, f.owner())
	var m struct{ Result NewToken }
	if err := json.Unmarshal([]byte(admin.ask(`{"jsonrpc":"2.0","id":1,"method":"tokens.create","params":{"name":"ci","scopes":["admin"]}}`)), &m); err != nil {
		t.Fatal(err)
	}
	w := f.dial(t, nil)
	w.ask(hello(m.Result.Token, `["admin"]`))
	admin.ask(`{"jsonrpc":"2.0","id":2,"method":"tokens.list","params":{"revoked":true}}`)
	admin.ask(`{"jsonrpc":"2.0","id":3,"method":"tokens.list","params":{}}`)
	admin.ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":4,"method":"tokens.revoke","params":{"id":%q}}`, m.Result.ID))
	const (
		few = "a user has few tokens"
	)
	plans.Check(t, []storagetest.Scan{
		{SQL: "FROM gateway_tokens WHERE user_id", Reason: few},
		{SQL: "FROM gateway_tokens t LEFT JOIN users", Reason: "reads all tokens into memory, when one has changed"},
	})
}
