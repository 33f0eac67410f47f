//go:build linux

package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"helix/backend/container/guest"
	"helix/backend/duration"
)

// initProcess is the state of this process.
type initProcess struct {
	conn     *guest.Conn
	base     int64    // CPU time of the container before the first program
	score    *os.File // the oom_score_adj of this process
	ownScore string   // what it was at the start

	mu       sync.Mutex
	children sync.Cond // a child was started
	programs map[uint32]*program
	byPID    map[int]*program
	orphans  time.Duration // CPU time of reaped processes that no program waited for
	maxRSS   int64
	relaying bool
}

// program is one program that Helix asked for.
type program struct {
	id      uint32
	pid     int
	start   *guest.Start
	ended   string             // why it was killed
	status  syscall.WaitStatus // once done is closed
	usage   syscall.Rusage
	done    chan struct{} // its process has ended
	sampled samples
}

// errKilled is the error of the start of a program that was ended before.
var errKilled = errors.New("the program was ended before it was started")

func (i *initProcess) handle(m *guest.Message) error {
	switch m.Type {
	case guest.TypeStart:
		if m.Start == nil || len(m.Start.Argv) == 0 {
			return errors.New("a program without a command")
		}
		// The streams are open before Helix can send to them.
		in, err := i.conn.Open(guest.Stdin(m.ID))
		if err != nil {
			return err
		}
		out, err := i.conn.Open(guest.Stdout(m.ID))
		if err != nil {
			return err
		}
		problems, err := i.conn.Open(guest.Stderr(m.ID))
		if err != nil {
			return err
		}
		p := &program{id: m.ID, start: m.Start, done: make(chan struct{})}
		i.mu.Lock()
		i.programs[m.ID] = p
		i.mu.Unlock()
		go i.run(p, in, out, problems)
	case guest.TypeKill:
		i.mu.Lock()
		p := i.programs[m.ID]
		i.mu.Unlock()
		if p != nil {
			i.kill(p, guest.EndedByKill)
		}
	}
	return nil
}

// run runs a program and reports its end.
func (i *initProcess) run(p *program, in, out, problems *guest.Stream) {
	exit := i.execute(p, in, out, problems)
	for _, s := range []*guest.Stream{out, problems} {
		s.CloseWrite() //nolint:errcheck // Helix is gone then
	}
	in.Close() //nolint:errcheck // Helix is gone then
	i.mu.Lock()
	delete(i.programs, p.id)
	i.mu.Unlock()
	i.conn.Send(&guest.Message{Type: guest.TypeExit, ID: p.id, Exit: exit}) //nolint:errcheck // Helix is gone then
	out.Close()                                                             //nolint:errcheck // Helix is gone then
	problems.Close()                                                        //nolint:errcheck // Helix is gone then
}

func (i *initProcess) execute(p *program, in, out, problems *guest.Stream) *guest.Exit {
	path, err := lookPath(p.start.Argv[0], p.start.Env, p.start.Dir)
	if err != nil {
		return missing(err)
	}
	if p.start.Proxy {
		if err := i.relay(); err != nil {
			return &guest.Exit{Code: 126, Missing: "the network relay could not start: " + err.Error()}
		}
	}
	events := oomEvents()
	pipes, err := i.spawn(p, path)
	if errors.Is(err, errKilled) {
		return &guest.Exit{Code: 128 + int(syscall.SIGKILL), Ended: guest.EndedByKill}
	}
	if err != nil {
		return missing(err)
	}
	var output sync.WaitGroup
	output.Go(func() { copyOutput(out, pipes.stdout, p.done) })
	output.Go(func() { copyOutput(problems, pipes.stderr, p.done) })
	go func() { // the program need not read its input
		io.Copy(pipes.stdin, in) //nolint:errcheck // it ended, or closed its input
		pipes.stdin.Close()
	}()
	if p.start.WallMs > 0 {
		t := time.AfterFunc(duration.Of(p.start.WallMs, time.Millisecond), func() { i.kill(p, guest.EndedByWall) })
		defer t.Stop()
	}
	sampling := make(chan struct{})
	go func() { defer close(sampling); i.sample(p) }()
	<-p.done
	if p.start.Alone {
		i.killAll()
	}
	output.Wait()
	<-sampling
	pipes.stdin.Close()
	return i.exit(p, events)
}

// exit describes the end of a program.
func (i *initProcess) exit(p *program, oomBefore int64) *guest.Exit {
	i.mu.Lock()
	e := &guest.Exit{Code: p.status.ExitStatus(), Ended: p.ended}
	orphans, maxRSS := i.orphans, i.maxRSS
	i.mu.Unlock()
	if p.status.Signaled() {
		e.Code = 128 + int(p.status.Signal())
	}
	e.OOM = oomEvents() > oomBefore
	u := &e.Usage
	u.CPUMicros = cpu(&p.usage).Microseconds()
	u.PeakMemory = max(p.sampled.peak, p.usage.Maxrss<<10)
	if p.start.Alone { // everything in the container belongs to it
		u.CPUMicros = max(u.CPUMicros+orphans.Microseconds(), cgroupCPU()-i.base)
		u.PeakMemory = max(u.PeakMemory, maxRSS, cgroupPeak())
	}
	u.Samples = p.sampled.count
	if p.start.DataBytes > 0 {
		u.DiskBytes = allocated(guest.DataPath)
		if u.DiskBytes > p.start.DataBytes && e.Ended == "" {
			e.Ended = guest.EndedByStorage
		}
	}
	return e
}

func cpu(u *syscall.Rusage) time.Duration {
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

type pipes struct{ stdin, stdout, stderr *os.File }

// spawn starts the process of a program, in a session of its own.
func (i *initProcess) spawn(p *program, path string) (*pipes, error) {
	var ours, theirs [3]*os.File
	defer func() {
		for _, f := range theirs {
			if f != nil {
				f.Close()
			}
		}
	}()
	for n := range ours {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		ours[n], theirs[n] = r, w
		if n == 0 {
			ours[n], theirs[n] = w, r
		}
	}
	attr := &syscall.ProcAttr{Dir: p.start.Dir, Env: p.start.Env, Sys: &syscall.SysProcAttr{Setsid: true}}
	for _, f := range theirs {
		attr.Files = append(attr.Files, f.Fd()) // in blocking mode, as programs expect
	}
	i.mu.Lock()
	pid, err := 0, errKilled
	if p.ended == "" {
		i.setScore("1000")
		pid, err = syscall.ForkExec(path, p.start.Argv, attr)
		i.setScore(i.ownScore)
	}
	if err == nil {
		p.pid = pid
		i.byPID[pid] = p
		i.children.Signal()
	}
	i.mu.Unlock()
	if err != nil {
		for _, f := range ours {
			f.Close()
		}
		return nil, err
	}
	return &pipes{ours[0], ours[1], ours[2]}, nil
}

// setScore sets what programs that start now inherit: with 1000 the kernel ends them and not this process when memory
// runs out, so that the reason is reported. The way back is allowed because that is not below what the runtime set.
func (i *initProcess) setScore(v string) {
	if i.score != nil {
		i.score.WriteAt([]byte(v), 0) //nolint:errcheck // the kernel then chooses by size
	}
}

// reap collects every process that ends, also those whose parents have ended.
func (i *initProcess) reap() {
	for {
		var status syscall.WaitStatus
		var usage syscall.Rusage
		pid, err := syscall.Wait4(-1, &status, 0, &usage)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil: // no children
			i.mu.Lock()
			for len(i.byPID) == 0 {
				i.children.Wait()
			}
			i.mu.Unlock()
			continue
		}
		i.mu.Lock()
		i.maxRSS = max(i.maxRSS, usage.Maxrss<<10)
		if p := i.byPID[pid]; p != nil {
			delete(i.byPID, pid)
			p.status, p.usage = status, usage
			close(p.done)
		} else {
			i.orphans += cpu(&usage)
		}
		i.mu.Unlock()
	}
}

// kill ends a program, also one that has not been started yet. The first reason stays.
func (i *initProcess) kill(p *program, why string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if p.pid != 0 && i.byPID[p.pid] != p {
		return
	}
	if p.ended == "" {
		p.ended = why
	}
	if p.pid == 0 { // spawn sees it
		return
	}
	syscall.Kill(-p.pid, syscall.SIGKILL) //nolint:errcheck // it has ended then
	syscall.Kill(p.pid, syscall.SIGKILL)  //nolint:errcheck // it has ended then
	if p.start.Alone {
		i.killAll()
	}
}

// killAll ends every other process of the container.
func (i *initProcess) killAll() {
	if os.Getpid() == 1 { // otherwise -1 would mean those of the user, as in a test
		syscall.Kill(-1, syscall.SIGKILL) //nolint:errcheck // there is none
	}
}

// copyOutput sends the output of a program until its end. What a process that outlives the program writes later
// is left out.
func copyOutput(to io.Writer, from *os.File, done <-chan struct{}) {
	defer from.Close()
	go func() {
		<-done
		from.SetReadDeadline(time.Unix(1, 0)) //nolint:errcheck // it is closed then
	}()
	if _, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, 64<<10)); !errors.Is(err, os.ErrDeadlineExceeded) {
		return
	}
	raw, err := from.SyscallConn()
	if err != nil {
		return
	}
	from.SetReadDeadline(time.Time{}) //nolint:errcheck // the read then fails
	buf := make([]byte, 64<<10)
	for n := 1; n > 0; {
		// What is in the pipe already is read without waiting.
		if raw.Read(func(fd uintptr) bool { n, _ = syscall.Read(int(fd), buf); return true }) != nil || n <= 0 {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// lookPath finds a program as a shell would, in the PATH that it gets.
func lookPath(name string, env []string, dir string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	path := ""
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, "PATH="); ok {
			path = v
		}
	}
	var found error = syscall.ENOENT
	for _, folder := range filepath.SplitList(path) {
		if !filepath.IsAbs(folder) {
			folder = filepath.Join(dir, folder)
		}
		file := filepath.Join(folder, name)
		info, err := os.Stat(file)
		switch {
		case err != nil || info.IsDir():
		case info.Mode()&0o111 == 0:
			found = syscall.EACCES
		default:
			return file, nil
		}
	}
	return "", found
}

func missing(err error) *guest.Exit {
	switch {
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENOTDIR):
		return &guest.Exit{Code: 127, Missing: "not found in image"}
	case errors.Is(err, syscall.EAGAIN):
		return &guest.Exit{Code: 126, Missing: "can't be started: too many processes"}
	}
	return &guest.Exit{Code: 126, Missing: "can't be executed in this image: " + err.Error()}
}
