// Package logfile writes a log of bounded size.
package logfile

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// The number of log files kept, and the size in bytes at which a new one is started.
const (
	maxFiles = 10
	maxBytes = 10 << 20
)

// File is a log of limited size. When the file would exceed its maximum size, it is renamed with a
// timestamp; of the renamed files, the newest that are not too old are kept.
type File struct {
	path string
	max  int64
	keep int
	age  time.Duration

	mu     sync.Mutex
	f      *os.File
	size   int64
	closed bool
}

// New returns a log at path, which must end in .log; old files older than age are removed. The file
// is created with the first record.
func New(path string, age time.Duration) *File {
	return &File{path: path, max: maxBytes, keep: maxFiles, age: age}
}

// Write appends one record. It never returns an error, because a log that cannot be written must
// not stop the program.
func (l *File) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return len(p), nil
	}
	if l.f != nil && l.size+int64(len(p)) > l.max {
		l.rotate()
	}
	if l.f == nil && !l.open() {
		return len(p), nil
	}
	n, _ := l.f.Write(p)
	l.size += int64(n)
	return len(p), nil
}

func (l *File) open() bool {
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return false
	}
	if st, err := f.Stat(); err == nil {
		l.size = st.Size()
	}
	l.f = f
	return true
}

const stampLayout = "20060102-150405.000000"

func (l *File) rotate() {
	_ = l.f.Close() // its content was written
	l.f = nil
	aside := func(stamp string) string { return l.path[:len(l.path)-len(".log")] + "-" + stamp + ".log" }
	if os.Rename(l.path, aside(time.Now().UTC().Format(stampLayout))) != nil {
		return
	}
	old, err := filepath.Glob(aside("*"))
	if err != nil {
		return
	}
	slices.Sort(old) // the stamp sorts by time
	for i, path := range old {
		st, err := os.Stat(path)
		if err == nil && (len(old)-i > l.keep-1 || time.Since(st.ModTime()) > l.age) {
			_ = os.Remove(path) // retried at the next rotation
		}
	}
}

// Close closes the log; later records are discarded.
func (l *File) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.f == nil {
		return nil
	}
	return l.f.Close()
}
