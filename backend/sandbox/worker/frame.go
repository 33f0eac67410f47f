package worker

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// A frame consists of the lengths of its head and its body, four bytes each in big-endian order,
// the head, which is JSON, and the body, which is bytes. Large values are sent in bodies, where
// nothing has to be escaped or copied.
const prefix = 8

// FrameLimits are the sizes in bytes that a Reader accepts and a Writer writes. Total is for all
// frames of a Reader together; 0 is no limit.
type FrameLimits struct {
	Head, Body int
	Total      int64
}

// The limits of the two directions. A child's frame is a host request or an output; a parent's is a
// module with its input, or the answer of a host operation.
var (
	FromChildLimits = FrameLimits{Head: 1 << 20, Body: 16 << 20, Total: 256 << 20}
	ToChildLimits   = FrameLimits{Head: 1 << 20, Body: 160 << 20}
)

// ErrFrame is the error of a Reader for anything that is not a frame within its limits. The stream
// cannot be used afterwards.
var ErrFrame = errors.New("bad frame")

func badFrame(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrFrame, fmt.Sprintf(format, args...))
}

// Writer writes frames; any goroutine may use it.
type Writer struct {
	limits FrameLimits
	mu     sync.Mutex
	w      io.Writer
	buf    []byte
}

// NewWriter returns a Writer on w.
func NewWriter(w io.Writer, l FrameLimits) *Writer { return &Writer{w: w, limits: l} }

// direct is the size in bytes from which a body is written separately instead of being copied.
const direct = 64 << 10

// Write writes one frame. The body may come in pieces.
func (w *Writer) Write(head any, body ...[]byte) error {
	text, err := json.Marshal(head)
	if err != nil {
		return err
	}
	size := 0
	for _, b := range body {
		size += len(b)
	}
	if len(text) > w.limits.Head || size > w.limits.Body {
		return badFrame("too large to send: %d and %d bytes", len(text), size)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf = binary.BigEndian.AppendUint32(w.buf[:0], uint32(len(text)))
	w.buf = binary.BigEndian.AppendUint32(w.buf, uint32(size))
	w.buf = append(w.buf, text...)
	for _, b := range body {
		if len(b) < direct {
			w.buf = append(w.buf, b...)
			continue
		}
		if err := w.flush(); err != nil {
			return err
		}
		if _, err := w.w.Write(b); err != nil {
			return err
		}
	}
	return w.flush()
}

func (w *Writer) flush() error {
	if len(w.buf) == 0 {
		return nil
	}
	_, err := w.w.Write(w.buf)
	if w.buf = w.buf[:0]; cap(w.buf) > 4*direct {
		w.buf = nil
	}
	return err
}

// Reader reads frames; only one goroutine may use it at a time.
type Reader struct {
	limits FrameLimits
	r      *bufio.Reader
	total  int64
}

// NewReader returns a Reader on r.
func NewReader(r io.Reader, l FrameLimits) *Reader {
	return &Reader{limits: l, r: bufio.NewReaderSize(r, 32<<10)}
}

// Read reads one frame into head, and rejects unknown fields. The caller may keep the body. The
// error is io.EOF at the end of the stream between two frames.
func (r *Reader) Read(head any) (body []byte, err error) {
	var lengths [prefix]byte
	if _, err := io.ReadFull(r.r, lengths[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = badFrame("cut off in its lengths")
		}
		return nil, err
	}
	h, b := binary.BigEndian.Uint32(lengths[:4]), binary.BigEndian.Uint32(lengths[4:])
	if int64(h) > int64(r.limits.Head) || int64(b) > int64(r.limits.Body) {
		return nil, badFrame("too large: %d and %d bytes", h, b)
	}
	if r.total += prefix + int64(h) + int64(b); r.limits.Total > 0 && r.total > r.limits.Total {
		return nil, badFrame("more than %d bytes in all", r.limits.Total)
	}
	text, err := r.bytes(int(h))
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(head); err != nil {
		return nil, badFrame("%v", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, badFrame("something after the head")
	}
	return r.bytes(int(b))
}

// trusted is the number of announced bytes that are allocated before the first of them have
// arrived. After that, all are allocated at once: memory for data that never arrives is not
// touched.
const trusted = 1 << 20

func (r *Reader) bytes(n int) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	b := make([]byte, min(n, trusted))
	if _, err := io.ReadFull(r.r, b); err != nil {
		return nil, cutOff(err)
	}
	if n <= trusted {
		return b, nil
	}
	all := make([]byte, n)
	if _, err := io.ReadFull(r.r, all[copy(all, b):]); err != nil {
		return nil, cutOff(err)
	}
	return all, nil
}

func cutOff(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return badFrame("cut off")
	}
	return err
}

// one reports whether exactly one argument is true.
func one(set ...bool) bool {
	n := 0
	for _, s := range set {
		if s {
			n++
		}
	}
	return n == 1
}

// ReadFromChild reads and checks a frame of the child: it must have exactly one kind, with values
// in range.
func (r *Reader) ReadFromChild() (f FromChild, body []byte, err error) {
	if body, err = r.Read(&f); err != nil {
		return FromChild{}, nil, err
	}
	if !one(f.Ready != nil, f.Log != nil, f.Call != nil, f.End != nil, f.Compiled != nil) {
		return FromChild{}, nil, badFrame("not exactly one kind")
	}
	bad := ""
	switch {
	case f.Ready != nil && (len(body) > 0 || f.Ready.CPU < 0 || f.Ready.Lock.Landlock < 0 || len(f.Ready.Lock.Reasons) > 8):
		bad = "ready"
	case f.Log != nil && (f.Log.TextSize < 0 || f.Log.TextSize > len(body) || len(f.Log.Level) > 16):
		bad = "log"
	case f.Call != nil && (f.Call.ID < 1 || len(f.Call.Op) > 64):
		bad = "call"
	case f.End != nil && (f.End.Usage.CPU < 0 || f.End.Usage.PeakMemory < 0 || f.End.Error != nil && len(body) > 0):
		bad = "end"
	case f.Compiled != nil && (f.Compiled.CodeSize < 0 || f.Compiled.CodeSize > len(body)):
		bad = "compiled"
	}
	if bad != "" {
		return FromChild{}, nil, badFrame("%s has values that cannot be", bad)
	}
	return f, body, nil
}

// ReadToChild reads a frame of the parent.
func (r *Reader) ReadToChild() (f ToChild, body []byte, err error) {
	if body, err = r.Read(&f); err != nil {
		return ToChild{}, nil, err
	}
	if !one(f.Hello != nil, f.Run != nil, f.Answer != nil, f.Cancel != nil, f.Compile != nil) {
		return ToChild{}, nil, badFrame("not exactly one kind")
	}
	if f.Run != nil && (f.Run.CodeSize < 0 || f.Run.CodeSize > len(body) || len(f.Run.Seed) != 0 && len(f.Run.Seed) != 8) {
		return ToChild{}, nil, badFrame("run has values that cannot be")
	}
	return f, body, nil
}
