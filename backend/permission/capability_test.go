package permission

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"helix/backend/fault"
)

func TestParseCapability(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"filesystem:read(/data/notes/**)":                    "filesystem:read(/data/notes/**)",
		"filesystem:read(/data/a.txt)":                       "filesystem:read(/data/a.txt)",
		"filesystem:read(~/Notes/)":                          "filesystem:read($HOME/Notes/**)",
		"filesystem:read($WORKSPACE/**)":                     "filesystem:read($WORKSPACE/**)",
		"filesystem:read(/data//./a)":                        "filesystem:read(/data/a)",
		"filesystem:write":                                   "filesystem:write($STATE/**)",
		"filesystem:write($STATE/out/**)":                    "filesystem:write($STATE/out/**)",
		"network:https(API.Example.com)":                     "network:https(api.example.com)",
		"network:https(*.example.com.)":                      "network:https(*.example.com)",
		"network:https(api.example.com:443)":                 "network:https(api.example.com)",
		"network:https(api.example.com:8443)":                "network:https(api.example.com:8443)",
		"network:https(bücher.example.com)":                  "network:https(xn--bcher-kva.example.com)",
		"network:https(BÜCHER。example.com)":                  "network:https(xn--bcher-kva.example.com)",
		"network:https(s3.amazonaws.com)":                    "network:https(s3.amazonaws.com)",
		"network:localhost(3000)":                            "network:localhost(3000)",
		"network:smtp(SMTP.Example.com:587/Ada@Example.com)": "network:smtp(smtp.example.com:587/Ada@example.com)",
		"network:smtp(localhost:1025/a@b.example)":           "network:smtp(localhost:1025/a@b.example)",
		"network:localhost(8000 - 8100)":                     "network:localhost(8000-8100)",
		"state(10MiB)":                                       "state(10MiB)",
		"state(1024)":                                        "state(1KiB)",
		"state":                                              "state(1MiB)",
		"secret(openai.key)":                                 "secret(openai.key)",
		"tool(Text Counter)":                                 "tool(Text Counter)",
		"tool(mail.*)":                                       "tool(mail.*)",
		"mcp(github.create_issue)":                           "mcp(github.create_issue)",
		"mcp(github.*)":                                      "mcp(github.*)",
	} {
		c, r, err := ParseCapability(in)
		if got := FormatCapability(c, r); err != nil || got != want {
			t.Errorf("%s: got %s (%v), want %s", in, got, err, want)
			continue
		}
		if c2, r2, err := ParseCapability(FormatCapability(c, r)); err != nil || c2 != c || r2 != r {
			t.Errorf("%s is not stable: %s %s %v", in, c2, r2, err)
		}
	}
	for in, rule := range map[string]string{
		"process:spawn": "never", "env:read(PATH)": "never", "discord:webhooks": "never",
		"network:outbound": "replaced", "mcp:tools": "replaced", "internet_access": "replaced", "network:localhost": "port",
		"teleport(x)": "unknown", "": "unknown", "call(privileged)": "unknown", "network:https": "resource", "network:https(a.example.com": "syntax",
		"filesystem:read(/**)": "root", "filesystem:read(/)": "root", "filesystem:read()": "empty", "filesystem:read( )": "empty", "filesystem:read(../x)": "parent", "filesystem:read(/a/../b)": "parent",
		"filesystem:read(notes)": "absolute", "filesystem:read(/a/*/b)": "wildcard", "filesystem:read(/a/*)": "wildcard", "filesystem:read($PATH/x)": "variable", "filesystem:read($HOMEX/x)": "variable",
		"filesystem:read(/a\u202eb)": "characters", "filesystem:read(/a\x00)": "characters", "filesystem:read(/" + strings.Repeat("x", 4096) + ")": "length",
		"filesystem:write(/tmp/x)": "write", "filesystem:write($HOME/x)": "write", "filesystem:read($HOME)": "folder",
		"network:https(https://*)": "scheme", "network:https(*)": "wildcard", "network:https(*.com)": "public_suffix", "network:https(*.co.uk)": "public_suffix", "network:https(co.uk)": "public_suffix",
		"network:https(*.github.io)": "public_suffix", "network:https(a.*.example.com)": "wildcard", "network:https(x*.example.com)": "wildcard", "network:https(example.com/path)": "syntax", "network:https(u@example.com)": "syntax",
		"network:https(127.0.0.1)": "ip", "network:https([::1])": "ip", "network:https(0x7f.1)": "ip", "network:https(2130706433)": "ip", "network:https(127.1)": "ip", "network:https(１２７.0.0.1)": "ip", "network:https(fe80::1)": "ip",
		"network:https(localhost)": "localhost", "network:https(a.localhost)": "localhost", "network:https(intranet)": "private", "network:https(nas.local)": "private", "network:https(x.internal)": "private",
		"network:https(a..example.com)": "name", "network:https(-a.example.com)": "name", "network:https(a_b.example.com)": "name", "network:https(example.com:0)": "port", "network:https(example.com:99999)": "port",
		"network:smtp(a.example.com)": "syntax", "network:smtp(a.example.com/a@b.example)": "syntax", "network:smtp(a.example.com:0/a@b.example)": "syntax", "network:smtp(10.0.0.1:25/a@b.example)": "ip",
		"network:smtp(nas.local:25/a@b.example)": "private", "network:smtp(a.example.com:25/Ada <a@b.example>)": "address", "network:smtp(a.example.com:25/a@b@c)": "address", "network:smtp(*.example.com:25/a@b.example)": "wildcard",
		"network:localhost(0)": "port", "network:localhost(65536)": "port", "network:localhost(90-80)": "port", "network:localhost(x)": "port",
		"state(0)": "bytes", "state(-1)": "bytes", "state(2GiB)": "quota", "state(1TB)": "bytes", "state(99999999999GiB)": "bytes",
		"secret(a b)": "name", "secret(*)": "name", "tool(*)": "name", "tool(.*)": "name", "mcp(github)": "name", "mcp(*.x)": "name", "mcp(*)": "name",
	} {
		c, r, err := ParseCapability(in)
		var f *fault.Error
		if !errors.As(err, &f) || f.Kind != fault.Invalid || f.Message == "" {
			t.Errorf("%.60q: got %s %s, %v", in, c, r, err)
			continue
		}
		if d, _ := f.Details.(RuleError); d.Rule != rule || rule == "replaced" && d.Replacement == "" {
			t.Errorf("%.60q: broke %q, want %q", in, d.Rule, rule)
		}
	}
}

func TestCoversAndNarrow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cap  Capability
		a, b string
		want string // "" disjoint
	}{
		{NetworkHTTPS, "*.a.example.com", "*.example.com", "*.a.example.com"},
		{NetworkHTTPS, "*.example.com", "example.com", ""},
		{NetworkHTTPS, "*.example.com", "x.y.example.com", "x.y.example.com"},
		{NetworkHTTPS, "*.example.com", "badexample.com", ""},
		{NetworkHTTPS, "*.example.com", "*.example.com:8443", ""},
		{NetworkHTTPS, "*.a.example.com", "b.example.com", ""},
		{FilesystemRead, "/data/**", "/data/a/**", "/data/a/**"},
		{FilesystemRead, "/data/**", "/data", "/data"},
		{FilesystemRead, "/data/**", "/database/x", ""},
		{FilesystemRead, "/data/a", "/data/b", ""},
		{NetworkLocalhost, "8000-8100", "8050-8200", "8050-8100"},
		{NetworkLocalhost, "8000", "9000", ""},
		{State, "10MiB", "1GiB", "10MiB"},
		{ToolCall, "mail.*", "mail.send", "mail.send"},
		{ToolCall, "mail.*", "mailer", ""},
		{ToolCall, "Text Counter", "text counter", "Text Counter"},
		{MCP, "github.*", "github.create", "github.create"},
		{MCP, "github.*", "gitlab.create", ""},
		{Secret, "a", "A", ""},
		{Call, "privileged", "side_effecting", "side_effecting"},
	} {
		got, ok := narrow(c.cap, c.a, c.b)
		if ok != (c.want != "") || got != c.want {
			t.Errorf("%s %s ∩ %s = %q, want %q", c.cap, c.a, c.b, got, c.want)
		}
	}
}

// randomPattern returns patterns that often overlap.
func randomPattern(r *rand.Rand, c Capability) string {
	labels := []string{"a", "b", "xn--bcher-kva", "api"}
	switch c {
	case NetworkHTTPS:
		s := "example.com"
		for range r.IntN(3) {
			s = labels[r.IntN(len(labels))] + "." + s
		}
		if r.IntN(2) == 0 {
			s = "*." + s
		}
		if r.IntN(4) == 0 {
			s += ":8443"
		}
		return s
	case FilesystemRead:
		s := []string{"/d", "$HOME/d", "$STATE/d"}[r.IntN(3)]
		for range r.IntN(3) {
			s += "/" + labels[r.IntN(3)]
		}
		if r.IntN(2) == 0 {
			s += "/**"
		}
		return s
	case NetworkLocalhost:
		a := 1 + r.IntN(20)
		return ports{a, a + r.IntN(10)}.String()
	case State:
		return formatBytes(int64(1+r.IntN(5)) << 10)
	}
	return []string{"m.a", "m.*", "m.b", "n.*", "n.a.b"}[r.IntN(5)]
}

// TestNarrowProperties checks that narrow is commutative, idempotent and associative in
// effect, and never widens.
func TestNarrowProperties(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		c := []Capability{NetworkHTTPS, FilesystemRead, NetworkLocalhost, State, ToolCall, MCP}[r.IntN(6)]
		a, b, x := randomPattern(r, c), randomPattern(r, c), randomPattern(r, c)
		for _, p := range []string{a, b, x} {
			if n, err := Normalize(c, p); err != nil || n != p {
				t.Fatalf("%s %q: %q %v", c, p, n, err)
			}
		}
		ab, ok := narrow(c, a, b)
		ba, ok2 := narrow(c, b, a)
		if ok != ok2 || ab != ba {
			t.Fatalf("%s: %q ∩ %q = %q %v, the other way %q %v", c, a, b, ab, ok, ba, ok2)
		}
		if !ok {
			if Covers(c, a, x) && Covers(c, b, x) {
				t.Fatalf("%s: %q and %q are said to be disjoint, yet both have %q", c, a, b, x)
			}
			continue
		}
		if !Covers(c, a, ab) || !Covers(c, b, ab) {
			t.Fatalf("%s: %q ∩ %q = %q is wider", c, a, b, ab)
		}
		if again, ok := narrow(c, ab, a); !ok || again != ab {
			t.Fatalf("%s: not idempotent: %q ∩ %q = %q", c, ab, a, again)
		}
		if Covers(c, a, x) && Covers(c, b, x) && !Covers(c, ab, x) {
			t.Fatalf("%s: %q is in %q and %q but not in %q", c, x, a, b, ab)
		}
		if self, ok := narrow(c, a, a); !ok || self != a {
			t.Fatalf("%s: %q ∩ itself = %q", c, a, self)
		}
	}
}

func FuzzHost(f *testing.F) {
	for _, s := range []string{"*.a.example.com", "EXAMPLE.com.", "bücher.de", "0x7f.1", "a.b:8443", "xn--n3h.example", "127.0.0.1", "[::1]", "*.co.uk", "ex\u00adample.com", "faß.de", "a\u3002b.com"} {
		f.Add(s, "x.example.com")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		ha, err := parseHost(a, true)
		if err != nil {
			return
		}
		again, err := parseHost(ha.String(), true)
		if err != nil || again != ha {
			t.Fatalf("%q became %q, then %q (%v)", a, ha, again, err)
		}
		if strings.Contains(ha.name, "*") || ha.name != strings.ToLower(ha.name) || !ha.covers(ha) {
			t.Fatalf("%q became %q", a, ha)
		}
		hb, err := parseHost(b, true)
		if err != nil {
			return
		}
		if ha.covers(hb) && hb.covers(ha) && ha != hb {
			t.Fatalf("%q and %q cover each other", ha, hb)
		}
		if ha.covers(hb) && !strings.HasSuffix(hb.name, ha.name) {
			t.Fatalf("%q covers %q", ha, hb)
		}
	})
}

func FuzzCapability(f *testing.F) {
	for _, s := range []string{"filesystem:read(~/x/**)", "network:https(*.example.com:1)", "state(1KiB)", "tool(a b)", "mcp(a.b)", "network:localhost(1-2)", "secret(x", "call(privileged)", "filesystem:read($STATE/a/../b)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, r, err := ParseCapability(s)
		if err != nil {
			if fault.KindOf(err) != fault.Invalid {
				t.Fatalf("%q: %v", s, err)
			}
			return
		}
		if c2, r2, err := ParseCapability(FormatCapability(c, r)); err != nil || c2 != c || r2 != r {
			t.Fatalf("%q became %s(%s), then %s(%s): %v", s, c, r, c2, r2, err)
		}
		if !Covers(c, r, r) || strings.Contains(r, "..") && (c == FilesystemRead || c == FilesystemWrite) && strings.Contains("/"+r+"/", "/../") {
			t.Fatalf("%q became %s(%s)", s, c, r)
		}
	})
}

// TestPathsFollowLinks checks that a link out of a granted folder is resolved, and that Helix's own
// folders cannot be reached by any path.
func TestPathsFollowLinks(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege there")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"notes/sub", "secret", "helix/state/t1", "helix/state/t2"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"notes/out": "../secret", "notes/in": "sub", "notes/own": "../helix", "alias": "notes", "notes/broken": "../nowhere"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	s := New(nil, nil, Options{Home: dir, Own: []string{filepath.Join(dir, "helix")}, StateDir: func(s Subject) string { return filepath.Join(dir, "helix", "state", s.ID) }})
	sub := Subject{Kind: "tool", ID: "t1"}
	for _, c := range []struct {
		pattern, path string
		has, ok       bool
	}{
		{"$HOME/notes/**", dir + "/notes/a.txt", true, true},
		{"$HOME/notes/**", dir + "/notes", true, true},
		{"$HOME/notes/**", "~/notes/in/x", true, true},
		{"$HOME/notes/**", dir + "/alias/a.txt", true, true},
		{"$HOME/alias/**", dir + "/notes/a.txt", true, true},
		{"$HOME/notes/**", dir + "/notes/out/key", false, true},
		{"$HOME/notes/**", dir + "/notes2/x", false, true},
		{"$HOME/notes/a", dir + "/notes/a", true, true},
		{"$HOME/notes/a", dir + "/notes/a/b", false, true},
		{"$HOME/**", dir + "/notes/own/helix.db", false, false},
		{"$HOME/**", dir + "/helix/helix.db", false, false},
		{"$HOME/**", dir + "/helix/state/t2/x", false, false},
		{"$STATE/**", dir + "/helix/state/t1/x", true, true},
		{"$STATE/a/**", dir + "/helix/state/t1/x", false, true},
		{"$HOME/notes/**", dir + "/notes/../secret/k", false, false},
		{"$HOME/notes/**", dir + "/notes/broken/k", false, false},
		{"$HOME/notes/**", "notes/a", false, false},
		{"$WORKSPACE/**", dir + "/notes/a", false, true},
		{"$HOME/notes/**", dir + "/notes/a\x00b", false, false},
	} {
		res, err := s.concrete(FilesystemRead, c.path, sub)
		if (err == nil) != c.ok {
			t.Errorf("%q: %v", c.path, err)
			continue
		}
		if err == nil && res.in(FilesystemRead, c.pattern, s.space(), sub) != c.has {
			t.Errorf("%s in %s: want %v", c.path, c.pattern, c.has)
		}
	}
	for path, ok := range map[string]bool{"$STATE/x": true, dir + "/notes/x": false, dir + "/helix/state/t2/x": false} {
		if _, err := s.concrete(FilesystemWrite, path, sub); (err == nil) != ok {
			t.Errorf("write %s: %v", path, err)
		}
	}
}

func TestSanitize(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain é 😀":       "plain é 😀",
		"a\nb\tc\x1b[31m": "a␊b␉c␛[31m",
		"x\u202egnp.exe":  "x□gnp.exe",
		"z\u200bw\u2066q": "z□w□q",
		"bad\xff":         "bad\ufffd",
	} {
		if got := Sanitize(in); got != want {
			t.Errorf("%q gave %q, want %q", in, got, want)
		}
	}
	if got := Sanitize(strings.Repeat("é", 400)); got != strings.Repeat("é", 300)+"…" {
		t.Errorf("%d characters", len([]rune(got)))
	}
	for _, c := range []Capability{FilesystemRead, FilesystemWrite, NetworkHTTPS, NetworkLocalhost, State, Secret, ToolCall, MCP, Call} {
		if s := sentence(c, "x"); strings.HasPrefix(s, string(c)) && c != Call {
			t.Errorf("no sentence for %s", c)
		}
	}
}

func TestDiffJSON(t *testing.T) {
	t.Parallel()
	d, err := compareJSON(json.RawMessage(`{"a":1,"b":[1,2],"c/d":{"x":true},"same":1.0}`), json.RawMessage(`{"a":"1","b":[1,3,4],"e":null,"same":1}`))
	if err != nil {
		t.Fatal(err)
	}
	got, _ := json.Marshal(d)
	want := `[{"path":"/a","kind":"changed","before":1,"after":"1"},{"path":"/b/1","kind":"changed","before":2,"after":3},{"path":"/b/2","kind":"added","after":4},{"path":"/c~1d","kind":"removed","before":{"x":true}},{"path":"/e","kind":"added","after":null}]`
	if string(got) != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
}
