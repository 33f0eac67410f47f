package gateway

import (
	"context"
	"io"
	"log/slog"
	"sync"

	"helix/backend/fault"
	"helix/backend/identity"
)

// Bridge gives a window one session at a time, each bound to one page load. The window toolkit's
// code only has to pass frames in and out, so the bridge does not depend on it.
type Bridge struct {
	serve func(ctx context.Context, p Pipe) error
	max   int // bytes of a frame
	log   *slog.Logger
	emit  func(session, frame string)

	mu   sync.Mutex
	page *bridgePipe
	work sync.WaitGroup
	done bool
}

// NewBridge returns a bridge whose sessions are id's. emit receives every outgoing frame with the
// id of its session, and an empty frame when that session has ended; it must not block for long.
func (s *Server) NewBridge(id identity.Identity, emit func(session, frame string)) *Bridge {
	if id.Pipe == "" {
		id.Pipe = "bridge"
	}
	b := NewBridge(func(ctx context.Context, p Pipe) error { return s.Serve(ctx, p, id) }, emit)
	b.max, b.log = s.o.Limits.MaxPayload, s.log
	return b
}

// NewBridge returns a bridge for a window that is created before its backend. serve is called for
// each loaded page. It may wait until the backend is ready, and must return when p ends.
func NewBridge(serve func(ctx context.Context, p Pipe) error, emit func(session, frame string)) *Bridge {
	return &Bridge{serve: serve, max: 16 << 20, log: slog.Default(), emit: emit}
}

// Open starts the session of a newly loaded page and ends the previous one. It returns the id of
// the new session.
func (b *Bridge) Open() string {
	p := &bridgePipe{id: newID().String(), in: make(chan []byte, 256), done: make(chan struct{}), emit: b.emit}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.page != nil {
		b.page.end()
	}
	if b.done {
		p.end()
		return p.id
	}
	b.page = p
	b.work.Go(func() {
		if err := fault.Catch(func() error { return b.serve(context.Background(), p) }); err != nil {
			b.log.Warn("bridge session ended", "error", err)
		}
		p.end()
		b.emit(p.id, "") // tells a page that still exists to open a new session
	})
	return p.id
}

// Send passes on one frame from the page of the given session. Frames of a previous page are
// dropped without an error, because that page is gone and does not wait for an answer.
func (b *Bridge) Send(session, frame string) error {
	b.mu.Lock()
	p := b.page
	b.mu.Unlock()
	if p == nil || p.id != session {
		return nil
	}
	if len(frame) > b.max {
		return fault.Limitf("A frame has at most %d MiB.", b.max>>20)
	}
	select {
	case p.in <- []byte(frame):
	case <-p.done:
	}
	return nil
}

// Close ends the current session and waits for it.
func (b *Bridge) Close() {
	b.mu.Lock()
	b.done = true
	if b.page != nil {
		b.page.end()
	}
	b.mu.Unlock()
	b.work.Wait()
}

type bridgePipe struct {
	id   string
	in   chan []byte
	done chan struct{}
	once sync.Once
	emit func(session, frame string)
}

func (p *bridgePipe) end() { p.once.Do(func() { close(p.done) }) }

// Close ends the pipe; a page does not use the close code.
func (p *bridgePipe) Close(int, string) { p.end() }

func (p *bridgePipe) Read(ctx context.Context) ([]byte, error) {
	select {
	case <-p.done:
		return nil, io.EOF
	default:
	}
	select {
	case f := <-p.in:
		return f, nil
	case <-p.done:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *bridgePipe) Write(_ context.Context, frame []byte) error {
	select {
	case <-p.done:
		return io.ErrClosedPipe
	default:
	}
	p.emit(p.id, string(frame))
	return nil
}
