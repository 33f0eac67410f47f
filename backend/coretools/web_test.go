package coretools

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/permission"
	"helix/backend/safehttp"
	"helix/backend/safehttp/safehttptest"
)

// serve starts a web server on this computer and returns its address.
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return strings.Replace(srv.URL, "127.0.0.1", "localhost", 1)
}

func TestFetch(t *testing.T) {
	t.Parallel()
	e := setup(t)
	var asked atomic.Int64
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		send := func(kind, body string) {
			w.Header().Set("Content-Type", kind)
			io.WriteString(w, body) //nolint:errcheck // the client reads it
		}
		switch r.URL.Path {
		case "/page":
			send("text/html; charset=utf-8", `<html><head><title>A  page</title></head><body><p>See <a href="/next">this</a>.</p></body></html>`)
		case "/latin":
			send("text/html; charset=iso-8859-1", "<p>caf\xe9</p>")
		case "/meta":
			send("text/html", `<meta charset="windows-1251"><p>`+"\xcf\xf0\xe8\xe2\xe5\xf2"+`</p>`)
		case "/utf16":
			send("text/plain; charset=utf-16le", "\xff\xfeh\x00i\x00")
		case "/json":
			send("application/json", `{"a":1}`)
		case "/pdf":
			send("application/pdf", "%PDF-1.7 secret")
		case "/lies":
			send("text/plain", "%PDF-1.7 secret")
		case "/zeros":
			send("text/plain", "a\x00\x01\x02\x03")
		case "/png":
			send("image/png", "\x89PNG\r\n\x1a\n")
		case "/big":
			send("text/plain", strings.Repeat("ä", maxPage))
		case "/huge":
			send("text/plain", strings.Repeat("a", maxFetched+1))
		case "/moved":
			http.Redirect(w, r, "/page", http.StatusFound)
		default:
			http.NotFound(w, r)
		}
	})
	get := func(path string) map[string]any { t.Helper(); return e.must("web.fetch", in{"url": base + path}) }
	e.asks("web.fetch", in{"url": base + "/page"}, "always")
	if asked.Load() != 0 {
		t.Fatal("the request was sent before it was allowed")
	}
	if p := get("/page"); p["title"] != "A page" || p["text"] != "See [this]("+base+"/next)." || p["kind"] != "page" || p["truncated"] != false {
		t.Errorf("%v", p)
	}
	for path, want := range map[string]string{"/latin": "café", "/meta": "Привет", "/utf16": "hi", "/json": `{"a":1}`} {
		if p := get(path); p["text"] != want {
			t.Errorf("%s: %v", path, p)
		}
	}
	for path, want := range map[string]string{"/pdf": "application/pdf", "/lies": "application/pdf", "/png": "image/png", "/zeros": "text/plain"} {
		if p := get(path); p["kind"] != "other" || p["contentType"] != want || strings.Contains(p["text"].(string), "secret") || strings.Contains(p["text"].(string), "\x00") {
			t.Errorf("%s: %v", path, p)
		}
	}
	if p := get("/big"); p["truncated"] != true || len(p["text"].(string)) > maxPage || strings.Contains(p["text"].(string), "\uFFFD") {
		t.Errorf("%d bytes", len(p["text"].(string)))
	}
	if p := get("/moved"); p["url"] != base+"/page" {
		t.Errorf("%v", p)
	}
	e.fails(fault.NotFound, "web.fetch", in{"url": base + "/none"})
	e.fails(fault.Limit, "web.fetch", in{"url": base + "/huge"})
	out, err := e.set.Call(e.ctx, callable.Ref{Kind: callable.Builtin, ID: "web.fetch"}, callable.Request{Input: json.RawMessage(`{"url":"` + base + `/page"}`)})
	if err != nil || !out.Untrusted {
		t.Errorf("%+v, %v", out, err)
	}
	// Another port and another tool need another permission.
	other := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("it was asked") })
	e.fails(fault.Denied, "web.fetch", in{"url": other})
}

// A redirect to an address that was not allowed is not followed.
func TestFetchRedirectsAreDecided(t *testing.T) {
	t.Parallel()
	e := setup(t)
	inner := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") })
	base := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, inner, http.StatusFound) })
	e.asks("web.fetch", in{"url": base}, "always")
	if _, ok := callable.RefusalOf(e.fails(fault.Denied, "web.fetch", in{"url": base})); ok {
		t.Error("a request that was sent counts as one that was not")
	}
}

func TestAddressesThatAreNeverFetched(t *testing.T) {
	t.Parallel()
	e := setup(t, func(o *Options) { o.DenyPort = func(port int) bool { return port == 18789 } })
	for _, u := range []string{
		"http://example.com/", "ftp://example.com/", "file:///etc/passwd", "gopher://127.0.0.1/", "javascript:alert(1)", "https://user:pw@example.com/", "//example.com", "example.com",
		"https://10.0.0.1/", "https://172.16.0.1/", "https://192.168.1.1/", "https://169.254.169.254/latest/meta-data/", "https://100.64.0.1/", "https://0.0.0.0/", "https://168.63.129.16/",
		"https://[fe80::1]/", "https://[fd00::1]/", "https://[::ffff:10.0.0.1]/", "https://[64:ff9b::a00:1]/", "https://2130706433/", "https://0x7f.1/", "https://017700000001/", "https://127.1/",
		"https://224.0.0.1/", "https://255.255.255.255/", "http://169.254.169.254/", "http://[::]/", "https://printer.local/", "https://intranet/",
	} {
		out, err := e.call("web.fetch", in{"url": u})
		r, _ := callable.RefusalOf(err)
		if err == nil || r.Reason == callable.ReasonNeedsApproval {
			t.Errorf("%s: %v, %v %+v", u, out, err, r)
		}
	}
	// Helix's own ports cannot be reached even if they were allowed.
	e.asks("web.fetch", in{"url": "http://localhost:18789/"}, "always")
	e.fails(fault.Denied, "web.fetch", in{"url": "http://localhost:18789/"})
}

// No name is looked up before it is allowed: the question alone would carry data to whoever owns the
// name, in its first label.
func TestNamesAreNotLookedUpBeforeTheyAreAllowed(t *testing.T) {
	t.Parallel()
	dns := safehttptest.NewDNS(t)
	var lookups atomic.Int64
	e := setup(t, func(o *Options) {
		o.HTTP = func(so safehttp.Options) *safehttp.Client {
			r := dns.Resolver()
			dial := r.Dial
			r.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				lookups.Add(1)
				return dial(ctx, network, address)
			}
			so.Resolver = r
			return safehttp.New(so)
		}
	})
	const allowed, other = "https://allowed.example.com/", "https://the-bank-code-is-4711.evil.example.com/"
	e.asks("web.fetch", in{"url": allowed}, "always")
	if n := lookups.Load(); n != 0 {
		t.Errorf("%d lookups for a question", n)
	}
	if _, err := e.call("web.fetch", in{"url": allowed}); err == nil || lookups.Swap(0) == 0 {
		t.Errorf("an allowed name is not looked up: %v", err)
	}
	e.fails(fault.Denied, "web.fetch", in{"url": other})
	if n := lookups.Load(); n != 0 {
		t.Errorf("%d lookups of a name that is not allowed", n)
	}
}

// A name that was allowed and resolves to an internal address, at once or at the second lookup,
// reaches nothing.
func TestAllowedNamesThatLeadInside(t *testing.T) {
	t.Parallel()
	dns := safehttptest.NewDNS(t)
	e := setup(t, func(o *Options) {
		o.HTTP = func(so safehttp.Options) *safehttp.Client {
			so.Resolver = dns.Resolver()
			return safehttp.New(so)
		}
	})
	for _, ip := range []string{"127.0.0.1", "10.0.0.1", "169.254.169.254", "192.168.0.1", "::1", "fd00::1", "::ffff:127.0.0.1", "100.64.0.1"} {
		dns.Set("inside.example.com.", ip)
		if ip == "127.0.0.1" {
			e.asks("web.fetch", in{"url": "https://inside.example.com/"}, "always")
		}
		e.fails(fault.Denied, "web.fetch", in{"url": "https://inside.example.com/"})
	}
	dns.Rotate("rebind.example.com.", "93.184.216.34", "127.0.0.1")
	e.asks("web.fetch", in{"url": "https://rebind.example.com/"}, "always")
	ctx, cancel := context.WithTimeout(e.ctx, time.Minute)
	defer cancel()
	e.ctx = ctx
	for range 2 {
		if out, err := e.call("web.fetch", in{"url": "https://rebind.example.com/"}, func(r *callable.Request) { r.Timeout = 300 * time.Millisecond }); err == nil {
			t.Fatalf("a rebinding name was reached: %v", out)
		}
	}
}

func TestWebSearch(t *testing.T) {
	t.Parallel()
	const key = "key-of-the-engine"
	var seen atomic.Pointer[http.Request]
	var body atomic.Value
	answer := `{"results":[{"title":"One &amp; <b>two</b>","url":"https://a.example/x","content":"Some <script>bad</script>text"},{"title":"js","url":"javascript:alert(1)"}],
		"web":{"results":[{"title":"Three","url":"https://b.example/","description":"d"},{"title":"Four","url":"https://c.example/"}]}}`
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		body.Store(string(b))
		seen.Store(r)
		io.WriteString(w, answer) //nolint:errcheck // the client reads it
	})
	for engine, check := range map[string]func(r *http.Request, body string) bool{
		brave: func(r *http.Request, _ string) bool {
			return r.Method == "GET" && r.Header.Get("X-Subscription-Token") == key && r.URL.Query().Get("q") == "tea & milk" && r.URL.Query().Get("count") == "2"
		},
		tavily: func(r *http.Request, body string) bool {
			return r.Method == "POST" && r.Header.Get("Authorization") == "Bearer "+key && body == `{"max_results":2,"query":"tea \u0026 milk"}`
		},
		base + "/": func(r *http.Request, _ string) bool {
			return r.Method == "GET" && r.URL.Path == "/search" && r.URL.Query().Get("format") == "json" && r.URL.Query().Get("q") == "tea & milk" && r.Header.Get("Authorization") == ""
		},
	} {
		t.Run(engine, func(t *testing.T) {
			e := setup(t, func(o *Options) {
				o.Search = engine
				o.Secret = func(_ context.Context, name string) ([]byte, error) {
					if name != "search."+engine {
						t.Errorf("asked for the secret %s", name)
					}
					return []byte(key), nil
				}
			})
			if engine == brave || engine == tavily {
				if !strings.HasPrefix(e.s.engine, "https://") {
					t.Error(e.s.engine)
				}
				e.s.engine = base + "/search"
			}
			q := in{"query": "tea & milk", "limit": 2}
			e.asks("web.search", q, "always")
			out := e.must("web.search", q)
			list := out["results"].([]any)
			if r := seen.Load(); r == nil || !check(r, body.Load().(string)) {
				t.Errorf("sent %+v %s", r, body.Load())
			}
			if len(list) != 2 || list[0].(map[string]any)["title"] != "One & two" || list[0].(map[string]any)["snippet"] != "Some text" || list[1].(map[string]any)["url"] != "https://b.example/" {
				t.Errorf("%v", list)
			}
		})
	}
	t.Run("without a key", func(t *testing.T) {
		e := setup(t, func(o *Options) {
			o.Search, o.Secret = brave, func(context.Context, string) ([]byte, error) { return nil, fault.NotFoundf("none") }
		})
		e.fails(fault.Unavailable, "web.search", in{"query": "tea"})
	})
	answer = "<html>"
	t.Run("no JSON", func(t *testing.T) {
		e := setup(t, func(o *Options) { o.Search = base })
		e.asks("web.search", in{"query": "tea"}, "always")
		e.fails(fault.Unavailable, "web.search", in{"query": "tea"})
		p, err := e.set.Rights(e.ctx, callable.Info{Ref: callable.Ref{Kind: callable.Builtin, ID: "web.search"}}, nil)
		if err != nil || len(p.Union) != 1 || p.Union[0].State != "granted" || p.Union[0].Capability != permission.NetworkLocalhost {
			t.Errorf("%+v, %v", p, err)
		}
	})
}

// Revoking a permission ends the request that uses it.
func TestFetchEndsWithItsRight(t *testing.T) {
	t.Parallel()
	e := setup(t)
	arrived := make(chan struct{})
	base := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	})
	e.asks("web.fetch", in{"url": base}, "always")
	done := make(chan error, 1)
	go func() {
		<-arrived
		_, err := e.perm.Revoke(e.ctx, permission.RevokeParams{All: true})
		done <- err
	}()
	e.fails(fault.Denied, "web.fetch", in{"url": base}, func(r *callable.Request) { r.Caller.Run = uuid.New() })
	if err := <-done; err != nil {
		t.Error(err)
	}
}
