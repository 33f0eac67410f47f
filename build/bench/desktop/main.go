// Command desktop measures the window against Chromium showing the same page as an application
// (chromium --app) of helix serve, in one run, on a display of its own. It prints one line per
// measurement: name, value, unit, ratio to the peer, peer, separated by tabs. -only runs the
// measures whose name contains a text.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"helix/app/e2e/windowtest"
	"helix/app/tray/traytest"
	"helix/backend"
	"helix/backend/gateway"
	"helixbench/figures"
	"helixbench/procfs"
)

var (
	programs = flag.String("bin", "../bin", "the `folder` of helix and helix-desktop")
	starts   = flag.Int("starts", 10, "warm starts of each program")
	settle   = flag.Duration("settle", time.Minute, "before memory is read")
	idle     = flag.Duration("idle", 10*time.Minute, "how long idle processor time is measured with the window shown")
	hidden   = flag.Duration("hidden", 2*time.Minute, "the same with the window hidden")
	only     = flag.String("only", "", "run the measures whose name contains this")
)

const patience = 2 * time.Minute

func main() {
	flag.Parse()
	b := open()
	defer b.close()
	for _, m := range []struct {
		name string
		fn   func()
	}{{"size", b.size}, {"start", b.start}, {"idle", b.idle}} {
		if strings.Contains(m.name, *only) {
			m.fn()
		}
	}
}

func check(err error) {
	if err != nil {
		_, file, line, _ := runtime.Caller(1)
		fmt.Fprintf(os.Stderr, "%s:%d: %v\n", filepath.Base(file), line, err)
		os.Exit(1)
	}
}

// bench is the desktop that everything runs on.
type bench struct {
	testing
	desktop       *windowtest.Desktop
	dir           string
	helix, window string // programs
	env           []string
	panel         *traytest.Panel
}

func open() *bench {
	b := &bench{}
	bin, err := filepath.Abs(*programs)
	check(err)
	b.helix, b.window = filepath.Join(bin, "helix"), filepath.Join(bin, "helix-desktop")
	b.dir, err = os.MkdirTemp("", "helix-bench-desktop-")
	check(err)
	b.desktop, err = windowtest.StartDesktop()
	check(err)
	b.env = append(slices.Clone(b.desktop.Env), "HOME="+b.dir, "XDG_CONFIG_HOME=", "XDG_CACHE_HOME=", "XDG_DATA_HOME=")
	b.panel = traytest.StartPanel(&b.testing, b.desktop.Bus)
	return b
}

func (b *bench) close() {
	b.end()
	b.desktop.Close()
	check(os.RemoveAll(b.dir))
}

// folder makes a data folder. Its page appears with the default renderer of a display without a
// graphics card, so the program does not try another one.
func (b *bench) folder(name string) string {
	dir := filepath.Join(b.dir, name)
	check(os.MkdirAll(filepath.Join(dir, "state"), 0o700))
	check(os.WriteFile(filepath.Join(dir, "state", "window.json"), []byte(`{"noDmabuf":true}`), 0o600))
	return dir
}

func (b *bench) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...)
	c.Env, c.Stderr = b.env, os.Stderr
	return c
}

// wait polls until fn returns no error.
func wait(fn func() error) {
	deadline := time.Now().Add(patience)
	for {
		err := fn()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			check(err)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// dial returns a client of the Helix that has a data folder, once it answers.
func dial(dir string) (c *gateway.Client) {
	wait(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		other, err := backend.Running(ctx, backend.Options{DataDir: dir})
		if err != nil || other == nil {
			return errors.Join(err, errors.New("no answer from Helix"))
		}
		c, err = gateway.Dial(ctx, other.ClientOptions("bench"))
		return err
	})
	return c
}

// fill adds ten schedules, one of which is due each minute.
func fill(c *gateway.Client) {
	call := func(out any, method string, params any) {
		check(c.Call(context.Background(), method, params, out))
	}
	var made struct{ Tool struct{ ID string } }
	call(&made, "tools.create", map[string]any{"name": "Count", "code": "export default () => 1"})
	for i := range 10 {
		every := 3600
		if i == 0 {
			every = 60
		}
		call(nil, "schedules.create", map[string]any{"name": fmt.Sprint("Schedule ", i), "target": map[string]any{"kind": "tool", "id": made.Tool.ID}, "cadence": map[string]any{"type": "interval", "everySecs": every}})
	}
}

// terminate ends a process in an orderly way.
func terminate(pid int) {
	check(syscall.Kill(pid, syscall.SIGTERM))
	wait(func() error {
		if _, err := procfs.Started(pid); err == nil {
			return errors.New("the process goes on")
		}
		return nil
	})
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// size measures the program on disk. What is embedded can be left out, because it would be a
// download otherwise.
func (b *bench) size() {
	mb := func(file string) float64 {
		st, err := os.Stat(file)
		check(err)
		return float64(st.Size()) / 1e6
	}
	embedded := 0.0
	for _, pattern := range []string{"embed/model/*", "sandbox/artefacts/*", "container/artefacts/" + runtime.GOARCH + "/*"} {
		files, err := filepath.Glob(filepath.Join("../../backend", pattern))
		check(err)
		for _, f := range files {
			embedded += mb(f)
		}
	}
	all := mb(b.window)
	figures.Print("binary", all, "MB", 0, "")
	figures.Print("binary without model and engines", (all-embedded)*1e6/(1<<20), "MiB", 0, "")
	out, err := exec.Command("dpkg-query", "-W", "-f", "${Installed-Size}\n", "chromium", "chromium-common").Output()
	check(err)
	var a, c float64
	_, err = fmt.Sscan(string(out), &a, &c)
	check(err)
	figures.Print("binary, against the browser", all, "MB", all/((a+c)*1024/1e6), "chromium and chromium-common, installed")
	// make package and make package-windows made these, perhaps earlier.
	model, err := filepath.Glob("../../backend/embed/model/*")
	check(err)
	for _, p := range [][2]string{{"Debian package", "helix_*_amd64.deb"}, {"installer for Windows", "helix_*_windows_amd64.exe"}} {
		files, err := filepath.Glob(filepath.Join(*programs, p[1]))
		check(err)
		if len(files) != 1 {
			continue
		}
		size := mb(files[0])
		for _, f := range model {
			size -= mb(f)
		}
		figures.Print(p[0]+" without model", size*1e6/(1<<20), "MiB", 0, "")
	}
}

// testing is what traytest needs, outside of a test.
type testing struct {
	tb
	cleanups []func()
}

func (t *testing) Helper()           {}
func (t *testing) Cleanup(fn func()) { t.cleanups = append(t.cleanups, fn) }
func (t *testing) Fatal(args ...any) { check(errors.New(fmt.Sprint(args...))) }
func (t *testing) Fatalf(format string, args ...any) {
	check(fmt.Errorf(format, args...))
}

func (t *testing) end() {
	for _, fn := range slices.Backward(t.cleanups) {
		fn()
	}
}
