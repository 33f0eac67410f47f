//go:build unix && !linux

package worker

import (
	"os"
	"syscall"
)

const startDir = "/"

// attributes keeps the terminal's signals away from the child, which notices the end of
// its input when its parent is gone.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// job is Windows' affair.
type job struct{}

func newJob(*os.Process, int64) (job, []string) { return job{}, nil }

func (job) close() {}
