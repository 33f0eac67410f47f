package cloudsync

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"helix/backend/cloudsync/hubtest"
	"helix/backend/fault"
)

// Behind a pooler, as offered by hosting providers, session mode works and transaction mode is
// reported.
func TestPoolerModes(t *testing.T) {
	t.Parallel()
	dsn := hubtest.Database(t)
	c := must[*pgx.ConnConfig](t)(pgx.ParseConfig(dsn))
	boss := "boss_" + c.Database // roles exist once per server
	if _, err := admin(t, dsn).Exec(t.Context(), `create role `+boss+` superuser login password 'of the test'`); err != nil {
		t.Fatal(err)
	}
	through := func(mode string) (string, int) {
		port := hubtest.Pooler(t, int(c.Port), mode)
		return fmt.Sprintf("postgres://%s:of%%20the%%20test@127.0.0.1:%d/%s?sslmode=disable", boss, port, c.Database), port
	}
	transaction, port := through("transaction")
	a, b := newDevice(t), newDevice(t)
	_, err := a.Setup(a.ctx, SetupParams{AdminDSN: transaction})
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "transaction mode") {
		t.Fatalf("%v", err)
	}
	session, _ := through("session")
	must[SetupResult](t)(a.Setup(a.ctx, SetupParams{AdminDSN: session}))
	b.join(a)
	a.running()
	b.running()
	id := a.remember("through a pooler") // also tests its notification
	b.until(func() bool { return b.text(id) != "" })
	d := newDevice(t)
	d.join(a)
	l := must[local](t)(d.local(d.ctx))
	l.hub.Port = port
	d.exec(`UPDATE sync_local SET hub = ?`, jsonText(l.hub))
	if _, err := d.Coordinate(d.ctx, CoordinateParams{}); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "transaction mode") {
		t.Errorf("%v", err)
	}
	if st := must[StatusResult](t)(d.Status(d.ctx, struct{}{})); st.State != Failed || !strings.Contains(st.Error, "session mode") {
		t.Errorf("%+v", st)
	}
}
