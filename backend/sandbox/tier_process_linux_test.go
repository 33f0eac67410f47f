package sandbox

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"helix/backend/testkit"
)

// parentArgument makes the test program a parent that is killed while its child runs.
const parentArgument = "t1-parent"

// actAsParent runs an endless tool in a child, reports that, and waits to be killed.
func actAsParent() {
	e, err := Open(context.Background(), Options{WorkerCommand: childCommand, Idle: -1, CacheDir: os.Args[2]})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	p, err := e.CompileJS(context.Background(), Source{Text: "await helix.state.get('k'); for (;;) {}"})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	host := HostFunc(func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
		e.children.refill(wantedFor(p)) // a waiting spare must end too
		e.children.settled()
		fmt.Println("running")
		return json.RawMessage(`{"found":false}`), nil
	})
	_, err = e.Execute(context.Background(), p, Call{Tier: tier1, Host: host})
	fmt.Println(err)
	os.Exit(1)
}

// below returns the processes that descend from pid.
func below(pid int) []int {
	parent := map[int]int{}
	dirs, _ := filepath.Glob("/proc/[0-9]*/stat") // it fails only for a wrong pattern
	for _, f := range dirs {
		text, err := os.ReadFile(f)
		if err != nil {
			continue // gone
		}
		// The name is in parentheses and may contain anything.
		rest := string(text[strings.LastIndexByte(string(text), ')')+1:])
		fields := strings.Fields(rest)
		id, _ := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		if len(fields) > 1 && fields[0] != "Z" {
			parent[id], _ = strconv.Atoi(fields[1])
		}
	}
	var out []int
	for id := range parent {
		for p := id; p > 1; {
			if p = parent[p]; p == pid {
				out = append(out, id)
				break
			}
		}
	}
	slices.Sort(out)
	return out
}

func TestChildrenDieWithParent(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("/proc/self/exe", parentArgument, sharedCache)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(out)
	if line, err := r.ReadString('\n'); line != "running\n" {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		t.Fatalf("the parent says %q %v", line, err)
	}
	children := below(cmd.Process.Pid)
	if len(children) < 2 {
		t.Errorf("processes below the parent: %v, want a run and a spare", children)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	testkit.Eventually(t, "children of the dead parent", func() []string {
		var left []string
		for _, pid := range children {
			if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil && !strings.Contains(string(text), ") Z ") {
				left = append(left, string(text))
			}
		}
		return left
	}, func(left []string) bool { return len(left) == 0 })
}

// oneRun is a separate engine with a run in a child that waits in a host call.
type oneRun struct {
	e       *Engine
	tag     string // one of the child's arguments
	release func()
	done    chan error
}

var tags atomic.Int64

func startRun(t *testing.T) *oneRun {
	t.Helper()
	r := &oneRun{tag: fmt.Sprintf("%s-%d", t.Name(), tags.Add(1)), done: make(chan error, 1)}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r.e, err = Open(context.Background(), Options{Idle: -1, CacheDir: sharedCache, WorkerCommand: []string{program, "sandbox-worker", r.tag}})
	if err != nil {
		t.Fatal(err)
	}
	p := compile(t, "await helix.state.get('k'); return 7")
	began, let := make(chan struct{}), make(chan struct{})
	r.release = sync.OnceFunc(func() { close(let) })
	go func() {
		_, err := r.e.Execute(context.Background(), p, Call{Tier: tier1, Host: HostFunc(func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
			close(began)
			select {
			case <-let:
			case <-ctx.Done():
			}
			return json.RawMessage(`{"found":false}`), nil
		})})
		r.done <- err
	}()
	select {
	case <-began:
	case err := <-r.done:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.release()
		if err := r.e.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// child returns the process of the run: the oldest one with its tag that is not bubblewrap.
func (r *oneRun) child(t *testing.T) int {
	t.Helper()
	for _, pid := range below(os.Getpid()) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && !strings.HasSuffix(strings.Split(string(text), "\x00")[0], "bwrap") && strings.HasSuffix(string(text), r.tag+"\x00") {
			return pid
		}
	}
	t.Fatal("there is no child")
	return 0
}

func TestChildProcessHasNoAccess(t *testing.T) {
	t.Parallel()
	r := startRun(t)
	pid := r.child(t)
	dir := fmt.Sprintf("/proc/%d/", pid)
	env, err := os.ReadFile(dir + "environ")
	if err != nil {
		t.Skipf("this user may not look: %v", err)
	}
	if s := strings.Trim(string(env), "\x00"); s != "" && s != "PWD=/" { // the latter is bubblewrap's
		t.Errorf("environment %q", s)
	}
	fds, err := os.ReadDir(dir + "fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fds {
		to, _ := os.Readlink(dir + "fd/" + f.Name())
		n, _ := strconv.Atoi(f.Name())
		switch {
		case n <= 2 && strings.HasPrefix(to, "pipe:"):
		case n > 2 && (to == "anon_inode:[eventpoll]" || to == "anon_inode:[eventfd]" || strings.HasPrefix(to, "/memfd:")): // the runtime's, and the engine's image
		case raceEnabled && strings.HasSuffix(to, "/pagemap"): // the race detector's
		default:
			t.Errorf("descriptor %d is %s", n, to)
		}
	}
	if cwd, _ := os.Readlink(dir + "cwd"); cwd != "/" {
		t.Errorf("works in %s", cwd)
	}
	status, err := os.ReadFile(dir + "status")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(status), "NoNewPrivs:\t1") {
		t.Errorf("it may gain privileges:\n%s", status)
	}
	limits, err := os.ReadFile(dir + "limits")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"Max core file size": "0", "Max file size": "0", "Max open files": "64"} {
		for _, line := range strings.Split(string(limits), "\n") {
			if after, ok := strings.CutPrefix(line, name); ok && strings.Fields(after)[1] != want {
				t.Errorf("%s", line)
			}
		}
	}
	r.release()
	if err := <-r.done; err != nil {
		t.Error(err)
	}
}

func TestKilledChild(t *testing.T) {
	testkit.SkipRaced(t, "a process of the test has no time for anything")
	t.Parallel()
	r := startRun(t)
	other := startRun(t)
	if err := syscall.Kill(r.child(t), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	var x *Error
	if err := <-r.done; !errors.As(err, &x) || x.Class != ClassTrap || x.Err == nil {
		t.Errorf("a killed child ends its run with %v", err)
	}
	if res, err := r.e.Execute(context.Background(), compile(t, "return 1"), Call{Tier: tier1}); err != nil {
		t.Errorf("the next run: %+v %v", res, err)
	}
	other.release()
	if err := <-other.done; err != nil {
		t.Errorf("another run: %v", err)
	}
}

// A spare that has died is not used.
func TestDeadSpare(t *testing.T) {
	t.Parallel()
	e, err := Open(context.Background(), Options{WorkerCommand: childCommand, Idle: -1, CacheDir: sharedCache})
	if err != nil {
		t.Fatal(err)
	}
	p := compile(t, "return 1")
	for range 2 {
		if res, err := e.Execute(context.Background(), p, Call{Tier: tier1}); err != nil {
			t.Fatalf("%+v %v", res, err)
		}
		e.children.settled()
		e.children.mu.Lock()
		for _, s := range e.children.spares {
			_ = syscall.Kill(s.c.p.Pid(), syscall.SIGKILL)
			<-s.c.p.Ended()
		}
		e.children.mu.Unlock()
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

func TestChildRunsLeakNothing(t *testing.T) {
	testkit.SkipRaced(t, "many runs of the engine, one after the other")
	t.Parallel()
	if !alone(t) {
		return
	}
	runs := 20
	if long {
		runs = 1000
	}
	e, err := Open(context.Background(), Options{WorkerCommand: childCommand, Idle: -1, CacheDir: sharedCache})
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{
		"return 1", "throw 1", "for (;;) {}", "await helix.state.get('k'); return 2", "console.log('x'); return new Array(1e5).fill(1)",
	}
	programs := make([]*Program, len(texts))
	for i, s := range texts {
		programs[i] = compile(t, s)
	}
	host := HostFunc(func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(`{"found":false}`), nil
	})
	batch := func(n int) {
		var wg sync.WaitGroup
		work := make(chan int)
		for range 2 {
			wg.Go(func() {
				for i := range work {
					ctx, cancel := context.WithCancel(context.Background())
					if i%7 == 0 {
						time.AfterFunc(5*time.Millisecond, cancel)
					}
					_, _ = e.Execute(ctx, programs[i%len(programs)], Call{Tier: tier1, Host: host, Limits: Limits{Wall: 30 * time.Second, CPU: 5 * time.Millisecond}})
					cancel()
				}
			})
		}
		for i := range n {
			work <- i
		}
		close(work)
		wg.Wait()
		e.children.trim(0)
		e.children.wg.Wait()
	}
	type counts struct{ processes, files, goroutines int }
	count := func() counts {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return counts{len(below(os.Getpid())), len(list), runtime.NumGoroutine()}
	}
	batch(8)
	before := count()
	batch(runs)
	testkit.Eventually(t, fmt.Sprintf("before %+v, after the runs", before), count, func(after counts) bool {
		return after.processes <= before.processes && after.files <= before.files+2 && after.goroutines <= before.goroutines+2
	})
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}
