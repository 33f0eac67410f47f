//go:build unix

package worker

import (
	"os"
	"syscall"
)

const startDir = "/"

// yieldTo lowers the priority of a child that has just started, and of what it starts, below that
// of Helix: guests on all processors then use them only if no one else needs them.
func yieldTo(p *os.Process) {
	const nice = 10
	_ = syscall.Setpriority(syscall.PRIO_PGRP, p.Pid, nice) // if it fails, the child only has a higher priority
}

// killGroup kills a process and those it started in its group: while bubblewrap sets up its child,
// it would otherwise leave behind one that waits for it forever and keeps our pipes open.
func killGroup(p *os.Process) {
	_ = syscall.Kill(-p.Pid, syscall.SIGKILL)
	_ = p.Kill()
}

// job is used only on Windows.
type job struct{}

func newJob(*os.Process, int64) (job, []string) { return job{}, nil }

func (job) close() {}
