// Package testkit contains helpers for tests of many packages that depend on the environment. Only
// tests import it.
package testkit

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
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

// patience is the time limit for waits without an event, for a busy machine too. It must only end
// before the test binary is stopped, so that the failure reports what was waited for.
const patience = 5 * time.Minute

// Eventually looks at a state until it is ok, and returns it. It is for states without an event;
// the test fails with the last one after five minutes.
func Eventually[T any](t testing.TB, what string, look func() T, ok func(T) bool) T {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); ; <-tick.C {
		got := look()
		if ok(got) {
			return got
		}
		if time.Since(began) > patience {
			t.Fatalf("%s: after %s still %+v", what, patience, got)
		}
	}
}

// Alone runs a test in a process of its own, and reports whether this is that process. A test that
// counts what the whole process has, such as goroutines, files, memory and children, begins with
//
//	if !testkit.Alone(t) {
//		return
//	}
//
// because what other tests share or left may change at any moment. env is added to the environment.
func Alone(t *testing.T, env ...string) bool {
	t.Helper()
	const alone = "HELIX_TEST_ALONE"
	if os.Getenv(alone) == t.Name() {
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+regexp.QuoteMeta(t.Name())+"$", "-test.v", fmt.Sprintf("-test.short=%v", testing.Short()))
	cmd.Env = append(append(os.Environ(), env...), alone+"="+t.Name(), "GOCOVERDIR="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("in a process of its own: %v\n%s", err, out)
	}
	if !bytes.Contains(out, []byte("--- PASS: "+t.Name()+" ")) {
		t.Fatalf("in a process of its own it did not run:\n%s", out)
	}
	return false
}

// Run runs the tests of a package, and returns the exit code for os.Exit. If they pass, it is 1
// nevertheless if goroutines are left.
func Run(m interface{ Run() int }, ignored ...goleak.Option) int {
	code := m.Run()
	if code == 0 {
		if err := Leaks(ignored...); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	return code
}

// Leaks returns an error if goroutines are left after the tests. It waits a minute for their end:
// what they wait for, such as the end of a process or a connection, may take long on a busy machine.
func Leaks(ignored ...goleak.Option) error {
	for began := time.Now(); ; {
		err := goleak.Find(ignored...)
		if err == nil || time.Since(began) > time.Minute {
			return err
		}
	}
}
