package main

import (
	"errors"
	"fmt"
	"net"
	"os/exec"
	"time"

	"helix/app/e2e/windowtest"
	"helixbench/figures"
	"helixbench/procfs"
)

// times of one start, in milliseconds after the start of the process; used is processor time.
type times struct{ painted, ready, icon, used float64 }

// paintTimes is when the page was first painted with content, and when it could be used, in
// milliseconds since 1970; 0: not yet.
const paintTimes = `const at = (n) => { const e = performance.getEntriesByName(n)[0]; return e ? performance.timeOrigin + e.startTime : 0; };
return [at("first-contentful-paint"), at("helix-ready")]`

func freePort() int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	defer l.Close() //nolint:errcheck // only its number is used
	return l.Addr().(*net.TCPAddr).Port
}

// start measures warm starts, alternating with the peer, and what the page does over the bridge.
func (b *bench) start() {
	lib, err := windowtest.BuildShim(b.dir)
	check(err)
	dir, served := b.folder("window"), b.folder("served")
	stop := b.serve(served)
	defer stop()
	var ours, theirs struct{ painted, ready, icon, used []float64 }
	for i := range *starts + 1 {
		s, pid, t := b.startWindow(lib, dir)
		if i == 1 {
			b.page(s)
		}
		if i == *starts {
			b.second(dir, pid)
		}
		terminate(pid)
		s.Close()
		u := b.startChromium(served)
		if i == 0 { // the first start of each is not warm
			continue
		}
		ours.painted, ours.ready, ours.icon, ours.used = append(ours.painted, t.painted), append(ours.ready, t.ready), append(ours.icon, t.icon), append(ours.used, t.used)
		theirs.painted, theirs.ready, theirs.used = append(theirs.painted, u.painted), append(theirs.ready, u.ready), append(theirs.used, u.used)
	}
	row := func(name string, a, b []float64) {
		figures.Print(name, median(a), "ms", median(a)/median(b), "chromium --app")
	}
	row("start to first paint, warm", ours.painted, theirs.painted)
	row("start to page ready, warm", ours.ready, theirs.ready)
	row("start to page ready, processor time of all processes", ours.used, theirs.used)
	figures.Print("start to tray icon", median(ours.icon), "ms", 0, "")
}

func (b *bench) startWindow(lib, dir string) (s *windowtest.Session, pid int, t times) {
	s, err := windowtest.Drive(append(b.env, "LD_PRELOAD="+lib), freePort(), patience, b.window, "--data-dir", dir)
	check(err)
	icon := make(chan time.Time, 1)
	go func() {
		<-b.panel.Items
		icon <- time.Now()
	}()
	wait(func() error {
		if pid = procfs.Find(b.window, dir); pid == 0 {
			return errors.New("no process")
		}
		return nil
	})
	began, err := procfs.Started(pid)
	check(err)
	wait(func() (err error) {
		t, err = t.read(began, func(out any) error { return s.JS(out, paintTimes) })
		return err
	})
	t.used = used(pid)
	t.icon = (<-icon).Sub(began).Seconds() * 1000
	return s, pid, t
}

func used(pid int) float64 { return procfs.CPU(procfs.Family(pid)...).Seconds() * 1000 }

// read returns the times of the page; an error: not yet.
func (t times) read(began time.Time, page func(out any) error) (times, error) {
	var at [2]float64
	if err := page(&at); err != nil {
		return t, err
	}
	if at[0] == 0 || at[1] == 0 {
		return t, fmt.Errorf("painted at %g, ready at %g", at[0], at[1])
	}
	from := float64(began.UnixMicro()) / 1000
	t.painted, t.ready = at[0]-from, at[1]-from
	return t, nil
}

// page measures calls over the bridge with 0.5 kB in each direction.
func (b *bench) page(s *windowtest.Session) {
	const script = `window.__took = null;
	(async () => {
		const session = await window.go.app.Bridge.Open(), took = [], waiting = new Map();
		window.runtime.EventsOn("rpc", (id, frame) => { const m = JSON.parse(frame); if (id === session) waiting.get(m.id)?.(); });
		for (let i = 0; i < 300; i++) {
			const began = performance.now();
			const answered = new Promise((done) => waiting.set(i, done));
			await window.go.app.Bridge.Send(session, JSON.stringify({ jsonrpc: "2.0", id: i, method: "config.get", params: { keys: ["notifications.enabled"] }, padding: undefined }).padEnd(500));
			await answered;
			took.push(performance.now() - began);
		}
		window.__took = took.slice(100).sort((a, b) => a - b)[100];
	})()`
	check(s.JS(nil, script))
	var took *float64
	wait(func() error {
		if err := s.JS(&took, "return window.__took"); err != nil {
			return err
		}
		if took == nil {
			return errors.New("the calls have no answers")
		}
		return nil
	})
	figures.Print("call of 0.5 kB over the bridge, median", *took, "ms", 0, "")
}

// second measures a second start, which shows the hidden window of the first.
func (b *bench) second(dir string, pid int) {
	shown := func(want int) {
		wait(func() error {
			all, err := b.desktop.Windows(pid)
			if err == nil && len(all) != want {
				err = fmt.Errorf("%d windows", len(all))
			}
			return err
		})
	}
	c := dial(dir)
	defer c.Close()
	var took []float64
	for range 5 {
		check(b.hide(pid))
		shown(0)
		began := time.Now()
		check(b.command(b.window, "--data-dir", dir).Run())
		shown(1)
		took = append(took, time.Since(began).Seconds()*1000)
	}
	figures.Print("second start to the window shown", median(took), "ms", 0, "")
}

// hide closes the window, which hides it, because there is a tray.
func (b *bench) hide(pid int) error {
	all, err := b.desktop.Windows(pid)
	if err != nil || len(all) == 0 {
		return errors.Join(err, errors.New("no window"))
	}
	c := exec.Command("xdotool", "windowactivate", "--sync", all[0], "key", "alt+F4")
	c.Env = b.env
	return c.Run()
}
