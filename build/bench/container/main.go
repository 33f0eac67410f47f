// Command container measures runs in containers against the engines' own commands with the same flags, on Docker and
// Podman, which it starts itself. It needs root and the packages podman, runc, docker.io and busybox-static.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/container"
	"helix/backend/container/containertest"
	"helixbench/figures"
)

var ctx = context.Background()

func check(err error) {
	if err != nil {
		_, file, line, _ := runtime.Caller(1)
		fmt.Fprintf(os.Stderr, "%s:%d: %v\n", filepath.Base(file), line, err)
		os.Exit(1)
	}
}

// bench is one engine with an image.
type bench struct {
	*containertest.Engine
	e     *container.Engine
	image container.Image
	owner string
}

func main() {
	runs := flag.Int("runs", 30, "of each measurement")
	leftovers := flag.Int("leftovers", 200, "containers to reap")
	only := flag.String("only", "", "run the measures whose name contains this")
	flag.Parse()
	box, err := os.MkdirTemp("", "helix-bench")
	check(err)
	defer os.RemoveAll(box)
	check(containertest.Busybox(box))
	for _, kind := range containertest.Kinds {
		started, err := containertest.Start(kind)
		check(err)
		b := &bench{Engine: started, owner: uuid.NewString()}
		b.e = container.Open(container.Options{Owner: b.owner, Host: "unix://" + b.Socket})
		b.image, err = b.e.ImportImage(ctx, box, "busybox")
		check(err)
		for _, m := range []struct {
			name string
			fn   func(int)
			n    int
			on   string // "": every engine
		}{
			{"create", b.create, *runs, ""}, {"pool", b.pool, *runs, ""}, {"init", b.overhead, *runs, ""}, {"echo", b.echo, *runs / 3, "docker"},
			{"egress", b.egress, 3, "docker"}, {"kill", b.kill, *runs / 3, ""}, {"shell", b.shell, *runs, "docker"}, {"memory", b.memory, 8, "docker"}, {"reap", b.reap, *leftovers, "docker"},
		} {
			if (m.on == "" || m.on == kind) && strings.Contains(m.name, *only) {
				m.fn(m.n)
			}
		}
		check(b.e.Close())
		b.Stop()
	}
}

func quantile(v []float64, q float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[min(len(v)-1, int(q*float64(len(v))))]
}

// timed returns how many milliseconds fn took.
func timed(fn func()) float64 {
	began := time.Now()
	fn()
	return float64(time.Since(began).Microseconds()) / 1000
}

// compare runs ours and a peer in turn, and returns the medians. The steps of before, which are not
// timed, come before each.
func compare(n int, ours, peer func(), before ...func()) (a, b float64) {
	measure := func(fn func()) float64 {
		for _, step := range before {
			step()
		}
		return timed(fn)
	}
	ours()
	peer()
	x, y := make([]float64, n), make([]float64, n)
	for i := range n {
		x[i], y[i] = measure(ours), measure(peer)
	}
	return quantile(x, 0.5), quantile(y, 0.5)
}

func (b *bench) spec(argv ...string) container.Spec {
	return container.Spec{ImageID: b.image.ID, Argv: argv, RunID: uuid.New(), Limits: container.Limits{Wall: 5 * time.Minute, CPUPercent: 100}}
}

func (b *bench) run(s container.Spec) container.Result {
	r, err := b.e.Execute(ctx, s)
	check(err)
	if r.Outcome != container.Success {
		check(fmt.Errorf("%s: %s %s", r.Outcome, r.Stdout, r.StderrTail))
	}
	return r
}

// client is a command of the engine's own program.
func (b *bench) client(input []byte, args ...string) []byte {
	c := exec.Command("docker", args...)
	if b.Kind == "podman" {
		c = exec.Command("podman", append(b.Args(), args...)...)
	}
	c.Env = append(os.Environ(), "DOCKER_HOST=unix://"+b.Socket)
	c.Stderr = os.Stderr
	if input != nil {
		c.Stdin = bytes.NewReader(input)
	}
	out, err := c.Output()
	check(err)
	return out
}

// flags are those of a run that is isolated like ours.
func (b *bench) flags(more ...string) []string {
	list := []string{"run", "--rm", "--network", "none", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--user", "65534:65534",
		"--memory", "256m", "--memory-swap", "256m", "--cpus", "1", "--pids-limit", "64", "--ulimit", "nofile=1024:1024", "--ulimit", "core=0:0", "--ulimit", "nproc=4096:4096",
		"--tmpfs", "/tmp:rw,noexec,nosuid,nodev,size=64m", "--shm-size", "16m", "--ipc", "private", "--log-driver", "none"}
	return append(append(list, more...), b.image.ID)
}

func (b *bench) create(n int) {
	ours, peer := compare(n, func() { b.run(b.spec("/bin/true")) }, func() { b.client(nil, append(b.flags(), "/bin/true")...) })
	figures.Print("create to exit, "+b.Kind, ours, "ms", ours/peer, b.Kind+" run --rm")
}

func (b *bench) pool(n int) {
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- b.e.Run(running) }()
	ours, peer := compare(n, func() { b.run(b.spec("/bin/true")) }, func() {
		b.client(nil, append(b.flags(), "/bin/true")...)
	}, func() {
		for b.e.Status().Pool == 0 { // after each run another is prepared
			time.Sleep(time.Millisecond)
		}
	})
	stop()
	check(<-ended)
	figures.Print("create to exit from the pool, "+b.Kind, ours, "ms", ours/peer, b.Kind+" run --rm")
}

func (b *bench) overhead(n int) {
	c := b.api()
	with, without := compare(n, func() { b.run(b.spec("/bin/true")) }, func() {
		id := c.create(nil)
		c.call("POST", "/containers/"+id+"/start", nil)
		c.call("POST", "/containers/"+id+"/wait", nil)
		c.call("DELETE", "/containers/"+id+"?force=1&v=1", nil)
	})
	figures.Print("init process, more than the same requests without it, "+b.Kind, with-without, "ms", with/without, "the same requests")
}

func (b *bench) echo(n int) {
	data := bytes.Repeat([]byte("0123456789abcde\n"), 1<<16)
	ours, peer := compare(n, func() {
		s := b.spec("/bin/cat")
		s.Input, s.Limits.OutputBytes = data, 2<<20
		if r := b.run(s); !bytes.Equal(r.Stdout, data) {
			check(fmt.Errorf("%d of %d bytes", len(r.Stdout), len(data)))
		}
	}, func() {
		if out := b.client(data, append(b.flags("-i"), "/bin/cat")...); !bytes.Equal(out, data) {
			check(fmt.Errorf("%d of %d bytes", len(out), len(data)))
		}
	})
	figures.Print("1 MiB from input to output, "+b.Kind, ours, "ms", ours/peer, b.Kind+" run -i --rm")
}

// local connects to a server on this computer.
type local struct{ address string }

func (l local) Dial(ctx context.Context, _ string, _ int) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "tcp", l.address)
}

func (local) Secret(context.Context, string, string) (string, error) { return "", nil }

func (b *bench) egress(n int) {
	const size = 100_000_000
	chunk := make([]byte, 1<<20)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(size))
		for left := size; left > 0; {
			k, err := w.Write(chunk[:min(left, len(chunk))])
			if err != nil {
				return
			}
			left -= k
		}
	}))
	defer server.Close()
	var ours, peer []float64
	for range n {
		s := b.spec("/bin/sh", "-c", "wget -q -O /dev/null http://localhost:"+strconv.Itoa(server.Listener.Addr().(*net.TCPAddr).Port)+"/")
		s.Egress, s.Limits.CPUPercent = local{server.Listener.Addr().String()}, 400
		ours = append(ours, size/1e6/b.run(s).Phases.Running.Seconds())
		peer = append(peer, size/1e3/timed(func() { check(exec.Command("curl", "-s", "-o", "/dev/null", server.URL).Run()) }))
	}
	a, p := quantile(ours, 0.5), quantile(peer, 0.5)
	figures.Print("download of 100 MB through the relay, "+b.Kind, a, "MB/s", a/p, "curl on the host")
}

func (b *bench) kill(n int) {
	late := make([]float64, n)
	for i := range n {
		s := b.spec("/bin/sleep", "3600")
		s.Limits.Wall = time.Second
		r, err := b.e.Execute(ctx, s)
		check(err)
		if r.Outcome != container.TimedOut {
			check(fmt.Errorf("%+v", r))
		}
		late[i] = float64((r.Phases.Running - time.Second).Microseconds()) / 1000
	}
	figures.Print("end after the time limit, p95, "+b.Kind, quantile(late, 0.95), "ms", 0, "")
}

func (b *bench) shell(n int) {
	s, err := b.e.Spawn(ctx, container.SessionSpec{ID: uuid.New(), ImageID: b.image.ID, Limits: container.Limits{CPUPercent: 100}})
	check(err)
	defer s.Close()
	id := strings.TrimSpace(string(b.client(nil, append(append([]string{"run", "-d"}, b.flags()[2:]...), "/bin/sleep", "3600")...)))
	defer b.client(nil, "rm", "-f", id)
	ours, peer := compare(n, func() {
		r, err := s.Exec(ctx, container.Command{Argv: []string{"/bin/true"}, Timeout: time.Minute})
		check(err)
		if r.Status != container.Success {
			check(fmt.Errorf("%+v", r))
		}
	}, func() { b.client(nil, "exec", id, "/bin/true") })
	figures.Print("command in a live session, "+b.Kind, ours, "ms", ours/peer, b.Kind+" exec")
}

// memory measures what live sessions keep in this process.
func (b *bench) memory(n int) {
	heap := func() float64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc+m.StackInuse) / (1 << 20)
	}
	before := heap()
	var open []*container.Session
	for range n {
		s, err := b.e.Spawn(ctx, container.SessionSpec{ID: uuid.New(), ImageID: b.image.ID})
		check(err)
		open = append(open, s)
	}
	figures.Print("memory of a live container", (heap()-before)/float64(n), "MiB", 0, "")
	for _, s := range open {
		check(s.Close())
	}
}

func (b *bench) reap(n int) {
	c := b.api()
	sum := sha256.Sum256([]byte("helix-container-owner\x00" + b.owner))
	for range n {
		c.create(map[string]string{"helix.owner": hex.EncodeToString(sum[:16])})
	}
	ours := timed(func() {
		removed, err := b.e.Reap(ctx)
		check(err)
		if len(removed) != n {
			check(fmt.Errorf("%d of %d were removed", len(removed), n))
		}
	})
	ids := make([]string, n)
	for i := range ids {
		ids[i] = c.create(map[string]string{"bench": "peer"})
	}
	peer := timed(func() { b.client(nil, append([]string{"rm", "-f"}, ids...)...) })
	figures.Print(fmt.Sprintf("remove %d leftover containers, %s", n, b.Kind), ours, "ms", ours/peer, b.Kind+" rm -f")
}
