package storage

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	sqlite3 "modernc.org/sqlite/lib"
)

// space is the disk space of the file system that holds a path, in bytes.
type space struct{ Free, Total int64 }

// syncDir makes renames and removals in dir durable. Windows has no such call; its file systems
// journal names themselves.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	if isWindows && err != nil {
		return nil
	}
	return err
}

// syncFile makes the content of the file at path durable.
func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// copyFile copies src to the new file dst with mode 0600 and makes it durable. The bytes are also
// written to the extra writers.
func copyFile(dst, src string, also ...io.Writer) (err error) {
	in, err := os.Open(src)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(dst, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if len(also) == 0 {
		_, err = io.Copy(out, in) // the kernel copies, and shares blocks where possible
	} else {
		_, err = io.CopyBuffer(struct{ io.Writer }{io.MultiWriter(append([]io.Writer{out}, also...)...)}, in, make([]byte, 1<<20))
	}
	if err != nil {
		return err
	}
	return out.Sync()
}

// writeFileSafe replaces path through a temporary file, so that after a crash the file has either
// the old or the new content.
func writeFileSafe(path string, data []byte) (err error) {
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	if err = os.Rename(tmp, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// fileSize returns the size of the file at path, or 0 if it does not exist.
func fileSize(path string) int64 {
	fi, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return fi.Size()
}

// exists reports whether something is at path.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// dirSize adds up the files below dir.
func dirSize(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		if fi, err := d.Info(); err == nil {
			n += fi.Size()
		}
		return nil
	})
	return n
}

// stampLayout formats the UTC time in file names so that names sort by age.
const stampLayout = "20060102T150405Z"

func stamp(t time.Time) string { return t.UTC().Format(stampLayout) }

// freshName returns dir/prefix<time>ext, with a number added if that name is taken.
func freshName(dir, prefix string, t time.Time, ext string) string {
	name := filepath.Join(dir, prefix+stamp(t)+ext)
	for i := 2; exists(name); i++ {
		name = filepath.Join(dir, prefix+stamp(t)+"-"+strconv.Itoa(i)+ext)
	}
	return name
}

func dirOf(path string) string { return filepath.Dir(path) }

func joinPath(dir, name string) string { return filepath.Join(dir, name) }

// readDirIf lists a folder; a missing folder is empty.
func readDirIf(dir string) ([]fs.DirEntry, error) {
	es, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return es, err
}

// isFull reports whether err means that the disk or the quota is full.
func isFull(err error) bool {
	return err != nil && (errors.Is(err, errNoSpace) || errors.Is(err, errQuota) || sqliteCode(err)&0xff == sqlite3.SQLITE_FULL)
}

// FreeSpace returns the free bytes on the disk of the database.
func (db *DB) FreeSpace() (int64, error) {
	room, err := diskSpace(dirOf(db.path))
	return room.Free, err
}
