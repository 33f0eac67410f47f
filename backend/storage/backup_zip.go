package storage

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash"
	"io"
	"os"
	"path"
	"strings"

	"helix/backend/fault"
)

// Limits on a backup from an untrusted source.
const (
	maxManifest  = 256 << 20 // bytes; 10⁵ files need about 15 MB
	maxEntries   = 1 << 20
	maxInflation = 20 // maximum ratio of the declared size to the size of the file
)

// zipWriter writes entries and collects their hashes. Hashing and writing run concurrently because
// each takes about as long as the other.
type zipWriter struct {
	ctx      context.Context
	z        *zip.Writer
	whole    *hashing
	m        *Manifest
	written  int64
	progress func(int64)
}

func newZipWriter(ctx context.Context, out io.Writer, m *Manifest, progress func(int64)) *zipWriter {
	whole := newHashing(out)
	return &zipWriter{ctx: ctx, z: zip.NewWriter(whole), whole: whole, m: m, progress: progress}
}

// add writes one entry. Compress only small text: a database or audio shrinks little, and
// compressing costs seconds per gigabyte.
func (w *zipWriter) add(name string, r io.Reader, compress bool) error {
	h := &zip.FileHeader{Name: name, Method: zip.Store, Modified: w.m.CreatedAt}
	if compress {
		h.Method = zip.Deflate
	}
	e, err := w.z.CreateHeader(h)
	if err != nil {
		return err
	}
	entry := newHashing(e)
	defer entry.stop()
	n, err := io.CopyBuffer(struct{ io.Writer }{entry}, &countingReader{ctx: w.ctx, r: r, from: w.written, progress: w.progress}, make([]byte, chunk))
	if err != nil {
		return err
	}
	w.written += n
	w.m.Files = append(w.m.Files, ManifestFile{Path: name, SHA256: hex.EncodeToString(entry.sum()), Size: n})
	return nil
}

func (w *zipWriter) addFile(name, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	return w.add(name, f, !strings.HasPrefix(name, dirBlobs))
}

// finish writes the manifest and the zip directory, and returns the hash of the whole file.
func (w *zipWriter) finish() ([]byte, error) {
	b, err := json.MarshalIndent(w.m, "", " ")
	if err != nil {
		return nil, err
	}
	e, err := w.z.CreateHeader(&zip.FileHeader{Name: nameManifest, Method: zip.Deflate, Modified: w.m.CreatedAt})
	if err != nil {
		return nil, err
	}
	if _, err := e.Write(b); err != nil {
		return nil, err
	}
	if err := w.z.Close(); err != nil {
		return nil, err
	}
	return w.whole.sum(), nil
}

func (w *zipWriter) stop() { w.whole.stop() }

// chunk is the buffer size for copying, in bytes.
const chunk = 1 << 20

// hashing is a writer that passes data on while another goroutine hashes it.
type hashing struct {
	w    io.Writer
	h    hash.Hash
	in   chan []byte
	back chan struct{}
	done bool
}

func newHashing(w io.Writer) *hashing {
	h := &hashing{w: w, h: sha256.New(), in: make(chan []byte), back: make(chan struct{})}
	go func() {
		for b := range h.in {
			h.h.Write(b)
			h.back <- struct{}{}
		}
		close(h.back)
	}()
	return h
}

func (h *hashing) Write(p []byte) (int, error) {
	if len(p) < 4096 { // not worth a goroutine switch
		h.h.Write(p)
		return h.w.Write(p)
	}
	h.in <- p
	n, err := h.w.Write(p)
	<-h.back // p may change once Write has returned
	return n, err
}

func (h *hashing) sum() []byte { h.stop(); return h.h.Sum(nil) }

func (h *hashing) stop() {
	if !h.done {
		h.done = true
		close(h.in)
		<-h.back
	}
}

// countingReader reports progress and fails when ctx ends.
type countingReader struct {
	ctx      context.Context
	r        io.Reader
	from     int64
	progress func(int64)
}

func (c *countingReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := c.r.Read(p)
	c.from += int64(n)
	if c.progress != nil {
		c.progress(c.from)
	}
	return n, err
}

// backupReader is an open backup whose directory has been checked.
type backupReader struct {
	f        *os.File
	entries  map[string]*zip.File
	manifest Manifest
}

func (b *backupReader) close() { _ = b.f.Close() }

func badBackup(entry, format string, args ...any) *fault.Error {
	e := fault.Invalidf(format, args...)
	if entry != "" {
		e.Details = map[string]string{"entry": entry}
	}
	return e
}

// openBackup reads the directory and the manifest. It refuses what must not be unpacked: names that
// leave the folder, duplicate names, sizes that disagree or would fill the disk, and formats of a
// later Helix. It does not read any content yet.
func openBackup(file string) (_ *backupReader, err error) {
	f, err := os.Open(file)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil, fault.NotFoundf("Backup not found.")
		}
		return nil, fault.Invalidf("The backup cannot be read.").WithCause(err)
	}
	b := &backupReader{f: f, entries: map[string]*zip.File{}}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() {
		return nil, badBackup("", "The backup is not a file.")
	}
	z, err := zip.NewReader(f, fi.Size())
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return nil, badBackup("", "The file is not a backup, or it was cut off.").WithCause(err)
	}
	if len(z.File) > maxEntries {
		return nil, badBackup("", "The backup has too many entries (%d).", len(z.File))
	}
	for _, e := range z.File {
		if !safeName(e.Name) {
			return nil, badBackup(e.Name, "The backup has an entry %q that points outside its folder.", e.Name)
		}
		if _, dup := b.entries[e.Name]; dup {
			return nil, badBackup(e.Name, "The backup has two entries named %q.", e.Name)
		}
		b.entries[e.Name] = e
	}
	if err := b.readManifest(); err != nil {
		return nil, err
	}
	return b, b.checkSizes(fi.Size())
}

// safeName reports whether n is a plain relative slash-separated path that means the same on every
// system.
func safeName(n string) bool {
	if n == "" || len(n) > 1024 || path.IsAbs(n) || path.Clean(n) != n || n == ".." || strings.HasPrefix(n, "../") {
		return false
	}
	return !strings.ContainsAny(n, "\\:\x00")
}

func (b *backupReader) readManifest() error {
	e := b.entries[nameManifest]
	if e == nil {
		return badBackup(nameManifest, "The file is not a backup: it has no manifest.")
	}
	if e.UncompressedSize64 > maxManifest {
		return badBackup(nameManifest, "The manifest of the backup is too big.")
	}
	r, err := e.Open()
	if err != nil {
		return badBackup(nameManifest, "The manifest of the backup cannot be read.").WithCause(err)
	}
	defer r.Close()
	raw, err := io.ReadAll(io.LimitReader(r, maxManifest+1))
	if err != nil || len(raw) > maxManifest {
		return badBackup(nameManifest, "The manifest of the backup cannot be read.").WithCause(err)
	}
	m, err := parseManifest(raw)
	if err != nil {
		return err
	}
	b.manifest = m
	return nil
}

// parseManifest reads manifest.json and checks that every listed file has a safe name, a hash and a
// size, and is listed once.
func parseManifest(raw []byte) (m Manifest, err error) {
	if err := json.NewDecoder(bytes.NewReader(raw)).Decode(&m); err != nil {
		return m, badBackup(nameManifest, "The manifest of the backup cannot be read.").WithCause(err)
	}
	if m.Format != backupFormat {
		return m, badBackup(nameManifest, "The backup has format %d; this Helix reads format %d.", m.Format, backupFormat)
	}
	seen := make(map[string]bool, len(m.Files))
	for _, f := range m.Files {
		sum, err := hex.DecodeString(f.SHA256)
		if !safeName(f.Path) || err != nil || len(sum) != sha256.Size || f.Size < 0 || f.Path == nameManifest || seen[f.Path] {
			return m, badBackup(f.Path, "The manifest of the backup has a bad entry %q.", f.Path)
		}
		seen[f.Path] = true
	}
	if !seen[nameDB] {
		return m, badBackup(nameDB, "The backup holds no database.")
	}
	return m, nil
}

// checkSizes compares the manifest with the zip directory and with the size of the file.
func (b *backupReader) checkSizes(fileSize int64) error {
	if len(b.entries) != len(b.manifest.Files)+1 {
		for n := range b.entries {
			if !b.manifest.has(n) && n != nameManifest && len(b.entries) < 1000 {
				return badBackup(n, "The backup has an entry %q that its manifest does not list.", n)
			}
		}
		return badBackup("", "The backup and its manifest list different files.")
	}
	var total int64
	for _, f := range b.manifest.Files {
		e := b.entries[f.Path]
		if e == nil {
			return badBackup(f.Path, "The backup lacks %q.", f.Path)
		}
		if e.UncompressedSize64 != uint64(f.Size) {
			return badBackup(f.Path, "The size of %q is not the one in the manifest.", f.Path)
		}
		if total += f.Size; total < 0 || total/maxInflation > fileSize {
			return badBackup(f.Path, "The backup would unpack to far more than its size, at %q.", f.Path)
		}
	}
	return nil
}

// unpackedSize returns the disk space that extracting needs, in bytes.
func (b *backupReader) unpackedSize() (n int64) {
	for _, f := range b.manifest.Files {
		n += f.Size
	}
	return n
}

// copyTo writes the content of f to w and checks its size and hash.
func (b *backupReader) copyTo(ctx context.Context, f ManifestFile, w io.Writer, progress func(int64)) error {
	r, err := b.entries[f.Path].Open()
	if err != nil {
		return badBackup(f.Path, "%q in the backup cannot be read.", f.Path).WithCause(err)
	}
	defer r.Close()
	h := newHashing(w)
	defer h.stop()
	out := &writeFailure{w: h}
	n, err := io.CopyBuffer(struct{ io.Writer }{out}, &countingReader{ctx: ctx, r: io.LimitReader(r, f.Size+1), progress: progress}, make([]byte, min(chunk, max(512, f.Size+1))))
	switch {
	case out.err != nil:
		return fullDisk(out.err)
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return badBackup(f.Path, "%q in the backup is damaged.", f.Path).WithCause(err)
	case n != f.Size:
		return badBackup(f.Path, "The size of %q is not the one in the manifest.", f.Path)
	case hex.EncodeToString(h.sum()) != strings.ToLower(f.SHA256):
		return badBackup(f.Path, "%q in the backup does not have the content that was saved.", f.Path)
	}
	return nil
}

// writeFailure marks an error as a failure of the target, not of the backup.
type writeFailure struct {
	w   io.Writer
	err error
}

func (w *writeFailure) Write(p []byte) (int, error) {
	n, err := w.w.Write(p)
	if err != nil {
		w.err = err
	}
	return n, err
}

// extract writes the content of f to a new file at target and syncs it.
func (b *backupReader) extract(ctx context.Context, f ManifestFile, target string, progress func(int64)) (err error) {
	if err := os.MkdirAll(dirOf(target), 0o700); err != nil {
		return fullDisk(err)
	}
	out, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fullDisk(err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if err := b.copyTo(ctx, f, out, progress); err != nil {
		return err
	}
	return fullDisk(out.Sync())
}
