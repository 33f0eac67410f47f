package mcp

import (
	"errors"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// attributes put the server into a group of its own, which ends with Helix.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// wait waits for the server and ends what it left behind in its group. Until the server is reaped,
// nothing else can have its id.
func (g group) wait(cmd *exec.Cmd) {
	for {
		if err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	g.kill(cmd)
	_ = cmd.Wait() // the state is in cmd.ProcessState
	waitGone(cmd.Process.Pid)
}
