package worker

import "syscall"

// attributes makes the child die with this process and keeps the terminal's signals away from it.
// Bubblewrap ties itself to its parent, and its child to itself, once both are set up. If it were
// killed before that, it would leave behind a child that waits for it forever. So it is not killed
// until then; the program that it starts reaches the end of its input.
func attributes(bwrap bool) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setsid: true}
	if !bwrap {
		a.Pdeathsig = syscall.SIGKILL
	}
	return a
}
