//go:build amd64 || arm64

package synthesis

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"helix/backend/embed"
)

// forbidSockets makes the kernel kill this process when one of its threads creates a socket.
func forbidSockets(t *testing.T) {
	t.Helper()
	prog := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // number of the system call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_SOCKET},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_KILL_PROCESS},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	f := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	if bad, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&f))); errno != 0 || bad != 0 {
		fmt.Println("no filter here")
		t.SkipNow()
	}
	runtime.KeepAlive(prog)
}

// Runs a whole job of the local engine, with the sentence encoder, in a process that the kernel
// kills if it creates a socket. To verify this, the same process is killed when it dials.
func TestLocalJobMakesNoSocket(t *testing.T) {
	t.Parallel()
	switch os.Getenv("SYNTHESIS_OFFLINE") {
	case "":
		for task, ends := range map[string]bool{"job": true, "dial": false} {
			cmd := exec.Command(os.Args[0], "-test.run", "^TestLocalJobMakesNoSocket$", "-test.v")
			cmd.Env = append(os.Environ(), "SYNTHESIS_OFFLINE="+task)
			out, err := cmd.CombinedOutput()
			if strings.Contains(string(out), "no filter here") {
				t.Skip("this kernel has no filter of system calls")
			}
			if strings.Contains(string(out), "it has ended") != ends || (err == nil) != ends {
				t.Errorf("%s: %v\n%s", task, err, out)
			}
		}
	case "dial":
		forbidSockets(t)
		_, err := net.Dial("tcp", "127.0.0.1:9")
		fmt.Println("it has ended", err)
	case "job":
		model, err := embed.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer model.Release()
		f := newFixture(t, Options{Embedder: model}) // looking up the user's name may use a socket
		forbidSockets(t)
		var given []Conversation
		for _, x := range planted(rand.New(rand.NewPCG(7, 7)), 12, 0.6) {
			given = append(given, Conversation{ID: x.ID, Text: x.Body + " My sister Anna helped me. I plan to run a marathon.", Timestamp: x.At})
		}
		if r := f.run(t, SynthesizeParams{Conversations: given}); r.Status != "completed" || len(r.Analysis.Patterns) == 0 {
			t.Fatalf("%+v", r)
		}
		fmt.Println("it has ended")
	}
}
