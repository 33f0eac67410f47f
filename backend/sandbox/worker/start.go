package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"
)

// StartOptions configure how a child is started.
type StartOptions struct {
	Command []string // the program and its arguments, Argument among them
	Bwrap   *Bwrap   // nil: without
	// MemoryBytes is the memory limit of the child where the parent sets it (Windows); elsewhere
	// the child limits itself.
	MemoryBytes int64
}

// Starter starts children. All are started from one thread that lives until Close, since the system
// kills a child when the thread that started it ends.
type Starter struct {
	jobs chan func()
	done chan struct{}
	once sync.Once
}

// NewStarter returns a Starter; Close frees it.
func NewStarter() *Starter {
	s := &Starter{jobs: make(chan func()), done: make(chan struct{})}
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread() // the thread stays: it may have live children
		defer close(s.done)
		for f := range s.jobs {
			f()
		}
	}()
	return s
}

// Close ends the Starter. No Start may be in progress or follow. It may be called more than once.
func (s *Starter) Close() {
	s.once.Do(func() { close(s.jobs) })
	<-s.done
}

// Process is a running child.
type Process struct {
	In  *Writer // frames to it
	Out *Reader // frames from it

	cmd      *exec.Cmd
	in, out  *os.File
	job      job
	said     head
	saying   chan struct{}
	killOnce sync.Once
	ended    chan struct{}
	state    *os.ProcessState
	// Reasons are codes of protections that could not be applied to the child.
	Reasons []string
}

// Start starts a child. ctx limits only the start.
func (s *Starter) Start(ctx context.Context, o StartOptions) (p *Process, err error) {
	done := make(chan struct{})
	f := func() {
		defer close(done)
		p, err = start(o)
	}
	select {
	case s.jobs <- f:
		<-done
		return p, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func start(o StartOptions) (*Process, error) {
	if len(o.Command) == 0 {
		return nil, errors.New("no command")
	}
	args := o.Command
	if o.Bwrap != nil {
		args = o.Bwrap.Wrap(args)
	}
	var files []*os.File
	closeAll := func() {
		for _, f := range files {
			f.Close()
		}
	}
	pipe := func() (r, w *os.File, err error) {
		if r, w, err = os.Pipe(); err == nil {
			files = append(files, r, w)
		}
		return r, w, err
	}
	inR, inW, err1 := pipe()
	outR, outW, err2 := pipe()
	errR, errW, err3 := pipe()
	if err := errors.Join(err1, err2, err3); err != nil {
		closeAll()
		return nil, err
	}
	p := &Process{
		In: NewWriter(inW, ToChildLimits), Out: NewReader(outR, FromChildLimits),
		in: inW, out: outR, ended: make(chan struct{}), saying: make(chan struct{}),
	}
	p.cmd = &exec.Cmd{
		Path: args[0], Args: args, Env: []string{}, Dir: startDir,
		Stdin: inR, Stdout: outW, Stderr: errW, SysProcAttr: attributes(o.Bwrap != nil),
	}
	if err := p.cmd.Start(); err != nil {
		closeAll()
		return nil, fmt.Errorf("start %s: %w", args[0], err)
	}
	for _, f := range []*os.File{inR, outW, errW} {
		f.Close()
	}
	yieldTo(p.cmd.Process)
	p.job, p.Reasons = newJob(p.cmd.Process, o.MemoryBytes)
	go func() {
		defer close(p.saying)
		_, _ = io.Copy(&p.said, errR)
		errR.Close()
	}()
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // the state contains everything
		p.state = p.cmd.ProcessState
		p.job.close()
		p.in.Close()
		// If some part of it has survived and holds our pipes, do not wait for it.
		end := time.Now().Add(afterEnd)
		_ = outR.SetReadDeadline(end) // not every system has deadlines for pipes
		_ = errR.SetReadDeadline(end)
	}()
	return p, nil
}

// afterEnd is how long the output of an ended child may still be read.
const afterEnd = 10 * time.Second

// Pid returns the id of the started process: the child, or its wrapper.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Kill kills the child at once, together with its wrapper. It may be called more than once.
func (p *Process) Kill() {
	p.killOnce.Do(func() {
		select {
		case <-p.ended: // another process may have its id by now
		default:
			killGroup(p.cmd.Process)
		}
	})
}

// Ended returns a channel that is closed when the child is gone.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Release waits until the child is gone, kills it after grace, and frees everything. Afterwards
// only Said and CPU of the Process may be used.
func (p *Process) Release(grace time.Duration) {
	if grace > 0 {
		t := time.NewTimer(grace)
		select {
		case <-p.ended:
		case <-t.C:
		}
		t.Stop()
	}
	p.Kill()
	<-p.ended
	p.out.Close()
	<-p.saying
}

// CPU returns the CPU time of an ended child, 0 if unknown.
func (p *Process) CPU() time.Duration {
	select {
	case <-p.ended:
		if p.state != nil {
			return p.state.UserTime() + p.state.SystemTime()
		}
	default:
	}
	return 0
}

// ExitCode returns the exit code of an ended child, or -1 if a signal ended it or it has not ended.
func (p *Process) ExitCode() int {
	select {
	case <-p.ended:
		return p.state.ExitCode()
	default:
		return -1
	}
}

// Said returns, for the log, the start of what the child wrote to its standard error, and how it
// ended. Call it after Release.
func (p *Process) Said() string {
	s := strings.TrimSpace(p.said.String())
	if p.state != nil {
		s = strings.TrimSpace(p.state.String() + "\n" + s)
	}
	return s
}

// head is a writer that keeps the start of what is written to it, up to a size, and discards the
// rest.
type head struct {
	mu sync.Mutex
	b  []byte
}

const maxSaid = 8 << 10

// Write keeps as much of b as there is room for.
func (t *head) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if room := maxSaid - len(t.b); room > 0 {
		t.b = append(t.b, b[:min(room, len(b))]...)
	}
	return len(b), nil
}

func (t *head) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(t.b), "\uFFFD")
}
