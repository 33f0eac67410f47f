//go:build unix

package mcp

import (
	"os/exec"
	"syscall"
	"time"
)

// group is the process group of a server, whose id is the process id of the server.
type group struct{}

func (group) start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = attributes()
	return cmd.Start()
}

func (group) terminate(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) } // it may have ended
func (group) kill(cmd *exec.Cmd)      { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// commandLine returns the arguments of a program, including its name.
func commandLine(path string, args []string) ([]string, error) {
	return append([]string{path}, args...), nil
}

// waitGone waits until a killed group has no members. Their parent, which is the system's first process
// after the server has ended, may take long to reap them; that is not waited for.
func waitGone(group int) {
	for end := time.Now().Add(stopGrace); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if syscall.Kill(-group, 0) != nil {
			return
		}
	}
}
