package mcp

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// startOf returns when a process started.
func startOf(pid int) (string, bool) {
	p, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || p == nil {
		return "", false
	}
	return fmt.Sprintf("%d.%d", p.Proc.P_starttime.Sec, p.Proc.P_starttime.Usec), true
}

// endGroup kills the group of a recorded process if it is the same process.
func endGroup(s started) bool {
	start, ok := startOf(s.PID)
	return ok && start == s.Start && syscall.Kill(-s.PID, syscall.SIGKILL) == nil
}

func memoryOf(int) int64 { return 0 }
