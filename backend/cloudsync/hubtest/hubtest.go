// Package hubtest runs a real PostgreSQL server for tests and benchmarks. Only they import it.
package hubtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"helix/backend/testkit"
)

// Server is a PostgreSQL server with its own data folder. All tests of a binary share one; each
// test has its own database.
type Server struct {
	port  int
	dir   string
	bin   string
	args  []string
	cmd   *exec.Cmd
	ended chan struct{} // closed at the end of cmd
	next  atomic.Int64
}

var shared struct {
	once sync.Once
	s    *Server
	err  error
}

// Main stops the shared server after the tests, for testkit.Run, which then searches for leaks.
type Main struct{ *testing.M }

// Run runs the tests, stops the server if it was started, and returns the exit code.
func (m Main) Run() int {
	code := m.M.Run()
	if shared.s == nil {
		return code
	}
	if err := shared.s.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop PostgreSQL:", err)
		return max(code, 1)
	}
	return code
}

// Database creates an empty database and returns the connection string of its administrator.
func Database(t testing.TB) string {
	t.Helper()
	return create(t, "")
}

// Copy copies the database at dsn. There must be no connection to that database.
func Copy(t testing.TB, dsn string) string {
	t.Helper()
	c, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	return create(t, " template "+c.Database+" strategy file_copy")
}

func create(t testing.TB, how string) string {
	t.Helper()
	shared.once.Do(func() { shared.s, shared.err = Start(testkit.FreePort(t), testSettings...) })
	if shared.err != nil {
		t.Fatalf("PostgreSQL (Debian package postgresql): %v", shared.err)
	}
	s := shared.s
	c, err := pgx.Connect(t.Context(), s.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background()) //nolint:errcheck // the statement has already succeeded
	name := fmt.Sprintf("hub%d", s.next.Add(1))
	if _, err := c.Exec(t.Context(), "create database "+name+how); err != nil {
		t.Fatal(err)
	}
	return s.DSN(name)
}

// DSN returns the administrator's connection string for a database.
func (s *Server) DSN(database string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", s.port, database)
}

// programs returns the program folder of the newest installed server.
func programs() (string, error) {
	all, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(all) == 0 {
		return "", errors.Join(err, errors.New("no initdb under /usr/lib/postgresql"))
	}
	slices.Sort(all)
	return filepath.Dir(all[len(all)-1]), nil
}

// testSettings are for databases that are small and live for seconds: compiling queries and
// visiting each database for housekeeping would take longer than the tests, as would log records for
// a loss of power.
var testSettings = []string{"autovacuum=off", "jit=off", "full_page_writes=off", "wal_level=minimal", "max_wal_senders=0", "max_wal_size=4GB", "checkpoint_timeout=1h", "shared_buffers=128MB", "max_parallel_workers_per_gather=0"}

// Start runs a server on a loopback port. The server does not flush data to disk unless settings
// enable it, for example with fsync=on.
func Start(port int, settings ...string) (*Server, error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "helix-hub-")
	if err != nil {
		return nil, err
	}
	s := &Server{port: port, dir: dir, bin: bin}
	data := filepath.Join(dir, "data")
	if err := own(dir); err != nil {
		return nil, err
	}
	if out, err := command(filepath.Join(bin, "initdb"), "--no-sync", "--auth-local=trust", "--auth-host=trust", "--username=postgres", "--encoding=UTF8", "--locale=C", "-D", data).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	// Devices authenticate; the tests' administrator is trusted.
	hba := "host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
	if err := os.WriteFile(filepath.Join(data, "pg_hba.conf"), []byte(hba), 0o644); err != nil { //nolint:gosec // the server reads it as another user
		return nil, err
	}
	s.args = []string{"-D", data, "-p", fmt.Sprint(port)}
	for _, x := range append([]string{"listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off", "max_connections=60", "shared_buffers=32MB", "log_min_messages=fatal"}, settings...) {
		s.args = append(s.args, "-c", x)
	}
	return s, s.run()
}

// run starts the server and waits until it accepts connections. The processes of a killed server
// hold its memory for a while, during which a new server exits immediately; then it starts another.
func (s *Server) run() error {
	const patience = 5 * time.Minute
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) { // there is no event for either
		if !s.runs() {
			cmd, ended := command(filepath.Join(s.bin, "postgres"), s.args...), make(chan struct{})
			if err := cmd.Start(); err != nil {
				return err
			}
			s.cmd, s.ended = cmd, ended
			go func() {
				defer close(ended)
				_ = cmd.Wait() // fails because of the signal
			}()
		}
		c, err := pgx.Connect(context.Background(), s.DSN("postgres"))
		if err == nil {
			return c.Close(context.Background())
		}
		if time.Since(began) > patience {
			return fmt.Errorf("PostgreSQL does not start within %s: %w", patience, err)
		}
	}
}

// runs reports whether the process runs.
func (s *Server) runs() bool {
	select {
	case <-s.ended:
		return false
	default:
		return s.ended != nil
	}
}

// New starts a server for one test, which may kill it.
func New(t testing.TB) *Server {
	t.Helper()
	s, err := Start(testkit.FreePort(t), testSettings...)
	if err != nil {
		t.Fatalf("PostgreSQL (Debian package postgresql): %v", err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// PID returns the id of the server's main process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Port returns the port of the server.
func (s *Server) Port() int { return s.port }

// Restart kills the server, like a power failure, and starts it again.
func (s *Server) Restart() error {
	if err := s.cmd.Process.Kill(); err != nil {
		return err
	}
	<-s.ended
	return s.run()
}

// Stop stops the server immediately and removes its data.
func (s *Server) Stop() error {
	err := s.cmd.Process.Signal(os.Interrupt) // requests a fast shutdown
	<-s.ended
	return errors.Join(err, os.RemoveAll(s.dir))
}
