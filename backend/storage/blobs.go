package storage

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"helix/backend/fault"
)

// Ref names a blob by its content.
type Ref struct {
	SHA256 [32]byte
	Size   int64
}

// String is the hash in hex.
func (r Ref) String() string { return hex.EncodeToString(r.SHA256[:]) }

// Blobs keeps large values as files named by their SHA-256; rows hold the hash and size.
// The same content is one file. It is safe for concurrent use.
type Blobs struct {
	dir string
	log *slog.Logger

	mu    sync.Mutex
	ok    map[[32]byte]bool // content verified since the start
	fetch func(context.Context, [32]byte) error
}

func newBlobs(dir string, log *slog.Logger) *Blobs {
	return &Blobs{dir: dir, log: log, ok: map[[32]byte]bool{}}
}

// Blobs returns the blob store beside the database.
func (db *DB) Blobs() *Blobs { return db.blobs }

// Path is where the content named sha is or would be.
func (b *Blobs) path(sha [32]byte) string {
	h := hex.EncodeToString(sha[:])
	return filepath.Join(b.dir, h[:2], h[2:])
}

const tempPrefix = ".tmp-"

// Put stores the content of r and returns its name. When the error is nil the bytes are on disk. A
// full disk is Limit.
func (b *Blobs) Put(ctx context.Context, r io.Reader) (_ Ref, err error) {
	if err := os.MkdirAll(b.dir, 0o700); err != nil {
		return Ref{}, blobError(err)
	}
	tmp := filepath.Join(b.dir, tempPrefix+rand.Text())
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return Ref{}, blobError(err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(tmp)
		}
	}()
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, h), &ctxReader{ctx, r})
	if err != nil {
		return Ref{}, blobError(err)
	}
	ref := Ref{Size: n}
	h.Sum(ref.SHA256[:0])
	if err = errors.Join(f.Sync(), f.Close()); err != nil {
		return Ref{}, blobError(err)
	}
	crashPoint("blob.synced")
	dst := b.path(ref.SHA256)
	if st, e := os.Stat(dst); e == nil && st.Size() == n && b.verified(ref.SHA256) {
		now := time.Now()
		_ = os.Chtimes(dst, now, now) // pruning treats it as newly referenced
		return ref, os.Remove(tmp)
	}
	if err = os.MkdirAll(filepath.Dir(dst), 0o700); err != nil {
		return Ref{}, blobError(err)
	}
	if err = os.Rename(tmp, dst); err != nil {
		return Ref{}, blobError(err)
	}
	crashPoint("blob.renamed")
	if err = errors.Join(syncDir(filepath.Dir(dst)), syncDir(b.dir)); err != nil {
		return Ref{}, blobError(err)
	}
	b.mark(ref.SHA256, true)
	return ref, nil
}

// PutBytes is Put of p.
func (b *Blobs) PutBytes(ctx context.Context, p []byte) (Ref, error) {
	return b.Put(ctx, bytes.NewReader(p))
}

// SetFetch sets the function with which Open gets a blob that this device lacks, for example from
// the hub. It must put the blob or return an error.
func (b *Blobs) SetFetch(fetch func(ctx context.Context, sha [32]byte) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fetch = fetch
}

// Open is OpenLocal, except that it first fetches a blob that is missing or whose bytes have changed,
// if possible. That may take minutes, so it must not be called in a transaction.
func (b *Blobs) Open(ref Ref) (io.ReadSeekCloser, error) {
	f, err := b.OpenLocal(ref)
	b.mu.Lock()
	fetch := b.fetch
	b.mu.Unlock()
	if err == nil {
		return f, nil
	}
	if fetch == nil || !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Unavailable) {
		return nil, err
	}
	if e := fetch(context.Background(), ref.SHA256); e != nil {
		if !fault.Is(e, fault.NotFound) {
			err = e
		}
		return nil, err
	}
	if f, err = b.OpenLocal(ref); err != nil {
		return nil, err
	}
	return f, nil
}

// OpenLocal returns the content of ref; the caller must close it. The hash is checked at the first
// call after a start. A missing blob is NotFound; one whose bytes have changed is moved to the folder
// corrupt and is Unavailable.
func (b *Blobs) OpenLocal(ref Ref) (*os.File, error) {
	f, err := os.Open(b.path(ref.SHA256))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.NotFoundf("The file for this entry isn't on this device.")
	}
	if err != nil {
		return nil, blobError(err)
	}
	if b.verified(ref.SHA256) {
		return f, nil
	}
	if err := b.check(f, ref.SHA256); err != nil {
		f.Close()
		return nil, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		f.Close()
		return nil, blobError(err)
	}
	return f, nil
}

// check verifies the hash of f and moves the file away when the content does not match sha.
func (b *Blobs) check(f *os.File, sha [32]byte) error {
	h := sha256.New()
	_, err := io.Copy(h, f)
	if err == nil && [32]byte(h.Sum(nil)) == sha {
		b.mark(sha, true)
		return nil
	}
	if err != nil && !isMediaError(err) {
		return blobError(err)
	}
	name := hex.EncodeToString(sha[:])
	b.log.Error("blob is corrupt", "sha256", name, "err", err)
	to := filepath.Join(b.dir, "corrupt")
	if e := os.MkdirAll(to, 0o700); e == nil {
		if e := os.Rename(b.path(sha), filepath.Join(to, name+"-"+time.Now().UTC().Format("20060102T150405.000000000"))); e != nil {
			b.log.Error("move corrupt blob", "err", e)
		}
	}
	b.mark(sha, false)
	return fault.Unavailablef("A stored file is damaged. It was moved aside.").WithCause(err)
}

// Has reports whether the content exists; it does not verify it.
func (b *Blobs) Has(ref Ref) bool {
	st, err := os.Stat(b.path(ref.SHA256))
	return err == nil && st.Size() == ref.Size
}

// Remove deletes a blob; a missing blob is not an error. Call it only when no row refers to the
// blob, as pruning does.
func (b *Blobs) Remove(ref Ref) error {
	b.mark(ref.SHA256, false)
	if err := os.Remove(b.path(ref.SHA256)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return blobError(err)
	}
	return nil
}

// Each calls fn for every blob, in order of hash, with the time it was last put. fn may remove the
// blob.
func (b *Blobs) Each(fn func(ref Ref, put time.Time) error) error {
	dirs, err := os.ReadDir(b.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return blobError(err)
	}
	for _, d := range dirs {
		if !d.IsDir() || len(d.Name()) != 2 {
			continue
		}
		files, err := os.ReadDir(filepath.Join(b.dir, d.Name()))
		if err != nil {
			return blobError(err)
		}
		for _, f := range files {
			var ref Ref
			if n, err := hex.Decode(ref.SHA256[:], []byte(d.Name()+f.Name())); err != nil || n != 32 || len(f.Name()) != 62 {
				continue
			}
			st, err := f.Info()
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return blobError(err)
			}
			ref.Size = st.Size()
			if err := fn(ref, st.ModTime()); err != nil {
				return err
			}
		}
	}
	return nil
}

// Verify reads every blob and returns those whose bytes do not match their hash. It moves them away
// as Open does.
func (b *Blobs) Verify(ctx context.Context) (bad []Ref, err error) {
	err = b.Each(func(ref Ref, _ time.Time) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		f, err := os.Open(b.path(ref.SHA256))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return blobError(err)
		}
		defer f.Close()
		if err := b.check(f, ref.SHA256); err != nil {
			bad = append(bad, ref)
		}
		return nil
	})
	return bad, err
}

// sweep removes temporary files that a crash left behind; opening the database calls it.
func (b *Blobs) sweep() {
	left, _ := filepath.Glob(filepath.Join(b.dir, tempPrefix+"*"))
	for _, f := range left {
		_ = os.Remove(f)
	}
}

func (b *Blobs) verified(sha [32]byte) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ok[sha]
}

func (b *Blobs) mark(sha [32]byte, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if ok {
		b.ok[sha] = true
	} else {
		delete(b.ok, sha)
	}
}

type ctxReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *ctxReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

func blobError(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if isDiskFull(err) {
		return fault.Limitf("The disk is full. Nothing was changed.").WithCause(err)
	}
	return fmt.Errorf("blob: %w", err)
}
