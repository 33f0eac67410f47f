package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// tried is the report of a locked-down child about itself.
type tried struct {
	Lock    LockReport
	Env     []string
	Files   []string          // descriptors that were open at its start, except its own
	Allowed map[string]string // what worked but must not
	Needed  map[string]string // what did not work but must
	Core    uint64
}

// actTry locks itself down and then tries what an escaped guest would. Its arguments are a
// listening port, a file that must not be written, and its parent.
func actTry() int {
	out := tried{Env: os.Environ(), Allowed: map[string]string{}, Needed: map[string]string{}}
	if err := Prepare(); err != nil {
		panic(err)
	}
	for fd := 3; fd < 256; fd++ {
		var s unix.Stat_t
		if unix.Fstat(fd, &s) == nil && s.Mode&unix.S_IFMT != 0 {
			out.Files = append(out.Files, strconv.Itoa(fd))
		}
	}
	port, file, parent := os.Args[2], os.Args[3], os.Args[4]
	var err error
	if out.Lock, err = LockDown(LockOptions{MemoryBytes: 64 << 20, CPUSeconds: 5}); err != nil {
		panic(err)
	}
	must := func(what string, err error) {
		if err == nil {
			out.Allowed[what] = "worked"
		}
	}
	_, err = os.ReadFile("/etc/passwd")
	must("read /etc/passwd", err)
	_, err = os.ReadDir("/")
	must("list /", err)
	_, err = os.ReadFile("/proc/self/environ")
	must("read /proc/self/environ", err)
	must("write a file", os.WriteFile(file, []byte("x"), 0o600))
	must("make a folder", os.Mkdir(file+"-dir", 0o700))
	must("remove a file", os.Remove(file))
	if c, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
		c.Close()
		must("connect over TCP", nil)
	}
	if l, err := net.Listen("tcp", "127.0.0.1:0"); err == nil {
		l.Close()
		must("listen on TCP", nil)
	}
	if c, err := net.Dial("udp", "127.0.0.1:"+port); err == nil {
		c.Close()
		must("make a UDP socket", nil)
	}
	must("start a program", exec.Command("/bin/true").Run())
	if pid, err := strconv.Atoi(parent); err == nil {
		must("signal the parent", unix.Kill(pid, 0))
		must("trace the parent", unix.PtraceSeize(pid))
	}
	must("raise a limit", unix.Prlimit(0, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1024, Max: 1024}, nil))
	// Everything that the engine needs still works: memory, threads, random numbers, time.
	done := make(chan bool)
	for range 8 {
		go func() { b := make([]byte, 1<<20); b[len(b)-1] = 1; done <- true }()
	}
	for range 8 {
		<-done
	}
	if m, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON); err != nil {
		out.Needed["map memory"] = err.Error()
	} else if err := unix.Madvise(m, unix.MADV_DONTNEED); err != nil {
		out.Needed["give memory back"] = err.Error()
	}
	if _, err := unix.Mmap(-1, 0, 2<<30, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON); err == nil && !raceEnabled {
		must("map 2 GiB", nil)
	}
	if _, err := unix.Getrandom(make([]byte, 8), 0); err != nil {
		out.Needed["random"] = err.Error()
	}
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		panic(err)
	}
	return 0
}

func tryChild(t *testing.T, b *Bwrap, leak *os.File) (tried, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	file := filepath.Join(t.TempDir(), "kept")
	if err := os.WriteFile(file, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{program(t), "act-try", port, file, strconv.Itoa(os.Getpid())}
	if b != nil {
		args = b.Wrap(args)
	}
	cmd := exec.CommandContext(context.Background(), args[0], args[1:]...)
	var text, said bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Env = &text, &said, []string{}
	if leak != nil {
		cmd.ExtraFiles = []*os.File{leak, leak}
	}
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	var out tried
	if err := json.Unmarshal(text.Bytes(), &out); err != nil {
		t.Fatalf("%v in %q", err, text.String())
	}
	if kept, err := os.ReadFile(file); err != nil || string(kept) != "kept" {
		t.Errorf("the child has changed a file: %q %v", kept, err)
	}
	return out, said.String()
}

func checkLocked(t *testing.T, out tried) {
	t.Helper()
	if out.Lock.Landlock != LandlockABI() || out.Lock.Landlock == 0 != slices.Contains(out.Lock.Reasons, ReasonLandlock) {
		t.Errorf("lock = %+v with Landlock version %d", out.Lock, LandlockABI())
	}
	for what, how := range out.Allowed {
		// Landlock restricts neither UDP nor Multipath TCP, which Go uses for listening; the system
		// call filter does, but the race detector needs more calls than it allows.
		if out.Lock.Landlock == 0 && !out.Lock.Seccomp || raceEnabled && (strings.Contains(what, "UDP") || strings.Contains(what, "listen") || strings.Contains(what, "program") || strings.Contains(what, "limit") || strings.Contains(what, "trace")) {
			t.Logf("not locked here: %s %s", what, how)
			continue
		}
		t.Errorf("the locked child could %s", what)
	}
	for what, err := range out.Needed {
		t.Errorf("the locked child could not %s: %s", what, err)
	}
	if len(out.Env) != 0 {
		t.Errorf("environment %q", out.Env)
	}
	if len(out.Files) != 0 {
		t.Errorf("open files %v", out.Files)
	}
}

func TestLockDown(t *testing.T) {
	t.Parallel()
	leak, err := os.Open("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	defer leak.Close()
	out, _ := tryChild(t, nil, leak)
	checkLocked(t, out)
	t.Logf("%+v", out.Lock)
}

func TestLockDownInBwrap(t *testing.T) {
	t.Parallel()
	path := FindBwrap()
	if path == "" {
		t.Skip("bubblewrap is not installed")
	}
	b := NewBwrap(path, program(t))
	probe := b.Wrap([]string{program(t), "-test.run=^$"})
	if out, err := exec.Command(probe[0], probe[1:]...).CombinedOutput(); err != nil {
		t.Skipf("bubblewrap does not work here: %v %s", err, out)
	}
	leak, err := os.Open("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	defer leak.Close()
	out, _ := tryChild(t, b, leak)
	if len(out.Env) == 1 && strings.HasPrefix(out.Env[0], "PWD=") {
		out.Env = nil // bubblewrap's own, always "/"
	}
	checkLocked(t, out)
}
