package container

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"helix/backend/container/guest"
	"helix/backend/duration"
	"helix/backend/fault"
)

// Outcome is how a run ended.
type Outcome string

// The outcomes.
const (
	Success   Outcome = "success"
	Failure   Outcome = "failure" // a status other than 0
	TimedOut  Outcome = "timeout"
	Cancelled Outcome = "cancelled"
	OOM       Outcome = "oom"
	TooLarge  Outcome = "output"  // more than OutputBytes was written
	Storage   Outcome = "storage" // more state was stored than the quota
)

// The phases of a run.
const (
	PhaseCreate  = "create"
	PhaseStart   = "start"
	PhaseReady   = "ready" // its isolation is checked
	PhaseRunning = "running"
	PhaseEnded   = "ended"
	PhaseRemoved = "removed"
)

const (
	apiTime    = 60 * time.Second // for one request to the engine that is not the run itself
	removeTime = 60 * time.Second
	endTime    = 10 * time.Second // for the engine to notice that a container has ended
)

// Phases is how long the parts of a run took.
type Phases struct {
	Create  time.Duration
	Start   time.Duration
	Running time.Duration
	Remove  time.Duration
}

// Usage is what a run used.
type Usage struct {
	CPU        time.Duration
	PeakMemory int64
	BytesOut   int64 // over the network, from the container
	BytesIn    int64
	DiskBytes  int64 // of stored state
	Samples    int   // how often memory was measured
}

// Hardening is what the init process found about its isolation before the program was started.
type Hardening = guest.Report

// Result is the result of a run whose container was started.
type Result struct {
	Outcome     Outcome
	ExitCode    int
	Stdout      []byte // the beginning and the end if it was too large
	StderrTail  []byte
	Usage       Usage
	Phases      Phases
	Hardening   Hardening
	ContainerID string
}

var (
	errWall   = errors.New("the time limit was reached")
	errOutput = errors.New("the output limit was reached")
	errLost   = errors.New("the container ended unexpectedly")
)

// killGrace is how long the init process may take to end a program before the container is killed.
const killGrace = 500 * time.Millisecond

// Execute runs one container and removes it. An error means that the program did not run, or that the engine
// was lost meanwhile; how a program ended is in the result. If ctx ends the container is killed.
func (e *Engine) Execute(ctx context.Context, s Spec) (res Result, err error) {
	if s.Limits, err = s.Limits.WithDefaults(); err != nil {
		return res, err
	}
	if len(s.Input) > MaxInput {
		return res, fault.Limitf("The input has %d bytes; a container takes at most %d.", len(s.Input), MaxInput)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if s.Volume != nil {
		s.Limits.StorageBytes = s.Volume.Quota // a file above the quota fails at once
	}
	b, runtime, err := e.enter(ctx, &Running{RunID: s.RunID, Name: s.Name, Image: s.ImageID, kill: cancel}, s.Limits, s.Limits.Wall+apiTime)
	if err != nil {
		return res, err
	}
	b.phase = s.Phase
	started := false
	defer func() {
		b.leave()
		res.Phases = b.phases
		if started && (s.Volume == nil || res.Usage.DiskBytes <= s.Volume.Quota) {
			b.another()
		}
	}()
	var network *proxy
	if s.Egress != nil {
		network = &proxy{ctx: ctx, egress: s.Egress, contacted: s.Contacted, roots: e.o.TLS}
		b.dialed = func(stream *guest.Stream) { network.serve(stream) }
	}
	start, err := e.command(ctx, b.c, &s)
	if err == nil && s.Volume != nil {
		var leave func(int64)
		if leave, err = b.useVolume(ctx, s.Volume); err == nil {
			start.DataBytes = s.Volume.Quota
			defer func() {
				b.remove()
				leave(res.Usage.DiskBytes)
			}()
		}
	}
	if err == nil {
		err = b.open(ctx, runtime)
	}
	res.ContainerID = b.id
	if err != nil {
		return res, e.lost(b.c, err)
	}
	res.Hardening = *b.report
	started = true
	r := &run{b: b, s: &s, res: &res}
	err = r.wait(ctx, start)
	if network != nil {
		res.Usage.BytesOut, res.Usage.BytesIn = network.out.Load(), network.in.Load()
	}
	return res, e.lost(b.c, err)
}

// enter counts a container against the limit, and makes what is needed to open it. leave ends it.
func (e *Engine) enter(ctx context.Context, live *Running, l Limits, lifetime time.Duration) (b *box, runtime string, err error) {
	select {
	case e.slots <- struct{}{}:
	default:
		return nil, "", fault.Limitf("%d containers are running. Wait for one to end.", maxRunning)
	}
	defer func() {
		if err != nil {
			<-e.slots
		}
	}()
	c, runtime, err := e.connected(ctx)
	if err != nil {
		return nil, "", err
	}
	id := live.RunID
	live.StartedAt = time.Now()
	live.Deadline = live.StartedAt.Add(lifetime)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.running[id] != nil {
		return nil, "", fault.Conflictf("This run has already started.")
	}
	e.running[id] = live
	kind := "docker"
	if e.info != nil {
		kind = e.info.Kind
	}
	return &box{e: e, c: c, run: id, live: live, body: e.body(live.Image, l, id, kind, live.Deadline)}, runtime, nil
}

// leave removes the container, whatever became of it.
func (b *box) leave() {
	defer func() { <-b.e.slots }()
	b.remove()
	b.e.mu.Lock()
	delete(b.e.running, b.live.RunID)
	b.e.mu.Unlock()
	b.enter(PhaseRemoved)
}

// transport returns how containers of the engine are reached.
func (e *Engine) transport(c *client) string {
	if e.o.Transport != "" {
		return e.o.Transport
	}
	if runtime.GOOS != "linux" || strings.Contains(c.socket, "/desktop/") || strings.Contains(c.socket, "/machine/") {
		return guest.AttachArg // the engine runs in a virtual machine
	}
	return guest.SocketArg
}

// Kill ends a run. It reports whether the run was in progress.
func (e *Engine) Kill(run string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, r := range e.running {
		if id.String() == run {
			r.kill(context.Canceled)
			return true
		}
	}
	return false
}

// program is what an image starts, and with what.
type program struct {
	argv, env []string
	dir       string
}

// maxKnown is how many images' programs are kept.
const maxKnown = 100

// program returns what an image starts.
func (e *Engine) program(ctx context.Context, c *client, id string) (*program, error) {
	e.mu.Lock()
	p := e.images[id]
	e.mu.Unlock()
	if p != nil {
		return p, nil
	}
	var x struct {
		Config struct {
			Entrypoint, Cmd, Env []string
			WorkingDir           string
		}
	}
	err := c.call(ctx, "GET", "/images/"+id+"/json", nil, nil, &x)
	var api *apiError
	if errors.As(err, &api) && api.status == 404 {
		return nil, unavailable(Reason{ImageMissing, "The image isn't on this computer.", "Pull or import it again."}).WithCause(err)
	}
	if err != nil {
		return nil, err
	}
	p = &program{append(x.Config.Entrypoint, x.Config.Cmd...), x.Config.Env, x.Config.WorkingDir}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.images) >= maxKnown {
		clear(e.images)
	}
	e.images[id] = p
	return p, nil
}

// command returns what the init process is asked to run.
func (e *Engine) command(ctx context.Context, c *client, s *Spec) (*guest.Start, error) {
	p, err := e.program(ctx, c, s.ImageID)
	if err != nil {
		return nil, err
	}
	start := &guest.Start{Argv: s.Argv, Dir: p.workDir(), WallMs: s.Limits.Wall.Milliseconds(), Alone: true}
	if len(start.Argv) == 0 {
		start.Argv = p.argv
	}
	if len(start.Argv) == 0 {
		return nil, fault.Invalidf("The image starts nothing by itself. Add a command to the tool.")
	}
	more := append([]string{"HELIX_RUN_ID=" + s.RunID.String()}, s.Env...)
	if s.Egress != nil {
		start.Proxy, more = true, append(more, proxyEnvironment()...)
	}
	start.Env = p.environment(more)
	if s.Operation != "" {
		start.Env = append(start.Env, "HELIX_OPERATION="+s.Operation)
	}
	return start, nil
}

func (p *program) workDir() string {
	return cmp.Or(p.dir, "/tmp")
}

const defaultPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// environment returns the environment of a program: that of the image, and more. Nothing comes from this computer.
func (p *program) environment(more []string) []string {
	env := []string{}
	for _, list := range [][]string{{defaultPath}, p.env, {"HOME=/tmp", "LANG=C.UTF-8"}, more} {
		for _, pair := range list {
			name, _, _ := strings.Cut(pair, "=")
			env = slices.DeleteFunc(env, func(have string) bool { return strings.HasPrefix(have, name+"=") })
			env = append(env, pair)
		}
	}
	return env
}

// run is one program of an Execute.
type run struct {
	b   *box
	s   *Spec
	res *Result
}

// wait starts the program, feeds its input, collects its output and waits for its end.
func (r *run) wait(ctx context.Context, start *guest.Start) error {
	began := time.Now()
	limits := r.s.Limits
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p, err := r.b.start(1, start)
	if err != nil {
		return r.lost(ctx, err)
	}
	defer p.close()
	r.b.enter(PhaseRunning)
	wall := time.AfterFunc(limits.Wall+killGrace, func() { cancel(errWall) })
	defer wall.Stop()

	stdout := &window{head: int(limits.OutputBytes) - keptEnd, tail: keptEnd}
	stderr := &window{tail: int(limits.LogBytes)}
	var work sync.WaitGroup
	work.Go(func() { p.feed(r.s.Input) })
	work.Go(func() {
		io.Copy(&limited{stdout, func() { cancel(errOutput) }}, p.stdout) //nolint:errcheck // the end is known from the exit
	})
	work.Go(func() { io.Copy(stderr, p.stderr) }) //nolint:errcheck // the end is known from the exit

	killed := context.AfterFunc(ctx, func() {
		r.b.conn.Send(&guest.Message{Type: guest.TypeKill, ID: p.id}) //nolint:errcheck // the container is killed next
		select {
		case <-r.b.closed:
		case <-time.After(killGrace):
			if r.b.kill() != nil {
				r.b.conn.Close() //nolint:errcheck // the init process ends with its connection
			}
		}
	})
	defer killed()
	exit := p.end(r.b.closed)
	work.Wait()
	r.b.phases.Running = time.Since(began)
	r.b.enter(PhaseEnded)
	r.res.Stdout, r.res.StderrTail = stdout.bytes(), stderr.bytes()
	return r.ended(ctx, exit, stdout.cut())
}

// limited writes to a window and calls full when it has more than it keeps.
type limited struct {
	*window
	full func()
}

// Write implements io.Writer.
func (l *limited) Write(b []byte) (int, error) {
	n, err := l.window.Write(b)
	if l.cut() {
		l.full()
	}
	return n, err
}

// ended makes the outcome.
func (r *run) ended(ctx context.Context, exit *guest.Exit, tooLarge bool) error {
	res, cause := r.res, context.Cause(ctx)
	if exit == nil {
		exit = &guest.Exit{Code: 137}
		if cause == nil {
			return r.lost(ctx, errLost)
		}
	}
	res.ExitCode = exit.Code
	res.Usage = usageOf(exit)
	switch {
	case exit.Missing != "":
		res.Outcome, res.StderrTail = Failure, []byte(firstOf(r.s.Argv)+": "+exit.Missing)
	case tooLarge || errors.Is(cause, errOutput):
		res.Outcome = TooLarge
	case errors.Is(cause, errWall) || exit.Ended == guest.EndedByWall:
		res.Outcome = TimedOut
	case exit.Ended == guest.EndedByStorage:
		res.Outcome = Storage
	case cause != nil:
		res.Outcome = Cancelled
	case exit.Code == 0:
		res.Outcome = Success
	case exit.OOM:
		res.Outcome = OOM
	default:
		res.Outcome = Failure
	}
	return nil
}

func usageOf(exit *guest.Exit) Usage {
	u := &exit.Usage
	return Usage{CPU: duration.Of(u.CPUMicros, time.Microsecond), PeakMemory: u.PeakMemory, DiskBytes: u.DiskBytes, Samples: u.Samples}
}

func firstOf(argv []string) string {
	if len(argv) == 0 {
		return "the program"
	}
	return argv[0]
}

// lost explains why the connection to the container ended before the program did: the engine says whether memory
// was the reason.
func (r *run) lost(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		r.res.Outcome = Cancelled
		return nil
	}
	limited, cancel := context.WithTimeout(context.Background(), apiTime)
	defer cancel()
	// Podman learns some time after it that a container has ended, and only then whether memory was the reason.
	waiting, ended := context.WithTimeout(limited, endTime)
	defer ended()
	r.b.c.call(waiting, "POST", "/containers/"+r.b.id+"/wait", nil, nil, nil) //nolint:errcheck // the state is read in any case
	var x inspection
	if ierr := r.b.c.call(limited, "GET", "/containers/"+r.b.id+"/json", nil, nil, &x); ierr != nil {
		return fault.Unavailablef("The container engine was lost. Start it again.").WithDetails(Refusal{EngineNotFound, "Start it again."}).WithCause(errors.Join(err, ierr))
	}
	r.res.Outcome, r.res.ExitCode = Failure, 137
	if x.State.OOMKilled {
		r.res.Outcome = OOM
	} else if len(r.res.StderrTail) == 0 {
		r.res.StderrTail = []byte(cmp.Or(string(r.b.said.bytes()), fmt.Sprintf("%s (status %d)", err, x.State.ExitCode)))
	}
	return nil
}

func containerName(run string) string { return "helix-" + run }

// refusedByEngine makes an error for people of a request that the engine refused.
func refusedByEngine(err error) error {
	var api *apiError
	var known *fault.Error
	if errors.As(err, &known) || !errors.As(err, &api) {
		return err
	}
	if strings.Contains(api.message, "rlimit") || strings.Contains(api.message, "ulimit") {
		return unavailable(Reason{UlimitRefused, "The engine refuses the limits of the container.", "Raise the limits of the engine's process."}).WithCause(err)
	}
	return unavailable(Reason{RuntimeRefused, "The engine refused the container: " + clip(api.message, 300), "Check the engine with: helix container doctor"}).WithCause(err)
}

// runtimeRefusal returns the text of a runtime that does not work on this system at all.
func runtimeRefusal(err error) string {
	var api *apiError
	if errors.As(err, &api) && (strings.Contains(api.message, "hybrid mode") || strings.Contains(api.message, "cgroup")) {
		return clip(api.message, 300)
	}
	return ""
}

// removeTries is how often a removal is tried that the engine refuses because the container changes its state.
const removeTries = 20

// remove removes a container by force, with its anonymous volumes. One that does not exist is no error.
func (c *client) remove(ctx context.Context, id string) error {
	for try := 1; ; try++ {
		err := c.call(ctx, "DELETE", "/containers/"+id, url.Values{"force": {"1"}, "v": {"1"}}, nil, nil)
		var api *apiError
		if !errors.As(err, &api) {
			return err
		}
		if api.status == 404 {
			return nil
		}
		if api.status != 409 && !strings.Contains(api.message, "state improper") || try == removeTries {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}
