package cloudsync

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"helix/backend/cloudsync/hubtest"
	"helix/backend/fault"
	"helix/backend/testkit"
)

// Setup with the connection string of the device's hub updates its schema. Items of a table that the hub
// lacked are then sent.
func TestSetupUpdatesTheHubOfThisDevice(t *testing.T) {
	testkit.SkipRaced(t, "one device")
	t.Parallel()
	dsn := newHub(t)
	a := newDevice(t)
	a.setUp(dsn)
	a.now()
	before := must[local](t)(a.local(a.ctx))
	hub := admin(t, dsn)
	for _, q := range []string{`drop table public.memories cascade`, `delete from app.synced where table_name = 'memories'`} { // as of an older version
		if _, err := hub.Exec(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	a.remember("of a later version")
	a.now()
	if text := one[string](a, `SELECT coalesce(max(message), '') FROM sync_dead_letter`); !strings.Contains(text, "helix sync setup") {
		t.Fatalf("%q", text)
	}
	if _, err := a.setup(a.ctx, SetupParams{AdminDSN: hubtest.Database(t)}, false); !fault.Is(err, fault.Conflict) {
		t.Errorf("another hub: %v", err)
	}
	r := must[SetupResult](t)(a.setup(a.ctx, SetupParams{AdminDSN: dsn}, false))
	after := must[local](t)(a.local(a.ctx))
	if !r.Updated || !r.Encrypted || r.Site != before.site || after.site != before.site || *after.hub != *before.hub {
		t.Errorf("%+v, %+v", r, after.hub)
	}
	a.now()
	a.noDeadLetters()
	if n := must[[]string](t)(collectText(t.Context(), hub, `select content from public.memories`)); len(n) != 1 {
		t.Errorf("%d rows on the hub", len(n))
	}
}

// A person whose data is on the hub gets no second first device: its key would be another one, under the
// same version.
func TestSetupRefusesAHubThatHasTheData(t *testing.T) {
	t.Parallel()
	a, b, dsn := pair(t)
	id := a.remember("kept")
	settleAll(a, b)
	must[struct{}](t)(a.Disconnect(a.ctx, struct{}{}))
	plain := false
	for _, p := range []SetupParams{{AdminDSN: dsn}, {AdminDSN: dsn, Encrypt: &plain}} {
		if _, err := a.setup(a.ctx, p, false); !fault.Is(err, fault.Conflict) {
			t.Fatalf("%v", err)
		}
	}
	a.join(b)
	a.edit(id, "kept and edited")
	settleAll(a, b)
	same(t, a, b)
	for _, d := range []*device{a, b} {
		d.noDeadLetters()
	}
}

// A hub that no longer answers, without closing the connection, is offline after a while.
func TestSilentHubIsOffline(t *testing.T) {
	testkit.SkipRaced(t, "one device")
	t.Parallel()
	dsn := newHub(t)
	a := newDevice(t)
	a.setUp(dsn)
	a.now()
	conf := a.conn.Config()
	if conf.Tracer != (deadline{callTime}) {
		t.Fatalf("a connection without a deadline: %v", conf.Tracer)
	}
	conf.Tracer = deadline{300 * time.Millisecond}
	if err := a.hangUp(); err != nil {
		t.Fatal(err)
	}
	holder := must[pgx.Tx](t)(admin(t, dsn).Begin(t.Context()))
	if _, err := holder.Exec(t.Context(), `select from public.sync_head for update`); err != nil {
		t.Fatal(err)
	}
	a.conn = must[*pgx.Conn](t)(pgx.ConnectConfig(t.Context(), conf))
	a.remember("waits")
	_, err := a.Coordinate(a.ctx, CoordinateParams{})
	if st := must[StatusResult](t)(a.Status(a.ctx, struct{}{})); !fault.Is(err, fault.Unavailable) || !errors.Is(err, context.DeadlineExceeded) || st.State != Offline || st.QueueLength != 1 {
		t.Fatalf("%v, %+v", err, st)
	}
	var b pgx.Batch
	b.Queue(`select pg_sleep(60)`)
	c := must[*pgx.Conn](t)(pgx.ConnectConfig(t.Context(), conf))
	if err := c.SendBatch(t.Context(), &b).Close(); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a batch: %v", err)
	}
	if err := holder.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.now()
	a.noDeadLetters()
}
