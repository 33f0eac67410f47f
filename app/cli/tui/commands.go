package tui

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/agent"
	"helix/backend/fault"
	"helix/backend/gateway"
	"helix/backend/permission"
	"helix/backend/providers"
)

// Conn is a connection to a backend.
type Conn interface {
	Call(ctx context.Context, method string, params, result any) error
	// Follow calls fn for each event of the topics since the connection was made, in order, until
	// ctx ends (nil) or the connection is lost. gap is called if events are missing.
	Follow(ctx context.Context, topics []string, fn func(gateway.Event), gap func()) error
	Close() error
}

// command is an input that starts with a slash.
type command struct{ name, args, help string }

func commands() []command {
	return []command{
		{"/new", "", "start a new chat"},
		{"/sessions", "", "list chats"},
		{"/switch", "N", "continue chat N of that list"},
		{"/attach", "FILE", "send a file with the next text; - takes them back"},
		{"/cancel", "", "stop the answer"},
		{"/cancelall", "", "stop the answers of all chats"},
		{"/status", "", "show this chat and what runs"},
		{"/model", "REF", "answer with provider/model from now on"},
		{"/mode", "MODE", "ask, read or work: what tools may do without a question"},
		{"/cost", "", "show what this chat has cost"},
		{"/help", "", "show this help"},
		{"/quit", "", "leave; the chat stays"},
	}
}

// Help returns the list of commands.
func Help() string {
	var b strings.Builder
	for _, c := range commands() {
		fmt.Fprintf(&b, "%-16s%s\n", strings.TrimSpace(c.name+" "+c.args), c.help)
	}
	return b.String() + "\nA text that you send while Helix answers waits for its turn."
}

// Settings are the user's choices: the chat, and how it answers.
type Settings struct {
	SessionID uuid.UUID          // Nil: the next text starts a new chat
	Model     providers.ModelRef // "": that of the chat
	Mode      string             // of a new chat
	Budget    *agent.Budget
	Listed    []agent.Session       // the list that /switch refers to
	Files     []agent.AttachmentRef // attached to the next text
}

// Outcome is the result of an input.
type Outcome struct {
	Settings Settings
	Text     string            // to show
	Listed   bool              // show Settings.Listed
	Sent     *agent.SendResult // a text was sent
	Quit     bool
}

// Do executes an input: a command, or a text for the chat, which gets the id turn. The same input
// with the same id may be repeated after a lost connection. The returned settings are valid even
// with an error.
func Do(ctx context.Context, conn Conn, s Settings, turn uuid.UUID, input string) (out Outcome, err error) {
	verb, rest, _ := strings.Cut(strings.TrimSpace(input), " ")
	rest = strings.TrimSpace(rest)
	out.Settings = s
	here := agent.SessionParams{SessionID: s.SessionID}
	if !isCommand(verb) {
		out.Settings, out.Sent, err = send(ctx, conn, s, turn, input)
		return out, err
	}
	switch verb {
	case "/quit", "/exit":
		out.Quit = true
	case "/help":
		out.Text = Help()
	case "/new":
		out.Settings.SessionID = uuid.Nil
		out.Text = "A new chat begins with your next text."
	case "/sessions":
		var r agent.ListResult
		err = conn.Call(ctx, "chat.list", agent.ListParams{Limit: 50}, &r)
		out.Settings.Listed, out.Listed = r.Sessions, err == nil
	case "/switch":
		n, bad := strconv.Atoi(rest)
		if bad != nil || n < 1 || n > len(s.Listed) {
			out.Text = "Choose a number of /sessions."
			break
		}
		chosen := s.Listed[n-1]
		out.Settings.SessionID, out.Settings.Model = chosen.ID, ""
		out.Text = "Chat: " + Title(chosen)
	case "/attach":
		switch rest {
		case "":
			if out.Text = "Name a file."; len(s.Files) > 0 {
				out.Text = attached(s.Files)
			}
		case "-":
			out.Settings.Files, out.Text = nil, "Nothing is attached."
		default:
			var ref agent.AttachmentRef
			if ref, err = Attach(func(method string, params, result any) error { return conn.Call(ctx, method, params, result) }, rest); err == nil {
				out.Settings.Files = append(slices.Clone(s.Files), ref)
				out.Text = attached(out.Settings.Files)
			}
		}
	case "/cancel":
		var r agent.StateResult
		if s.SessionID != uuid.Nil {
			err = conn.Call(ctx, "chat.cancel", here, &r)
		}
		if out.Text = "Stopped."; r.State == "" || r.State == "idle" {
			out.Text = "Nothing runs."
		}
	case "/cancelall":
		var r agent.CountResult
		err = conn.Call(ctx, "chat.cancel_all", struct{}{}, &r)
		out.Text = fmt.Sprintf("%d stopped.", r.Count)
	case "/model":
		out.Settings.Model = providers.ModelRef(rest)
		if out.Text = "Model: " + rest; rest == "" {
			out.Text = "Model: that of the chat"
		}
	case "/mode":
		if !slices.Contains(modes(), rest) {
			out.Text = "The mode is ask, read or work."
			break
		}
		if s.SessionID != uuid.Nil {
			err = conn.Call(ctx, "chat.set_mode", agent.ModeParams{SessionID: s.SessionID, Mode: rest}, nil)
		}
		if err == nil {
			out.Settings.Mode, out.Text = rest, "Mode: "+rest
		}
	case "/cost", "/status":
		out.Text, err = account(ctx, conn, s, verb == "/status")
	default:
		out.Text = "There is no command " + verb + ". /help lists them."
	}
	return out, err
}

// attached returns a line about the attachments of the next text.
func attached(list []agent.AttachmentRef) string {
	names := make([]string, len(list))
	for i, f := range list {
		names[i] = oneLine(f.Name)
	}
	return "Goes with your next text: " + strings.Join(names, ", ")
}

// maxAttachment is the largest file in bytes that is sent; the backend also enforces it.
const maxAttachment = 10 << 20

// Attach sends a file of this computer to the backend, as an attachment for the next text.
func Attach(call func(method string, params, result any) error, path string) (ref agent.AttachmentRef, err error) {
	path = strings.Trim(path, `"'`)
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			path = filepath.Join(home, rest)
		}
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return ref, fault.NotFoundf("Couldn't open %s.", path).WithCause(err)
	case !info.Mode().IsRegular():
		return ref, fault.Invalidf("%s isn't a file.", path)
	case info.Size() > maxAttachment:
		return ref, fault.Invalidf("%s is larger than %d MB.", path, maxAttachment>>20)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return ref, fault.Unavailablef("Couldn't read %s.", path).WithCause(err)
	}
	var out agent.AttachResult
	err = call("chat.attach", agent.AttachParams{Name: filepath.Base(path), Base64: base64.StdEncoding.EncodeToString(data)}, &out)
	return agent.AttachmentRef{Blob: out.Blob, Name: out.Name}, err
}

func modes() []string { return []string{agent.ModeAsk, agent.ModeRead, agent.ModeWork} }

// isCommand distinguishes /new from /etc/hosts.
func isCommand(word string) bool {
	return len(word) > 1 && word[0] == '/' && strings.Trim(word[1:], "abcdefghijklmnopqrstuvwxyz") == ""
}

// send sends a text; the first one creates the chat.
func send(ctx context.Context, conn Conn, s Settings, turn uuid.UUID, text string) (Settings, *agent.SendResult, error) {
	fresh := s.SessionID == uuid.Nil
	if fresh {
		var made agent.SessionResult
		if err := conn.Call(ctx, "chat.create", agent.CreateParams{Mode: s.Mode}, &made); err != nil {
			return s, nil, err
		}
		s.SessionID = made.Session.ID
	}
	var sent agent.SendResult
	err := conn.Call(ctx, "chat.send", agent.SendParams{SessionID: s.SessionID, Text: text, TurnID: &turn, Model: s.Model, Budget: s.Budget, Attachments: s.Files}, &sent)
	if err == nil {
		s.Files = nil
		return s, &sent, nil
	}
	if fresh && refused(err) { // an empty chat is useless
		_ = conn.Call(ctx, "chat.delete", agent.SessionParams{SessionID: s.SessionID}, nil)
		s.SessionID = uuid.Nil
	}
	return s, nil, err
}

// refused reports whether the error is from the backend itself, so the connection works.
func refused(err error) bool {
	var r *gateway.RemoteError
	return errors.As(err, &r)
}

// account returns what a chat has cost, and with status its state.
func account(ctx context.Context, conn Conn, s Settings, status bool) (text string, err error) {
	if s.SessionID == uuid.Nil {
		return "This chat has not begun.", nil
	}
	here := agent.SessionParams{SessionID: s.SessionID}
	if status {
		var all agent.StatusResult
		var got agent.GetResult
		if err := errors.Join(conn.Call(ctx, "agent.status", struct{}{}, &all), conn.Call(ctx, "chat.get", here, &got)); err != nil {
			return "", err
		}
		model := string(s.Model)
		if model == "" {
			model = modelOf(got.Session, all)
		}
		text = fmt.Sprintf("Chat %s\nMode %s, model %s\n%d running, %d queued in all chats\n", s.SessionID, got.Session.Mode, model, len(all.Running), all.Queued)
	}
	var cost agent.CostResult
	if err := conn.Call(ctx, "chat.cost", here, &cost); err != nil {
		return "", err
	}
	for _, m := range cost.ByModel {
		text += fmt.Sprintf("%s: %s in %d calls, %d tokens\n", m.Key, dollars(m.CostMicros), m.Calls, m.Tokens)
	}
	return text + fmt.Sprintf("%d calls of a model, %s", cost.Calls, dollars(cost.CostMicros)), nil
}

// modelOf returns the model that answers a chat: its own, or that of the role chat.
func modelOf(s agent.Session, all agent.StatusResult) string {
	if s.Model != "" {
		return string(s.Model)
	}
	for _, r := range all.Roles {
		if r.Role == providers.RoleChat && len(r.Chain) > 0 {
			return string(r.Chain[0])
		}
	}
	return "none"
}

// dollars formats an amount.
func dollars(m providers.Micros) string { return fmt.Sprintf("$%.4f", float64(m)/1e6) }

// Title returns the title of a chat.
func Title(s agent.Session) string {
	if s.Title == "" {
		return "(no title)"
	}
	return oneLine(s.Title)
}

// SessionRow returns one line of a list of chats.
func SessionRow(i int, s agent.Session) string {
	return strings.TrimSpace(fmt.Sprintf("%2d  %s  %s  %s", i+1, s.UpdatedAt.Local().Format(time.DateTime), Title(s), map[bool]string{true: "(" + s.State + ")"}[s.State != "idle" && s.State != ""]))
}

// Question is an approval as it is shown in a terminal.
type Question struct{ permission.Approval }

// Ask reads an approval; nil: it has been answered.
func Ask(ctx context.Context, conn Conn, id uuid.UUID) (*Question, error) {
	var r permission.GetApprovalResult
	if err := conn.Call(ctx, "approvals.get", permission.GetApprovalParams{ID: id}, &r); err != nil || r.Approval.Status != "pending" {
		return nil, err
	}
	return &Question{r.Approval}, nil
}

// Sentence returns who asks for what.
func (q *Question) Sentence() string {
	who, what := q.Subject.Name, q.Approval.Sentence
	if who == "" {
		who = q.Subject.ID
	}
	if what == "" && len(q.Requested) > 0 {
		what = string(q.Requested[0].Capability)
	}
	return oneLine(who + " asks: " + what)
}

// Lines returns all details of what is asked for, made safe to show.
func (q *Question) Lines() (out []string) {
	for _, r := range q.Requested {
		line := string(r.Capability)
		if r.Resource != "" {
			line += "(" + r.Resource + ")"
		}
		out = append(out, oneLine(line+" "+r.Why))
	}
	if x := q.Question; x != nil {
		for _, text := range []string{x.Message, string(x.Details)} {
			if text != "" {
				out = append(out, strings.Split(Visible(strings.TrimRight(text, "\n")), "\n")...)
			}
		}
	}
	return out
}

// Full returns everything known about the question.
func (q *Question) Full() string {
	return strings.Join(append([]string{oneLine(strings.ReplaceAll(q.Tier, "_", " "))}, q.Lines()...), "\n")
}

// Keys returns how to answer.
func (q *Question) Keys() string {
	if q.Question == nil {
		return "y once, n deny, v view"
	}
	var names []string
	for i, c := range q.Question.Choices {
		names = append(names, fmt.Sprintf("%d %s", i+1, oneLine(c.Label)))
	}
	return strings.Join(names, ", ") + ", v view"
}

// Answer returns the decision for a key; ok is false for a key without one.
func (q *Question) Answer(key string) (p permission.AnswerParams, ok bool) {
	p = permission.AnswerParams{ID: q.ID, DefinitionHash: q.DefinitionHash, Decision: "deny"}
	if q.Question == nil {
		if key == "y" {
			p.Decision, p.Scope = "approve", "once"
		}
		return p, key == "y" || key == "n"
	}
	n, err := strconv.Atoi(key)
	if err != nil || n < 1 || n > len(q.Question.Choices) {
		return p, false
	}
	c := q.Question.Choices[n-1]
	if p.Choice = c.ID; c.Approves {
		p.Decision = "approve"
	}
	return p, true
}

// Decide sends an answer. It is not an error if someone else has already answered.
func Decide(ctx context.Context, conn Conn, p permission.AnswerParams) error {
	if err := conn.Call(ctx, "approvals.decide", p, nil); err != nil && !fault.Is(err, fault.Conflict) {
		return err
	}
	return nil
}
