package vector

import "slices"

// IDs returns the ids of all vectors in the index.
func (ix *Index) IDs() *Bitmap {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	pages := make([]uint32, 0, len(ix.rows.pages))
	for p := range ix.rows.pages {
		pages = append(pages, p)
	}
	if len(pages) == 0 {
		return &Bitmap{}
	}
	const words = pageIDs / 64
	b := &Bitmap{words: make([]uint64, (int(slices.Max(pages))+1)*words)}
	for _, p := range pages {
		copy(b.words[int(p)*words:], ix.rows.pages[p].have[:])
	}
	return b
}
