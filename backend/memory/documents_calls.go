package memory

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/memory/search"
	"helix/backend/storage"
)

// Limits of memory.upsert_chunks.
const (
	documentMax    = 8 << 20 // bytes of a text, or of all chunks together
	chunkMax       = 64 << 10
	chunksMax      = 20_000
	uriMax         = 4096
	titleMax       = 512 // characters
	embedUpsertFor = 15 * time.Second
)

// UpsertChunks replaces the content of a document. Parts that did not change keep their ids and
// vectors. It computes the vectors of new parts first, for at most 15 seconds; the remaining ones,
// or all of them after a failure, are computed in the background.
func (s *Service) UpsertChunks(ctx context.Context, p UpsertParams) (UpsertResult, error) {
	d, err := documentOf(identity.UserID(ctx), p)
	if err != nil {
		return UpsertResult{}, err
	}
	if p.Untrusted != nil && !*p.Untrusted && !mayTrust(ctx) {
		return UpsertResult{}, errTrust()
	}
	if err := s.embedParts(ctx, d); err != nil {
		return UpsertResult{}, err
	}
	var r upserted
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		if r, err = s.upsertDocument(tx, d); err == nil && r.changed {
			changed(tx, d.user, "documents", r.id)
		}
		return err
	})
	if err != nil {
		return UpsertResult{}, err
	}
	return UpsertResult{DocumentID: r.id, Added: r.added, Kept: r.kept, Removed: r.removed, Embedded: r.embedded}, nil
}

// storable replaces characters that a database cannot store with U+FFFD, so that offsets stay valid.
func storable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\x00", "\ufffd")
}

// documentOf validates a request and converts it.
func documentOf(user uuid.UUID, p UpsertParams) (*documentIn, error) {
	d := &documentIn{user: user, source: "document", uri: strings.TrimSpace(storable(p.Source.URI)), title: strings.TrimSpace(storable(p.Source.Title)), mime: storable(p.Source.Mime), untrusted: p.Untrusted}
	switch {
	case d.uri == "":
		return nil, fault.Invalidf("source.uri: required.")
	case len(d.uri) > uriMax:
		return nil, fault.Invalidf("source.uri: longer than %d bytes.", uriMax)
	case utf8.RuneCountInString(d.title) > titleMax:
		return nil, fault.Invalidf("source.title: longer than %d characters.", titleMax)
	case len(d.mime) > 255:
		return nil, fault.Invalidf("source.mime: longer than 255 bytes.")
	case (p.Text == nil) == (p.Chunks == nil):
		return nil, fault.Invalidf("Provide either chunks or text.")
	}
	if h := p.Source.ContentHash; h != "" {
		b, err := hex.DecodeString(h)
		if err != nil || len(b) != len(d.hash) {
			return nil, fault.Invalidf("source.contentHash: must be a SHA-256 of 64 hexadecimal digits.")
		}
		copy(d.hash[:], b)
	}
	if p.Tags != nil {
		tags, err := checkTags("tags", p.Tags)
		if err != nil {
			return nil, err
		}
		d.tags = tags
	}
	if p.Text != nil {
		if len(*p.Text) > documentMax {
			return nil, fault.Invalidf("text: longer than 8 MiB.")
		}
		if !strings.ContainsFunc(*p.Text, visible) {
			return nil, fault.Invalidf("text: must not be blank.")
		}
		d.parts = cutParts(storable(*p.Text), isMarkdown(d.mime, d.uri))
		return d, nil
	}
	return d, d.takeChunks(p.Chunks)
}

// takeChunks validates the chunks that the caller has cut and sets the parts of d.
func (d *documentIn) takeChunks(chunks []UpsertChunk) error {
	if len(chunks) == 0 || len(chunks) > chunksMax {
		return fault.Invalidf("chunks: must have 1 to %d entries.", chunksMax)
	}
	seen, sum := map[int64]bool{}, 0
	for i, c := range chunks {
		sum += len(c.Text)
		switch {
		case c.Seq < 0:
			return fault.Invalidf("chunks[%d].seq: must not be negative.", i)
		case seen[c.Seq]:
			return fault.Invalidf("chunks[%d].seq: %d occurs twice.", i, c.Seq)
		case !strings.ContainsFunc(c.Text, visible):
			return fault.Invalidf("chunks[%d].text: must not be blank.", i)
		case len(c.Text) > chunkMax:
			return fault.Invalidf("chunks[%d].text: longer than 64 KiB.", i)
		case utf8.RuneCountInString(c.Heading) > titleMax:
			return fault.Invalidf("chunks[%d].heading: longer than %d characters.", i, titleMax)
		case c.StartOffset != nil && *c.StartOffset < 0, c.EndOffset != nil && *c.EndOffset < 0,
			c.StartOffset != nil && c.EndOffset != nil && *c.EndOffset < *c.StartOffset:
			return fault.Invalidf("chunks[%d]: startOffset must not be after endOffset.", i)
		case len(c.Metadata) > 0 && string(c.Metadata) != "null" && !isObject(c.Metadata):
			return fault.Invalidf("chunks[%d].metadata: must be an object.", i)
		case sum > documentMax:
			return fault.Invalidf("chunks: longer than 8 MiB together.")
		}
		if string(c.Metadata) == "null" {
			c.Metadata = nil
		}
		seen[c.Seq] = true
		d.parts = append(d.parts, part{seq: c.Seq, heading: strings.TrimSpace(storable(c.Heading)), text: storable(c.Text),
			start: c.StartOffset, end: c.EndOffset, metadata: c.Metadata})
	}
	return nil
}

func isObject(m json.RawMessage) bool {
	var v map[string]json.RawMessage
	return json.Unmarshal(m, &v) == nil && v != nil
}

// isMarkdown reports whether lines that begin with # are headings.
func isMarkdown(mime, uri string) bool {
	mime, _, _ = strings.Cut(strings.ToLower(mime), ";")
	switch strings.TrimSpace(mime) {
	case "text/markdown", "text/x-markdown":
		return true
	case "":
		uri = strings.ToLower(uri)
		return strings.HasSuffix(uri, ".md") || strings.HasSuffix(uri, ".markdown")
	}
	return false
}

// embedParts computes the vectors of the parts of d that are new. It returns an error only if ctx
// ends: parts without vectors are stored anyway and their embedding jobs are queued.
func (s *Service) embedParts(ctx context.Context, d *documentIn) error {
	g := s.generation()
	if g == nil || s.embedding.paused.Load() {
		return ctx.Err()
	}
	known := map[[32]byte]bool{}
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		was, err := s.documentByURI(tx, d.user, d.uri)
		if err != nil || was == nil {
			return err
		}
		stored, err := s.storedParts(tx, was.ID)
		for i := range stored {
			known[stored[i].hash] = true
		}
		return err
	})
	if err != nil {
		return err
	}
	var todo []*job
	for i := range d.parts {
		if hash := sha256.Sum256([]byte(d.parts[i].text)); !known[hash] {
			known[hash] = true
			todo = append(todo, &job{hash: hash, text: d.parts[i].text})
		}
	}
	within, cancel := context.WithTimeout(ctx, s.embedUpsertFor)
	defer cancel()
	if err := s.embedJobs(within, g.model, todo); err != nil && ctx.Err() == nil {
		s.log.Info("vectors of a document are made later", "err", err)
	}
	d.model, d.vectors = g.id, map[[32]byte][]float32{}
	for _, j := range todo {
		if j.err == nil && j.vec != nil {
			d.vectors[j.hash] = j.vec
		}
	}
	return ctx.Err()
}

// ListDocuments lists documents, most recently changed first.
func (s *Service) ListDocuments(ctx context.Context, p PageParams) (DocumentsResult, error) {
	out := DocumentsResult{Documents: []Document{}}
	total, err := documentParent.list(ctx, s, p, func(row storage.Row) error {
		var chunks int64
		d, err := scanDocument(row, &chunks)
		if err != nil {
			return err
		}
		d.Chunks = chunks
		out.Documents = append(out.Documents, d.Document)
		return nil
	})
	out.Total = total
	return out, err
}

// liveDocument returns a document, or a NotFound error if it does not exist or is in the trash.
func (s *Service) liveDocument(tx *storage.Tx, user, id uuid.UUID) (*documentRow, error) {
	return scanDocument(tx.QueryRow(`SELECT `+documentColumns+` FROM documents WHERE id = ? AND user_id = ? AND deleted_at IS NULL`, id, user))
}

// Document returns parts of one document, in order: the page at the offset, or the page with the
// part aroundSeq in its middle.
func (s *Service) Document(ctx context.Context, p DocumentViewParams) (DocumentView, error) {
	if err := storage.CheckPage(&p.Limit, &p.Offset, pageSize, maxPage); err != nil {
		return DocumentView{}, err
	}
	out := DocumentView{Chunks: []Chunk{}, Offset: p.Offset}
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		d, err := s.liveDocument(tx, identity.UserID(ctx), p.ID)
		if err != nil {
			return err
		}
		if out.Total, out.Offset, err = documentParent.page(tx, d.ID, p.AroundSeq, p.Limit, p.Offset); err != nil {
			return err
		}
		d.Chunks = out.Total
		out.Document = d.Document
		return tx.Select(`SELECT id, seq, heading, content, start_offset, end_offset FROM chunks WHERE document_id = ? AND deleted_at IS NULL
			ORDER BY seq LIMIT ? OFFSET ?`, d.ID, p.Limit, out.Offset).Each(func(row storage.Row) error {
			var c Chunk
			var content []byte
			if err := row.Scan(&c.ID, &c.Seq, &c.Heading, &content, &c.StartOffset, &c.EndOffset); err != nil {
				return err
			}
			if c.Text, err = s.open("chunks", "content", c.ID, content); err != nil {
				return err
			}
			out.Chunks = append(out.Chunks, c)
			return nil
		})
	})
	if err != nil {
		return out, err
	}
	ids := make([]uuid.UUID, len(out.Chunks))
	for i, c := range out.Chunks {
		ids[i] = c.ID
	}
	return out, s.handedOutParts(ctx, KindChunk, ids)
}

// DeleteDocument moves a document to the trash and removes its parts from search.
func (s *Service) DeleteDocument(ctx context.Context, p DocumentParams) (CountResult, error) {
	return documentParent.delete(ctx, s, p.DocumentID)
}

// putDocument indexes all parts of a document for search. known means that only their attributes changed.
func (s *Service) putDocument(tx *storage.Tx, user, id uuid.UUID, known bool) error {
	d, err := s.liveDocument(tx, user, id)
	if err != nil {
		return err
	}
	var es []*search.Entry
	err = tx.Select(`SELECT id, seq, heading, content, content_hash, created_at FROM chunks WHERE document_id = ? AND deleted_at IS NULL ORDER BY seq`, id).Each(func(row storage.Row) error {
		var chunk uuid.UUID
		var p part
		var content, hash []byte
		var created time.Time
		if err := row.Scan(&chunk, &p.seq, &p.heading, &content, &hash, storage.Time(&created)); err != nil {
			return err
		}
		copy(p.hash[:], hash)
		if p.text, err = s.open("chunks", "content", chunk, content); err != nil {
			return err
		}
		e := d.entry(chunk, &p, created)
		e.AlreadyKnown = known
		es = append(es, e)
		return nil
	})
	if err != nil {
		return err
	}
	return s.search.Put(tx, es...)
}
