package mcp

import (
	"io"
	"log/slog"
	"os/signal"
	"syscall"
)

var discard = slog.New(slog.NewTextHandler(io.Discard, nil))

func ignoreTerm() { signal.Ignore(syscall.SIGTERM, syscall.SIGHUP) }

// alive reports whether a process runs.
func alive(pid int) bool {
	s, ok := statOf(pid)
	_ = s
	return ok
}
