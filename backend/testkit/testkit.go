// Package testkit holds what the tests of many packages need to know about where they run.
// Only tests import it.
package testkit

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
)

// Raced says that the race detector is on. It makes the database, the engine and code built
// for both ten times slower.
const Raced = raced

// SkipRaced skips a test under the race detector, where it would take long and show nothing
// that it does not show without: its goroutines are few, or other tests run the same ones.
// HELIX_RACE=all, which make race sets, runs it all the same.
func SkipRaced(t testing.TB, why string) {
	t.Helper()
	if Raced && os.Getenv("HELIX_RACE") != "all" {
		t.Skip("under the race detector: " + why)
	}
}

// Data is a file or folder of the shared data, which is no part of the repository; the test is
// skipped where it is not at hand. HELIX_DATA names the folder that holds it.
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

// FreePort is a port of this computer on which nothing listens. It lies below those that a
// system gives to whoever asks for any, so that nobody else gets it before it is used.
func FreePort(t testing.TB) int {
	t.Helper()
	for {
		port := 10_000 + (os.Getpid()*97+int(tried.Add(1)))%20_000 // processes begin far from each other
		if l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			_ = l.Close()
			return port
		}
	}
}
