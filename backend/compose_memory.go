package backend

import (
	"path/filepath"

	"helix/backend/config"
	"helix/backend/memory"
)

// openMemory builds the memory over the sentence encoder of this build.
func (b *Backend) openMemory(_ config.Config) {
	paths := b.Config.Paths()
	b.Memory = memory.New(b.DB, memory.Options{Logger: b.log, VectorDir: filepath.Join(paths.Data, "vectors"), TempDir: paths.Cache})
	b.closing("memory", b.Memory.Close)
}
