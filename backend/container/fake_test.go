//go:build !containers

package container

import (
	"bufio"
	"bytes"
	"context"
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

	"helix/backend/container/guest"
	"helix/backend/fault"
	"helix/backend/testkit"
)

// initDir is where the init process is unpacked, once for all tests.
var initDir string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "helix-init")
	if err != nil {
		panic(err)
	}
	initDir = dir
	code := testkit.Run(m)
	os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	os.Exit(code)
}

// fake is an engine that runs nothing: it records what it is asked, and its programs behave as its fields say.
type fake struct {
	socket string

	mu         sync.Mutex
	version    string                       // of the API
	containers map[string]map[string]string // labels by id
	names      map[string]string            // ids by name
	created    []createBody
	weaken     func(*createBody) // what it does other than asked
	startError string            // once
	stdout     string
	forever    bool                // the program runs until it is killed
	report     func(*guest.Report) // what its init process reports other than asked
	quotas     bool                // the file system limits volumes
	volumes    []map[string]any    // that were created
	oom        bool
	killed     bool // memory runs out for the init process, which the engine knows only after a wait
	exit       int
	ended      map[string]chan struct{} // containers by id, closed when their programs have ended
	gone       []string                 // containers that cannot be started
	slow       func()                   // runs before a container is created, while other requests are answered
	calls      []string
	started    []guest.Start
	attached   io.ReadWriteCloser
	dead       bool // it answers nothing any more
	deaf       bool // the init processes don't end programs
}

func startFake(t *testing.T) *fake {
	t.Helper()
	dir, err := os.MkdirTemp("", "hx") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{socket: filepath.Join(dir, "s"), version: "1.44", containers: map[string]map[string]string{}, names: map[string]string{}, ended: map[string]chan struct{}{}}
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
	e := Open(Options{Owner: "test", Host: "unix://" + f.socket, Dir: initDir})
	t.Cleanup(func() { e.Close() })
	return e
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dead {
		panic(http.ErrAbortHandler)
	}
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
	if len(parts) > 1 && f.names[parts[1]] != "" {
		parts[1] = f.names[parts[1]]
	}
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
		if f.slow != nil {
			f.mu.Unlock()
			f.slow()
			f.mu.Lock()
		}
		f.created = append(f.created, b)
		id := fmt.Sprintf("c%d", len(f.created))
		f.containers[id] = b.Labels
		f.names[r.URL.Query().Get("name")] = id
		f.ended[id] = make(chan struct{})
		w.WriteHeader(201)
		answer(map[string]string{"Id": id})
	case path == "/volumes/create":
		var v map[string]any
		json.NewDecoder(r.Body).Decode(&v) //nolint:errcheck // a test
		if v["DriverOpts"] != nil && !f.quotas {
			refuse(500, "quota size requested but no quota support")
			return
		}
		f.volumes = append(f.volumes, v)
		w.WriteHeader(201)
		answer(v)
	case parts[0] == "volumes" || r.Method == "DELETE" && parts[0] == "images":
		w.WriteHeader(204)
	case r.Method == "DELETE":
		if f.containers[parts[1]] == nil {
			refuse(404, "No such container")
			return
		}
		delete(f.containers, parts[1])
		w.WriteHeader(204)
	case parts[0] == "images" && parts[1] == "missing":
		refuse(404, "No such image")
	case parts[0] == "images":
		answer(map[string]any{"Id": parts[1], "Config": map[string]any{"Entrypoint": []string{"/bin/program"}, "Cmd": []string{"x"}, "Env": []string{"PATH=/bin", "A=1"}, "WorkingDir": "/work"}})
	case parts[len(parts)-1] == "json":
		b := f.created[f.number(parts[1])]
		if f.weaken != nil {
			f.weaken(&b)
		}
		answer(map[string]any{"Id": parts[1], "Config": map[string]any{"User": b.User}, "HostConfig": b.HostConfig, "Mounts": f.mounts(&b),
			"State": map[string]any{"OOMKilled": f.oom, "ExitCode": f.exit}})
	case parts[len(parts)-1] == "attach":
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		fmt.Fprint(rw, "HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n") //nolint:errcheck // a test
		rw.Flush()
		f.attached = &fakeAttached{conn, rw}
	case parts[len(parts)-1] == "start" && slices.Contains(f.gone, parts[1]):
		refuse(404, "No such container")
	case parts[len(parts)-1] == "start":
		if f.startError != "" {
			message := f.startError
			f.startError = ""
			refuse(500, message)
			return
		}
		if b := f.created[f.number(parts[1])]; slices.Equal(b.Cmd, []string{guest.OwnArg}) {
			end(f.ended[parts[1]])
		} else {
			go f.init(b, f.attached, f.ended[parts[1]])
		}
		w.WriteHeader(204)
	case parts[len(parts)-1] == "kill":
		end(f.ended[parts[1]])
		w.WriteHeader(204)
	case parts[len(parts)-1] == "wait":
		ended := f.ended[parts[1]]
		f.mu.Unlock()
		select {
		case <-ended:
		case <-r.Context().Done():
		}
		f.mu.Lock()
		f.oom = f.oom || f.killed && r.Context().Err() == nil
		answer(map[string]int{"StatusCode": f.exit})
	default:
		refuse(404, "page not found")
	}
}

// number returns which of the created containers has an id.
func (f *fake) number(id string) (n int) {
	fmt.Sscanf(id, "c%d", &n) //nolint:errcheck // it is one that was given out
	return max(0, n-1)
}

// fakeAttached is the input and output of a container in the frames of the engine.
type fakeAttached struct {
	net.Conn
	rw *bufio.ReadWriter
}

func (a *fakeAttached) Read(p []byte) (int, error) { return a.rw.Read(p) }

func (a *fakeAttached) Write(p []byte) (int, error) {
	for _, b := range p { // in the smallest pieces
		if _, err := a.Conn.Write([]byte{1, 0, 0, 0, 0, 0, 0, 1, b}); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// init is the init process of a container.
func (f *fake) init(b createBody, attached io.ReadWriteCloser, ended chan struct{}) {
	rw := attached
	for _, m := range b.HostConfig.Mounts {
		if m.Target == guest.SocketPath {
			conn, err := net.Dial("unix", m.Source)
			if err != nil {
				return
			}
			rw = conn
		}
	}
	c := guest.NewConn(rw)
	var uid, gid int
	fmt.Sscanf(b.User, "%d:%d", &uid, &gid) //nolint:errcheck // it is always set
	f.mu.Lock()
	report := &guest.Report{Version: guest.Version, PID: 1, UID: uid, GID: gid, CapEff: capabilities(nil), CapBnd: capabilities(nil), NoNewPrivs: 1, Seccomp: 2, RootMount: "ro,relatime",
		Interfaces: []string{"lo"}, NoFile: 1024, FileSize: b.HostConfig.Ulimits[3].Hard, Memory: b.HostConfig.Memory, Pids: b.HostConfig.PidsLimit, CPUPercent: b.HostConfig.CPUQuota / 1000}
	if f.report != nil {
		f.report(report)
	}
	f.mu.Unlock()
	c.Send(&guest.Message{Type: guest.TypeHello, Report: report}) //nolint:errcheck // the client may be gone
	c.Serve(func(m *guest.Message) error {                        //nolint:errcheck // until the client is gone
		switch m.Type {
		case guest.TypeStart:
			f.mu.Lock()
			f.started = append(f.started, *m.Start)
			f.mu.Unlock()
			in, _ := c.Open(guest.Stdin(m.ID))
			out, _ := c.Open(guest.Stdout(m.ID))
			problems, _ := c.Open(guest.Stderr(m.ID))
			go f.program(c, m.ID, in, out, problems, ended)
		case guest.TypeKill:
			f.mu.Lock()
			deaf := f.deaf
			f.mu.Unlock()
			if !deaf {
				end(ended)
			}
		}
		return nil
	})
	end(ended)
}

// mounts returns what the engine says is mounted.
func (f *fake) mounts(b *createBody) []map[string]any {
	list := []map[string]any{}
	for _, m := range b.HostConfig.Mounts {
		list = append(list, map[string]any{"Type": m.Type, "Source": m.Source, "Destination": m.Target, "RW": !m.ReadOnly})
	}
	return list
}

// left returns how many containers there are.
func (f *fake) left() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.containers)
}

var ending sync.Mutex

// end ends the programs of a container.
func end(ended chan struct{}) {
	ending.Lock()
	defer ending.Unlock()
	select {
	case <-ended:
	default:
		close(ended)
	}
}

// program is a program of a container.
func (f *fake) program(c *guest.Conn, id uint32, in, out, problems *guest.Stream, ended chan struct{}) {
	input, _ := io.ReadAll(in)
	f.mu.Lock()
	text, forever, killed, exit := f.stdout, f.forever, f.killed, &guest.Exit{Code: f.exit, OOM: f.oom}
	f.mu.Unlock()
	if text == "" {
		text = string(input)
	}
	out.Write([]byte(text)) //nolint:errcheck // the client may be gone
	if killed {
		end(ended)
		c.Close()
		return
	}
	if forever {
		<-ended
		exit = &guest.Exit{Code: 137, Ended: guest.EndedByKill}
	}
	out.CloseWrite()                                                 //nolint:errcheck // the client may be gone
	problems.CloseWrite()                                            //nolint:errcheck // the client may be gone
	c.Send(&guest.Message{Type: guest.TypeExit, ID: id, Exit: exit}) //nolint:errcheck // the client may be gone
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
		h.Memory != 256<<20 || h.MemorySwap != h.Memory || h.CPUQuota != 50_000 || h.PidsLimit != 64 || h.Privileged || len(h.Mounts) != 2 || !h.Mounts[0].ReadOnly || !strings.Contains(h.Tmpfs["/tmp"], "noexec,nosuid,nodev") {
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
		"Mounts":         func(b *createBody) { b.HostConfig.Mounts = append(b.HostConfig.Mounts, bind("/", "/host", true)) },
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
	e := Open(Options{Host: "unix://" + late, Dir: initDir})
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

func FuzzAttachedStream(f *testing.F) {
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 2, 'h', 'i', 2, 0, 0, 0, 0, 0, 0, 1, '!'})
	f.Fuzz(func(t *testing.T, b []byte) {
		a := &attached{stream: &stream{r: bufio.NewReader(bytes.NewReader(b))}, errors: &window{tail: 100}}
		out, _ := io.ReadAll(a) // it must end
		if len(out) > len(b) || len(a.errors.bytes()) > 100 {
			t.Errorf("%d and %d bytes", len(out), len(a.errors.bytes()))
		}
	})
}

func TestTheProgramOfAContainerThatIsWeakerInsideIsNotStarted(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*guest.Report){
		"version":    func(r *guest.Report) { r.Version++ },
		"pid":        func(r *guest.Report) { r.PID = 7 },
		"uid":        func(r *guest.Report) { r.UID = 0 },
		"gid":        func(r *guest.Report) { r.GID = 0 },
		"capEff":     func(r *guest.Report) { r.CapEff = "00000000a80425fb" },
		"capBnd":     func(r *guest.Report) { r.CapBnd = "00000000a80425fb" },
		"noNewPrivs": func(r *guest.Report) { r.NoNewPrivs = 0 },
		"seccomp":    func(r *guest.Report) { r.Seccomp = 0 },
		"rootMount":  func(r *guest.Report) { r.RootMount = "rw,relatime" },
		"interfaces": func(r *guest.Report) { r.Interfaces = []string{"lo", "eth0"} },
		"noFile":     func(r *guest.Report) { r.NoFile = 1 << 20 },
		"core":       func(r *guest.Report) { r.Core = 1 << 62 },
		"fileSize":   func(r *guest.Report) { r.FileSize = 1 << 62 },
		"memory":     func(r *guest.Report) { r.Memory = 1 << 62 },
		"swap":       func(r *guest.Report) { r.Swap = 1 << 20 },
		"pids":       func(r *guest.Report) { r.Pids = 1 << 62 },
		"cpu":        func(r *guest.Report) { r.CPUPercent = 1 << 62 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startFake(t)
			f.report = change
			_, err := f.open(t).Execute(t.Context(), spec())
			d, _ := fault.As(err).Details.(map[string]string)
			if !fault.Is(err, fault.Unavailable) || d["code"] != "hardening_mismatch" || d["field"] != name {
				t.Errorf("%v, %v", err, d)
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			if len(f.started) > 0 || len(f.containers) != 0 {
				t.Errorf("%v, %v", f.started, f.containers)
			}
		})
	}
}

func TestAttachedInitProcessSpeaksTheSameProtocol(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	e := Open(Options{Owner: "test", Host: "unix://" + f.socket, Dir: initDir, Transport: guest.AttachArg})
	t.Cleanup(func() { e.Close() })
	s := spec()
	s.Argv, s.Input = nil, []byte("hello")
	r, err := e.Execute(t.Context(), s)
	if err != nil || string(r.Stdout) != "hello" || r.Outcome != Success {
		t.Fatalf("%+v, %v", r, err)
	}
	if len(f.created[0].HostConfig.Mounts) != 1 {
		t.Errorf("%+v", f.created[0].HostConfig.Mounts)
	}
	p := f.started[0]
	if !slices.Equal(p.Argv, []string{"/bin/program", "x"}) || p.Dir != "/work" || !slices.Contains(p.Env, "PATH=/bin") || !slices.Contains(p.Env, "A=1") || !slices.Contains(p.Env, "HOME=/tmp") {
		t.Errorf("%+v", p)
	}
}
