// Package hubtest runs a real PostgreSQL for tests and benchmarks. Nothing else imports it.
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

// Server is a PostgreSQL in a folder of its own. One serves all tests of a binary, each with a
// database of its own.
type Server struct {
	port int
	dir  string
	bin  string
	args []string
	cmd  *exec.Cmd
	next atomic.Int64
}

var shared struct {
	once sync.Once
	s    *Server
	err  error
}

// Stop ends the server that tests started, if any. Call it in TestMain after the tests, and exit
// with the code that it returns.
func Stop(code int) int {
	if shared.s == nil {
		return code
	}
	if err := shared.s.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop PostgreSQL:", err)
		return max(code, 1)
	}
	return code
}

// Database makes an empty database and returns the connection string of its administrator.
func Database(t testing.TB) string {
	t.Helper()
	return create(t, "")
}

// Copy makes a database that is a copy of the one behind dsn, to which nobody may be connected.
func Copy(t testing.TB, dsn string) string {
	t.Helper()
	c, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	return create(t, " template "+c.Database)
}

func create(t testing.TB, how string) string {
	t.Helper()
	shared.once.Do(func() { shared.s, shared.err = Start(testkit.FreePort(t)) })
	if shared.err != nil {
		t.Fatalf("PostgreSQL (Debian package postgresql): %v", shared.err)
	}
	s := shared.s
	c, err := pgx.Connect(t.Context(), s.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background()) //nolint:errcheck // the statement has succeeded
	name := fmt.Sprintf("hub%d", s.next.Add(1))
	if _, err := c.Exec(t.Context(), "create database "+name+how); err != nil {
		t.Fatal(err)
	}
	return s.DSN(name)
}

// DSN is the connection string of the administrator for one database.
func (s *Server) DSN(database string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", s.port, database)
}

// programs is the folder of the newest installed server.
func programs() (string, error) {
	all, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(all) == 0 {
		return "", errors.Join(err, errors.New("no initdb under /usr/lib/postgresql"))
	}
	slices.Sort(all)
	return filepath.Dir(all[len(all)-1]), nil
}

// Start runs a server on a port of loopback. It stores nothing durably unless settings, such as
// fsync=on, say otherwise.
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
	// Devices prove who they are; the administrator of the tests does not.
	hba := "host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
	if err := os.WriteFile(filepath.Join(data, "pg_hba.conf"), []byte(hba), 0o644); err != nil { //nolint:gosec // the server reads it as another user
		return nil, err
	}
	s.args = []string{"-D", data, "-p", fmt.Sprint(port)}
	for _, x := range append([]string{"listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off", "max_connections=60", "shared_buffers=32MB", "log_min_messages=fatal"}, settings...) {
		s.args = append(s.args, "-c", x)
	}
	return s, s.run(30 * time.Second)
}

// run starts the server and waits until it answers, at most patience for one attempt: processes of a
// killed server hold its memory for a while, and then the new one ends at once.
func (s *Server) run(patience time.Duration) error {
	for end := time.Now().Add(60 * time.Second); ; {
		s.cmd = command(filepath.Join(s.bin, "postgres"), s.args...)
		if err := s.cmd.Start(); err != nil {
			return err
		}
		for again := time.Now().Add(patience); time.Now().Before(again); time.Sleep(50 * time.Millisecond) { // until the server listens
			if c, err := pgx.Connect(context.Background(), s.DSN("postgres")); err == nil {
				return c.Close(context.Background())
			}
		}
		_ = s.cmd.Process.Kill() // it may have ended
		_ = s.cmd.Wait()         // says that a signal ended it
		if time.Now().After(end) {
			return errors.New("PostgreSQL does not start")
		}
	}
}

// New starts a server that one test has for itself, and may kill.
func New(t testing.TB) *Server {
	t.Helper()
	s, err := Start(testkit.FreePort(t))
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

// Port is where the server listens.
func (s *Server) Port() int { return s.port }

// Restart kills the server, as a power cut would, and starts it again.
func (s *Server) Restart() error {
	if err := s.cmd.Process.Kill(); err != nil {
		return err
	}
	_ = s.cmd.Wait() // says that a signal ended it
	return s.run(3 * time.Second)
}

// Stop ends the server at once and removes what it stored.
func (s *Server) Stop() error {
	err := s.cmd.Process.Signal(os.Interrupt) // a fast shutdown
	_ = s.cmd.Wait()                          // says that a signal ended it
	return errors.Join(err, os.RemoveAll(s.dir))
}
