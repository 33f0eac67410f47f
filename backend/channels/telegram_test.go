package channels_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/channels"
	"helix/backend/channels/channelstest"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helix/backend/testkit"
)

// hastyClock has timers that fire at once. Its time moves on with each.
type hastyClock struct {
	mu    sync.Mutex
	now   time.Time
	waits []time.Duration
}

func (c *hastyClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *hastyClock) After(d time.Duration) (<-chan time.Time, func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d >= time.Minute { // such as those that are not about a channel
		return nil, func() {}
	}
	c.now = c.now.Add(d)
	c.waits = append(c.waits, d)
	fire := make(chan time.Time, 1)
	fire <- c.now
	return fire, func() {}
}

func (c *hastyClock) waited(d time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.waits {
		if w == d {
			return true
		}
	}
	return false
}

func telegramRig(t *testing.T, o channels.Options) (*channelstest.Rig, *telegramPeer) {
	t.Helper()
	p := newTelegramPeer(t)
	return channelstest.NewRig(t, p, o, nil), p
}

func TestTelegramErrorsBecomeStates(t *testing.T) {
	t.Parallel()
	r, p := telegramRig(t, channels.Options{})
	if c := r.WaitState(channels.Connected); c.Account != "@helix_test_bot" {
		t.Errorf("%+v", c)
	}
	for _, c := range []struct {
		failure channelstest.Failure
		state   string
		says    string
	}{
		{channelstest.Failure{Status: 409, Description: "Conflict: terminated by other getUpdates request"}, channels.Failed, "Another program polls this bot"},
		{channelstest.Failure{Status: 502, Description: "Bad Gateway"}, channels.Disconnected, "Couldn't reach Telegram"},
		{channelstest.Failure{Status: 429, Description: "Too Many Requests", RetryAfter: 1}, channels.Disconnected, "wait 1 s"},
	} {
		p.Fail("getUpdates", c.failure)
		p.Push(map[string]any{"unknown": map[string]any{}}) // ends the poll that waits
		if got := r.WaitState(c.state); !strings.Contains(got.Error, c.says) {
			t.Errorf("%d: %+v", c.failure.Status, got)
		}
		if got := r.WaitState(channels.Connected); got.Error != "" {
			t.Errorf("after %d: %+v", c.failure.Status, got)
		}
	}
	p.SetWebhook()
	p.Push(map[string]any{"unknown": map[string]any{}})
	if got := r.WaitState(channels.Failed); !strings.Contains(got.Error, "webhook") || p.Calls("deleteWebhook") != 0 {
		t.Errorf("%+v, removed %d times", got, p.Calls("deleteWebhook"))
	}
	if _, err := r.Update(r.Ctx, channels.UpdateParams{ID: r.Added.Channel.ID, Patch: channels.Patch{RemoveWebhook: true}}); err != nil {
		t.Fatal(err)
	}
	r.WaitState(channels.Connected)
	p.Fail("getUpdates", channelstest.Failure{Status: 401, Description: "Unauthorized"})
	p.Push(map[string]any{"unknown": map[string]any{}})
	if got := r.WaitState(channels.Failed); !strings.Contains(got.Error, "refused the token") {
		t.Errorf("%+v", got)
	}
	polls := p.Calls("getUpdates")
	p.Write(sender, "Hello")
	token := channelstest.Token
	if _, err := r.Update(r.Ctx, channels.UpdateParams{ID: r.Added.Channel.ID, Patch: channels.Patch{Token: &token}}); err != nil {
		t.Fatal(err)
	}
	if got := r.Next(); got != "Echo: Hello" || polls == 0 {
		t.Errorf("%q", got)
	}
}

// What can never be sent is not tried again. What is refused for its format goes as it is, once.
func TestTelegramRefusalsOfMessages(t *testing.T) {
	t.Parallel()
	r, p := telegramRig(t, channels.Options{})
	p.Fail("sendMessage", channelstest.Failure{Status: 400, Description: "Bad Request: can't parse entities"})
	p.Write(sender, "**bold** <b>")
	if m := <-p.Sent(); m.Text != "Echo: **bold** <b>" {
		t.Errorf("%q", m.Text)
	}
	p.Fail("sendMessage", channelstest.Failure{Status: 403, Description: "Forbidden: bot was blocked by the user"})
	p.Write(sender, "Are you there?")
	r.Wait(`SELECT count(*) FROM channel_outbox WHERE state = 'failed' AND last_error LIKE '%blocked%' AND attempts = 1`, 1)
	if n := r.Count(`SELECT count(*) FROM channel_sessions`); n != 1 {
		t.Errorf("%d bindings", n)
	}
	p.Fail("sendMessage", channelstest.Failure{Status: 429, Description: "Too Many Requests", RetryAfter: 2})
	p.Write(sender, "And now?")
	if m := <-p.Sent(); m.Text != "Echo: And now?" {
		t.Errorf("%q", m.Text)
	}
}

func TestTelegramBackOffGrowsAndEnds(t *testing.T) {
	t.Parallel()
	clock := &hastyClock{now: time.Now()}
	r, p := telegramRig(t, channels.Options{Clock: clock})
	for range 5 {
		p.Fail("getUpdates", channelstest.Failure{Status: 500, Description: "Internal Server Error"})
	}
	p.Write(sender, "Hello")
	if m := <-p.Sent(); m.Text != "Echo: Hello" {
		t.Errorf("%q", m.Text)
	}
	p.Write(sender, "Again") // the poll after it has succeeded, so the back-off is over
	<-p.Sent()
	for _, d := range []time.Duration{1, 2, 4, 8, 16} {
		if !clock.waited(d * time.Second) {
			t.Errorf("no wait of %d s", d)
		}
	}
	if clock.waited(32 * time.Second) {
		t.Error("the back-off did not end")
	}
	r.WaitState(channels.Connected)
}

func TestTelegramEditsReplaceWhatWasNotSubmitted(t *testing.T) {
	t.Parallel()
	r, p := telegramRig(t, channels.Options{})
	r.Agent.Full(true)
	id := p.Write(sender, "frist")
	r.Wait(`SELECT count(*) FROM channel_inbox`, 1)
	edit := channelstest.Private(sender, "first")
	edit["message_id"], edit["edit_date"] = id, 1_780_000_100
	p.Deliver("edited_message", edit)
	other := channelstest.Private(7, "a stranger's edit")
	other["message_id"], other["edit_date"] = id, 1_780_000_101
	p.Deliver("edited_message", other)
	r.Wait(`SELECT count(*) FROM channel_rejections`, 1)
	if n := r.Count(`SELECT count(*) FROM channel_inbox`); n != 1 {
		t.Errorf("%d messages", n)
	}
	r.Agent.Full(false)
	if m := <-p.Sent(); m.Text != "Echo: first" {
		t.Errorf("%q", m.Text)
	}
	late := channelstest.Private(sender, "FIRST")
	late["message_id"], late["edit_date"] = id, 1_780_000_102
	p.Deliver("edited_message", late)
	if m := <-p.Sent(); m.Text != "Echo: (edited) FIRST" {
		t.Errorf("%q", m.Text)
	}
}

func TestTelegramTopicsAreConversations(t *testing.T) {
	t.Parallel()
	r, p := telegramRig(t, channels.Options{})
	if _, err := r.Allow(r.Ctx, channels.AllowParams{ID: r.Added.Channel.ID, SenderID: channelstest.Sender, ContextIDs: []string{"-100", "-100:8"}}); err != nil {
		t.Fatal(err)
	}
	say := func(text string, topic int) {
		m := channelstest.Private(sender, text)
		m["chat"] = map[string]any{"id": -100, "type": "supergroup", "is_forum": true}
		if topic != 0 {
			m["message_thread_id"], m["is_topic_message"] = topic, true
		}
		p.Deliver("message", m)
	}
	say("general", 0)
	if m := <-p.Raw; m.Chat != "-100" || m.Topic != "" {
		t.Errorf("%+v", m)
	}
	say("/status@helix_test_bot", 8)
	if m := <-p.Raw; m.Chat != "-100" || m.Topic != "8" || !strings.Contains(m.Text, "being answered") {
		t.Errorf("%+v", m)
	}
	say("/status@another_bot", 8)
	say("elsewhere", 9)
	r.Wait(`SELECT count(*) FROM channel_rejections WHERE reason = 'context' AND context_id = '-100:9'`, 1)
	if n := r.Count(`SELECT count(*) FROM channel_inbox`); n != 2 {
		t.Errorf("%d messages", n)
	}
}

func TestTelegramFiles(t *testing.T) {
	t.Parallel()
	_, p := telegramRig(t, channels.Options{})
	send := func(field string, file any) string {
		m := channelstest.Private(sender, "")
		m[field] = file
		p.Deliver("message", m)
		return (<-p.Sent()).Text
	}
	p.AddFile("v", []byte("OggS…"))
	p.AddFile("p", []byte("\x89PNG\r\n\x1a\n…"))
	p.AddFile("huge", make([]byte, 20<<20+1))
	doc := func(id string, size int) map[string]any {
		return map[string]any{"file_id": id, "file_unique_id": id, "file_name": "x.png", "file_size": size}
	}
	for _, c := range []struct {
		field string
		file  any
		want  string
	}{
		{"voice", doc("v", 10), "Echo: spoken"},
		{"photo", []any{doc("small", 1), doc("p", 10)}, "Echo: [photo image/png]"},
		{"document", doc("p", 10), "Echo: [x.png image/png]"},
		{"document", doc("huge", 20<<20+1), "x.png is too large: a file can have 20 MB. Nothing was read."},
		{"document", doc("huge", 0), "x.png is too large: a file can have 20 MB. Nothing was read."},
		{"document", doc("gone", 10), "x.png couldn't be loaded. Send it again."},
		{"location", map[string]any{"latitude": 1, "longitude": 2}, "Files of this kind are not supported. Nothing was read."},
	} {
		if got := send(c.field, c.file); got != c.want {
			t.Errorf("%s %v: %q", c.field, c.file, got)
		}
	}
}

// While a turn runs there is a typing sign, and after a while one message, which is edited.
func TestTelegramShowsProgressInOneMessage(t *testing.T) {
	t.Parallel()
	clock := &hastyClock{now: time.Now()}
	r, p := telegramRig(t, channels.Options{Clock: clock})
	r.Agent.Hold(true)
	p.Write(sender, "Think")
	first := <-p.Raw
	second := <-p.Raw
	if first.Method != "sendMessage" || first.Text != "Still working…" || second.Method != "editMessageText" || second.ID != first.ID || second.Text != "Still working (1 min)…" {
		t.Errorf("%+v, %+v", first, second)
	}
	if p.Calls("sendChatAction") < 2 {
		t.Errorf("%d typing signs", p.Calls("sendChatAction"))
	}
	r.Agent.Hold(false)
	done := map[string]bool{}
	for !done["sendMessage"] || !done["end"] {
		m := <-p.Raw
		done[m.Method] = true
		done["end"] = done["end"] || strings.HasPrefix(m.Text, "Done")
		if m.Method == "sendMessage" && m.Text != "Echo: Think" {
			t.Errorf("%+v", m)
		}
	}
}

// Each of these messages is refused without an answer: it is counted, and nothing of its text is stored.
func TestTelegramDeniesWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	r, p := telegramRig(t, channels.Options{})
	person := func(id int, name string) map[string]any {
		return map[string]any{"id": id, "is_bot": false, "first_name": name, "username": name}
	}
	group := map[string]any{"id": -100, "type": "supergroup"}
	for _, c := range []struct {
		name, kind, reason string
		change             map[string]any
	}{
		{"a stranger", "message", "not_allowed", map[string]any{"from": person(666, "Mallory")}},
		{"a stranger called like the id of an allowed sender", "message", "not_allowed", map[string]any{"from": person(667, "42")}},
		{"an allowed sender in another group", "message", "context", map[string]any{"chat": group}},
		{"an anonymous admin", "message", "not_allowed", map[string]any{"chat": group, "from": person(1087968824, "GroupAnonymousBot"), "sender_chat": group}},
		{"an allowed id behind a channel", "message", "not_allowed", map[string]any{"sender_chat": map[string]any{"id": sender, "type": "channel"}}},
		{"a stranger who forwards an allowed sender", "message", "not_allowed", map[string]any{"from": person(668, "Eve"), "forward_origin": map[string]any{"type": "user", "date": 1, "sender_user": person(sender, "Ada")}}},
		{"a post of a channel", "channel_post", "not_allowed", map[string]any{"from": nil, "chat": map[string]any{"id": -200, "type": "channel"}}},
		{"a wrong code", "message", "pairing", map[string]any{"from": person(669, "Eve"), "text": "/pair ZWIEBELN"}},
		{"a button pressed by a stranger", "callback_query", "not_allowed", map[string]any{"id": "1", "from": person(670, "Eve"), "data": "Zwiebel", "message": nil, "chat": nil, "text": nil}},
	} {
		m := channelstest.Private(sender, "Zwiebelkuchen")
		for k, v := range c.change {
			if m[k] = v; v == nil {
				delete(m, k)
			}
		}
		before := r.Count(`SELECT coalesce(sum(count), 0) FROM channel_rejections WHERE reason = '` + c.reason + `'`)
		p.Deliver(c.kind, m)
		testkit.Eventually(t, c.name, func() int {
			if _, err := r.Rejected(r.Ctx, channels.RejectedParams{}); err != nil { // stores the counts
				t.Fatal(err)
			}
			return r.Count(`SELECT coalesce(sum(count), 0) FROM channel_rejections WHERE reason = '` + c.reason + `'`)
		}, func(n int) bool { return n == before+1 })
	}
	if n := r.Count(`SELECT (SELECT count(*) FROM channel_inbox) + (SELECT count(*) FROM channel_outbox) + (SELECT count(*) FROM audit_details WHERE details LIKE '%wiebel%')`); n != 0 {
		t.Errorf("%d rows with something of a stranger", n)
	}
	if n := p.Calls("sendMessage"); n != 0 {
		t.Errorf("%d answers", n)
	}
}

// The token is in no error, log, audit entry, event or file, whatever goes wrong.
func TestTelegramTokenStaysSecret(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var seen bytes.Buffer
	note := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(&seen, format+"\n", args...)
	}
	log := slog.New(slog.NewTextHandler(writer(func(b []byte) { note("%s", b) }), &slog.HandlerOptions{Level: slog.LevelDebug}))
	r, p := telegramRig(t, channels.Options{Logger: log})
	defer bus.Subscribe(r.DB.Bus(), func(_ uuid.UUID, e channels.Changed) { note("%+v", e) })()
	p.Fail("getUpdates", channelstest.Failure{Status: 500, Description: "Internal Server Error"})
	p.Fail("sendMessage", channelstest.Failure{Lost: true, Status: 1}, channelstest.Failure{Status: 400, Description: "Bad Request"}, channelstest.Failure{Status: 400, Description: "Bad Request"})
	p.Write(sender, "Hello")
	r.Wait(`SELECT count(*) FROM channel_outbox WHERE attempts > 0`, 1)
	p.Close() // so that nothing can be reached
	p.Write(sender, "Hello")
	r.WaitState(channels.Disconnected)
	if _, err := r.Update(r.Ctx, channels.UpdateParams{ID: r.Added.Channel.ID, Patch: channels.Patch{RemoveWebhook: true}}); err == nil {
		t.Error("a webhook was removed at a server that is gone")
	} else {
		note("%v %+v", err, err)
	}
	list, err := r.List(r.Ctx, struct{}{})
	note("%+v, %v", list, err)
	queue, err := r.Queue(r.Ctx, channels.QueueParams{})
	note("%+v, %v", queue, err)
	if err := r.DB.Read(r.Ctx, func(tx *storage.Tx) error {
		return tx.Select(`SELECT details FROM audit_details UNION ALL SELECT last_error FROM channel_outbox UNION ALL SELECT last_error FROM channels`).Each(func(row storage.Row) error {
			var text []byte
			err := row.Scan(&text)
			note("%s", text)
			return err
		})
	}); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if text := seen.String(); strings.Contains(text, channelstest.Token) || strings.Contains(text, channelstest.Token[5:]) || !strings.Contains(text, "Couldn't reach Telegram") {
		t.Errorf("%s", text)
	}
}

type writer func([]byte)

func (w writer) Write(b []byte) (int, error) {
	w(b)
	return len(b), nil
}

// A channel runs on one device. Another one asks to take it over.
func TestAnotherDeviceTakesAChannelOver(t *testing.T) {
	t.Parallel()
	r, _ := telegramRig(t, channels.Options{})
	id := r.Added.Channel.ID
	if err := r.DB.Write(r.Ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`UPDATE channels SET device_id = ?`, uuid.New())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.SetEnabled(r.Ctx, channels.EnabledParams{ID: id, Enabled: true}); err == nil || !strings.Contains(err.Error(), "Take it over") {
		t.Errorf("%v", err)
	}
	if _, err := r.Update(r.Ctx, channels.UpdateParams{ID: id, Patch: channels.Patch{TakeOver: true}}); err != nil {
		t.Fatal(err)
	}
	if c := r.WaitState(channels.Connected); !c.Here {
		t.Errorf("%+v", c)
	}
}

// The channel of a user is not reachable by another one, and what comes through it is its owner's.
func TestChannelsOfUsersAreSeparate(t *testing.T) {
	t.Parallel()
	r, p := telegramRig(t, channels.Options{})
	other := storagetest.OtherUser(t, r.DB)
	theirs := newTelegramPeer(t)
	add := theirs.Add()
	made, err := r.Add(other, add)
	if err != nil {
		t.Fatal(err)
	}
	id := channels.IDParams{ID: r.Added.Channel.ID}
	for name, call := range map[string]func(context.Context) error{
		"get":      func(c context.Context) error { _, err := r.Get(c, id); return err },
		"pair":     func(c context.Context) error { _, err := r.Pair(c, id); return err },
		"senders":  func(c context.Context) error { _, err := r.Senders(c, id); return err },
		"sessions": func(c context.Context) error { _, err := r.ListSessions(c, id); return err },
		"remove":   func(c context.Context) error { _, err := r.Remove(c, id); return err },
		"send": func(c context.Context) error {
			_, err := r.Send(c, channels.SendParams{ID: id.ID, ContextID: "42", Text: "x"})
			return err
		},
	} {
		if err := call(other); err == nil {
			t.Errorf("%s: another user's channel", name)
		}
	}
	if _, err := r.Allow(other, channels.AllowParams{ID: made.Channel.ID, SenderID: channelstest.Sender}); err != nil {
		t.Fatal(err)
	}
	p.Write(sender, "mine")
	<-p.Sent()
	theirs.Write(sender, "theirs") // the same sender and conversation, over another user's channel
	<-theirs.Sent()
	if in := r.Agent.Inputs(); len(in) != 2 || in[0].Session == in[1].Session {
		t.Errorf("%+v", in)
	}
	if n := r.Count(`SELECT count(DISTINCT user_id) FROM channel_inbox`); n != 2 {
		t.Errorf("%d users", n)
	}
}
