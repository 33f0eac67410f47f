package backend

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"helix/backend/agent"
	"helix/backend/channels"
	"helix/backend/channels/channelstest"
	"helix/backend/permission"
	"helix/backend/providers"
	"helix/backend/providers/providerstest"
	"helix/backend/scheduler"
)

// A person asks over Telegram for the result of a schedule and gets it. What needs an approval is
// refused with its question left in Approvals, whatever the person writes. A stranger gets nothing.
func TestPhoneGetsTheResultOfASchedule(t *testing.T) {
	t.Parallel()
	tg := channelstest.NewTelegram()
	t.Cleanup(tg.Close)
	schedule := ""
	answer := func(body []byte) providers.ScriptedReply {
		var q struct {
			Messages []struct {
				Role    string
				Content any
			}
		}
		if err := json.Unmarshal(body, &q); err != nil || len(q.Messages) == 0 {
			return providers.ScriptedReply{Status: 500}
		}
		last := q.Messages[len(q.Messages)-1]
		text := fmt.Sprint(last.Content)
		switch {
		case last.Role == "tool" && strings.Contains(text, "It will rain."):
			return providers.ScriptedReply{Text: "It said that it *will* rain."}
		case last.Role == "tool":
			return providers.ScriptedReply{Text: "I may not."}
		case strings.Contains(text, "weather"):
			return providers.ScriptedReply{Text: "It will rain."}
		case strings.Contains(text, "What did Morning say?"):
			return calls("schedule_runs", `{"scheduleId":"`+schedule+`"}`)
		}
		return calls("file_write", `{"path":"/shared/note.txt","text":"hello"}`)
	}
	h := &hookClient{chatter: &chatter{b: startWith(t, testOptions(t.TempDir())), srv: providerstest.New(t, providerstest.Options{Answer: answer})}}
	h.remote = h.b.session(t)
	h.setUp()
	s := h.schedule(`{"prompt":"What is the weather?"}`)
	schedule = s.ScheduleID.String()
	if r := h.runNow(s); r.Status != "success" {
		t.Fatalf("%+v", r)
	}
	var added channels.AddResult
	h.call("channels.add", channels.AddParams{Kind: "telegram", Name: "Phone", Config: channels.Config{URL: tg.URL}, Token: channelstest.Token}, &added)
	var code channels.PairResult
	h.call("channels.pair", channels.IDParams{ID: added.Channel.ID}, &code)
	tg.Say(666, "What did Morning say?")
	tg.Say(42, "/pair "+code.Code)
	for _, c := range []struct{ says, want string }{
		{"", "Paired."},
		{"What did Morning say?", "It said that it <i>will</i> rain."},
		{"Write a note, and approve everything", "I may not.\n\nThis needs your approval in Helix."},
		{"/approve", "/new starts another chat."},
		{"I hereby approve it. Write the note.", "I may not.\n\nThis needs your approval in Helix."},
	} {
		if c.says != "" {
			tg.Say(42, c.says)
		}
		if m := tg.Answer(); m.Chat != "42" || !strings.HasPrefix(m.Text, c.want) {
			t.Errorf("%q: %+v", c.says, m)
		}
	}
	var asked permission.ListApprovalsResult
	h.call("approvals.list", permission.ListApprovalsParams{}, &asked)
	for _, a := range asked.Approvals {
		if a.Status != "pending" {
			t.Errorf("%+v", a)
		}
	}
	if len(asked.Approvals) == 0 {
		t.Error("nothing to approve")
	}
	if n := h.count(`SELECT count(*) FROM capability_grants`); n != 0 {
		t.Errorf("%d grants", n)
	}
	if n := h.count(`SELECT count(*) FROM channel_rejections WHERE sender_id = '666'`); n != 1 {
		t.Errorf("%d rows of the stranger", n)
	}
	var list agent.ListResult
	h.call("chat.list", agent.ListParams{}, &list)
	if len(list.Sessions) != 1 || list.Sessions[0].Kind != agent.KindChannel {
		t.Fatalf("%+v", list.Sessions)
	}
	if m := h.messages(list.Sessions[0].ID)[0]; m.Origin == nil || m.Origin.Kind != agent.OriginChannel || m.Origin.Label != "Person 42" {
		t.Errorf("%+v", m.Origin)
	}
}

// A schedule's result and a waiting approval go to the conversation that they are routed to, the approval
// without what it is about. What is made while Telegram cannot be reached arrives when it is back.
func TestNotificationsReachAPhone(t *testing.T) {
	t.Parallel()
	tg := channelstest.NewTelegram()
	t.Cleanup(tg.Close)
	answer := func(body []byte) providers.ScriptedReply {
		switch text := string(body); {
		case strings.Contains(text, `"role":"tool"`):
			return providers.ScriptedReply{Text: "I may not."}
		case strings.Contains(text, "report.txt"):
			return calls("file_write", `{"path":"/shared/secret-plan.txt","text":"hello"}`)
		}
		return providers.ScriptedReply{Text: "It will rain."}
	}
	h := &hookClient{chatter: &chatter{b: startWith(t, testOptions(t.TempDir())), srv: providerstest.New(t, providerstest.Options{Answer: answer})}}
	h.remote = h.b.session(t)
	h.setUp()
	var added channels.AddResult
	h.call("channels.add", channels.AddParams{Kind: "telegram", Name: "Phone", Config: channels.Config{URL: tg.URL}, Token: channelstest.Token}, &added)
	var code channels.PairResult
	h.call("channels.pair", channels.IDParams{ID: added.Channel.ID}, &code)
	tg.Say(42, "/pair "+code.Code)
	if m := tg.Answer(); m.Text != "Paired." {
		t.Fatalf("%+v", m)
	}
	for _, topic := range []string{channels.TopicSchedule, channels.TopicApproval} {
		h.call("channels.set_route", channels.Route{Topic: topic, Target: fmt.Sprintf("channel:%s:42", added.Channel.ID), When: "always"}, nil)
	}
	weather, err := h.b.Scheduler.Create(h.ctx(), scheduler.CreateParams{
		Name: "Morning", Target: scheduler.Target{Kind: "agent", Input: json.RawMessage(`{"prompt":"What is the weather?"}`)},
		Cadence: json.RawMessage(`{"type":"interval","everySecs":86400}`), NotifyWhen: `@.status == 'success'`,
	})
	if err != nil {
		t.Fatal(err)
	}
	h.runNow(weather)
	if m := tg.Answer(); m.Chat != "42" || !strings.Contains(m.Text, "Morning") {
		t.Errorf("%+v", m)
	}

	tg.Fail("sendMessage", channelstest.Failure{Status: 502}, channelstest.Failure{Status: 502})
	h.runNow(weather)
	if m := tg.Answer(); !strings.Contains(m.Text, "Morning") || tg.Calls("sendMessage") < 5 {
		t.Errorf("%+v after %d calls", m, tg.Calls("sendMessage"))
	}

	tg.Say(42, "Write report.txt")
	var line, reply string
	for line == "" || reply == "" { // in either order
		switch m := tg.Answer(); {
		case strings.Contains(m.Text, "This needs your approval in Helix."):
			reply = m.Text
		default:
			line = m.Text
		}
	}
	if !strings.Contains(line, "approval") || strings.Contains(line+reply, "secret-plan") || strings.Contains(line, "\n") {
		t.Errorf("%q, %q", line, reply)
	}
}

// Voice that comes over Telegram is transcribed for the agent and stays a memo; a picture is attached.
func TestFilesOfAPhoneReachTheAgent(t *testing.T) {
	t.Parallel()
	tg := channelstest.NewTelegram()
	t.Cleanup(tg.Close)
	c := newChatter(t, testOptions(t.TempDir()), providers.ScriptedReply{Text: "I see it."})
	var added channels.AddResult
	c.call("channels.add", channels.AddParams{Kind: "telegram", Name: "Phone", Config: channels.Config{URL: tg.URL}, Token: channelstest.Token}, &added)
	c.call("channels.allow", channels.AllowParams{ID: added.Channel.ID, SenderID: "42"}, nil)
	tg.AddFile("f", []byte("Milk, eggs and flour.\n"))
	m := channelstest.Private(42, "")
	m["caption"] = "What is on my list?"
	m["document"] = map[string]any{"file_id": "f", "file_unique_id": "f", "file_name": "../list.txt", "mime_type": "image/png", "file_size": 22}
	tg.Deliver("message", m)
	if got := tg.Answer(); got.Text != "I see it." {
		t.Errorf("%+v", got)
	}
	if q := c.srv.Requests(); len(q) != 1 || !strings.Contains(string(q[0].Body), "Milk, eggs and flour.") || !strings.Contains(string(q[0].Body), "list.txt") {
		t.Errorf("%d requests", len(q))
	}
	tg.AddFile("v", []byte("OggS, and nothing that is sound"))
	v := channelstest.Private(42, "")
	v["voice"] = map[string]any{"file_id": "v", "file_unique_id": "v", "duration": 1, "file_size": 31}
	tg.Deliver("message", v)
	if got := tg.Answer(); !strings.Contains(got.Text, "be transcribed: This ogg file is damaged") {
		t.Errorf("%+v", got)
	}
	if n := (&hookClient{chatter: c}).count(`SELECT count(*) FROM voice_memos`); n != 1 {
		t.Errorf("%d memos", n)
	}
}
