package sandbox

import (
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

const cpuMeter = "thread"

var getThreadTimes = windows.NewLazySystemDLL("kernel32.dll").NewProc("GetThreadTimes")

// cpuClock measures the CPU time that a run uses on the OS threads it is locked to. It can be read
// from any thread.
type cpuClock struct {
	mu     sync.Mutex
	total  time.Duration // of the threads that it has left
	thread windows.Handle
	since  time.Duration
	inside bool
}

func newCPUClock(*control) *cpuClock { return &cpuClock{} }

// enter starts measuring the calling thread, to which the goroutine must be locked.
func (c *cpuClock) enter() {
	p := windows.CurrentProcess()
	var h windows.Handle
	if windows.DuplicateHandle(p, windows.CurrentThread(), p, &h, 0, false, windows.DUPLICATE_SAME_ACCESS) != nil {
		return
	}
	c.mu.Lock()
	c.thread, c.since, c.inside = h, threadTime(h), true
	c.mu.Unlock()
}

// leave stops measuring; the goroutine may be unlocked afterwards.
func (c *cpuClock) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.inside {
		return
	}
	c.total += threadTime(c.thread) - c.since
	c.inside = false
	_ = windows.CloseHandle(c.thread) // a handle of this process to its own thread
}

func (c *cpuClock) used() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.inside {
		return c.total
	}
	return c.total + max(threadTime(c.thread)-c.since, 0)
}

// threadTime returns the kernel and user time of a thread.
func threadTime(h windows.Handle) time.Duration {
	var created, ended, kernel, user windows.Filetime
	r, _, _ := getThreadTimes.Call(uintptr(h), uintptr(unsafe.Pointer(&created)), uintptr(unsafe.Pointer(&ended)), uintptr(unsafe.Pointer(&kernel)), uintptr(unsafe.Pointer(&user)))
	if r == 0 {
		return 0
	}
	ticks := func(f windows.Filetime) int64 { return int64(f.HighDateTime)<<32 | int64(f.LowDateTime) }
	return time.Duration(ticks(kernel)+ticks(user)) * 100 // in units of 100 ns
}

// calibrate does nothing where threads have a clock.
func (e *Engine) calibrate() error { return nil }
