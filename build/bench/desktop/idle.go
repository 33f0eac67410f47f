package main

import (
	"fmt"
	"os"
	"time"

	"helixbench/figures"
	"helixbench/procfs"
)

// idle measures memory and processor time of programs that nobody uses, with ten schedules of which
// one runs each minute.
func (b *bench) idle() {
	dir, served := b.folder("idle"), b.folder("idle-served")
	c := b.command(b.window, "--data-dir", dir)
	check(c.Start())
	pid := c.Process.Pid
	<-b.panel.Items
	ours := dial(dir)
	fill(ours)
	check(ours.Close())
	wait(func() error {
		all, err := b.desktop.Windows(pid)
		if err == nil && len(all) == 0 {
			err = fmt.Errorf("no window")
		}
		return err
	})
	time.Sleep(*settle)
	window := mib(procfs.Sum(procfs.Family(pid), "smaps_rollup", "Pss:"))
	resident := mib(procfs.KiB(pid, "status", "VmRSS:"))
	shown, shownAll := load(pid, *idle)
	after := mib(procfs.KiB(pid, "status", "VmRSS:"))
	check(b.hide(pid))
	time.Sleep(5 * time.Second)
	away, awayAll := load(pid, *hidden)
	check(c.Process.Signal(os.Interrupt))
	check(c.Wait())

	stop := b.serve(served)
	defer stop()
	server := procfs.Find(b.helix, served)
	theirs := dial(served)
	fill(theirs)
	check(theirs.Close())
	r := b.chromium(served)
	time.Sleep(*settle)
	browser := mib(procfs.Sum(procfs.Family(r.pid), "smaps_rollup", "Pss:"))
	serving := mib(procfs.Sum(procfs.Family(server), "smaps_rollup", "Pss:"))
	r.stop()

	figures.Print("idle memory by share, all processes", window, "MiB", window/browser, "chromium --app alone")
	figures.Print("idle memory by share, all processes", window, "MiB", window/(browser+serving), "chromium --app and helix serve")
	figures.Print("idle, resident memory of the Go process", resident, "MiB", 0, "")
	figures.Print(fmt.Sprintf("the same %v later", *idle), after, "MiB", after/resident, "itself")
	figures.Print("idle processor time of the Go process, window shown", shown, "% of a core", 0, "")
	figures.Print("idle processor time of all processes, window shown", shownAll, "% of a core", 0, "")
	figures.Print("idle processor time of the Go process, window hidden", away, "% of a core", 0, "")
	figures.Print("idle processor time of all processes, window hidden", awayAll, "% of a core", 0, "")
}

func mib(kib int64) float64 { return float64(kib) / 1024 }

// load returns the processor time that a process and its family use, in percent of a core.
func load(pid int, during time.Duration) (own, all float64) {
	family := procfs.Family(pid)
	ownBefore, allBefore := procfs.CPU(pid), procfs.CPU(family...)
	began := time.Now()
	time.Sleep(during)
	took := time.Since(began).Seconds() / 100
	return (procfs.CPU(pid) - ownBefore).Seconds() / took, (procfs.CPU(family...) - allBefore).Seconds() / took
}
