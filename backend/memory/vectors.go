package memory

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/google/uuid"

	"helix/backend/storage"
	"helix/backend/vector"
)

// storeVector keeps the vector of a text whose hash is given. The index learns of it when its
// item is reported to vectorsChanged, which put does.
func storeVector(tx *storage.Tx, kind string, id, user uuid.UUID, model string, hash [32]byte, vec []float32) error {
	_, err := tx.Exec(`INSERT OR REPLACE INTO item_vectors (item_kind, item_id, model_id, user_id, dims, text_hash, vector) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		kind, id, model, user, len(vec), hash, encodeVector(vec))
	return err
}

// purgeVectors forgets the vectors of things that will not come back.
func purgeVectors(tx *storage.Tx, kind string, ids ...uuid.UUID) error {
	for _, id := range ids {
		if _, err := tx.Exec(`DELETE FROM item_vectors WHERE item_kind = ? AND item_id = ?`, kind, id); err != nil {
			return err
		}
	}
	return nil
}

// encodeVector gives the stored form: float32, little endian.
func encodeVector(vec []float32) []byte {
	out := make([]byte, 4*len(vec))
	for i, x := range vec {
		binary.LittleEndian.PutUint32(out[4*i:], math.Float32bits(x))
	}
	return out
}

// decodeVector reads what encodeVector has made and checks it.
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

// textTag is the beginning of the hash of a text, by which the index knows of which text it
// holds the vector.
func textTag(hash []byte) uint64 { return binary.BigEndian.Uint64(hash) }
