package cloudsync

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"helix/backend/cloudsync/hubtest"
	"helix/backend/fault"
	"helix/backend/storage"
)

// noise returns bytes that do not compress.
func noise(n int, seed uint64) []byte {
	b := make([]byte, n)
	var key [32]byte
	key[0] = byte(seed)
	_, _ = rand.NewChaCha8(key).Read(b) // never fails
	return b
}

// module adds a WASM tool whose module is data.
func (d *device) module(name string, data []byte) storage.Ref {
	d.t.Helper()
	ref := must[storage.Ref](d.t)(d.db.Blobs().PutBytes(d.ctx, data))
	d.exec(`INSERT INTO skills (id, user_id, name, wasm_bytecode, wasm_size, definition_hash, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, 1, 1)`,
		storage.NewID(), d.db.LocalUser().ID, name, "sha256:"+ref.String(), ref.Size, ref.SHA256[:])
	return ref
}

// content opens a blob, which downloads it if necessary.
func (d *device) content(ref storage.Ref) ([]byte, error) {
	f, err := d.db.Blobs().Open(storage.Ref{SHA256: ref.SHA256})
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read only
	return io.ReadAll(f)
}

func TestBlobArrivesWhenItIsFirstOpened(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"empty": 0, "one byte": 1, "one chunk": blobChunk, "chunks": 3*blobChunk + 17} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b, dsn := connected(t)
			a.o.Partial, b.o.Partial = t.TempDir(), t.TempDir()
			data := noise(size, 1)
			ref := a.module("module", data)
			a.now()
			b.now()
			if b.db.Blobs().Has(ref) {
				t.Error("the blob arrived with its row")
			}
			if got := must[[]byte](t)(b.content(ref)); !bytes.Equal(got, data) {
				t.Errorf("%d bytes arrived, not the %d that were sent", len(got), size)
			}
			if left := must[[]os.DirEntry](t)(os.ReadDir(b.o.Partial)); len(left) > 0 {
				t.Errorf("left over: %v", left)
			}
			hub := admin(t, dsn)
			var plain bool
			if err := hub.QueryRow(t.Context(), `select exists (select 1 from public.blob_chunks where position($1 in data) > 0 and octet_length($1) > 1) or exists (select 1 from public.blobs where blob_id = $2)`, data[:min(size, 64)], ref.SHA256[:]).Scan(&plain); err != nil {
				t.Fatal(err)
			}
			if plain {
				t.Error("the hub has the plain content or its hash")
			}
			if _, err := hub.Exec(t.Context(), `update public.blob_chunks set data = overlay(data placing '\xff00ff00'::bytea from 1)`); err != nil {
				t.Fatal(err)
			}
			if err := b.db.Blobs().Remove(ref); err != nil {
				t.Fatal(err)
			}
			if _, err := b.content(ref); !fault.Is(err, fault.Unavailable) {
				t.Errorf("damaged on the hub: %v", err)
			}
		})
	}
}

// The row becomes visible to other devices after the blob is complete, even if the connection breaks
// at any point of the upload, and an upload continues where it ended.
func TestBlobIsCompleteBeforeItsRowIsSent(t *testing.T) {
	t.Parallel()
	dsn := newHub(t)
	c := must[*pgx.ConnConfig](t)(pgx.ParseConfig(dsn))
	proxy := hubtest.NewProxy(t, int(c.Port))
	a := newDevice(t)
	a.setUp(strings.Replace(dsn, fmt.Sprint(":", c.Port), fmt.Sprint(":", proxy.Port()), 1))
	a.now()
	const chunks = 6
	data := noise(chunks*blobChunk, 2)
	hub := admin(t, dsn)
	count := func(query string) (n int) {
		t.Helper()
		if err := hub.QueryRow(t.Context(), query).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	ref := a.module("module", data)
	proxy.BreakAfter(2*blobChunk+blobChunk/2, nil)
	if _, err := a.Coordinate(a.ctx, CoordinateParams{}); err == nil {
		t.Fatal("the upload was not interrupted")
	}
	proxy.Heal()
	if n := count(`select count(*) from public.blob_chunks`); n != 2 {
		t.Errorf("%d chunks arrived before the connection broke", n)
	}
	if n := count(`select count(*) from public.skills`); n != 0 {
		t.Error("the row is there before its blob")
	}
	first := count(`select sum(xmin::text::bigint)::bigint from public.blob_chunks where n < 2`)
	a.now()
	if n := count(`select sum(xmin::text::bigint)::bigint from public.blob_chunks where n < 2`); n != first {
		t.Error("chunks were sent again")
	}
	if n := count(`select count(*) from public.skills s, public.blobs b where b.complete`); n != 1 {
		t.Errorf("%d rows with a complete blob", n)
	}
	b := newDevice(t)
	b.o.Partial = t.TempDir()
	b.join(a)
	b.now()
	proxy.BreakAfter(3*blobChunk, nil)
	if _, err := b.content(ref); err == nil {
		t.Fatal("the download was not interrupted")
	}
	proxy.Heal()
	part := must[[]string](t)(filepath.Glob(filepath.Join(b.o.Partial, hex.EncodeToString(ref.SHA256[:])+"-*")))
	if len(part) != 1 || must[os.FileInfo](t)(os.Stat(part[0])).Size() < 2*blobChunk {
		t.Fatalf("partial download: %v", part)
	}
	down := b.traffic.down.Load()
	b.now()
	if got := must[[]byte](t)(b.content(ref)); !bytes.Equal(got, data) {
		t.Error("other bytes arrived")
	}
	if n := b.traffic.down.Load() - down; n > (chunks-2)*blobChunk+blobChunk/2 {
		t.Errorf("%d bytes were downloaded for the rest of %d", n, len(data))
	}
}

func TestMissingOrTooLargeBlobDoesNotBlockItsRow(t *testing.T) {
	t.Parallel()
	a, b, _ := connected(t)
	b.o.Partial = t.TempDir()
	lost := a.module("lost", []byte("lost"))
	if err := a.db.Blobs().Remove(lost); err != nil {
		t.Fatal(err)
	}
	large := a.module("large", make([]byte, blobLimit+1))
	a.now()
	b.now()
	if n := one[int](b, `SELECT count(*) FROM skills`); n != 2 {
		t.Errorf("%d rows arrived", n)
	}
	for _, ref := range []storage.Ref{lost, large} {
		if _, err := b.content(ref); !fault.Is(err, fault.NotFound) {
			t.Errorf("open: %v", err)
		}
	}
}

func TestDeviceThatKeepsFilesDownloadsThem(t *testing.T) {
	t.Parallel()
	a, b, dsn := connected(t)
	b.o.Partial = t.TempDir()
	b.o.KeepBlobs = func() bool { return true }
	ref := a.module("module", noise(1000, 3))
	a.now()
	b.now()
	if !b.db.Blobs().Has(ref) {
		t.Error("it was not downloaded")
	}
	// A blob without rows is removed from the hub after 30 days.
	a.exec(`UPDATE skills SET wasm_bytecode = 'sha256:' || printf('%064d', 0)`)
	hub := admin(t, dsn)
	left := func() (n int) {
		t.Helper()
		a.blobs.used = a.blobs.used.Add(-blobUsedEvery)
		a.now()
		if err := hub.QueryRow(t.Context(), `select count(*) from public.blobs`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if left() != 1 {
		t.Error("it was removed at once")
	}
	if _, err := hub.Exec(t.Context(), `update public.blobs set unused_since = unused_since - interval '31 days'`); err != nil {
		t.Fatal(err)
	}
	if left() != 0 {
		t.Error("it was not removed")
	}
}

func TestBlobsSurviveKeyRotation(t *testing.T) {
	t.Parallel()
	a, b, _ := connected(t)
	b.o.Partial = t.TempDir()
	before := a.module("before", noise(500, 4))
	settleAll(a, b)
	must[RotateKeyResult](t)(a.RotateKey(a.ctx, struct{}{}))
	after := a.module("after", noise(600, 5))
	settleAll(a, b)
	for _, ref := range []storage.Ref{before, after} {
		must[[]byte](t)(b.content(ref))
	}
	if bytes.Equal(must[[]byte](t)(b.content(before)), must[[]byte](t)(b.content(after))) {
		t.Error("two blobs are equal")
	}
}
