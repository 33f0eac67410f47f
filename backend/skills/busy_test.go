package skills

import (
	"context"
	"encoding/json"
	"testing"
)

// A run is busy while it works, but not while it waits for a time.
func TestBusyWhileARunWorks(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	begun, release := make(chan struct{}), make(chan struct{})
	b.h.on("slow", func(context.Context, Call) (json.RawMessage, error) {
		close(begun)
		<-release
		return json.RawMessage(`{}`), nil
	})
	if b.s.Busy() {
		t.Error("busy without a run")
	}
	id := b.async(skillText(step("one", "slow", ""), `{"stepId":"two","toolType":"builtin","toolName":"wait","inputMapping":{"seconds":3600}}`), `{}`)
	<-begun
	if !b.s.Busy() {
		t.Error("not busy during a call")
	}
	close(release)
	b.until(id, is("waiting"))
	if b.s.Busy() {
		t.Error("busy while it waits for an hour")
	}
}
