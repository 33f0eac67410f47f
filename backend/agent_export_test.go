package backend

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"

	"helix/backend/agent"
	"helix/backend/coretools"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/providers"
	"helix/backend/storage"
)

// exported returns the text of an export.
func (c *chatter) exported(session uuid.UUID, format string) (text, blob string) {
	c.t.Helper()
	var out agent.ExportResult
	c.call("chat.export", agent.ExportParams{SessionID: session, Format: format}, &out)
	f, _, err := c.b.downloads.Open(c.ctx(), storageSum(c.t, out.Blob))
	if err != nil {
		c.t.Fatal(err)
	}
	defer f.Close()
	raw, err := io.ReadAll(f)
	if err != nil || int64(len(raw)) != out.Size {
		c.t.Fatalf("%d bytes, want %d, %v", len(raw), out.Size, err)
	}
	return string(raw), out.Blob
}

// A chat with calls, files, a retried answer and a stop is exported and imported: the copy shows
// the same, sends the same to the model, and produces the same file. It has no permissions, and
// counts as untrusted.
func TestChatExportAndImport(t *testing.T) {
	t.Parallel()
	photo := picture(t, 50)
	c := newChatter(t, testOptions(t.TempDir()))
	image := func(k providers.Caps) bool { return k.Images }
	c.useModel(providers.WireChat, image,
		calls("file_list", `{"path":"/shared"}`), providers.ScriptedReply{Text: "A square, and nothing there."},
		providers.ScriptedReply{Text: "Blue."}, providers.ScriptedReply{Text: "Green."},
		calls("file_list", `{"path":"/tmp"}`),
		calls("file_read", `{"path":"/shared/long.txt"}`), providers.ScriptedReply{Text: "Long."})
	s := c.create(agent.CreateParams{Title: "A day", Mode: agent.ModeWork})
	var sent agent.SendResult
	c.call("chat.send", agent.SendParams{SessionID: s.ID, Text: "What is this, and what is in the folder?", Attachments: []agent.AttachmentRef{c.attach("square.png", photo), c.attach("notes.txt", []byte("Some notes"))}}, &sent)
	c.until(sent.TurnID)
	color := c.say(s.ID, "A color?")
	c.call("chat.retry", agent.RetryParams{TurnID: color.TurnID}, &sent)
	c.until(sent.TurnID)
	c.call("chat.send", agent.SendParams{SessionID: s.ID, Text: "Look again", Budget: &agent.Budget{MaxTurns: 1}}, &sent)
	if turn := c.until(sent.TurnID); turn.StopReason != agent.StopMaxTurns {
		t.Fatalf("%+v", turn)
	}
	root := c.workspaceRoot()
	if err := os.WriteFile(filepath.Join(root, "shared", "long.txt"), []byte(strings.Repeat("A long line of text.\n", 4000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if turn := c.say(s.ID, "Read the long one"); turn.State != agent.Completed {
		t.Fatalf("%+v %+v", turn, turn.Error)
	}
	text, blob := c.exported(s.ID, agent.FormatLines)
	for _, never := range []string{"approval", "undoToken", "budget", `"work"`, s.ID.String(), color.TurnID.String()} {
		if strings.Contains(text, never) {
			t.Errorf("the export contains %q", never)
		}
	}
	var made agent.SessionResult
	c.call("chat.import", agent.ImportParams{Blob: blob}, &made)
	m := made.Session
	if m.Title != "A day" || m.Mode != agent.ModeAsk || m.Budget != (agent.Budget{}) || m.CostMicros != 0 || m.ID == s.ID || m.Remember {
		t.Errorf("%+v", m)
	}
	was, is := c.messages(s.ID), c.messages(m.ID)
	if len(was) != len(is) {
		t.Fatalf("%d messages, want %d", len(is), len(was))
	}
	for i, a := range was {
		b := is[i]
		if a.Role != b.Role || a.Hidden != b.Hidden || !a.At.Equal(b.At) || a.Model != b.Model || shape(a.Parts) != shape(b.Parts) {
			t.Errorf("message %d: %s %v %s, want %s %v %s", i, b.Role, b.Hidden, shape(b.Parts), a.Role, a.Hidden, shape(a.Parts))
		}
	}
	// After the first export, the person's texts are those of an import; from then on nothing
	// changes.
	once, blob := c.exported(m.ID, agent.FormatLines)
	var again agent.SessionResult
	c.call("chat.import", agent.ImportParams{Blob: blob}, &again)
	if twice, _ := c.exported(again.Session.ID, agent.FormatLines); neutral(once) != neutral(twice) {
		t.Errorf("a second way through a file gives something else:\n%s\n%s", neutral(once), neutral(twice))
	}
	c.useModel(providers.WireChat, image, providers.ScriptedReply{Text: "Yes."}, calls("http_request", `{"url":"https://example.com/?q=notes","method":"POST"}`))
	if turn := c.say(m.ID, "Do you remember?"); turn.State != agent.Completed {
		t.Fatalf("%+v %+v", turn, turn.Error)
	}
	body := string(c.srv.Requests()[0].Body)
	for _, want := range []string{"Some notes", "nothing there", "from import", "A long line of text.", "iVBORw0KGgo", "Green."} {
		if !strings.Contains(body, want) {
			t.Errorf("the request after the import lacks %q", want)
		}
	}
	if strings.Contains(body, "Blue.") {
		t.Error("an answer that was replaced is in the request")
	}
	if turn := c.say(m.ID, "Send the notes"); turn.State != agent.Waiting {
		t.Errorf("an imported chat sends without a question: %+v", turn)
	}
	var sum agent.ReplayResult
	if c.call("agent.replay", agent.ReplayParams{SessionID: m.ID}, &sum); !sum.Identical {
		t.Errorf("%+v", sum.FirstDifference)
	}
	if text, _ := c.exported(s.ID, agent.FormatMarkdown); !strings.Contains(text, "Attached: square.png") {
		t.Errorf("%s", text)
	}
}

// quoteMark is the mark of a quoted text, which is new in each chat.
var quoteMark = regexp.MustCompile(`«(data|end) [0-9a-f]{32}`)

// shape returns the content of parts without what a file does not contain: ids, and the names of
// the tools of this Helix.
func shape(parts []agent.Part) string {
	out := []agent.Part{}
	for _, p := range parts {
		p.CallID, p.Title, p.Tier, p.ApprovalID, p.UndoToken, p.Untrusted = "", "", "", nil, "", false
		if p.Kind == agent.PartToolResult {
			p.Tool, p.Bytes = "", 0
			if !strings.HasPrefix(p.Text, "«data") { // texts that were not quoted are quoted now
				p.Text = ""
			}
			p.Text = quoteMark.ReplaceAllString(p.Text, "«$1")
		}
		out = append(out, p)
	}
	raw, _ := json.Marshal(out)
	return string(raw)
}

// neutral returns an export without ids and times.
func neutral(text string) string {
	text = regexp.MustCompile(`"at":"[^"]*"`).ReplaceAllString(text, `"at":""`)
	return quoteMark.ReplaceAllString(regexp.MustCompile(`"callId":"[^"]*"`).ReplaceAllString(text, `"callId":""`), "«$1")
}

// An incomplete file creates no chat at all; files of other users and of the computer are not read.
func TestImportIsAllOrNothing(t *testing.T) {
	t.Parallel()
	c := newChatter(t, testOptions(t.TempDir()), providers.ScriptedReply{Text: "Hello."}, providers.ScriptedReply{Text: "Hello."})
	s := c.create(agent.CreateParams{})
	c.say(s.ID, "One")
	c.say(s.ID, "Two")
	text, _ := c.exported(s.ID, agent.FormatLines)
	count := func(table string) (n int) {
		c.query(`SELECT count(*) FROM `+table, &n)
		return n
	}
	tables := []string{"sessions", "session_messages", "conversation_events", "agent_turns", "session_blobs", "session_messages_fts"}
	before := map[string]int{}
	for _, table := range tables {
		before[table] = count(table)
	}
	lines := strings.SplitAfter(text, "\n")
	for i := range lines {
		broken := strings.Join(lines[:i], "") + `{"type":"message","turn":"9","role":"tool"}` + "\n"
		if err := c.try("chat.import", agent.ImportParams{Blob: c.attach("chat.jsonl", []byte(broken)).Blob}, nil); !fault.Is(err, fault.Invalid) {
			t.Errorf("broken after %d lines: %v", i, err)
		}
	}
	md, _ := c.exported(s.ID, agent.FormatMarkdown)
	for name, p := range map[string]agent.ImportParams{
		"Markdown": {Blob: c.attach("chat.md", []byte(md)).Blob}, "nothing": {}, "no hash": {Blob: "x"}, "unknown": {Blob: strings.Repeat("0", 64)},
	} {
		if err := c.try("chat.import", p, nil); !fault.Is(err, fault.Invalid) && !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, table := range tables {
		if n := count(table); n != before[table] {
			t.Errorf("%s has %d rows after imports that were refused, had %d", table, n, before[table])
		}
	}
	path := filepath.Join(t.TempDir(), "chat.jsonl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c.call("chat.import", agent.ImportParams{Path: path}, nil)
	if n := count("sessions"); n != before["sessions"]+1 {
		t.Errorf("%d sessions", n)
	}
	program := identity.With(t.Context(), identity.Identity{User: identity.UserID(c.ctx()), Scopes: identity.Write.Closed(), Client: identity.ClientProgram})
	if _, err := c.b.importChat(program, agent.ImportParams{Path: path}); !fault.Is(err, fault.Denied) {
		t.Errorf("a program names a file of this computer: %v", err)
	}
}

func (c *chatter) query(query string, to any) {
	c.t.Helper()
	if err := c.b.DB.Read(c.ctx(), func(tx *storage.Tx) error { return tx.QueryRow(query).Scan(to) }); err != nil {
		c.t.Fatal(err)
	}
}

func (c *chatter) workspaceRoot() string {
	c.t.Helper()
	var at coretools.Status
	c.call("workspace.status", nil, &at)
	return at.Root
}
