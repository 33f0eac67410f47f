package agent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

// The formats of an export.
const (
	FormatMarkdown = "md"
	FormatLines    = "jsonl" // can be imported again
)

// The types of lines of an export.
const (
	lineChat    = "chat" // the first
	lineFile    = "file" // precedes the first message that refers to it
	lineMessage = "message"

	lineVersion = 1
)

// chatLine is one line of an export. It holds the content of the chat and nothing that could grant
// anything: no approval, undo token, budget, mode or model.
type chatLine struct {
	Type    string     `json:"type"`
	Version int        `json:"version,omitempty"`
	Title   string     `json:"title,omitempty"`
	At      *time.Time `json:"at,omitempty"`

	// For files.
	SHA256 string `json:"sha256,omitempty"`
	Mime   string `json:"mime,omitempty"`
	Base64 string `json:"base64,omitempty"`

	// For messages. Turn groups the messages of a turn; Again is the turn whose input this one
	// answers again.
	Turn   string     `json:"turn,omitempty"`
	Again  string     `json:"again,omitempty"`
	Role   string     `json:"role,omitempty"`
	Origin string     `json:"origin,omitempty"` // the author, if not the person
	Model  string     `json:"model,omitempty"`
	Parts  []partLine `json:"parts,omitempty"`
}

// partLine is a part of a message in an export.
type partLine struct {
	Kind   string          `json:"kind"`
	Text   string          `json:"text,omitempty"`
	Title  string          `json:"title,omitempty"`
	CallID string          `json:"callId,omitempty"`
	Tool   string          `json:"tool,omitempty"`
	Args   json.RawMessage `json:"args,omitempty"`
	Status string          `json:"status,omitempty"`
	TookMs int64           `json:"tookMs,omitempty"`
	SHA256 string          `json:"sha256,omitempty"`
	Name   string          `json:"name,omitempty"`
	Bytes  int64           `json:"bytes,omitempty"`
	URL    string          `json:"url,omitempty"`
}

// ExportParams names a chat and a format.
type ExportParams struct {
	SessionID uuid.UUID `json:"sessionId"`
	Format    string    `json:"format,omitempty"` // md (default) to read; jsonl to import again
}

// ExportResult names the file.
type ExportResult struct {
	Blob string `json:"blob"`
	Name string `json:"name"`
	Size int64  `json:"size"`
}

// exported is the content of an export.
type exported struct {
	session  Session
	messages []Message
	again    map[uuid.UUID]uuid.UUID // maps a retried turn to the turn that retried it
	results  map[string]string       // full results by turn and call; the transcript holds only their beginnings
	files    map[string]Attachment   // by hash
}

// Export writes a chat to a file.
func (s *Service) Export(ctx context.Context, p ExportParams) (out ExportResult, err error) {
	p.Format = cmp.Or(p.Format, FormatMarkdown)
	if p.Format != FormatMarkdown && p.Format != FormatLines {
		return out, fault.Invalidf("format must be md or jsonl.")
	}
	x, err := s.readChat(ctx, p.SessionID)
	if err != nil {
		return out, err
	}
	title := cmp.Or(x.session.Title, "Chat")
	r, w := io.Pipe()
	count := &counter{w: w}
	go func() {
		if p.Format == FormatLines {
			w.CloseWithError(s.writeLines(count, x))
			return
		}
		w.CloseWithError(writeMarkdown(count, title, x.messages))
	}()
	ref, err := s.db.Blobs().Put(ctx, r)
	r.CloseWithError(io.ErrClosedPipe) // ends the writer if storing failed
	return ExportResult{ref.String(), fileName(title) + "." + p.Format, count.n}, err
}

// counter counts the bytes written.
type counter struct {
	w io.Writer
	n int64
}

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// readChat reads everything that an export contains.
func (s *Service) readChat(ctx context.Context, id uuid.UUID) (*exported, error) {
	x := &exported{again: map[uuid.UUID]uuid.UUID{}, results: map[string]string{}, files: map[string]Attachment{}}
	err := s.db.Read(ctx, func(tx *storage.Tx) (err error) {
		if x.session, err = s.sessionRow(tx, identity.UserID(ctx), id); err != nil {
			return err
		}
		if x.messages, err = s.messageRows(tx, `WHERE m.session_id = ? ORDER BY m.seq`, id); err != nil {
			return err
		}
		if err := tx.Select(`SELECT id, retry_of FROM agent_turns WHERE session_id = ? AND retry_of IS NOT NULL`, id).Each(func(row storage.Row) error {
			var turn, of uuid.UUID
			err := row.Scan(&turn, &of)
			x.again[turn] = of
			return err
		}); err != nil {
			return err
		}
		if err := tx.Select(`SELECT substr(sha256, 8), name, mime, bytes FROM session_blobs WHERE session_id = ?`, id).Each(func(row storage.Row) error {
			var a Attachment
			err := row.Scan(&a.Blob, &a.Name, &a.Mime, &a.Bytes)
			x.files[a.Blob] = a
			return err
		}); err != nil {
			return err
		}
		return s.readEvents(tx, id, 0, -1, func(e Event) error {
			if b, ok := e.Body.(*toolOutcome); ok {
				x.results[e.Turn.String()+" "+b.CallID] = b.Text
			}
			return nil
		})
	})
	return x, err
}

// writeLines writes a chat in the JSON lines format that Import reads.
func (s *Service) writeLines(w io.Writer, x *exported) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if err := e.Encode(chatLine{Type: lineChat, Version: lineVersion, Title: x.session.Title, At: &x.session.CreatedAt}); err != nil {
		return err
	}
	names, written := map[uuid.UUID]string{}, map[string]bool{}
	name := func(turn uuid.UUID) string {
		if names[turn] == "" {
			names[turn] = fmt.Sprint(len(names) + 1)
		}
		return names[turn]
	}
	for _, m := range x.messages {
		line := chatLine{Type: lineMessage, At: &m.At, Turn: name(m.TurnID), Role: m.Role, Model: m.Model, Parts: []partLine{}}
		if of, ok := x.again[m.TurnID]; ok && m.Role == "user" {
			line.Again = name(of)
		}
		if m.Origin != nil && m.Origin.Kind != OriginUser {
			line.Origin = m.Origin.Kind
		}
		for _, p := range m.Parts {
			l := partLine{Kind: p.Kind, Text: p.Text, Title: p.Title, CallID: p.CallID, Tool: p.Tool, Args: p.Args, Status: p.Status, TookMs: p.TookMs, SHA256: p.Blob, Name: p.Name, Bytes: p.Bytes, URL: p.URL}
			switch p.Kind {
			case PartToolCall:
				l.Title, l.Status = "", "" // they depend on the tools present at import
			case PartToolResult:
				l.Text = cmp.Or(x.results[m.TurnID.String()+" "+p.CallID], p.Text)
			}
			if err := s.writeFile(e, x, written, l.SHA256); err != nil {
				return err
			}
			if !written[l.SHA256] {
				l.SHA256 = ""
			}
			line.Parts = append(line.Parts, l)
		}
		if err := e.Encode(line); err != nil {
			return err
		}
	}
	return nil
}

// writeFile writes a file before the first message that refers to it. A result too large to be
// imported is left out; the message still holds its beginning.
func (s *Service) writeFile(e *json.Encoder, x *exported, written map[string]bool, sum string) error {
	a, ok := x.files[sum]
	if !ok || written[sum] || a.Bytes > maxAttachment {
		return nil
	}
	data, err := s.readBlob(sum)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	written[sum] = true
	return e.Encode(chatLine{Type: lineFile, SHA256: sum, Title: a.Name, Mime: a.Mime, Base64: base64.StdEncoding.EncodeToString(data)})
}

// writeMarkdown writes each message under a heading that says who wrote it and when.
func writeMarkdown(w io.Writer, title string, list []Message) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n", strings.ReplaceAll(title, "\n", " "))
	for _, m := range list {
		if m.Hidden {
			continue
		}
		who := map[string]string{"user": "You", "assistant": "Helix", "tool": "Tool", "system": "Note"}[m.Role]
		fmt.Fprintf(&b, "\n## %s, %s\n\n", who, m.At.Format("2006-01-02 15:04"))
		for _, p := range m.Parts {
			writePart(&b, p)
		}
		if _, err := b.WriteTo(w); err != nil {
			return err
		}
	}
	_, err := b.WriteTo(w)
	return err
}

func writePart(b *bytes.Buffer, p Part) {
	switch p.Kind {
	case PartText, PartNotice:
		fmt.Fprintf(b, "%s\n", p.Text)
	case PartToolCall:
		fmt.Fprintf(b, "Calls `%s` with\n\n```json\n%s\n```\n", p.Tool, p.Args)
	case PartToolResult:
		fence := "```"
		for strings.Contains(p.Text, fence) {
			fence += "`"
		}
		fmt.Fprintf(b, "%s\n%s\n%s\n", fence, p.Text, fence)
	case PartImage, PartFile:
		fmt.Fprintf(b, "- Attached: %s (%s, %d bytes)\n", p.Name, p.Mime, p.Bytes)
	case PartSource:
		fmt.Fprintf(b, "- %s %s\n", p.Name, p.URL)
	}
}

// fileName converts a title to a file name.
func fileName(title string) string {
	name := strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/\:*?"<>|`, r) || r < ' ' {
			return '-'
		}
		return r
	}, title)
	name, _ = clip(name, 80)
	return cmp.Or(strings.Trim(name, " .-"), "chat")
}
