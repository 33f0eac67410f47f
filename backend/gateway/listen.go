package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// listeners are the open ports.
type listeners struct {
	mu       sync.Mutex
	main     *http.Server
	addr     net.Addr // of the main listener; nil if closed
	ln       net.Listener
	extra    []*http.Server
	hidden   error         // why there is no endpoint file; nil if there is one
	again    chan struct{} // signals that Run should write it again
	degraded string        // why the main port is not the configured one
	since    time.Time
	restarts int
	wg       sync.WaitGroup
}

// Endpoint is the content of the endpoint file, with which other programs of the user find the
// running backend. It contains no secrets.
type Endpoint struct {
	URL         string    `json:"url"`
	PID         int       `json:"pid"`
	InstanceID  string    `json:"instanceId"`
	Version     string    `json:"version"`
	StartedAt   time.Time `json:"startedAt"`
	TokenSource string    `json:"tokenSource"` // keyring or file
}

// ReadEndpoint reads the endpoint file. Use Alive to find out whether the backend is still running.
func ReadEndpoint(path string) (Endpoint, error) {
	var e Endpoint
	b, err := os.ReadFile(path)
	if err != nil {
		return e, err
	}
	if err := json.Unmarshal(b, &e); err != nil {
		return e, fmt.Errorf("endpoint file: %w", err)
	}
	return e, nil
}

// Alive reports whether the instance that wrote the endpoint file is still reachable there.
func (e Endpoint) Alive(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.URL+"/healthz", nil)
	if err != nil {
		return false
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	var health struct {
		InstanceID string `json:"instanceId"`
	}
	return json.NewDecoder(resp.Body).Decode(&health) == nil && health.InstanceID == e.InstanceID
}

// URL returns the address of the main listener, such as http://127.0.0.1:18789, or "" while it is
// closed.
func (s *Server) URL() string {
	s.net.mu.Lock()
	defer s.net.mu.Unlock()
	return s.urlLocked()
}

func (s *Server) urlLocked() string {
	if s.net.addr == nil {
		return ""
	}
	return "http://" + s.net.addr.String()
}

// Listen opens the ports and writes the endpoint file. If the file cannot be written, system.status
// reports that, and Listen succeeds. Run calls Listen if that has not been done; call it first to
// learn the address before Run blocks. A port that is in use is replaced by a free one, which
// system.status reports too.
func (s *Server) Listen(ctx context.Context) error {
	s.attach()
	if s.o.NoHTTP {
		return nil
	}
	s.net.mu.Lock()
	defer s.net.mu.Unlock()
	if s.net.addr != nil {
		return nil
	}
	if err := checkLoopback(s.o.Addr); err != nil {
		return err
	}
	ln, err := s.bind(ctx)
	if err != nil {
		return err
	}
	var extras []net.Listener
	fail := func(err error) error {
		ln.Close() //nolint:errcheck // nothing was served
		for _, e := range extras {
			e.Close() //nolint:errcheck // nothing was served
		}
		return err
	}
	if len(s.net.extra) == 0 {
		for _, x := range s.o.Extra {
			l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(x.Port)))
			if err != nil {
				return fail(fmt.Errorf("open port %d: %w", x.Port, err))
			}
			extras = append(extras, l)
		}
	}
	s.net.addr, s.net.since = ln.Addr(), time.Now()
	s.announceLocked()
	s.net.main, s.net.ln = s.serveOn(ln, nil), ln
	for i, l := range extras {
		s.net.extra = append(s.net.extra, s.serveOn(l, &s.o.Extra[i]))
	}
	return nil
}

// bind opens the configured address, or any free port of the same host.
func (s *Server) bind(ctx context.Context) (net.Listener, error) {
	host, port, _ := net.SplitHostPort(s.o.Addr) // checkLoopback has parsed it
	s.net.degraded = ""
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.o.Addr)
	if err == nil || port == "0" {
		return ln, err
	}
	ln, err2 := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
	if err2 != nil {
		return nil, errors.Join(err, err2)
	}
	_, free, _ := net.SplitHostPort(ln.Addr().String()) // a TCP address
	s.net.degraded = fmt.Sprintf("Port %s is taken by another program; Helix answers on port %s.", port, free)
	s.log.Warn("port taken", slog.String("asked", port), slog.String("used", free))
	return ln, nil
}

func (s *Server) serveOn(ln net.Listener, extra *Extra) *http.Server {
	srv := &http.Server{Handler: s.newHandler(ln.Addr(), extra), ReadHeaderTimeout: s.o.Limits.HeaderTime, IdleTimeout: s.o.Limits.Idle,
		MaxHeaderBytes: s.o.Limits.HeaderBytes, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug)}
	s.net.wg.Go(func() {
		if err := srv.Serve(ln); err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			s.log.Error("listener ended", slog.Any("error", err))
		}
	})
	return srv
}

// announceLocked writes the endpoint file. Without it other programs do not find this one, but the
// server works, so a full disk is not fatal. Run tries again.
func (s *Server) announceLocked() {
	err := s.writeEndpoint()
	switch {
	case err != nil && s.net.hidden == nil:
		s.log.Warn("endpoint file not written", slog.Any("error", err))
	case err == nil && s.net.hidden != nil:
		s.log.Info("endpoint file written")
	}
	s.net.hidden = err
	if err != nil {
		select {
		case s.net.again <- struct{}{}:
		default:
		}
	}
}

// announceAgain writes the endpoint file if that failed before.
func (s *Server) announceAgain() {
	s.net.mu.Lock()
	defer s.net.mu.Unlock()
	if s.net.hidden != nil && s.net.addr != nil {
		s.announceLocked()
	}
}

// writeEndpoint replaces the endpoint file atomically.
func (s *Server) writeEndpoint() error {
	if s.o.EndpointFile == "" {
		return nil
	}
	b, err := json.Marshal(Endpoint{URL: s.urlLocked(), PID: os.Getpid(), InstanceID: s.inst.String(), Version: s.o.Version,
		StartedAt: s.began.UTC(), TokenSource: s.o.TokenSource})
	if err != nil {
		return err
	}
	dir := filepath.Dir(s.o.EndpointFile)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".endpoint-*") // created with mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), s.o.EndpointFile)
	}
	if err != nil {
		os.Remove(f.Name()) //nolint:errcheck // best effort
		if spare(s.o.EndpointFile, b) == nil {
			return os.Rename(s.o.EndpointFile+".spare", s.o.EndpointFile)
		}
		return err
	}
	if st, err := os.Stat(s.o.EndpointFile + ".spare"); err != nil || st.Size() != spareSize {
		_ = os.WriteFile(s.o.EndpointFile+".spare", make([]byte, spareSize), 0o600) // only needed if the disk is full
	}
	return nil
}

// spareSize is the size in bytes of the spare endpoint file, at least that of its content.
const spareSize = 4 << 10

// spare overwrites the spare file of an earlier start, which needs no space on a full disk.
func spare(path string, b []byte) error {
	f, err := os.OpenFile(path+".spare", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(append(b, bytes.Repeat([]byte{' '}, max(0, spareSize-len(b)))...), 0)
	return errors.Join(err, f.Close())
}

// removeEndpoint removes the file if this instance wrote it.
func (s *Server) removeEndpoint() {
	if e, err := ReadEndpoint(s.o.EndpointFile); err == nil && e.InstanceID == s.inst.String() {
		os.Remove(s.o.EndpointFile) //nolint:errcheck // a stale file is recognized by its instance id
	}
}

// restartListener rebinds the main port, ends the WebSocket sessions on it and rewrites the
// endpoint file. Sessions of the bridge are not affected.
func (s *Server) restartListener(ctx context.Context) error {
	old := s.detachMain()
	s.net.mu.Lock()
	s.net.restarts++
	s.net.mu.Unlock()
	err := s.Listen(ctx)
	s.closeNetSessions(old)
	return err
}

func (s *Server) stopListener() {
	old := s.detachMain()
	s.removeEndpoint()
	s.closeNetSessions(old)
}

// detachMain closes the main port at once; requests that were accepted on it continue.
func (s *Server) detachMain() *http.Server {
	s.net.mu.Lock()
	defer s.net.mu.Unlock()
	old := s.net.main
	if s.net.ln != nil {
		s.net.ln.Close() //nolint:errcheck // Serve returns
	}
	s.net.main, s.net.addr, s.net.ln, s.net.degraded, s.net.hidden = nil, nil, nil, "", nil
	return old
}

// closeNetSessions closes the sessions of old, after the call that requested it has been answered,
// because that may have come in over old itself.
func (s *Server) closeNetSessions(old *http.Server) {
	s.closeSessions(func(ss *session) bool { return ss.kind == "websocket" }, 1012, "the gateway restarts", func(*session) time.Duration { return answerOwn })
	if old == nil {
		return
	}
	s.net.wg.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if old.Shutdown(ctx) != nil {
			old.Close() //nolint:errcheck // the remaining ones are cut off
		}
	})
}

// Run serves until ctx ends, then stops in this order: new sessions are refused, clients receive
// system.stopping, running calls get Limits.StopWait, sessions close with 1001.
func (s *Server) Run(ctx context.Context) error {
	if err := s.Listen(ctx); err != nil {
		return err
	}
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-s.net.again:
			select {
			case <-ctx.Done():
			case <-time.After(s.o.Limits.EndpointRetry):
				s.announceAgain()
			}
		}
	}
	s.shutdown()
	return nil
}

func (s *Server) shutdown() {
	s.stopping.Store(true)
	data, _ := json.Marshal(SystemStopping{WithinMs: s.o.Limits.StopWait.Milliseconds()}) // a number
	s.mu.Lock()
	open := make([]*session, 0, len(s.sessions))
	for _, ss := range s.sessions {
		open = append(open, ss)
	}
	hubs := make([]*hub, 0, len(s.hubs))
	for _, h := range s.hubs {
		hubs = append(hubs, h)
	}
	s.mu.Unlock()
	for _, h := range hubs {
		h.mu.Lock()
		seq := h.seq
		h.mu.Unlock()
		frame := eventFrame("system.stopping", seq, time.Now(), data)
		for _, ss := range open {
			if ss.hub == h && ss.authenticated() {
				ss.out.replay(frame)
			}
		}
	}
	if left := s.running.wait(s.o.Limits.StopWait); len(left) > 0 {
		s.log.Warn("calls did not end in time", slog.Any("methods", left))
	}
	var closing sync.WaitGroup
	for _, ss := range open { // concurrently, since each may be one that reads nothing
		closing.Go(func() {
			ss.out.flush(time.Second)
			ss.close(1001, "Helix is stopping")
		})
	}
	closing.Wait()
	s.mu.Lock()
	for key, ss := range s.https {
		ss.cancel(errSessionClosed)
		delete(s.https, key)
	}
	s.mu.Unlock()
	s.net.mu.Lock()
	extra := s.net.extra
	s.net.extra = nil
	s.net.mu.Unlock()
	s.stopListener()
	for _, x := range extra {
		x.Close() //nolint:errcheck // stopping
	}
	for _, cancel := range s.detach {
		cancel()
	}
	s.net.wg.Wait()
}
