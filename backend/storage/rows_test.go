package storage

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/uuid"

	"helix/backend/fault"
)

func TestCollect(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	must(t, h.db.Read(h.ctx, func(tx *Tx) error {
		got, err := Collect(tx.Select(`SELECT value FROM json_each(?) ORDER BY value`, "[3,1,2]"), RowTo[int])
		if err != nil || !slices.Equal(got, []int{1, 2, 3}) {
			t.Errorf("%v, %v", got, err)
		}
		if got, err = Collect(tx.Select(`SELECT 1 WHERE 0`), RowTo[int]); err != nil || got == nil || len(got) != 0 {
			t.Errorf("no rows: %#v, %v", got, err)
		}
		if got, err = Collect(tx.Select(`SELECT 'x'`), RowTo[int]); err == nil || got != nil {
			t.Errorf("a text for an int: %v, %v", got, err)
		}
		enough := errors.New("enough")
		n := 0
		if err := tx.Select(`SELECT value FROM json_each('[1,2,3]')`).Each(func(Row) error { n++; return enough }); err != enough || n != 1 {
			t.Errorf("%d rows, %v", n, err)
		}
		// The rows were closed: the transaction can go on.
		return tx.Select(`SELECT 1`).Each(func(Row) error { return nil })
	}))
}

func TestCheckPage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limit, offset, want int
		field               string
	}{
		{0, 0, 50, ""}, {1, 0, 1, ""}, {100, 7, 100, ""}, {101, 0, 0, "limit"}, {-1, 0, 0, "limit"}, {5, -1, 0, "offset"},
	} {
		limit := c.limit
		err := CheckPage(&limit, &c.offset, 50, 100)
		if c.field == "" {
			if err != nil || limit != c.want {
				t.Errorf("%+v: limit %d, %v", c, limit, err)
			}
			continue
		}
		wantKind(t, err, fault.Invalid, c.field)
		if d, ok := fault.As(err).Details.(fault.FieldError); !ok || d.Field != c.field {
			t.Errorf("%+v: details %+v", c, fault.As(err).Details)
		}
	}
}

func TestCursor(t *testing.T) {
	t.Parallel()
	id := uuid.MustParse("018f0000-0000-7000-8000-000000000001")
	for _, key := range []any{int64(1) << 60, 0.25, nil} {
		text := Cursor{Sort: "created_at", Key: key, ID: id}.String()
		got, err := ReadCursor(text, "created_at")
		if err != nil || got.Key != key || got.ID != id {
			t.Errorf("%v: %+v, %v", key, got, err)
		}
		if _, err := ReadCursor(text, "name"); !fault.Is(err, fault.Invalid) {
			t.Errorf("of another order: %v", err)
		}
	}
	if got, err := ReadCursor("", "created_at"); got != nil || err != nil {
		t.Errorf("the first page: %+v, %v", got, err)
	}
	for _, text := range []string{"x", "e30", Cursor{Sort: "created_at", Key: "x", ID: id}.String(), Cursor{Sort: "created_at", Key: 1}.String()} {
		if _, err := ReadCursor(text, "created_at"); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
