package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"unicode/utf8"
)

// Limits of the protocol on standard output.
const (
	maxMessage = 16 << 20
	maxGarbage = 100 // lines that are not part of the protocol
)

var errGarbage = errors.New("too many lines on standard output are not part of the protocol")

// lineReader passes on lines of JSON-RPC and logs others, which some servers print by mistake.
type lineReader struct {
	r       io.ReadCloser
	log     *serverLog
	buf     *bufio.Reader
	line    []byte // rest of the current line
	garbage int
	broken  firstError
	odd     func() // called for each message that is not valid JSON; nil: nothing is called
}

// firstError keeps the first error that is set.
type firstError struct {
	mu  sync.Mutex
	err error
}

func (f *firstError) set(err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
	}
	return err
}

func (f *firstError) get() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

func (l *lineReader) Read(p []byte) (int, error) {
	for len(l.line) == 0 {
		if err := l.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, l.line)
	l.line = l.line[n:]
	return n, nil
}

func (l *lineReader) next() error {
	if l.buf == nil {
		l.buf = bufio.NewReaderSize(l.r, 64<<10)
	}
	line, err := l.readLine()
	if err != nil {
		return err
	}
	text := bytes.TrimSpace(line)
	if len(text) == 0 {
		return nil
	}
	if (text[0] == '{' || text[0] == '[') && utf8.Valid(text) && json.Valid(text) {
		l.line = line
		l.log.add("rpc", "← "+summary(text))
		return nil
	}
	if l.garbage++; l.garbage > maxGarbage {
		return l.broken.set(errGarbage)
	}
	if (text[0] == '{' || text[0] == '[') && l.odd != nil {
		l.odd()
	}
	l.log.add("rpc", "Skipped a line on standard output that is not JSON-RPC: "+string(text[:min(len(text), 512)]))
	return nil
}

// readLine returns the next line with its end. A line may be slightly longer than a message.
func (l *lineReader) readLine() ([]byte, error) {
	var whole []byte
	for {
		part, err := l.buf.ReadSlice('\n')
		if len(whole) == 0 && err == nil {
			return part, nil // valid until the next read
		}
		whole = append(whole, part...)
		switch {
		case len(whole) > maxMessage:
			return nil, l.broken.set(fmt.Errorf("a message is larger than %d bytes", maxMessage))
		case err == nil, errors.Is(err, io.EOF) && len(whole) > 0:
			return whole, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

func (l *lineReader) Close() error { return l.r.Close() }

// lineWriter logs what is sent.
type lineWriter struct {
	w   io.WriteCloser
	log *serverLog
}

func (l *lineWriter) Write(p []byte) (int, error) {
	l.log.add("rpc", "→ "+summary(p))
	return l.w.Write(p)
}

func (l *lineWriter) Close() error { return l.w.Close() }

// summary describes a message without its content, which may be private.
func summary(msg []byte) string {
	what := "answer"
	head := msg[:min(len(msg), 4096)]
	if _, rest, ok := bytes.Cut(head, []byte(`"method":`)); ok {
		rest = bytes.TrimLeft(rest, " \"")
		if i := bytes.IndexByte(rest, '"'); i > 0 && i < 64 {
			what = string(rest[:i])
		}
	} else if bytes.Contains(head, []byte(`"error":`)) {
		what = "error"
	}
	return fmt.Sprintf("%s, %d bytes", what, len(msg))
}
