//go:build unix

package worker

import (
	"os"
	"syscall"
)

const startDir = "/"

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
