package gateway

import (
	"context"
	"io"
	"sync"
)

// Pipe carries frames, one JSON text each, between a session and its client. Only one goroutine may
// read at a time, and only one may write. Read returns io.EOF when the peer has closed the pipe. A
// pipe may also have a method Close(code int, reason string), whose code is a WebSocket close code.
type Pipe interface {
	Read(ctx context.Context) ([]byte, error)
	Write(ctx context.Context, frame []byte) error
}

// Optional methods of a Pipe.
type (
	closer      interface{ Close(code int, reason string) }
	readLimiter interface{ SetReadLimit(n int64) }
	batchWriter interface {
		WriteBatch(ctx context.Context, frames [][]byte) error
	}
	pinger interface {
		Ping(ctx context.Context) error
	}
)

// MemoryPipe returns the two ends of a pipe within this process: what one end writes, the other
// reads, in order. Up to 16 frames are buffered in each direction. Closing either end closes both.
func MemoryPipe() (server, client *MemoryEnd) {
	a, b := make(chan []byte, 16), make(chan []byte, 16)
	done := &ending{ch: make(chan struct{})}
	return &MemoryEnd{in: a, out: b, done: done}, &MemoryEnd{in: b, out: a, done: done}
}

// MemoryEnd is one end of a MemoryPipe.
type MemoryEnd struct {
	in   <-chan []byte
	out  chan<- []byte
	done *ending
}

type ending struct {
	once   sync.Once
	ch     chan struct{}
	code   int
	reason string
}

// Read returns the next frame, or io.EOF when the pipe is closed and empty.
func (e *MemoryEnd) Read(ctx context.Context) ([]byte, error) {
	select {
	case f := <-e.in:
		return f, nil
	default:
	}
	select {
	case f := <-e.in:
		return f, nil
	case <-e.done.ch:
		select {
		case f := <-e.in:
			return f, nil
		default:
			return nil, io.EOF
		}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Write sends frame to the other end; it blocks while 16 frames are unread.
func (e *MemoryEnd) Write(ctx context.Context, frame []byte) error {
	select {
	case <-e.done.ch:
		return io.ErrClosedPipe
	default:
	}
	select {
	case e.out <- frame:
		return nil
	case <-e.done.ch:
		return io.ErrClosedPipe
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close closes the pipe. The first call sets the code and reason that CloseCode returns.
func (e *MemoryEnd) Close(code int, reason string) {
	e.done.once.Do(func() {
		e.done.code, e.done.reason = code, reason
		close(e.done.ch)
	})
}

// CloseCode waits until the pipe is closed and returns the code and reason.
func (e *MemoryEnd) CloseCode(ctx context.Context) (int, string) {
	select {
	case <-e.done.ch:
		return e.done.code, e.done.reason
	case <-ctx.Done():
		return 0, ""
	}
}
