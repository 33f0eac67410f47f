// Package windowtest starts the real window on a display and a session bus of its own and drives
// its page through WebKitWebDriver, for tests and benchmarks. Only they import it.
package windowtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// Desktop is a separate X server with a window manager and a session bus.
type Desktop struct {
	// Env is the environment of programs that run on it.
	Env []string
	// Bus is the address of the session bus.
	Bus string

	running []*exec.Cmd
}

// StartDesktop starts Xvfb, dbus-daemon and openbox. Close ends them.
func StartDesktop() (_ *Desktop, err error) {
	d := &Desktop{}
	defer func() {
		if err != nil {
			d.Close()
		}
	}()
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close() //nolint:errcheck // only read
	x := exec.Command("Xvfb", "-displayfd", "3", "-screen", "0", "1400x1000x24", "-nolisten", "tcp")
	x.ExtraFiles = []*os.File{w}
	err = d.start(x)
	_ = w.Close()
	if err != nil {
		return nil, err
	}
	var n int
	if _, err := fmt.Fscan(r, &n); err != nil {
		return nil, fmt.Errorf("no display from Xvfb: %w", err)
	}
	d.Env = append(os.Environ(), fmt.Sprintf("DISPLAY=:%d", n), "LIBGL_ALWAYS_SOFTWARE=1", "NO_AT_BRIDGE=1", "WEBKIT_DISABLE_SANDBOX_THIS_IS_DANGEROUS=1", "GDK_BACKEND=x11")
	bus := exec.Command("dbus-daemon", "--session", "--print-address=1", "--nofork", "--nopidfile")
	bus.Env = d.Env
	out, err := bus.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := d.start(bus); err != nil {
		return nil, err
	}
	if _, err := fmt.Fscan(out, &d.Bus); err != nil {
		return nil, fmt.Errorf("no session bus: %w", err)
	}
	d.Env = append(d.Env, "DBUS_SESSION_BUS_ADDRESS="+d.Bus)
	wm := exec.Command("openbox")
	wm.Env = d.Env
	return d, d.start(wm)
}

func (d *Desktop) start(c *exec.Cmd) error {
	err := c.Start()
	if err == nil {
		d.running = append(d.running, c)
	}
	return err
}

// Close ends the desktop. It may be called again.
func (d *Desktop) Close() {
	for _, c := range d.running {
		_ = c.Process.Kill()
		_ = c.Wait()
	}
	d.running = nil
}

// Windows returns the ids of the visible windows of a process that are called Helix.
func (d *Desktop) Windows(pid int) ([]string, error) {
	c := exec.Command("xdotool", "search", "--onlyvisible", "--pid", fmt.Sprint(pid), "--name", "^Helix$")
	c.Env = d.Env
	out, err := c.Output()
	var none *exec.ExitError
	if errors.As(err, &none) { // nothing was found
		return nil, nil
	}
	return fields(out), err
}
