// Package channelstest has servers and a conformance suite to test channels with. Only tests import it.
package channelstest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf16"

	"helix/backend/duration"
)

// Token is the only token that a Telegram server accepts.
const Token = "4711:AAAAbbbbCCCCddddEEEEffffGGGG"

// Telegram is a Bot API server. It holds polls, confirms updates by their offset, and refuses what
// Telegram refuses.
type Telegram struct {
	URL string
	srv *httptest.Server

	mu       sync.Mutex
	updates  []update
	lastID   int64
	message  int
	files    map[string][]byte
	failures map[string][]Failure
	calls    map[string]int
	poller   context.CancelCauseFunc // ends the poll that waits
	webhook  bool
	changed  chan struct{} // closed when an update arrives
	sent     chan Sent
	offset   int64
}

type update struct {
	id   int64
	body map[string]any
}

// Sent is a message that the bot has sent or edited.
type Sent struct {
	Method    string // sendMessage, editMessageText or sendDocument
	ID        int
	Chat      string
	Topic     string
	Text      string // or the caption
	ParseMode string
	FileName  string
	File      []byte
}

// Failure is an answer that a method gives once.
type Failure struct {
	Status      int
	Description string
	RetryAfter  int  // seconds
	Lost        bool // the request has its effect, and its answer is lost
}

// NewTelegram starts a server. Close it.
func NewTelegram() *Telegram {
	t := &Telegram{files: map[string][]byte{}, failures: map[string][]Failure{}, calls: map[string]int{}, changed: make(chan struct{}), sent: make(chan Sent, 4096), message: 100, lastID: 1000}
	t.srv = httptest.NewServer(t)
	t.URL = t.srv.URL
	return t
}

// Close ends the server.
func (t *Telegram) Close() {
	t.srv.CloseClientConnections()
	t.srv.Close()
}

// Sent returns what the bot sends.
func (t *Telegram) Sent() <-chan Sent { return t.sent }

// Answer returns the next message that the bot sends, without those about progress, which a slow machine adds.
func (t *Telegram) Answer() Sent {
	for m := range t.sent {
		if !strings.HasPrefix(m.Text, "Still working") {
			return m
		}
	}
	return Sent{}
}

// Calls returns how often a method was called.
func (t *Telegram) Calls(method string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.calls[method]
}

// Confirmed returns the id up to which the bot has confirmed updates.
func (t *Telegram) Confirmed() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.offset - 1
}

// Fail makes the next calls of a method fail, in the order given.
func (t *Telegram) Fail(method string, failures ...Failure) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failures[method] = append(t.failures[method], failures...)
}

// SetWebhook notes that another program has set a webhook, which makes polling impossible.
func (t *Telegram) SetWebhook() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.webhook = true
}

// AddFile makes a file available to getFile.
func (t *Telegram) AddFile(id string, data []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.files[id] = data
}

// Private returns a message of a person in a private chat with the bot.
func Private(sender int64, text string) map[string]any {
	return map[string]any{
		"from": map[string]any{"id": sender, "is_bot": false, "first_name": fmt.Sprint("Person ", sender), "username": "somebody"},
		"chat": map[string]any{"id": sender, "type": "private"}, "date": 1_780_000_000, "text": text,
	}
}

// Say delivers a message of a person in a private chat, and returns its id.
func (t *Telegram) Say(sender int64, text string) int {
	return t.Deliver("message", Private(sender, text))
}

// Deliver delivers a message as an update of a kind, such as message or edited_message. It gets an id if
// it has none, which is returned.
func (t *Telegram) Deliver(kind string, message map[string]any) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	id, ok := message["message_id"].(int)
	if !ok && kind != "callback_query" {
		t.message++
		id = t.message
		message["message_id"] = id
	}
	t.push(map[string]any{kind: message})
	return id
}

// Push delivers an update as it is, but for its id, which is returned.
func (t *Telegram) Push(body map[string]any) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.push(body)
}

func (t *Telegram) push(body map[string]any) int64 {
	t.lastID++
	body["update_id"] = t.lastID
	t.updates = append(t.updates, update{t.lastID, body})
	close(t.changed)
	t.changed = make(chan struct{})
	return t.lastID
}

// ServeHTTP serves /bot<token>/<method> and /file/bot<token>/<path>.
func (t *Telegram) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if path, ok := strings.CutPrefix(r.URL.Path, "/file/bot"+Token+"/"); ok {
		t.mu.Lock()
		data, ok := t.files[path]
		t.mu.Unlock()
		if !ok {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write(data)
		return
	}
	method, ok := strings.CutPrefix(r.URL.Path, "/bot"+Token+"/")
	if !ok {
		answer(w, Failure{Status: 401, Description: "Unauthorized"}, nil)
		return
	}
	params, file, name, err := parameters(r)
	if err != nil {
		answer(w, Failure{Status: 400, Description: "Bad Request: " + err.Error()}, nil)
		return
	}
	t.mu.Lock()
	t.calls[method]++
	var fail Failure
	if list := t.failures[method]; len(list) > 0 {
		fail, t.failures[method] = list[0], list[1:]
	}
	t.mu.Unlock()
	if fail.Status != 0 && !fail.Lost {
		answer(w, fail, nil)
		return
	}
	result, refused := t.call(r.Context(), method, params, file, name)
	if fail.Lost {
		if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
			c.Close()
		}
		return
	}
	answer(w, refused, result)
}

func answer(w http.ResponseWriter, f Failure, result any) {
	w.Header().Set("Content-Type", "application/json")
	if f.Status == 0 {
		_ = json.NewEncoder(w).Encode(map[string]any{"ok": true, "result": result})
		return
	}
	w.WriteHeader(f.Status)
	body := map[string]any{"ok": false, "error_code": f.Status, "description": f.Description}
	if f.RetryAfter > 0 {
		body["parameters"] = map[string]any{"retry_after": f.RetryAfter}
	}
	_ = json.NewEncoder(w).Encode(body)
}

// parameters reads the parameters of a request in JSON or in a form.
func parameters(r *http.Request) (out map[string]string, file []byte, name string, err error) {
	out = map[string]string{}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		var in map[string]any
		d := json.NewDecoder(r.Body)
		d.UseNumber()
		if err := d.Decode(&in); err != nil {
			return nil, nil, "", err
		}
		for k, v := range in {
			out[k] = fmt.Sprint(v)
		}
		return out, nil, "", nil
	}
	form, err := r.MultipartReader()
	if err != nil {
		return nil, nil, "", err
	}
	for {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) || err != nil && len(out) == 0 && r.ContentLength == 0 { // also for a form without parts
			return out, file, name, nil
		}
		if err != nil {
			return nil, nil, "", err
		}
		data, err := io.ReadAll(part)
		if err != nil {
			return nil, nil, "", err
		}
		if part.FileName() != "" {
			file, name = data, part.FileName()
		} else {
			out[part.FormName()] = string(data)
		}
	}
}

func (t *Telegram) call(ctx context.Context, method string, p map[string]string, file []byte, name string) (any, Failure) {
	switch method {
	case "getMe":
		return map[string]any{"id": 4711, "is_bot": true, "first_name": "Helix", "username": "helix_test_bot"}, Failure{}
	case "getUpdates":
		return t.poll(ctx, p)
	case "deleteWebhook":
		t.mu.Lock()
		t.webhook = false
		t.mu.Unlock()
		return true, Failure{}
	case "sendChatAction":
		return true, Failure{}
	case "getFile":
		t.mu.Lock()
		defer t.mu.Unlock()
		data, ok := t.files[p["file_id"]]
		switch {
		case !ok:
			return nil, Failure{Status: 400, Description: "Bad Request: invalid file_id"}
		case len(data) > 20<<20:
			return nil, Failure{Status: 400, Description: "Bad Request: file is too big"}
		}
		return map[string]any{"file_id": p["file_id"], "file_unique_id": "u", "file_size": len(data), "file_path": p["file_id"]}, Failure{}
	case "sendMessage", "editMessageText", "sendDocument":
		return t.take(method, p, file, name)
	}
	return nil, Failure{Status: 404, Description: "Not Found: method not found"}
}

func (t *Telegram) take(method string, p map[string]string, file []byte, name string) (any, Failure) {
	text, most := p["text"], 4096
	if method == "sendDocument" {
		text, most = p["caption"], 1024
	}
	visible := text
	if p["parse_mode"] == "HTML" {
		var err error
		if visible, err = VisibleText(text); err != nil {
			return nil, Failure{Status: 400, Description: "Bad Request: can't parse entities: " + err.Error()}
		}
	}
	switch {
	case strings.TrimSpace(visible) == "" && method != "sendDocument":
		return nil, Failure{Status: 400, Description: "Bad Request: message text is empty"}
	case len(utf16.Encode([]rune(visible))) > most:
		return nil, Failure{Status: 400, Description: "Bad Request: message is too long"}
	}
	chat, err := strconv.ParseInt(p["chat_id"], 10, 64)
	if err != nil {
		return nil, Failure{Status: 400, Description: "Bad Request: chat not found"}
	}
	t.mu.Lock()
	t.message++
	s := Sent{Method: method, ID: t.message, Chat: p["chat_id"], Topic: p["message_thread_id"], Text: text, ParseMode: p["parse_mode"], FileName: name, File: file}
	t.mu.Unlock()
	if method == "editMessageText" {
		s.ID, _ = strconv.Atoi(p["message_id"])
	}
	t.sent <- s
	return map[string]any{"message_id": s.ID, "date": 1_780_000_000, "chat": map[string]any{"id": chat, "type": "private"}, "text": visible}, Failure{}
}

// poll waits for updates after an offset. Another poll ends it.
func (t *Telegram) poll(ctx context.Context, p map[string]string) (any, Failure) {
	offset, _ := strconv.ParseInt(p["offset"], 10, 64)
	seconds, _ := strconv.Atoi(p["timeout"])
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	conflict := Failure{Status: 409, Description: "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"}
	t.mu.Lock()
	if t.webhook {
		t.mu.Unlock()
		return nil, Failure{Status: 409, Description: "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first"}
	}
	if t.poller != nil {
		t.poller(errOtherPoll)
	}
	t.poller = cancel
	t.mu.Unlock()
	timer := time.NewTimer(duration.Of(seconds, time.Second))
	defer timer.Stop()
	for {
		t.mu.Lock()
		t.offset = max(t.offset, offset)
		t.updates = slices.DeleteFunc(t.updates, func(u update) bool { return u.id < offset })
		out := []any{}
		for _, u := range t.updates[:min(len(t.updates), 100)] {
			out = append(out, u.body)
		}
		changed := t.changed
		t.mu.Unlock()
		if len(out) > 0 {
			return out, Failure{}
		}
		select {
		case <-changed:
		case <-timer.C:
			return out, Failure{}
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), errOtherPoll) {
				return nil, conflict
			}
			return out, Failure{}
		}
	}
}

var errOtherPoll = errors.New("another poll")

var tag = regexp.MustCompile(`^<(/?)(b|i|s|a|code|pre|blockquote)( (?:href="[^"<>]*"|class="language-[A-Za-z0-9_+#.-]+"))?>`)

// VisibleText returns what Telegram shows of a text in HTML, or why it refuses it.
func VisibleText(text string) (string, error) {
	var out strings.Builder
	var open []string
	for i := 0; i < len(text); {
		switch text[i] {
		case '<':
			m := tag.FindStringSubmatch(text[i:])
			if m == nil {
				return "", fmt.Errorf("unsupported start tag at byte offset %d", i)
			}
			name := m[2]
			if m[1] == "" {
				inCode := slices.Contains(open, "code") || slices.Contains(open, "pre")
				if inCode && !(name == "code" && open[len(open)-1] == "pre") || slices.Contains(open, name) {
					return "", fmt.Errorf("tag %s can't be nested at byte offset %d", name, i)
				}
				if m[3] != "" && !(strings.HasPrefix(m[3], " href") && name == "a") && !(strings.HasPrefix(m[3], " class") && name == "code") {
					return "", fmt.Errorf("attribute at byte offset %d", i)
				}
				open = append(open, name)
			} else {
				if len(open) == 0 || open[len(open)-1] != name {
					return "", fmt.Errorf("unexpected end tag at byte offset %d", i)
				}
				open = open[:len(open)-1]
			}
			i += len(m[0])
		case '>':
			return "", fmt.Errorf("unescaped character at byte offset %d", i)
		case '&':
			entity, _, ok := strings.Cut(text[i:], ";")
			char, known := map[string]string{"&lt": "<", "&gt": ">", "&amp": "&", "&quot": `"`, "&#34": `"`, "&#39": "'"}[entity]
			if !ok || !known {
				return "", fmt.Errorf("unescaped character at byte offset %d", i)
			}
			out.WriteString(char)
			i += len(entity) + 1
		default:
			out.WriteByte(text[i])
			i++
		}
	}
	if len(open) > 0 {
		return "", fmt.Errorf("can't find end tag corresponding to start tag %s", open[len(open)-1])
	}
	return out.String(), nil
}
