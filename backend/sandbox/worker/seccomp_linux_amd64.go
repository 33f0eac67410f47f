package worker

import "golang.org/x/sys/unix"

var allowedHere = []uint32{
	unix.SYS_EPOLL_WAIT, unix.SYS_ARCH_PRCTL, unix.SYS_PIPE2, unix.SYS_POLL, unix.SYS_TIME,
}
