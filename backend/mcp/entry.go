package mcp

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"helix/backend/fault"
	"helix/backend/jcs"
)

// The transports of a server.
const (
	Stdio = "stdio"
	HTTP  = "http" // streamable HTTP
	SSE   = "sse"  // the older HTTP+SSE
)

// The levels of trust in a server.
const (
	TrustAsk  = "ask"  // every tool counts as side-effecting unless the user says otherwise
	TrustRead = "read" // tools that claim to only read count as read-only once they are approved
	TrustNone = "none" // no tool may be called
)

// Server describes how to start or reach an MCP server. ${VAR} and ${VAR:-default} in args, env, url and
// headers stand for stored secrets, else for variables of the environment; they are resolved when
// the server starts and stored as they are.
type Server struct {
	// Name is 1 to 32 of a-z 0-9 _ -, and starts with a letter or digit.
	Name string `json:"name"`
	// Transport is stdio, http or sse; default stdio with a command and http with a URL.
	Transport string            `json:"transport,omitempty"`
	Command   string            `json:"command,omitempty"`
	Args      []string          `json:"args,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
	Cwd       string            `json:"cwd,omitempty"`
	URL       string            `json:"url,omitempty"`
	Headers   map[string]string `json:"headers,omitempty"`
	Enabled   *bool             `json:"enabled,omitempty"` // default true
	// Trust is ask (default), read or none.
	Trust string `json:"trust,omitempty"`
	// Tools selects tools by name; a pattern may end in *.
	Tools          Selection `json:"tools,omitzero"`
	TimeoutMs      int64     `json:"timeoutMs,omitempty"`      // of a call; default 60,000
	StartTimeoutMs int64     `json:"startTimeoutMs,omitempty"` // default 30,000
	IdleMinutes    int64     `json:"idleMinutes,omitempty"`    // stop after this time without a call; default 10
	Description    string    `json:"description,omitempty"`
}

// Selection selects tools of a server. An empty allow list allows all.
type Selection struct {
	Allow []string `json:"allow,omitempty"`
	Deny  []string `json:"deny,omitempty"`
}

func (s Selection) allows(tool string) bool {
	match := func(p string) bool {
		prefix, open := strings.CutSuffix(p, "*")
		return p == tool || open && strings.HasPrefix(tool, prefix)
	}
	return !slices.ContainsFunc(s.Deny, match) && (len(s.Allow) == 0 || slices.ContainsFunc(s.Allow, match))
}

// Limits of an entry.
const (
	maxArgs       = 128
	maxEntryBytes = 64 << 10
	maxTimeoutMs  = 600_000
)

var serverName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,31}$`)

// headers that the transport sets itself.
var reservedHeaders = []string{"host", "content-length", "content-type", "transfer-encoding", "connection", "accept", "mcp-session-id", "mcp-protocol-version", "last-event-id"}

// normalize fills in defaults and checks the entry.
func (e *Server) normalize() error {
	e.Name = strings.TrimSpace(e.Name)
	if !serverName.MatchString(e.Name) {
		return fault.InvalidField("/name", "name", "A server's name has 1 to 32 of the characters a-z 0-9 _ - and starts with a letter or digit.")
	}
	if e.Transport == "" {
		if e.Transport = Stdio; e.URL != "" {
			e.Transport = HTTP
		}
	}
	if e.Enabled == nil {
		on := true
		e.Enabled = &on
	}
	if e.Trust == "" {
		e.Trust = TrustAsk
	}
	if !slices.Contains([]string{TrustAsk, TrustRead, TrustNone}, e.Trust) {
		return fault.InvalidField("/trust", "trust", "trust must be ask, read or none.")
	}
	for _, n := range []struct {
		path      string
		v         *int64
		def, most int64
	}{{"/timeoutMs", &e.TimeoutMs, 60_000, maxTimeoutMs}, {"/startTimeoutMs", &e.StartTimeoutMs, 30_000, maxTimeoutMs}, {"/idleMinutes", &e.IdleMinutes, 10, 24 * 60}} {
		if *n.v == 0 {
			*n.v = n.def
		}
		if *n.v < 1 || *n.v > n.most {
			return fault.InvalidField(n.path, "range", "%s must be 1 to %d.", n.path[1:], n.most)
		}
	}
	if err := e.checkTexts(); err != nil {
		return err
	}
	switch e.Transport {
	case Stdio:
		return e.checkCommand()
	case HTTP, SSE:
		return e.checkURL()
	}
	return fault.InvalidField("/transport", "transport", "transport must be stdio, http or sse.")
}

func (e *Server) checkTexts() error {
	size := len(e.Command) + len(e.URL) + len(e.Cwd) + len(e.Description)
	texts := append([]string{e.Command, e.URL, e.Cwd, e.Description}, e.Args...)
	for _, m := range []map[string]string{e.Env, e.Headers} {
		for k, v := range m {
			texts = append(texts, k, v)
		}
	}
	for _, t := range texts {
		size += len(t)
		if strings.ContainsRune(t, 0) {
			return fault.InvalidField("", "characters", "The entry contains a NUL character.")
		}
	}
	if size > maxEntryBytes || len(e.Args) > maxArgs {
		return fault.InvalidField("", "size", "The entry is too large: at most %d arguments and %d bytes.", maxArgs, maxEntryBytes)
	}
	return nil
}

func (e *Server) checkCommand() error {
	if strings.TrimSpace(e.Command) == "" {
		return fault.InvalidField("/command", "required", "A stdio server needs a command.")
	}
	if e.URL != "" || len(e.Headers) > 0 {
		return fault.InvalidField("/url", "transport", "A stdio server has a command, not a URL or headers.")
	}
	if e.Cwd != "" && !filepath.IsAbs(e.Cwd) {
		return fault.InvalidField("/cwd", "absolute", "The working folder must be an absolute path.")
	}
	for k := range e.Env {
		if k == "" || strings.ContainsAny(k, "= \n") {
			return fault.InvalidField("/env", "name", "%q can't be the name of a variable.", k)
		}
		if strings.HasPrefix(strings.ToUpper(k), "HELIX_") {
			return fault.InvalidField("/env/"+k, "name", "Variables of Helix (HELIX_…) can't be passed to a server.")
		}
	}
	return nil
}

func (e *Server) checkURL() error {
	if e.Command != "" || len(e.Args) > 0 || len(e.Env) > 0 || e.Cwd != "" {
		return fault.InvalidField("/command", "transport", "A server with a URL has no command, arguments, variables or folder.")
	}
	u, err := url.Parse(variable.ReplaceAllString(e.URL, "x"))
	if err != nil || u.Host == "" || u.User != nil {
		return fault.InvalidField("/url", "url", "The URL isn't valid. Write it like https://example.com/mcp, without a user name.")
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())) {
		return fault.InvalidField("/url", "scheme", "Use https; http is only allowed for this computer (localhost).")
	}
	for k, v := range e.Headers {
		if k == "" || strings.ContainsAny(k, " :\r\n") || strings.ContainsAny(v, "\r\n") || slices.Contains(reservedHeaders, strings.ToLower(k)) {
			return fault.InvalidField("/headers", "name", "The header %q can't be set.", k)
		}
	}
	return nil
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback()
}

func portOf(u *url.URL) int {
	if p, err := strconv.Atoi(u.Port()); err == nil {
		return p
	}
	if u.Scheme == "http" {
		return 80
	}
	return 443
}

// document is what an approval of the server covers: the program that it runs or the address that it
// connects to.
func (e *Server) document() map[string]any {
	doc := map[string]any{"transport": e.Transport}
	for k, v := range map[string]string{"command": e.Command, "cwd": e.Cwd, "url": e.URL} {
		if v != "" {
			doc[k] = v
		}
	}
	if len(e.Args) > 0 {
		doc["args"] = e.Args
	}
	if len(e.Env) > 0 {
		doc["env"] = e.Env
	}
	if len(e.Headers) > 0 {
		doc["headers"] = e.Headers
	}
	return doc
}

func (e *Server) hash() ([32]byte, error) { return jcs.Hash(definitionTag, e.document()) }

// definitionTag separates hashes of definitions from others.
const definitionTag = "helix-def-v1"

// variable is ${VAR} or ${VAR:-default}.
var variable = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_./-]*)(:-[^}]*)?\}`)

// lookup returns the value of a variable. ok is false if it has none.
type lookup = func(name string) (value string, ok bool, err error)

// expand resolves the variables in the parts of an entry that may contain them.
func (e *Server) expand(get lookup) (Server, error) {
	out := *e
	var failed error
	text := func(s string) string {
		return variable.ReplaceAllStringFunc(s, func(m string) string {
			part := variable.FindStringSubmatch(m)
			v, ok, err := get(part[1])
			switch {
			case err != nil:
				failed = err
			case ok:
				return v
			case part[2] != "":
				return strings.TrimPrefix(part[2], ":-")
			case failed == nil:
				failed = fault.Unavailablef("%s needs %s, which is neither a stored secret nor in the environment. Store it with: helix secrets set %s", e.Name, m, part[1])
			}
			return ""
		})
	}
	texts := func(m map[string]string) map[string]string {
		out := make(map[string]string, len(m))
		for k, v := range m {
			out[k] = text(v)
		}
		return out
	}
	out.Args = make([]string, len(e.Args))
	for i, a := range e.Args {
		out.Args[i] = text(a)
	}
	out.Env, out.Headers, out.URL = texts(e.Env), texts(e.Headers), text(e.URL)
	return out, failed
}

// variables returns the names of the variables that the entry refers to, sorted.
func (e *Server) variables() []string {
	var out []string
	add := func(s string) {
		for _, m := range variable.FindAllStringSubmatch(s, -1) {
			out = append(out, m[1])
		}
	}
	for _, a := range append([]string{e.URL}, e.Args...) {
		add(a)
	}
	for _, m := range []map[string]string{e.Env, e.Headers} {
		for _, v := range m {
			add(v)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func hexHash(h [32]byte) string { return hex.EncodeToString(h[:]) }

// target describes what a server is, for people: its command line or its URL.
func (e *Server) target() string {
	if e.Transport != Stdio {
		return e.URL
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s", e.Command, strings.Join(e.Args, " ")))
}
