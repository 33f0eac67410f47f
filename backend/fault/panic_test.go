package fault

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
)

func TestCatchTurnsPanicIntoInternalErrorWithStack(t *testing.T) {
	t.Parallel()
	err := Catch(func() error { panic("kaboom") })
	if !Is(err, Internal) || strings.Contains(As(err).Message, "kaboom") {
		t.Fatalf("%v", err)
	}
	var b strings.Builder
	slog.New(slog.NewTextHandler(&b, nil)).Error("work", "error", err)
	if !strings.Contains(b.String(), "kaboom") || !strings.Contains(b.String(), "panic_test.go") {
		t.Fatalf("the log lacks the value or the stack: %s", b.String())
	}
	want := errors.New("ordinary")
	if err := Catch(func() error { return want }); err != want {
		t.Fatalf("%v", err)
	}
}
