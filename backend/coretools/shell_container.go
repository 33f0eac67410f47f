package coretools

import (
	"context"
	"path/filepath"
	"sync"

	"helix/backend/container"
	"helix/backend/fault"
	"helix/backend/storage"
)

// Engine starts containers. *container.Engine implements it.
type Engine interface {
	Status() container.Status
	Image(ctx context.Context, ref string) (container.Image, error)
	Spawn(ctx context.Context, s container.SessionSpec) (*container.Session, error)
}

// ContainerShell is a Shell with one container per workspace, which is started by the first command and ends when
// no command has run for a while. It is safe for concurrent use. Close it when it is no longer used.
type ContainerShell struct {
	engine Engine
	image  string

	mu     sync.Mutex
	closed bool
	boxes  map[string]*box // by workspace
}

// box is the container of a workspace.
type box struct {
	mu      sync.Mutex
	session *container.Session // nil: none has started
}

// NewContainerShell returns a ContainerShell whose containers have the given image.
func NewContainerShell(e Engine, image string) *ContainerShell {
	return &ContainerShell{engine: e, image: image, boxes: map[string]*box{}}
}

// Close ends all containers.
func (s *ContainerShell) Close() error {
	s.mu.Lock()
	s.closed = true
	boxes := s.boxes
	s.boxes = nil
	s.mu.Unlock()
	for _, b := range boxes {
		b.mu.Lock()
		if b.session != nil {
			b.session.Close() //nolint:errcheck // it returns none
		}
		b.mu.Unlock()
	}
	return nil
}

// Available implements Shell.
func (s *ContainerShell) Available() bool { return s.engine.Status().Engine != nil }

// Ready implements Shell.
func (s *ContainerShell) Ready(ctx context.Context) error {
	_, err := s.engine.Image(ctx, s.image)
	return err
}

// Exec implements Shell.
func (s *ContainerShell) Exec(ctx context.Context, workspace string, c Command) (CommandResult, error) {
	session, err := s.session(ctx, workspace)
	if err != nil {
		return CommandResult{}, err
	}
	r, err := session.Exec(ctx, container.Command{Argv: c.Argv, Timeout: c.Timeout})
	if err != nil {
		return CommandResult{}, err
	}
	out := CommandResult{Status: string(r.Status), Output: r.Output, Truncated: r.Truncated}
	if r.Status == container.Success || r.Status == container.Failure {
		out.ExitCode = &r.ExitCode
	}
	return out, nil
}

// session returns the running container of a workspace. One that has ended is replaced.
func (s *ContainerShell) session(ctx context.Context, workspace string) (*container.Session, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, fault.Unavailablef("Helix is closing.")
	}
	b := s.boxes[workspace]
	if b == nil {
		b = &box{}
		s.boxes[workspace] = b
	}
	s.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.session != nil && b.session.Err() == nil {
		return b.session, nil
	}
	image, err := s.engine.Image(ctx, s.image)
	if err != nil {
		return nil, err
	}
	started, err := s.engine.Spawn(ctx, container.SessionSpec{
		ID: storage.NewID(), ImageID: image.ID,
		Mounts: []container.Mount{{Source: filepath.Join(workspace, shared), Target: "/shared"}, {Source: filepath.Join(workspace, tmp), Target: "/tmp/workspace"}},
	})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		started.Close() //nolint:errcheck // it returns none
		return nil, fault.Unavailablef("Helix is closing.")
	}
	b.session = started
	return started, nil
}
