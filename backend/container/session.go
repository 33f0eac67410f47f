package container

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"helix/backend/container/guest"
	"helix/backend/fault"
)

// Limits of sessions.
const (
	sessionLife = 24 * time.Hour
	sessionIdle = 30 * time.Minute
	stopGrace   = 2 * time.Second
	// MaxCommandTime is the longest time of one command in a session.
	MaxCommandTime = 10 * time.Minute
)

// SessionSpec is a container in which several programs run one after another or at once.
type SessionSpec struct {
	ID      uuid.UUID
	ImageID string // sha256:…; an image is never pulled for a session
	Limits  Limits // Wall is not used: each command has its own
	Mounts  []Mount
	Dir     string   // where commands run; "": the first mount, or the image's folder
	Env     []string // NAME=value, added to that of the image
	// Idle ends a session in which nothing has run for that time; 0: 30 minutes.
	Idle time.Duration
	// Phase is called when the session's container enters a phase; nil: nothing is.
	Phase func(phase string)
}

// Mount is a folder of a workspace that a container sees.
type Mount struct {
	Source, Target string
	ReadOnly       bool
}

// Session is a container with a running init process. It is safe for concurrent use. Close it when it is no
// longer used.
type Session struct {
	ID uuid.UUID

	b       *box
	spec    SessionSpec
	program *program
	cancel  context.CancelCauseFunc
	idle    *time.Timer
	done    chan struct{}

	mu     sync.Mutex
	next   uint32 // number of the last program
	busy   int    // programs that run
	closed bool
	reason error
}

// ErrSessionClosed is why a session ended that was closed on request.
var ErrSessionClosed = errors.New("the session was closed")

// Spawn starts a session. It lasts until Close, until it is idle for too long, or until its container is lost;
// ctx limits only the start.
func (e *Engine) Spawn(ctx context.Context, spec SessionSpec) (s *Session, err error) {
	spec.Limits.Wall = 0
	if spec.Limits, err = spec.Limits.WithDefaults(); err != nil {
		return nil, err
	}
	if spec.Idle == 0 {
		spec.Idle = sessionIdle
	}
	if err := e.checkMounts(spec.Mounts); err != nil {
		return nil, err
	}
	opening, cancel := context.WithCancelCause(ctx)
	b, runtime, err := e.enter(opening, &Running{RunID: spec.ID, Name: "shell", Session: true, Image: spec.ImageID, kill: cancel}, spec.Limits, sessionLife)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	b.phase = spec.Phase
	defer func() {
		if err != nil {
			cancel(nil)
			b.leave()
		}
	}()
	p, err := e.program(opening, b.c, spec.ImageID)
	if err != nil {
		return nil, e.lost(b.c, err)
	}
	if err := b.mount(spec.Mounts); err != nil {
		return nil, err
	}
	if err := b.open(opening, runtime); err != nil {
		return nil, e.lost(b.c, err)
	}
	s = &Session{ID: spec.ID, b: b, spec: spec, program: p, cancel: cancel, done: make(chan struct{})}
	b.enter(PhaseRunning)
	s.mu.Lock()
	s.idle = time.AfterFunc(spec.Idle, func() { s.end(errors.New("the session was idle for too long")) })
	s.mu.Unlock()
	e.mu.Lock()
	b.live.kill = func(error) { go s.end(ErrSessionClosed) }
	e.mu.Unlock()
	go func() {
		<-b.closed
		s.end(errLost)
	}()
	return s, nil
}

// checkMounts refuses folders outside the workspaces, and the vault of a workspace.
func (e *Engine) checkMounts(mounts []Mount) error {
	root, err := filepath.EvalSymlinks(e.o.Workspaces)
	for _, m := range mounts {
		path, perr := filepath.EvalSymlinks(m.Source)
		rel, rerr := filepath.Rel(root, path)
		parts := strings.Split(filepath.ToSlash(rel), "/")
		if e.o.Workspaces == "" || errors.Join(err, perr, rerr) != nil || !filepath.IsAbs(m.Source) || parts[0] == ".." || len(parts) < 2 || slices.Contains(parts[1:2], "vault") {
			return fault.InvalidField("mounts", fault.CodeSyntax, "A container sees only the shared and temporary folders of a workspace.")
		}
		if !strings.HasPrefix(m.Target, "/") || m.Target == "/" || strings.HasPrefix(m.Target, guest.Folder) || strings.ContainsAny(m.Target, ":,\x00") {
			return fault.InvalidField("mounts", fault.CodeSyntax, "%.100q can't be the place of a folder in a container.", m.Target)
		}
	}
	return nil
}

// mount adds folders, and makes the container's user one that may write to them: the user of Helix. Helix of the
// system administrator gives the folders to the usual user of containers instead.
func (b *box) mount(mounts []Mount) error {
	h := &b.body.HostConfig
	for _, m := range mounts {
		source, err := filepath.EvalSymlinks(m.Source)
		if err != nil {
			return fault.Unavailablef("A folder of the workspace can't be read.").WithCause(err)
		}
		h.Mounts = append(h.Mounts, bind(source, m.Target, m.ReadOnly))
		if os.Geteuid() == 0 && !m.ReadOnly {
			if err := giveTo(source, nobody); err != nil {
				return fault.Unavailablef("The folders of the workspace can't be shared with a container.").WithCause(err)
			}
		}
	}
	if len(mounts) == 0 || os.Geteuid() == 0 {
		return nil
	}
	info := b.e.engineInfo()
	rootless, kind := info.Rootless, info.Kind
	id := strconv.Itoa(os.Geteuid()) + ":" + strconv.Itoa(os.Getegid())
	if rootless && kind == "podman" {
		h.UsernsMode = "keep-id"
	} else if rootless { // the user of Helix is number 0 of its user namespace
		id = "0:0"
	}
	b.body.User = id
	if b.body.HostConfig.Tmpfs["/tmp"] != "" && kind == "docker" {
		uid, gid, _ := strings.Cut(id, ":")
		h.Tmpfs["/tmp"] = strings.Replace(h.Tmpfs["/tmp"], "uid=65534,gid=65534", "uid="+uid+",gid="+gid, 1)
	}
	return nil
}

// giveTo makes a user the owner of a folder and of everything in it. Links are not followed.
func giveTo(folder string, id int) error {
	return filepath.WalkDir(folder, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := os.Lchown(path, id, id); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	})
}

// Done is closed when the session has ended.
func (s *Session) Done() <-chan struct{} { return s.done }

// Err returns why the session ended; nil: it has not. A lost container is an Unavailable error with the code
// SidecarConnectionFailed.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(s.reason, errLost) {
		return unavailable(Reason{SidecarConnectionFailed, "The session's container was lost.", "Start a new session."})
	}
	return s.reason
}

// Close ends the session with all its programs, and removes its container.
func (s *Session) Close() error {
	s.end(ErrSessionClosed)
	<-s.done
	return nil
}

// end ends the session. The first reason stays.
func (s *Session) end(reason error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed, s.reason = true, reason
	s.idle.Stop()
	s.mu.Unlock()
	s.b.leave()
	s.cancel(reason)
	close(s.done)
}

// Command is one program to run in a session.
type Command struct {
	Argv    []string
	Env     []string // added to that of the session
	Dir     string   // "": that of the session
	Stdin   []byte   // closed after it
	Timeout time.Duration
	// Output is called with each piece of output, from one goroutine at a time; nil: nothing is.
	Output func(Chunk)
	// Transcript gets the output while the command runs; nil: only the result has it.
	Transcript *Transcript
}

// Chunk is a piece of output of a command.
type Chunk struct {
	Seq    int64  `json:"seq"`    // from 1, without holes
	Stream string `json:"stream"` // stdout or stderr
	Data   string `json:"data"`
}

// CommandResult is how a command ended.
type CommandResult struct {
	Status    Outcome // success, failure, timeout, cancelled or oom
	ExitCode  int
	Output    string // of both streams, in the order of arrival: beginning and end if it is long
	Truncated bool
	Usage     Usage
}

// Exec runs a command and returns when it has ended. If ctx ends the command is killed, with what it started.
// A session that has ended is an error.
func (s *Session) Exec(ctx context.Context, c Command) (res CommandResult, err error) {
	if len(c.Argv) == 0 || c.Argv[0] == "" {
		return res, fault.Invalidf("There is no command.")
	}
	if len(c.Stdin) > MaxInput {
		return res, fault.Limitf("The input has %d bytes; a container takes at most %d.", len(c.Stdin), MaxInput)
	}
	if c.Timeout <= 0 || c.Timeout > MaxCommandTime {
		return res, fault.InvalidField("timeoutMs", fault.CodeRange, "The time limit must be from 1 ms to 10 minutes.")
	}
	id, err := s.begin()
	if err != nil {
		return res, err
	}
	defer s.ended()
	start := &guest.Start{Argv: c.Argv, Dir: s.dir(&c), WallMs: max(1, c.Timeout.Milliseconds()), Env: s.program.environment(append(slices.Clone(s.spec.Env), c.Env...))}
	p, err := s.b.start(id, start)
	if err != nil {
		return res, s.lostError()
	}
	defer p.close()
	out := c.Transcript
	if out == nil {
		out = &Transcript{}
	}
	out.output = c.Output
	var work sync.WaitGroup
	work.Go(func() { p.feed(c.Stdin) })
	work.Go(func() { out.copy("stdout", p.stdout) })
	work.Go(func() { out.copy("stderr", p.stderr) })
	stop := context.AfterFunc(ctx, func() { s.b.conn.Send(&guest.Message{Type: guest.TypeKill, ID: id}) }) //nolint:errcheck // the session has ended then
	defer stop()
	// The init process ends the command at its limit; if it does not, the session is ended.
	overdue := time.AfterFunc(c.Timeout+stopGrace+killGrace, func() { s.end(errLost) })
	defer overdue.Stop()
	exit := p.end(s.b.closed)
	work.Wait()
	res.Output, res.Truncated = out.text()
	if exit == nil {
		res.Status, res.ExitCode = Cancelled, 137
		if ctx.Err() != nil {
			return res, nil
		}
		return res, s.lostError()
	}
	res.ExitCode = exit.Code
	res.Usage = usageOf(exit)
	switch {
	case exit.Missing != "":
		res.Status, res.Output = Failure, c.Argv[0]+": "+exit.Missing
	case exit.Ended == guest.EndedByWall:
		res.Status = TimedOut
	case exit.Ended != "":
		res.Status = Cancelled
	case exit.Code == 0:
		res.Status = Success
	case exit.OOM && exit.Code == 137:
		res.Status = OOM
	default:
		res.Status = Failure
	}
	return res, nil
}

func (s *Session) dir(c *Command) string {
	switch {
	case c.Dir != "":
		return c.Dir
	case s.spec.Dir != "":
		return s.spec.Dir
	case len(s.spec.Mounts) > 0:
		return s.spec.Mounts[0].Target
	}
	return s.program.workDir()
}

func (s *Session) begin() (uint32, error) {
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.next++
		s.busy++
		s.idle.Stop()
		if os.Geteuid() == 0 { // files that were added meanwhile
			for _, m := range s.spec.Mounts {
				if !m.ReadOnly {
					giveTo(m.Source, nobody) //nolint:errcheck // what can't be given can't be read by the command
				}
			}
		}
	}
	id := s.next
	s.mu.Unlock()
	if closed {
		return 0, s.lostError()
	}
	return id, nil
}

func (s *Session) ended() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy--; s.busy == 0 && !s.closed {
		s.idle.Reset(s.spec.Idle)
	}
}

// lostError explains to whoever uses a session that has ended.
func (s *Session) lostError() error {
	s.mu.Lock()
	reason := s.reason
	s.mu.Unlock()
	if reason == nil || errors.Is(reason, errLost) {
		return unavailable(Reason{SidecarConnectionFailed, "The session's container was lost.", "Start a new session."})
	}
	return fault.Unavailablef("The session has ended: %s. Start a new one.", reason).WithDetails(Refusal{Code: SidecarConnectionFailed})
}

// copy reads a stream of a command until its end.
func (t *Transcript) copy(stream string, from io.Reader) {
	buf := make([]byte, chunkSize)
	kept := 0 // bytes of a character whose rest has not arrived
	for {
		n, err := from.Read(buf[kept:])
		n += kept
		kept = 0
		if err == nil {
			kept = incomplete(buf[:n])
		}
		if n > kept {
			t.add(stream, string(buf[:n-kept]))
		}
		copy(buf, buf[n-kept:n])
		if err != nil {
			return
		}
	}
}
