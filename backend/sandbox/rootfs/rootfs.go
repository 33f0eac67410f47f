// Package rootfs opens files for untrusted code. It opens exactly the file or folder that a
// decision was about, never follows a symbolic link, and never opens forbidden folders. The file
// that was decided on is the one that is read, even if somebody replaces a folder by a link
// meanwhile. backend/tools uses it for helix.fs.
package rootfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"helix/backend/fault"
)

// FS reads files by their real paths. It is safe for use by many goroutines.
type FS struct {
	denied []string
	except string
}

// New returns an FS. denied are folders that are refused together with everything below them:
// Helix's own data, cache and runtime folders. The system's /proc, /sys and /dev are always
// refused. except is a folder that may be read although it is below a denied one; "": none.
func New(denied []string, except string) *FS {
	return &FS{denied: append(slices.Clone(denied), systemFolders...), except: except}
}

// Entry is one entry of a folder.
type Entry struct {
	Name     string
	Size     int64
	IsDir    bool
	Modified time.Time
}

// Errors of a path that may not be opened. They are the cause of a Denied error.
var (
	ErrNotReal    = errors.New("not absolute, or with a dot-dot element")
	ErrLink       = errors.New("symbolic link")
	ErrNotRegular = errors.New("neither a regular file nor a folder")
	ErrForbidden  = errors.New("forbidden folder")
	ErrMoved      = errors.New("changed while it was opened")
)

// Open opens the file or folder at path for reading. path must be absolute, with all links already
// resolved, as in the permission decision: a link anywhere on the path is refused. Denied: a link,
// neither a regular file nor a folder, or in a forbidden folder. NotFound: it does not exist.
// Messages do not contain the path.
func (f *FS) Open(path string) (*os.File, fs.FileInfo, error) {
	file, info, err := f.open(path)
	if err != nil {
		return nil, nil, pathError(err)
	}
	return file, info, nil
}

func (f *FS) open(path string) (*os.File, fs.FileInfo, error) {
	if !filepath.IsAbs(path) || strings.ContainsRune(path, 0) || hasDots(path) {
		return nil, nil, ErrNotReal
	}
	path = filepath.Clean(path)
	// Opening a device may already have effects, so check first; the checks that count are those of
	// the open file.
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink == 0 && !readable(info) {
		return nil, nil, ErrNotRegular
	}
	file, err := openExact(path, walk)
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	switch {
	case err != nil:
	case !readable(info):
		err = ErrNotRegular
	default:
		if err = checkFilesystem(file); err == nil {
			err = f.checkAbove(path, info)
		}
	}
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	return file, info, nil
}

// Read returns the content of a file; see Open. Invalid: a folder. Limit: more than max bytes.
func (f *FS) Read(path string, max int64) ([]byte, error) {
	file, info, err := f.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info.IsDir() {
		return nil, fault.Invalidf("This is a folder, not a file.")
	}
	b, err := io.ReadAll(io.LimitReader(file, max+1))
	if err != nil {
		return nil, pathError(err)
	}
	if int64(len(b)) > max {
		return nil, fault.Limitf("The file has more than %d bytes.", max)
	}
	return b, nil
}

// List returns the entries of a folder by name; see Open. Links are listed with size 0 and are not
// followed. Invalid: a file. Limit: more than max entries.
func (f *FS) List(path string, max int) ([]Entry, error) {
	dir, info, err := f.Open(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if !info.IsDir() {
		return nil, fault.Invalidf("This is a file, not a folder.")
	}
	names, err := dir.ReadDir(max + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, pathError(err)
	}
	if len(names) > max {
		return nil, fault.Limitf("The folder has more than %d entries.", max)
	}
	out := make([]Entry, 0, len(names))
	for _, n := range names {
		e := Entry{Name: n.Name(), IsDir: n.IsDir()}
		if i, err := n.Info(); err == nil {
			e.Modified = i.ModTime().UTC()
			if i.Mode().IsRegular() {
				e.Size = i.Size()
			}
		}
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

func readable(i fs.FileInfo) bool { return i.Mode().IsRegular() || i.IsDir() }

func hasDots(path string) bool {
	return slices.Contains(strings.FieldsFunc(path, func(r rune) bool { return r == '/' || r == filepath.Separator }), "..")
}

// walk opens path folder by folder from the root of its disk. It requires read permission for each
// folder on the way.
func walk(path string) (*os.File, error) {
	top := filepath.VolumeName(path) + string(filepath.Separator)
	root, err := os.OpenRoot(top)
	if err != nil {
		return nil, err
	}
	defer func() { root.Close() }()
	parts := strings.FieldsFunc(path[len(top):], func(r rune) bool { return r == filepath.Separator })
	if len(parts) == 0 {
		return root.Open(".")
	}
	for _, p := range parts[:len(parts)-1] {
		next, err := enter(root, p)
		if err != nil {
			return nil, err
		}
		root.Close()
		root = next
	}
	return openLast(root, parts[len(parts)-1])
}

// enter opens the folder name in parent, which must be a real folder.
func enter(parent *os.Root, name string) (*os.Root, error) {
	want, err := lstat(parent, name)
	if err != nil {
		return nil, err
	}
	if !want.IsDir() {
		return nil, fs.ErrNotExist
	}
	dir, err := parent.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	if got, err := dir.Stat("."); err != nil || !os.SameFile(want, got) {
		dir.Close()
		return nil, ErrMoved
	}
	return dir, nil
}

func openLast(parent *os.Root, name string) (*os.File, error) {
	want, err := lstat(parent, name)
	if err != nil {
		return nil, err
	}
	if !readable(want) {
		return nil, ErrNotRegular
	}
	// O_NONBLOCK in case it has become a FIFO in the meantime.
	file, err := parent.OpenFile(name, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, err
	}
	if got, err := file.Stat(); err != nil || !os.SameFile(want, got) {
		file.Close()
		return nil, ErrMoved
	}
	return file, nil
}

func lstat(parent *os.Root, name string) (fs.FileInfo, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	info, err := parent.Lstat(name)
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		err = ErrLink
	}
	return info, err
}

// checkAbove refuses a path that is, or is below, a forbidden folder. It compares the identity of
// folders, not their names, so another spelling or a second mount of one does not help.
func (f *FS) checkAbove(path string, info fs.FileInfo) error {
	denied := make([]fs.FileInfo, 0, len(f.denied))
	for _, d := range f.denied {
		if i, err := os.Stat(d); err == nil {
			denied = append(denied, i)
		}
	}
	var except fs.FileInfo
	if f.except != "" {
		if i, err := os.Lstat(f.except); err == nil && i.IsDir() {
			except = i
		}
	}
	for {
		if except != nil && os.SameFile(except, info) {
			return nil
		}
		if info.IsDir() && slices.ContainsFunc(denied, func(d fs.FileInfo) bool { return os.SameFile(d, info) }) {
			return ErrForbidden
		}
		up := filepath.Dir(path)
		if up == path {
			return nil
		}
		path = up
		var err error
		if info, err = os.Lstat(path); err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return ErrMoved
		}
	}
}

// pathError converts an error to the form that crosses API boundaries.
func pathError(err error) error {
	switch {
	case errors.Is(err, ErrNotReal):
		return fault.Deniedf("The path is not absolute.").WithCause(err)
	case errors.Is(err, ErrLink):
		return fault.Deniedf("The path contains a symbolic link that was added after it was allowed.").WithCause(err)
	case errors.Is(err, ErrNotRegular):
		return fault.Deniedf("Only regular files and folders can be read.").WithCause(err)
	case errors.Is(err, ErrForbidden):
		return fault.Deniedf("This is in a folder that no tool may read.").WithCause(err)
	case errors.Is(err, ErrMoved):
		return fault.Deniedf("The file was replaced while it was being opened.").WithCause(err)
	case errors.Is(err, fs.ErrNotExist):
		return fault.NotFoundf("File not found.").WithCause(err)
	case errors.Is(err, fs.ErrPermission):
		return fault.Deniedf("The system doesn't allow Helix to read this file.").WithCause(err)
	}
	return fault.New(fault.Unavailable, "The file cannot be read.").WithCause(err)
}
