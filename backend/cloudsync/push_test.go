package cloudsync

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/uuid"

	"helix/backend/storage"
	"helix/backend/testkit"
)

// Many rows are sent in bulk, with the same result as a few rows.
func TestManyRowsArriveAsFewDo(t *testing.T) {
	testkit.SkipRaced(t, "one goroutine")
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	a, b, _ := pair(t)
	a.fill(bulkStatement+20, r) // packaged and sent in bulk
	odd := "tab\tquote\" back\\slash\nline\r\x01 ümlaut hx1.looks.encrypted \\N"
	id := a.remember(odd)
	a.exec(`INSERT INTO memory_tags (memory_id, user_id, tag) VALUES (?, ?, ?)`, id, a.db.LocalUser().ID, `a "tag"`)
	got := a.now()
	if got.Pushed < 2*callRows || got.DeadLetters > 0 {
		t.Errorf("%+v", got)
	}
	b.now()
	b.noDeadLetters()
	same(t, a, b)
	if got := one[string](b, `SELECT content FROM memories WHERE id = ?`, id); got != odd {
		t.Errorf("%q", got)
	}
	a.exec(`UPDATE memories SET salience = 71, access_count = access_count + 3`)
	b.exec(`UPDATE memories SET pinned = 1, access_count = access_count + 4`)
	settleAll(a, b)
	same(t, a, b)
	if n := one[int](a, `SELECT count(*) FROM memories WHERE salience <> 71 OR pinned <> 1 OR access_count < 7`); n > 0 {
		t.Errorf("%d memories lack a change", n)
	}
	if n := one[int](a, `SELECT (SELECT count(*) FROM sync_outbox) + (SELECT count(*) FROM change_log) + (SELECT count(*) FROM sync_base)`); n > 0 {
		t.Errorf("%d entries are left", n)
	}
}

// A row that the hub rejects does not delay the rest of its batch, nor does a lost answer.
func TestPoisonRowAndLostAnswerInABulkPush(t *testing.T) {
	testkit.SkipRaced(t, "one goroutine")
	t.Parallel()
	a, b, dsn := pair(t)
	for i := range callRows + 5 {
		a.remember(fmt.Sprint("its answer is lost ", i))
	}
	a.sendOnly()
	var poison uuid.UUID
	for i := range 2*callRows + 7 {
		if id := a.remember(fmt.Sprint("row ", i)); i == callRows {
			poison = id
		}
	}
	if _, err := admin(t, dsn).Exec(t.Context(), fmt.Sprintf(`alter table public.memories add constraint poison check (id <> '%s')`, poison)); err != nil {
		t.Fatal(err)
	}
	got := a.now()
	if got.DeadLetters != 1 {
		t.Errorf("%+v", got)
	}
	b.now()
	if n := one[int](b, `SELECT count(*) FROM memories`); n != 3*callRows+11 {
		t.Errorf("%d rows came", n)
	}
	if n := one[int](a, `SELECT count(*) FROM sync_dead_letter WHERE direction = 'out' AND row_id = ?`, poison); n != 1 {
		t.Error("the poison row is not in the dead letters")
	}
}

// Bulk packaging produces the same versions as packaging row by row.
func TestBulkPackageIsTheSameAsASingleOne(t *testing.T) {
	t.Parallel()
	d := newDevice(t)
	id := d.remember("text with \"quotes\" and ümlauts")
	d.exec(`UPDATE memories SET access_count = 5, salience = 12.5, last_accessed = 1700000000000001 WHERE id = ?`, id)
	d.exec(`INSERT INTO memory_tags (memory_id, user_id, tag) VALUES (?, ?, 'x')`, id, d.db.LocalUser().ID)
	d.write(func(tx *storage.Tx) error {
		tables, err := readTables(tx)
		if err != nil {
			return err
		}
		d.tables = tables
		m, _ := d.table("memories")
		r, err := m.readRow(tx, id)
		if err != nil {
			return err
		}
		dot, p := newDot(3, 9), &pending{stamps: map[int]int64{}}
		p.add(1, "I", int64(m.bits()), 77<<16)
		v := m.pendingVersion(r, nil, p, dot)
		stored, err := tx.StoredRow("memories", id)
		if err != nil {
			return err
		}
		values := []any{stored["created_at"], stored["updated_at"], nil}
		for _, c := range m.columns {
			x := stored[c.Name]
			if c.Child != "" {
				x = `["x"]`
			}
			values = append(values, x)
		}
		meta := m.freshMeta(dot, 77<<16, int64(m.bits()), values[3:])
		if string(meta) != string(v.Meta.encode()) {
			t.Errorf("meta %x, want %x", meta, v.Meta.encode())
		}
		w := rowWriter{table: m, tx: tx}
		payload, base, err := w.write(id, values, meta)
		if err != nil {
			return err
		}
		wantBase, err := m.encodeBase(tx, id, v, false)
		if err != nil {
			return err
		}
		for _, x := range []struct{ got, want string }{{base, wantBase}, {payload, jsonText(map[string]any{"deletedAt": nil, "cols": m.cols(Cipher{}, id, v)})}} {
			got, err := readObject([]byte(x.got))
			if err != nil {
				return err
			}
			want, err := readObject([]byte(x.want))
			if err != nil {
				return err
			}
			if jsonText(got) != jsonText(want) {
				t.Errorf("got  %s\nwant %s", jsonText(got), jsonText(want))
			}
		}
		return nil
	})
}
