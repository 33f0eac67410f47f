package mcp

import (
	"os/exec"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// group is the job of a server. Everything in it ends when its handle is closed, so also when Helix
// ends in any way.
type group struct{ job windows.Handle }

func (g *group) start(cmd *exec.Cmd) error {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return err
	}
	limits := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{LimitFlags: windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE}}
	if _, err := windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation, uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits))); err != nil {
		windows.CloseHandle(job) //nolint:errcheck // the first error counts
		return err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP | windows.CREATE_NO_WINDOW}
	if isBatch(cmd.Path) {
		line, err := batchLine(cmd.Args)
		if err != nil {
			return err
		}
		cmd.SysProcAttr.CmdLine = line
	}
	if err := cmd.Start(); err != nil {
		windows.CloseHandle(job) //nolint:errcheck // the first error counts
		return err
	}
	h, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(cmd.Process.Pid))
	if err == nil {
		err = windows.AssignProcessToJobObject(job, h)
		windows.CloseHandle(h) //nolint:errcheck // only a reference
	}
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		windows.CloseHandle(job) //nolint:errcheck // the first error counts
		return err
	}
	g.job = job
	return nil
}

func (g *group) terminate(*exec.Cmd) {
	_ = windows.TerminateJobObject(g.job, 1) // Windows has no request to end that every program gets
}

func (g *group) kill(*exec.Cmd) { _ = windows.TerminateJobObject(g.job, 1) }

func (g *group) wait(cmd *exec.Cmd) {
	_ = cmd.Wait() // the state is in cmd.ProcessState
	windows.CloseHandle(g.job)
}

// commandLine returns the arguments of a program, including its name.
func commandLine(path string, args []string) ([]string, error) {
	all := append([]string{path}, args...)
	if isBatch(path) {
		if _, err := batchLine(all); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// isBatch reports whether Windows runs a program with cmd.exe, which interprets its arguments.
func isBatch(path string) bool {
	lower := strings.ToLower(path)
	return strings.HasSuffix(lower, ".cmd") || strings.HasSuffix(lower, ".bat")
}
