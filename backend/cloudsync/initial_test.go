package cloudsync

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/testkit"
)

// afterKill returns the device after its process was killed; only the database file remains.
func (d *device) afterKill() *device {
	d.t.Helper()
	other := &device{Service: New(d.db, d.secrets, Options{Version: "test"}), t: d.t}
	d.t.Cleanup(func() { _ = other.Close() })
	other.identify()
	return other
}

func TestInitialCopyContinuesAfterEachKill(t *testing.T) {
	testkit.SkipRaced(t, "one goroutine at a time")
	t.Parallel()
	a, b := newDevice(t), newDevice(t)
	a.setUp(newHub(t))
	a.fill(12, rand.New(rand.NewPCG(3, 4)))
	tagged := a.remember("a memory with tags")
	for _, tag := range []string{"x", "y"} {
		a.exec(`INSERT INTO memory_tags (memory_id, user_id, tag) VALUES (?, ?, ?)`, tagged, a.db.LocalUser().ID, tag)
	}
	a.now()
	b.join(a)
	var seen int64
	kills := 0
	for {
		b.copyRows = 7
		ctx, kill := context.WithCancel(b.ctx)
		cancel := bus.Subscribe(b.db.Bus(), func(_ uuid.UUID, p Progress) {
			if p.Rows <= seen || p.Of < p.Rows || p.Table == "" {
				t.Errorf("%+v after %d rows", p, seen)
			}
			seen = p.Rows
			if kills < 20 {
				kills++
				a.remember(fmt.Sprint("written while the copy was interrupted, ", kills))
				kill()
			}
		})
		_, err := b.Coordinate(ctx, CoordinateParams{})
		cancel()
		kill()
		if err == nil {
			break
		}
		if !errors.Is(err, context.Canceled) && !fault.Is(err, fault.Unavailable) {
			t.Fatal(err)
		}
		a.now()
		b = b.afterKill()
	}
	if kills != 20 {
		t.Errorf("killed %d times", kills)
	}
	b.noDeadLetters()
	settleAll(a, b)
	same(t, a, b)
	if n := one[int](b, `SELECT count(*) FROM sync_progress`); n != 0 {
		t.Error("the place of a copy that has ended is kept")
	}
}

func TestInitialCopyKeepsWhatOnlyThisDeviceHas(t *testing.T) {
	t.Parallel()
	a, b, _ := pair(t)
	a.remember("of the first")
	a.now()
	c := newDevice(t)
	mine := c.remember("of the newcomer")
	c.join(a)
	settleAll(c, a, b)
	same(t, a, b, c)
	if n := one[int](b, `SELECT count(*) FROM memories WHERE id = ?`, mine); n != 1 {
		t.Error("what the newcomer had did not reach the others")
	}
}

// Tuples may arrive in pieces of any size, and invalid input is rejected.
func FuzzDecoderNeverPanics(f *testing.F) {
	f.Add(append(append([]byte{}, copySignature...), make([]byte, 8)...), 3)
	f.Fuzz(func(_ *testing.T, b []byte, step int) {
		d := decoder{tableCopy: tableCopy{child: -1}, rows: 2, full: func([]copied) error { return nil }}
		step = max(1, step%64)
		for len(b) > 0 {
			n := min(step, len(b))
			if _, err := d.Write(b[:n]); err != nil {
				return
			}
			b = b[n:]
		}
	})
}
