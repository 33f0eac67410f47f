package importer

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// An export of Helix is in JSON lines too. Lines of a kind other than memory are parts of a
// conversation or a document. Adjacent lines with the same parentId form one record.

// exportedPart is a line that holds a part.
type exportedPart struct {
	Kind       string          `json:"kind"`
	ParentID   string          `json:"parentId"`
	Source     string          `json:"source"`
	SourceRef  string          `json:"sourceRef"`
	Title      string          `json:"title"`
	Type       string          `json:"type"`
	Layer      int             `json:"layer"`
	Tags       json.RawMessage `json:"tags"`
	OccurredAt flexTime        `json:"occurredAt"`
	Content    string          `json:"content"`
	Metadata   json.RawMessage `json:"metadata"`

	TurnID  string `json:"turnId"`
	Role    string `json:"role"`
	Speaker string `json:"speaker"`

	Heading     string `json:"heading"`
	StartOffset *int64 `json:"startOffset"`
	EndOffset   *int64 `json:"endOffset"`
}

// The kinds of parts.
const (
	partTurn  = "turn"
	partChunk = "chunk"
)

// The sources that an exported conversation or document may have.
var (
	turnSources  = []string{ChatGPT, Claude, LoCoMo, JSONL, "agent", "voice"}
	chunkSources = []string{Markdown, Text, JSONL, "document", "tool", ChatGPT, Claude, LoCoMo}
)

// readPart parses a line of an export that holds a part. It returns nil for other lines.
func readPart(raw []byte) *exportedPart {
	if !bytes.Contains(raw, []byte(`"parentId"`)) {
		return nil
	}
	p := &exportedPart{}
	if json.Unmarshal(raw, p) != nil || p.ParentID == "" || p.Kind != partTurn && p.Kind != partChunk {
		return nil
	}
	return p
}

// group collects the parts of one conversation or document.
type group struct {
	kind, parent string
	line         int64 // line number of the first part
	size         int
	problem      string
	conversation Conversation
	document     Document
	after        Position
}

func newGroup(p *exportedPart, line int64, zone *time.Location) *group {
	g := &group{kind: p.Kind, parent: p.ParentID, line: line}
	tags, ok := looseTags(p.Tags)
	at, fine := p.OccurredAt.time(zone)
	switch {
	case !ok:
		g.problem = "The tags must be a list of words."
	case !fine:
		g.problem = "The time of this record cannot be read."
	case p.Layer < 0 || p.Layer > 7:
		g.problem = "The layer must be 1 to 7."
	case p.Type != "" && !slices.Contains(memoryTypes, p.Type):
		g.problem = "The type must be episodic, semantic or procedural."
	}
	title := cut(clean(p.Title), maxTitle)
	if p.Kind == partTurn {
		source, id := p.Source, cut(clean(p.SourceRef), maxTitle)
		if !slices.Contains(turnSources, source) || id == "" {
			source, id = JSONL, cut(clean(p.ParentID), maxTitle)
		}
		g.conversation = Conversation{Source: source, ExternalID: id, Title: title, Tags: tags, Layer: p.Layer, Type: p.Type, Exported: true}
		return g
	}
	source, uri := p.Source, clean(p.SourceRef)
	if !slices.Contains(chunkSources, source) {
		source = JSONL
	}
	if uri == "" || len(uri) > MaxURI {
		uri = JSONL + ":" + cut(clean(p.ParentID), maxTitle)
	}
	g.document = Document{Source: source, URI: uri, Title: title, Tags: tags, Date: at, Layer: p.Layer, Type: p.Type, Last: true, Exported: true}
	return g
}

// MaxURI is the maximum length of the URI of an exported document, in bytes.
const MaxURI = 2048

// add adds a part.
func (g *group) add(p *exportedPart, zone *time.Location) {
	text := plain(p.Content)
	if g.size += len(p.Content); g.size > MaxRecord {
		g.problem = msgLong
		g.conversation.Turns, g.document.Parts = nil, nil
	}
	if g.problem != "" || strings.TrimSpace(text) == "" {
		return
	}
	if g.kind == partChunk {
		part := Part{Heading: cut(clean(p.Heading), maxTitle), Text: text, Metadata: objectOf(p.Metadata)}
		if p.StartOffset != nil && p.EndOffset != nil && *p.StartOffset >= 0 && *p.EndOffset >= *p.StartOffset {
			part.Start, part.End = p.StartOffset, p.EndOffset
		}
		g.document.Parts = append(g.document.Parts, part)
		return
	}
	at, ok := p.OccurredAt.time(zone)
	if !ok {
		g.problem = "The time of this record cannot be read."
		return
	}
	t := Turn{ExternalID: cut(clean(p.TurnID), maxTitle), Role: "user", Speaker: cut(clean(p.Speaker), maxTitle), Text: clean(text), At: at}
	if p.Role == "assistant" {
		t.Role = p.Role
	}
	var meta struct {
		Model   string `json:"model"`
		Session int    `json:"session"`
	}
	if json.Unmarshal(p.Metadata, &meta) == nil { // on error there is no metadata
		t.Model, t.Session = cut(clean(meta.Model), maxTitle), max(0, meta.Session)
	}
	c := &g.conversation
	c.Turns = append(c.Turns, t)
	if t.Speaker != "" && len(c.Participants) < 32 && !slices.Contains(c.Participants, t.Speaker) {
		c.Participants = append(c.Participants, t.Speaker)
	}
	if at != nil && (c.Started == nil || at.Before(*c.Started)) {
		c.Started = at
	}
	if at != nil && (c.Ended == nil || at.After(*c.Ended)) {
		c.Ended = at
	}
}

// record returns the conversation or document that the parts form.
func (g *group) record() Record {
	r := Record{After: g.after}
	switch {
	case g.problem != "":
		r.Problem = &Problem{Line: g.line, Message: g.problem}
	case g.kind == partTurn && len(g.conversation.Turns) > 0:
		r.Conversation = &g.conversation
	case g.kind == partChunk && len(g.document.Parts) > 0:
		r.Document = &g.document
	default:
		r.Problem = &Problem{Line: g.line, Message: "This record has no content."}
	}
	return r
}

// objectOf returns raw if it is a JSON object, and else nil.
func objectOf(raw json.RawMessage) json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil || len(fields) == 0 || len(raw) > maxMetadata {
		return nil
	}
	return raw
}

// maxMetadata is the maximum size of the metadata kept for a record, in bytes.
const maxMetadata = 16 << 10

// exportedMemory holds the fields of a memory that only the lines of an export have.
type exportedMemory struct {
	Kind     string          `json:"kind"`
	Tier     string          `json:"salienceTier"`
	Pinned   bool            `json:"pinned"`
	Metadata json.RawMessage `json:"metadata"`
}

// restore sets the fields of a memory from an export. The tier critical becomes high: only a person
// can set it, and a file is not proof of that.
func (m *Memory) restore(raw []byte) {
	var x exportedMemory
	if !bytes.Contains(raw, []byte(`"kind"`)) || json.Unmarshal(raw, &x) != nil || x.Kind != "memory" {
		return
	}
	switch x.Tier {
	case "critical":
		m.Tier = "high"
	case "high", "medium", "low":
		m.Tier = x.Tier
	}
	m.Pinned, m.Metadata = x.Pinned, objectOf(x.Metadata)
}
