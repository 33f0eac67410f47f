package gateway

import (
	"bufio"
	"crypto/rand"
	"encoding/binary"
	"net"
	"net/http"
	"sync"
)

// frameConn is the connection under a WebSocket. Text messages are written to it directly, many
// with one system call; the library would need three locks and one system call for each. The
// library only writes control frames, each in a single Write, so both can share the connection.
type frameConn struct {
	net.Conn
	client bool   // clients mask what they send
	empty  func() // called before a read that may block; may be nil

	mu   sync.Mutex // guards writing
	keys [256]byte  // random bytes for masks; the last left of them are unused
	left int

	in   []byte // read-ahead buffer, lent by readAhead; nil if empty
	rest []byte // the part of in that has not been consumed
	more bool   // the last read filled its buffer, so there is probably more
}

const (
	gatherMax = 64 << 10 // maximum size of one write, except for a larger message of ours
	largeText = 32 << 10 // messages from this size are not copied
	aheadSize = 16 << 10
)

var (
	gathers   = sync.Pool{New: func() any { b := make([]byte, 0, gatherMax); return &b }}
	readAhead = sync.Pool{New: func() any { b := make([]byte, aheadSize); return &b }}
)

// Read implements net.Conn. Under load it reads more than the library requests. An idle connection
// has no buffer.
func (f *frameConn) Read(p []byte) (int, error) {
	if len(f.rest) == 0 {
		if f.empty != nil {
			f.empty()
		}
		if !f.more || len(p) >= aheadSize {
			n, err := f.Conn.Read(p)
			f.more = n == len(p)
			return n, err
		}
		buf := readAhead.Get().(*[]byte)
		n, err := f.Conn.Read(*buf)
		f.more = n > len(p)
		if n <= len(p) {
			copy(p, (*buf)[:n])
			readAhead.Put(buf)
			return n, err
		}
		f.in, f.rest = *buf, (*buf)[:n]
	}
	n := copy(p, f.rest)
	if f.rest = f.rest[n:]; len(f.rest) == 0 {
		in := f.in
		f.in, f.rest = nil, nil
		readAhead.Put(&in)
	}
	return n, nil
}

// Write implements net.Conn for the library's writes.
func (f *frameConn) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.Conn.Write(b)
}

// writeTexts writes each of texts as one text message.
func (f *frameConn) writeTexts(texts [][]byte) (err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	pooled := gathers.Get().(*[]byte)
	b := (*pooled)[:0]
	defer func() {
		*pooled = b[:0]
		gathers.Put(pooled)
	}()
	flush := func() {
		if err == nil && len(b) > 0 {
			_, err = f.Conn.Write(b)
		}
		b = b[:0]
	}
	for _, t := range texts {
		if len(b)+14 > gatherMax {
			flush()
		}
		b = appendTextHeader(b, len(t), f.client)
		if !f.client && len(t) >= largeText {
			if err == nil {
				_, err = (&net.Buffers{b, t}).WriteTo(f.Conn)
			}
			b = b[:0]
			continue
		}
		var key uint64
		if f.client {
			k := f.nextKey()
			b = append(b, k[:]...)
			key = uint64(binary.LittleEndian.Uint32(k[:])) * 0x1_0000_0001
		}
		for len(t) > 0 {
			if len(b)+8 > gatherMax {
				flush()
			}
			n := min(len(t), gatherMax-len(b))
			if n < len(t) {
				n &^= 7 // the mask continues where it began
			}
			at := len(b)
			b = append(b, t[:n]...)
			if f.client {
				mask(b[at:], key)
			}
			t = t[n:]
		}
	}
	flush()
	return err
}

// appendTextHeader appends the header of an unfragmented text message of n bytes (RFC 6455, section
// 5.2), without the masking key.
func appendTextHeader(b []byte, n int, masked bool) []byte {
	var bit byte
	if masked {
		bit = 0x80
	}
	switch {
	case n < 126:
		return append(b, 0x81, bit|byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, 0x81, bit|126), uint16(n))
	}
	return binary.BigEndian.AppendUint64(append(b, 0x81, bit|127), uint64(n))
}

// nextKey returns an unpredictable masking key, as the protocol requires.
func (f *frameConn) nextKey() (k [4]byte) {
	if f.left < 4 {
		rand.Read(f.keys[:]) // never fails
		f.left = len(f.keys)
	}
	copy(k[:], f.keys[len(f.keys)-f.left:])
	f.left -= 4
	return k
}

// mask XORs b with the repeated eight bytes of key.
func mask(b []byte, key uint64) {
	for len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, binary.LittleEndian.Uint64(b)^key)
		b = b[8:]
	}
	for i := range b {
		b[i] ^= byte(key >> (8 * i))
	}
}

// frameWriter makes the WebSocket library use a frameConn.
type frameWriter struct {
	http.ResponseWriter
	conn *frameConn
}

// Hijack implements http.Hijacker.
func (w *frameWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	w.conn = &frameConn{Conn: c}
	return w.conn, bufio.NewReadWriter(rw.Reader, bufio.NewWriterSize(w.conn, 256)), nil // for control frames
}
