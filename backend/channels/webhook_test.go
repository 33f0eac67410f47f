package channels_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"helix/backend/channels"
	"helix/backend/channels/channelstest"
	"helix/backend/fault"
)

func webhookRig(t *testing.T) (*channelstest.Rig, *webhookPeer) {
	t.Helper()
	p := newWebhookPeer(t)
	return channelstest.NewRig(t, p, channels.Options{}, nil), p
}

// nodeClient signs a message with the means of Node, sends it, and prints the status.
const nodeClient = `
const { createHmac } = require('node:crypto');
const [url, secret, text] = process.argv.slice(1);
const body = JSON.stringify({ id: 'from-node', contextId: 'c', senderId: '42', text });
const t = Math.floor(Date.now() / 1000);
const v1 = createHmac('sha256', secret).update(t + '.' + body).digest('hex');
fetch(url, { method: 'POST', body, headers: { 'Helix-Signature': 't=' + t + ',v1=' + v1 } }).then((r) => console.log(r.status));
`

func TestClientInNodeSignsMessages(t *testing.T) {
	t.Parallel()
	_, p := webhookRig(t)
	out, err := exec.Command("node", "-e", nodeClient, p.hook.URL+"/hooks/"+p.added.Channel.ID.String(), p.added.Secret, "Grüße 👋").Output()
	if err != nil || strings.TrimSpace(string(out)) != "202" {
		t.Fatalf("%s, %v", out, err)
	}
	if m := <-p.sent; m.Text != "Echo: Grüße 👋" {
		t.Errorf("%q", m.Text)
	}
}

// Sign computes what Node does.
func TestSignatureVectors(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_700_000_000, 0)
	for _, c := range []struct{ secret, body, want string }{
		{"secret", `{"id":"1"}`, ""},
		{"", "", ""},
	} {
		out, err := exec.Command("node", "-e", `const [s, t, b] = process.argv.slice(1); process.stdout.write('t=' + t + ',v1=' + require('node:crypto').createHmac('sha256', s).update(t + '.' + b).digest('hex'))`, c.secret, "1700000000", c.body).Output()
		if err != nil {
			t.Fatal(err)
		}
		if got := channels.Sign(c.secret, at, []byte(c.body)); got != string(out) {
			t.Errorf("%q: %s, Node says %s", c.body, got, out)
		}
	}
}

func TestWebhookRefusals(t *testing.T) {
	t.Parallel()
	r, p := webhookRig(t)
	text := func(id string) map[string]any {
		return map[string]any{"id": id, "contextId": "c", "senderId": channelstest.Sender, "text": "Hello"}
	}
	sign := func(req *http.Request, secret string, at time.Time) {
		body, _ := req.GetBody()
		raw, _ := io.ReadAll(body)
		req.Header.Set("Helix-Signature", channels.Sign(secret, at, raw))
	}
	replay := ""
	for _, c := range []struct {
		name   string
		m      map[string]any
		change func(*http.Request)
		want   int
	}{
		{"a good request", text("1"), func(r *http.Request) { replay = r.Header.Get("Helix-Signature") }, 202},
		{"the same request", text("1"), func(r *http.Request) { r.Header.Set("Helix-Signature", replay) }, 409},
		{"the same id, signed later", text("1"), func(r *http.Request) { sign(r, p.added.Secret, time.Now().Add(time.Second)) }, 409},
		{"one byte more", text("2"), func(r *http.Request) {
			body, _ := r.GetBody()
			r.Body, r.ContentLength = io.NopCloser(io.MultiReader(body, strings.NewReader(" "))), r.ContentLength+1
		}, 401},
		{"an old request", text("3"), func(r *http.Request) { sign(r, p.added.Secret, time.Now().Add(-time.Hour)) }, 401},
		{"another secret", text("4"), func(r *http.Request) { sign(r, "secret", time.Now()) }, 401},
		{"a web page", text("5"), func(r *http.Request) { r.Header.Set("Origin", "https://example.com") }, 403},
		{"a stranger", map[string]any{"id": "6", "contextId": "c", "senderId": "666", "text": "Hello"}, nil, 403},
		{"without a sender", map[string]any{"id": "7"}, nil, 400},
		{"32 KiB and a byte", map[string]any{"id": "8", "contextId": "c", "senderId": channelstest.Sender, "text": strings.Repeat("x", 32<<10+1)}, nil, 413},
		{"20 MiB and a byte", nil, func(r *http.Request) {
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(make([]byte, 20<<20+1))), 20<<20+1
		}, 413},
	} {
		if got := p.post(t, c.m, c.change); got != c.want {
			t.Errorf("%s: status %d, want %d", c.name, got, c.want)
		}
	}
	first := p.added.Secret
	rotate := func() string {
		t.Helper()
		out, err := r.Update(r.Ctx, channels.UpdateParams{ID: p.added.Channel.ID, Patch: channels.Patch{RotateSecret: true}})
		if err != nil {
			t.Fatal(err)
		}
		r.WaitState(channels.Connected)
		return out.Secret
	}
	p.added.Secret = rotate()
	if a, b := p.post(t, text("20"), nil), p.post(t, text("21"), func(r *http.Request) { sign(r, first, time.Now()) }); a != 202 || b != 202 {
		t.Errorf("after a rotation: new secret %d, former %d", a, b)
	}
	p.added.Secret = rotate()
	if got := p.post(t, text("22"), func(r *http.Request) { sign(r, first, time.Now()) }); got != 401 {
		t.Errorf("after two rotations: %d", got)
	}
	if _, err := r.SetEnabled(r.Ctx, channels.EnabledParams{ID: p.added.Channel.ID}); err != nil {
		t.Fatal(err)
	}
	if got := p.post(t, text("23"), nil); got == 202 {
		t.Errorf("a disabled channel: %d", got)
	}
	if n := r.Count(`SELECT count(*) FROM channel_inbox`); n != 3 {
		t.Errorf("%d messages", n)
	}
}

// Replies go to a public https address, or to this computer, and nowhere else.
func TestReplyURLReachesNoPrivateAddress(t *testing.T) {
	t.Parallel()
	r, p := webhookRig(t)
	set := func(url string) error {
		_, err := r.Update(r.Ctx, channels.UpdateParams{ID: p.added.Channel.ID, Patch: channels.Patch{Config: &channels.Config{URL: url}}})
		return err
	}
	for _, url := range []string{"", "x", "ftp://example.com/", "http://example.com/", "https://user:word@example.com/", "https:///x", "http://10.0.0.1/", "http://169.254.169.254/", "http://[::ffff:127.0.0.1]/", "file:///etc/passwd", "https://example.com/#x", "http://localhost.example.com/"} {
		if err := set(url); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v", url, err)
		}
	}
	for _, url := range []string{"https://10.0.0.1/", "https://169.254.169.254/latest", "https://192.168.1.1/", "https://[fd00::1]/", "https://[::ffff:10.0.0.1]/", "https://0.0.0.0/", "https://168.63.129.16/", "https://100.64.0.1/"} {
		if err := set(url); err != nil {
			t.Errorf("%q: %v", url, err)
			continue
		}
		t.Log(url)
		sent, err := r.Send(r.Ctx, channels.SendParams{ID: p.added.Channel.ID, ContextID: channelstest.Sender, Text: url})
		if err != nil {
			t.Fatal(err)
		}
		r.Wait(`SELECT count(*) FROM channel_outbox WHERE state = 'queued' AND attempts > 0 AND last_error LIKE '%allowed%' AND id = x'`+strings.ReplaceAll(sent.MessageID.String(), "-", "")+`'`, 1)
		if _, err := r.Drop(r.Ctx, channels.MessageParams{MessageID: sent.MessageID}); err != nil {
			t.Fatal(err)
		}
	}
}

// A receiver that answers 410 switches the channel off.
func TestReceiverThatIsGoneDisablesTheChannel(t *testing.T) {
	t.Parallel()
	r, p := webhookRig(t)
	p.receiver.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) })
	p.Say(t, 1, "Hello")
	r.Wait(`SELECT count(*) FROM channels WHERE NOT enabled`, 1)
	c := r.WaitState(channels.Failed)
	if raw, _ := json.Marshal(c); c.Enabled || !strings.Contains(c.Error, "410") {
		t.Errorf("%s", raw)
	}
}
