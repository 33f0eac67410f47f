package storage

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"helix/backend/fault"
)

func newTestBlobs(t *testing.T) *Blobs {
	t.Helper()
	return newBlobs(filepath.Join(t.TempDir(), "blobs"), slog.New(slog.DiscardHandler))
}

func put(t *testing.T, b *Blobs, text string) Ref {
	t.Helper()
	ref, err := b.Put(t.Context(), strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func get(b *Blobs, ref Ref) (string, error) {
	r, err := b.Open(ref)
	if err != nil {
		return "", err
	}
	defer r.Close()
	p, err := io.ReadAll(r)
	return string(p), err
}

func files(t *testing.T, b *Blobs) (names []string) {
	t.Helper()
	_ = filepath.WalkDir(b.dir, func(p string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			rel, _ := filepath.Rel(b.dir, p)
			names = append(names, rel)
		}
		return nil
	})
	return names
}

func TestBlobsAreNamedByContent(t *testing.T) {
	t.Parallel()
	b := newTestBlobs(t)
	ref := put(t, b, "hello")
	const sum = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
	if ref.String() != sum || ref.Size != 5 || !b.Has(ref) {
		t.Fatalf("ref %s, %d bytes", ref, ref.Size)
	}
	if again := put(t, b, "hello"); again != ref {
		t.Error("the same content has two names")
	}
	if f := files(t, b); len(f) != 1 || filepath.ToSlash(f[0]) != sum[:2]+"/"+sum[2:] {
		t.Errorf("files: %v", f)
	}
	empty := put(t, b, "")
	if s, err := get(b, empty); err != nil || s != "" {
		t.Errorf("empty: %q, %v", s, err)
	}
	if s, err := get(b, ref); err != nil || s != "hello" {
		t.Errorf("content %q, %v", s, err)
	}
	if st, err := os.Stat(b.path(ref.SHA256)); err != nil || st.Mode().Perm()&0o077 != 0 && !isWindows {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	if err := errors.Join(b.Remove(ref), b.Remove(ref)); err != nil {
		t.Error(err)
	}
	if _, err := get(b, ref); !fault.Is(err, fault.NotFound) || b.Has(ref) {
		t.Errorf("after Remove: %v", err)
	}
	if s, err := get(b, put(t, b, "hello")); err != nil || s != "hello" {
		t.Errorf("put again: %q, %v", s, err)
	}
}

func TestBlobDamageIsFoundAtFirstOpen(t *testing.T) {
	t.Parallel()
	b := newTestBlobs(t)
	ref, good := put(t, b, "content"), put(t, b, "other")
	damage := func() {
		if err := os.WriteFile(b.path(ref.SHA256), []byte("c0ntent"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	damage()
	if _, err := get(b, ref); err != nil {
		t.Errorf("checked more than once a start: %v", err)
	}
	b = newBlobs(b.dir, b.log) // the next start
	if _, err := get(b, ref); !fault.Is(err, fault.Unavailable) {
		t.Errorf("damaged: %v", err)
	}
	if kept, _ := os.ReadDir(filepath.Join(b.dir, "corrupt")); len(kept) != 1 {
		t.Errorf("set aside: %v", kept)
	}
	if _, err := get(b, ref); !fault.Is(err, fault.NotFound) {
		t.Errorf("afterwards: %v", err)
	}
	put(t, b, "content") // fetched again
	damage()
	b = newBlobs(b.dir, b.log)
	put(t, b, "content") // a Put repairs damage that has not been detected yet
	if s, err := get(newBlobs(b.dir, b.log), ref); err != nil || s != "content" {
		t.Errorf("healed: %q, %v", s, err)
	}
	damage()
	if bad, err := b.Verify(t.Context()); err != nil || len(bad) != 1 || bad[0].SHA256 != ref.SHA256 {
		t.Errorf("verify: %v, %v", bad, err)
	}
	if bad, err := b.Verify(t.Context()); err != nil || len(bad) != 0 {
		t.Errorf("verify again: %v, %v", bad, err)
	}
	if s, err := get(b, good); err != nil || s != "other" {
		t.Errorf("the good one: %q, %v", s, err)
	}
}

func TestBlobPutThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	b := newTestBlobs(t)
	boom := errors.New("boom")
	if _, err := b.Put(t.Context(), io.MultiReader(strings.NewReader("half"), iotest.ErrReader(boom))); !errors.Is(err, boom) {
		t.Errorf("err = %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Put(ctx, strings.NewReader("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
	if f := files(t, b); len(f) != 0 {
		t.Errorf("left: %v", f)
	}
	if err := os.WriteFile(filepath.Join(b.dir, tempPrefix+"crash"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.sweep()
	if f := files(t, b); len(f) != 0 {
		t.Errorf("left after the next start: %v", f)
	}
}

func TestBlobsEachAndConcurrentPuts(t *testing.T) {
	t.Parallel()
	b := newTestBlobs(t)
	if err := b.Each(func(Ref, time.Time) error { t.Error("no folder yet"); return nil }); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 20 {
				ref, err := b.PutBytes(t.Context(), bytes.Repeat([]byte{byte(i)}, 1000))
				if err != nil {
					t.Error(err)
				} else if s, err := get(b, ref); err != nil || len(s) != 1000 || s[0] != byte(i) {
					t.Errorf("%d: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
	n, last := 0, ""
	if err := b.Each(func(r Ref, put time.Time) error {
		if r.Size != 1000 || r.String() <= last || time.Since(put) > time.Hour {
			t.Errorf("%s: %d bytes, put %v", r, r.Size, put)
		}
		last = r.String()
		n++
		return b.Remove(r)
	}); err != nil || n != 20 {
		t.Errorf("%d blobs, %v", n, err)
	}
	if f := files(t, b); len(f) != 0 {
		t.Errorf("left: %v", f)
	}
}
