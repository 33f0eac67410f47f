package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"helix/backend"
	"helix/backend/fault"
	"helix/backend/gateway"
	"helix/backend/storage"
)

// hasDisplay reports whether a window can be shown.
func hasDisplay() bool {
	return runtime.GOOS != "linux" || os.Getenv("DISPLAY") != "" || os.Getenv("WAYLAND_DISPLAY") != ""
}

// noDisplay tells that no window can be shown, and returns the exit code.
func noDisplay() int {
	fmt.Fprintln(os.Stderr, "No display found. Use `helix serve`.")
	return 1
}

// Waits for the Helix that has the data folder.
const (
	answerLimit = 3 * time.Second  // it has an endpoint but does not answer
	startLimit  = 30 * time.Second // it has no endpoint yet: it is starting, or stopping
	claimPause  = 50 * time.Millisecond
)

// handOver takes the lock of the data folder, or asks the Helix that has it to show its window. A
// headless one cannot; then this window becomes its client. done reports that this process can
// exit.
func (s *shell) handOver() (done bool, code int) {
	o := backend.Options{DataDir: s.flags.dataDir}
	for begin := time.Now(); ; time.Sleep(claimPause) {
		claim, err := backend.ClaimFolder(o)
		if err == nil {
			s.claim = claim
			return false, 0
		}
		if !errors.Is(err, storage.ErrLockHeld) {
			return false, 0 // opening the backend fails too, and the window explains it
		}
		pid, _ := fault.As(err).Details.(map[string]int)
		done, code, err := s.askHolder(o)
		if err == nil {
			return done, code
		}
		if errors.Is(err, errSilent) || time.Since(begin) > startLimit {
			fmt.Fprintf(os.Stderr, "Helix is already running (process %d) but does not answer.\n", pid["pid"])
			return true, 1
		}
	}
}

// errSilent is about a Helix that listens but does not answer.
var errSilent = errors.New("no answer")

// askHolder hands over to the Helix that has the lock. An error other than errSilent means that it
// does not listen yet, or not any more.
func (s *shell) askHolder(o backend.Options) (done bool, code int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), answerLimit)
	defer cancel()
	other, err := backend.Running(ctx, o)
	if err != nil {
		return false, 0, err
	}
	if other == nil {
		return false, 0, errors.New("no endpoint")
	}
	c, err := gateway.Dial(ctx, other.ClientOptions("helix-desktop"))
	if err == nil {
		defer c.Close()
		err = c.Call(ctx, "app.activate", map[string]any{"args": append([]string{}, s.flags.links...)}, nil)
	}
	switch {
	case err == nil:
		return true, 0, nil
	case fault.Is(err, fault.NotFound) || fault.Is(err, fault.Unavailable) && c != nil:
		s.remote = func(ctx context.Context) (gateway.Pipe, error) {
			return gateway.DialPipe(ctx, other.ClientOptions("helix-desktop"))
		}
		return false, 0, nil
	case ctx.Err() != nil:
		return false, 0, errSilent
	}
	return false, 0, err
}

// relay copies frames between the page and a backend in another process until either ends.
func relay(ctx context.Context, page gateway.Pipe, dial gatewayDialer) error {
	far, err := dial(ctx)
	if err != nil {
		return err
	}
	if c, ok := far.(io.Closer); ok {
		defer c.Close()
	}
	g, ctx := errgroup.WithContext(ctx)
	copyFrames := func(from, to gateway.Pipe) error {
		for {
			f, err := from.Read(ctx)
			if err != nil {
				return errors.Join(io.EOF, err)
			}
			if err := to.Write(ctx, f); err != nil {
				return err
			}
		}
	}
	g.Go(func() error { return copyFrames(page, far) })
	g.Go(func() error { return copyFrames(far, page) })
	return g.Wait()
}
