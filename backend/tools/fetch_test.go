package tools

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/safehttp"
	"helix/backend/sandbox"
	"helix/backend/storage"
)

// TestPlaceholdersAreFilled inspects the request before it is sent, because no public name resolves
// to a server of this test, and private addresses are refused.
func TestPlaceholdersAreFilled(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const value = "v a/l&ue=0123"
	if _, err := b.SecretSet(b.ctx, SecretSetParams{Name: "KEY", Value: value, Hosts: []string{"api.example.com", "*.example.org"}}); err != nil {
		t.Fatal(err)
	}
	e := &execution{s: b.Service, id: storage.NewID(), user: identity.UserID(b.ctx), tool: &Tool{}}
	h := newHost(e)
	t.Cleanup(h.close)
	const ph = placeholderPrefix + "00112233445566778899aabbccddeeff"
	l := &runSecret{name: "KEY", placeholder: ph}
	h.mu.Lock()
	h.know(l, value)
	h.secrets["KEY"] = l
	h.mu.Unlock()
	fill := func(address string, headers map[string]string, body string) (safehttp.Request, []string, error) {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		r := safehttp.Request{Header: http.Header{}}
		used, err := h.fillRequest(b.ctx, u, headers, []byte(body), &r)
		return r, used, err
	}
	r, used, err := fill("https://api.example.com/x?k="+ph, map[string]string{"authorization": "Bearer " + ph, "accept": "x"}, "pin="+ph)
	if err != nil || r.URL != "https://api.example.com/x?k="+url.QueryEscape(value) || r.Header.Get("authorization") != "Bearer "+value || string(r.Body) != "pin="+value ||
		!r.SensitiveBody || !slices.Equal(r.Sensitive, []string{"authorization"}) || !slices.Equal(used, []string{"KEY"}) {
		t.Fatalf("%+v %v %v", r, used, err)
	}
	if _, _, err := fill("https://a.b.example.org/", map[string]string{"x": ph}, ""); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"https://evil.example.com/", "https://api.example.com:8443/", "http://api.example.com/", "https://localhost:1/", "https://example.org/"} {
		_, _, err := fill(bad, map[string]string{"x": ph}, "")
		f := wantKind(t, err, fault.Denied)
		if rf, ok := f.Details.(sandbox.Refusal); !ok || rf.Capability != "secret(KEY)" || strings.Contains(f.Message, value) {
			t.Errorf("%s: %+v", bad, f)
		}
	}
	_, _, err = fill("https://api.example.com/"+ph, nil, "")
	wantKind(t, err, fault.Invalid)
	if got := h.scrub("answer " + value); got != "answer [secret KEY]" {
		t.Errorf("%q", got)
	}
	if _, err := b.SecretDelete(b.ctx, SecretName{"KEY"}); err != nil { // takes effect at the next call
		t.Fatal(err)
	}
	_, _, err = fill("https://api.example.com/", map[string]string{"x": ph}, "")
	wantKind(t, err, fault.NotFound)
	if got := h.scrub("late " + value); got != "late [secret KEY]" {
		t.Errorf("after the delete %q", got)
	}
}

func TestFetchIsCheckedAtEachAddress(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		t.Error("the redirect was followed to a port that was not allowed")
	}))
	t.Cleanup(other.Close)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, "http://localhost:"+mustPort(t, other.URL)+"/", http.StatusFound)
		case "/here":
			http.Redirect(w, r, "/end", http.StatusFound)
		default:
			w.Header().Set("X-Method", r.Method)
			_, _ = w.Write([]byte(r.URL.Path))
		}
	}))
	t.Cleanup(srv.Close)
	port := mustPort(t, srv.URL)
	tool := b.create(t, CreateParams{Code: "const r = await helix.fetch(params.u, {method: params.m}); return [r.status, await r.text(), r.headers['x-method']]", Capabilities: []string{"network:localhost(" + port + ")"}})
	_, err := b.Execute(b.ctx, ExecuteParams{ToolID: &tool.ID})
	wantKind(t, err, fault.Denied)
	b.allow(t, tool, "always")
	base := "http://localhost:" + port
	r := b.run(t, tool, `{"u":"`+base+`/here","m":"GET"}`)
	if string(r.Output) != `[200,"/end","GET"]` {
		t.Fatalf("%s %s", r.Output, r.Error)
	}
	calls := 0
	for _, a := range r.AuditLog {
		if a.Action == "network_call" {
			calls++
			if strings.Contains(string(a.Details), "/end") {
				t.Errorf("contents in the log: %s", a.Details)
			}
		}
	}
	if calls != 1 {
		t.Errorf("%d network calls in %+v", calls, r.AuditLog)
	}
	for _, bad := range []string{base + "/away", "http://127.0.0.1:1/", "https://api.example.com/", "http://169.254.169.254/", "https://10.0.0.1/", "file:///etc/passwd", "http://user:pw@localhost:" + port + "/"} {
		if r := b.run(t, tool, `{"u":"`+bad+`"}`); r.Success {
			t.Errorf("%s was fetched: %s", bad, r.Output)
		}
	}
}
