package cli

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"helix/backend"
	"helix/backend/fault"
	"helix/backend/storage"
)

const (
	turnNotice = 2 * time.Second  // then the user is told why nothing happens
	turnLimit  = 30 * time.Second // for one holder of the data folder
	turnPoll   = 50 * time.Millisecond
)

// waitTurn calls try until the data folder is free. Commands without a running Helix open the
// folder one at a time, so several that start together wait for each other. It gives up when a
// single process has held the folder for turnLimit; as long as the holder changes, it waits until
// ctx ends.
func (c *command) waitTurn(ctx context.Context, try func() error) error {
	start, noticed := time.Now(), false
	holder, since := 0, start
	for {
		err := try()
		if !errors.Is(err, storage.ErrLockHeld) {
			return err
		}
		if pid := lockHolder(err); pid != 0 && pid != holder {
			holder, since = pid, time.Now()
		}
		if !noticed && time.Since(start) >= turnNotice {
			noticed = true
			c.say("Waiting for another Helix process%s to finish…", pidNote(holder))
		}
		if time.Since(since) >= turnLimit {
			return errNoTurn(holder, err)
		}
		select {
		case <-time.After(turnPoll + rand.N(turnPoll)): // so that waiting processes do not retry in step
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return errNoTurn(holder, err)
			}
			return ctx.Err()
		}
	}
}

func errNoTurn(holder int, cause error) error {
	return fault.Unavailablef("Another Helix process%s is still using the data folder. Nothing was changed. Try again when it has finished.", pidNote(holder)).WithCause(cause)
}

func pidNote(pid int) string {
	if pid == 0 {
		return ""
	}
	return fmt.Sprintf(" (pid %d)", pid)
}

// lockHolder returns the process that the error of a held lock names, 0 if it names none.
func lockHolder(err error) int {
	d, _ := fault.As(err).Details.(map[string]int)
	return d["pid"]
}

// openBackend opens the data folder in this process once it is free. If a Helix starts serving
// requests meanwhile, it is a Conflict, because that Helix now owns the folder.
func (c *command) openBackend(ctx context.Context, o backend.Options) (be *backend.Backend, err error) {
	err = c.waitTurn(ctx, func() error {
		other, err := backend.Running(ctx, c.options())
		if err != nil {
			return err
		}
		if other != nil {
			return fault.Conflictf("Helix is already running (pid %d).", other.PID)
		}
		be, err = backend.Open(ctx, o)
		return err
	})
	return be, err
}
