package backend

import (
	"cmp"
	"context"
	"path/filepath"
	"strings"
	"time"

	"helix/backend/config"
	"helix/backend/embed"
	"helix/backend/fault"
	"helix/backend/memory"
	"helix/backend/memory/search"
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
		o.Weights = search.Weights{Keyword: w[0], Vector: w[1], Window: w[2]}
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

// exportMemory is memory.export; its file can then be fetched.
func (b *Backend) exportMemory(ctx context.Context, p memory.ExportParams) (memory.ExportResult, error) {
	r, err := b.Memory.Export(ctx, p)
	if err == nil {
		kind := "application/x-ndjson"
		if strings.EqualFold(p.Format, "markdown") {
			kind = "text/markdown; charset=utf-8"
		}
		b.downloads.Add(ctx, r.BlobID, kind)
	}
	return r, err
}
