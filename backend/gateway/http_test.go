package gateway

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/testkit"
)

// get makes one request and returns status, headers and body.
func (f *fixture) get(t *testing.T, method, url string, head http.Header, body io.Reader) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range head {
		req.Header[k] = v
		if k == "Host" {
			req.Host = v[0]
		}
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(b)
}

// freePorts returns three ports that are currently free.
func freePorts(t *testing.T) (ports []int) {
	t.Helper()
	for range 3 {
		ports = append(ports, testkit.FreePort(t))
	}
	return ports
}

func withExtras(t *testing.T) (*fixture, []string) {
	t.Helper()
	ports := freePorts(t)
	f := setupWith(t, func(s *Server) {
		ok := func(w http.ResponseWriter, r *http.Request) error {
			_, err := fmt.Fprintf(w, "user %s", identity.UserID(r.Context()))
			return err
		}
		s.Route("POST", "/execute", Write, true, ok)
		s.Route("POST", "/transcribe", Write, true, ok)
		s.RouteSocket("/sync", Write, ok)
	}, func(o *Options) {
		o.Extra = []Extra{{ports[0], map[string]string{"/execute": "/execute"}}, {ports[1], map[string]string{"/transcribe": "/transcribe"}}, {ports[2], map[string]string{"/ws": "/sync"}}}
		o.Web = fstest.MapFS{"index.html": {Data: []byte("<!doctype html>hi")}, "assets/app-1a2b.js": {Data: []byte("let x")}, ".gitkeep": {}}
		o.Origins = []string{"http://localhost:5173"}
	})
	urls := []string{f.URL()}
	for _, p := range ports {
		urls = append(urls, "http://127.0.0.1:"+strconv.Itoa(p))
	}
	return f, urls
}

// TestGuardOnEveryRoute tries what a page of another origin, a rebound name and a program without a
// token can do: nothing, on any route of any port.
func TestGuardOnEveryRoute(t *testing.T) {
	t.Parallel()
	f, urls := withExtras(t)
	routes := []struct{ method, url, auth string }{
		{"GET", urls[0] + "/healthz", ""}, {"GET", urls[0] + "/health", ""}, {"GET", urls[0] + "/", ""}, {"GET", urls[0] + "/tools", ""},
		{"GET", urls[0] + "/assets/app-1a2b.js", ""}, {"POST", urls[0] + "/session", ""}, {"GET", urls[0] + "/ws", "socket"}, {"POST", urls[0] + "/rpc", "token"},
		{"GET", urls[0] + "/openrpc.json", "token"}, {"GET", urls[0] + "/blobs/" + strings.Repeat("0", 64), "token"}, {"POST", urls[0] + "/execute", "token"},
		{"POST", urls[0] + "/transcribe", "token"}, {"GET", urls[0] + "/sync", "token"},
		{"GET", urls[1] + "/healthz", ""}, {"POST", urls[1] + "/execute", "token"},
		{"GET", urls[2] + "/healthz", ""}, {"POST", urls[2] + "/transcribe", "token"},
		{"GET", urls[3] + "/healthz", ""}, {"GET", urls[3] + "/ws", "token"},
	}
	port := func(url string) string {
		return strings.SplitN(strings.TrimPrefix(url, "http://127.0.0.1:"), "/", 2)[0]
	}
	for _, r := range routes {
		refused := map[string]http.Header{
			"foreign origin":      {"Origin": {"https://evil.example"}},
			"null origin":         {"Origin": {"null"}},
			"two origins":         {"Origin": {urls[0], "https://evil.example"}},
			"origin, other port":  {"Origin": {"http://127.0.0.1:1"}},
			"https origin":        {"Origin": {strings.Replace(urls[0], "http:", "https:", 1)}},
			"rebound host":        {"Host": {"evil.example:" + port(r.url)}},
			"host, other port":    {"Host": {"127.0.0.1:1"}},
			"host without port":   {"Host": {"127.0.0.1"}},
			"host as a suffix":    {"Host": {"localhost.evil.example:" + port(r.url)}},
			"cross-site":          {"Sec-Fetch-Site": {"cross-site"}},
			"cross-site, own":     {"Sec-Fetch-Site": {"cross-site"}, "Origin": {urls[0]}},
			"0.0.0.0 as the host": {"Host": {"0.0.0.0:" + port(r.url)}},
		}
		for why, head := range refused {
			head = head.Clone()
			head.Set("Authorization", "Bearer "+rootToken) // the correct token does not help
			if status, h, body := f.get(t, r.method, r.url, head, nil); status != 403 || h.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s %s with %s: %d %s", r.method, r.url, why, status, body)
			}
		}
		if r.auth == "token" {
			if status, _, body := f.get(t, r.method, r.url, nil, nil); status != 401 {
				t.Errorf("%s %s without a token: %d %s", r.method, r.url, status, body)
			}
		}
		good, h, body := f.get(t, r.method, r.url, http.Header{"Host": {"LOCALHOST:" + port(r.url)}, "Authorization": {"Bearer " + rootToken}, "Sec-Fetch-Site": {"same-origin"}}, nil)
		if good == 403 || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s %s refused although all is right: %d %s %v", r.method, r.url, good, body, h)
		}
	}
	// A listed origin may read the answer; others get no header.
	status, h, _ := f.get(t, "POST", urls[0]+"/rpc", http.Header{"Origin": {"http://localhost:5173"}, "Authorization": {"Bearer " + rootToken}}, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"session.get"}`))
	if status != 200 || h.Get("Access-Control-Allow-Origin") != "http://localhost:5173" {
		t.Errorf("listed origin: %d %v", status, h)
	}
	if status, h, _ := f.get(t, "OPTIONS", urls[0]+"/rpc", http.Header{"Origin": {"wails://wails"}, "Access-Control-Request-Method": {"POST"}}, nil); status != 204 || h.Get("Access-Control-Allow-Headers") == "" {
		t.Errorf("preflight: %d", status)
	}
	// Extra ports serve their routes only.
	for _, u := range []string{urls[1] + "/transcribe", urls[1] + "/rpc", urls[2] + "/execute", urls[3] + "/sync", urls[1] + "/"} {
		if status, _, _ := f.get(t, "GET", u, bearer(rootToken), nil); status != 404 {
			t.Errorf("%s: %d", u, status)
		}
	}
	if _, _, body := f.get(t, "POST", urls[1]+"/execute", bearer(rootToken), nil); body != "user "+f.o.User().ID.String() {
		t.Errorf("/execute: %s", body)
	}
}

func TestOrderOfChecks(t *testing.T) {
	t.Parallel()
	f, urls := withExtras(t)
	w := f.connected(t)
	var tk struct{ Result Ticket }
	if err := json.Unmarshal([]byte(w.ask(`{"jsonrpc":"2.0","id":1,"method":"sessions.ticket","params":{"scopes":["read"]}}`)), &tk); err != nil {
		t.Fatal(err)
	}
	_, read := f.redeem(t, tk.Result.URL)
	broken := "this is not JSON"
	for _, c := range []struct {
		why    string
		head   http.Header
		path   string
		status int
	}{
		{"host before all", http.Header{"Host": {"x:1"}, "Origin": {"x"}}, "/execute", 403},
		{"token before scope and decode", http.Header{"Authorization": {"Bearer nonsense"}}, "/execute", 401},
		{"not a bearer", http.Header{"Authorization": {"Basic " + rootToken}}, "/rpc", 401},
		{"scope before decode", bearer(read), "/execute", 403},
		{"decode last", bearer(read), "/rpc", 400},
	} {
		if status, _, body := f.get(t, "POST", urls[0]+c.path, c.head, strings.NewReader(broken)); status != c.status {
			t.Errorf("%s: %d %s", c.why, status, body)
		}
	}
	if status, h, _ := f.get(t, "GET", urls[0]+"/rpc", bearer(rootToken), nil); status != 405 || h.Get("Allow") != "POST" {
		t.Errorf("GET /rpc: %d", status)
	}
}

func TestWebUI(t *testing.T) {
	t.Parallel()
	f, urls := withExtras(t)
	port := strings.TrimPrefix(urls[0], "http://127.0.0.1:")
	want := "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; media-src 'self' blob:; font-src 'self'; connect-src 'self' ws://127.0.0.1:" + port + " ws://localhost:" + port + "; base-uri 'none'; frame-ancestors 'none'"
	for path, c := range map[string]struct {
		status int
		body   string
		cache  string
	}{
		"/": {200, "<!doctype html>hi", "no-cache"}, "/tools/abc": {200, "<!doctype html>hi", "no-cache"}, "/assets/app-1a2b.js": {200, "let x", "public, max-age=31536000, immutable"},
		"/assets/none.js": {404, "", ""}, "/.gitkeep": {404, "", ""}, "/x/../.gitkeep": {404, "", ""}, "/favicon.ico": {404, "", ""},
	} {
		status, h, body := f.get(t, "GET", urls[0]+path, nil, nil)
		if status != c.status || (c.status == 200 && (body != c.body || h.Get("Cache-Control") != c.cache || h.Get("Content-Security-Policy") != want)) {
			t.Errorf("%s: %d %q %v", path, status, body, h)
		}
		if h.Get("Set-Cookie") != "" {
			t.Errorf("%s sets a cookie", path)
		}
	}
	if status, _, _ := f.get(t, "POST", urls[0]+"/tools", nil, nil); status != 404 {
		t.Errorf("POST to a page: %d", status)
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	state := ""
	f := setup(t, func(o *Options) { o.Ready = func() string { return state } })
	for _, s := range []string{"", "starting", "recovery"} {
		state = s
		status, _, body := f.get(t, "GET", f.URL()+"/healthz", nil, nil)
		want, code := s, 503
		if s == "" {
			want, code = "ok", 200
		}
		if status != code || !strings.Contains(body, `"status":"`+want+`"`) || !strings.Contains(body, f.inst.String()) || strings.Contains(body, f.o.User().ID.String()) {
			t.Errorf("%q: %d %s", s, status, body)
		}
	}
}

func TestRPCOverHTTP(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for _, c := range []struct {
		body   string
		status int
		shape  string
	}{
		{`{"jsonrpc":"2.0","id":1,"method":"session.get"}`, 200, "1:ok"},
		{`{"jsonrpc":"2.0","id":1,"method":"nope"}`, 404, "1:-32601"},
		{`{`, 400, "null:-32700"},
		{`[]`, 400, "null:-32600"},
		{`[{"jsonrpc":"2.0","id":1,"method":"nope"},{"jsonrpc":"2.0","id":2,"method":"session.get"}]`, 200, "[1:-32601 2:ok]"},
		{`{"jsonrpc":"2.0","method":"echo","params":{"text":"x"}}`, 204, ""},
		{`[{"jsonrpc":"2.0","method":"x.y"}]`, 204, ""},
		{`{"jsonrpc":"2.0","id":9,"method":"connect","params":{"minProtocol":1,"maxProtocol":1}}`, 200, "9:ok"},
	} {
		status, body := f.post(t, rootToken, c.body)
		if status != c.status || (c.shape != "" && shapeOf(t, body) != c.shape) {
			t.Errorf("%s: %d %s", c.body, status, body)
		}
	}
	if status, body := f.post(t, rootToken, strings.Repeat(" ", f.o.Limits.MaxPayload+1)); status != 413 || shapeOf(t, body) != "null:-32007" {
		t.Errorf("over the cap: %d %.100s", status, body)
	}
	// connect on POST /rpc returns a greeting and changes nothing: each request is independent.
	if _, body := f.post(t, rootToken, `{"jsonrpc":"2.0","id":1,"method":"session.get"}`); !strings.Contains(body, `"admin"`) || !strings.Contains(body, `"pipe":"http"`) {
		t.Errorf("scopes: %s", body)
	}
	if _, body := f.post(t, rootToken, `{"jsonrpc":"2.0","id":1,"method":"sessions.list"}`); !strings.Contains(body, `"current"`) && !strings.Contains(body, `"http"`) {
		t.Errorf("not listed: %s", body)
	}
}

func TestClientGoingAwayCancelsItsCall(t *testing.T) {
	t.Parallel()
	f := setup(t)
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.URL()+"/rpc", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"wait.block"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = bearer(rootToken)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if resp, err := http.DefaultTransport.RoundTrip(req); err == nil {
			resp.Body.Close()
		}
	}()
	<-f.began
	cancel()
	<-done
	if left := f.running.wait(10 * time.Second); left != nil {
		t.Fatalf("still running: %v", left)
	}
}

// fakeBlobs holds one blob of one user.
type fakeBlobs struct {
	user uuid.UUID
	data string
}

func (b fakeBlobs) Open(ctx context.Context, h [32]byte) (io.ReadSeekCloser, string, error) {
	if identity.UserID(ctx) != b.user || h != sha256.Sum256([]byte(b.data)) {
		return nil, "", errNoBlob
	}
	return struct {
		io.ReadSeeker
		io.Closer
	}{strings.NewReader(b.data), io.NopCloser(nil)}, "audio/ogg", nil
}

func TestBlobURLs(t *testing.T) {
	t.Parallel()
	const data = "0123456789"
	f := setup(t, func(o *Options) { o.Blobs = fakeBlobs{o.User().ID, data} })
	sum := sha256.Sum256([]byte(data))
	ask := `{"jsonrpc":"2.0","id":1,"method":"blobs.url","params":{"sha256":"` + hex.EncodeToString(sum[:]) + `"}}`
	var m struct{ Result BlobURL }
	if err := json.Unmarshal([]byte(f.memory(t, f.owner()).ask(ask)), &m); err != nil {
		t.Fatal(err)
	}
	status, h, body := f.get(t, "GET", m.Result.URL, http.Header{"Range": {"bytes=2-4"}}, nil)
	if status != 206 || body != "234" || h.Get("Content-Type") != "audio/ogg" || h.Get("Content-Security-Policy") != "default-src 'none'; sandbox" {
		t.Fatalf("%d %q %v", status, body, h)
	}
	if d := time.Until(m.Result.ExpiresAt); d > blobURLLife || d < blobURLLife-time.Minute {
		t.Errorf("valid for %s", d)
	}
	other := identity.Identity{User: uuid.New(), Scopes: Admin, Client: identity.ClientWindow}
	if got := shapeOf(t, f.memory(t, other).ask(ask)); got != "1:-32003" {
		t.Errorf("another user's blob: %s", got)
	}
	at := strings.Index(m.Result.URL, "sig=") + 4
	for why, url := range map[string]string{
		"no signature":      m.Result.URL[:at],
		"changed signature": m.Result.URL[:at] + "z" + m.Result.URL[at+1:],
		"changed end":       strings.Replace(m.Result.URL, "exp=", "exp=9", 1),
		"changed blob":      strings.Replace(m.Result.URL, "/blobs/", "/blobs/ff", 1),
		"forged user":       m.Result.URL[:strings.Index(m.Result.URL, "exp=")] + fmt.Sprintf("exp=%d&sig=%s", time.Now().Add(-time.Second).Unix(), f.signBlob(sum, time.Now().Add(-time.Second).Unix(), f.o.User().ID)),
	} {
		if status, _, _ := f.get(t, "GET", url, nil, nil); status != 401 {
			t.Errorf("%s: %d", why, status)
		}
	}
}

// TestRouteMethodsAndPrefixes serves several methods at one path, and all paths below one.
func TestRouteMethodsAndPrefixes(t *testing.T) {
	t.Parallel()
	say := func(what string) func(http.ResponseWriter, *http.Request) error {
		return func(w http.ResponseWriter, r *http.Request) error {
			_, err := fmt.Fprint(w, what+" "+r.URL.Path)
			return err
		}
	}
	f := setupWith(t, func(s *Server) {
		s.Route("GET", "/thing", Read, false, say("read"))
		s.Route("DELETE", "/thing", Write, false, say("delete"))
		s.Route("DELETE", "/thing", Write, false, say("remove"))
		s.Route("POST", "/hooks/", Write, false, say("hook"))
		s.Route("POST", "/hooks/own/", Write, false, say("own"))
	}, func(*Options) {})
	head := http.Header{"Authorization": {"Bearer " + rootToken}}
	for _, c := range []struct {
		method, path string
		status       int
		want         string
	}{
		{"GET", "/thing", 200, "read /thing"},
		{"HEAD", "/thing", 200, ""},
		{"DELETE", "/thing", 200, "remove /thing"},
		{"POST", "/thing", 405, "GET, DELETE"},
		{"POST", "/hooks/a/b", 200, "hook /hooks/a/b"},
		{"POST", "/hooks/own/b", 200, "own /hooks/own/b"},
		{"POST", "/hooks", 404, ""},
		{"GET", "/hooks/a", 405, "POST"},
		{"POST", "/thing/below", 404, ""},
	} {
		status, h, body := f.get(t, c.method, f.URL()+c.path, head, nil)
		if status != c.status || (c.status == 200 && body != c.want) || (c.status == 405 && h.Get("Allow") != c.want) {
			t.Errorf("%s %s: %d %q, Allow %q; want %d %q", c.method, c.path, status, body, h.Get("Allow"), c.status, c.want)
		}
	}
}

// TestRouteWithItsOwnAuthentication has a route that checks a signature: the gateway's token is not
// accepted there, and the signature nowhere else.
func TestRouteWithItsOwnAuthentication(t *testing.T) {
	t.Parallel()
	user := uuid.New()
	f := setupWith(t, func(s *Server) {
		s.RouteOwn("POST", "/hooks/", Write, false, func(r *http.Request) (identity.Identity, error) {
			switch r.Header.Get("X-Signature") {
			case "good":
				return identity.Identity{User: user, Scopes: Write, Pipe: "channel"}, nil
			case "reads":
				return identity.Identity{User: user, Scopes: Read, Pipe: "channel"}, nil
			case "nobody":
				return identity.Identity{Scopes: Admin}, nil
			}
			return identity.Identity{}, fault.Deniedf("The signature is wrong.")
		}, func(w http.ResponseWriter, r *http.Request) error {
			id, _ := identity.From(r.Context())
			_, err := fmt.Fprintf(w, "%s%s%t", id.User, id.Pipe, id.Person())
			return err
		})
	}, func(*Options) {})
	for _, c := range []struct {
		path, header, value string
		status              int
	}{
		{"/hooks/1", "X-Signature", "good", 200},
		{"/hooks/1", "X-Signature", "bad", 403},
		{"/hooks/1", "X-Signature", "reads", 403},
		{"/hooks/1", "X-Signature", "nobody", 401},
		{"/hooks/1", "Authorization", "Bearer " + rootToken, 403},
		{"/rpc", "X-Signature", "good", 401},
	} {
		status, _, body := f.get(t, "POST", f.URL()+c.path, http.Header{c.header: {c.value}}, nil)
		if status != c.status || (status == 200 && body != user.String()+"channel"+"false") {
			t.Errorf("%s with %s %s: %d %s", c.path, c.header, c.value, status, body)
		}
	}
	head := http.Header{"X-Signature": {"good"}, "Origin": {"https://evil.example"}}
	if status, _, _ := f.get(t, "POST", f.URL()+"/hooks/1", head, nil); status != 403 {
		t.Errorf("a foreign page: %d", status)
	}
}

func uploadServer(t *testing.T, max int64) (*fixture, string) {
	t.Helper()
	dir := t.TempDir()
	f := setupWith(t, func(s *Server) {
		s.Route("POST", "/transcribe", Write, false, func(w http.ResponseWriter, r *http.Request) error {
			u, err := ReceiveUpload(w, r, "audio", max, dir)
			if err != nil {
				return err
			}
			defer u.Close()
			h := sha256.New()
			if _, err := io.Copy(h, u.File); err != nil {
				return err
			}
			return writeJSON(w, 200, map[string]any{"size": u.Size, "sum": hex.EncodeToString(h.Sum(nil)), "fields": u.Fields})
		})
	})
	return f, dir
}

func TestUploadToAFullDisk(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("this system has no /dev/full")
	}
	defer full.Close()
	if _, err := store(t.Context(), full, strings.NewReader("helix"), 1<<20); !fault.Is(err, fault.Limit) {
		t.Errorf("%v", err)
	}
}

func noFiles(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

// zeros is an endless body.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func TestUpload(t *testing.T) {
	t.Parallel()
	f, dir := uploadServer(t, 200<<20)
	var body bytes.Buffer
	mw := multipart.NewWriter(&body)
	mw.WriteField("user_id", uuid.NewString())
	part, _ := mw.CreateFormFile("audio", "../../etc/passwd.wav")
	data := bytes.Repeat([]byte("helix"), 2<<20) // 10 MiB
	part.Write(data)
	mw.Close()
	head := bearer(rootToken)
	head.Set("Content-Type", mw.FormDataContentType())
	status, _, got := f.get(t, "POST", f.URL()+"/transcribe", head, &body)
	if status != 200 || !strings.Contains(got, fmt.Sprintf(`"size":%d`, len(data))) {
		t.Fatalf("10 MiB: %d %s", status, got)
	}
	if status, _, got = f.get(t, "POST", f.URL()+"/transcribe", bearer(rootToken), bytes.NewReader(data)); status != 200 {
		t.Fatalf("raw: %d %s", status, got)
	}
	noFiles(t, dir)
}

func TestUploadTooLarge(t *testing.T) {
	t.Parallel()
	testkit.SkipRaced(t, "one goroutine, and slow under it")
	f, dir := uploadServer(t, 200<<20)
	send := func(r io.Reader, contentType string) int {
		req, err := http.NewRequestWithContext(t.Context(), "POST", f.URL()+"/transcribe", r)
		if err != nil {
			t.Fatal(err)
		}
		req.Header = bearer(rootToken)
		req.Header.Set("Content-Type", contentType)
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			return 413 // the server may respond and close while we are still writing
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	if got := send(io.LimitReader(zeros{}, 201<<20), "audio/wav"); got != 413 {
		t.Errorf("201 MiB raw, length unknown: %d", got)
	}
	head := "--b\r\nContent-Disposition: form-data; name=\"audio\"; filename=\"x\"\r\n\r\n"
	if got := send(io.MultiReader(strings.NewReader(head), io.LimitReader(zeros{}, 201<<20), strings.NewReader("\r\n--b--\r\n")), "multipart/form-data; boundary=b"); got != 413 {
		t.Errorf("201 MiB multipart: %d", got)
	}
	noFiles(t, dir)
}

func TestUploadMalformed(t *testing.T) {
	t.Parallel()
	f, dir := uploadServer(t, 1<<20)
	for name, c := range map[string]struct{ kind, body string }{
		"no boundary":    {"multipart/form-data", "x"},
		"no part":        {"multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\ny\r\n--b--\r\n"},
		"cut off":        {"multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"audio\"\r\n\r\nabc"},
		"garbage":        {"multipart/form-data; boundary=b", "\x00\x01\x02"},
		"twice":          {"multipart/form-data; boundary=b", strings.Repeat("--b\r\nContent-Disposition: form-data; name=\"audio\"\r\n\r\na\r\n", 2) + "--b--\r\n"},
		"large field":    {"multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\n" + strings.Repeat("y", maxField+1) + "\r\n--b--\r\n"},
		"malformed type": {"multipart/form-data; =", "x"},
	} {
		head := bearer(rootToken)
		head.Set("Content-Type", c.kind)
		if status, _, body := f.get(t, "POST", f.URL()+"/transcribe", head, strings.NewReader(c.body)); status != 422 {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	noFiles(t, dir)
}

func TestRoutePanicsAndErrors(t *testing.T) {
	t.Parallel()
	f := setupWith(t, func(s *Server) {
		s.Route("POST", "/execute", Write, true, func(_ http.ResponseWriter, r *http.Request) error {
			if r.URL.RawQuery != "" {
				panic("kaboom")
			}
			return fault.NotFoundf("no such skill")
		})
	}, func(o *Options) { o.Limits.CostlyRate, o.Limits.CostlyBurst = 1e-6, 40 })
	if status, _, body := f.get(t, "POST", f.URL()+"/execute", bearer(rootToken), nil); status != 404 || !strings.Contains(body, `"NOT_FOUND"`) {
		t.Errorf("%d %s", status, body)
	}
	if status, _, body := f.get(t, "POST", f.URL()+"/execute?x", bearer(rootToken), nil); status != 500 || strings.Contains(body, "kaboom") {
		t.Errorf("%d %s", status, body)
	}
	limited := 0
	for range 60 {
		if status, _, _ := f.get(t, "POST", f.URL()+"/execute", bearer(rootToken), nil); status == 429 {
			limited++
		}
	}
	if limited != 22 {
		t.Errorf("of 62 expensive calls %d were refused, want all but 40", limited)
	}
}

// TestCrossOriginRequestsAreRejectedExceptTopLevelNavigation sends the requests that a browser sends
// when another page, or the file of `helix ui`, links to the gateway. A navigation in a tab gets the
// front page; everything else is refused.
func TestCrossOriginRequestsAreRejectedExceptTopLevelNavigation(t *testing.T) {
	t.Parallel()
	f := setup(t, func(o *Options) {
		o.Web = fstest.MapFS{"index.html": {Data: []byte("<title>Helix</title>")}, "assets/a.js": {Data: []byte("1")}}
	})
	head := func(mode, dest string, more ...string) http.Header {
		h := http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {mode}, "Sec-Fetch-Dest": {dest}}
		for i := 0; i < len(more); i += 2 {
			h.Set(more[i], more[i+1])
		}
		return h
	}
	status, h, body := f.get(t, "GET", f.URL()+"/", head("navigate", "document"), nil)
	if status != 200 || !strings.Contains(body, "Helix") || h.Get("Cross-Origin-Opener-Policy") != "same-origin" ||
		!strings.Contains(h.Get("Content-Security-Policy"), "frame-ancestors 'none'") || h.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("a tab: %d %v %s", status, h, body)
	}
	for _, c := range []struct {
		why, method, path string
		head              http.Header
	}{
		{"a frame", "GET", "/", head("navigate", "iframe")},
		{"an embedded object", "GET", "/", head("navigate", "embed")},
		{"a fetch", "GET", "/", head("no-cors", "empty")},
		{"an image", "GET", "/", head("no-cors", "image")},
		{"a script", "GET", "/assets/a.js", head("no-cors", "script")},
		{"a tab that posts", "POST", "/", head("navigate", "document", "Origin", "null")},
		{"a tab with an origin", "GET", "/", head("navigate", "document", "Origin", "null")},
		{"a tab with a query", "GET", "/?x=1", head("navigate", "document")},
		{"a tab on another screen", "GET", "/settings", head("navigate", "document")},
		{"a tab on an asset", "GET", "/assets/a.js", head("navigate", "document")},
		{"a tab on health", "GET", "/healthz", head("navigate", "document")},
		{"a tab on the document", "GET", "/openrpc.json", head("navigate", "document", "Authorization", "Bearer "+rootToken)},
		{"a tab on a blob", "GET", "/blobs/" + strings.Repeat("0", 64), head("navigate", "document")},
		{"a tab that calls", "POST", "/rpc", head("navigate", "document", "Authorization", "Bearer "+rootToken)},
		{"a tab with a ticket", "POST", "/session", head("navigate", "document")},
		{"a socket", "GET", "/ws", head("websocket", "empty", "Origin", "https://evil.example")},
		{"a foreign name", "GET", "/", head("navigate", "document", "Host", "evil.example")},
	} {
		if status, _, body := f.get(t, c.method, f.URL()+c.path, c.head, nil); status != 403 {
			t.Errorf("%s: %d %s", c.why, status, body)
		}
	}
}
