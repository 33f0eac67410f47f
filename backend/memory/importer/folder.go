package importer

import (
	"crypto/sha256"
	"io"
	"strings"
	"time"

	"helix/backend/fault"
)

// File is a file in a folder.
type File struct {
	Name     string // path in the folder, with slashes
	Size     int64
	Modified time.Time
}

// Folder is a listed folder of notes. The caller must close it.
type Folder struct {
	Format string // Markdown or Text
	Files  []File // the files of this format, sorted by name

	tree    *tree
	entries []entry
}

// OpenFolder lists the notes of a folder without reading them. format is Markdown, Text, or Auto,
// which selects the format that the folder contains, or Markdown if it contains neither.
func OpenFolder(dir, format string) (*Folder, error) {
	t, err := folderTree(dir)
	if err != nil {
		return nil, err
	}
	f := &Folder{tree: t, Format: format}
	if format == Auto {
		f.Format = Markdown
	}
	f.take()
	if format == Auto && len(f.Files) == 0 {
		if f.Format = Text; !f.take() {
			f.Format = Markdown
		}
	}
	return f, nil
}

// take lists the files of the format of f and reports whether there are any.
func (f *Folder) take() bool {
	for _, e := range f.tree.entries {
		if fits(e.name, f.Format) {
			f.entries = append(f.entries, e)
			f.Files = append(f.Files, File{Name: e.name, Size: e.size, Modified: e.modified})
		}
	}
	return len(f.Files) > 0
}

// Hash returns the SHA-256 of the content of Files[i].
func (f *Folder) Hash(i int) (sum [32]byte, err error) {
	r, err := f.entries[i].open()
	if err != nil {
		return sum, openError(err)
	}
	defer r.Close()
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return sum, fault.Unavailablef("%s cannot be read.", f.Files[i].Name).WithCause(err)
	}
	return [32]byte(h.Sum(nil)), nil
}

// Unreadable reports whether a file, or a folder that contains it, could not be read, so that it is
// unknown whether the file still exists.
func (f *Folder) Unreadable(name string) bool {
	for _, p := range f.tree.problems {
		if p.File == name || strings.HasPrefix(name, p.File+"/") {
			return true
		}
	}
	return false
}

// Close releases the resources of the folder.
func (f *Folder) Close() error { return f.tree.close() }
