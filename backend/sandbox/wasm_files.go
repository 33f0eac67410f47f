package sandbox

import (
	"encoding/binary"
	"encoding/json"
	"hash/fnv"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"helix/backend/fault"
)

// The operations behind a module's file access. They reach Host.Call like those in hostapi.go, and
// the host decides about each path again:
//
//	opening or listing            op              request       answer
//	the folders that were given   "fs.folders"    {}            FoldersResponse
//	a file                        "fs.readBytes"  PathRequest   BytesResponse
//	a folder                      "fs.list"       PathRequest   ListResponse
//
// With a host that lacks fs.folders, a module has no folders. Requesting them does not count as a
// host call of the run; opening does.
const (
	OpFolders   = "fs.folders"
	OpReadBytes = "fs.readBytes"
)

// Folder is a folder that a module may read. Name is the guest's name for it, an absolute path with
// slashes; empty: Path.
type Folder struct {
	Name string `json:"name,omitempty"`
	Path string `json:"path"`
}

// FoldersResponse lists the folders that the run may read.
type FoldersResponse struct {
	Folders []Folder `json:"folders"`
}

// BytesResponse is the content of a file, in JSON as Base64. Modified is RFC 3339 and may be empty.
type BytesResponse struct {
	Content  []byte `json:"content"`
	Modified string `json:"modified,omitempty"`
}

// Limits on a module's files.
const (
	maxFolders   = 16
	maxOpenBytes = 16 << 20 // total size of the contents of open files
	maxGuestPath = 4096
)

// Flags of path_open.
const (
	openCreate    = 1
	openDirectory = 2
	openExclusive = 4
	openTruncate  = 8
)

func (w *moduleRun) file(fd uint64) *openFile {
	if uint32(fd) > 2 {
		w.preopenFolders()
	}
	return w.files.get(uint32(fd))
}

// preopenFolders opens the folders that the host provides, when the guest first asks for one.
func (w *moduleRun) preopenFolders() {
	if w.foldersGiven {
		return
	}
	w.foldersGiven = true
	if w.c.Host == nil {
		return
	}
	var r FoldersResponse
	if resp, err := w.await(OpFolders, json.RawMessage("{}")); err != nil || json.Unmarshal(resp, &r) != nil {
		return
	}
	for i, f := range r.Folders {
		if i == maxFolders || !filepath.IsAbs(f.Path) {
			return
		}
		name := f.Name
		if name == "" {
			name = filepath.ToSlash(f.Path)
		}
		if _, ok := w.files.add(&openFile{kind: fileDirectory, std: -1, path: filepath.Clean(f.Path), name: name}); !ok {
			return
		}
	}
}

// prestat reports to the guest which descriptors are preopened folders.
func (w *moduleRun) prestat(f *openFile, m guestMemory, p []uint64) errno {
	if f.name == "" {
		return errnoBadf
	}
	var b [8]byte
	binary.LittleEndian.PutUint32(b[4:], uint32(len(f.name)))
	return m.put(p[1], b[:])
}

func (w *moduleRun) prestatName(f *openFile, m guestMemory, p []uint64) errno {
	if f.name == "" {
		return errnoBadf
	}
	if uint32(p[2]) < uint32(len(f.name)) {
		return errnoNametoo
	}
	return m.put(p[1], []byte(f.name))
}

// locate returns the path that a guest's path below a folder refers to. It cannot refer to anything
// above the folder; links are refused when the path is opened.
func (w *moduleRun) locate(m guestMemory, fd, at, n uint64) (path string, e errno) {
	dir := w.file(fd)
	switch {
	case dir == nil:
		return "", errnoBadf
	case dir.kind != fileDirectory:
		return "", errnoNotdir
	case uint32(n) > maxGuestPath:
		return "", errnoNametoo
	}
	b, ok := m.bytes(at, n)
	if !ok {
		return "", errnoFault
	}
	name := string(b)
	switch {
	case name == "":
		return "", errnoNoent
	case !utf8.ValidString(name):
		return "", errnoIlseq
	case strings.ContainsAny(name, "\x00\\"), strings.HasPrefix(name, "/"):
		return "", errnoNotcapable
	}
	var parts []string
	for _, s := range strings.Split(name, "/") {
		switch s {
		case "", ".":
		case "..":
			if len(parts) == 0 {
				return "", errnoNotcapable
			}
			parts = parts[:len(parts)-1]
		default:
			parts = append(parts, s)
		}
	}
	if rel := filepath.Join(parts...); rel != "" && !filepath.IsLocal(rel) {
		return "", errnoNotcapable
	}
	return filepath.Join(append([]string{dir.path}, parts...)...), errnoOK
}

func (w *moduleRun) pathOpen(m guestMemory, p []uint64) errno {
	path, e := w.locate(m, p[0], p[2], p[3])
	if e != errnoOK {
		return e
	}
	flags := uint32(p[4])
	if flags&(openCreate|openExclusive|openTruncate) != 0 || flags&openDirectory == 0 && p[5]&rightWrite != 0 {
		return errnoRofs
	}
	if _, ok := m.Read(uint32(p[8]), 4); !ok {
		return errnoFault
	}
	f := &openFile{std: -1, path: path}
	if flags&openDirectory != 0 {
		e = w.openFolder(f)
	} else if e = w.openRegular(f); e == errnoIsdir {
		e = w.openFolder(f)
	}
	if e != errnoOK {
		return e
	}
	fd, ok := w.files.add(f)
	if !ok {
		return errnoNfile
	}
	w.files.bytes += int64(len(f.content))
	return m.put32(p[8], fd)
}

func (w *moduleRun) openRegular(f *openFile) errno {
	var r BytesResponse
	if e := w.askFile(OpReadBytes, f.path, &r); e != errnoOK {
		return e
	}
	if w.files.bytes+int64(len(r.Content)) > maxOpenBytes {
		return errnoNfile
	}
	f.kind, f.content, f.time = fileRegular, r.Content, nanoseconds(r.Modified)
	return errnoOK
}

func (w *moduleRun) openFolder(f *openFile) errno {
	var r ListResponse
	if e := w.askFile(OpList, f.path, &r); e != errnoOK {
		if e == errnoIsdir { // the host's error for a file of another type
			e = errnoNotdir
		}
		return e
	}
	f.kind, f.list = fileDirectory, r.Entries
	if f.list == nil {
		f.list = []DirEntry{}
	}
	return errnoOK
}

// askFile sends a request about a path to the host.
func (w *moduleRun) askFile(op, path string, answer any) errno {
	if _, refused := w.take(op); refused != "" {
		w.refusal = limitRefusal(refused)
		return errnoNfile
	}
	resp, err := w.await(op, jsonObject(PathRequest{path}))
	w.refusal = nil
	if err == nil {
		if json.Unmarshal(resp, answer) != nil {
			return errnoIO
		}
		return errnoOK
	}
	f := fault.As(err)
	switch f.Kind {
	case fault.Denied:
		w.refusal = deniedError(f)
		return errnoAcces
	case fault.NotFound:
		return errnoNoent
	case fault.Invalid:
		return errnoIsdir
	case fault.Limit:
		return errnoFbig
	}
	return errnoIO
}

func (w *moduleRun) pathFileStat(m guestMemory, p []uint64) errno {
	path, e := w.locate(m, p[0], p[2], p[3])
	if e != errnoOK {
		return e
	}
	if path == w.file(p[0]).path {
		return m.put(p[4], fileStat(fileDirectory, 0, 0, path))
	}
	up := &openFile{path: filepath.Dir(path)}
	if e := w.openFolder(up); e != errnoOK {
		return e
	}
	for _, d := range up.list {
		if d.Name == filepath.Base(path) {
			kind := byte(fileRegular)
			if d.IsDir {
				kind = fileDirectory
			}
			return m.put(p[4], fileStat(kind, d.Size, nanoseconds(d.Modified), path))
		}
	}
	return errnoNoent
}

// pathReadlink reports that nothing is a link, because links cannot be followed.
func (w *moduleRun) pathReadlink(m guestMemory, p []uint64) errno {
	if _, e := w.locate(m, p[0], p[1], p[2]); e != errnoOK {
		return e
	}
	return errnoInval
}

func (w *moduleRun) fdReaddir(f *openFile, m guestMemory, p []uint64) errno {
	if f.kind != fileDirectory {
		return errnoNotdir
	}
	buf, ok := m.bytes(p[1], p[2])
	if !ok {
		return errnoFault
	}
	if f.list == nil {
		if e := w.openFolder(f); e != errnoOK {
			return e
		}
	}
	n := 0
	for i := p[3]; i < uint64(len(f.list)) && n < len(buf); i++ {
		n += copy(buf[n:], dirent(f.path, f.list[i], i+1))
	}
	return m.put32(p[4], uint32(n))
}

// dirent encodes one entry for fd_readdir; next is the cookie of the following one.
func dirent(dir string, d DirEntry, next uint64) []byte {
	b := make([]byte, 24, 24+len(d.Name))
	binary.LittleEndian.PutUint64(b, next)
	binary.LittleEndian.PutUint64(b[8:], inode(filepath.Join(dir, d.Name)))
	binary.LittleEndian.PutUint32(b[16:], uint32(len(d.Name)))
	b[20] = fileRegular
	if d.IsDir {
		b[20] = fileDirectory
	}
	return append(b, d.Name...)
}

// inode returns a number for a path. It is never zero, which some programs interpret as "unknown".
func inode(path string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(path))
	return h.Sum64() | 1
}

func nanoseconds(rfc3339 string) int64 {
	t, err := time.Parse(time.RFC3339, rfc3339)
	if err != nil || t.Unix() <= 0 {
		return 0
	}
	return t.UnixNano()
}
