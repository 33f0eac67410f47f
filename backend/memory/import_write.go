package memory

import (
	"cmp"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"helix/backend/memory/importer"
	"helix/backend/memory/search"
	"helix/backend/storage"
)

// prepared is a record with all processing done that needs no transaction.
type prepared struct {
	rec      importer.Record
	progress float64
	size     int             // bytes of text
	hashes   [][32]byte      // of the turns
	texts    []string        // of the turns, as stored
	long     []*documentIn   // full texts of turns that are too long for a turn
	rest     string          // of a divided text: the uri of the first part that no longer exists
	document *documentIn     // of a document, or of a memory that is too long for a memory
	draft    *draft          // of a memory
	said     string          // of a memory: a digest of its content in the file
	turns    []importer.Turn // of the conversation
}

func prepare(job *importJob, r *importer.Reader, rec importer.Record) *prepared {
	p := &prepared{rec: rec, progress: r.Progress()}
	switch {
	case rec.Conversation != nil:
		p.conversation(job, rec.Conversation)
	case rec.Document != nil:
		if rec.Document.Exported {
			p.exported(job, rec.Document)
			break
		}
		p.size = len(rec.Document.Text)
		p.document = documentOfImport(job, importURI(&job.o, r, rec.Document), rec.Document)
		if rec.Document.Last {
			behind := *rec.Document
			behind.Part++
			p.rest = importURI(&job.o, r, &behind)
		}
	case rec.Memory != nil:
		p.size = len(rec.Memory.Content)
		p.memory(job, rec.Memory)
	}
	return p
}

// exported prepares a document from an export of Helix, with the parts it was stored in.
func (p *prepared) exported(job *importJob, d *importer.Document) {
	p.document = &documentIn{user: job.user, source: d.Source, uri: d.URI, title: d.Title, tags: mergeTags(d.Tags, job.o.Tags), untrusted: job.o.Untrusted,
		layer: cmp.Or(d.Layer, job.o.Layer), typ: cmp.Or(d.Type, job.o.Type), occurredAt: d.Date, parts: make([]part, len(d.Parts))}
	for i, x := range d.Parts {
		p.size += len(x.Text)
		p.document.parts[i] = part{seq: int64(i), heading: x.Heading, text: x.Text, start: x.Start, end: x.End, metadata: x.Metadata}
	}
}

func (p *prepared) conversation(job *importJob, c *importer.Conversation) {
	p.turns = c.Turns
	p.hashes, p.texts = make([][32]byte, len(c.Turns)), make([]string, len(c.Turns))
	for i := range c.Turns {
		t := &c.Turns[i]
		p.size += len(t.Text)
		p.texts[i] = t.Text
		if len(t.Text) > maxContent {
			p.texts[i] = headOf(t.Text, maxContent)
			uri := "turn:" + c.Source + "/" + c.ExternalID + "/" + t.ExternalID
			p.long = append(p.long, &documentIn{user: job.user, source: c.Source, uri: uri, title: c.Title, tags: job.o.Tags, untrusted: job.o.Untrusted,
				layer: job.o.Layer, typ: job.o.Type, occurredAt: t.At, parts: cutParts(t.Text, false), metadata: compactJSON(map[string]string{"turn": t.ExternalID})})
		}
		p.hashes[i] = textHash(p.texts[i])
	}
}

// headOf returns a prefix of text of at most max bytes.
func headOf(text string, max int) string {
	for max > 0 && !utf8.RuneStart(text[max]) {
		max--
	}
	return strings.TrimSpace(text[:max])
}

func documentOfImport(job *importJob, uri string, d *importer.Document) *documentIn {
	meta := map[string]any{}
	if len(d.Links) > 0 {
		meta["links"] = d.Links
	}
	if len(d.Aliases) > 0 {
		meta["aliases"] = d.Aliases
	}
	return &documentIn{user: job.user, source: d.Source, uri: uri, title: d.Title, mime: d.Mime, tags: mergeTags(d.Tags, job.o.Tags), untrusted: job.o.Untrusted,
		layer: job.o.Layer, typ: job.o.Type, occurredAt: d.Date, metadata: compactJSON(meta), parts: cutParts(d.Text, d.Source == importer.Markdown)}
}

// memory prepares the draft of a memory, or a document if the text is too long for a memory.
func (p *prepared) memory(job *importJob, m *importer.Memory) {
	ref := m.ExternalID
	if m.Local { // a small number is unique only within its file
		ref = nameOf(&job.o, p.rec.After.File) + "#" + ref
	}
	typ, layer := m.Type, m.Layer
	if typ == "" {
		typ = job.o.Type
	}
	if layer == 0 {
		layer = job.o.Layer
	}
	tags, hash := mergeTags(m.Tags, job.o.Tags), textHash(m.Content)
	if len(m.Content) > maxContent {
		if ref == "" {
			ref = hex.EncodeToString(hash[:])
		}
		p.document = &documentIn{user: job.user, source: importer.JSONL, uri: importer.JSONL + ":" + ref, title: clip(strings.Join(strings.Fields(headOf(m.Content, 400)), " "), 80), tags: tags,
			untrusted: job.o.Untrusted, layer: layer, typ: typ, occurredAt: m.At, parts: cutParts(m.Content, false)}
		return
	}
	if typ == "" {
		typ = "episodic"
	}
	tier := cmp.Or(m.Tier, "medium")
	salience, _ := salienceOf("", tier) // every tier has a value
	p.draft = &draft{content: m.Content, hash: hash, typ: typ, layer: layer, tags: tags, occurredAt: m.At, tier: tier, salience: salience, pinned: m.Pinned, source: importer.JSONL, sourceRef: ref,
		untrusted: job.o.Untrusted == nil || *job.o.Untrusted}
	p.draft.key = []string{"memory", importer.JSONL, cmp.Or(ref, string(hash[:]))}
	// The digest of the content in the file is kept, so that an edit by the person is not mistaken
	// for a change of the file.
	said := textHash(string(compactJSON([]any{m.Content, typ, layer, tags, m.At})))
	meta := map[string]any{}
	_ = json.Unmarshal(m.Metadata, &meta) // fails only if there is no metadata
	p.said = hex.EncodeToString(said[:16])
	meta["imported"] = p.said
	p.draft.metadata = compactJSON(meta)
}

// items returns the number of items in the record.
func (p *prepared) items() int {
	if p.rec.Conversation != nil {
		return len(p.turns)
	}
	return 1
}

// importWriter stores records in one transaction.
type importWriter struct {
	s       *Service
	tx      *storage.Tx
	job     *importJob
	at      *importPoint
	began   time.Time
	left    int
	entries []*search.Entry
	placed  int // number of memories added
}

// full reports whether the transaction is long enough, including the estimated time of flush.
func (w *importWriter) full() bool {
	if w.left <= 0 {
		return true
	}
	takes := time.Since(w.began) + time.Duration(len(w.entries))*w.job.putTakes
	return takes > importHold || takes > importYield && w.tx.Wanted()
}

// enqueue queues an entry, and flush indexes all of them at the end of the transaction. search_fts writes a
// segment, which has to be merged later, whenever a write to another table follows a write to it.
func (w *importWriter) enqueue(e *search.Entry) { w.entries = append(w.entries, e) }

// flush indexes the queued entries and measures the time per entry.
func (w *importWriter) flush() error {
	if len(w.entries) == 0 {
		return nil
	}
	began := time.Now()
	err := w.s.search.Put(w.tx, w.entries...)
	took := time.Since(began) / time.Duration(len(w.entries))
	w.job.putTakes += (min(took, time.Millisecond) - w.job.putTakes) / 8
	w.entries = nil
	return err
}

// record stores one record. It returns false if the transaction is full before the end of a long
// conversation; w.at then holds the place to continue from.
func (w *importWriter) record(p *prepared) (finished bool, err error) {
	if p.rec.Conversation != nil {
		return w.conversation(p)
	}
	w.left--
	switch {
	case p.rec.Problem != nil:
		w.at.problem(ImportError{File: p.rec.Problem.File, Line: p.rec.Problem.Line, Message: p.rec.Problem.Message})
		return true, nil
	case p.document != nil:
		w.at.Read++
		if err := w.document(p.document, p.rec.Document != nil && p.rec.Document.Exported); err != nil || p.rest == "" {
			return true, err
		}
		return true, w.emptyRest(p.rest)
	}
	w.at.Read++
	return true, w.memory(p.draft, p.said)
}

// document stores a document. A document in the trash stays there, and a document of an export does
// not replace an existing one.
func (w *importWriter) document(d *documentIn, exported bool) error {
	was, err := w.s.documentByURI(w.tx, d.user, d.uri)
	if err != nil {
		return err
	}
	if was != nil && was.DeletedAt != nil {
		w.at.Skipped++
		w.at.Trashed++
		return nil
	}
	if was != nil && exported {
		w.at.Skipped++
		return nil
	}
	if w.job.o.DryRun {
		if d.hash == [32]byte{} {
			for i := range d.parts {
				d.parts[i].hash = textHash(d.parts[i].text)
			}
			d.hash = hashParts(d.parts)
		}
		switch {
		case was == nil:
			w.at.Added++
		case w.s.documentRow(w.tx, d, was).differs(was):
			w.at.Updated++
		default:
			w.at.Skipped++
		}
		return nil
	}
	r, err := w.s.upsertDocument(w.tx, d)
	switch {
	case err != nil:
		return err
	case r.created:
		w.at.Added++
	case r.changed:
		w.at.Updated++
	default:
		w.at.Skipped++
	}
	return nil
}

// emptyRest removes the text of parts beyond the end of a file that was longer at an earlier
// import. The documents remain, because the file may grow again.
func (w *importWriter) emptyRest(uri string) error {
	base, number, _ := strings.Cut(uri, "#")
	for n, _ := strconv.Atoi(number); ; n++ {
		was, err := w.s.documentByURI(w.tx, w.job.user, base+"#"+strconv.Itoa(n))
		if err != nil || was == nil || was.DeletedAt != nil || w.job.o.DryRun {
			return err
		}
		if _, err := w.s.upsertDocument(w.tx, &documentIn{user: was.user, source: was.Source, uri: was.SourceURI}); err != nil {
			return err
		}
	}
}

// memory stores a memory. It finds an existing one by its id in the file, else by its text.
func (w *importWriter) memory(d *draft, said string) error {
	user := w.job.user
	var id uuid.UUID
	var gone *time.Time
	var meta struct {
		Imported string `json:"imported"`
	}
	err := sql.ErrNoRows
	if d.sourceRef != "" {
		err = w.tx.QueryRow(`SELECT id, deleted_at, metadata FROM memories WHERE user_id = ? AND source = ? AND source_ref = ? ORDER BY created_at, id LIMIT 1`, user, d.source, d.sourceRef).
			Scan(&id, storage.TimePtr(&gone), storage.JSON(&meta))
	}
	known := err == nil
	if errors.Is(err, sql.ErrNoRows) {
		err = w.tx.QueryRow(`SELECT id, deleted_at FROM memories WHERE user_id = ? AND content_hash = ? ORDER BY deleted_at IS NOT NULL, created_at, id LIMIT 1`, user, d.hash[:]).
			Scan(&id, storage.TimePtr(&gone))
	}
	switch {
	case errors.Is(err, sql.ErrNoRows):
		w.at.Added++
		if w.job.o.DryRun {
			return nil
		}
		d.place = w.placed
		w.placed++
		_, err = w.s.insertTx(w.tx, user, d)
		return err
	case err != nil:
		return err
	case gone != nil:
		w.at.Skipped++
		w.at.Trashed++
		return nil
	case !known, meta.Imported == said:
		w.at.Skipped++
		return nil
	}
	w.at.Updated++
	if w.job.o.DryRun {
		return nil
	}
	m, err := w.s.memory(w.tx, user, id)
	if err != nil {
		return err
	}
	return w.s.changeTx(w.tx, m, change{content: &d.content, typ: &d.typ, layer: &d.layer, tags: &d.tags, occurredAt: &d.occurredAt, metadata: d.metadata}, "import")
}
