package hotkey

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"
)

// startDisplay starts an X server of its own and makes it the display of the process.
func startDisplay(t *testing.T) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	x := exec.Command("Xvfb", "-displayfd", "3", "-screen", "0", "640x480x24", "-nolisten", "tcp", "-noreset")
	x.ExtraFiles = []*os.File{w}
	if err := x.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = x.Process.Kill()
		_ = x.Wait()
	})
	_ = w.Close()
	var n int
	if _, err := fmt.Fscan(r, &n); err != nil {
		t.Fatal("no display from Xvfb: ", err)
	}
	t.Setenv("DISPLAY", fmt.Sprintf(":%d", n))
	t.Setenv("XAUTHORITY", os.DevNull)
}

func press(t *testing.T, keys string) {
	t.Helper()
	if out, err := exec.Command("xdotool", "key", keys).CombinedOutput(); err != nil {
		t.Fatalf("xdotool: %v: %s", err, out)
	}
}

func TestKeysWorkAnywhereOnTheDisplay(t *testing.T) {
	startDisplay(t)
	presses := make(chan struct{}, 8)
	c, err := Parse("Ctrl+Shift+Space")
	if err != nil {
		t.Fatal(err)
	}
	pressed := func() { presses <- struct{}{} }
	stop, err := Register(c, pressed)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { stop() }()
	wait := func(what string) {
		t.Helper()
		select {
		case <-presses:
		case <-time.After(time.Minute):
			t.Fatal(what, " was not noticed")
		}
	}
	press(t, "ctrl+shift+space")
	wait("a press")
	press(t, "ctrl+space") // another combination
	press(t, "Caps_Lock")
	press(t, "ctrl+shift+space")
	wait("a press with Caps Lock on")
	press(t, "Caps_Lock")
	if _, err := Register(c, pressed); !errors.Is(err, ErrTaken) {
		t.Errorf("registering twice: %v, want ErrTaken", err)
	}
	stop()
	if n := len(presses); n != 0 {
		t.Errorf("%d presses too many", n)
	}
	if stop, err = Register(c, pressed); err != nil {
		t.Fatalf("after stop: %v", err)
	}
	press(t, "ctrl+shift+space")
	wait("a press after registering again")
}

func TestNoDisplayIsUnsupported(t *testing.T) {
	t.Setenv("DISPLAY", "")
	if _, err := Register(Combination{Ctrl, "A"}, func() {}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("%v, want ErrUnsupported", err)
	}
}
