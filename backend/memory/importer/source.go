package importer

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"helix/backend/fault"
)

// Source is the input: a file or folder by its path, or the bytes of a file.
type Source struct {
	Path string

	Data io.ReaderAt // instead of Path; the caller closes it
	Size int64
	Name string // of Data, or of the file that Path is a copy of; "" if unknown
}

// entry is one file of a source.
type entry struct {
	name     string // path in its folder or archive, with slashes
	size     int64
	modified time.Time // only of a file in a folder
	open     func() (io.ReadCloser, error)
}

// tree is an opened source.
type tree struct {
	entries     []entry // sorted by name
	problems    []Problem
	one         bool   // a single file
	archive     bool   // a zip archive
	fingerprint string // changes when the file changes; "" for a folder
	close       func() error
	inflated    *counter // of an archive
}

var zipMagic = []byte("PK\x03\x04")

func openTree(src Source, large bool) (*tree, error) {
	if src.Path == "" {
		return dataTree(src.Data, src.Size, firstOf(path.Base(filepath.ToSlash(src.Name)), "file"), "", large, func() error { return nil })
	}
	st, err := os.Stat(src.Path)
	if err != nil {
		return nil, openError(err)
	}
	if st.IsDir() {
		return folderTree(src.Path)
	}
	if !st.Mode().IsRegular() {
		return nil, fault.Invalidf("This is neither a file nor a folder.")
	}
	f, err := os.Open(src.Path)
	if err != nil {
		return nil, openError(err)
	}
	print := strconv.FormatInt(st.Size(), 10) + ":" + strconv.FormatInt(st.ModTime().UnixNano(), 10)
	t, err := dataTree(f, st.Size(), path.Base(filepath.ToSlash(firstOf(src.Name, src.Path))), print, large, f.Close)
	if err != nil {
		_ = f.Close()
	}
	return t, err
}

func openError(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fault.NotFoundf("File or folder not found.").WithCause(err)
	case errors.Is(err, fs.ErrPermission):
		return fault.Deniedf("Helix may not read this file or folder.").WithCause(err)
	}
	return fault.Unavailablef("The file cannot be read.").WithCause(err)
}

// dataTree returns the tree of a single file or of the files of an archive.
func dataTree(data io.ReaderAt, size int64, name, print string, large bool, done func() error) (*tree, error) {
	if size > MaxFile {
		return nil, fault.Limitf("The file is larger than 4 GiB.")
	}
	head := make([]byte, len(zipMagic))
	n, err := data.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, openError(err)
	}
	if n == len(head) && string(head) == string(zipMagic) {
		return zipTree(data, size, name, print, large, done)
	}
	open := func() (io.ReadCloser, error) {
		return section{io.NewSectionReader(data, 0, size)}, nil
	}
	return &tree{entries: []entry{{name: name, size: size, open: open}}, one: true, fingerprint: print, close: done}, nil
}

type section struct{ *io.SectionReader }

func (section) Close() error { return nil }

// maxDirectory limits the size of an archive's central directory, which is read into memory before
// its entries can be counted.
const maxDirectory = 24 << 20

// budget is a reader that fails after left bytes.
type budget struct {
	io.ReaderAt
	left int64
	off  bool
}

var errBudget = errors.New("importer: table of contents above the limit")

func (b *budget) ReadAt(p []byte, at int64) (int, error) {
	if !b.off {
		if b.left -= int64(len(p)); b.left < 0 {
			return 0, errBudget
		}
	}
	return b.ReaderAt.ReadAt(p, at)
}

// sizing adds up the size of the files to read from an archive and fails when it needs confirmation.
type sizing struct {
	packed, unpacked int64
	files            int
	allowed          bool
}

// left returns how many bytes may be added without confirmation.
func (s *sizing) left() int64 {
	if s.allowed {
		return MaxInflated - s.unpacked
	}
	return min(askBytes, max(askFrom, askRatio*s.packed)) - s.unpacked
}

// add counts a file to read.
func (s *sizing) add(name string, size int64) error {
	if !importable(name) {
		return nil // not unpacked, such as a picture
	}
	return s.count(size)
}

// count counts a file regardless of its name.
func (s *sizing) count(size int64) error {
	if size > MaxFile {
		return fault.Limitf("The archive has a file that is larger than 4 GiB when it is unpacked. Nothing was imported.")
	}
	left := s.left()
	s.unpacked, s.files = s.unpacked+size, s.files+1
	if size <= left {
		return nil
	}
	if s.allowed {
		return errInflated()
	}
	return fault.Limitf("The archive has %s and would unpack to at least %s. Nothing was imported. Import it only if you know what is in it.", bytesText(s.packed), bytesText(s.unpacked)).
		WithDetails(Large{Code: CodeLarge, PackedBytes: s.packed, UnpackedBytes: s.unpacked, Files: s.files})
}

func errInflated() error {
	return fault.Limitf("The archive is larger than 8 GiB when it is unpacked. Nothing was imported.")
}

// bytesText formats a size for people.
func bytesText(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d KiB", (n+1023)/1024)
}

func zipTree(data io.ReaderAt, size int64, name, print string, large bool, done func() error) (*tree, error) {
	sum := sizing{packed: size, allowed: large}
	data = &budget{ReaderAt: data, left: maxDirectory}
	z, err := zip.NewReader(data, size)
	if errors.Is(err, errBudget) || (err == nil && len(z.File) > MaxEntries) {
		return nil, fault.Limitf("The archive has more than 100,000 entries.").WithCause(err)
	}
	data.(*budget).off = true
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return salvageZip(data, name, print, &sum, done)
	}
	t := &tree{archive: true, fingerprint: print, close: done, inflated: &counter{}}
	var total uint64
	seen := map[string]bool{}
	for _, f := range z.File {
		if f.FileInfo().IsDir() {
			continue
		}
		if total += f.UncompressedSize64; total > MaxInflated || f.UncompressedSize64 > MaxInflated {
			return nil, errInflated()
		}
		why := refuseName(f.Name)
		if why == "" && f.Flags&1 != 0 {
			why = "This file is encrypted and was skipped."
		}
		if why == "" && seen[f.Name] {
			why = "Several files have this name; only the first was read."
		}
		if why != "" {
			t.problems = append(t.problems, Problem{File: line(f.Name), Message: why})
			continue
		}
		seen[f.Name] = true
		if hidden(f.Name) {
			continue
		}
		if err := sum.add(f.Name, int64(f.UncompressedSize64)); err != nil {
			return nil, err
		}
		t.entries = append(t.entries, entry{name: f.Name, size: int64(f.UncompressedSize64), open: func() (io.ReadCloser, error) {
			r, err := f.Open()
			if err != nil {
				return nil, err
			}
			return &inflater{ReadCloser: r, left: int64(f.UncompressedSize64), all: t.inflated}, nil
		}})
	}
	t.sort()
	return t, nil
}

// refuseName returns the reason why an entry of an archive is not read, or "".
func refuseName(name string) string {
	switch {
	case !fs.ValidPath(name) || strings.ContainsAny(name, "\\\x00") || (len(name) > 1 && name[1] == ':'):
		return "The path of this file points outside the archive."
	case strings.EqualFold(path.Ext(name), ".zip"):
		return "Archives inside archives are not read."
	}
	return ""
}

// hidden reports whether a file, or a folder that contains it, is hidden or generated by the
// operating system.
func hidden(name string) bool {
	for _, part := range strings.Split(name, "/") {
		if strings.HasPrefix(part, ".") || part == "__MACOSX" {
			return true
		}
	}
	return false
}

// counter counts the bytes that were actually decompressed, whatever the central directory says.
type counter struct{ n int64 }

// inflater reads an entry up to the size that the archive declares, which sizing relies on. An
// entry with more data is an error.
type inflater struct {
	io.ReadCloser
	left int64
	all  *counter
}

func (r *inflater) Read(p []byte) (int, error) {
	if int64(len(p)) > r.left+1 {
		p = p[:r.left+1]
	}
	n, err := r.ReadCloser.Read(p)
	r.all.n += int64(n)
	if r.left -= int64(n); r.left < 0 {
		return n - 1, zip.ErrFormat
	}
	return n, err
}

// folderTree lists the files below dir. It follows symbolic links only to files inside dir, which
// rules out cycles.
func folderTree(dir string) (*tree, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, openError(err)
	}
	t := &tree{close: root.Close}
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && name == ".":
			return err
		case err != nil:
			t.problems = append(t.problems, Problem{File: name, Message: "This folder cannot be read."})
			return fs.SkipDir
		case name == ".":
			return nil
		case strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			return nil
		}
		st, err := root.Stat(filepath.FromSlash(name))
		if err != nil {
			why := "This file cannot be read."
			if d.Type()&fs.ModeSymlink != 0 {
				why = "This link points outside the folder or is broken."
			}
			t.problems = append(t.problems, Problem{File: name, Message: why})
			return nil
		}
		if !st.Mode().IsRegular() {
			return nil
		}
		if st.Size() > MaxFile {
			t.problems = append(t.problems, Problem{File: name, Message: "This file is larger than 4 GiB and was skipped."})
			return nil
		}
		if len(t.entries) == MaxEntries {
			return fault.Limitf("The folder has more than 100,000 files.")
		}
		t.entries = append(t.entries, entry{name: name, size: st.Size(), modified: st.ModTime(), open: func() (io.ReadCloser, error) {
			return root.Open(filepath.FromSlash(name))
		}})
		return nil
	})
	if err != nil {
		_ = root.Close()
		if f := (*fault.Error)(nil); errors.As(err, &f) {
			return nil, f
		}
		return nil, openError(err)
	}
	t.sort()
	return t, nil
}

func (t *tree) sort() {
	slices.SortFunc(t.entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
}
