package mcp

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"helix/backend/fault"
)

const (
	stopGrace = 2 * time.Second // how long each step of stopping a process may take
	endGrace  = 5 * time.Second // how long to wait for the end of a process that closed its output
)

// process is a running stdio server with everything that it started.
type process struct {
	cmd            *exec.Cmd
	stdin          *os.File
	stdout, stderr *os.File
	log            *serverLog
	logged         chan struct{} // closed when standard error has ended
	exited         chan struct{} // closed when the process has ended and its group was killed
	group          group
	from           int64 // number of the last log line before the start

	reader   atomic.Pointer[lineReader]
	stopping sync.Once
	stopped  chan struct{}
	forget   func()
}

// startProcess starts a program in a process group (on Windows: a job) of its own.
func startProcess(e *Server, path string, env []string, log *serverLog, left *leftovers) (*process, error) {
	args, err := commandLine(path, e.Args)
	if err != nil {
		return nil, err
	}
	var ends [6]*os.File
	closeAll := func() {
		for _, f := range ends {
			if f != nil {
				f.Close()
			}
		}
	}
	for i := 0; i < 6; i += 2 {
		if ends[i], ends[i+1], err = os.Pipe(); err != nil {
			closeAll()
			return nil, fault.Unavailablef("Couldn't start %s: no pipe is available.", e.Name).WithCause(err)
		}
	}
	p := &process{
		cmd: exec.Command(path), stdin: ends[1], stdout: ends[2], stderr: ends[4], log: log, from: log.last(), //nolint:gosec // running the user's approved command is the purpose
		logged: make(chan struct{}), exited: make(chan struct{}), stopped: make(chan struct{}), forget: func() {},
	}
	p.cmd.Args, p.cmd.Env, p.cmd.Dir = args, env, e.Cwd
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = ends[0], ends[3], ends[5]
	if err := p.group.start(p.cmd); err != nil {
		closeAll()
		return nil, fault.Unavailablef("Couldn't start %s: %s could not be run.", e.Name, path).WithCause(err)
	}
	for _, f := range []*os.File{ends[0], ends[3], ends[5]} {
		f.Close()
	}
	p.forget = left.add(p.cmd.Process.Pid, path)
	go func() {
		defer close(p.logged)
		log.readStderr(p.stderr)
	}()
	go func() {
		defer close(p.exited)
		p.group.wait(p.cmd)
		p.forget()
	}()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// stop ends the process and everything in its group, and waits for it.
func (p *process) stop() {
	p.stopping.Do(func() {
		defer close(p.stopped)
		p.stdin.Close()
		if !waitFor(p.exited, stopGrace) {
			p.group.terminate(p.cmd)
			if !waitFor(p.exited, stopGrace) {
				p.group.kill(p.cmd)
				<-p.exited
			}
		}
		p.stdout.Close()
		p.stderr.SetReadDeadline(time.Now()) //nolint:errcheck // what left the group may still hold the pipe
		<-p.logged
		p.stderr.Close()
	})
	<-p.stopped
}

func waitFor(done <-chan struct{}, limit time.Duration) bool {
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}

// how describes how the process ended, with the last lines of its standard error.
func (p *process) how() string {
	text := "it is still running"
	select {
	case <-p.exited:
		text = p.cmd.ProcessState.String()
		waitFor(p.logged, endGrace) // its last words are in the pipe already
	default:
	}
	if tail := p.log.tail(p.from, 3); tail != "" {
		text = fmt.Sprintf("%s: %s", text, tail)
	}
	return text
}

// broken returns how the process violated the protocol, or nil.
func (p *process) broken() error {
	r := p.reader.Load()
	if r == nil {
		return nil
	}
	return r.broken.get()
}

// pipes returns the ends of the pipes for the protocol. odd is called for each message that is not valid.
func (p *process) pipes(odd func()) (io.ReadCloser, io.WriteCloser) {
	r := &lineReader{r: p.stdout, log: p.log, odd: odd}
	p.reader.Store(r)
	return r, &lineWriter{w: p.stdin, log: p.log}
}
