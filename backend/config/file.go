package config

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"helix/backend/fault"
)

// WriteFile replaces the file at path so that a crash leaves the former content or the new
// one: temp file, fsync, rename, fsync of the folder. The former content is kept once as
// path.bak. Two writers of one file take turns by a lock file beside it.
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

func replaceFile(path string, data []byte) error {
	dir := filepath.Dir(path)
	tmp, err := writeTemp(dir, data)
	if err != nil {
		return err
	}
	defer os.Remove(tmp) //nolint:errcheck // gone after the rename
	if old, err := os.ReadFile(path); err == nil {
		bak, err := writeTemp(dir, old)
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

func writeTemp(dir string, data []byte) (name string, err error) {
	f, err := os.CreateTemp(dir, ".tmp-*") // mode 0600
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// lockFile takes the lock file at path and waits up to 5 s for its owner. A file older than
// that was left by a crash: the work under it takes milliseconds.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	const patience = 5 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err == nil {
			_ = f.Close()
			return func() { _ = os.Remove(path) }, nil
		}
		if !errors.Is(err, os.ErrExist) {
			return nil, err
		}
		if st, err := os.Stat(path); err == nil && time.Since(st.ModTime()) > patience {
			_ = os.Remove(path)
			continue
		}
		select {
		case <-ctx.Done():
			return nil, fault.Unavailablef("Another program is writing this file. Please try again.").WithCause(ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}
