package config

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"helix/backend/fault"
)

// WriteFile replaces the file at path atomically, so that a crash leaves either the old or the new
// content: temp file, fsync, rename, fsync of the folder. The previous content is kept as path.bak.
// A lock file next to it serializes writers of the same file.
func WriteFile(ctx context.Context, path string, data []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	unlock, err := lockFile(ctx, path+".lock")
	if err != nil {
		return err
	}
	defer unlock()
	return replaceFile(path, data)
}

// replaceFile is WriteFile for a caller that holds the lock of path.
func replaceFile(path string, data []byte) error {
	dir := filepath.Dir(path)
	removeTemps(path)
	tmp, err := writeTemp(path, data)
	if err != nil {
		return err
	}
	defer os.Remove(tmp) //nolint:errcheck // gone after the rename
	if old, err := os.ReadFile(path); err == nil {
		bak, err := writeTemp(path, old)
		if err != nil {
			return err
		}
		if err := os.Rename(bak, path+".bak"); err != nil {
			return errors.Join(err, os.Remove(bak))
		}
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	return syncDir(dir)
}

// removeTemps deletes what a killed writer of path left behind.
func removeTemps(path string) {
	es, _ := os.ReadDir(filepath.Dir(path))
	for _, e := range es {
		if strings.HasPrefix(e.Name(), filepath.Base(path)+tempMark) {
			_ = os.Remove(filepath.Join(filepath.Dir(path), e.Name()))
		}
	}
}

const tempMark = ".tmp-"

func writeTemp(path string, data []byte) (name string, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+tempMark+"*") // mode 0600
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// lockFile acquires the lock file at path, and waits up to 5 s for its owner. The system releases
// it when a process dies. The empty file is not removed, since that would race.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		if ok, err := tryLock(f); err != nil {
			return nil, errors.Join(err, f.Close())
		} else if ok {
			return func() { _ = f.Close() }, nil
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, fault.Unavailablef("Another program is writing this file. Please try again.").WithCause(ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}
