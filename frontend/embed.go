// Package frontend holds the built interface. Only the two main packages import it and pass the
// tree on; everything else receives an fs.FS.
package frontend

import (
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/binary"
	"io"
	"io/fs"
	"path"
)

// packed is the output of "npm run build", each file compressed. On a clone where the interface was
// not built yet it holds only a placeholder file, so that the program compiles.
//
//go:embed all:packed
var packed embed.FS

// FS returns the built interface with index.html at its root. Its files are decompressed when they
// are opened: a page reads each once.
func FS() fs.FS { return unpacked{packed} }

// unpacked shows a tree of gzip files as the files that they contain.
type unpacked struct{ fs.FS }

// Open implements fs.FS.
func (u unpacked) Open(name string) (fs.File, error) {
	info, zipped, err := u.find(name)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	if info.IsDir() {
		return u.FS.Open(path.Join("packed", name))
	}
	r, err := gzip.NewReader(bytes.NewReader(zipped))
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	content, err := io.ReadAll(r)
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return &file{bytes.NewReader(content), info}, nil
}

// Stat implements fs.StatFS without decompressing the file.
func (u unpacked) Stat(name string) (fs.FileInfo, error) {
	info, _, err := u.find(name)
	if err != nil {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	return info, nil
}

// find returns a folder, or a file with its compressed content.
func (u unpacked) find(name string) (info fs.FileInfo, zipped []byte, err error) {
	if !fs.ValidPath(name) {
		return nil, nil, fs.ErrInvalid
	}
	at := path.Join("packed", name)
	if info, err := fs.Stat(u.FS, at); err == nil && info.IsDir() {
		return info, nil, nil
	}
	if info, err = fs.Stat(u.FS, at+".gz"); err != nil {
		return nil, nil, fs.ErrNotExist
	}
	zipped, err = fs.ReadFile(u.FS, at+".gz")
	if err != nil {
		return nil, nil, err
	}
	if len(zipped) < 4 {
		return nil, nil, io.ErrUnexpectedEOF
	}
	length := binary.LittleEndian.Uint32(zipped[len(zipped)-4:]) // gzip ends with it
	return size{info, path.Base(name), int64(length)}, zipped, nil
}

// file is an opened file. It can be read at any place, as HTTP ranges need.
type file struct {
	*bytes.Reader
	info fs.FileInfo
}

// Stat implements fs.File.
func (f *file) Stat() (fs.FileInfo, error) { return f.info, nil }

// Close implements fs.File.
func (*file) Close() error { return nil }

// size describes the content of a compressed file.
type size struct {
	fs.FileInfo
	name string
	size int64
}

// Name implements fs.FileInfo.
func (s size) Name() string { return s.name }

// Size implements fs.FileInfo.
func (s size) Size() int64 { return s.size }
