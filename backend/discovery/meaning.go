package discovery

import (
	"cmp"
	"context"
	"hash/maphash"
	"slices"
	"strings"

	"helix/backend/kernel"
)

// Embedder turns texts into vectors of length one, the same vector for the same text.
type Embedder interface {
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}

const (
	embedNow   = 200    // texts that a search embeds itself; more are embedded in the background
	embedBatch = 32     // texts at once
	maxVectors = 25_000 // that are cached
	nearest    = 50     // documents that are close in meaning
	leastClose = 0.5    // cosine of the angle between a query and a document that is close
)

// textVectors are the vectors of texts.
type textVectors struct {
	seed    maphash.Seed
	vectors map[uint64][]float32 // by the hash of the text
	busy    bool                 // more are being embedded
}

// near returns the documents that are close in meaning to a query, closest first; nil if there is no
// embedder, if there are more than maxVectors documents, or if not all are embedded yet.
func (s *Service) near(ctx context.Context, query string, docs []*document) []int {
	if s.o.Embedder == nil || len(docs) > maxVectors {
		return nil
	}
	vectors, missing := s.vectorsOf(docs)
	if n := len(missing); n > embedNow {
		s.embedSoon(missing)
		return nil
	} else if n > 0 {
		if err := s.embed(ctx, missing); err != nil {
			s.log.Info("search by words only", "err", err)
			return nil
		}
		if vectors, missing = s.vectorsOf(docs); len(missing) > 0 {
			return nil
		}
	}
	asked, err := s.o.Embedder.Embed(ctx, []string{query})
	if err != nil {
		s.log.Info("search by words only", "err", err)
		return nil
	}
	cosine := make([]float32, len(docs))
	out := []int{}
	for i, v := range vectors {
		if cosine[i] = kernel.Dot(v, asked[0]); cosine[i] >= leastClose {
			out = append(out, i)
		}
	}
	slices.SortFunc(out, func(a, b int) int {
		return cmp.Or(cmp.Compare(cosine[b], cosine[a]), strings.Compare(docs[a].Name, docs[b].Name), strings.Compare(docs[a].Ref, docs[b].Ref))
	})
	return out[:min(nearest, len(out))]
}

// titleEnd separates the title from the description in the text of a document that is embedded.
const titleEnd = ". "

// vectorsOf returns the vectors of documents, and the texts of those that have none yet.
func (s *Service) vectorsOf(docs []*document) (vectors [][]float32, missing []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	vectors = make([][]float32, len(docs))
	var h maphash.Hash
	h.SetSeed(s.textVectors.seed)
	for i := range docs {
		h.Reset()
		h.WriteString(docs[i].Title)
		h.WriteString(titleEnd)
		h.WriteString(docs[i].Description)
		if vectors[i] = s.textVectors.vectors[h.Sum64()]; vectors[i] == nil {
			missing = append(missing, docs[i].Title+titleEnd+docs[i].Description)
		}
	}
	return vectors, missing
}

// embed adds the vectors of texts.
func (s *Service) embed(ctx context.Context, texts []string) error {
	for part := range slices.Chunk(texts, embedBatch) {
		list, err := s.o.Embedder.Embed(ctx, part)
		if err != nil {
			return err
		}
		s.mu.Lock()
		if len(s.textVectors.vectors)+len(list) > maxVectors {
			clear(s.textVectors.vectors)
		}
		for i, v := range list {
			s.textVectors.vectors[maphash.String(s.textVectors.seed, part[i])] = v
		}
		s.mu.Unlock()
	}
	return nil
}

// embedSoon adds the vectors of texts in the background, unless it is doing that.
func (s *Service) embedSoon(texts []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.textVectors.busy || s.ctx.Err() != nil {
		return
	}
	s.textVectors.busy = true
	s.jobs.Add(1)
	go func() {
		defer s.jobs.Done()
		if err := s.embed(s.ctx, texts); err != nil && s.ctx.Err() == nil {
			s.log.Warn("embed the entries of catalogs", "err", err)
		}
		s.mu.Lock()
		s.textVectors.busy = false
		s.mu.Unlock()
	}()
}
