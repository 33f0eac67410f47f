package worker

import (
	"os"
	"syscall"
)

const startDir = "/"

// attributes makes the child die with this process and keeps the terminal's signals away
// from it. Bubblewrap ties itself to its parent, and its child to itself, once both are set
// up. Killed before, it would leave a child that waits for it for ever; so it is let come
// that far, and what it starts finds its input at its end.
func attributes(bwrap bool) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setsid: true}
	if !bwrap {
		a.Pdeathsig = syscall.SIGKILL
	}
	return a
}

// yieldTo makes a child that has just begun, and what it starts, wait for processor time
// behind Helix: guests on all processors then take it only where nobody else wants it.
func yieldTo(p *os.Process) {
	const nice = 10
	_ = syscall.Setpriority(syscall.PRIO_PGRP, p.Pid, nice) // else it is only not as polite
}

// killGroup ends a process and those it started in its group: bubblewrap, while it sets its
// child up, would leave one behind that waits for it for ever and keeps our pipes open.
func killGroup(p *os.Process) {
	_ = syscall.Kill(-p.Pid, syscall.SIGKILL)
	_ = p.Kill()
}

// job is Windows' affair.
type job struct{}

func newJob(*os.Process, int64) (job, []string) { return job{}, nil }

func (job) close() {}
