package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"helix/backend"
	"helix/backend/fault"
	"helix/backend/memory"
	"helix/backend/storage"
)

// commandEnv makes this test program the helix program: it contains the arguments as JSON.
const commandEnv = "HELIX_TEST_COMMAND"

// runAsCommand runs the command in commandEnv, if there is one, and exits. "-" means the arguments
// of the process.
func runAsCommand() {
	var args []string
	text := os.Getenv(commandEnv)
	if text == "" {
		return
	}
	if text == "-" {
		args = os.Args[1:]
	} else if err := json.Unmarshal([]byte(text), &args); err != nil {
		panic(err)
	}
	if slices.Contains(args, panicCommand) {
		os.Exit(runPanic())
	}
	os.Exit(Main(context.Background(), args, Env{Keyring: noKeyring{}, Worker: worker}))
}

// process returns a helix command in a separate process, not yet started.
func process(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(append([]string{"--data-dir", dir, "--timeout", "10m"}, args...))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), commandEnv+"="+string(text))
	return cmd
}

func TestConcurrentCommandsTakeTurns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	type outcome struct {
		err    error
		output string
	}
	done := make(chan outcome)
	const n = 8
	for i := range n {
		go func() {
			out, err := process(t, dir, "memory", "add", fmt.Sprintf("text number %d", i)).CombinedOutput()
			done <- outcome{err, string(out)}
		}()
	}
	for range n {
		if o := <-done; o.err != nil {
			t.Errorf("a command failed: %v\n%s", o.err, o.output)
		}
	}
	var list struct{ Total int }
	r := helix(t, dir, "", "memory", "list", "--json")
	if err := json.Unmarshal([]byte(r.stdout), &list); err != nil || list.Total != n {
		t.Errorf("%d memories after %d adds: %v %s", list.Total, n, err, r.stderr)
	}
}

// The process that holds the folder starts serving while a command waits for it to end.
func TestWaitingCommandUsesANewServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	be, err := backend.Open(t.Context(), backend.Options{DataDir: dir, Keyring: noKeyring{}, Worker: worker, Listen: true, Flags: map[string]string{"gateway.enabled": "true", "gateway.addr": "127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	cmd := process(t, dir, "memory", "add", "stored by the server")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	if !lines.Scan() || lines.Text() != fmt.Sprintf("Waiting for another Helix process (pid %d) to finish…", os.Getpid()) {
		t.Errorf("the command says %q", lines.Text())
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- be.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	rest, _ := io.ReadAll(stderr)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, rest)
	}
	got, err := be.Memory.List(be.Local(t.Context()), memory.ListParams{})
	if err != nil || len(got.Items) != 1 || got.Items[0].Content != "stored by the server" {
		t.Errorf("the server has %+v, %v", got.Items, err)
	}
}

func TestWaitForTheFolderIsBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	release, err := storage.Lock(filepath.Join(dir, "helix.lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	_, held := storage.Lock(filepath.Join(dir, "helix.lock"))
	synctest.Test(t, func(t *testing.T) {
		var errs bytes.Buffer
		c := &command{env: Env{Stderr: &errs}, ctx: t.Context()}
		start, silent := time.Now(), 0
		err := c.waitTurn(t.Context(), func() error {
			if errs.Len() == 0 {
				silent++
			}
			return held
		})
		if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), fmt.Sprintf("(pid %d) is still using", os.Getpid())) {
			t.Errorf("after the wait: %v", err)
		}
		// On the bubble's clock, which only advances while waiting.
		if waited := time.Since(start); waited < turnLimit || waited > turnLimit+2*turnPoll {
			t.Errorf("waited %s", waited)
		}
		if n := strings.Count(errs.String(), "\n"); n != 1 || silent < int(turnNotice/(2*turnPoll)) {
			t.Errorf("after %d tries, %d lines: %s", silent, n, errs.String())
		}

		// Each holder has its own time limit: as long as the holder changes, the command waits.
		tries := 0
		err = c.waitTurn(t.Context(), func() error {
			if tries++; tries > 2000 {
				return nil
			}
			return fault.Conflictf("held").WithDetails(map[string]int{"pid": 1 + tries/100}).WithCause(storage.ErrLockHeld)
		})
		if err != nil {
			t.Errorf("a queue that moves: %v", err)
		}
	})
}
