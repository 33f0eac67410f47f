package memory

import (
	"bytes"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/memory/search"
	"helix/backend/storage"
)

// documentIn is the present state of a document at its source.
type documentIn struct {
	user       uuid.UUID
	source     string // document, markdown, text, …
	uri        string // unique per user
	title      string // "": unchanged, or the end of the uri
	mime       string // "": unchanged, or text/plain
	tags       []string
	untrusted  *bool // nil: unchanged, or true
	layer      int
	typ        string // "": semantic
	occurredAt *time.Time
	metadata   json.RawMessage
	hash       [32]byte // of the whole; zero: computed from the parts
	parts      []part

	// Vectors that were computed before the transaction, by the hash of their text.
	model   string
	vectors map[[32]byte][]float32
}

// part is a part of a document.
type part struct {
	seq        int64
	heading    string
	text       string
	start, end *int64 // offsets in the document
	metadata   json.RawMessage

	hash [32]byte // of the text; set by upsertDocument
}

func cutParts(text string, markdown bool) []part {
	extents := cutText(text, markdown)
	starts, ends := utf16Offsets(text, extents)
	out := make([]part, len(extents))
	for i, p := range extents {
		out[i] = part{seq: int64(i), heading: p.heading, text: text[p.start:p.end], start: &starts[i], end: &ends[i]}
	}
	return out
}

// upserted is the result of upsertDocument.
type upserted struct {
	id       uuid.UUID
	added    int
	kept     int // kept their id and vector
	removed  int
	embedded int  // number of added parts that already have a vector
	created  bool // the document is new
	changed  bool // something was written
}

// storedPart is a stored chunk.
type storedPart struct {
	part
	id        uuid.UUID
	createdAt time.Time
}

// upsertDocument brings a stored document to the state in d, within the transaction, so that a reader sees
// either the old or the new document. Parts whose text did not change keep their ids and vectors even if
// they moved. A document in the trash is restored. If nothing changed, nothing is written.
func (s *Service) upsertDocument(tx *storage.Tx, d *documentIn) (upserted, error) {
	for i := range d.parts {
		p := &d.parts[i]
		p.hash = sha256.Sum256([]byte(p.text))
		if len(p.metadata) == 0 {
			p.metadata = json.RawMessage(`{}`)
		}
	}
	if d.hash == [32]byte{} {
		d.hash = hashParts(d.parts)
	}
	was, err := s.documentByURI(tx, d.user, d.uri)
	if err != nil {
		return upserted{}, err
	}
	row, out := s.documentRow(tx, d, was), upserted{}
	if was == nil {
		out = upserted{created: true, changed: true}
		err = row.insert(tx)
	} else if row.differs(was) {
		out.changed = true
		err = row.update(tx)
	}
	if err != nil {
		return upserted{}, err
	}
	out.id = row.ID
	var stored []storedPart
	if was != nil {
		if stored, err = s.storedParts(tx, row.ID); err != nil {
			return upserted{}, err
		}
	}
	err = s.upsertParts(tx, d, row, was, stored, &out)
	return out, err
}

// upsertParts brings the stored parts of a document to the parts of d.
func (s *Service) upsertParts(tx *storage.Tx, d *documentIn, row, was *documentRow, stored []storedPart, out *upserted) error {
	free := map[[32]byte][]int{} // stored parts not yet matched with a part of d, in order
	for i := range stored {
		free[stored[i].hash] = append(free[stored[i].hash], i)
	}
	taken := make([]int, len(d.parts)) // index of the matching stored part, or -1
	gone := make([]bool, len(stored))
	for i := range gone {
		gone[i] = true
	}
	for i := range d.parts {
		taken[i] = -1
		if l := free[d.parts[i].hash]; len(l) > 0 {
			taken[i], free[d.parts[i].hash] = l[0], l[1:]
			gone[l[0]] = false
		}
	}
	var away []uuid.UUID
	for i, g := range gone {
		if g {
			away = append(away, stored[i].id)
		}
	}
	if err := s.removeParts(tx, away); err != nil {
		return err
	}
	var moves []move
	top := int64(0)
	for i := range stored {
		top = max(top, stored[i].seq)
	}
	for i, at := range taken {
		top = max(top, d.parts[i].seq)
		if at >= 0 && stored[at].seq != d.parts[i].seq {
			moves = append(moves, move{stored[at].id, stored[at].seq, d.parts[i].seq})
		}
	}
	if err := moveParts(tx, moves, top); err != nil {
		return err
	}
	// The attributes of the document are repeated in the entry of each part.
	again := was != nil && (was.DeletedAt != nil || row.searchDiffers(was))
	var entries []*search.Entry
	for i, at := range taken {
		p := &d.parts[i]
		var id uuid.UUID
		createdAt, words := tx.Now, true
		if at >= 0 {
			old := &stored[at]
			id, createdAt, words = old.id, old.createdAt, again || old.heading != p.heading
			out.kept++
			if !words && old.seq == p.seq && samePart(&old.part, p) {
				continue
			}
			if !samePart(&old.part, p) {
				if _, err := tx.Exec(`UPDATE chunks SET heading = ?, start_offset = ?, end_offset = ?, metadata = ?, updated_at = ? WHERE id = ?`,
					p.heading, p.start, p.end, p.metadata, tx.Now, id); err != nil {
					return err
				}
			}
		} else {
			out.added++
			var err error
			if id, err = s.insertPart(tx, row, p); err != nil {
				return err
			}
			if vec := d.vectors[p.hash]; vec != nil {
				out.embedded++
				if err := storeVector(tx, KindChunk, id, d.user, d.model, p.hash, vec); err != nil {
					return err
				}
			}
		}
		e := row.entry(id, p, createdAt)
		e.AlreadyKnown = !words
		entries = append(entries, e)
	}
	out.removed = len(away)
	if len(entries)+len(away) > 0 {
		out.changed = true
	}
	return s.search.Put(tx, entries...)
}

// insertPart inserts a part and assigns its id.
func (s *Service) insertPart(tx *storage.Tx, row *documentRow, p *part) (uuid.UUID, error) {
	for generation := 0; ; generation++ {
		id := derivedID(row.ID, p.seq, generation, string(p.hash[:]))
		text, err := s.seal("chunks", "content", id, p.text)
		if err != nil {
			return id, err
		}
		if done, err := updateRow(tx, `INSERT INTO chunks (id, document_id, user_id, seq, heading, content, content_hash, start_offset, end_offset, metadata, created_at, updated_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`, id, row.ID, row.user, p.seq, p.heading, text, p.hash, p.start, p.end, p.metadata, tx.Now, tx.Now); done || err != nil {
			return id, err
		}
	}
}

// samePart reports whether a and b are equal in everything but position and text.
func samePart(a, b *part) bool {
	same := func(a, b *int64) bool { return a == b || a != nil && b != nil && *a == *b }
	return a.heading == b.heading && same(a.start, b.start) && same(a.end, b.end) && bytes.Equal(a.metadata, b.metadata)
}

// move is the move of a part from one position in its document to another.
type move struct {
	id       uuid.UUID
	from, to int64
}

// moveParts moves parts to their new positions. Positions are unique even between two statements,
// so the part that occupies a target moves first. If the moves form a cycle, one part is parked
// beyond top, the last position in use, and is the only row written twice.
func moveParts(tx *storage.Tx, moves []move, top int64) error {
	at := make(map[int64]int, len(moves)) // index of the move whose part occupies a position
	for i, m := range moves {
		at[m.from] = i
	}
	const (
		waiting = iota
		begun
		done
	)
	state := make([]byte, len(moves))
	step := func(i int, to int64) error {
		delete(at, moves[i].from)
		moves[i].from = to
		_, err := tx.Exec(`UPDATE chunks SET seq = ?, updated_at = ? WHERE id = ?`, to, tx.Now, moves[i].id)
		return err
	}
	for first := range moves {
		for chain := []int{first}; len(chain) > 0; {
			i := chain[len(chain)-1]
			if state[i] == done {
				chain = chain[:len(chain)-1]
				continue
			}
			state[i] = begun
			if other, ok := at[moves[i].to]; ok && other != i {
				if state[other] == waiting {
					chain = append(chain, other)
					continue
				}
				top++
				if err := step(other, top); err != nil {
					return err
				}
				at[top] = other
			}
			if err := step(i, moves[i].to); err != nil {
				return err
			}
			state[i] = done
			chain = chain[:len(chain)-1]
		}
	}
	return nil
}

// removeParts deletes the text and vector of parts. The row remains as a tombstone.
func (s *Service) removeParts(tx *storage.Tx, ids []uuid.UUID) error {
	for _, id := range ids {
		if _, err := tx.Exec(`UPDATE chunks SET content = '', content_hash = ?, heading = '', metadata = '{}', deleted_at = ?, updated_at = ? WHERE id = ?`,
			sha256.Sum256(nil), tx.Now, tx.Now, id); err != nil {
			return err
		}
	}
	if err := s.search.Drop(tx, KindChunk, ids...); err != nil {
		return err
	}
	return purgeVectors(tx, KindChunk, ids...)
}

// storedParts reads the parts of a document without their texts.
func (s *Service) storedParts(tx *storage.Tx, document uuid.UUID) ([]storedPart, error) {
	var out []storedPart
	err := tx.Select(`SELECT id, seq, heading, content_hash, start_offset, end_offset, metadata, created_at FROM chunks
		WHERE document_id = ? AND deleted_at IS NULL ORDER BY seq`, document).Each(func(row storage.Row) error {
		var p storedPart
		var hash []byte
		var meta string
		if err := row.Scan(&p.id, &p.seq, &p.heading, &hash, &p.start, &p.end, &meta, storage.Time(&p.createdAt)); err != nil {
			return err
		}
		copy(p.hash[:], hash)
		p.metadata = json.RawMessage(meta)
		out = append(out, p)
		return nil
	})
	return out, err
}

func hashParts(parts []part) [32]byte {
	h := sha256.New()
	for i := range parts {
		h.Write(parts[i].hash[:])
	}
	return [32]byte(h.Sum(nil))
}

// documentRow is a row of documents, without the number of its parts.
type documentRow struct {
	Document
	user     uuid.UUID
	hash     [32]byte
	layer    int
	typ      string
	metadata json.RawMessage
}

const documentColumns = `id, user_id, source, source_uri, title, mime, content_hash, untrusted, tags, coalesce(layer, 0), type, occurred_at, metadata, created_at, updated_at, deleted_at`

func scanDocument(row storage.Row, more ...any) (*documentRow, error) {
	r := documentRow{Document: Document{Tags: []string{}}}
	var hash []byte
	var meta string
	err := row.Scan(append([]any{&r.ID, &r.user, &r.Source, &r.SourceURI, &r.Title, &r.Mime, &hash, &r.Untrusted, storage.JSON(&r.Tags), &r.layer, &r.typ,
		storage.TimePtr(&r.OccurredAt), &meta, storage.Time(&r.CreatedAt), storage.Time(&r.UpdatedAt), storage.TimePtr(&r.DeletedAt)}, more...)...)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNoDocument()
	}
	copy(r.hash[:], hash)
	r.metadata = json.RawMessage(meta)
	return &r, err
}

// documentByURI returns the document with a URI, including one in the trash, or nil.
func (s *Service) documentByURI(tx *storage.Tx, user uuid.UUID, uri string) (*documentRow, error) {
	r, err := scanDocument(tx.QueryRow(`SELECT `+documentColumns+` FROM documents WHERE user_id = ? AND source_uri = ?`, user, uri))
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	return r, err
}

// documentRow builds the row for d. Fields that d leaves empty are taken from was.
func (s *Service) documentRow(tx *storage.Tx, d *documentIn, was *documentRow) *documentRow {
	r := &documentRow{user: d.user, typ: "semantic", metadata: json.RawMessage(`{}`), Document: Document{
		ID: s.rootID(d.user, 0, "document", d.uri), Source: d.source, SourceURI: d.uri, Mime: "text/plain", Untrusted: true, Tags: []string{}, CreatedAt: tx.Now,
	}}
	if was != nil {
		*r = *was
		r.DeletedAt = nil
	}
	if r.Title == "" {
		r.Title = strings.TrimRight(d.uri, "/")
		r.Title = r.Title[strings.LastIndexByte(r.Title, '/')+1:]
	}
	r.hash, r.UpdatedAt = d.hash, tx.Now
	if d.title != "" {
		r.Title = d.title
	}
	if d.mime != "" {
		r.Mime = d.mime
	}
	if d.tags != nil {
		r.Tags = d.tags
	}
	if d.untrusted != nil {
		r.Untrusted = *d.untrusted
	}
	if d.layer != 0 {
		r.layer = d.layer
	}
	if d.typ != "" {
		r.typ = d.typ
	}
	if d.occurredAt != nil {
		r.OccurredAt = d.occurredAt
	}
	if len(d.metadata) > 0 {
		r.metadata = d.metadata
	}
	return r
}

// searchDiffers reports whether a change from was to r alters the search entries of the parts.
func (r *documentRow) searchDiffers(was *documentRow) bool {
	return r.Title != was.Title || r.Untrusted != was.Untrusted || !slices.Equal(r.Tags, was.Tags) || r.layer != was.layer || r.typ != was.typ ||
		(r.OccurredAt == nil) != (was.OccurredAt == nil) || r.OccurredAt != nil && !r.OccurredAt.Equal(*was.OccurredAt)
}

func (r *documentRow) differs(was *documentRow) bool {
	return was.DeletedAt != nil || r.searchDiffers(was) || r.hash != was.hash || r.Mime != was.Mime || !bytes.Equal(r.metadata, was.metadata)
}

func (r *documentRow) insert(tx *storage.Tx) error {
	_, err := tx.Exec(`INSERT INTO documents (id, user_id, source, source_uri, title, mime, content_hash, untrusted, tags, layer, type, occurred_at, metadata, created_at, updated_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		r.ID, r.user, r.Source, r.SourceURI, r.Title, r.Mime, r.hash, r.Untrusted, listJSON(r.Tags), nullInt(r.layer), r.typ, r.OccurredAt, r.metadata, r.CreatedAt, r.UpdatedAt)
	return err
}

func (r *documentRow) update(tx *storage.Tx) error {
	_, err := tx.Exec(`UPDATE documents SET title = ?, mime = ?, content_hash = ?, untrusted = ?, tags = ?, layer = ?, type = ?, occurred_at = ?, metadata = ?,
		updated_at = ?, deleted_at = NULL WHERE id = ?`,
		r.Title, r.Mime, r.hash, r.Untrusted, listJSON(r.Tags), nullInt(r.layer), r.typ, r.OccurredAt, r.metadata, r.UpdatedAt, r.ID)
	return err
}

// entry returns a part as a search entry.
func (r *documentRow) entry(id uuid.UUID, p *part, createdAt time.Time) *search.Entry {
	title := r.Title
	if p.heading != "" {
		title += search.HeadingJoin + p.heading
	}
	return &search.Entry{
		Kind: KindChunk, ID: id, Parent: r.ID, Seq: p.seq, User: r.user, Title: title, Tags: r.Tags, Text: p.text, Hash: p.hash, Type: r.typ, Layer: r.layer,
		Source: r.Source, Untrusted: r.Untrusted, Salience: 50, OccurredAt: r.OccurredAt, CreatedAt: createdAt,
	}
}
