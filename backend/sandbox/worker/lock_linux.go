package worker

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// LandlockABI returns the version of Landlock that the kernel offers, 0 for none.
func LandlockABI() int {
	v, err := ll.LandlockGetABIVersion()
	if err != nil {
		return 0
	}
	return v
}

// Prepare must be the child's first call: it makes the child die with its parent, and closes all
// descriptors except the standard ones. A parent may have leaked some.
func Prepare() error {
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("tie to the parent: %w", err)
	}
	// Those without a file type belong to the Go runtime: epoll and eventfd.
	const named = 1024
	for fd := 3; fd < named; fd++ {
		var s unix.Stat_t
		if unix.Fstat(fd, &s) == nil && s.Mode&unix.S_IFMT != 0 {
			unix.Close(fd)
		}
	}
	if err := unix.CloseRange(named, ^uint(0)>>1, 0); err != nil && !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("close descriptors: %w", err)
	}
	return setLimit(unix.RLIMIT_CORE, 0)
}

// LockDown permanently drops what the child no longer needs: files, network, signals to other
// processes, starting programs, unlimited growth. Call it after the last file was read and before
// guest code runs. The report names what the kernel does not support; after an error the child must
// not continue.
func LockDown(o LockOptions) (r LockReport, err error) {
	if err := limitResources(o); err != nil {
		return r, err
	}
	r.Landlock = LandlockABI()
	if r.Landlock > 0 {
		if err := landlock.V10.BestEffort().Restrict(); err != nil {
			return r, fmt.Errorf("landlock: %w", err)
		}
		// Verify that it works.
		if f, err := os.Open("/"); err == nil {
			f.Close()
			r.Landlock = 0
		}
	}
	r.Reasons = LandlockReasons(r.Landlock)
	r.Seccomp, err = filterCalls()
	return r, err
}

// slack is the default of LockOptions.OwnBytes.
const slack = 512 << 20

func limitResources(o LockOptions) error {
	limits := []struct {
		what  int
		value uint64
	}{
		{unix.RLIMIT_CORE, 0},
		{unix.RLIMIT_FSIZE, 0}, // no file can be written even where Landlock is missing
		{unix.RLIMIT_NOFILE, 64},
		{unix.RLIMIT_MEMLOCK, 0},
		{unix.RLIMIT_MSGQUEUE, 0},
	}
	if o.MemoryBytes > 0 && !raceEnabled { // the race detector maps more than any limit
		limits = append(limits, struct {
			what  int
			value uint64
		}{unix.RLIMIT_DATA, uint64(o.MemoryBytes + cmp.Or(o.OwnBytes, slack))})
	}
	if o.CPUSeconds > 0 {
		limits = append(limits, struct {
			what  int
			value uint64
		}{unix.RLIMIT_CPU, uint64(SelfCPU()/time.Second) + 1 + o.CPUSeconds})
	}
	for _, l := range limits {
		if err := setLimit(l.what, l.value); err != nil {
			return err
		}
	}
	return nil
}
