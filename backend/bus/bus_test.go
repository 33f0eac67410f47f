package bus

import (
	"slices"
	"testing"

	"github.com/google/uuid"
)

type opened struct{ N int }
type closed struct{ N int }

func TestDeliversByTypeInOrder(t *testing.T) {
	t.Parallel()
	b := New()
	u := uuid.New()
	var got []int
	cancel := Subscribe(b, func(user uuid.UUID, e opened) {
		if user != u {
			t.Errorf("user = %v", user)
		}
		got = append(got, e.N)
	})
	Subscribe(b, func(_ uuid.UUID, e opened) { got = append(got, -e.N) })
	Publish(b, u, opened{1})
	Publish(b, u, closed{9})
	cancel()
	cancel() // a second cancel has no effect
	Publish(b, u, opened{2})
	if want := []int{1, -1, -2}; !slices.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

func TestSubscriberMayCancelItself(t *testing.T) {
	t.Parallel()
	b := New()
	n := 0
	var cancel func()
	cancel = Subscribe(b, func(uuid.UUID, opened) { n++; cancel() })
	Publish(b, uuid.Nil, opened{})
	Publish(b, uuid.Nil, opened{})
	if n != 1 {
		t.Fatalf("n = %d, want 1", n)
	}
}
