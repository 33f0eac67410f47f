// Package rootfs opens files for code nobody trusts: only regular files below granted
// folders, never through a symbolic link, never in folders that are forbidden to all. It
// opens each folder of a path in turn with os.Root, so that what was checked is what is
// read, even when somebody renames things meanwhile. backend/tools uses it for helix.fs.
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

// FS reads below granted paths. It is safe for use by many goroutines.
type FS struct {
	grants []string
	denied []string
}

// New makes an FS. grants are absolute paths of folders, which cover everything below
// them, or of single files. denied are folders that are refused even below a grant:
// Helix's own data, cache and runtime folders. The system's /proc, /sys and /dev are
// always refused.
func New(grants, denied []string) *FS {
	f := &FS{denied: append(slices.Clone(denied), systemFolders...)}
	for _, g := range grants {
		if filepath.IsAbs(g) {
			f.grants = append(f.grants, filepath.Clean(g))
		}
	}
	return f
}

// Entry is one name in a folder.
type Entry struct {
	Name     string
	Size     int64
	IsDir    bool
	Modified time.Time
}

// Errors of a path that may not be opened. They are the cause of a Denied error.
var (
	ErrNotGranted = errors.New("outside the granted paths")
	ErrLink       = errors.New("symbolic link")
	ErrNotRegular = errors.New("not a regular file")
	ErrForbidden  = errors.New("forbidden folder")
	ErrMoved      = errors.New("changed while it was opened")
)

// Read returns a file's content. Denied: outside the grants, through a link, no regular
// file, or in a forbidden folder. NotFound: no such file. Limit: larger than max bytes.
func (f *FS) Read(path string, max int64) ([]byte, error) {
	parent, name, err := f.walk(path)
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	file, err := openRegular(parent, name)
	if err != nil {
		return nil, pathError(path, err)
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, max+1))
	if err != nil {
		return nil, pathError(path, err)
	}
	if int64(len(b)) > max {
		return nil, fault.Limitf("The file %s is larger than %d bytes.", path, max)
	}
	return b, nil
}

// List returns a folder's entries in name order. Links are listed with size 0 and cannot
// be read. Limit: more than max entries.
func (f *FS) List(path string, max int) ([]Entry, error) {
	parent, name, err := f.walk(path)
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	dir := parent
	if name != "." {
		if dir, err = f.enter(parent, name); err != nil {
			return nil, pathError(path, err)
		}
		defer dir.Close()
	}
	h, err := dir.Open(".")
	if err != nil {
		return nil, pathError(path, err)
	}
	defer h.Close()
	names, err := h.ReadDir(max + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, pathError(path, err)
	}
	if len(names) > max {
		return nil, fault.Limitf("The folder %s holds more than %d entries.", path, max)
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

// Granted reports whether path is at or below a grant, by its words only.
func (f *FS) Granted(path string) bool {
	_, _, ok := f.split(path)
	return ok
}

// split finds the grant that covers path and the rest of the path below it.
func (f *FS) split(path string) (grant, rest string, ok bool) {
	if !filepath.IsAbs(path) || strings.ContainsRune(path, 0) || path != filepath.Clean(path) && hasDots(path) {
		return "", "", false
	}
	path = filepath.Clean(path)
	for _, g := range f.grants {
		rel, err := filepath.Rel(g, path)
		if err == nil && filepath.IsLocal(rel) {
			return g, rel, true
		}
	}
	return "", "", false
}

func hasDots(path string) bool {
	return slices.Contains(strings.FieldsFunc(path, func(r rune) bool { return r == '/' || r == filepath.Separator }), "..")
}

// walk opens the folder that holds path. name is the last part, or "." for the grant.
func (f *FS) walk(path string) (parent *os.Root, name string, err error) {
	grant, rest, ok := f.split(path)
	if !ok {
		return nil, "", pathError(path, ErrNotGranted)
	}
	// A grant is the user's word: a link in it is followed once, here.
	real, err := filepath.EvalSymlinks(grant)
	if err != nil {
		return nil, "", pathError(path, err)
	}
	base := real
	if i, err := os.Lstat(real); err == nil && !i.IsDir() {
		if rest != "." {
			return nil, "", pathError(path, ErrNotGranted)
		}
		base, rest = filepath.Dir(real), filepath.Base(real)
	}
	if err := f.checkAbove(base); err != nil {
		return nil, "", pathError(path, err)
	}
	root, err := os.OpenRoot(base)
	if err != nil {
		return nil, "", pathError(path, err)
	}
	parts := strings.Split(filepath.ToSlash(rest), "/")
	for _, p := range parts[:len(parts)-1] {
		next, err := f.enter(root, p)
		root.Close()
		if err != nil {
			return nil, "", pathError(path, err)
		}
		root = next
	}
	return root, parts[len(parts)-1], nil
}

// checkAbove refuses a folder that is, or lies below, a forbidden one.
func (f *FS) checkAbove(dir string) error {
	for {
		i, err := os.Stat(dir)
		if err != nil {
			return err
		}
		if f.isDenied(i) {
			return ErrForbidden
		}
		up := filepath.Dir(dir)
		if up == dir {
			return nil
		}
		dir = up
	}
}

// isDenied compares with the forbidden folders by what they are, not by name, so that
// another spelling of a name does not help.
func (f *FS) isDenied(i fs.FileInfo) bool {
	for _, d := range f.denied {
		if di, err := os.Stat(d); err == nil && os.SameFile(i, di) {
			return true
		}
	}
	return false
}

// enter opens the folder name in parent, which must be a real folder.
func (f *FS) enter(parent *os.Root, name string) (*os.Root, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	want, err := parent.Lstat(name)
	if err != nil {
		return nil, err
	}
	if want.Mode()&fs.ModeSymlink != 0 {
		return nil, ErrLink
	}
	if !want.IsDir() {
		return nil, fs.ErrNotExist
	}
	if f.isDenied(want) {
		return nil, ErrForbidden
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

func openRegular(parent *os.Root, name string) (*os.File, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	want, err := parent.Lstat(name)
	if err != nil {
		return nil, err
	}
	if want.Mode()&fs.ModeSymlink != 0 {
		return nil, ErrLink
	}
	if !want.Mode().IsRegular() {
		return nil, ErrNotRegular
	}
	// Without blocking, should it have become a FIFO in between.
	file, err := parent.OpenFile(name, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, err
	}
	got, err := file.Stat()
	if err == nil && (!os.SameFile(want, got) || !got.Mode().IsRegular()) {
		err = ErrMoved
	}
	if err == nil {
		err = checkFilesystem(file)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// pathError gives an error the form that crosses interfaces. path is what the caller
// asked for, so showing it tells nothing new.
func pathError(path string, err error) error {
	switch {
	case errors.Is(err, ErrNotGranted):
		return fault.Deniedf("Reading %s is not granted.", path).WithCause(err)
	case errors.Is(err, ErrLink):
		return fault.Deniedf("%s leads through a symbolic link, which is not followed.", path).WithCause(err)
	case errors.Is(err, ErrNotRegular):
		return fault.Deniedf("%s is not a regular file.", path).WithCause(err)
	case errors.Is(err, ErrForbidden):
		return fault.Deniedf("%s lies in a folder that no tool may read.", path).WithCause(err)
	case errors.Is(err, ErrMoved):
		return fault.Deniedf("%s changed while it was opened.", path).WithCause(err)
	case errors.Is(err, fs.ErrNotExist):
		return fault.NotFoundf("There is no %s.", path).WithCause(err)
	case errors.Is(err, fs.ErrPermission):
		return fault.Deniedf("The system does not allow reading %s.", path).WithCause(err)
	}
	return fault.Internalf(err, "%s could not be read.", path)
}
