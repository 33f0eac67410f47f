package storage

import (
	"context"
	"encoding/hex"
	"io"
	"sync"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
)

// downloadLife is how long a file that no row refers to can be downloaded; pruning removes it a day
// later.
const downloadLife = time.Hour

// Downloads opens files for their owners. A file belongs to the users whose rows refer to it. One
// that was created for a download, to which no row refers, belongs to the user who requested it.
type Downloads struct {
	db  *DB
	now func() time.Time

	mu  sync.Mutex
	all map[downloadKey]download
}

type downloadKey struct {
	user uuid.UUID
	sum  [32]byte
}

type download struct {
	kind  string
	until time.Time
}

// NewDownloads returns Downloads that serves the blobs of db.
func NewDownloads(db *DB) *Downloads {
	return &Downloads{db: db, now: time.Now, all: map[downloadKey]download{}}
}

// Add lets the caller fetch a blob for an hour.
func (e *Downloads) Add(ctx context.Context, id, kind string) {
	sum, err := hex.DecodeString(id)
	if err != nil || len(sum) != 32 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	for k, x := range e.all {
		if now.After(x.until) {
			delete(e.all, k)
		}
	}
	e.all[downloadKey{identity.UserID(ctx), [32]byte(sum)}] = download{kind, now.Add(downloadLife)}
}

// Open implements gateway.BlobSource.
func (e *Downloads) Open(ctx context.Context, sum [32]byte) (io.ReadSeekCloser, string, error) {
	e.mu.Lock()
	x, ok := e.all[downloadKey{identity.UserID(ctx), sum}]
	e.mu.Unlock()
	if !ok || e.now().After(x.until) {
		owns, err := e.db.OwnsBlob(ctx, identity.UserID(ctx), sum)
		if err != nil {
			return nil, "", err
		}
		if !owns {
			return nil, "", fault.NotFoundf("File not found.")
		}
		x.kind = "application/octet-stream"
	}
	f, err := e.db.Blobs().Open(Ref{SHA256: sum})
	return f, x.kind, err
}
