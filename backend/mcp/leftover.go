package mcp

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// started is a process that was started, as recorded in the file.
type started struct {
	PID     int    `json:"pid"`
	Start   string `json:"start"` // when it started, as the system says
	Command string `json:"command"`
}

// leftovers records the running processes in a file, so that the next start can end those that a
// crash left behind.
type leftovers struct {
	file string // "": nothing is recorded
	log  *slog.Logger

	mu  sync.Mutex
	all []started
}

// add records a process. The returned function removes it.
func (l *leftovers) add(pid int, command string) (forget func()) {
	start, ok := startOf(pid)
	if l.file == "" || !ok {
		return func() {}
	}
	s := started{pid, start, command}
	l.change(func() { l.all = append(l.all, s) })
	return func() {
		l.change(func() { l.all = slices.DeleteFunc(l.all, func(o started) bool { return o == s }) })
	}
}

func (l *leftovers) change(fn func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fn()
	b, err := json.Marshal(l.all)
	if err == nil {
		err = os.WriteFile(l.file+".new", b, 0o600)
	}
	if err == nil {
		err = os.Rename(l.file+".new", l.file)
	}
	if err != nil {
		l.log.Warn("record the processes of MCP servers", "err", err)
	}
}

// end ends the recorded processes of an earlier Helix that still run, and returns how many.
func (l *leftovers) end() (n int) {
	b, err := os.ReadFile(l.file)
	if err != nil {
		return 0
	}
	var all []started
	if err := json.Unmarshal(b, &all); err != nil {
		l.log.Warn("read the processes of MCP servers", "file", filepath.Base(l.file), "err", err)
	}
	for _, s := range all {
		if s.PID > 1 && endGroup(s) {
			n++
		}
	}
	l.change(func() {})
	return n
}
