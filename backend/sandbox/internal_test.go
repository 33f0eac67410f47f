package sandbox

import (
	"context"
	"strings"
	"testing"
)

// TestOwnBugEndsOnlyTheRun makes the host side of a run panic.
func TestOwnBugEndsOnlyTheRun(t *testing.T) {
	t.Parallel()
	res, err := try(t, "console.log('x'); return 1", Call{Log: func(LogLine) { panic("a bug of ours") }})
	if err == nil || err.Class != ClassTrap || res.Usage.Wall == 0 {
		t.Fatalf("ends with %v", err)
	}
	if strings.Contains(err.Message+err.Stack, "bug of ours") || err.Err == nil || !strings.Contains(err.Err.Error(), "a bug of ours") {
		t.Errorf("message %q, cause %v: the cause is for the log only", err.Message, err.Err)
	}
	wantOutput(t, "return 1", Call{}, "1")
}

// TestTinyMemory runs with less memory than an engine needs.
func TestTinyMemory(t *testing.T) {
	t.Parallel()
	_, err := try(t, "return new Uint8Array(3e6).length", Call{Limits: Limits{MemoryBytes: 1 << 16}})
	if err == nil || err.Class != ClassMemory {
		t.Errorf("ends with %v", err)
	}
}

func TestCompileCanceled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := shared.CompileJS(ctx, Source{Text: "return 'never compiled before'"})
	if e, ok := err.(*Error); !ok || e.Class != ClassCanceled {
		t.Errorf("CompileJS with an ended context: %v", err)
	}
}
