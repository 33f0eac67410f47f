// Package testkit contains helpers for tests of many packages that depend on the environment. Only
// tests import it.
package testkit

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
)

// Raced reports whether the race detector is on. It makes the database, the engine and code
// compiled for either ten times slower.
const Raced = raced

// SkipRaced skips a test under the race detector, where it would take long and find nothing new,
// because it has few goroutines or other tests run the same code. With HELIX_RACE=all, which make
// race sets, it runs nevertheless.
func SkipRaced(t testing.TB, why string) {
	t.Helper()
	if Raced && os.Getenv("HELIX_RACE") != "all" {
		t.Skip("under the race detector: " + why)
	}
}

// Data returns the path of a file or folder in the shared data, which is not part of the
// repository; the test is skipped if it does not exist. HELIX_DATA is the folder of the shared
// data.
func Data(t testing.TB, path ...string) string {
	t.Helper()
	dir := os.Getenv("HELIX_DATA")
	if dir == "" {
		root, err := os.Getwd()
		for err == nil && filepath.Dir(root) != root {
			if _, none := os.Stat(filepath.Join(root, "go.mod")); none == nil {
				break
			}
			root = filepath.Dir(root)
		}
		dir = filepath.Join(root, "..", "shared", "data")
	}
	name := filepath.Join(append([]string{dir}, path...)...)
	if _, err := os.Stat(name); err != nil {
		t.Skipf("%s is not at hand; HELIX_DATA names the folder that has it", filepath.Join(path...))
	}
	return name
}

var tried atomic.Int64

// FreePort returns a port of this computer that is not in use. It is below the range from which the
// system assigns ports, so that no one else is assigned it before it is used.
func FreePort(t testing.TB) int {
	t.Helper()
	for {
		port := 10_000 + (os.Getpid()*97+int(tried.Add(1)))%20_000 // different processes start far apart
		if l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			_ = l.Close()
			return port
		}
	}
}
