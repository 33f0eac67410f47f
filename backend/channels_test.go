package backend

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/agent"
	"helix/backend/channels"
	"helix/backend/permission"
	"helix/backend/providers"
	"helix/backend/storage"
	"helix/backend/testkit"
)

// hookClient is another program that talks to Helix through a webhook channel.
type hookClient struct {
	*chatter
	added   channels.AddResult
	replies chan map[string]string
}

func newHookClient(t *testing.T, replies ...providers.ScriptedReply) *hookClient {
	t.Helper()
	h := &hookClient{chatter: newChatter(t, testOptions(t.TempDir()), replies...), replies: make(chan map[string]string, 16)}
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m map[string]string
		if err := json.Unmarshal(body, &m); err != nil || r.Header.Get("Idempotency-Key") != m["id"] {
			t.Errorf("%s, %v", body, err)
		}
		h.replies <- m
	}))
	t.Cleanup(receiver.Close)
	h.call("channels.add", channels.AddParams{Kind: "webhook", Name: "Phone", Config: channels.Config{URL: receiver.URL}}, &h.added)
	testkit.Eventually(t, "the channel", func() (c channels.Channel) {
		h.call("channels.get", channels.IDParams{ID: h.added.Channel.ID}, &c)
		return c
	}, func(c channels.Channel) bool { return c.State == channels.Connected })
	return h
}

// post sends a message and returns the status and the body of the answer.
func (h *hookClient) post(sender, id, text string, change func(*http.Request)) (int, string) {
	h.t.Helper()
	body, err := json.Marshal(map[string]string{"id": id, "contextId": "c-" + sender, "senderId": sender, "text": text})
	if err != nil {
		h.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(h.t.Context(), http.MethodPost, h.added.Channel.HookURL, bytes.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	r.Header.Set("Helix-Signature", channels.Sign(h.added.Secret, time.Now(), body))
	if change != nil {
		change(r)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return resp.StatusCode, string(out)
}

// count returns the number that a query finds.
func (h *hookClient) count(query string) (n int) {
	h.t.Helper()
	if err := h.b.DB.Read(h.ctx(), func(tx *storage.Tx) error { return tx.QueryRow(query).Scan(&n) }); err != nil {
		h.t.Fatal(err)
	}
	return n
}

// pair makes a sender allowed, by a code sent over the channel.
func (h *hookClient) pair(sender string) {
	h.t.Helper()
	var code channels.PairResult
	h.call("channels.pair", channels.IDParams{ID: h.added.Channel.ID}, &code)
	if status, _ := h.post(sender, "pair-"+sender, "/pair "+code.Code, nil); status != http.StatusAccepted {
		h.t.Fatalf("pairing: status %d", status)
	}
	if m := <-h.replies; m["text"] != "Paired." {
		h.t.Fatalf("%+v", m)
	}
}

// A paired sender gets the agent's answer, in one chat that shows the sender. A stranger gets nothing.
func TestPairedSenderOfAChannelReachesTheAgent(t *testing.T) {
	t.Parallel()
	h := newHookClient(t, providers.ScriptedReply{Text: "It is 4711."}, providers.ScriptedReply{Text: "Still 4711."})
	if status, body := h.post("666", "s1", "What is the number? Zwiebel", nil); status != http.StatusForbidden || body != "" {
		t.Errorf("a stranger: %d %q", status, body)
	}
	h.pair("42")
	if status, _ := h.post("42", "m1", "What is the number?", nil); status != http.StatusAccepted {
		t.Fatalf("status %d", status)
	}
	if m := <-h.replies; m["text"] != "It is 4711." || m["contextId"] != "c-42" || m["kind"] != "reply" {
		t.Errorf("%+v", m)
	}
	if status, _ := h.post("42", "m1", "Another text, so another signature in the same second", nil); status != http.StatusConflict {
		t.Errorf("a repeat: %d", status)
	}
	h.post("42", "m2", "And now?", nil)
	if m := <-h.replies; m["text"] != "Still 4711." {
		t.Errorf("%+v", m)
	}
	var list agent.ListResult
	h.call("chat.list", agent.ListParams{}, &list)
	if len(list.Sessions) != 1 || list.Sessions[0].Kind != agent.KindChannel || list.Sessions[0].MessageCount != 4 {
		t.Fatalf("%+v", list.Sessions)
	}
	if m := h.messages(list.Sessions[0].ID)[0]; m.Origin == nil || m.Origin.Kind != agent.OriginChannel || m.Origin.Label != "42" {
		t.Errorf("origin: %+v", m.Origin)
	}
	var rejected channels.RejectedResult
	h.call("channels.rejected", channels.RejectedParams{}, &rejected)
	if len(rejected.Entries) != 1 || rejected.Entries[0].SenderID != "666" || rejected.Entries[0].Reason != "not_allowed" {
		t.Errorf("%+v", rejected.Entries)
	}
	if len(h.srv.Requests()) != 2 {
		t.Errorf("%d requests", len(h.srv.Requests()))
	}
	if n := h.count(`SELECT count(*) FROM audit_log WHERE action = 'channel.rejected'`); n != 1 {
		t.Errorf("%d audit entries", n)
	}
}

// What comes through a channel can't approve anything: a call with an effect is refused and asked about.
func TestNothingIsApprovedThroughAChannel(t *testing.T) {
	t.Parallel()
	h := newHookClient(t, calls("file_write", `{"path":"/shared/note.txt","text":"hello"}`), providers.ScriptedReply{Text: "I may not."}, providers.ScriptedReply{Text: "Only you can."})
	h.pair("42")
	h.post("42", "m1", "Write a note", nil)
	if m := <-h.replies; m["text"] != "I may not.\n\nThis needs your approval in Helix." {
		t.Errorf("%+v", m)
	}
	h.post("42", "m2", "/approve", nil)
	if m := <-h.replies; m["text"] == "" || m["text"][0] != '/' {
		t.Errorf("an unknown command: %+v", m)
	}
	h.post("42", "m3", "Approve everything", nil)
	<-h.replies
	var asked permission.ListApprovalsResult
	h.call("approvals.list", permission.ListApprovalsParams{}, &asked)
	if len(asked.Approvals) != 1 || asked.Approvals[0].Status != "pending" {
		t.Errorf("%+v", asked.Approvals)
	}
	if n := h.count(`SELECT count(*) FROM capability_grants`); n != 0 {
		t.Errorf("%d grants", n)
	}
}

// A request that is not from the holder of the secret is refused without a body.
func TestHookRefusesForgedRequests(t *testing.T) {
	t.Parallel()
	h := newHookClient(t)
	h.pair("42")
	for name, c := range map[string]struct {
		change func(*http.Request)
		want   int
	}{
		"no signature":       {func(r *http.Request) { r.Header.Del("Helix-Signature") }, 401},
		"another secret":     {func(r *http.Request) { r.Header.Set("Helix-Signature", channels.Sign("x", time.Now(), nil)) }, 401},
		"another body":       {func(r *http.Request) { r.Body = io.NopCloser(bytes.NewReader([]byte(`{}`))); r.ContentLength = 2 }, 401},
		"a page of Helix":    {func(r *http.Request) { r.Header.Set("Origin", h.b.Gateway.URL()) }, 403},
		"another page":       {func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, 403},
		"an unknown channel": {func(r *http.Request) { r.URL.Path = "/hooks/" + uuid.NewString() }, 404},
	} {
		if status, _ := h.post("42", name, "Hello", c.change); status != c.want {
			t.Errorf("%s: status %d, want %d", name, status, c.want)
		}
	}
	h.call("channels.set_enabled", channels.EnabledParams{ID: h.added.Channel.ID}, nil)
	if status, _ := h.post("42", "off", "Hello", nil); status != http.StatusNotFound {
		t.Errorf("a disabled channel: status %d", status)
	}
	if n := h.count(`SELECT count(*) FROM channel_inbox`); n != 0 {
		t.Errorf("%d messages", n)
	}
}
