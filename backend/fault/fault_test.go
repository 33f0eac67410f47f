package fault

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

func TestAs(t *testing.T) {
	t.Parallel()
	coded := Deniedf("no")
	cases := []struct {
		name string
		err  error
		kind Kind
		msg  string
	}{
		{"coded", coded, Denied, "no"},
		{"wrapped coded", fmt.Errorf("open: %w", coded), Denied, "no"},
		{"canceled", fmt.Errorf("x: %w", context.Canceled), Canceled, "The call was canceled."},
		{"deadline", context.DeadlineExceeded, Timeout, "The call took too long."},
		{"foreign", errors.New("secret path /home/x"), Internal, "Helix has an internal error. The log has the details."},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := As(c.err)
			if got.Kind != c.kind || got.Message != c.msg {
				t.Fatalf("As(%v) = %s %q, want %s %q", c.err, got.Kind, got.Message, c.kind, c.msg)
			}
		})
	}
	if As(nil) != nil || KindOf(nil) != "" || Is(nil, Internal) {
		t.Fatal("nil must stay nil")
	}
}

func TestErrorKeepsCause(t *testing.T) {
	t.Parallel()
	cause := errors.New("disk on fire")
	e := Internalf(cause, "The note was not saved.")
	if !errors.Is(e, cause) {
		t.Fatal("cause lost")
	}
	if e.Error() != "The note was not saved.: disk on fire" {
		t.Fatalf("log text = %q", e.Error())
	}
}
