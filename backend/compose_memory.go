package backend

import (
	"cmp"
	"context"
	"encoding/hex"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"helix/backend/config"
	"helix/backend/embed"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/memory"
	"helix/backend/storage"
)

// openMemory builds the memory over the sentence encoder of this build. Without one, search
// goes by words and system.status says why.
func (b *Backend) openMemory(conf config.Config) {
	paths := b.Config.Paths()
	o := memory.Options{
		Logger: b.log, VectorDir: filepath.Join(paths.Data, "vectors"), TempDir: paths.Cache, Private: conf.StoragePrivate,
		Zone:     func() string { return cmp.Or(b.Config.Current().MemoryZone, "Local") },
		Pause:    b.Pause,
		TrashAge: func() time.Duration { return b.Config.Current().HistoryTrashMaxAge },
	}
	if w, ok := config.Numbers(conf.MemoryWeights, 3, 10); ok {
		o.Weights = memory.Weights{Keyword: w[0], Vector: w[1], Window: w[2]}
	}
	if model, err := embed.Open(); err != nil {
		o.Why = fault.As(err).Message
		b.encoder = o.Why
		b.log.Warn("memory is searched by words only", "err", err)
	} else {
		o.Embedder = model
		b.closing("sentence encoder", func() error { model.Release(); return nil })
	}
	b.Memory = memory.New(b.DB, o)
	b.builtins.Add(b.Memory.Callables()...)
	b.closing("memory", b.Memory.Close)
}

// exportLife is how long an export of memory can be fetched; no row names it, so that storage
// removes it a day later.
const exportLife = time.Hour

// exported says whose files are whose: a file belongs to the users whose rows refer to it, and
// an export of memory, to which no row refers, to the one who asked for it.
type exported struct {
	db  *storage.DB
	now func() time.Time

	mu  sync.Mutex
	all map[exportKey]export
}

type exportKey struct {
	user uuid.UUID
	sum  [32]byte
}

type export struct {
	kind  string
	until time.Time
}

func newExported(db *storage.DB) *exported {
	return &exported{db: db, now: time.Now, all: map[exportKey]export{}}
}

// add lets the caller fetch a blob for an hour.
func (e *exported) add(ctx context.Context, id, kind string) {
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
	e.all[exportKey{identity.UserID(ctx), [32]byte(sum)}] = export{kind, now.Add(exportLife)}
}

// Open implements gateway.BlobSource.
func (e *exported) Open(ctx context.Context, sum [32]byte) (io.ReadSeekCloser, string, error) {
	e.mu.Lock()
	x, ok := e.all[exportKey{identity.UserID(ctx), sum}]
	e.mu.Unlock()
	if !ok || e.now().After(x.until) {
		owns, err := e.db.OwnsBlob(ctx, identity.UserID(ctx), sum)
		if err != nil {
			return nil, "", err
		}
		if !owns {
			return nil, "", fault.NotFoundf("There is no such file.")
		}
		x.kind = "application/octet-stream"
	}
	f, err := e.db.Blobs().Open(storage.Ref{SHA256: sum})
	return f, x.kind, err
}

// exportMemory is memory.export; its file can then be fetched.
func (b *Backend) exportMemory(ctx context.Context, p memory.ExportParams) (memory.ExportResult, error) {
	r, err := b.Memory.Export(ctx, p)
	if err == nil {
		kind := "application/x-ndjson"
		if strings.EqualFold(p.Format, "markdown") {
			kind = "text/markdown; charset=utf-8"
		}
		b.exports.add(ctx, r.BlobID, kind)
	}
	return r, err
}
