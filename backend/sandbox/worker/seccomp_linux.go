//go:build amd64 || arm64

package worker

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// allowed are the system calls that the Go runtime, the engine and the pipes need once
// everything is loaded. All others fail with "not permitted". Those that exist only on some
// architectures are in allowedHere.
var allowed = []uint32{
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_READV, unix.SYS_WRITEV, unix.SYS_CLOSE,
	unix.SYS_FSTAT, unix.SYS_LSEEK, unix.SYS_FCNTL,
	unix.SYS_MMAP, unix.SYS_MUNMAP, unix.SYS_MPROTECT, unix.SYS_MADVISE, unix.SYS_MREMAP,
	unix.SYS_MINCORE, unix.SYS_BRK,
	unix.SYS_FUTEX, unix.SYS_SET_ROBUST_LIST, unix.SYS_RSEQ, unix.SYS_MEMBARRIER,
	unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY, unix.SYS_GETCPU,
	unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_CLOCK_GETTIME, unix.SYS_CLOCK_GETRES, unix.SYS_GETTIMEOFDAY,
	unix.SYS_TIMER_CREATE, unix.SYS_TIMER_SETTIME, unix.SYS_TIMER_DELETE, unix.SYS_SETITIMER,
	unix.SYS_GETRANDOM, unix.SYS_GETPID, unix.SYS_GETTID, unix.SYS_GETUID, unix.SYS_GETEUID, unix.SYS_GETGID, unix.SYS_GETEGID,
	unix.SYS_GETRUSAGE, unix.SYS_UNAME,
	unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EPOLL_PWAIT2, unix.SYS_EVENTFD2, unix.SYS_PPOLL,
	unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK,
	unix.SYS_RESTART_SYSCALL, unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
	// For the engine's image of its memory; its content was mapped by this process.
	unix.SYS_MEMFD_CREATE, unix.SYS_FTRUNCATE,
}

// auditArch names the architecture as the kernel does in a filter's data.
var auditArch = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// Offsets in the filter's data: the call's number, the architecture, and the low half of the first
// argument.
const (
	dataNumber = 0
	dataArch   = 4
	dataArg0   = 16
)

// filterCalls blocks every system call that is not needed, on all threads at once. It returns false
// without an error if the architecture or the kernel has no such filter.
func filterCalls() (bool, error) {
	arch, ok := auditArch[runtime.GOARCH]
	if !ok || raceEnabled {
		return false, nil
	}
	prog := filter(arch)
	f := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return false, fmt.Errorf("no new privileges: %w", err)
	}
	bad, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&f)))
	switch {
	case errors.Is(errno, unix.ENOSYS) || errors.Is(errno, unix.EINVAL):
		return false, nil
	case errno != 0:
		return false, fmt.Errorf("filter system calls: %w", errno)
	case bad != 0:
		return false, fmt.Errorf("filter system calls: thread %d was left out", bad)
	}
	runtime.KeepAlive(prog)
	return true, nil
}

// filter returns the BPF program: kill on a foreign architecture; allow threads but no new
// processes, signals to this process only, and the allowed calls; nothing else.
func filter(arch uint32) []unix.SockFilter {
	stmt := func(code uint16, k uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: k} }
	jump := func(code uint16, k uint32, t, f uint8) unix.SockFilter {
		return unix.SockFilter{Code: code, Jt: t, Jf: f, K: k}
	}
	const (
		load  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		bits  = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
		ret   = unix.BPF_RET | unix.BPF_K
		no    = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
		yes   = unix.SECCOMP_RET_ALLOW
	)
	pid := uint32(unix.Getpid())
	p := []unix.SockFilter{
		stmt(load, dataArch),
		jump(equal, arch, 1, 0),
		stmt(ret, unix.SECCOMP_RET_KILL_PROCESS),
		stmt(load, dataNumber),
		// clone3 hides its flags from filters; without it, callers use clone.
		jump(equal, unix.SYS_CLONE3, 0, 1),
		stmt(ret, unix.SECCOMP_RET_ERRNO|uint32(unix.ENOSYS)),
		jump(equal, unix.SYS_CLONE, 0, 4),
		stmt(load, dataArg0),
		jump(bits, unix.CLONE_THREAD, 0, 1),
		stmt(ret, yes),
		stmt(ret, no),
		jump(equal, unix.SYS_TGKILL, 0, 4),
		stmt(load, dataArg0),
		jump(equal, pid, 0, 1),
		stmt(ret, yes),
		stmt(ret, no),
		jump(equal, unix.SYS_KILL, 0, 4),
		stmt(load, dataArg0),
		jump(equal, pid, 0, 1),
		stmt(ret, yes),
		stmt(ret, no),
		jump(equal, unix.SYS_PRCTL, 0, 4),
		stmt(load, dataArg0),
		jump(equal, prSetVMA, 0, 1), // the runtime names its memory
		stmt(ret, yes),
		stmt(ret, no),
	}
	for _, list := range [][]uint32{allowed, allowedHere} {
		for _, n := range list {
			p = append(p, jump(equal, n, 0, 1), stmt(ret, yes))
		}
	}
	return append(p, stmt(ret, no))
}

// prSetVMA is PR_SET_VMA.
const prSetVMA = 0x53564d41
