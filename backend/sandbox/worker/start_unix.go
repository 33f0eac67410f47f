//go:build unix && !linux

package worker

import (
	"os"
	"syscall"
)

const startDir = "/"

// attributes keeps the terminal's signals away from the child, which notices the end of
// its input when its parent is gone.
func attributes(bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

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
