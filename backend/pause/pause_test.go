package pause

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
)

func TestAPersonsPauseOutlivesARestart(t *testing.T) {
	t.Parallel()
	file, b := filepath.Join(t.TempDir(), "pause.json"), bus.New()
	p, err := Open(file, b)
	if err != nil || p.Active() {
		t.Fatal("a new one is paused:", err)
	}
	heard := 0
	defer bus.Subscribe(b, func(_ uuid.UUID, c Changed) {
		if heard++; c.State.Paused != p.Active() {
			t.Error("the event says something else than the state")
		}
	})()
	now := time.Now()
	if err := p.Hold(now.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if p.Set(LowSpace, true); !slices.Equal(p.State().Reasons, []Reason{LowSpace, Person}) {
		t.Errorf("reasons %v", p.State().Reasons)
	}
	again, err := Open(file, b)
	if st := again.State(); err != nil || !slices.Equal(st.Reasons, []Reason{Person}) || st.Until == nil || !st.Until.Equal(now.Add(time.Hour)) {
		t.Errorf("after a restart %+v, %v", st, err)
	}
	if again.now = func() time.Time { return now.Add(time.Hour) }; again.Active() {
		t.Error("it did not end by itself")
	}
	if err := p.Release(); err != nil || !p.Active() || p.By(Person) {
		t.Error("low space no longer holds, or the person still does:", err)
	}
	if p.Set(LowSpace, true) || !p.Set(LowSpace, false) || p.Active() {
		t.Error("Set does not report what is new")
	}
	if heard != 4 {
		t.Errorf("%d events", heard)
	}
	if again, err := Open(file, b); err != nil || again.Active() {
		t.Error("a released pause came back:", err)
	}
}

func TestDamagedFileDoesNotPauseWork(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pause.json")
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if p, err := Open(file, bus.New()); err == nil || p.Active() {
		t.Errorf("paused %v, %v", p.Active(), err)
	}
	var none *Pause
	if none.Active() || none.Set(LowSpace, true) {
		t.Error("a nil pause holds something back")
	}
}
