package agent

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/providers"
	"helix/backend/storage"
)

const (
	maxImport         = 1 << 30
	maxImportLine     = 16 << 20 // large enough for a file of 10 MB
	maxImportText     = 64 << 20 // of all messages together
	maxImportMessages = 10_000
	maxImportFiles    = 1000
	maxImportParts    = 64 // of a message
	maxImportResult   = 64 << 10
)

// chatImport reads a chat from JSON lines and builds the events of its log, checking each line. A
// file carries no ids, permissions, approvals or budgets; unknown members are errors.
type chatImport struct {
	// keep stores a file; scrub removes the user's secrets from text.
	keep  func(data []byte) error
	scrub func(text string) string

	title  string
	events []Event
	files  map[string]Attachment

	line, messages, text int
	turns                map[string]uuid.UUID // the finished turns and the current one
	turn                 string
	calls                map[string]string // call ids of the current turn by their ids in the file; "" once the result is read
	end                  *turnFinished
	at                   time.Time
}

// fail returns an error about the current line.
func (c *chatImport) fail(format string, args ...any) error {
	return fault.Invalidf("Line %d of the chat: %s. Nothing was imported.", c.line, fmt.Sprintf(format, args...))
}

// read reads all lines from r.
func (c *chatImport) read(r io.Reader) error {
	c.turns, c.files, c.calls = map[string]uuid.UUID{}, map[string]Attachment{}, map[string]string{}
	in := bufio.NewScanner(io.LimitReader(r, maxImport+1))
	in.Buffer(make([]byte, 64<<10), maxImportLine)
	size := 0
	for in.Scan() {
		c.line++
		raw := in.Bytes()
		if size += len(raw) + 1; size > maxImport {
			return c.fail("the file is larger than %d MB", maxImport>>20)
		}
		if len(bytes.TrimSpace(raw)) == 0 {
			continue
		}
		if err := c.take(raw); err != nil {
			return err
		}
	}
	switch err := in.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		c.line++
		return c.fail("it is longer than %d MB", maxImportLine>>20)
	case err != nil:
		return fault.Unavailablef("Couldn't read the file. Nothing was imported.").WithCause(err)
	case c.messages == 0:
		return fault.Invalidf("The file holds no chat. Export one as JSON lines, and import that.")
	}
	c.endTurn(c.at)
	return nil
}

// take checks one line and adds its events.
func (c *chatImport) take(raw []byte) error {
	var l chatLine
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil || d.More() || !utf8.Valid(raw) {
		if err == nil {
			err = errors.New("it is not one JSON object in UTF-8")
		}
		return c.fail("it can't be read: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	first := c.title == "" && c.messages == 0 && len(c.files) == 0 && len(c.events) == 0
	switch l.Type {
	case lineChat:
		switch {
		case !first || c.line > 1:
			return c.fail("a second beginning")
		case l.Version != lineVersion:
			return fault.Conflictf("This chat was exported by another version of Helix (format %d). Nothing was imported.", l.Version)
		}
		c.title, _ = clip(strings.Join(strings.Fields(l.Title), " "), 400)
		c.title = cmp.Or(c.title, "Imported chat")
		return nil
	case lineFile, lineMessage:
		if c.title == "" {
			return c.fail("the first line does not say that this is a chat")
		}
		if l.Type == lineFile {
			return c.file(l)
		}
		return c.message(l)
	}
	return c.fail("there is no type %q", clipped(l.Type))
}

func clipped(text string) string {
	text, _ = clip(text, 40)
	return text
}

// file adds a file. Its type is detected from its content.
func (c *chatImport) file(l chatLine) error {
	data, err := base64.StdEncoding.DecodeString(l.Base64)
	switch {
	case err != nil || len(data) == 0 || len(data) > maxAttachment:
		return c.fail("the file is empty, longer than %d MB or not base64", maxAttachment>>20)
	case len(c.files) >= maxImportFiles:
		return c.fail("there are more than %d files", maxImportFiles)
	}
	sum := sha256.Sum256(data)
	a := Attachment{Blob: hex.EncodeToString(sum[:]), Name: attachmentName(l.Title), Mime: cmp.Or(attachmentType(data), "application/octet-stream"), Bytes: int64(len(data))}
	if a.Blob != l.SHA256 {
		return c.fail("the file doesn't match its hash")
	}
	if isText(a.Mime) {
		text, cut := clip(c.scrub(string(data)), toolOutputMax)
		if a.Text = text; cut {
			a.Text += truncatedNote(a.Bytes, a.handle())
		}
	}
	c.files[a.Blob] = a
	return c.keep(data)
}

// add appends an event of the given turn.
func (c *chatImport) add(turn uuid.UUID, body payload) {
	c.events = append(c.events, Event{Turn: turn, At: c.at, Body: body})
}

var turnName = regexp.MustCompile(`^[A-Za-z0-9-]{1,40}$`)

// message adds a message, which continues the current turn or begins the next one.
func (c *chatImport) message(l chatLine) error {
	if c.messages++; c.messages > maxImportMessages {
		return c.fail("there are more than %d messages", maxImportMessages)
	}
	switch {
	case !turnName.MatchString(l.Turn):
		return c.fail("turn must be a short name")
	case len(l.Parts) == 0 || len(l.Parts) > maxImportParts:
		return c.fail("a message has 1 to %d parts", maxImportParts)
	case l.At == nil || l.At.Year() < 1970 || l.At.Year() > 9999:
		return c.fail("at must be a time")
	case l.Again != "" && l.Role != "user":
		return c.fail("only an input can answer a turn again")
	}
	for _, p := range l.Parts {
		if c.text += len(p.Text) + len(p.Args); c.text > maxImportText {
			return c.fail("the messages are longer than %d MB", maxImportText>>20)
		}
	}
	begins, last := l.Turn != c.turn, c.at
	c.at = l.At.UTC()
	if _, old := c.turns[l.Turn]; begins && (old || l.Role != "user") {
		return c.fail("a turn begins with an input, and its messages follow each other")
	}
	switch l.Role {
	case "user":
		return c.user(l, begins, last)
	case "assistant":
		return c.assistant(l)
	case "tool":
		return c.results(l)
	case "system":
		return c.notice(l)
	}
	return c.fail("there is no role %q", clipped(l.Role))
}

// user adds an input, which begins a turn or was added to the running one. Its author is unknown,
// whatever the file says.
func (c *chatImport) user(l chatLine, begins bool, last time.Time) error {
	in := &input{Origin: Origin{Kind: OriginImport}, QueueMode: QueueFollowup, Private: true, Untrusted: true}
	var texts []string
	for _, p := range l.Parts {
		switch p.Kind {
		case PartText:
			texts = append(texts, p.Text)
		case PartImage, PartFile:
			a, ok := c.files[p.SHA256]
			if !ok {
				texts = append(texts, fmt.Sprintf("[%s is not in the export]", attachmentName(p.Name)))
				continue
			}
			a.Name = attachmentName(cmp.Or(p.Name, a.Name))
			in.Files = append(in.Files, a)
		default:
			return c.fail("an input can't have a part %q", clipped(p.Kind))
		}
	}
	if in.Text = c.scrub(strings.Join(texts, "\n\n")); len(in.Text) > maxText {
		return c.fail("the text has more than 256 KiB")
	}
	if len(in.Files) > maxImportParts/2 {
		return c.fail("an input has too many files")
	}
	id := storage.NewID()
	if !begins {
		if l.Again != "" {
			return c.fail("only the first input of a turn can answer another turn again")
		}
		c.add(id, in)
		c.add(c.turns[c.turn], &steered{Turns: []uuid.UUID{id}})
		return nil
	}
	if l.Again != "" {
		of, ok := c.turns[l.Again]
		if !ok {
			return c.fail("there is no earlier turn %q", l.Again)
		}
		in.Of = &of
	}
	c.endTurn(last)
	c.turn, c.turns[l.Turn] = l.Turn, id
	c.add(id, in)
	c.add(id, &turnStarted{Window: assumedWindow})
	return nil
}

// endTurn ends the current turn at the time of its last message.
func (c *chatImport) endTurn(at time.Time) {
	if c.turn == "" {
		return
	}
	if c.end == nil {
		c.end = &turnFinished{State: Completed, Reason: StopAnswer}
	}
	c.events = append(c.events, Event{Turn: c.turns[c.turn], At: at, Body: c.end})
	c.end, c.calls = nil, map[string]string{}
}

// open returns the number of calls of the turn without a result.
func (c *chatImport) open() (n int) {
	for _, id := range c.calls {
		if id != "" {
			n++
		}
	}
	return n
}

// assistant adds a reply of the model, or a file that the model showed.
func (c *chatImport) assistant(l chatLine) error {
	turn := c.turns[c.turn]
	if l.Parts[0].Kind == PartImage || l.Parts[0].Kind == PartFile {
		a, ok := c.files[l.Parts[0].SHA256]
		if !ok || len(l.Parts) > 2 || len(l.Parts) == 2 && l.Parts[1].Kind != PartText {
			return c.fail("a file that was shown must be there, with a text at most")
		}
		a.Name, a.Text = attachmentName(cmp.Or(l.Parts[0].Name, a.Name)), ""
		sent := &mediaSent{File: a}
		if len(l.Parts) == 2 {
			sent.Text = c.scrub(l.Parts[1].Text)
		}
		c.add(turn, sent)
		return nil
	}
	if c.open() > 0 {
		return c.fail("the calls before it have no results")
	}
	b := &replied{Reason: providers.FinishStop}
	b.Provider, b.Model, _ = strings.Cut(l.Model, "/")
	if len(l.Model) > 200 {
		return c.fail("the name of the model is too long")
	}
	for _, p := range l.Parts {
		switch p.Kind {
		case PartText, PartReasoning:
			b.Parts = append(b.Parts, providers.Part{Kind: p.Kind, Text: c.scrub(p.Text)})
		case PartSource:
			if !strings.HasPrefix(p.URL, "https://") && !strings.HasPrefix(p.URL, "http://") || len(p.URL) > 8192 {
				return c.fail("a source must have a web address")
			}
			name, _ := clip(p.Name, 400)
			b.Sources = append(b.Sources, providers.Source{URL: p.URL, Title: name})
		case PartToolCall:
			_, twice := c.calls[p.CallID]
			switch {
			case p.CallID == "" || twice:
				return c.fail("each call must have an id of its own")
			case len(c.calls) >= maxImportMessages:
				return c.fail("the turn has too many calls")
			case p.Tool == "" || len(p.Tool) > maxToolName || len(p.Args) == 0 || len(p.Args) > maxText:
				return c.fail("a call has the name of a tool and arguments of at most 256 KiB")
			}
			id := fmt.Sprintf("call_%d_%d", c.line, len(b.Parts))
			c.calls[p.CallID] = id
			b.Parts = append(b.Parts, providers.Part{Kind: providers.PartToolCall, ID: id, Name: p.Tool, Args: c.scrub(string(p.Args))})
		default:
			return c.fail("an answer can't have a part %q", clipped(p.Kind))
		}
	}
	c.add(turn, b)
	return nil
}

// results adds the results of calls. They are data of unknown origin.
func (c *chatImport) results(l chatLine) error {
	for _, p := range l.Parts {
		id := c.calls[p.CallID]
		switch {
		case p.Kind != PartToolResult || id == "":
			return c.fail("a result needs a call before it, and a call has one result")
		case !slices.Contains([]string{statusDone, statusFailed, statusDenied, statusSkipped}, p.Status):
			return c.fail("there is no status %q", clipped(p.Status))
		case len(p.Text) > maxImportResult:
			return c.fail("a result is longer than %d KiB", maxImportResult>>10)
		}
		o := &toolOutcome{CallID: id, Status: p.Status, Text: c.scrub(p.Text), Untrusted: true, Private: true, TookMs: max(p.TookMs, 0)}
		o.Text = fence(quoted(o.Text))
		if a, ok := c.files[p.SHA256]; ok {
			o.Blob, o.Bytes = a.Blob, a.Bytes
		}
		c.calls[p.CallID] = ""
		c.add(c.turns[c.turn], o)
	}
	return nil
}

var (
	fenced     = regexp.MustCompile(`(?s)^«data ([0-9a-f]{12}|[0-9a-f]{32}) from ([A-Za-z0-9_-]{1,64})»\n(.*)\n«end ([0-9a-f]+)»$`)
	noticeKind = regexp.MustCompile(`^[a-z_]{1,30}$`)
)

// quoted returns what a result in a file quotes and the tool that it is from. The marks of the file are
// known outside, so they are never used again.
func quoted(text string) (source, content string) {
	if m := fenced.FindStringSubmatch(text); m != nil && m[1] == m[4] {
		return m[2], m[3]
	}
	return "an imported chat", text
}

// notice adds a sentence for people. If it says why the turn ended, it ends the turn.
func (c *chatImport) notice(l chatLine) error {
	for _, p := range l.Parts {
		if p.Kind != PartNotice || len(p.Text) > maxImportResult || len(p.Title) > 400 {
			return c.fail("a notice is a text of at most %d KiB", maxImportResult>>10)
		}
		text := c.scrub(p.Text)
		if state, message := stateOf(p.Status), text; state != "" {
			c.end = &turnFinished{State: state, Reason: p.Status}
			if state == Failed {
				c.end.Error = &TurnError{Kind: string(fault.Unavailable), Message: message}
			}
			continue
		}
		n := &noticed{Kind: p.Status, Title: c.scrub(p.Title), Text: text}
		if !noticeKind.MatchString(n.Kind) || strings.HasPrefix(n.Kind, notifyPrefix) {
			n.Kind = OriginImport
		}
		c.add(c.turns[c.turn], n)
	}
	return nil
}

// stateOf returns the state of a turn that ended for a reason, or "" if the reason is not one that is
// shown.
func stateOf(reason string) string {
	switch reason {
	case StopDenied, StopLength, StopRefusal:
		return Completed
	case StopCanceled:
		return Canceled
	case StopMaxTurns, StopBudget, StopLoop, StopTimeout, StopError:
		return Failed
	}
	return ""
}

// ImportParams names the file of an export, by its blob or by the token of an upload.
type ImportParams struct {
	Blob string `json:"blob,omitempty"`
	Path string `json:"path,omitempty"`
}

// Import creates a chat from an export in JSON lines, entirely or not at all. The chat gets new ids,
// asks before it acts as every new chat does, and its content counts as text from outside.
func (s *Service) Import(ctx context.Context, name string, r io.Reader) (SessionResult, error) {
	return s.importChat(ctx, name, r, nil)
}

// importChat imports a chat, as a copy of the chat of another device unless of is nil.
func (s *Service) importChat(ctx context.Context, name string, r io.Reader, of *uuid.UUID) (SessionResult, error) {
	user, id := identity.UserID(ctx), storage.NewID()
	c := &chatImport{
		keep:  func(data []byte) error { _, err := s.db.Blobs().PutBytes(ctx, data); return err },
		scrub: func(text string) string { return s.o.Scrub(ctx, text) },
	}
	if err := c.read(r); err != nil {
		return SessionResult{}, err
	}
	first := &created{Kind: KindChat, Agent: DefaultAgent, Mode: ModeAsk, Boundary: newBoundary()}
	if err := s.apply(ctx, first); err != nil {
		return SessionResult{}, err
	}
	events := append([]Event{{Body: first}, {Body: &imported{Name: attachmentName(name)}}}, c.events...)
	// Its content is not remembered: the memory holds only what the person said.
	l := &live{s: s, id: id, user: user, state: &State{QueueMode: QueueFollowup}}
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		l.state = &State{QueueMode: QueueFollowup}
		if err := s.insertSession(tx, l, c.title, QueueFollowup, first); err != nil {
			return err
		}
		if of != nil {
			if _, err := tx.Exec(`UPDATE sessions SET forked_from = ? WHERE id = ?`, *of, id); err != nil {
				return err
			}
		}
		for _, a := range c.files {
			if err := s.keepBlob(tx, l, a.Blob, a.Name, a.Mime, a.Bytes, "in"); err != nil {
				return err
			}
		}
		for i, e := range events {
			e.Seq, e.Cause = int64(i)+1, int64(i)
			if e.At.IsZero() {
				e.At = tx.Now
			}
			if err := s.writeEvent(tx, id, e); err != nil {
				return err
			}
			if err := s.project(ctx, tx, l, l.state, e); err != nil {
				return err
			}
			l.state.apply(e)
		}
		return nil
	})
	if err != nil {
		return SessionResult{}, err
	}
	return s.announced(ctx, id)
}
