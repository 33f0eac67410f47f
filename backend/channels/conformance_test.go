package channels_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"helix/backend/channels"
	"helix/backend/channels/channelstest"
	"helix/backend/fault"
	"helix/backend/testkit"
)

func TestAdaptersConform(t *testing.T) {
	t.Parallel()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		channelstest.Run(t, channels.LimitsOf("webhook"), func(t *testing.T) *channelstest.Rig {
			p := &memoryPeer{sink: make(chan channels.Sink, 1), sent: make(chan channels.Outgoing, 64)}
			return channelstest.NewRig(t, p, channels.Options{}, func(s *channels.Service) { channels.UseAdapter(s, p) })
		})
	})
	t.Run("telegram", func(t *testing.T) {
		t.Parallel()
		channelstest.Run(t, channels.LimitsOf("telegram"), func(t *testing.T) *channelstest.Rig {
			return channelstest.NewRig(t, newTelegramPeer(t), channels.Options{}, nil)
		})
	})
	t.Run("webhook", func(t *testing.T) {
		t.Parallel()
		channelstest.Run(t, channels.LimitsOf("webhook"), func(t *testing.T) *channelstest.Rig {
			return channelstest.NewRig(t, newWebhookPeer(t), channels.Options{}, nil)
		})
	})
}

// memoryPeer is a service and its adapter in one.
type memoryPeer struct {
	sink    chan channels.Sink // holds the sink while Run runs
	sent    chan channels.Outgoing
	refused atomic.Int32
}

func (p *memoryPeer) Run(ctx context.Context, sink channels.Sink) error {
	p.sink <- sink
	<-ctx.Done()
	<-p.sink
	return nil
}

func (p *memoryPeer) Send(_ context.Context, m channels.Outgoing) (string, error) {
	if p.refused.Add(-1) >= 0 {
		return "", errors.New("not now")
	}
	p.sent <- m
	return m.ID.String(), nil
}

func (p *memoryPeer) Health() channels.Health {
	return channels.Health{State: channels.Connected, Since: time.Unix(1, 0)}
}
func (p *memoryPeer) Limits() channels.Limits { return channels.LimitsOf("webhook") }

func (p *memoryPeer) Add() channels.AddParams {
	return channels.AddParams{Kind: "webhook", Name: "Memory", Config: channels.Config{URL: "https://example.com/"}}
}
func (p *memoryPeer) Connect(*channels.Service, channels.AddResult) {}

func (p *memoryPeer) accept(t *testing.T, in channels.Incoming) {
	t.Helper()
	sink := <-p.sink
	p.sink <- sink
	if err := sink.Accept(t.Context(), in); err != nil && !fault.Is(err, fault.Conflict) {
		t.Fatal(err)
	}
}

func (p *memoryPeer) Say(t *testing.T, id int, text string) {
	t.Helper()
	p.accept(t, channels.Incoming{MessageID: fmt.Sprint(id), ContextID: "c", SenderID: channelstest.Sender, Text: text})
}

func (p *memoryPeer) SendFile(t *testing.T, id int, name string, data []byte) {
	t.Helper()
	file := channels.Media{Name: name, Bytes: int64(len(data)), Fetch: func(context.Context) ([]byte, error) { return data, nil }}
	p.accept(t, channels.Incoming{MessageID: fmt.Sprint(id), ContextID: "c", SenderID: channelstest.Sender, Media: []channels.Media{file}})
}

func (p *memoryPeer) Refuse(n int)                   { p.refused.Store(int32(n)) }
func (p *memoryPeer) Sent() <-chan channels.Outgoing { return p.sent }

// telegramPeer is a Bot API server.
type telegramPeer struct {
	*channelstest.Telegram
	sent chan channels.Outgoing
	Raw  chan channelstest.Sent // as the server got it
}

func newTelegramPeer(t *testing.T) *telegramPeer {
	t.Helper()
	p := &telegramPeer{Telegram: channelstest.NewTelegram(), sent: make(chan channels.Outgoing, 4096), Raw: make(chan channelstest.Sent, 4096)}
	t.Cleanup(p.Close)
	done := make(chan struct{})
	t.Cleanup(func() { close(done) })
	go func() {
		for {
			select {
			case s := <-p.Telegram.Sent():
				m := channels.Outgoing{ContextID: s.Chat, Text: s.Text}
				if s.ParseMode == "HTML" {
					m.Text, _ = channelstest.VisibleText(s.Text) // the server has checked it
				}
				if s.FileName != "" {
					m.File = &channels.File{Name: s.FileName, Data: s.File}
				}
				p.Raw <- s
				p.sent <- m
			case <-done:
				return
			}
		}
	}()
	return p
}

func (p *telegramPeer) Add() channels.AddParams {
	return channels.AddParams{Kind: "telegram", Name: "Phone", Config: channels.Config{URL: p.URL}, Token: channelstest.Token}
}
func (p *telegramPeer) Connect(*channels.Service, channels.AddResult) {}

func (p *telegramPeer) deliver(t *testing.T, id int, m map[string]any) {
	t.Helper()
	m["message_id"] = id
	update := p.Push(map[string]any{"message": m})
	testkit.Eventually(t, "the confirmation", p.Confirmed, func(id int64) bool { return id >= update })
}

func (p *telegramPeer) Say(t *testing.T, id int, text string) {
	t.Helper()
	p.deliver(t, id, channelstest.Private(sender, text))
}

// Write delivers a message of a person without waiting, and returns its id.
func (p *telegramPeer) Write(sender int64, text string) int { return p.Telegram.Say(sender, text) }

func (p *telegramPeer) SendFile(t *testing.T, id int, name string, data []byte) {
	t.Helper()
	file := strconv.Itoa(id)
	p.AddFile(file, data)
	m := channelstest.Private(sender, "")
	m["document"] = map[string]any{"file_id": file, "file_unique_id": file, "file_name": name, "file_size": len(data)}
	p.deliver(t, id, m)
}

func (p *telegramPeer) Refuse(n int) {
	for range n {
		p.Fail("sendMessage", channelstest.Failure{Status: http.StatusBadGateway, Description: "Bad Gateway"})
	}
}
func (p *telegramPeer) Sent() <-chan channels.Outgoing { return p.sent }

// sender is channelstest.Sender as a number.
const sender = 42

// webhookPeer is a program that signs its messages and receives replies.
type webhookPeer struct {
	hook, receiver *httptest.Server
	sent           chan channels.Outgoing
	refused        atomic.Int32

	mu      sync.Mutex
	service *channels.Service
	added   channels.AddResult
	seen    map[string]bool
}

func newWebhookPeer(t *testing.T) *webhookPeer {
	t.Helper()
	p := &webhookPeer{sent: make(chan channels.Outgoing, 64), seen: map[string]bool{}}
	p.hook = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		s := p.service
		p.mu.Unlock()
		if err := s.ServeHook(w, r); err != nil {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(p.hook.Close)
	p.receiver = httptest.NewServer(http.HandlerFunc(p.receive))
	t.Cleanup(p.receiver.Close)
	return p
}

func (p *webhookPeer) receive(w http.ResponseWriter, r *http.Request) {
	if p.refused.Add(-1) >= 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	var m struct {
		ContextID, Text string
		Media           []struct{ Name, Base64 string }
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(body, &m) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	p.mu.Lock()
	repeat := p.seen[r.Header.Get("Idempotency-Key")]
	p.seen[r.Header.Get("Idempotency-Key")] = true
	p.mu.Unlock()
	if repeat {
		return
	}
	out := channels.Outgoing{ContextID: m.ContextID, Text: m.Text}
	for _, f := range m.Media {
		data, _ := base64.StdEncoding.DecodeString(f.Base64)
		out.File = &channels.File{Name: f.Name, Data: data}
	}
	p.sent <- out
}

func (p *webhookPeer) Add() channels.AddParams {
	return channels.AddParams{Kind: "webhook", Name: "Phone", Config: channels.Config{URL: p.receiver.URL}}
}

func (p *webhookPeer) Connect(s *channels.Service, added channels.AddResult) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.service, p.added = s, added
}

// post sends a signed message and returns the status of the answer.
func (p *webhookPeer) post(t *testing.T, m map[string]any, change func(*http.Request)) int {
	t.Helper()
	body, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.hook.URL+"/hooks/"+p.added.Channel.ID.String(), bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Helix-Signature", channels.Sign(p.added.Secret, time.Now(), body))
	if change != nil {
		change(r)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

func (p *webhookPeer) Say(t *testing.T, id int, text string) {
	t.Helper()
	status := p.post(t, map[string]any{"id": fmt.Sprint(id), "contextId": "c", "senderId": channelstest.Sender, "text": text}, nil)
	if status != http.StatusAccepted && status != http.StatusConflict {
		t.Fatalf("status %d", status)
	}
}

func (p *webhookPeer) SendFile(t *testing.T, id int, name string, data []byte) {
	t.Helper()
	media := []map[string]string{{"name": name, "contentType": "application/octet-stream", "base64": base64.StdEncoding.EncodeToString(data)}}
	if status := p.post(t, map[string]any{"id": fmt.Sprint(id), "contextId": "c", "senderId": channelstest.Sender, "media": media}, nil); status != http.StatusAccepted {
		t.Fatalf("status %d", status)
	}
}

func (p *webhookPeer) Refuse(n int)                   { p.refused.Store(int32(n)) }
func (p *webhookPeer) Sent() <-chan channels.Outgoing { return p.sent }
