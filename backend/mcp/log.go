package mcp

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"time"
)

// Limits of a server's log.
const (
	maxLogLines = 2000
	maxLogBytes = 64 << 10 // of standard error
	maxLogLine  = 4 << 10
)

// LogLine is one line of a server's log.
type LogLine struct {
	Seq    int64     `json:"seq"`
	At     time.Time `json:"at"`
	Stream string    `json:"stream"` // stderr or rpc
	Text   string    `json:"text"`
}

// serverLog keeps the last lines of a server. It is safe for concurrent use.
type serverLog struct {
	added func(seq int64) // may be nil

	mu    sync.Mutex
	seq   int64
	bytes int
	lines []LogLine
}

func (l *serverLog) add(stream, text string) {
	text = visible(strings.TrimRight(text, "\r\n"), maxLogLine)
	l.mu.Lock()
	l.seq++
	seq := l.seq
	l.lines = append(l.lines, LogLine{Seq: seq, At: time.Now().UTC(), Stream: stream, Text: text})
	l.bytes += len(text)
	drop := 0
	for ; len(l.lines)-drop > 1 && (len(l.lines)-drop > maxLogLines || l.bytes > maxLogBytes); drop++ {
		l.bytes -= len(l.lines[drop].Text)
	}
	if drop > 0 {
		l.lines = append(l.lines[:0], l.lines[drop:]...)
	}
	l.mu.Unlock()
	if l.added != nil {
		l.added(seq)
	}
}

// after returns up to limit lines with a higher number than seq, the last ones if seq is 0.
func (l *serverLog) after(seq int64, limit int) []LogLine {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := len(l.lines)
	for from > 0 && l.lines[from-1].Seq > seq {
		from--
	}
	out := l.lines[from:]
	if seq == 0 {
		out = out[max(0, len(out)-limit):]
	}
	return append([]LogLine{}, out[:min(len(out), limit)]...)
}

// tail returns the last n lines of standard error since the line with the number from.
func (l *serverLog) tail(from int64, n int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for i := len(l.lines) - 1; i >= 0 && len(out) < n && l.lines[i].Seq > from; i-- {
		if l.lines[i].Stream == "stderr" && strings.TrimSpace(l.lines[i].Text) != "" {
			out = append([]string{l.lines[i].Text}, out...)
		}
	}
	return strings.Join(out, " · ")
}

func (l *serverLog) last() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seq
}

// readStderr adds the lines of a stream until it ends. Long lines are cut into several.
func (l *serverLog) readStderr(r io.Reader) {
	buf := make([]byte, 0, maxLogLine)
	chunk := make([]byte, 4096)
	for {
		n, err := r.Read(chunk)
		for _, part := range bytes.SplitAfter(chunk[:n], []byte("\n")) {
			buf = append(buf, part...)
			if len(buf) >= maxLogLine || bytes.HasSuffix(buf, []byte("\n")) {
				l.add("stderr", string(buf))
				buf = buf[:0]
			}
		}
		if err != nil {
			if len(buf) > 0 {
				l.add("stderr", string(buf))
			}
			return
		}
	}
}
