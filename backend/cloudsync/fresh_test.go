package cloudsync

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"helix/backend/storage"
	"helix/backend/testkit"
)

// freshRun returns a run of pushFresh that the test steps through.
func (d *device) freshRun(c *pgx.Conn) (p *freshPush, err error) {
	p = &freshPush{s: d.Service, r: &Round{}, room: batchBytes, touched: map[uuid.UUID]bool{}, readers: map[string]*partReader{}}
	var names []string
	for _, t := range d.tables {
		names = append(names, t.Table)
	}
	if p.columns, err = d.stageTables(d.ctx, c, names); err != nil {
		return nil, err
	}
	p.end = one[int64](d, `SELECT coalesce(max(seq), 0) FROM change_log`)
	return p, nil
}

// sendFreshOnly sends a batch of new rows and stops before it stores the answer.
func (d *device) sendFreshOnly(c *pgx.Conn) error {
	p, err := d.freshRun(c)
	if err != nil {
		return err
	}
	more := true
	parts, err := p.step(d.ctx, nil, &more)
	if err != nil || len(parts) == 0 {
		return err
	}
	_, err = d.sendFresh(d.ctx, c, parts)
	return err
}

// onHub runs fn with a connection to the hub.
func (d *device) onHub(fn func(c *pgx.Conn) error) {
	d.t.Helper()
	if err := d.exclusive(d.ctx, func() error {
		c, _, err := d.open(d.ctx)
		if err != nil {
			return err
		}
		return fn(c)
	}); err != nil {
		d.t.Fatal(err)
	}
}

func (d *device) mustRun() (p *freshPush, c *pgx.Conn) {
	d.t.Helper()
	d.onHub(func(conn *pgx.Conn) (err error) {
		c = conn
		p, err = d.freshRun(c)
		return err
	})
	return p, c
}

// A part holds the same version as packaging the row by itself.
func TestPartHoldsTheVersionThatPackagingMakes(t *testing.T) {
	t.Parallel()
	a, _, _ := pair(t)
	a.now()
	a.fill(1, rand.New(rand.NewPCG(7, 8)))
	a.remember("text with \"quotes\" and ümlauts")
	id := a.remember("its tag is another change, so it is sent by itself")
	a.exec(`INSERT INTO memory_tags (memory_id, user_id, tag) VALUES (?, ?, 'x')`, id, a.db.LocalUser().ID)
	p, _ := a.mustRun()
	compared := map[string]int{}
	a.write(func(tx *storage.Tx) error {
		changes, _, err := readPending(tx, packagedEntries)
		if err != nil {
			return err
		}
		if err := p.scan(tx); err != nil {
			return err
		}
		parts, _, err := p.pack(tx)
		if err != nil {
			return err
		}
		for _, x := range parts {
			for i, row := range x.rows {
				got := rowKey{x.Table, row.id}
				_, hlc, v, err := x.version(a.cipher, i)
				if err != nil {
					return err
				}
				r, err := x.readRow(tx, row.id)
				if err != nil {
					return err
				}
				pend := changes[got]
				want := x.pendingVersion(r, nil, pend, x.first+Dot(i))
				for no, at := range pend.stamps {
					if hlc != at {
						t.Errorf("%s: field %d is stamped %d, the row %d", x.Table, no, at, hlc)
					}
				}
				for name, value := range want.Values {
					if !equal(v.Values[name], value) {
						t.Errorf("%s.%s is %v, want %v", x.Table, name, v.Values[name], value)
					}
				}
				if string(v.Meta.encode()) != string(want.Meta.encode()) || v.Created != want.Created || v.Updated != want.Updated {
					t.Errorf("%s: %+v, want %+v", x.Table, v.Meta, want.Meta)
				}
				compared[x.Table]++
				if row.id == id {
					t.Error("a row with several changes is in a batch")
				}
			}
		}
		return nil
	})
	if len(compared) < 10 {
		t.Errorf("only %v were compared", compared)
	}
}

// An edit made while a row is on its way is sent afterwards, and conflicts with nothing.
func TestEditDuringAFreshPushIsSentAfterIt(t *testing.T) {
	t.Parallel()
	a, b, _ := pair(t)
	a.now()
	id, other := a.remember("first"), a.remember("not edited")
	p, c := a.mustRun()
	more := true
	parts, err := p.step(a.ctx, nil, &more)
	if err != nil || len(parts) != 1 || len(parts[0].rows) != 2 {
		t.Fatalf("%v %+v", err, parts)
	}
	a.edit(id, "second")
	done := must[delivery](t)(a.sendFresh(a.ctx, c, parts))
	if _, err := p.step(a.ctx, []delivery{done}, &more); err != nil || !done.whole {
		t.Fatalf("%v, whole: %v", err, done.whole)
	}
	if base := one[string](a, `SELECT row ->> 'content' FROM sync_base WHERE row_id = ?`, id); base != "first" {
		t.Errorf("the base is %q", base)
	}
	if n := one[int](a, `SELECT count(*) FROM sync_base WHERE row_id = ?`, other); n > 0 {
		t.Error("an unedited row has a base")
	}
	b.now()
	b.exec(`UPDATE memories SET pinned = 1 WHERE id = ?`, id)
	settleAll(a, b)
	same(t, a, b)
	if got := one[string](b, `SELECT content FROM memories WHERE id = ? AND pinned = 1`, id); got != "second" {
		t.Errorf("%q", got)
	}
	if n := one[int](a, `SELECT (SELECT count(*) FROM sync_conflicts) + (SELECT count(*) FROM sync_batches)`); n > 0 {
		t.Errorf("%d conflicts and batches are left", n)
	}
}

// A batch whose answer is lost is stored once, whether or not the hub has it, also if its rows are
// edited in the meantime on both devices.
func TestLostAnswerToAFreshPush(t *testing.T) {
	testkit.SkipRaced(t, "one goroutine")
	t.Parallel()
	for _, arrives := range []bool{true, false} {
		t.Run(fmt.Sprint("arrives ", arrives), func(t *testing.T) {
			t.Parallel()
			a, b, _ := pair(t)
			a.now()
			id := a.remember("sent")
			p, c := a.mustRun()
			more := true
			parts, err := p.step(a.ctx, nil, &more)
			if err != nil || len(parts) != 1 {
				t.Fatalf("%v %+v", err, parts)
			}
			dot := int64(parts[0].first)
			if arrives {
				must[delivery](t)(a.sendFresh(a.ctx, c, parts))
				b.now()
				b.exec(`UPDATE memories SET access_count = access_count + 2, pinned = 1 WHERE id = ?`, id)
				b.now()
			}
			a.exec(`UPDATE memories SET access_count = access_count + 3, salience = 81 WHERE id = ?`, id)
			settleAll(a, b)
			same(t, a, b)
			want := 3
			if arrives {
				want = 5
			}
			if n := one[int](b, `SELECT access_count FROM memories WHERE id = ? AND salience = 81`, id); n != want {
				t.Errorf("counted %d, want %d", n, want)
			}
			if n := one[int](a, `SELECT count(*) FROM sync_conflicts`); n > 0 {
				t.Errorf("%d conflicts", n)
			}
			if n := one[int64](a, `SELECT ctr FROM sync_local`); n < dot&(1<<ctrBits-1) {
				t.Errorf("the counter went back to %d", n)
			}
		})
	}
}

// Rows of several tables that do not fit into one batch are sent in several, each once.
// A batch whose answer is missing is settled as soon as there is a connection. Otherwise its rows could
// be packaged a second time.
func TestUnansweredBatchIsSettledFirst(t *testing.T) {
	t.Parallel()
	a, b, _ := pair(t)
	id := a.remember("in a batch")
	a.onHub(a.sendFreshOnly)
	a.exec(`UPDATE memories SET access_count = access_count + 2 WHERE id = ?`, id)
	a = a.reopened()
	a.onHub(func(*pgx.Conn) error {
		_, err := a.packageChanges(a.ctx)
		return err
	})
	settleAll(a, b)
	same(t, a, b)
	if n := one[int](b, `SELECT access_count FROM memories WHERE id = ?`, id); n != 2 {
		t.Errorf("counted %d, want 2", n)
	}
}

func TestFreshPushOfManyTablesInSmallBatches(t *testing.T) {
	testkit.SkipRaced(t, "one goroutine")
	t.Parallel()
	a, b, _ := pair(t)
	a.now()
	a.fill(12, rand.New(rand.NewPCG(9, 10)))
	p, c := a.mustRun()
	p.room = 3000
	if err := a.exclusive(a.ctx, func() error { return p.run(a.ctx, c) }); err != nil {
		t.Fatal(err)
	}
	sent := p.r.Pushed
	settleAll(a, b)
	b.noDeadLetters()
	same(t, a, b)
	if left := one[int](a, `SELECT (SELECT count(*) FROM sync_outbox) + (SELECT count(*) FROM change_log) + (SELECT count(*) FROM sync_batches)`); left > 0 || sent < 12*10 {
		t.Errorf("%d sent, %d entries left", sent, left)
	}
}

// A hub of a former version merges new rows like others.
func TestNewRowsReachAHubOfAFormerVersion(t *testing.T) {
	t.Parallel()
	a, b, dsn := pair(t)
	if _, err := admin(t, dsn).Exec(t.Context(), `set role helix_owner; drop function sync.insert_new(text)`); err != nil {
		t.Fatal(err)
	}
	if err := a.hangUp(); err != nil {
		t.Fatal(err)
	}
	a.manyFresh = 5
	for i := range 20 {
		a.remember(fmt.Sprint("note ", i))
	}
	if r := a.now(); r.Pushed != 20 {
		t.Errorf("%+v", r)
	}
	b.now()
	same(t, a, b)
}
