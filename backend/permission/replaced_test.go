package permission

import (
	"testing"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/storage"
)

// Decisions based on data that a restore has replaced are invalid, and runs that depend on them end.
func TestReplacedDataClearsCaches(t *testing.T) {
	t.Parallel()
	e := setup(t, Options{})
	sub := e.tool("a", "network:https(api.example.com)")
	e.grant(ask(sub))
	e.want(ask(sub), Allow, "granted")
	run := e.begin(nil, sub)
	if err := e.db.Write(e.ctx, func(tx *storage.Tx) error { // simulate another file
		_, err := tx.Exec(`DELETE FROM capability_grants`)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	e.want(ask(sub), Allow, "granted") // decisions are cached
	bus.Publish(e.db.Bus(), uuid.Nil, storage.Replaced{})
	if d := e.decide(ask(sub)); d.Effect == Allow {
		t.Errorf("still allowed: %+v", d)
	}
	if err := run.Err(); !fault.Is(err, fault.Unavailable) {
		t.Errorf("the run goes on: %v", err)
	}
}
