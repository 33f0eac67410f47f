//go:build linux

// Command init is the first process of every container that Helix starts. It runs the programs that Helix asks
// for, carries their input and output, relays their connections, measures what they use, and ends them at their time
// limit. It is static, has no dependencies and is embedded in Helix.
package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"unsafe"

	"helix/backend/container/guest"
)

// prSetDumpable is PR_SET_DUMPABLE of prctl(2).
const prSetDumpable = 4

// spareThreads are created before any program, which may use up all processes that the container may have.
const spareThreads = 8

func main() {
	if err := run(); err != nil && !errors.Is(err, io.EOF) {
		os.Stderr.WriteString("helix init: " + err.Error() + "\n") //nolint:errcheck // it ends
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) == 2 && os.Args[1] == guest.OwnArg {
		return os.Chown(guest.DataPath, guest.Nobody, guest.Nobody)
	}
	if len(os.Args) == 2 && os.Args[1] == guest.BootArg {
		return boot()
	}
	if len(os.Args) == 2 && os.Args[1] == guest.CopyArg {
		return replaceTree(guest.SourcePath, guest.DataPath, guest.Nobody)
	}
	// Opened before the files of this process belong to root.
	own := read("/proc/self/oom_score_adj")
	score, _ := os.OpenFile("/proc/self/oom_score_adj", os.O_WRONLY, 0) //nolint:errcheck // nil: it stays as it is
	// Other processes of the same user may neither trace this one nor open its files.
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prSetDumpable, 0, 0); errno != 0 {
		return errno
	}
	// The runtime would end this process by a signal from inside. Signals that are caught, unlike ignored ones, have
	// their default effect in the programs that are started.
	signal.Notify(make(chan os.Signal, 1))
	ignoreReserved()
	createThreads()
	rw, err := transport(os.Args[1:])
	if err != nil {
		return err
	}
	c := guest.NewConn(rw)
	if err := c.Send(&guest.Message{Type: guest.TypeHello, Report: report()}); err != nil {
		return err
	}
	i := &initProcess{conn: c, programs: map[uint32]*program{}, byPID: map[int]*program{}, base: cgroupCPU(), score: score, ownScore: own}
	i.children.L = &i.mu
	go i.reap()
	err = c.Serve(i.handle)
	i.killAll() // the container ends with this process
	return err
}

// boot shows that a kernel can start this program. Tools don't run in virtual machines yet.
func boot() error {
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return err
	}
	text, err := json.Marshal(report())
	if err != nil {
		return err
	}
	if _, err := os.Stdout.WriteString(guest.Ready + " " + string(text) + "\n"); err != nil {
		return err
	}
	return syscall.Reboot(syscall.LINUX_REBOOT_CMD_RESTART)
}

// ignoreReserved ignores the signals that the runtime leaves to C libraries, which set their own handlers for them.
// With its default effect, the kernel protects the first process from a signal only while no thread blocks it, and
// the runtime blocks all while it starts a process.
func ignoreReserved() {
	action := struct{ handler, flags, restorer, mask uint64 }{handler: 1} // SIG_IGN
	for sig := uintptr(32); sig <= 34; sig++ {
		syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0) //nolint:errcheck // it can't fail for these
	}
}

// createThreads makes threads that the runtime keeps for later use.
func createThreads() {
	var all, done sync.WaitGroup
	all.Add(spareThreads)
	for range spareThreads {
		done.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			all.Done()
			all.Wait()
		})
	}
	done.Wait()
}

func transport(args []string) (io.ReadWriteCloser, error) {
	if len(args) == 1 && args[0] == guest.SocketArg {
		return dialUnix(guest.SocketPath)
	}
	if len(args) == 1 && args[0] == guest.AttachArg {
		return stdio{}, nil
	}
	return nil, errors.New("this program is started by Helix")
}

type stdio struct{}

func (stdio) Read(p []byte) (int, error)  { return os.Stdin.Read(p) }
func (stdio) Write(p []byte) (int, error) { return os.Stdout.Write(p) }
func (stdio) Close() error                { return errors.Join(os.Stdin.Close(), os.Stdout.Close()) }

// dialUnix connects to a socket. Package net would double the size of this program.
func dialUnix(path string) (*os.File, error) {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	err = syscall.Connect(fd, &syscall.SockaddrUnix{Name: path})
	if err == nil {
		err = syscall.SetNonblock(fd, true) // so that waiting for it needs no thread
	}
	if err != nil {
		syscall.Close(fd) //nolint:errcheck // it was not connected
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}
