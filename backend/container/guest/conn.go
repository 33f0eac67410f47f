// Package guest is the protocol between Helix and its init process in a container: length-prefixed frames that
// carry JSON messages and the data of streams with flow control. It uses only the standard library, because it is
// part of the init process.
package guest

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

const (
	maxFrame = 1 << 20   // bytes of a frame
	window   = 1 << 20   // bytes of a stream that are sent before its reader has read them
	maxChunk = 256 << 10 // bytes of a data frame, so that messages don't wait long

	maxStreams = 1024 // open at once
	dataFrame  = 1    // first byte of a data frame; a message begins with {
	dataHeader = 5    // that byte and the number of the stream
)

// ErrClosed is the error of a connection or stream that the other side has closed.
var ErrClosed = errors.New("closed by the other side")

// Conn is a connection between Helix and the init process. It is safe for concurrent use.
type Conn struct {
	rw io.ReadWriteCloser

	writing sync.Mutex
	buf     []byte

	mu      sync.Mutex
	streams map[uint32]*Stream
	err     error // why the connection ended
}

// NewConn returns a connection over rw. Nothing is received before Serve.
func NewConn(rw io.ReadWriteCloser) *Conn {
	return &Conn{rw: rw, streams: map[uint32]*Stream{}}
}

// Close ends the connection and all its streams.
func (c *Conn) Close() error {
	c.fail(ErrClosed)
	return c.rw.Close()
}

// Serve receives until the connection ends, and passes messages to handle, which must not block. Only one call
// at a time. It returns why the connection ended; io.EOF: the other side closed it.
func (c *Conn) Serve(handle func(*Message) error) error {
	err := c.receive(handle)
	c.fail(err)
	c.rw.Close() //nolint:errcheck // it has failed already
	return err
}

func (c *Conn) receive(handle func(*Message) error) error {
	var buf []byte
	for {
		var err error
		if buf, err = readFrame(c.rw, buf); err != nil {
			return err
		}
		if buf[0] == dataFrame {
			if len(buf) < dataHeader {
				return errors.New("guest: data frame without a stream")
			}
			if err := c.data(binary.BigEndian.Uint32(buf[1:]), buf[dataHeader:]); err != nil {
				return err
			}
			continue
		}
		m := &Message{}
		if err := json.Unmarshal(buf, m); err != nil {
			return fmt.Errorf("guest: message: %w", err)
		}
		switch m.Type {
		case TypeCredit, TypeEOF, TypeStop:
			if err := c.control(m); err != nil {
				return err
			}
		default:
			if err := handle(m); err != nil {
				return err
			}
		}
	}
}

// readFrame reads the body of one frame into buf, which grows as needed.
func readFrame(r io.Reader, buf []byte) ([]byte, error) {
	var header [4]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return buf, err
	}
	n := binary.BigEndian.Uint32(header[:])
	if n == 0 || n > maxFrame {
		return buf, fmt.Errorf("guest: frame of %d bytes", n)
	}
	if cap(buf) < int(n) {
		buf = make([]byte, max(int(n), 4096))
	}
	buf = buf[:n]
	if _, err := io.ReadFull(r, buf); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return buf, err
	}
	return buf, nil
}

// Send sends a message.
func (c *Conn) Send(m *Message) error {
	raw, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if len(raw) > maxFrame {
		return fmt.Errorf("guest: message of %d bytes", len(raw))
	}
	return c.write(raw, nil)
}

// write sends a frame whose body is head and tail.
func (c *Conn) write(head, tail []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.buf = binary.BigEndian.AppendUint32(c.buf[:0], uint32(len(head)+len(tail)))
	c.buf = append(append(c.buf, head...), tail...)
	_, err := c.rw.Write(c.buf)
	if err != nil {
		c.fail(err)
	}
	return err
}

// data stores received data of a stream. Data of a stream that was closed here meanwhile is dropped.
func (c *Conn) data(id uint32, b []byte) error {
	c.mu.Lock()
	s := c.streams[id]
	c.mu.Unlock()
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.buf)-s.read+s.unacknowledged+len(b) > window || s.eof {
		return errors.New("guest: more data than the reader has asked for")
	}
	if s.read > 0 && len(s.buf)+len(b) > cap(s.buf) {
		s.buf, s.read = s.buf[:copy(s.buf, s.buf[s.read:])], 0
	}
	s.buf = append(s.buf, b...)
	s.wake.Broadcast()
	return nil
}

func (c *Conn) control(m *Message) error {
	c.mu.Lock()
	s := c.streams[m.ID]
	c.mu.Unlock()
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch m.Type {
	case TypeCredit:
		if m.Credit < 1 || s.credit+m.Credit > window {
			return errors.New("guest: more credit than the window")
		}
		s.credit += m.Credit
	case TypeEOF:
		s.eof = true
	case TypeStop:
		s.stopped = true
	}
	s.wake.Broadcast()
	return nil
}

// fail ends all streams. The first reason stays.
func (c *Conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
	for _, s := range c.streams {
		s.mu.Lock()
		s.eof, s.stopped, s.broken = true, true, true
		s.wake.Broadcast()
		s.mu.Unlock()
	}
	c.streams = map[uint32]*Stream{}
}

// Open opens a stream. Both sides open it by the same number before one of them sends data.
func (c *Conn) Open(id uint32) (*Stream, error) {
	s := &Stream{c: c, id: id, credit: window}
	s.wake.L = &s.mu
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		return nil, c.err
	case c.streams[id] != nil:
		return nil, fmt.Errorf("guest: stream %d is open already", id)
	case len(c.streams) >= maxStreams:
		return nil, errors.New("guest: too many streams")
	}
	c.streams[id] = s
	return s, nil
}

// Stream carries bytes in both directions. One goroutine may read while another writes.
type Stream struct {
	c  *Conn
	id uint32

	mu             sync.Mutex
	wake           sync.Cond
	buf            []byte // received
	read           int    // bytes of buf that were read
	unacknowledged int    // read, without credit for it
	credit         int    // bytes that may be sent
	eof            bool   // the other side sends no more
	stopped        bool   // the other side reads no more
	broken         bool   // the connection has ended
}

// Read implements io.Reader.
func (s *Stream) Read(p []byte) (int, error) {
	s.mu.Lock()
	for s.read == len(s.buf) && !s.eof {
		s.wake.Wait()
	}
	if s.read == len(s.buf) {
		s.buf, s.read = nil, 0
		broken := s.broken
		s.mu.Unlock()
		if broken {
			return 0, ErrClosed
		}
		return 0, io.EOF
	}
	n := copy(p, s.buf[s.read:])
	if s.read += n; s.read == len(s.buf) {
		s.buf, s.read = s.buf[:0], 0
	}
	s.unacknowledged += n
	credit := 0
	if s.unacknowledged >= window/2 && !s.eof {
		credit, s.unacknowledged = s.unacknowledged, 0
	}
	s.mu.Unlock()
	if credit > 0 {
		s.c.Send(&Message{Type: TypeCredit, ID: s.id, Credit: credit}) //nolint:errcheck // reading what arrived is still right
	}
	return n, nil
}

// Write implements io.Writer. It waits while the other side does not read.
func (s *Stream) Write(p []byte) (int, error) {
	var head [dataHeader]byte
	head[0] = dataFrame
	binary.BigEndian.PutUint32(head[1:], s.id)
	sent := 0
	for len(p) > 0 {
		s.mu.Lock()
		for s.credit == 0 && !s.stopped {
			s.wake.Wait()
		}
		if s.stopped {
			s.mu.Unlock()
			return sent, ErrClosed
		}
		n := min(len(p), s.credit, maxChunk)
		s.credit -= n
		s.mu.Unlock()
		if err := s.c.write(head[:], p[:n]); err != nil {
			return sent, err
		}
		p, sent = p[n:], sent+n
	}
	return sent, nil
}

// CloseWrite says that no more data is sent.
func (s *Stream) CloseWrite() error {
	return s.c.Send(&Message{Type: TypeEOF, ID: s.id})
}

// Close ends the stream: nothing more is read or written here.
func (s *Stream) Close() error {
	s.c.mu.Lock()
	open := s.c.streams[s.id] == s
	if open {
		delete(s.c.streams, s.id)
	}
	s.c.mu.Unlock()
	s.mu.Lock()
	s.eof, s.stopped = true, true
	s.wake.Broadcast()
	s.mu.Unlock()
	if !open {
		return nil
	}
	return s.c.Send(&Message{Type: TypeStop, ID: s.id})
}
