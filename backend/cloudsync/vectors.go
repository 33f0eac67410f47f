package cloudsync

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"math"
	"strconv"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"helix/backend/fault"
	"helix/backend/storage"
)

// Embeddings says whether this device sends the embeddings of memories to the hub, so that other
// programs can search there. They are never received: each device computes its own.
type Embeddings string

// States of sending.
const (
	EmbeddingsOff         Embeddings = "off" // sync.vectors is off
	EmbeddingsSent        Embeddings = "sent"
	EmbeddingsEncrypted   Embeddings = "encrypted"   // not sent, because they would reveal what encrypted texts are about
	EmbeddingsUnsupported Embeddings = "unsupported" // not sent, because the hub's database lacks the extension vector
)

const vectorPage = 200 // memories between two pulls

// vectorState is what this device knows about vectors on the hub. Guarded by turn.
type vectorState struct {
	conn     *pgx.Conn // for which the rest is valid
	model    string
	after    uuid.UUID // the last memory whose vector was checked
	complete bool      // the hub has the vectors of all memories
}

// moved begins again, because memories have changed.
func (v *vectorState) moved() { v.after, v.complete = uuid.Nil, false }

func (s *Service) embeddings(h *hubConfig) Embeddings {
	switch {
	case s.o.Vectors == nil || !s.o.Vectors():
		return EmbeddingsOff
	case h.Private:
		return EmbeddingsEncrypted
	case !h.Vectors:
		return EmbeddingsUnsupported
	}
	return EmbeddingsSent
}

// AllowVectors returns an error if sync.vectors can't be turned on.
func (s *Service) AllowVectors(ctx context.Context) error {
	l, err := s.local(ctx)
	if err == nil && l.hub != nil && l.hub.Private {
		return fault.Deniedf("Your texts are encrypted on the hub, and embeddings would reveal what they are about. To send embeddings, set the hub up without encryption.")
	}
	return err
}

// sendVectors sends vectors that the hub lacks, of one page of memories. more reports that there are
// further pages. After the setting was turned off, it removes all vectors from the hub. changed
// reports that memories may have changed since the last call.
func (s *Service) sendVectors(ctx context.Context, c *pgx.Conn, l local, changed bool) (more bool, err error) {
	if s.vectors.conn != c {
		s.vectors = vectorState{conn: c}
		var has bool
		if err := c.QueryRow(ctx, `select to_regclass('public.memory_vectors') is not null`).Scan(&has); err != nil {
			return false, err
		}
		if err := s.noteVectors(ctx, l, has, l.hub.Sent && has); err != nil {
			return false, err
		}
	}
	if s.embeddings(l.hub) != EmbeddingsSent {
		s.vectors.moved()
		if !l.hub.Sent {
			return false, nil
		}
		if _, err := c.Exec(ctx, `select sync.remove_vectors()`); err != nil {
			return false, err
		}
		return false, s.noteVectors(ctx, l, l.hub.Vectors, false)
	}
	var model string
	if err := s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT model_id FROM vector_meta WHERE state = 'active'`).Scan(&model)
	}); err != nil {
		if errors.Is(err, sql.ErrNoRows) { // nothing is embedded yet
			err = nil
		}
		return false, err
	}
	if changed || model != s.vectors.model {
		s.vectors.moved()
		s.vectors.model = model
	}
	if s.vectors.complete {
		return false, nil
	}
	if err := s.noteVectors(ctx, l, true, true); err != nil { // before, so that they are removed even if this is interrupted
		return false, err
	}
	if more, err = s.sendVectorPage(ctx, c); err != nil && !retryable(err) { // it must not hold up the rest
		s.o.Logger.Warn("the hub refused embeddings", "err", err)
		s.vectors.complete, more, err = true, false, nil
	}
	return more, err
}

// noteVectors stores whether the hub has vectors, and whether this device has sent any.
func (s *Service) noteVectors(ctx context.Context, l local, has, sent bool) error {
	if l.hub.Vectors == has && l.hub.Sent == sent {
		return nil
	}
	l.hub.Vectors, l.hub.Sent = has, sent
	defer s.tell()
	return s.db.Write(ctx, func(tx *storage.Tx) error {
		now, err := readLocal(tx) // it may have been paused since
		if err != nil || now.hub == nil {
			return err
		}
		now.hub.Vectors, now.hub.Sent = has, sent
		return writeHub(tx, now.hub)
	})
}

func (s *Service) sendVectorPage(ctx context.Context, c *pgx.Conn) (more bool, err error) {
	v := &s.vectors
	rows, err := c.Query(ctx, `select id, hash from sync.wanted_vectors($1, $2, $3)`, v.model, v.after, vectorPage)
	if err != nil {
		return false, err
	}
	type text struct {
		ID   uuid.UUID
		Hash []byte
	}
	wanted, err := pgx.CollectRows(rows, pgx.RowToStructByPos[text])
	if err != nil {
		return false, err
	}
	var ids []string
	var hashes [][]byte
	var vectors []string
	if err := s.db.Read(ctx, func(tx *storage.Tx) error {
		for _, w := range wanted {
			var hash, vector []byte
			err := tx.QueryRow(`SELECT embedding_hash, embedding FROM memories_full WHERE id = ? AND embedding_model = ?`, w.ID, v.model).Scan(&hash, &vector)
			if errors.Is(err, sql.ErrNoRows) || err == nil && !bytes.Equal(hash, w.Hash) { // not computed yet, or of another text
				continue
			}
			if err != nil {
				return err
			}
			ids, hashes, vectors = append(ids, w.ID.String()), append(hashes, w.Hash), append(vectors, vectorText(vector))
		}
		return nil
	}); err != nil {
		return false, err
	}
	if len(ids) > 0 {
		if _, err := c.Exec(ctx, `select sync.put_vectors($1, $2::uuid[], $3, $4)`, v.model, ids, hashes, vectors); err != nil {
			return false, err
		}
	}
	if len(wanted) == vectorPage {
		v.after = wanted[vectorPage-1].ID
		return true, nil
	}
	v.complete = v.after == uuid.Nil && len(ids) == len(wanted)
	v.after = uuid.Nil
	return false, nil
}

// vectorText returns a stored vector in the text form of the extension vector.
func vectorText(stored []byte) string {
	text := []byte{'['}
	for b := stored; len(b) >= 4; b = b[4:] {
		if len(text) > 1 {
			text = append(text, ',')
		}
		text = strconv.AppendFloat(text, float64(math.Float32frombits(binary.LittleEndian.Uint32(b))), 'g', -1, 32)
	}
	return string(append(text, ']'))
}
