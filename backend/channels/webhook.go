package channels

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"helix/backend/duration"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/safehttp"
)

const (
	kindWebhook     = "webhook"
	signatureHeader = "Helix-Signature"
	maxSkew         = 300 * time.Second
	replayLife      = 10 * time.Minute
	maxReplays      = 10_000
	maxHookBody     = 20 << 20
)

var webhookLimits = Limits{Text: maxText, Caption: maxText, Unit: func(s string) int { return len(s) }, Idempotent: true}

// webhook is an adapter that receives signed requests and answers with signed requests.
type webhook struct {
	s       *Service
	c       channelRow
	secrets signingSecrets
	client  *safehttp.Client
	sink    chan Sink // holds the sink while Run runs
	*condition

	mu   sync.Mutex
	seen map[string]time.Time // signatures of the last minutes
}

func newWebhook(s *Service, c *channelRow, secret []byte) (*webhook, error) {
	w := &webhook{s: s, c: *c, sink: make(chan Sink, 1), seen: map[string]time.Time{}, condition: newCondition(s, c, Connected)}
	err := json.Unmarshal(secret, &w.secrets)
	if err == nil {
		w.client, err = s.serviceClient(c.config.URL, "", safehttp.Options{MaxRequest: maxUpload, MaxBody: 64 << 10})
	}
	return w, err
}

// Run implements Adapter.
func (w *webhook) Run(ctx context.Context, sink Sink) error {
	w.sink <- sink
	<-ctx.Done()
	<-w.sink
	w.client.Close()
	return nil
}

// Limits implements Adapter.
func (w *webhook) Limits() Limits { return webhookLimits }

// hookReply is the body of an outgoing request.
type hookReply struct {
	ID        uuid.UUID  `json:"id"`
	ContextID string     `json:"contextId"`
	Text      string     `json:"text"`
	Kind      string     `json:"kind"` // reply or notification
	Media     []hookFile `json:"media,omitempty"`
}

func hookMedia(list []hookFile) (out []Media) {
	for _, f := range list {
		out = append(out, Media{Name: f.Name, Bytes: int64(len(f.Base64)), Fetch: func(context.Context) ([]byte, error) { return f.Base64, nil }})
	}
	return out
}

// Sign returns the signature header of a body at a time.
func Sign(secret string, at time.Time, body []byte) string {
	t := strconv.FormatInt(at.Unix(), 10)
	return "t=" + t + ",v1=" + hex.EncodeToString(mac(secret, t, body))
}

func mac(secret, t string, body []byte) []byte {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte(t + "."))
	h.Write(body)
	return h.Sum(nil)
}

// Send implements Adapter.
func (w *webhook) Send(ctx context.Context, m Outgoing) (string, error) {
	kind := "notification"
	if m.Reply {
		kind = "reply"
	}
	out := hookReply{ID: m.ID, ContextID: m.ContextID, Text: m.Text, Kind: kind}
	if m.File != nil {
		out.Media = []hookFile{{Name: m.File.Name, ContentType: "text/plain; charset=utf-8", Base64: m.File.Data}}
	}
	body := []byte(jsonText(out))
	resp, err := w.client.Do(ctx, safehttp.Request{
		Method: http.MethodPost, URL: w.c.config.URL, Body: body, SensitiveBody: true,
		Header: http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {m.ID.String()}, signatureHeader: {Sign(w.secrets.Current, w.s.o.Clock.Now(), body)}},
	})
	if err != nil {
		w.set(Disconnected, fault.As(err).Message)
		return "", err
	}
	switch {
	case resp.Status >= 200 && resp.Status < 300:
		w.set(Connected, "")
		return "", nil
	case resp.Status == http.StatusGone:
		err = fault.Unavailablef("The receiver wants no more messages (410). Change the URL, then switch the channel on.")
		w.set(Failed, fault.As(err).Message)
		return "", &SendError{Final: true, Disable: true, Err: err}
	}
	err = fault.Unavailablef("The receiver answered with the status %d.", resp.Status)
	w.set(Disconnected, fault.As(err).Message)
	after, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	return "", &SendError{After: min(duration.Of(max(after, 0), time.Second), time.Hour), Err: err}
}

// hookMessage is the body of an incoming request.
type hookMessage struct {
	ID        string     `json:"id"`
	ContextID string     `json:"contextId"`
	SenderID  string     `json:"senderId"`
	Text      string     `json:"text"`
	Media     []hookFile `json:"media,omitempty"`
}

// hookFile is a file of a message, in both directions.
type hookFile struct {
	Name        string `json:"name"`
	ContentType string `json:"contentType,omitempty"` // as declared; the content decides
	Base64      []byte `json:"base64"`
}

// HookOwner authenticates a request to a hook as far as its address: it returns the owner of the
// channel. ServeHook checks the signature.
func (s *Service) HookOwner(r *http.Request) (identity.Identity, error) {
	w, err := s.hook(r)
	if err != nil {
		return identity.Identity{}, err
	}
	id, _ := identity.From(as(r.Context(), w.c.user))
	return id, nil
}

// hook returns the enabled webhook channel that a request is for.
func (s *Service) hook(r *http.Request) (*webhook, error) {
	id, err := uuid.Parse(path.Base(r.URL.Path))
	run := s.runner(id)
	if err == nil && run != nil && r.URL.Path == "/hooks/"+id.String() {
		if w, ok := run.adapter.(*webhook); ok {
			return w, nil
		}
	}
	return nil, fault.NotFoundf("Nothing found at this address.").WithCause(errNoHook)
}

// ServeHook serves POST /hooks/{channelId}. A refusal has no body, and does not say whether the sender
// is known.
func (s *Service) ServeHook(rw http.ResponseWriter, r *http.Request) error {
	w, err := s.hook(r)
	if err != nil {
		return err
	}
	var sink Sink
	select {
	case sink = <-w.sink:
		w.sink <- sink
	case <-r.Context().Done():
		return r.Context().Err()
	}
	if _, browser := r.Header["Origin"]; browser {
		sink.Reject(r.Context(), "signature")
		rw.WriteHeader(http.StatusForbidden)
		return nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(rw, r.Body, maxHookBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		sink.Reject(r.Context(), "size")
		rw.WriteHeader(http.StatusRequestEntityTooLarge)
		return nil
	case err != nil:
		return fault.Invalidf("Couldn't read the request.").WithCause(err)
	}
	signature := r.Header.Get(signatureHeader)
	if !w.verify(signature, body) {
		sink.Reject(r.Context(), "signature")
		rw.WriteHeader(http.StatusUnauthorized)
		return nil
	}
	var m hookMessage
	if !utf8.Valid(body) || json.Unmarshal(body, &m) != nil || m.ID == "" || m.ContextID == "" || m.SenderID == "" {
		rw.WriteHeader(http.StatusBadRequest)
		return nil
	}
	if !w.first(signature) {
		sink.Reject(r.Context(), "replay")
		rw.WriteHeader(http.StatusConflict)
		return nil
	}
	err = sink.Accept(r.Context(), Incoming{MessageID: m.ID, ContextID: m.ContextID, SenderID: m.SenderID, Text: m.Text, Media: hookMedia(m.Media)})
	f := fault.As(err)
	switch {
	case err == nil:
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(http.StatusAccepted)
		return json.NewEncoder(rw).Encode(map[string]any{"accepted": true, "id": m.ID})
	case f.Kind == fault.Denied:
		rw.WriteHeader(http.StatusForbidden)
	case f.Kind == fault.Conflict:
		rw.WriteHeader(http.StatusConflict)
	case f.Kind == fault.Invalid:
		rw.WriteHeader(http.StatusRequestEntityTooLarge)
	case f.Kind == fault.Limit, f.Kind == fault.Unavailable:
		rw.Header().Set("Retry-After", "60")
		w.forget(signature) // it may be sent again
		rw.WriteHeader(http.StatusTooManyRequests)
	default:
		w.forget(signature)
		return err
	}
	return nil
}

// verify checks a signature header against the current secret and the one before it.
func (w *webhook) verify(header string, body []byte) bool {
	t, rest, ok := strings.Cut(header, ",")
	t, isTime := strings.CutPrefix(t, "t=")
	v, isMAC := strings.CutPrefix(rest, "v1=")
	unix, err := strconv.ParseInt(t, 10, 64)
	given, badHex := hex.DecodeString(v)
	if !ok || !isTime || !isMAC || err != nil || badHex != nil {
		return false
	}
	valid := hmac.Equal(given, mac(w.secrets.Current, t, body))
	if w.secrets.Previous != "" {
		valid = hmac.Equal(given, mac(w.secrets.Previous, t, body)) || valid
	}
	if skew := w.s.o.Clock.Now().Sub(time.Unix(unix, 0)); valid && skew.Abs() > maxSkew {
		w.s.log.Warn("a webhook request has the wrong time", "channel", w.c.id, "skew", fmt.Sprintf("%.0f s", skew.Seconds()))
		return false
	}
	return valid
}

// first reports whether a signature was not received in the last minutes, and remembers it.
func (w *webhook) first(signature string) bool {
	now := w.s.o.Clock.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if at, ok := w.seen[signature]; ok && now.Sub(at) < replayLife {
		return false
	}
	for k, at := range w.seen {
		if len(w.seen) < maxReplays {
			break
		}
		if now.Sub(at) >= maxSkew { // older requests are refused for their time
			delete(w.seen, k)
		}
	}
	if len(w.seen) >= maxReplays {
		return false // only a holder of the secret can send so many; remembering more of them would have no limit
	}
	w.seen[signature] = now
	return true
}

func (w *webhook) forget(signature string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.seen, signature)
}
