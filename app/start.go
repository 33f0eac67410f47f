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
)

// hasDisplay reports whether a window can be shown.
func hasDisplay() bool {
	return runtime.GOOS != "linux" || os.Getenv("DISPLAY") != "" || os.Getenv("WAYLAND_DISPLAY") != ""
}

// handOver asks the Helix that is using the data folder to show its window. A headless one cannot;
// then this window becomes its client. done reports that this process can exit.
func (s *shell) handOver() (done bool, code int) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	other, err := backend.Running(ctx, backend.Options{DataDir: s.flags.dataDir})
	switch {
	case err == nil && other == nil:
		return false, 0 // no Helix is running
	case err != nil:
		fmt.Fprintln(os.Stderr, fault.As(err).Message)
		return true, 1
	}
	c, err := gateway.Dial(ctx, other.ClientOptions("helix-desktop"))
	if err != nil {
		fmt.Fprintf(os.Stderr, "Helix is already running (process %d) but does not answer.\n", other.PID)
		return true, 1
	}
	defer c.Close()
	args := append([]string{}, s.flags.links...)
	err = c.Call(ctx, "app.activate", map[string]any{"args": args}, nil)
	switch {
	case err == nil:
		return true, 0
	case fault.Is(err, fault.Unavailable) || fault.Is(err, fault.NotFound):
		s.remote = func(ctx context.Context) (gateway.Pipe, error) {
			return gateway.DialPipe(ctx, other.ClientOptions("helix-desktop"))
		}
		return false, 0
	}
	fmt.Fprintln(os.Stderr, fault.As(err).Message)
	return true, 1
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
