package providers

import (
	"bytes"
	"errors"
	"io"
	"sync"
)

var byteOrderMark = []byte("\xef\xbb\xbf")

var errEventSize = errors.New("event larger than allowed")

// sseReader reads the data of server-sent events as specified by WHATWG, however the reads are split.
// An event at the end without a blank line counts, because some gateways leave the line out.
type sseReader struct {
	r     io.Reader
	max   int
	buf   []byte // unread data is buf[at:]
	at    int
	data  []byte
	name  []byte // name of the current event
	lines int    // data lines of the current event
	cr    bool   // the last line ended with CR; a following LF belongs to it
	begun bool   // a byte order mark can no longer come
	full  bool   // the last read filled the buffer
	err   error

	pooled *[]byte
}

// buffers holds the buffers of ended streams. New buffers are small, so that the first token comes
// early, and large ones are not reused.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// close releases the buffer; the data that next returned becomes invalid.
func (s *sseReader) close() {
	if cap(s.buf) <= 64<<10 {
		*s.pooled = s.buf[:0]
		buffers.Put(s.pooled)
	}
	s.buf, s.pooled = nil, nil
}

// newSSE returns a reader, which the caller must close.
func newSSE(r io.Reader, max int) *sseReader {
	pooled := buffers.Get().(*[]byte)
	return &sseReader{r: r, max: max, buf: *pooled, pooled: pooled}
}

// next returns the data of the next event, valid until the next call, or io.EOF at a normal end.
func (s *sseReader) next() ([]byte, error) {
	s.data, s.name, s.lines = s.data[:0], s.name[:0], 0
	for {
		line, whole, err := s.line()
		if err != nil {
			return nil, err
		}
		switch {
		case len(line) == 0 && whole:
			if s.lines > 0 {
				return s.data, nil
			}
			s.name = s.name[:0]
			continue
		case bytes.HasPrefix(line, []byte("event:")):
			s.name = append(s.name[:0], bytes.TrimPrefix(line[6:], []byte(" "))...)
		case bytes.HasPrefix(line, []byte("data")) && (len(line) == 4 || line[4] == ':'):
			value := bytes.TrimPrefix(line[min(5, len(line)):], []byte(" "))
			if len(s.data)+len(value) > s.max {
				return nil, errEventSize
			}
			if s.lines++; s.lines > 1 {
				s.data = append(s.data, '\n')
			}
			s.data = append(s.data, value...)
		}
		if !whole {
			if s.lines > 0 {
				return s.data, nil
			}
			return nil, io.EOF
		}
	}
}

// first returns the first character that is neither white space nor a byte order mark, without
// consuming it.
func (s *sseReader) first() (byte, error) {
	for {
		for s.at < len(s.buf) && bytes.IndexByte([]byte(" \t\r\n"), s.buf[s.at]) >= 0 {
			s.at++
		}
		switch text := s.buf[s.at:]; {
		case len(text) == 0 && s.err != nil:
			return 0, s.err
		case !s.begun && bytes.HasPrefix(text, byteOrderMark):
			s.begun = true
			s.at += len(byteOrderMark)
			continue
		case len(text) >= len(byteOrderMark) || len(text) > 0 && (text[0] != byteOrderMark[0] || s.err != nil):
			return text[0], nil
		}
		s.fill()
	}
}

// rest returns the unread data, for a response that turns out not to be a stream.
func (s *sseReader) rest() io.Reader {
	read := bytes.NewReader(s.buf[s.at:])
	if s.err != nil {
		return io.MultiReader(read, failedReader{s.err})
	}
	return io.MultiReader(read, s.r)
}

type failedReader struct{ err error }

func (f failedReader) Read([]byte) (int, error) { return 0, f.err }

// line returns the next line without its end; whole is false for an unterminated line at a normal
// end.
func (s *sseReader) line() (line []byte, whole bool, err error) {
	for seen := s.at; ; {
		if s.cr && s.at < len(s.buf) {
			if s.cr = false; s.buf[s.at] == '\n' {
				s.at++
				seen = max(seen, s.at)
			}
		}
		if !s.begun && (len(s.buf)-s.at >= 3 || s.err != nil) {
			s.begun = true
			if bytes.HasPrefix(s.buf[s.at:], byteOrderMark) {
				s.at += len(byteOrderMark)
				seen = s.at
			}
		}
		if n := bytes.IndexAny(s.buf[seen:], "\r\n"); n >= 0 && s.begun {
			end := seen + n
			line = s.buf[s.at:end]
			s.cr = s.buf[end] == '\r'
			s.at = end + 1
			return line, true, nil
		} else if s.begun {
			seen = len(s.buf)
		}
		if s.err != nil {
			if !errors.Is(s.err, io.EOF) {
				return nil, false, s.err
			}
			line, s.at = s.buf[s.at:], len(s.buf)
			return line, false, nil
		}
		if len(s.buf)-s.at > s.max+16 {
			return nil, false, errEventSize
		}
		seen -= s.at
		s.fill()
		seen += s.at
	}
}

// fill makes one read.
func (s *sseReader) fill() {
	if s.at > 0 {
		s.buf = s.buf[:copy(s.buf, s.buf[s.at:])]
		s.at = 0
	}
	// The buffer grows if much data arrives at once or an event is long.
	if free := cap(s.buf) - len(s.buf); free < 1<<10 || s.full && cap(s.buf) < 64<<10 {
		s.buf = append(make([]byte, 0, max(4<<10, 2*cap(s.buf))), s.buf...)
	}
	for range 100 { // a reader may return no data without an error
		n, err := s.r.Read(s.buf[len(s.buf):cap(s.buf)])
		s.buf, s.err = s.buf[:len(s.buf)+n], err
		s.full = len(s.buf) == cap(s.buf)
		if n > 0 || err != nil {
			return
		}
	}
	s.err = io.ErrNoProgress
}
