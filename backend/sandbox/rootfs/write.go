package rootfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"

	"helix/backend/fault"
)

// Write replaces the file rel below folder dir, which it makes when it is not there, so
// that everything below dir stays within quota bytes. rel is relative, without "..". The
// old content is kept when anything fails. Calls for the same dir must not overlap, else
// the quota is not exact.
func Write(dir, rel string, data []byte, quota int64) error {
	clean := filepath.Clean(rel)
	if rel == "" || strings.ContainsRune(rel, 0) || !filepath.IsLocal(rel) || hasDots(rel) || clean == "." {
		return fault.Deniedf("%q is not a path below the tool's own folder.", rel).WithCause(ErrNotGranted)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fault.Internalf(err, "The tool's folder could not be made.")
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fault.Internalf(err, "The tool's folder could not be opened.")
	}
	defer root.Close()
	used, err := usage(root, clean)
	if err != nil {
		return fault.Internalf(err, "The tool's folder could not be read.")
	}
	if used+int64(len(data)) > quota {
		return fault.Limitf("The tool's folder is full: its quota is %d bytes.", quota)
	}
	parts := strings.Split(filepath.ToSlash(clean), "/")
	f := &FS{}
	for _, p := range parts[:len(parts)-1] {
		if err := root.Mkdir(p, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return writeError(rel, err)
		}
		next, err := f.enter(root, p)
		if err != nil {
			return writeError(rel, err)
		}
		defer next.Close()
		root = next
	}
	return replace(root, rel, parts[len(parts)-1], data)
}

func replace(root *os.Root, rel, name string, data []byte) error {
	if err := checkName(name); err != nil {
		return writeError(rel, err)
	}
	if i, err := root.Lstat(name); err == nil && !i.Mode().IsRegular() {
		return writeError(rel, ErrNotRegular)
	}
	temp := fmt.Sprintf(".%s.tmp", uuid.NewString())
	h, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return writeError(rel, err)
	}
	_, err = h.Write(data)
	err = errors.Join(err, h.Close())
	if err == nil {
		err = root.Rename(temp, name)
	}
	if err != nil {
		_ = root.Remove(temp)
		return writeError(rel, err)
	}
	return nil
}

// usage is the size of all files below root except the one that will be replaced.
func usage(root *os.Root, except string) (total int64, err error) {
	err = fs.WalkDir(root.FS(), ".", func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if p == filepath.ToSlash(except) || !e.Type().IsRegular() {
			return nil
		}
		i, err := e.Info()
		if err == nil {
			total += i.Size()
		}
		return nil
	})
	return total, err
}

func writeError(rel string, err error) error {
	switch {
	case errors.Is(err, ErrLink), errors.Is(err, ErrNotRegular), errors.Is(err, ErrMoved), errors.Is(err, ErrNotGranted), errors.Is(err, fs.ErrNotExist):
		return fault.Deniedf("%s cannot be written: it is not a regular file.", rel).WithCause(err)
	}
	return fault.Internalf(err, "%s could not be written.", rel)
}
