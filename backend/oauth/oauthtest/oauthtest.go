// Package oauthtest is a small authorization server with a protected resource, for the tests of packages
// that sign in. It checks what a client must send, and answers wrongly where a test asks for it.
package oauthtest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Faults are wrong or unusual answers.
type Faults struct {
	NoMetadata     bool   // neither of the resource nor of the server
	NoResource     bool   // only metadata of the server, as in the first version of the protocol
	Issuer         string // in the metadata, instead of the own
	OtherResource  bool   // the metadata of the resource is for another one
	NoPKCE         bool   // the metadata has no code_challenge_methods_supported
	NoRegistration bool
	State          string // in the redirect, instead of the client's
	Iss            string // in the redirect, instead of the own; "-": none
	Decline        bool   // access_denied
	TokenStatus    int    // of the token endpoint, with a body that isn't JSON
	TokenType      string // instead of Bearer
	NoRefresh      bool
	Redirect       string // the token endpoint redirects there
}

// Server is an authorization server. Its URL is also the protected resource /mcp.
type Server struct {
	*httptest.Server
	// Resource answers requests with a valid token; nil: 200.
	Resource http.Handler

	mu       sync.Mutex
	faults   Faults
	clients  map[string]string // redirect by client ID
	codes    map[string]url.Values
	access   map[string]bool
	refresh  map[string]bool
	counts   map[string]int
	problems []string
	next     int
}

// New starts a server that ends with the test. What a client does wrong fails the test.
func New(t testing.TB) *Server {
	s := &Server{clients: map[string]string{"fixed": ""}, codes: map[string]url.Values{}, access: map[string]bool{}, refresh: map[string]bool{}, counts: map[string]int{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/oauth-protected-resource/", s.resource)
	mux.HandleFunc("GET /.well-known/oauth-authorization-server", s.metadata)
	mux.HandleFunc("POST /register", s.register)
	mux.HandleFunc("GET /authorize", s.authorize)
	mux.HandleFunc("POST /token", s.token)
	mux.HandleFunc("POST /revoke", s.revoke)
	mux.HandleFunc("/mcp", s.protected)
	s.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		s.Close()
		for _, p := range s.problems {
			t.Error("authorization server: " + p)
		}
	})
	return s
}

// Set changes the faults.
func (s *Server) Set(f Faults) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = f
}

// Count returns how often an endpoint was called: register, token, refresh, revoke or machine.
func (s *Server) Count(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[what]
}

// Expire makes the access tokens invalid; with all also the refresh tokens.
func (s *Server) Expire(all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.access)
	if all {
		clear(s.refresh)
	}
}

// Valid reports whether an access token is.
func (s *Server) Valid(token string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.access[token]
}

// Visit opens a sign-in page as a browser does, and returns the status of the page at its end.
func (s *Server) Visit(t testing.TB, address string) int {
	t.Helper()
	resp, err := http.Get(address) //nolint:gosec,noctx // the address of a test
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

func (s *Server) lock() func() { s.mu.Lock(); return s.mu.Unlock }

func (s *Server) problem(text string) { s.problems = append(s.problems, text) }

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v) //nolint:errcheck // the client may be gone
}

func (s *Server) resource(w http.ResponseWriter, r *http.Request) {
	defer s.lock()()
	if s.faults.NoMetadata || s.faults.NoResource {
		http.NotFound(w, r)
		return
	}
	resource := s.URL + "/mcp"
	if s.faults.OtherResource {
		resource = "https://bank.example/mcp"
	}
	answer(w, 200, map[string]any{"resource": resource, "authorization_servers": []string{s.URL}, "scopes_supported": []string{"read", "write"}})
}

func (s *Server) metadata(w http.ResponseWriter, r *http.Request) {
	defer s.lock()()
	if s.faults.NoMetadata {
		http.NotFound(w, r)
		return
	}
	m := map[string]any{
		"issuer": s.URL, "authorization_endpoint": s.URL + "/authorize", "token_endpoint": s.URL + "/token", "registration_endpoint": s.URL + "/register", "revocation_endpoint": s.URL + "/revoke",
		"response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"}, "token_endpoint_auth_methods_supported": []string{"none", "client_secret_post"},
		"authorization_response_iss_parameter_supported": true,
	}
	if s.faults.Issuer != "" {
		m["issuer"] = s.faults.Issuer
	}
	if s.faults.NoPKCE {
		delete(m, "code_challenge_methods_supported")
	}
	if s.faults.NoRegistration {
		delete(m, "registration_endpoint")
	}
	answer(w, 200, m)
}

func (s *Server) register(w http.ResponseWriter, r *http.Request) {
	defer s.lock()()
	s.counts["register"]++
	var m struct {
		Redirects []string `json:"redirect_uris"`
		Method    string   `json:"token_endpoint_auth_method"`
	}
	if json.NewDecoder(r.Body).Decode(&m) != nil || len(m.Redirects) != 1 || !strings.HasPrefix(m.Redirects[0], "http://127.0.0.1:") || m.Method != "none" {
		answer(w, 400, map[string]any{"error": "invalid_client_metadata"})
		return
	}
	s.next++
	id := "client-" + strconv.Itoa(s.next)
	s.clients[id] = m.Redirects[0]
	answer(w, 201, map[string]any{"client_id": id, "redirect_uris": m.Redirects})
}

func (s *Server) authorize(w http.ResponseWriter, r *http.Request) {
	defer s.lock()()
	q := r.URL.Query()
	redirect, known := s.clients[q.Get("client_id")]
	if !known || redirect != "" && redirect != q.Get("redirect_uri") || q.Get("code_challenge_method") != "S256" || len(q.Get("code_challenge")) != 43 || len(q.Get("state")) < 16 || q.Get("response_type") != "code" {
		s.problem("bad authorization request: " + r.URL.RawQuery)
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	s.next++
	code := "code-" + strconv.Itoa(s.next)
	s.codes[code] = q
	back := url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {s.URL}}
	if s.faults.Decline {
		back.Del("code")
		back.Set("error", "access_denied")
	}
	if s.faults.State != "" {
		back.Set("state", s.faults.State)
	}
	if s.faults.Iss == "-" {
		back.Del("iss")
	} else if s.faults.Iss != "" {
		back.Set("iss", s.faults.Iss)
	}
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
}

func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	defer s.lock()()
	if err := r.ParseForm(); err != nil {
		s.problem(err.Error())
	}
	f := r.PostForm
	switch {
	case s.faults.Redirect != "":
		http.Redirect(w, r, s.faults.Redirect, http.StatusTemporaryRedirect)
		return
	case s.faults.TokenStatus != 0:
		http.Error(w, "<html>oops</html>", s.faults.TokenStatus)
		return
	}
	switch f.Get("grant_type") {
	case "authorization_code":
		s.counts["token"]++
		q, ok := s.codes[f.Get("code")]
		delete(s.codes, f.Get("code"))
		sum := sha256.Sum256([]byte(f.Get("code_verifier")))
		if !ok || base64.RawURLEncoding.EncodeToString(sum[:]) != q.Get("code_challenge") || f.Get("redirect_uri") != q.Get("redirect_uri") || f.Get("client_id") != q.Get("client_id") || f.Get("resource") != q.Get("resource") {
			answer(w, 400, map[string]any{"error": "invalid_grant", "error_description": "the code isn't valid"})
			return
		}
	case "refresh_token":
		s.counts["refresh"]++
		if !s.refresh[f.Get("refresh_token")] {
			answer(w, 400, map[string]any{"error": "invalid_grant", "error_description": "the refresh token isn't valid"})
			return
		}
		delete(s.refresh, f.Get("refresh_token")) // each is valid once
	case "client_credentials":
		s.counts["machine"]++
		if id, secret := f.Get("client_id"), f.Get("client_secret"); id != "robot" || secret != "robot-secret" {
			if id, secret, ok := r.BasicAuth(); !ok || id != "robot" || secret != "robot-secret" {
				answer(w, 401, map[string]any{"error": "invalid_client"})
				return
			}
		}
	default:
		answer(w, 400, map[string]any{"error": "unsupported_grant_type"})
		return
	}
	s.next++
	out := map[string]any{"access_token": "access-token-" + strconv.Itoa(s.next), "token_type": "Bearer", "expires_in": 3600}
	s.access[out["access_token"].(string)] = true
	if s.faults.TokenType != "" {
		out["token_type"] = s.faults.TokenType
	}
	if !s.faults.NoRefresh && f.Get("grant_type") != "client_credentials" {
		out["refresh_token"] = "refresh-token-" + strconv.Itoa(s.next)
		s.refresh[out["refresh_token"].(string)] = true
	}
	answer(w, 200, out)
}

func (s *Server) revoke(w http.ResponseWriter, r *http.Request) {
	defer s.lock()()
	s.counts["revoke"]++
	token := r.PostFormValue("token")
	delete(s.access, token)
	delete(s.refresh, token)
	w.WriteHeader(http.StatusOK)
}

// protected is the resource: without a valid token it says where the metadata is.
func (s *Server) protected(w http.ResponseWriter, r *http.Request) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !s.Valid(token) {
		w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+s.URL+`/.well-known/oauth-protected-resource/mcp", scope="read"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if s.Resource != nil {
		s.Resource.ServeHTTP(w, r)
	}
}
