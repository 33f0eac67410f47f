package gateway

import (
	"context"
	"net"
	"os"
	"reflect"
	"runtime"
	"strconv"
	"time"

	"helix/backend/fault"
	"helix/backend/pause"
)

var metaPlan = newTypes().plan(reflect.TypeFor[meta]())

// Degraded is one part of the program that does not fully work.
type Degraded struct {
	Area   string `json:"area"`
	Reason string `json:"reason"`
	Hint   string `json:"hint,omitempty"` // how to fix it
}

// MemoryUse is the memory that the process uses.
type MemoryUse struct {
	RSSBytes  int64 `json:"rssBytes"`
	HeapBytes int64 `json:"heapBytes"`
}

// SystemStatus is the state of the whole program.
type SystemStatus struct {
	Version       string     `json:"version"`
	Commit        string     `json:"commit"`
	GoVersion     string     `json:"goVersion"`
	UptimeMs      int64      `json:"uptimeMs"`
	PID           int        `json:"pid"`
	DataDir       string     `json:"dataDir"`
	SchemaVersion int64      `json:"schemaVersion"`
	Recovery      bool       `json:"recovery"`
	Degraded      []Degraded `json:"degraded"`
	Memory        MemoryUse  `json:"memory"`
	// Background reports whether background work is paused, and why.
	Background pause.State `json:"background"`
}

// SystemStatus returns version, uptime, memory and what is degraded.
func (s *Server) SystemStatus(ctx context.Context, _ struct{}) (SystemStatus, error) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	st := SystemStatus{Version: s.o.Version, Commit: s.o.Commit, GoVersion: runtime.Version(), UptimeMs: time.Since(s.began).Milliseconds(),
		PID: os.Getpid(), Degraded: []Degraded{}, Memory: MemoryUse{RSSBytes: residentBytes(int64(m.Sys)), HeapBytes: int64(m.HeapAlloc)}, Background: s.o.Pause.State()}
	s.net.mu.Lock()
	if s.net.degraded != "" {
		st.Degraded = append(st.Degraded, Degraded{Area: "gateway", Reason: s.net.degraded, Hint: "End the other program and restart the gateway, or set gateway.addr."})
	}
	if s.net.hidden != nil {
		st.Degraded = append(st.Degraded, Degraded{Area: "gateway", Reason: "Couldn't write the endpoint file. The command line and other windows can't find this Helix.",
			Hint: "Free some disk space, or make the folder writable. Helix retries automatically."})
	}
	s.net.mu.Unlock()
	st.Degraded = append(st.Degraded, s.o.Services.Degraded()...)
	if s.o.Status != nil {
		if err := s.o.Status(ctx, &st); err != nil {
			return SystemStatus{}, err
		}
	}
	return st, nil
}

// SystemStop ends the program gracefully: running calls get some seconds to finish.
func (s *Server) SystemStop(context.Context, struct{}) (struct{}, error) {
	if s.o.Stop == nil {
		return struct{}{}, fault.Unavailablef("This process cannot be stopped from here.")
	}
	time.AfterFunc(50*time.Millisecond, s.o.Stop) // after the response is sent
	return struct{}{}, nil
}

// ActivateParams are the arguments of a second start of the program.
type ActivateParams struct {
	Args []string `json:"args"` // may contain a helix:// link
}

// Activate shows the window and opens the link in the arguments.
func (s *Server) Activate(ctx context.Context, p ActivateParams) (struct{}, error) {
	if s.o.Activate == nil {
		return struct{}{}, fault.Unavailablef("This backend has no window.")
	}
	if len(p.Args) > 64 {
		return struct{}{}, fault.Invalidf("At most 64 arguments.")
	}
	return struct{}{}, s.o.Activate(ctx, p.Args)
}

// control makes the listener a service named gateway.
type control struct{ s *Server }

func (c control) State() (running bool, since time.Time, restarts int, port int, err error) {
	n := &c.s.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.addr != nil {
		_, p, _ := net.SplitHostPort(n.addr.String()) // a TCP address
		port, _ = strconv.Atoi(p)                     //nolint:errcheck // a TCP address
	}
	return n.addr != nil, n.since, n.restarts, port, nil
}

func (c control) Start(ctx context.Context) error   { return c.s.Listen(ctx) }
func (c control) Stop()                             { c.s.stopListener() }
func (c control) Restart(ctx context.Context) error { return c.s.restartListener(ctx) }
