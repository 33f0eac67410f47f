package worker

import "syscall"

// attributes makes the child die with this process and keeps the terminal's signals away
// from it. Bubblewrap ties itself to its parent, and its child to itself, once both are set
// up. Killed before, it would leave a child that waits for it for ever; so it is let come
// that far, and what it starts finds its input at its end.
func attributes(bwrap bool) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setsid: true}
	if !bwrap {
		a.Pdeathsig = syscall.SIGKILL
	}
	return a
}
