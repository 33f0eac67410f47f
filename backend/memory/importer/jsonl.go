package importer

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"time"
)

// memoryTypes lists the types of memories.
var memoryTypes = []string{"episodic", "semantic", "procedural"}

// jsonlReader reads memories, one JSON object per line, and the conversations and documents of an
// export of Helix.
type jsonlReader struct {
	lines *lines
	zone  *time.Location
	held  *heldLine // the line that ended a group; it is next
}

// heldLine is a parsed line.
type heldLine struct {
	raw []byte
	err error
	at  Position // position after the line
}

// line returns the next line that is not blank.
func (r *jsonlReader) line() *heldLine {
	if h := r.held; h != nil {
		r.held = nil
		return h
	}
	for {
		raw, err := r.lines.next()
		if raw = bytes.TrimSpace(raw); err == nil && len(raw) == 0 {
			continue
		}
		return &heldLine{raw, err, Position{Offset: r.lines.off, Line: r.lines.n}}
	}
}

func (r *jsonlReader) next() (Record, error) {
	l := r.line()
	problem := func(message string) (Record, error) {
		return Record{Problem: &Problem{Line: l.at.Line, Message: message}, After: l.at}, nil
	}
	switch {
	case errors.Is(l.err, errLong):
		return problem(msgLong)
	case l.err != nil:
		return Record{}, l.err
	}
	if part := readPart(l.raw); part != nil {
		return r.group(part, l.at).record(), nil
	}
	m, message := parseMemory(l.raw, r.zone)
	if message != "" {
		return problem(message)
	}
	return Record{Memory: m, After: l.at}, nil
}

// group reads all parts that follow first and belong to the same parent.
func (r *jsonlReader) group(first *exportedPart, at Position) *group {
	g := newGroup(first, at.Line, r.zone)
	for part := first; part != nil && part.Kind == g.kind && part.ParentID == g.parent; {
		g.add(part, r.zone)
		g.after = at
		l := r.line()
		l.raw = bytes.Clone(l.raw)
		r.held, at = l, l.at
		if part = nil; l.err == nil {
			part = readPart(l.raw)
		}
		if part != nil && part.Kind == g.kind && part.ParentID == g.parent {
			r.held = nil
		}
	}
	return g
}

const msgLong = "Skipped a record longer than 8 MiB."

// parseMemory parses one line. message is the user-facing reason why the line is not a memory.
func parseMemory(raw []byte, zone *time.Location) (_ *Memory, message string) {
	var in struct {
		ID         json.RawMessage `json:"id"`
		Content    *string         `json:"content"`
		Text       *string         `json:"text"`
		Type       string          `json:"type"`
		Tags       json.RawMessage `json:"tags"`
		Layer      *int            `json:"layer"`
		OccurredAt flexTime        `json:"occurredAt"`
		Timestamp  flexTime        `json:"timestamp"`
		CreatedAt  flexTime        `json:"created_at"`
	}
	if raw[0] != '{' {
		return nil, "This line is not a JSON object."
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
			return nil, "The field " + wrong.Field + " has a value of the wrong kind."
		}
		return nil, "This line is not valid JSON."
	}
	m := &Memory{Type: in.Type, ExternalID: plainID(in.ID)}
	switch {
	case in.Content != nil:
		m.Content = clean(*in.Content)
	case in.Text != nil:
		m.Content = clean(*in.Text)
	}
	if m.Content == "" {
		return nil, "This record has no content."
	}
	if m.Type != "" && !slices.Contains(memoryTypes, m.Type) {
		return nil, "The type must be episodic, semantic or procedural."
	}
	if in.Layer != nil {
		if m.Layer = *in.Layer; m.Layer < 1 || m.Layer > 7 {
			return nil, "The layer must be 1 to 7."
		}
	}
	for _, f := range []*flexTime{&in.OccurredAt, &in.Timestamp, &in.CreatedAt} {
		at, ok := f.time(zone)
		if !ok {
			return nil, "The time of this record cannot be read."
		}
		if at != nil {
			m.At = at
			break
		}
	}
	var ok bool
	if m.Tags, ok = looseTags(in.Tags); !ok {
		return nil, "The tags must be a list of words."
	}
	m.restore(raw)
	return m, ""
}

// plainID returns an id that is a string or a number.
func plainID(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return cut(clean(text), maxTitle)
	}
	var n json.Number
	if json.Unmarshal(raw, &n) == nil {
		return cut(n.String(), maxTitle)
	}
	return ""
}

// looseTags parses tags: a list of strings, or one string with commas.
func looseTags(raw json.RawMessage) ([]string, bool) {
	if len(raw) == 0 || string(raw) == "null" {
		return []string{}, true
	}
	var list []string
	if json.Unmarshal(raw, &list) == nil {
		return tidyTags(list), true
	}
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return tidyTags(strings.Split(one, ",")), true
	}
	return nil, false
}

// errLong means that a record is longer than MaxRecord and has been skipped.
var errLong = errors.New("importer: record above the limit")

// lines splits a stream into lines. A line longer than MaxRecord is skipped with errLong.
type lines struct {
	r   io.Reader
	buf []byte // not yet returned
	off int64  // offset of buf[0] in the stream
	n   int64  // lines before buf[0]
	end error  // the error that ended the stream
}

func newLines(r io.Reader) *lines {
	return &lines{r: r}
}

// next returns the next line without its terminator. The bytes are valid until the next call.
func (l *lines) next() ([]byte, error) {
	seen, long := 0, false
	for {
		if i := bytes.IndexByte(l.buf[seen:], '\n'); i >= 0 {
			text := l.buf[:seen+i]
			l.take(seen + i + 1)
			return l.line(text, long)
		}
		if seen = len(l.buf); seen > MaxRecord {
			long = true
			l.off += int64(seen)
			l.buf, seen = l.buf[:0], 0
		}
		if l.end != nil {
			text := l.buf
			if errors.Is(l.end, io.EOF) && (len(text) > 0 || long) {
				l.take(len(text))
				return l.line(text, long)
			}
			return nil, l.end
		}
		l.fill()
	}
}

func (l *lines) line(text []byte, long bool) ([]byte, error) {
	l.n++
	if long || len(text) > MaxRecord {
		return nil, errLong
	}
	if l.n == 1 {
		text = bytes.TrimPrefix(text, bom)
	}
	return text, nil
}

func (l *lines) take(n int) {
	l.buf = l.buf[n:]
	l.off += int64(n)
}

// fill appends more data to buf.
func (l *lines) fill() {
	l.buf, l.end = more(l.r, l.buf)
}

var bom = []byte("\uFEFF")

// readSize is the number of bytes to read from a file at once.
const readSize = 256 << 10

// more reads from r and appends to buf. If buf has no capacity left it allocates a new array,
// because the bytes before buf may still be in use.
func more(r io.Reader, buf []byte) ([]byte, error) {
	if cap(buf)-len(buf) < readSize {
		next := make([]byte, len(buf), 2*len(buf)+2*readSize)
		copy(next, buf)
		buf = next
	}
	for range 100 {
		n, err := r.Read(buf[len(buf) : len(buf)+readSize])
		buf = buf[:len(buf)+n]
		if n > 0 || err != nil {
			return buf, err
		}
	}
	return buf, io.ErrNoProgress
}
