//go:build unix && !linux

package mcp

import (
	"os/exec"
	"syscall"
)

// attributes put the server into a group of its own.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// wait waits for the server and ends what it left behind in its group.
func (g group) wait(cmd *exec.Cmd) {
	_ = cmd.Wait() // the state is in cmd.ProcessState
	g.kill(cmd)
	waitGone(cmd.Process.Pid)
}
