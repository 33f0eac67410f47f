package permission

import (
	"math"
	"net/mail"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"helix/backend/fault"
)

// Capability is a kind of access, without its resource.
type Capability string

// The capabilities that can be granted.
const (
	FilesystemRead   Capability = "filesystem:read"   // a file, or a folder followed by /**
	FilesystemWrite  Capability = "filesystem:write"  // only in the subject's own $STATE
	NetworkHTTPS     Capability = "network:https"     // host, *.example.com, optional :port
	NetworkLocalhost Capability = "network:localhost" // port or range 8000-8100
	NetworkSMTP      Capability = "network:smtp"      // host:port/sender, such as smtp.example.com:587/me@example.com
	State            Capability = "state"             // bytes, such as 10MiB
	Secret           Capability = "secret"            // a name
	ToolCall         Capability = "tool"              // a name or id, exact or prefix.*
	MCP              Capability = "mcp"               // server.tool or server.*
	// Shell is a command in a container, as FormatCommand writes it. Only the shell tool of this program has it.
	Shell Capability = "shell"
	// Call stands for an entire call of a tier; the resource is the name of the tier. It is not
	// declared: a Request with Cap "" asks for it.
	Call Capability = "call"
)

// maxResource is the maximum length of a resource, in bytes.
const maxResource = 4096 - 1

// MaxState is the maximum size of state that a grant can allow, in bytes.
const MaxState = 1 << 30

// replaced maps old and foreign capability names to their replacement.
var replaced = map[string]string{
	"network:outbound": "list each host as network:https(host)",
	"mcp:tools":        "list each tool as mcp(server.tool)",
	"internet_access":  "list each host as network:https(host)",
	"filesystem":       "write filesystem:read(path)",
	"network":          "list each host as network:https(host)",
}

// never lists the capabilities that cannot be granted, with the reason.
var never = map[string]string{
	"process:spawn":    "starting programs",
	"env:read":         "reading the environment",
	"discord:webhooks": "posting to Discord webhooks",
}

// RuleError is the detail of an Invalid error about a capability or a resource.
type RuleError struct {
	Capability  string `json:"capability"`
	Resource    string `json:"resource,omitempty"`
	Rule        string `json:"rule"`                  // short name of the violated rule
	Replacement string `json:"replacement,omitempty"` // what to use instead
}

func broken(cap, resource, rule, format string, args ...any) error {
	return fault.Invalidf(format, args...).WithDetails(RuleError{Capability: cap, Resource: clip(resource, 200), Rule: rule})
}

// ParseCapability parses one declared capability such as "network:https(api.x.com)" and returns it
// with its normalized resource pattern. The error for a capability that cannot be granted, an old
// name or a malformed pattern is Invalid, with a RuleError that names the rule or the replacement.
func ParseCapability(s string) (Capability, string, error) {
	s = strings.TrimSpace(s)
	name, resource, has := strings.Cut(s, "(")
	name = strings.TrimSpace(name)
	if has {
		var ok bool
		if resource, ok = strings.CutSuffix(resource, ")"); !ok {
			return "", "", broken(clip(s, 200), "", "syntax", "The capability %q has no closing bracket.", clip(s, 80))
		}
	}
	if what, ok := never[name]; ok {
		return "", "", broken(name, resource, "never", "The capability %s is never available: tools can't be allowed %s.", name, what)
	}
	if to, ok := replaced[name]; ok {
		err := fault.Invalidf("The capability %s is no longer used: %s.", name, to)
		return "", "", err.WithDetails(RuleError{Capability: name, Resource: clip(resource, 200), Rule: "replaced", Replacement: to})
	}
	c := Capability(name)
	if !known(c) || c == Call || c == Shell {
		return "", "", broken(clip(name, 200), resource, "unknown", "Unknown capability %q.", clip(name, 80))
	}
	if !has {
		switch c {
		case FilesystemWrite:
			return c, "$STATE/**", nil
		case NetworkLocalhost:
			err := fault.Invalidf("The capability network:localhost needs a port, such as network:localhost(3000).")
			return "", "", err.WithDetails(RuleError{Capability: name, Rule: "port", Replacement: "network:localhost(PORT)"})
		case State:
			return c, "1MiB", nil
		}
		return "", "", broken(name, "", "resource", "The capability %s needs a resource in brackets.", name)
	}
	pattern, err := Normalize(c, resource)
	return c, pattern, err
}

func known(c Capability) bool {
	switch c {
	case FilesystemRead, FilesystemWrite, NetworkHTTPS, NetworkLocalhost, NetworkSMTP, State, Secret, ToolCall, MCP, Shell, Call:
		return true
	}
	return false
}

// FormatCapability formats a capability and its pattern for ParseCapability.
func FormatCapability(c Capability, resource string) string {
	return string(c) + "(" + resource + ")"
}

// Normalize returns a resource pattern in normal form, in which equal patterns are equal strings.
// For a malformed pattern the error is Invalid with a RuleError.
func Normalize(c Capability, pattern string) (string, error) {
	if strings.TrimSpace(pattern) == "" {
		return "", broken(string(c), pattern, "empty", "The resource of %s is empty.", c)
	}
	if len(pattern) > maxResource {
		return "", broken(string(c), pattern, "length", "The resource of %s is longer than %d bytes.", c, maxResource)
	}
	if !utf8.ValidString(pattern) || strings.ContainsFunc(pattern, unprintable) {
		return "", broken(string(c), pattern, "characters", "The resource of %s has characters that cannot be shown.", c)
	}
	switch c {
	case FilesystemRead, FilesystemWrite:
		return normalizePath(c, pattern)
	case NetworkHTTPS:
		h, err := parseHost(pattern, true)
		return h.String(), err
	case NetworkLocalhost:
		p, err := parsePorts(pattern)
		return p.String(), err
	case NetworkSMTP:
		return normalizeSender(pattern)
	case State:
		n, err := parseBytes(pattern)
		return formatBytes(n), err
	case Secret:
		if !isName(pattern, false) {
			return "", broken(string(c), pattern, "name", "A secret's name has 1 to 64 letters, digits, dots, dashes and underscores.")
		}
		return pattern, nil
	case ToolCall:
		return normalizeTool(pattern)
	case MCP:
		return normalizeMCP(pattern)
	case Shell:
		return normalizeCommand(pattern)
	case Call:
		if pattern != SideEffecting.String() && pattern != Privileged.String() && pattern != ReadOnly.String() {
			return "", broken(string(c), pattern, "tier", "%q is not a tier.", clip(pattern, 40))
		}
		return pattern, nil
	}
	return "", broken(clip(string(c), 200), pattern, "unknown", "Unknown capability %q.", clip(string(c), 80))
}

// unprintable reports control and bidirectional characters, which are rejected because resources
// are shown to people.
func unprintable(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == utf8.RuneError
}

func isName(s string, spaces bool) bool {
	n := 0
	for _, r := range s {
		n++
		if !(unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r) || strings.ContainsRune("._-", r) || spaces && r == ' ') {
			return false
		}
	}
	return n >= 1 && n <= 64
}

func normalizeTool(s string) (string, error) {
	s = strings.TrimSpace(s)
	base, wild := strings.CutSuffix(s, ".*")
	if !isName(base, true) || wild && base == "" {
		return "", broken(string(ToolCall), s, "name", "A tool is named by its name or id, or as a group such as mail.*.")
	}
	return s, nil
}

func normalizeMCP(s string) (string, error) {
	server, tool, ok := strings.Cut(strings.TrimSpace(s), ".")
	if !ok || !isName(server, false) {
		return "", broken(string(MCP), s, "name", "An MCP tool is written server.tool, all of a server's tools as server.*.")
	}
	if tool != "*" && (len(tool) > 128 || tool == "" || strings.ContainsFunc(tool, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._-/", r)
	})) {
		return "", broken(string(MCP), s, "name", "An MCP tool is written server.tool, all of a server's tools as server.*.")
	}
	return server + "." + tool, nil
}

// normalizeSender normalizes a mail server with its port and the address to send from.
func normalizeSender(s string) (string, error) {
	bad := func(rule, format string, args ...any) (string, error) {
		return "", broken(string(NetworkSMTP), s, rule, format, args...)
	}
	server, from, ok := strings.Cut(strings.TrimSpace(s), "/")
	name, port, hasPort := strings.Cut(server, ":")
	if _, valid := parsePort(port); !ok || !hasPort || !valid {
		return bad("syntax", "A sender is written host:port/address, such as smtp.example.com:587/me@example.com.")
	}
	if !strings.EqualFold(name, "localhost") { // a program on this computer may pass e-mail on
		h, err := parseHost(name, false)
		if err != nil {
			return "", err
		}
		name = h.name
	}
	a, err := mail.ParseAddress(from)
	if err != nil || a.Address != from || len(from) > 254 || strings.ContainsAny(from, "\"\\/ ") {
		return bad("address", "%q is not an e-mail address.", clip(from, 80))
	}
	user, domain, _ := strings.Cut(from, "@")
	return strings.ToLower(name) + ":" + port + "/" + user + "@" + strings.ToLower(domain), nil
}

// ports is an inclusive range.
type ports struct{ from, to int }

func (p ports) String() string {
	if p.from == p.to {
		return strconv.Itoa(p.from)
	}
	return strconv.Itoa(p.from) + "-" + strconv.Itoa(p.to)
}

func parsePorts(s string) (ports, error) {
	a, b, ranged := strings.Cut(strings.TrimSpace(s), "-")
	from, ok := parsePort(strings.TrimSpace(a))
	to, ok2 := from, true
	if ranged {
		to, ok2 = parsePort(strings.TrimSpace(b))
	}
	if !ok || !ok2 || to < from {
		return ports{}, broken(string(NetworkLocalhost), s, "port", "A port is a number from 1 to 65535, a range is written 8000-8100.")
	}
	return ports{from, to}, nil
}

func parsePort(s string) (int, bool) {
	if s == "" || len(s) > 5 || s[0] == '0' || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil && n <= 65535
}

var byteUnits = []struct {
	name string
	n    int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// StateBytes returns the size of a resource of the capability state, or 0 for anything else.
func StateBytes(resource string) int64 {
	n, _ := parseBytes(resource)
	return n
}

func parseBytes(s string) (int64, error) {
	s = strings.TrimSpace(s)
	num, unit := s, int64(1)
	for _, u := range byteUnits {
		if n, ok := strings.CutSuffix(s, u.name); ok {
			num, unit = strings.TrimSpace(n), u.n
			break
		}
	}
	n, err := strconv.ParseInt(num, 10, 64)
	if err != nil || n < 1 || strings.HasPrefix(num, "+") || n > math.MaxInt64/unit {
		return 0, broken(string(State), s, "bytes", "An amount of state is written in bytes, such as 512KiB or 10MiB.")
	}
	if n*unit > MaxState {
		return 0, broken(string(State), s, "quota", "No more than 1 GiB of state can be granted.")
	}
	return n * unit, nil
}

func formatBytes(n int64) string {
	for _, u := range byteUnits {
		if n >= u.n && n%u.n == 0 {
			return strconv.FormatInt(n/u.n, 10) + u.name
		}
	}
	return ""
}

// clip truncates s to n bytes at a character boundary.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
