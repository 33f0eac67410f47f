package hubtest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"helix/backend/testkit"
)

// Pooler starts pgbouncer in front of the server at port, in session or transaction mode, like
// hosting providers do. It returns its port.
func Pooler(t testing.TB, port int, mode string) int {
	t.Helper()
	program, err := exec.LookPath("/usr/sbin/pgbouncer")
	if err != nil {
		t.Fatalf("pgbouncer (Debian package pgbouncer): %v", err)
	}
	dir, err := os.MkdirTemp("", "helix-pooler-") // other accounts can't read the folder of the test
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	at := testkit.FreePort(t)
	config := fmt.Sprintf(`[databases]
* = host=127.0.0.1 port=%d
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = scram-sha-256
auth_file = %s
auth_user = postgres
auth_query = select usename, passwd from pg_catalog.pg_shadow where usename = $1
pool_mode = %s
default_pool_size = 5
`, port, at, filepath.Join(dir, "users.txt"), mode)
	for name, text := range map[string]string{"pgbouncer.ini": config, "users.txt": "\"postgres\" \"\"\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil { //nolint:gosec // the pooler reads it as another user
			t.Fatal(err)
		}
	}
	if err := own(dir); err != nil {
		t.Fatal(err)
	}
	cmd := command(program, "-q", filepath.Join(dir, "pgbouncer.ini"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // fails because it was killed
	})
	for end := time.Now().Add(5 * time.Minute); ; {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", fmt.Sprint("127.0.0.1:", at))
		if err == nil {
			_ = c.Close()
			return at
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond) // wait until it accepts connections
	}
}
