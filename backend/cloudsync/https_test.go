package cloudsync

import (
	"bytes"
	"errors"
	"fmt"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"helix/backend/cloudsync/hubtest"
	"helix/backend/storage"
	"helix/backend/testkit"
)

// firewall is a project whose database devices reach only through a proxy.
type firewall struct {
	*project
	*hubtest.Proxy
	dsn  string
	port int // of the database
}

func newFirewall(t *testing.T) firewall {
	t.Helper()
	testkit.SkipRaced(t, "devices that take turns")
	p, dsn := newProject(t)
	owner := newDevice(t)
	owner.setUp(dsn)
	u := must[*url.URL](t)(url.Parse(dsn))
	f := firewall{project: p, dsn: dsn, port: must[int](t)(strconv.Atoi(u.Port()))}
	f.Proxy = hubtest.NewProxy(t, f.port)
	if _, err := admin(t, dsn).Exec(t.Context(), `set role helix_owner; update app.hub set port = `+strconv.Itoa(f.Proxy.Port())); err != nil {
		t.Fatal(err)
	}
	return f
}

// signedIn returns a device that was set up by signing in.
func (f firewall) signedIn(t *testing.T) *device {
	t.Helper()
	d := newDevice(t)
	must[SetupResult](t)(d.Setup(d.ctx, SetupParams{Project: f.account(), Code: "123456", Name: "inside"}))
	d.identify()
	return d
}

// outside returns another device of the same person, for which nothing is blocked.
func (f firewall) outside(t *testing.T, inside *device) *device {
	t.Helper()
	d := newDevice(t)
	d.join(inside)
	l := must[local](t)(d.local(d.ctx))
	l.hub.Port = f.port
	d.write(func(tx *storage.Tx) error { return writeHub(tx, l.hub) })
	if err := d.hangUp(); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *device) state() State {
	return must[StatusResult](d.t)(d.Status(d.ctx, struct{}{})).State
}

func TestBlockedDatabaseIsReachedOverHTTPS(t *testing.T) {
	t.Parallel()
	f := newFirewall(t)
	a := f.signedIn(t)
	text, counted, removed := a.remember("one two three"), a.remember("counted"), a.remember("removed")
	a.now()
	b := f.outside(t, a)
	b.now()
	f.Block(true)
	a.edit(text, "one two 3")
	a.exec(`UPDATE memories SET access_count = access_count + 2 WHERE id = ?`, counted)
	b.edit(text, "one two III")
	b.exec(`UPDATE memories SET access_count = access_count + 3 WHERE id = ?`, counted)
	b.exec(`UPDATE memories SET deleted_at = 5 WHERE id = ?`, removed)
	theirs := b.remember("from outside")
	b.now()
	mine := a.remember("from inside")
	settleAll(a, b, a)
	if got := a.state(); got != Polling {
		t.Errorf("state %s", got)
	}
	same(t, a, b)
	a.noDeadLetters()
	for _, d := range []*device{a, b} {
		if d.text(mine) != "from inside" || d.text(theirs) != "from outside" || one[int](d, `SELECT access_count FROM memories WHERE id = ?`, counted) != 5 {
			t.Error("a change did not arrive")
		}
		if n := one[int](d, `SELECT count(*) FROM sync_conflicts WHERE status = 'open'`); n != 1 {
			t.Errorf("%d conflicts", n)
		}
	}
	before := f.token.Load()
	a = a.afterKill()
	a.edit(mine, "after a restart")
	settleAll(a, b)
	if b.text(mine) != "after a restart" || f.token.Load() != before+1 {
		t.Errorf("%q, %d tokens", b.text(mine), f.token.Load()-before)
	}
	f.token.Add(1) // the project has ended the session
	if _, err := a.Coordinate(a.ctx, CoordinateParams{}); err == nil || a.state() != Failed {
		t.Errorf("%s: %v", a.state(), err)
	}
	f.Block(false)
	a.edit(mine, "directly")
	settleAll(a, b)
	if a.state() != Live || b.text(mine) != "directly" {
		t.Errorf("%s, %q", a.state(), b.text(mine))
	}
}

func TestDeviceThatRegisteredAgainUsesHTTPS(t *testing.T) {
	t.Parallel()
	f := newFirewall(t)
	a := f.signedIn(t)
	id := a.remember("before")
	a.now()
	b := f.outside(t, a)
	site := one[int64](a, `SELECT site FROM sync_local`)
	if _, err := admin(t, f.dsn).Exec(t.Context(), `set role helix_owner; update public.sync_state set last_ctr = last_ctr + 50 where device_id = '`+must[local](t)(a.local(a.ctx)).hub.Device.String()+`'`); err != nil {
		t.Fatal(err)
	}
	f.Block(true)
	if _, err := a.Coordinate(a.ctx, CoordinateParams{}); err == nil {
		t.Error("it registered again over HTTPS")
	}
	f.Block(false)
	a.now()
	if one[int64](a, `SELECT site FROM sync_local`) == site {
		t.Fatal("it did not register again")
	}
	f.Block(true)
	a.edit(id, "after")
	settleAll(a, b)
	if a.state() != Polling || b.text(id) != "after" {
		t.Errorf("%s, %q", a.state(), b.text(id))
	}
}

func TestFirstCopyOverHTTPS(t *testing.T) {
	t.Parallel()
	f := newFirewall(t)
	f.Block(true)
	a := f.signedIn(t)
	own := a.remember("written before")
	f.Block(false)
	b := f.outside(t, a)
	const many = httpsRows + 200
	for range many {
		b.remember("one of many")
	}
	b.now()
	f.Block(true)
	settleAll(a, b)
	if got := a.state(); got != Polling {
		t.Errorf("state %s", got)
	}
	if n := one[int](a, `SELECT count(*) FROM memories`); n != many+1 {
		t.Errorf("%d rows", n)
	}
	if b.text(own) != "written before" {
		t.Error("its own row was not sent")
	}
	same(t, a, b)
}

func TestKeysAndFilesOverHTTPS(t *testing.T) {
	t.Parallel()
	f := newFirewall(t)
	a := f.signedIn(t)
	f.Block(true)
	a.now() // publishes the key with which it receives others
	f.Block(false)
	b, c := f.outside(t, a), newDevice(t)
	c.join(b)
	for _, d := range []*device{a, b} {
		d.o.Partial = t.TempDir()
	}
	f.Block(true)
	must[RotateKeyResult](t)(b.RotateKey(b.ctx, struct{}{}))
	id := b.remember("encrypted with the new key")
	mine, theirs := noise(2*blobChunk+17, 1), noise(blobChunk, 2)
	sent, received := a.module("sent", mine), b.module("received", theirs)
	b.now()
	a.now()
	c.now()
	if c.text(id) != "" {
		t.Error("c has the new key too early")
	}
	a.now() // sends the new key to c
	settleAll(c, b)
	for _, d := range []*device{a, c} {
		if got := d.text(id); got != "encrypted with the new key" {
			t.Errorf("%q", got)
		}
	}
	if got := must[[]byte](t)(b.content(sent)); !bytes.Equal(got, mine) {
		t.Errorf("sent %d bytes, %d arrived", len(mine), len(got))
	}
	if got := must[[]byte](t)(a.content(received)); !bytes.Equal(got, theirs) {
		t.Errorf("%d of %d bytes were received", len(got), len(theirs))
	}
	if got := a.state(); got != Polling {
		t.Errorf("state %s", got)
	}
}

// A hub of a former version has no functions for keys and files over HTTPS. They wait for the database.
func TestFilesWaitForTheDatabaseOnAFormerHub(t *testing.T) {
	t.Parallel()
	f := newFirewall(t)
	if _, err := admin(t, f.dsn).Exec(t.Context(), `set role helix_owner; drop function public.sync_call(jsonb); alter function public.sync_hello(jsonb) rename to hello_with_calls;
		create function public.sync_hello(p jsonb) returns jsonb language sql as 'select public.hello_with_calls(p) - ''calls''';
		grant execute on function public.sync_hello(jsonb) to authenticated`); err != nil {
		t.Fatal(err)
	}
	a := f.signedIn(t)
	a.now()
	b := f.outside(t, a)
	b.o.Partial = t.TempDir()
	f.Block(true)
	data := noise(1000, 1)
	ref, id := a.module("module", data), a.remember("without a file")
	settleAll(a, b)
	if b.text(id) != "without a file" || one[int](b, `SELECT count(*) FROM skills`) != 0 {
		t.Error("the file must wait, the text must not")
	}
	f.Block(false)
	a.triedDirect = time.Time{}
	settleAll(a, b)
	if got := must[[]byte](t)(b.content(ref)); !bytes.Equal(got, data) {
		t.Errorf("%d bytes", len(got))
	}
}

func TestOnlyTheDeviceItselfCallsOverHTTPS(t *testing.T) {
	t.Parallel()
	f := newFirewall(t)
	a := f.signedIn(t)
	a.remember("secret")
	a.now()
	b := f.outside(t, a)
	b.now()
	la, lb := must[local](t)(a.local(a.ctx)), must[local](t)(b.local(b.ctx))
	proof, claims := a.account.Proof, f.claims
	call := func(device uuid.UUID, proof string, claims map[string]any) error {
		f.claims = claims
		_, err := f.rpc(httptest.NewRequest("POST", "/", nil), "sync_pull", jsonText(map[string]any{"device": device, "proof": proof, "after": "0", "max": 10}))
		return err
	}
	if err := call(la.hub.Device, proof, claims); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"no secret":                     call(la.hub.Device, "", claims),
		"a wrong secret":                call(la.hub.Device, "x"+proof, claims),
		"another device":                call(lb.hub.Device, proof, claims),
		"a device that never signed in": call(lb.hub.Device, "", claims),
		"another person":                call(la.hub.Device, proof, map[string]any{"sub": uuid.NewString(), "role": "authenticated"}),
		"no person":                     call(la.hub.Device, proof, map[string]any{"role": "authenticated"}),
		"a token of another kind":       call(la.hub.Device, proof, map[string]any{"sub": claims["sub"], "role": "anon"}),
		"no token":                      call(la.hub.Device, proof, nil),
	} {
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != noAccess {
			t.Errorf("%s: %v", name, err)
		}
	}
	// What the calls rely on means nothing from a device's own connection, and gives no way to the tables.
	c, err := lb.hub.connect(t.Context(), string(must[[]byte](t)(b.secrets.Value(b.ctx, passwordSecret))))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context()) //nolint:errcheck // read only
	set := fmt.Sprintf(`set_config('helix.device', '%s', false), set_config('helix.proof', '%s', false), set_config('request.jwt.claims', '%s', false)`, la.hub.Device, proof, jsonText(claims))
	var device uuid.UUID
	if err := c.QueryRow(t.Context(), `select app.device_id() from (select `+set+`) x`).Scan(&device); err != nil || device != lb.hub.Device {
		t.Errorf("%v: %v", device, err)
	}
	must[struct{}](t)(b.Revoke(b.ctx, RevokeParams{ID: la.hub.Device}))
	if err := call(la.hub.Device, proof, claims); err == nil || !strings.Contains(err.Error(), noAccess) {
		t.Errorf("a removed device: %v", err)
	}
}
