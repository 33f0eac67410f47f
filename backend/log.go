package backend

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"helix/backend/config"
)

// Log files kept, and the size at which a new one starts.
const (
	maxLogFiles = 10
	maxLogBytes = 10 << 20
)

// openLog writes to <state>/helix.log and repeats records of level o.LogTo or higher on
// standard error. When the file cannot be written, logging goes on without it.
func (b *Backend) openLog(dir string, conf config.Config) *slog.Logger {
	file := &logFile{path: filepath.Join(dir, "helix.log"), max: maxLogBytes, keep: maxLogFiles, age: conf.HistoryLogMaxAge}
	b.closing("log", file.Close)
	level := slog.LevelInfo
	if err := level.UnmarshalText([]byte(conf.LogLevel)); err != nil {
		level = slog.LevelInfo
	}
	return slog.New(tee{
		slog.NewJSONHandler(file, &slog.HandlerOptions{Level: level}),
		slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: b.o.LogTo}),
	})
}

// logFile is a log of bounded size: when the file would pass max bytes it is put aside
// under its time, and of those put aside the newest keep-1 younger than age stay.
type logFile struct {
	path string
	max  int64
	keep int
	age  time.Duration

	mu     sync.Mutex
	f      *os.File
	size   int64
	closed bool
}

// Write appends one record. It never fails: a log that cannot be written must not stop
// what it was about to tell.
func (l *logFile) Write(p []byte) (int, error) {
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

func (l *logFile) open() bool {
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

const logStamp = "20060102-150405.000000"

func (l *logFile) rotate() {
	_ = l.f.Close() // its content was written
	l.f = nil
	aside := func(stamp string) string { return l.path[:len(l.path)-len(".log")] + "-" + stamp + ".log" }
	if os.Rename(l.path, aside(time.Now().UTC().Format(logStamp))) != nil {
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
			_ = os.Remove(path) // tried again at the next rotation
		}
	}
}

// Close ends the log; later records go nowhere.
func (l *logFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.f == nil {
		return nil
	}
	return l.f.Close()
}

// tee hands each record to both handlers.
type tee struct{ a, b slog.Handler }

func (t tee) Enabled(ctx context.Context, l slog.Level) bool {
	return t.a.Enabled(ctx, l) || t.b.Enabled(ctx, l)
}

func (t tee) Handle(ctx context.Context, r slog.Record) error {
	var err error
	for _, h := range []slog.Handler{t.a, t.b} {
		if h.Enabled(ctx, r.Level) {
			err = errors.Join(err, h.Handle(ctx, r.Clone()))
		}
	}
	return err
}

func (t tee) WithAttrs(as []slog.Attr) slog.Handler {
	return tee{t.a.WithAttrs(as), t.b.WithAttrs(as)}
}

func (t tee) WithGroup(name string) slog.Handler {
	return tee{t.a.WithGroup(name), t.b.WithGroup(name)}
}
