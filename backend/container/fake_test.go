//go:build !containers

package container

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Run(m)) }

// fake is an engine that runs nothing: it records what it is asked, and its programs behave as its fields say.
type fake struct {
	socket string

	mu         sync.Mutex
	version    string                       // of the API
	containers map[string]map[string]string // labels by id
	created    []createBody
	weaken     func(*createBody) // what it does other than asked
	startError string            // once
	stdout     string
	forever    bool // the program runs until it is killed
	oom        bool
	exit       int
	killed     chan struct{}
	calls      []string
}

func startFake(t *testing.T) *fake {
	t.Helper()
	dir, err := os.MkdirTemp("", "hx") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{socket: filepath.Join(dir, "s"), version: "1.44", containers: map[string]map[string]string{}, killed: make(chan struct{})}
	l, err := net.Listen("unix", f.socket)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: f}
	done := make(chan struct{})
	go func() { s.Serve(l); close(done) }() //nolint:errcheck // it is closed
	t.Cleanup(func() { s.Close(); <-done; os.RemoveAll(dir) })
	return f
}

func (f *fake) open(t *testing.T) *Engine {
	e := Open(Options{Owner: "test", Host: "unix://" + f.socket})
	t.Cleanup(func() { e.Close() })
	return e
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	path := r.URL.Path
	if strings.HasPrefix(path, "/v") && path != "/version" {
		path = path[strings.Index(path[1:], "/")+1:]
	}
	f.calls = append(f.calls, r.Method+" "+path)
	answer := func(v any) { json.NewEncoder(w).Encode(v) } //nolint:errcheck // the client may be gone
	refuse := func(status int, message string) {
		w.WriteHeader(status)
		answer(map[string]string{"message": message})
	}
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case path == "/version":
		answer(map[string]any{"Version": "99", "ApiVersion": f.version, "MinAPIVersion": "1.24"})
	case path == "/info":
		answer(map[string]any{"SwapLimit": false, "PidsLimit": true, "DefaultRuntime": "crun", "SecurityOptions": []string{"name=seccomp,profile=default"}})
	case path == "/containers/json":
		list := []map[string]any{}
		for id, labels := range f.containers {
			list = append(list, map[string]any{"Id": id, "Labels": labels})
		}
		answer(list)
	case path == "/containers/create":
		var b createBody
		if err := json.NewDecoder(r.Body).Decode(&b); err != nil {
			refuse(400, err.Error())
			return
		}
		if b.Image == "missing" {
			refuse(404, "No such image")
			return
		}
		f.created = append(f.created, b)
		id := fmt.Sprintf("c%d", len(f.created))
		f.containers[id] = b.Labels
		w.WriteHeader(201)
		answer(map[string]string{"Id": id})
	case r.Method == "DELETE":
		if f.containers[parts[1]] == nil {
			refuse(404, "No such container")
			return
		}
		delete(f.containers, parts[1])
		w.WriteHeader(204)
	case parts[len(parts)-1] == "json":
		b := f.created[len(f.created)-1]
		if f.weaken != nil {
			f.weaken(&b)
		}
		answer(map[string]any{"Id": parts[1], "Config": map[string]any{"User": b.User}, "HostConfig": b.HostConfig,
			"State": map[string]any{"OOMKilled": f.oom, "ExitCode": f.exit}})
	case parts[len(parts)-1] == "attach":
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		fmt.Fprint(rw, "HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n") //nolint:errcheck // a test
		rw.Flush()
		go f.program(conn, rw)
	case parts[len(parts)-1] == "start":
		if f.startError != "" {
			message := f.startError
			f.startError = ""
			refuse(500, message)
			return
		}
		w.WriteHeader(204)
	case parts[len(parts)-1] == "kill":
		select {
		case <-f.killed:
		default:
			close(f.killed)
		}
		w.WriteHeader(204)
	case parts[len(parts)-1] == "wait":
		if f.forever {
			f.mu.Unlock()
			select {
			case <-f.killed:
			case <-r.Context().Done():
			}
			f.mu.Lock()
		}
		answer(map[string]int{"StatusCode": f.exit})
	default:
		refuse(404, "page not found")
	}
}

// program is the container's input and output.
func (f *fake) program(conn net.Conn, rw *bufio.ReadWriter) {
	defer conn.Close()
	f.mu.Lock()
	out, forever := f.stdout, f.forever
	f.mu.Unlock()
	input, _ := io.ReadAll(rw)
	if out == "" {
		out = string(input)
	}
	var header [8]byte
	header[0] = 1
	binary.BigEndian.PutUint32(header[4:], uint32(len(out)))
	conn.Write(append(header[:], out...)) //nolint:errcheck // the client may be gone
	if forever {
		<-f.killed
	}
}

func spec() Spec { return Spec{ImageID: "sha256:abc", Argv: []string{"/p"}, RunID: uuid.New()} }

func TestEveryRunAsksForFullIsolation(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	e := f.open(t)
	s := spec()
	s.Input = []byte("hello")
	r, err := e.Execute(t.Context(), s)
	if err != nil || string(r.Stdout) != "hello" || r.Outcome != Success {
		t.Fatalf("%+v, %v", r, err)
	}
	b := f.created[0]
	h := b.HostConfig
	if b.User != user || !b.NetworkDisabled || h.NetworkMode != "none" || !h.ReadonlyRootfs || !slices.Equal(h.CapDrop, []string{"ALL"}) || !slices.Equal(h.SecurityOpt, []string{"no-new-privileges"}) ||
		h.Memory != 256<<20 || h.MemorySwap != h.Memory || h.CPUQuota != 50_000 || h.PidsLimit != 64 || h.Privileged || len(h.Binds) > 0 || !strings.Contains(h.Tmpfs["/tmp"], "noexec,nosuid,nodev") {
		t.Errorf("%+v", b)
	}
	if len(f.containers) != 0 {
		t.Errorf("left over: %v", f.containers)
	}
	if i := slices.IndexFunc(f.calls, func(c string) bool { return strings.Contains(c, "/images/create") }); i >= 0 {
		t.Error("a run pulled an image")
	}
}

func TestWeakerContainersAreNotStarted(t *testing.T) {
	t.Parallel()
	for name, weaken := range map[string]func(*createBody){
		"NetworkMode":    func(b *createBody) { b.HostConfig.NetworkMode = "bridge" },
		"User":           func(b *createBody) { b.User = "0" },
		"ReadonlyRootfs": func(b *createBody) { b.HostConfig.ReadonlyRootfs = false },
		"Privileged":     func(b *createBody) { b.HostConfig.Privileged = true },
		"CapAdd":         func(b *createBody) { b.HostConfig.CapAdd = []string{"SYS_ADMIN"} },
		"CapDrop":        func(b *createBody) { b.HostConfig.CapDrop = nil },
		"SecurityOpt":    func(b *createBody) { b.HostConfig.SecurityOpt = nil },
		"Memory":         func(b *createBody) { b.HostConfig.Memory = 0 },
		"PidMode":        func(b *createBody) { b.HostConfig.PidMode = "host" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startFake(t)
			f.weaken = weaken
			_, err := f.open(t).Execute(t.Context(), spec())
			d, _ := fault.As(err).Details.(map[string]string)
			if !fault.Is(err, fault.Unavailable) || d["code"] != "hardening_mismatch" || d["field"] != name {
				t.Errorf("%v, %v", err, d)
			}
			if slices.ContainsFunc(f.calls, func(c string) bool { return strings.HasSuffix(c, "/start") }) || len(f.containers) != 0 {
				t.Errorf("%v, %v", f.calls, f.containers)
			}
		})
	}
}

func TestARefusedRuntimeIsReplacedByRunc(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.startError = "OCI runtime error: crun: cgroups in hybrid mode not supported, drop all controllers from cgroupv2"
	e := f.open(t)
	for range 2 {
		if r, err := e.Execute(t.Context(), spec()); err != nil || r.Outcome != Success {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	if len(f.created) != 3 || f.created[1].HostConfig.Runtime != "runc" || f.created[2].HostConfig.Runtime != "runc" || len(f.containers) != 0 {
		t.Errorf("%d containers, left over %v", len(f.created), f.containers)
	}
}

func TestCanceledAndEndlessRunsAreKilled(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.forever = true
	ctx, cancel := context.WithCancel(t.Context())
	s := spec()
	s.Phase = func(p string) {
		if p == PhaseRunning {
			cancel()
		}
	}
	if r, err := f.open(t).Execute(ctx, s); err != nil || r.Outcome != Cancelled || len(f.containers) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	f = startFake(t)
	f.forever = true
	s = spec()
	s.Limits.Wall = time.Second
	if r, err := f.open(t).Execute(t.Context(), s); err != nil || r.Outcome != TimedOut || len(f.containers) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	f = startFake(t)
	f.forever, f.stdout = true, strings.Repeat("x", 1<<17)
	s = spec()
	s.Limits.OutputBytes = 1 << 16
	if r, err := f.open(t).Execute(t.Context(), s); err != nil || r.Outcome != TooLarge || !strings.Contains(string(r.Stdout), "65536 bytes omitted") {
		t.Errorf("%d bytes, %s, %v", len(r.Stdout), r.Outcome, err)
	}
}

func TestOutOfMemoryIsKnownFromTheEngine(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.exit = 137
	if r, err := f.open(t).Execute(t.Context(), spec()); err != nil || r.Outcome != Failure {
		t.Errorf("status 137 alone: %+v, %v", r, err)
	}
	f = startFake(t)
	f.exit, f.oom = 137, true
	if r, err := f.open(t).Execute(t.Context(), spec()); err != nil || r.Outcome != OOM {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestReaperTouchesOnlyItsOwn(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	e := f.open(t)
	f.containers["dead"] = map[string]string{labelOwner: e.owner, labelInstance: "earlier", labelRun: uuid.NewString(), labelDeadline: "99999999999"}
	f.containers["ended"] = map[string]string{labelOwner: e.owner, labelInstance: e.instance, labelRun: uuid.NewString(), labelDeadline: "99999999999"}
	f.containers["foreign"] = map[string]string{labelOwner: e.owner + "0"}
	f.containers["unlabeled"] = map[string]string{}
	removed, err := e.Reap(t.Context())
	slices.Sort(removed)
	if err != nil || !slices.Equal(removed, []string{"dead", "ended"}) || len(f.containers) != 2 {
		t.Errorf("%v, %v, %v", removed, f.containers, err)
	}
}

func TestMissingEngineIsAStatusWithAHint(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Options{
		"missing":    {Host: "unix:///nonexistent/engine.sock"},
		"off":        {Host: "off"},
		"tcp":        {Getenv: func(n string) string { return map[string]string{"DOCKER_HOST": "tcp://127.0.0.1:2375"}[n] }},
		"not a path": {Host: "unix://engine.sock"},
	} {
		e := Open(o)
		st := e.Recheck(t.Context())
		r := st.Tiers[1].Reasons
		if st.Engine != nil || st.Tiers[1].Available || len(r) != 1 || r[0].Code != EngineNotFound || r[0].Hint == "" {
			t.Errorf("%s: %+v", name, st)
		}
		_, err := e.Execute(t.Context(), spec())
		if d, _ := fault.As(err).Details.(Refusal); !fault.Is(err, fault.Unavailable) || d.Code != EngineNotFound {
			t.Errorf("%s: %v", name, err)
		}
	}
	f := startFake(t)
	f.version = "1.40"
	if r := f.open(t).Recheck(t.Context()).Tiers[1].Reasons; len(r) != 1 || r[0].Code != EngineTooOld {
		t.Errorf("%+v", r)
	}
}

func TestAnEngineThatAppearsLaterIsFound(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	late := f.socket + "2"
	e := Open(Options{Host: "unix://" + late})
	t.Cleanup(func() { e.Close() })
	if e.Recheck(t.Context()).Engine != nil {
		t.Fatal("an engine was found")
	}
	if err := os.Symlink(f.socket, late); err != nil {
		t.Fatal(err)
	}
	if r, err := e.Execute(t.Context(), spec()); err != nil || r.Outcome != Success {
		t.Errorf("%+v, %v", r, err)
	}
	if r := e.Status().Tiers[1].Reasons; r[0].Code != SwapNotLimited {
		t.Errorf("%+v", r)
	}
}

func TestMissingImageAndInputOverTheLimitAreRefused(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	e := f.open(t)
	s := spec()
	s.ImageID = "missing"
	_, err := e.Execute(t.Context(), s)
	if d, _ := fault.As(err).Details.(Refusal); d.Code != ImageMissing {
		t.Errorf("%v", err)
	}
	s = spec()
	s.Input = make([]byte, MaxInput+1)
	if _, err := e.Execute(t.Context(), s); !fault.Is(err, fault.Limit) {
		t.Errorf("%v", err)
	}
	s = spec()
	s.Limits.MemoryBytes = 1
	if _, err := e.Execute(t.Context(), s); !fault.Is(err, fault.Invalid) {
		t.Errorf("%v", err)
	}
	for _, ref := range []string{"", "../x", "a?b", "a b", "-x", "a//b"} {
		if _, err := e.Image(t.Context(), ref); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v", ref, err)
		}
	}
}

func FuzzDemultiplex(f *testing.F) {
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 2, 'h', 'i', 2, 0, 0, 0, 0, 0, 0, 1, '!'})
	f.Fuzz(func(t *testing.T, b []byte) {
		out, problems := &window{head: 100, tail: 100}, &window{tail: 100}
		demultiplex(strings.NewReader(string(b)), out, problems, func() {}) //nolint:errcheck // it must end
		if len(out.bytes()) > 300 || len(problems.bytes()) > 100 {
			t.Errorf("%d and %d bytes kept", len(out.bytes()), len(problems.bytes()))
		}
	})
}
