package skills

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/schema"
)

// steps holds the built-ins with a fixed clock, and records notifications and requests.
type steps struct {
	set     *callable.Set
	byName  map[string]callable.Func
	shown   []Notification
	asked   atomic.Int64
	allow   func(u *url.URL, more bool) error
	revoked chan context.CancelCauseFunc
}

var noon = time.Date(2026, 3, 29, 12, 0, 0, 0, time.UTC)

func newSteps(t *testing.T) *steps {
	t.Helper()
	s := &steps{byName: map[string]callable.Func{}, revoked: make(chan context.CancelCauseFunc, 64)}
	list, closing := Builtins(BuiltinOptions{
		Now:    func() time.Time { return noon },
		Notify: func(_ context.Context, n Notification) error { s.shown = append(s.shown, n); return nil },
		Allow: func(_ context.Context, _ *callable.Request, u *url.URL, more bool, revoked context.CancelCauseFunc) (func(), error) {
			s.asked.Add(1)
			if s.allow != nil {
				if err := s.allow(u, more); err != nil {
					return nil, err
				}
			}
			s.revoked <- revoked
			return func() {}, nil
		},
	})
	t.Cleanup(closing)
	s.set = callable.NewSet(callable.Builtin, nil)
	s.set.Add(list...)
	for _, b := range list {
		s.byName[b.Name] = b
	}
	return s
}

func (s *steps) call(t *testing.T, name, input string) (map[string]any, error) {
	t.Helper()
	out, err := s.set.Call(t.Context(), callable.Ref{Kind: callable.Builtin, ID: name}, callable.Request{
		Input: json.RawMessage(input), Key: "key-1", Timeout: time.Minute, Caller: callable.Caller{Run: uuid.MustParse("01999999-0000-7000-8000-000000000001"), Label: "Test"},
	})
	if err != nil {
		return nil, err
	}
	var v map[string]any
	if err := json.Unmarshal(out.Output, &v); err != nil {
		t.Fatalf("%s gave %s", name, out.Output)
	}
	return v, nil
}

func expectKind(t *testing.T, what string, err error, kind fault.Kind) {
	t.Helper()
	if !fault.Is(err, kind) {
		t.Errorf("%s: %v, want %s", what, err, kind)
	}
}

// The schemas of all built-ins compile, and there are no other built-ins.
func TestBuiltins(t *testing.T) {
	t.Parallel()
	s := newSteps(t)
	for _, name := range []string{"time.now", "wait", "notify", "http.request", "json.validate"} {
		b, ok := s.byName[name]
		if !ok {
			t.Fatalf("%s is missing", name)
		}
		for _, raw := range []json.RawMessage{b.Input, b.Output} {
			if found, err := schema.CheckJSON(t.Context(), raw, json.RawMessage(`"not an object"`)); err != nil || len(found) != 1 {
				t.Errorf("%s: %s: %v %v", name, raw, found, err)
			}
		}
		if b.Title == "" {
			t.Errorf("%s: %+v", name, b)
		}
	}
	if len(s.byName) != 5 {
		t.Errorf("%d built-ins", len(s.byName))
	}
}

func TestTimeNow(t *testing.T) {
	t.Parallel()
	s := newSteps(t)
	out, err := s.call(t, "time.now", `{"timezone":"Europe/Berlin"}`)
	if err != nil {
		t.Fatal(err)
	}
	for k, want := range map[string]any{"iso": "2026-03-29T14:00:00+02:00", "date": "2026-03-29", "time": "14:00:00", "weekday": 7.0, "unixMs": 1774785600000.0} {
		if out[k] != want {
			t.Errorf("%s is %v, want %v", k, out[k], want)
		}
	}
	if out, err = s.call(t, "time.now", `{}`); err != nil || out["iso"] != "2026-03-29T12:00:00Z" {
		t.Errorf("%v, %v", out, err)
	}
	for _, zone := range []string{"Mars/Base", "Local", "../etc/passwd"} {
		_, err := s.call(t, "time.now", `{"timezone":"`+zone+`"}`)
		expectKind(t, zone, err, fault.Invalid)
	}
}

func TestWaitTime(t *testing.T) {
	t.Parallel()
	for input, want := range map[string]time.Duration{
		`{"ms":250}`: 250 * time.Millisecond, `{"seconds":1.5}`: 1500 * time.Millisecond, `{"ms":0}`: 0, `{"ms":86400000}`: 24 * time.Hour,
		`{"until":"2026-03-29T13:00:00Z"}`: time.Hour, `{"until":"2026-03-29T11:00:00Z"}`: 0, `{"seconds":86400}`: 24 * time.Hour,
	} {
		if got, err := waitTime(json.RawMessage(input), noon); err != nil || got != want {
			t.Errorf("%s: %s, %v", input, got, err)
		}
	}
	for _, input := range []string{`{}`, `{"ms":86400001}`, `{"seconds":86401}`, `{"seconds":1e300}`, `{"until":"2026-03-30T12:00:01Z"}`, `{"until":"soon"}`, `[]`} {
		_, err := waitTime(json.RawMessage(input), noon)
		expectKind(t, input, err, fault.Invalid)
	}
}

// A notification that a step shows again after a restart has the same id.
func TestNotify(t *testing.T) {
	t.Parallel()
	s := newSteps(t)
	for range 2 {
		if _, err := s.call(t, "notify", `{"title":"Done","body":"`+strings.Repeat("ü", 3000)+`","level":"success"}`); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.shown) != 2 || s.shown[0].NoticeID != s.shown[1].NoticeID {
		t.Fatalf("shown: %+v", s.shown)
	}
	n := s.shown[0]
	if n.Title != "Done" || n.Level != "success" || n.Skill != "Test" || len([]rune(n.Body)) != maxNoticeBody || n.At != noon {
		t.Errorf("the notice is %+v", n)
	}
}

func TestJSONValidate(t *testing.T) {
	t.Parallel()
	s := newSteps(t)
	out, err := s.call(t, "json.validate", `{"value":{"a":1},"schema":{"type":"object","required":["a"]}}`)
	if err != nil || out["valid"] != true || len(out["errors"].([]any)) != 0 {
		t.Errorf("%v, %v", out, err)
	}
	if out, err = s.call(t, "json.validate", `{"value":null,"schema":{"type":"object"}}`); err != nil || out["valid"] != false || len(out["errors"].([]any)) != 1 {
		t.Errorf("%v, %v", out, err)
	}
	_, err = s.call(t, "json.validate", `{"value":1,"schema":{"type":"object"},"strict":true}`)
	expectKind(t, "strict", err, fault.Invalid)
}

func TestHTTPRequest(t *testing.T) {
	t.Parallel()
	s := newSteps(t)
	var seen atomic.Pointer[http.Request]
	var body atomic.Value
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		seen.Store(r)
		body.Store(string(b))
		switch r.URL.Path {
		case "/json":
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			io.WriteString(w, `{"n":9007199254740993}`) //nolint:errcheck // the client reads it
		case "/busy":
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(503)
		case "/limit":
			w.Header().Set("Retry-After", noon.Add(time.Minute).Format(http.TimeFormat))
			w.WriteHeader(429)
		case "/gate":
			w.WriteHeader(504)
		case "/no":
			w.WriteHeader(404)
		case "/away":
			http.Redirect(w, r, "/json", http.StatusFound)
		case "/large":
			w.Write(make([]byte, 2<<20)) //nolint:errcheck // as above
		default:
			w.Write([]byte{0xff, 0xfe}) //nolint:errcheck // as above
		}
	}))
	t.Cleanup(srv.Close)
	base := strings.Replace(srv.URL, "127.0.0.1", "localhost", 1)

	out, err := s.call(t, "http.request", `{"url":"`+base+`/json?a=1","method":"POST","json":{"b":2},"query":{"c":true,"d":"x y"},"headers":{"X-One":"1"},"idempotencyKey":true}`)
	if err != nil {
		t.Fatal(err)
	}
	r := seen.Load()
	if r.Method != "POST" || r.URL.RawQuery != "a=1&c=true&d=x+y" || r.Header.Get("X-One") != "1" || r.Header.Get("Content-Type") != "application/json" || r.Header.Get("Idempotency-Key") != "key-1" || body.Load() != `{"b":2}` {
		t.Errorf("sent: %s %s %v %s", r.Method, r.URL, r.Header, body.Load())
	}
	if out["status"] != 200.0 || out["ok"] != true || out["body"] != nil || out["json"].(map[string]any)["n"] == nil || out["headers"].(map[string]any)["content-type"] == nil {
		t.Errorf("gave %v", out)
	}
	if out, err = s.call(t, "http.request", `{"url":"`+base+`/bytes"}`); err != nil || out["body"] != nil || seen.Load().Header.Get("Idempotency-Key") != "" {
		t.Errorf("bytes: %v, %v", out, err)
	}
	asked := s.asked.Load()
	if out, err = s.call(t, "http.request", `{"url":"`+base+`/away"}`); err != nil || out["url"] != base+"/json" || s.asked.Load() != asked+2 {
		t.Errorf("a redirect: %v, %v, asked %d", out, err, s.asked.Load()-asked)
	}
	if out, err = s.call(t, "http.request", `{"url":"`+base+`/no","anyStatus":true}`); err != nil || out["status"] != 404.0 || out["ok"] != false {
		t.Errorf("any status: %v, %v", out, err)
	}
	_, err = s.call(t, "http.request", `{"url":"`+base+`/no"}`)
	expectKind(t, "404", err, fault.NotFound)
	_, err = s.call(t, "http.request", `{"url":"`+base+`/busy"}`)
	if expectKind(t, "503", err, fault.Unavailable); fault.As(err).RetryAfter != 7*time.Second {
		t.Errorf("retry after %s", fault.As(err).RetryAfter)
	}
	_, err = s.call(t, "http.request", `{"url":"`+base+`/limit"}`)
	if expectKind(t, "429", err, fault.Limit); fault.As(err).RetryAfter != time.Minute {
		t.Errorf("retry after %s", fault.As(err).RetryAfter)
	}
	_, err = s.call(t, "http.request", `{"url":"`+base+`/gate"}`)
	expectKind(t, "504 of GET", err, fault.Unavailable)
	_, err = s.call(t, "http.request", `{"url":"`+base+`/gate","method":"POST"}`)
	expectKind(t, "504 of POST", err, fault.Timeout)
	_, err = s.call(t, "http.request", `{"url":"`+base+`/large"}`)
	expectKind(t, "2 MiB", err, fault.Limit)
	for _, in := range []string{`{"url":"nowhere"}`, `{"url":"` + base + `","body":"a","json":1}`, `{"url":"` + base + `","method":"TRACE"}`, `{"url":"` + base + `","headers":{"a b":"c"}}`} {
		_, err = s.call(t, "http.request", in)
		expectKind(t, in, err, fault.Invalid)
	}
	for _, in := range []string{`{"url":"https://10.0.0.1/"}`, `{"url":"https://169.254.169.254/"}`, `{"url":"http://192.168.0.1/"}`, `{"url":"file:///etc/passwd"}`} {
		_, err = s.call(t, "http.request", in)
		if err == nil {
			t.Errorf("%s was reached", in)
		}
	}
}

// A request refused before anything was sent differs from one refused on the way: only the first
// can be retried.
func TestHTTPRequestRefused(t *testing.T) {
	t.Parallel()
	s := newSteps(t)
	var sent atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent.Add(1)
		http.Redirect(w, r, "/next", http.StatusTemporaryRedirect)
	}))
	t.Cleanup(srv.Close)
	pending := uuid.New()
	refuse := fault.Deniedf("no").WithDetails(callable.Refusal{PendingApprovalID: pending, Reason: "needs_approval"})
	s.allow = func(*url.URL, bool) error { return refuse }
	_, err := s.call(t, "http.request", `{"url":"`+srv.URL+`"}`)
	if r, ok := refusal(err); !ok || r.PendingApprovalID != pending || sent.Load() != 0 {
		t.Errorf("at once: %v, %+v, %d requests", err, r, sent.Load())
	}
	s.allow = func(_ *url.URL, more bool) error {
		if more {
			return refuse
		}
		return nil
	}
	_, err = s.call(t, "http.request", `{"url":"`+srv.URL+`"}`)
	expectKind(t, "on the way", err, fault.Denied)
	if _, ok := refusal(err); ok || sent.Load() != 1 {
		t.Errorf("on the way: %v, %d requests", err, sent.Load())
	}
}

// Revoking a permission ends the request that uses it.
func TestHTTPRequestRevoked(t *testing.T) {
	t.Parallel()
	s := newSteps(t)
	arrived, release := make(chan struct{}), make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() { close(release); srv.Close() })
	go func() {
		revoke := <-s.revoked
		<-arrived
		revoke(fault.Deniedf("revoked"))
	}()
	_, err := s.call(t, "http.request", `{"url":"`+srv.URL+`"}`)
	expectKind(t, "revoked", err, fault.Denied)
	if _, ok := refusal(err); ok {
		t.Error("a request that was sent counts as one that was not")
	}
}
