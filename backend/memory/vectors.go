package memory

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/google/uuid"

	"helix/backend/storage"
	"helix/backend/vector"
)

// storeVector stores the vector of the text with the given hash. The index is updated when the item
// is passed to follow.
func storeVector(tx *storage.Tx, kind string, id, user uuid.UUID, model string, hash [32]byte, vec []float32) error {
	_, err := tx.Exec(`INSERT OR REPLACE INTO item_vectors (item_kind, item_id, model_id, user_id, dims, text_hash, vector) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		kind, id, model, user, len(vec), hash, encodeVector(vec))
	return err
}

// purgeVectors deletes the vectors of items that will not be restored.
func purgeVectors(tx *storage.Tx, kind string, ids ...uuid.UUID) error {
	for _, id := range ids {
		if _, err := tx.Exec(`DELETE FROM item_vectors WHERE item_kind = ? AND item_id = ?`, kind, id); err != nil {
			return err
		}
	}
	return nil
}

// encodeVector returns the stored form: float32, little endian.
func encodeVector(vec []float32) []byte {
	out := make([]byte, 4*len(vec))
	for i, x := range vec {
		binary.LittleEndian.PutUint32(out[4*i:], math.Float32bits(x))
	}
	return out
}

// decodeVector decodes and validates the result of encodeVector.
func decodeVector(b []byte, dims int) ([]float32, error) {
	if len(b)%4 != 0 {
		return nil, fmt.Errorf("a stored vector of %d bytes", len(b))
	}
	out := make([]float32, len(b)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return out, vector.Check(out, dims)
}

// textTag returns the prefix of the hash of a text, which the index stores to identify the text
// that a vector was computed from.
func textTag(hash []byte) uint64 { return binary.BigEndian.Uint64(hash) }
