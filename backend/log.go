package backend

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"

	"gopkg.in/natefinch/lumberjack.v2"

	"helix/backend/config"
)

// openLog writes to <state>/helix.log, within the bounds of history.log_*, and repeats what
// is at least o.LogTo on standard error. When the file cannot be written, logging goes on
// without it.
func (b *Backend) openLog(dir string, conf config.Config) *slog.Logger {
	file := &lumberjack.Logger{
		Filename: filepath.Join(dir, "helix.log"), MaxSize: max(1, int(conf.HistoryLogFileBytes>>20)),
		MaxBackups: max(1, conf.HistoryLogMaxFiles-1), MaxAge: days(conf.HistoryLogMaxAge),
	}
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
