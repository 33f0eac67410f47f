package memory

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/memory/search"
	"helix/backend/storage"
)

// Export writes the items that match the filters to a blob: memories, then the turns of
// conversations, then the parts of documents, each in order. jsonl has one object per line, which
// an import can read; markdown is for people.
func (s *Service) Export(ctx context.Context, p ExportParams) (ExportResult, error) {
	if p.Format == "" {
		p.Format = "jsonl"
	}
	if p.Format != "jsonl" && p.Format != "markdown" {
		return ExportResult{}, invalid("format", "%q is not an export format. Use jsonl or markdown.", clip(p.Format, 32))
	}
	x := &exporter{s: s, user: identity.UserID(ctx), filters: p.Filters}
	if _, err := x.conditions(); err != nil {
		return ExportResult{}, err
	}
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		buf := bufio.NewWriterSize(w, 64<<10)
		if p.Format == "markdown" {
			x.out = &markdownExport{w: buf}
		} else {
			x.out = &jsonlExport{e: json.NewEncoder(buf)}
		}
		err := fault.Catch(func() error { return s.db.Read(ctx, x.write) })
		if err == nil {
			err = buf.Flush()
		}
		_ = w.CloseWithError(err) // never fails
		done <- err
	}()
	ref, err := s.db.Blobs().Put(ctx, r)
	_ = r.CloseWithError(err) // a full disk ends the read
	if e := <-done; e != nil && err == nil {
		err = e
	}
	if err != nil {
		return ExportResult{}, err
	}
	return ExportResult{BlobID: ref.String(), Size: ref.Size, Items: x.items}, nil
}

// exportLine is one line of a jsonl export.
type exportLine struct {
	Kind         string          `json:"kind"`
	ID           uuid.UUID       `json:"id"`
	Type         string          `json:"type"`
	Title        string          `json:"title,omitempty"`
	Content      string          `json:"content"`
	Layer        int             `json:"layer,omitempty"`
	Tags         []string        `json:"tags"`
	Source       string          `json:"source"`
	SourceRef    string          `json:"sourceRef,omitempty"`
	Untrusted    bool            `json:"untrusted"`
	SalienceTier string          `json:"salienceTier,omitempty"`
	Pinned       bool            `json:"pinned,omitempty"`
	Metadata     json.RawMessage `json:"metadata,omitempty"`
	OccurredAt   *time.Time      `json:"occurredAt,omitempty"`
	CreatedAt    time.Time       `json:"createdAt"`
	ParentID     *uuid.UUID      `json:"parentId,omitempty"` // conversation or document
	Seq          *int64          `json:"seq,omitempty"`      // position within the parent
	TurnID       string          `json:"turnId,omitempty"`
	Role         string          `json:"role,omitempty"`
	Speaker      string          `json:"speaker,omitempty"`
	Heading      string          `json:"heading,omitempty"`
	StartOffset  *int64          `json:"startOffset,omitempty"` // of a part, in its document
	EndOffset    *int64          `json:"endOffset,omitempty"`
}

// exportWriter writes lines in one format.
type exportWriter interface{ line(l *exportLine) error }

type exporter struct {
	s       *Service
	user    uuid.UUID
	filters *search.Filters
	out     exportWriter
	items   int64
}

// conditions returns the WHERE conditions for the three kinds of items.
func (x *exporter) conditions() (out [3]where, err error) {
	for i, c := range []struct {
		cols columns
		live string
	}{
		{memoryColumns, "m.user_id = ? AND m.deleted_at IS NULL"},
		{turnColumns, "c.user_id = ? AND c.deleted_at IS NULL AND t.deleted_at IS NULL"},
		{chunkColumns, "d.user_id = ? AND d.deleted_at IS NULL AND k.deleted_at IS NULL"},
	} {
		out[i].add(c.live, x.user)
		if err := out[i].filter(x.filters, c.cols); err != nil {
			return out, err
		}
	}
	return out, nil
}

func (x *exporter) write(tx *storage.Tx) error {
	conds, err := x.conditions()
	if err != nil {
		return err
	}
	if err := x.memories(tx, conds[0]); err != nil {
		return err
	}
	if err := x.parts(tx, KindTurn, "conversation_turns", `SELECT t.id, c.id, t.seq, coalesce(t.external_id, ''), t.role, t.speaker, c.title, t.content, c.type, coalesce(c.layer, 0), c.tags, c.source, c.external_id,
		c.untrusted, t.occurred_at, t.created_at, '', NULL, NULL, t.metadata FROM conversations c JOIN conversation_turns t ON t.conversation_id = c.id WHERE `+conds[1].String()+`
		ORDER BY c.started_at, c.id, t.seq`, conds[1].args); err != nil {
		return err
	}
	return x.parts(tx, KindChunk, "chunks", `SELECT k.id, d.id, k.seq, '', '', '', d.title, k.content, d.type, coalesce(d.layer, 0), d.tags, d.source, d.source_uri,
		d.untrusted, d.occurred_at, k.created_at, coalesce(k.heading, ''), k.start_offset, k.end_offset, k.metadata FROM documents d JOIN chunks k ON k.document_id = d.id WHERE `+conds[2].String()+`
		ORDER BY d.source_uri, d.id, k.seq`, conds[2].args)
}

func (x *exporter) memories(tx *storage.Tx, w where) error {
	return tx.Select(`SELECT `+rowColumns+` FROM memories m WHERE `+w.String()+` ORDER BY m.created_at, m.id`, w.args...).Each(func(row storage.Row) error {
		m, err := x.s.scanMemory(row)
		if err != nil {
			return err
		}
		l := &exportLine{
			Kind: KindMemory, ID: m.ID, Type: m.Type, Title: m.Title, Content: m.Content, Layer: m.Layer, Tags: m.Tags, Source: m.Source, SourceRef: m.SourceRef,
			Untrusted: m.Untrusted, SalienceTier: m.SalienceTier, Pinned: m.Pinned, OccurredAt: m.OccurredAt, CreatedAt: m.CreatedAt,
		}
		if string(m.Metadata) != "{}" {
			l.Metadata = m.Metadata
		}
		return x.line(l)
	})
}

// parts exports turns or chunks. query must select the columns that parts scans.
func (x *exporter) parts(tx *storage.Tx, kind, table, query string, args []any) error {
	return tx.Select(query, args...).Each(func(row storage.Row) error {
		l := &exportLine{Kind: kind, Tags: []string{}, ParentID: new(uuid.UUID), Seq: new(int64)}
		var content []byte
		err := row.Scan(&l.ID, l.ParentID, l.Seq, &l.TurnID, &l.Role, &l.Speaker, &l.Title, &content, &l.Type, &l.Layer, storage.JSON(&l.Tags), &l.Source, &l.SourceRef,
			&l.Untrusted, storage.TimePtr(&l.OccurredAt), storage.Time(&l.CreatedAt), &l.Heading, &l.StartOffset, &l.EndOffset, storage.JSON(&l.Metadata))
		if err != nil {
			return err
		}
		if string(l.Metadata) == "{}" {
			l.Metadata = nil
		}
		if l.Content, err = x.s.open(table, "content", l.ID, content); err != nil {
			return err
		}
		if err := x.line(l); err != nil {
			return err
		}
		return nil
	})
}

func (x *exporter) line(l *exportLine) error {
	x.items++
	return x.out.line(l)
}

type jsonlExport struct{ e *json.Encoder }

func (j *jsonlExport) line(l *exportLine) error { return j.e.Encode(l) }

// markdownExport writes a heading for each memory, conversation and document, with the texts below it.
type markdownExport struct {
	w      io.StringWriter
	parent uuid.UUID
	end    int64 // end offset of the last part, in its document
	err    error
}

func (m *markdownExport) say(parts ...string) {
	for _, p := range parts {
		if m.err == nil {
			_, m.err = m.w.WriteString(p)
		}
	}
}

func (m *markdownExport) line(l *exportLine) error {
	if l.ParentID == nil || *l.ParentID != m.parent {
		m.heading(l)
	}
	text := l.Content
	switch l.Kind {
	case KindTurn:
		speaker := l.Speaker
		if speaker == "" {
			speaker = l.Role
		}
		m.say("**", speaker, "**")
		if l.OccurredAt != nil {
			m.say(" (", l.OccurredAt.Format(time.RFC3339), ")")
		}
		m.say(": ")
	case KindChunk: // chunks overlap
		if l.StartOffset != nil && l.EndOffset != nil {
			if n := search.UTF16Len(text); *l.EndOffset-*l.StartOffset == n && m.end > *l.StartOffset && m.end < *l.EndOffset {
				text = afterUnits(text, m.end-*l.StartOffset)
			}
			m.end = *l.EndOffset
		}
	}
	m.say(text, "\n\n")
	return m.err
}

// afterUnits returns text without its first n UTF-16 code units.
func afterUnits(text string, n int64) string {
	for i, r := range text {
		if n <= 0 {
			return text[i:]
		}
		n -= search.UTF16Len(string(r))
	}
	return ""
}

func (m *markdownExport) heading(l *exportLine) {
	m.parent, m.end = uuid.Nil, 0
	if l.ParentID != nil {
		m.parent = *l.ParentID
	}
	title := strings.Join(strings.Fields(l.Title), " ")
	if title == "" {
		title = "Memory"
		if l.Kind == KindTurn {
			title = "Conversation"
		}
	}
	m.say("## ", title, "\n\n")
	var facts []string
	if l.OccurredAt != nil {
		facts = append(facts, l.OccurredAt.Format("2006-01-02 15:04"))
	}
	facts = append(facts, l.Type, l.Source)
	for _, t := range l.Tags {
		facts = append(facts, "#"+strings.ReplaceAll(t, " ", "-"))
	}
	m.say("*", strings.Join(facts, " · "), "*\n\n")
}
