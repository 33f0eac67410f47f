package container

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/url"
	"strings"
	"sync"
	"time"

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
	TooLarge  Outcome = "output" // more than OutputBytes was written
)

// The phases of a run.
const (
	PhaseCreate  = "create"
	PhaseStart   = "start"
	PhaseRunning = "running"
	PhaseEnded   = "ended"
	PhaseRemoved = "removed"
)

const (
	apiTime    = 60 * time.Second // for one request to the engine that is not the run itself
	removeTime = 60 * time.Second
)

// Phases is how long the parts of a run took.
type Phases struct {
	Create  time.Duration
	Start   time.Duration
	Running time.Duration
	Remove  time.Duration
}

// Result is the result of a run whose container was started.
type Result struct {
	Outcome     Outcome
	ExitCode    int
	Stdout      []byte // the beginning and the end if it was too large
	StderrTail  []byte
	Phases      Phases
	ContainerID string
}

var (
	errWall   = errors.New("the time limit was reached")
	errOutput = errors.New("the output limit was reached")
)

// Execute runs one container and removes it. An error means that the program did not run, or that the engine
// was lost meanwhile; how a program ended is in the result. If ctx ends the container is killed.
func (e *Engine) Execute(ctx context.Context, s Spec) (res Result, err error) {
	if s.Limits, err = s.Limits.WithDefaults(); err != nil {
		return res, err
	}
	if len(s.Input) > MaxInput {
		return res, fault.Limitf("The input has %d bytes; a container takes at most %d.", len(s.Input), MaxInput)
	}
	select {
	case e.slots <- struct{}{}:
		defer func() { <-e.slots }()
	default:
		return res, fault.Limitf("%d containers are running. Wait for one to end.", maxRunning)
	}
	c, runtime, err := e.connected(ctx)
	if err != nil {
		return res, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := &run{e: e, c: c, s: &s, began: time.Now(), res: &res}
	live := &Running{RunID: s.RunID, Image: s.ImageID, StartedAt: r.began, Deadline: r.began.Add(s.Limits.Wall + apiTime), kill: cancel}
	e.mu.Lock()
	if e.running[s.RunID] != nil {
		e.mu.Unlock()
		return res, fault.Conflictf("This run has already started.")
	}
	e.running[s.RunID] = live
	r.kind = "docker"
	if e.info != nil {
		r.kind = e.info.Kind
	}
	e.mu.Unlock()
	defer func() {
		r.remove()
		e.mu.Lock()
		delete(e.running, s.RunID)
		e.mu.Unlock()
		r.enter(PhaseRemoved)
	}()
	err = r.all(ctx, live, runtime)
	return res, e.lost(c, err)
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

// run is one Execute.
type run struct {
	e     *Engine
	c     *client
	s     *Spec
	kind  string
	live  *Running
	began time.Time
	res   *Result
	id    string // of the container
}

// enter records the phase that begins.
func (r *run) enter(phase string) {
	r.e.mu.Lock()
	if r.live != nil {
		r.live.Phase, r.live.ContainerID = phase, r.id
	}
	r.e.mu.Unlock()
	if r.s.Phase != nil {
		r.s.Phase(phase)
	}
}

func (r *run) all(ctx context.Context, live *Running, runtime string) error {
	r.live = live
	r.enter(PhaseCreate)
	body := r.e.body(r.s, r.kind, runtime, live.Deadline)
	io, err := r.begin(ctx, &body)
	if refusal := runtimeRefusal(err); refusal != "" && runtime != "runc" {
		// crun refuses hybrid control groups, which runc supports.
		r.remove()
		body.HostConfig.Runtime = "runc"
		if io, err = r.begin(ctx, &body); err == nil {
			r.e.mu.Lock()
			r.e.runtime = "runc"
			r.e.mu.Unlock()
		} else if ctx.Err() == nil {
			return unavailable(Reason{RuntimeRefused, "The engine can't start containers: " + refusal, "Install runc or correct the engine."}).WithCause(err)
		}
	}
	if err != nil {
		return r.notStarted(ctx, err)
	}
	return r.wait(ctx, io)
}

// begin creates a container, attaches to it and starts it.
func (r *run) begin(ctx context.Context, body *createBody) (*stream, error) {
	creating := time.Now()
	err := r.create(ctx, body)
	r.res.Phases.Create = time.Since(creating)
	if err != nil {
		return nil, err
	}
	r.enter(PhaseStart)
	starting := time.Now()
	defer func() { r.res.Phases.Start = time.Since(starting) }()
	ctx, cancel := context.WithTimeout(ctx, apiTime)
	defer cancel()
	s, err := r.c.attach(ctx, r.id)
	if err != nil {
		return nil, err
	}
	if err := r.c.call(ctx, "POST", "/containers/"+r.id+"/start", nil, nil, nil); err != nil {
		s.conn.Close()
		return nil, err
	}
	return s, nil
}

// create creates the container and checks that it is as isolated as was asked.
func (r *run) create(ctx context.Context, body *createBody) error {
	ctx, cancel := context.WithTimeout(ctx, apiTime)
	defer cancel()
	var made struct {
		ID string `json:"Id"`
	}
	// The name is known before the answer, so that a container whose creation was not answered is removed too.
	r.id = containerName(r.s.RunID.String())
	if err := r.c.call(ctx, "POST", "/containers/create", url.Values{"name": {r.id}}, body, &made); err != nil {
		var api *apiError
		if errors.As(err, &api) && api.status == 404 {
			return unavailable(Reason{ImageMissing, "The image isn't on this computer.", "Pull or import it again."}).WithCause(err)
		}
		return err
	}
	r.id, r.res.ContainerID = made.ID, made.ID
	var x inspection
	if err := r.c.call(ctx, "GET", "/containers/"+r.id+"/json", nil, nil, &x); err != nil {
		return err
	}
	if field := x.mismatch(body); field != "" {
		return fault.Unavailablef("The engine created a container that is less isolated than asked: %s. The program was not started.", field).
			WithDetails(map[string]string{"code": "hardening_mismatch", "field": field})
	}
	return nil
}

func containerName(run string) string { return "helix-" + run }

// refusedByEngine makes an error for people of a request that the engine refused.
func refusedByEngine(err error) error {
	var api *apiError
	if !errors.As(err, &api) {
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

// notStarted explains why a container could not start. A program that the image does not have is a result.
func (r *run) notStarted(ctx context.Context, err error) error {
	var api *apiError
	var known *fault.Error
	if errors.As(err, &known) || !errors.As(err, &api) {
		return canceledBefore(ctx, err)
	}
	m := strings.ToLower(api.message)
	program := "the program"
	if len(r.s.Argv) > 0 {
		program = r.s.Argv[0]
	}
	switch {
	case strings.Contains(m, "executable file"), strings.Contains(m, "no such file"), strings.Contains(m, "no command specified"):
		r.res.Outcome, r.res.ExitCode, r.res.StderrTail = Failure, 127, []byte(program+": not found in image")
		return nil
	case strings.Contains(m, "permission denied") && !strings.Contains(m, "rlimit"):
		r.res.Outcome, r.res.ExitCode, r.res.StderrTail = Failure, 126, []byte(program+": can't be executed in this image")
		return nil
	}
	return refusedByEngine(err)
}

func canceledBefore(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fault.New(fault.Canceled, "The run was canceled before it started.").WithCause(err)
	}
	return err
}

// wait feeds the input, collects the output and waits for the end.
func (r *run) wait(ctx context.Context, io *stream) error {
	running := time.Now()
	r.enter(PhaseRunning)
	limits := r.s.Limits
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	wall := time.AfterFunc(limits.Wall, func() { cancel(errWall) })
	defer wall.Stop()

	stdout := &window{head: int(limits.OutputBytes) - keptEnd, tail: keptEnd}
	stderr := &window{tail: int(limits.LogBytes)}
	var work sync.WaitGroup
	work.Go(func() { // the program need not read its input
		if _, err := io.conn.Write(r.s.Input); err == nil {
			io.conn.CloseWrite() //nolint:errcheck // the program has ended then
		}
	})
	read := make(chan error, 1)
	work.Go(func() {
		read <- demultiplex(io.r, stdout, stderr, func() { cancel(errOutput) })
	})
	killed := context.AfterFunc(ctx, func() { r.kill() })
	err := r.exit(ctx)
	var lost error // the output broke off
	if killed() {
		// The output ends with the program. Only what a lost engine left open is cut.
		cut := time.AfterFunc(apiTime, func() { io.conn.Close() })
		lost = <-read
		cut.Stop()
	}
	io.conn.Close()
	work.Wait()
	r.res.Phases.Running = time.Since(running)
	r.enter(PhaseEnded)
	r.res.Stdout, r.res.StderrTail = stdout.bytes(), stderr.bytes()
	cause := context.Cause(ctx)
	switch {
	case stdout.cut() || errors.Is(cause, errOutput):
		r.res.Outcome = TooLarge
	case errors.Is(cause, errWall):
		r.res.Outcome = TimedOut
	case cause != nil:
		r.res.Outcome = Cancelled
	case err != nil || lost != nil:
		return cmp.Or(err, lost)
	}
	return r.ended()
}

// exit returns when the container has ended, also if it was killed because ctx ended.
func (r *run) exit(ctx context.Context) error {
	wait, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	// After the container was killed its end is not waited for without limit.
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(apiTime):
			cancel()
		case <-wait.Done():
		}
	})
	defer stop()
	return r.c.call(wait, "POST", "/containers/"+r.id+"/wait", nil, nil, nil)
}

// ended reads how the container ended.
func (r *run) ended() error {
	ctx, cancel := context.WithTimeout(context.Background(), apiTime)
	defer cancel()
	var x inspection
	if err := r.c.call(ctx, "GET", "/containers/"+r.id+"/json", nil, nil, &x); err != nil {
		if r.res.Outcome != "" { // it was killed for a reason that is known
			return nil
		}
		return err
	}
	r.res.ExitCode = x.State.ExitCode
	switch {
	case r.res.Outcome != "":
	case x.State.OOMKilled:
		r.res.Outcome = OOM
	case x.State.ExitCode == 0:
		r.res.Outcome = Success
	default:
		r.res.Outcome = Failure
	}
	return nil
}

func (r *run) kill() {
	ctx, cancel := context.WithTimeout(context.Background(), apiTime)
	defer cancel()
	err := r.c.call(ctx, "POST", "/containers/"+r.id+"/kill", url.Values{"signal": {"KILL"}}, nil, nil)
	var api *apiError
	if err != nil && !errors.As(err, &api) { // otherwise it has ended already
		r.e.log.Warn("kill a container", "run", r.s.RunID, "err", err)
	}
}

// remove removes the container. If that fails the reaper does.
func (r *run) remove() {
	if r.id == "" {
		return
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), removeTime)
	defer cancel()
	if err := r.c.remove(ctx, r.id); err != nil {
		r.e.log.Warn("remove a container", "run", r.s.RunID, "err", err)
	}
	r.id = ""
	r.res.Phases.Remove = time.Since(began)
}

// remove removes a container by force, with its anonymous volumes. One that does not exist is no error.
func (c *client) remove(ctx context.Context, id string) error {
	err := c.call(ctx, "DELETE", "/containers/"+id, url.Values{"force": {"1"}, "v": {"1"}}, nil, nil)
	var api *apiError
	if errors.As(err, &api) && api.status == 404 {
		return nil
	}
	return err
}

// demultiplex reads the frames of an attached container: one byte for the stream, three zeros, the length and the data.
func demultiplex(r io.Reader, stdout, stderr *window, full func()) error {
	var header [8]byte
	for {
		if _, err := io.ReadFull(r, header[:]); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		to := stdout
		switch header[0] {
		case 0, 1:
		case 2:
			to = stderr
		default:
			return errors.New("the engine sent an unknown stream")
		}
		if _, err := io.CopyN(to, r, int64(binary.BigEndian.Uint32(header[4:]))); err != nil {
			return err
		}
		if stdout.cut() {
			full()
		}
	}
}
