package guest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// pair returns two connected sides. Both serve until the test ends.
func pair(t *testing.T, a, b func(*Message) error) (*Conn, *Conn) {
	t.Helper()
	x, y := net.Pipe()
	left, right := NewConn(x), NewConn(y)
	var served sync.WaitGroup
	ignore := func(*Message) error { return nil }
	for c, handle := range map[*Conn]func(*Message) error{left: a, right: b} {
		if handle == nil {
			handle = ignore
		}
		served.Go(func() { c.Serve(handle) }) //nolint:errcheck // it ends with the test
	}
	t.Cleanup(func() { left.Close(); right.Close(); served.Wait() })
	return left, right
}

func open(t *testing.T, c *Conn, id uint32) *Stream {
	t.Helper()
	s, err := c.Open(id)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStreamsCarryBothDirectionsAtOnce(t *testing.T) {
	t.Parallel()
	left, right := pair(t, nil, nil)
	data := make([]byte, 5*window+1234)
	for i := range data {
		data[i] = byte(rand.Uint32())
	}
	var work sync.WaitGroup
	for id := uint32(1); id <= 3; id++ {
		a, b := open(t, left, id), open(t, right, id)
		for _, ends := range [][2]*Stream{{a, b}, {b, a}} {
			work.Go(func() {
				if _, err := ends[0].Write(data); err != nil {
					t.Error(err)
				}
				ends[0].CloseWrite() //nolint:errcheck // the reader notices
			})
			work.Go(func() {
				got, err := io.ReadAll(ends[1])
				if err != nil || !bytes.Equal(got, data) {
					t.Errorf("%d of %d bytes, %v", len(got), len(data), err)
				}
			})
		}
	}
	work.Wait()
}

func TestStreamThatNobodyReadsDoesNotHoldUpOthers(t *testing.T) {
	t.Parallel()
	left, right := pair(t, nil, nil)
	slow, fast := open(t, left, 1), open(t, left, 2)
	idle := open(t, right, 1)
	other := open(t, right, 2)
	blocked := make(chan error, 1)
	go func() {
		_, err := slow.Write(make([]byte, 2*window))
		blocked <- err
	}()
	go func() {
		fast.Write(make([]byte, 3*window)) //nolint:errcheck // the reader notices
		fast.CloseWrite()                  //nolint:errcheck // the reader notices
	}()
	if got, err := io.ReadAll(other); err != nil || len(got) != 3*window {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	idle.mu.Lock()
	kept := len(idle.buf)
	idle.mu.Unlock()
	if kept > window {
		t.Errorf("%d bytes are kept for a stream that is not read", kept)
	}
	idle.Close() //nolint:errcheck // it is open
	if err := <-blocked; !errors.Is(err, ErrClosed) {
		t.Errorf("the writer got %v", err)
	}
}

func TestEndOfAConnectionEndsItsStreams(t *testing.T) {
	t.Parallel()
	left, right := pair(t, nil, nil)
	s := open(t, left, 1)
	open(t, right, 1)
	read := make(chan error, 1)
	go func() {
		_, err := s.Read(make([]byte, 1))
		read <- err
	}()
	right.Close()
	if err := <-read; !errors.Is(err, ErrClosed) {
		t.Errorf("%v", err)
	}
	if _, err := left.Open(2); err == nil {
		t.Error("a stream was opened on a connection that has ended")
	}
}

func TestMessagesArriveInOrderWithTheirContent(t *testing.T) {
	t.Parallel()
	got := make(chan *Message, 2)
	left, _ := pair(t, nil, func(m *Message) error { got <- m; return nil })
	left.Send(&Message{Type: TypeStart, ID: 7, Start: &Start{Argv: []string{"a b", `"`}, WallMs: 5}}) //nolint:errcheck // the receiver notices
	left.Send(&Message{Type: TypeKill, ID: 7})                                                        //nolint:errcheck // the receiver notices
	if m := <-got; m.ID != 7 || m.Start == nil || m.Start.Argv[1] != `"` || m.Start.WallMs != 5 {
		t.Errorf("%+v", m)
	}
	if m := <-got; m.Type != TypeKill {
		t.Errorf("%+v", m)
	}
	if err := left.Send(&Message{Type: TypeStart, Start: &Start{Argv: []string{string(make([]byte, maxFrame))}}}); err == nil {
		t.Error("a message above the limit was sent")
	}
}

// frame returns the bytes of a frame.
func frame(body []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

func dataOf(id uint32, n int) []byte {
	b := make([]byte, dataHeader+n)
	b[0] = dataFrame
	binary.BigEndian.PutUint32(b[1:], id)
	return b
}

type input struct {
	io.Reader
	io.Writer
}

func (input) Close() error { return nil }

func TestBrokenFramesEndTheConnection(t *testing.T) {
	t.Parallel()
	for name, b := range map[string][]byte{
		"empty":             {0, 0, 0, 0},
		"too long":          {0, 0x10, 0, 1},
		"cut":               {0, 0, 0, 9, '{'},
		"not JSON":          frame([]byte("{")),
		"neither":           frame([]byte("x")),
		"data of no stream": frame([]byte{dataFrame, 0}),
		"more than asked":   frame(dataOf(1, window+1)),
		"too much credit":   frame([]byte(`{"type":"credit","id":1,"credit":1}`)),
		"less credit":       frame([]byte(`{"type":"credit","id":1,"credit":-5}`)),
		"data after end":    append(frame([]byte(`{"type":"eof","id":1}`)), frame(dataOf(1, 1))...),
	} {
		c := NewConn(input{bytes.NewReader(b), io.Discard})
		open(t, c, 1)
		if err := c.Serve(func(*Message) error { return nil }); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", name, err)
		}
	}
	c := NewConn(input{bytes.NewReader(frame(dataOf(9, 5))), io.Discard}) // of a stream that was closed meanwhile
	if err := c.Serve(func(*Message) error { return nil }); !errors.Is(err, io.EOF) {
		t.Errorf("%v", err)
	}
}

func FuzzFrames(f *testing.F) {
	f.Add(frame([]byte(`{"type":"start","id":1,"start":{"argv":["a"]}}`)))
	f.Add(frame(dataOf(1, 5)))
	f.Add(append(frame([]byte(`{"type":"eof","id":1}`)), 0, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := NewConn(input{bytes.NewReader(b), io.Discard})
		s, err := c.Open(1)
		if err != nil {
			t.Fatal(err)
		}
		if c.Serve(func(*Message) error { return nil }) == nil {
			t.Error("it has no end")
		}
		if len(s.buf) > window || s.credit > window {
			t.Errorf("%d bytes are kept, %d may be sent", len(s.buf), s.credit)
		}
	})
}
