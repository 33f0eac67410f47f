package memory

import (
	"context"

	"github.com/google/uuid"

	"helix/backend/storage"
)

// queueVector asks for the vector of an item whose text is new.
func (s *Service) queueVector(tx *storage.Tx, item int64, user uuid.UUID) error {
	if s.o.Embedder == nil {
		return nil
	}
	_, err := tx.Exec(`INSERT OR REPLACE INTO embedding_jobs (item, model_id, user_id, queued_at) VALUES (?, ?, ?, ?)`, item, s.o.Embedder.ModelID(), user, tx.Now)
	return err
}

// EmbeddingStatus tells how far search by meaning is.
func (s *Service) EmbeddingStatus(context.Context, struct{}) (EmbeddingStatus, error) {
	return EmbeddingStatus{}, unbuilt()
}

// Reembed computes vectors anew.
func (s *Service) Reembed(context.Context, ReembedParams) (EmbeddingStatus, error) {
	return EmbeddingStatus{}, unbuilt()
}

// embeddingState is what the embedding keeps in a Service.
type embeddingState struct{}

func (s *Service) initEmbedding() {}
