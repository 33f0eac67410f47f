// Package shell gives people a shell in a container that sees the shared and temporary folders of their workspace and
// nothing else of this computer. Each command is a decision of its own: only a person runs one here, and the
// audit log has it whole. The composition root imports this package.
package shell

import (
	"context"
	"log/slog"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/bus"
	"helix/backend/container"
	"helix/backend/duration"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

// Limits.
const (
	perUser     = 4 // sessions of a user
	keptExecs   = 20
	maxCommand  = 64 << 10
	defaultTime = 30 * time.Second
	liveBytes   = 1 << 20 // of a command's output that are sent as events
)

// Where a session sees the folders of the workspace.
const (
	sharedPath = "/shared"
	tmpPath    = "/tmp/workspace"
)

// Engine starts sessions. *container.Engine implements it.
type Engine interface {
	Image(ctx context.Context, ref string) (container.Image, error)
	Spawn(ctx context.Context, s container.SessionSpec) (*container.Session, error)
}

// Options are the dependencies of a Service.
type Options struct {
	Logger *slog.Logger // nil: slog.Default
	Audit  func(ctx context.Context, e ...audit.Entry) error
	Bus    *bus.Bus
	// Workspace returns the folder of the workspace of the user in ctx, with its areas.
	Workspace func(ctx context.Context) (string, error)
	// Image is the image of sessions that name none.
	Image string
	// Scrub removes the user's secrets from text; nil: nothing is removed.
	Scrub func(ctx context.Context, text string) string
}

// Service manages the shell sessions of all users. It is safe for concurrent use.
type Service struct {
	engine Engine
	o      Options

	mu       sync.Mutex
	closed   bool
	starting map[uuid.UUID]int // sessions that are being started, by user
	sessions map[uuid.UUID]*session
	ending   sync.WaitGroup
}

type session struct {
	*container.Session
	user    uuid.UUID
	image   string
	started time.Time

	mu    sync.Mutex
	execs []*exec // the last ones
}

type exec struct {
	id         uuid.UUID
	transcript container.Transcript
	command    string
	done       bool
}

// New returns a Service. Close it when it is no longer used.
func New(engine Engine, o Options) *Service {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Scrub == nil {
		o.Scrub = func(_ context.Context, text string) string { return text }
	}
	return &Service{engine: engine, o: o, starting: map[uuid.UUID]int{}, sessions: map[uuid.UUID]*session{}}
}

// Close ends all sessions.
func (s *Service) Close() error {
	s.mu.Lock()
	s.closed = true
	for _, x := range s.sessions {
		s.ending.Go(func() { x.Close() }) //nolint:errcheck // it returns none
	}
	s.mu.Unlock()
	s.ending.Wait()
	return nil
}

// Output is the event shell.output: a command has written something.
type Output struct {
	SessionID uuid.UUID `json:"sessionId"`
	ExecID    uuid.UUID `json:"execId"`
	container.Chunk
}

// SpawnParams start a session.
type SpawnParams struct {
	Cwd       string `json:"cwd,omitempty"`   // in the container; default: /shared
	Image     string `json:"image,omitempty"` // default: that of the settings
	Workspace *bool  `json:"workspace,omitempty"`
}

// SpawnResult is a session that has started.
type SpawnResult struct {
	SessionID uuid.UUID `json:"sessionId"`
	Tier      string    `json:"tier"` // container
	Image     string    `json:"image"`
	ImageID   string    `json:"imageId"`
}

// person refuses callers who are no person: a program asks for a command with the tool shell.exec.
func person(ctx context.Context) (uuid.UUID, error) {
	id, _ := identity.From(ctx)
	if !id.MayApprove() {
		return uuid.Nil, fault.Deniedf("Only a person can use a shell session. A program needs an approval for each command.")
	}
	return id.User, nil
}

// Spawn starts a shell session: a container without network that sees /shared and /tmp/workspace, the shared and
// temporary folders of the workspace. It ends after 30 minutes without a command.
func (s *Service) Spawn(ctx context.Context, p SpawnParams) (SpawnResult, error) {
	user, err := person(ctx)
	if err != nil {
		return SpawnResult{}, err
	}
	if p.Cwd != "" && (!path.IsAbs(p.Cwd) || len(p.Cwd) > 4096 || strings.ContainsRune(p.Cwd, 0)) {
		return SpawnResult{}, fault.InvalidField("cwd", fault.CodeSyntax, "The folder must be an absolute path in the container.")
	}
	leave, err := s.enter(user)
	if err != nil {
		return SpawnResult{}, err
	}
	defer leave()
	ref := p.Image
	if ref == "" {
		ref = s.o.Image
	}
	image, err := s.engine.Image(ctx, ref)
	if err != nil {
		return SpawnResult{}, err
	}
	spec := container.SessionSpec{ID: storage.NewID(), ImageID: image.ID, Dir: p.Cwd}
	if p.Workspace == nil || *p.Workspace {
		dir, err := s.o.Workspace(ctx)
		if err != nil {
			return SpawnResult{}, err
		}
		spec.Mounts = []container.Mount{{Source: filepath.Join(dir, "shared"), Target: sharedPath}, {Source: filepath.Join(dir, "tmp"), Target: tmpPath}}
	}
	if err := s.record(ctx, "shell.spawned", spec.ID, map[string]any{"image": ref, "imageId": image.ID, "workspace": len(spec.Mounts) > 0}); err != nil {
		return SpawnResult{}, err
	}
	started, err := s.engine.Spawn(ctx, spec)
	if err != nil {
		return SpawnResult{}, err
	}
	x := &session{Session: started, user: user, image: ref, started: time.Now()}
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.sessions[x.ID] = x
		s.ending.Go(func() { s.await(x) })
	}
	s.mu.Unlock()
	if closed {
		x.Close() //nolint:errcheck // it returns none
		return SpawnResult{}, fault.Unavailablef("Helix is closing.")
	}
	return SpawnResult{x.ID, "container", ref, image.ID}, nil
}

// enter counts a session that starts against the limit of its user.
func (s *Service) enter(user uuid.UUID) (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.starting[user]
	for _, x := range s.sessions {
		if x.user == user {
			n++
		}
	}
	if n >= perUser {
		return nil, fault.Limitf("You have %d shell sessions. End one first.", perUser)
	}
	s.starting[user]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.starting[user]--; s.starting[user] == 0 {
			delete(s.starting, user)
		}
	}, nil
}

// await removes a session that has ended.
func (s *Service) await(x *session) {
	<-x.Done()
	s.mu.Lock()
	delete(s.sessions, x.ID)
	s.mu.Unlock()
}

// find returns a session of the caller.
func (s *Service) find(ctx context.Context, id uuid.UUID) (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.sessions[id]
	if x == nil || x.user != identity.UserID(ctx) {
		return nil, fault.NotFoundf("There is no such shell session. It may have ended; start a new one.")
	}
	return x, nil
}

// ExecParams run a command.
type ExecParams struct {
	SessionID uuid.UUID `json:"sessionId"`
	Argv      []string  `json:"argv,omitempty"`    // a program and its arguments, without a shell
	Command   string    `json:"command,omitempty"` // instead of argv: text for sh -c
	Stdin     string    `json:"stdin,omitempty"`
	TimeoutMs int64     `json:"timeoutMs,omitempty"` // 1 to 600,000; default 30,000
}

// ExecResult is the end of a command.
type ExecResult struct {
	ExecID    uuid.UUID         `json:"execId"`
	ExitCode  *int              `json:"exitCode,omitempty"` // absent: it was killed
	Status    container.Outcome `json:"status"`             // success, failure, timeout, cancelled or oom
	Output    string            `json:"output"`             // of both streams; at most 64 KiB, beginning and end
	Truncated bool              `json:"truncated"`
}

// argv returns the words of the command.
func (p *ExecParams) argv() ([]string, error) {
	if (p.Command == "") == (len(p.Argv) == 0) {
		return nil, fault.Invalidf("Provide either argv or command.")
	}
	argv := p.Argv
	if p.Command != "" {
		argv = []string{"sh", "-c", p.Command}
	}
	all := strings.Join(argv, "")
	switch {
	case len(all) > maxCommand || len(argv) > 1000:
		return nil, fault.Limitf("The command is longer than %d bytes. Write it to a file of the workspace, then run that file.", maxCommand)
	case !utf8.ValidString(all) || strings.ContainsRune(all, 0):
		return nil, fault.Invalidf("A command must be text in UTF-8.")
	}
	return argv, nil
}

// Exec runs a command in a session and returns when it has ended. Its output also comes as the event shell.output.
// Only a person can run one; the audit log has the whole command.
func (s *Service) Exec(ctx context.Context, p ExecParams) (ExecResult, error) {
	user, err := person(ctx)
	if err != nil {
		return ExecResult{}, err
	}
	argv, err := p.argv()
	if err != nil {
		return ExecResult{}, err
	}
	limit := defaultTime
	if p.TimeoutMs != 0 {
		limit = duration.Of(p.TimeoutMs, time.Millisecond)
	}
	if limit <= 0 || limit > container.MaxCommandTime {
		return ExecResult{}, fault.InvalidField("timeoutMs", fault.CodeRange, "The time limit must be from 1 to 600,000 ms.")
	}
	x, err := s.find(ctx, p.SessionID)
	if err != nil {
		return ExecResult{}, err
	}
	shown := make([]string, len(argv))
	for i, a := range argv {
		shown[i] = s.o.Scrub(ctx, a)
	}
	e := x.begin(shown, p.Command != "")
	defer x.ended(e)
	if err := s.record(ctx, audit.Start, x.ID, map[string]any{"execution": e.id, "argv": shown}); err != nil {
		return ExecResult{}, fault.Unavailablef("Couldn't write the audit log, so nothing was run.").WithCause(err)
	}
	sent := 0
	res, err := x.Exec(ctx, container.Command{
		Argv: argv, Stdin: []byte(p.Stdin), Timeout: limit, Transcript: &e.transcript,
		Output: func(c container.Chunk) {
			if sent += len(c.Data); sent <= liveBytes {
				bus.Publish(s.o.Bus, user, Output{x.ID, e.id, c})
			}
		},
	})
	if err != nil {
		return ExecResult{ExecID: e.id}, err
	}
	out := ExecResult{ExecID: e.id, Status: res.Status, Output: res.Output, Truncated: res.Truncated}
	if res.Status == container.Success || res.Status == container.Failure {
		out.ExitCode = &res.ExitCode
	}
	if err := s.record(context.WithoutCancel(ctx), audit.Complete, x.ID, map[string]any{"execution": e.id, "status": res.Status, "exitCode": res.ExitCode}); err != nil {
		s.o.Logger.Error("record the end of a command", "session", x.ID, "err", err)
	}
	return out, nil
}

// begin adds a command, as it is shown.
func (x *session) begin(shown []string, text bool) *exec {
	e := &exec{id: storage.NewID(), command: strings.Join(shown, " ")}
	if text {
		e.command = shown[len(shown)-1]
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.execs = append(x.execs, e)
	if len(x.execs) > keptExecs {
		x.execs = slices.Delete(x.execs, 0, 1)
	}
	return e
}

func (x *session) ended(e *exec) {
	x.mu.Lock()
	defer x.mu.Unlock()
	e.done = true
}

// StreamParams ask for the output of a command after a chunk.
type StreamParams struct {
	SessionID uuid.UUID `json:"sessionId"`
	ExecID    uuid.UUID `json:"execId"`
	AfterSeq  int64     `json:"afterSeq,omitempty"`
}

// StreamResult is output of a command.
type StreamResult struct {
	Chunks []container.Chunk `json:"chunks"`
	Seq    int64             `json:"seq"` // of the last chunk so far
	Done   bool              `json:"done"`
}

// Stream returns the output of one of the last commands of a session, also while it runs. With the seq of the last
// event that was seen, nothing is missing and nothing comes twice.
func (s *Service) Stream(ctx context.Context, p StreamParams) (StreamResult, error) {
	x, err := s.find(ctx, p.SessionID)
	if err != nil {
		return StreamResult{}, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, e := range x.execs {
		if e.id == p.ExecID {
			list, last := e.transcript.Chunks(p.AfterSeq)
			return StreamResult{list, last, e.done}, nil
		}
	}
	return StreamResult{}, fault.NotFoundf("There is no such command, or its output was dropped.")
}

// SessionParams name a session.
type SessionParams struct {
	SessionID uuid.UUID `json:"sessionId"`
}

// KillResult says whether a session was ended.
type KillResult struct {
	Killed bool `json:"killed"`
}

// Kill ends a session with everything that runs in it.
func (s *Service) Kill(ctx context.Context, p SessionParams) (KillResult, error) {
	x, err := s.find(ctx, p.SessionID)
	if fault.Is(err, fault.NotFound) {
		return KillResult{}, nil
	}
	if err != nil {
		return KillResult{}, err
	}
	return KillResult{true}, x.Close()
}

// Session is a running session.
type Session struct {
	SessionID uuid.UUID `json:"sessionId"`
	Image     string    `json:"image"`
	StartedAt time.Time `json:"startedAt"`
	Execs     []Exec    `json:"execs"` // the last ones, oldest first
}

// Exec is a command of a session.
type Exec struct {
	ExecID  uuid.UUID `json:"execId"`
	Command string    `json:"command"`
	Running bool      `json:"running"`
}

// ListResult lists sessions.
type ListResult struct {
	Sessions []Session `json:"sessions"`
}

// List returns the shell sessions of the user, oldest first.
func (s *Service) List(ctx context.Context, _ struct{}) (ListResult, error) {
	user, out := identity.UserID(ctx), ListResult{Sessions: []Session{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.sessions {
		if x.user != user {
			continue
		}
		v := Session{SessionID: x.ID, Image: x.image, StartedAt: x.started, Execs: []Exec{}}
		x.mu.Lock()
		for _, e := range x.execs {
			v.Execs = append(v.Execs, Exec{e.id, e.command, !e.done})
		}
		x.mu.Unlock()
		out.Sessions = append(out.Sessions, v)
	}
	slices.SortFunc(out.Sessions, func(a, b Session) int { return a.StartedAt.Compare(b.StartedAt) })
	return out, nil
}

func (s *Service) record(ctx context.Context, action string, session uuid.UUID, details map[string]any) error {
	return s.o.Audit(ctx, audit.Entry{Action: action, SubjectKind: "shell", SubjectID: session.String(), Outcome: audit.OK, Details: details})
}
