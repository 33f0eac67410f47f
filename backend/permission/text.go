package permission

import (
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

func slashed(p string) string { return filepath.ToSlash(p) }

// Sanitize makes untrusted text safe to show in a prompt: plain text on one line, at most 300
// characters, with control, bidirectional and invisible characters replaced by symbols.
func Sanitize(s string) string {
	var b strings.Builder
	n := 0
	for _, r := range strings.ToValidUTF8(s, "\ufffd") {
		if n++; n > maxPromptRunes {
			b.WriteRune('…')
			break
		}
		switch {
		case r < 0x20:
			b.WriteRune('\u2400' + r) // symbols for control characters
		case r == 0x7f:
			b.WriteRune('\u2421')
		case unicode.Is(unicode.Bidi_Control, r), unicode.Is(unicode.Cf, r), unicode.Is(unicode.Cc, r), unicode.Is(unicode.Zl, r), unicode.Is(unicode.Zp, r),
			unicode.Is(unicode.Co, r), unicode.Is(unicode.Variation_Selector, r), r == '\u115f', r == '\u1160', r == '\u3164', r == '\uffa0':
			b.WriteRune('\u25a1') // a box
		case r == utf8.RuneError:
			b.WriteRune(r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// sentence describes a capability in our own words.
func sentence(c Capability, resource string) string {
	if c == Shell { // shown whole: its end matters as much as its begin, and its form hides nothing
		return "Run " + resource
	}
	res := Sanitize(resource)
	switch c {
	case FilesystemRead:
		if dir, ok := strings.CutSuffix(res, "/**"); ok {
			return "Read files in " + friendly(dir)
		}
		return "Read the file " + friendly(res)
	case FilesystemWrite:
		return "Write files in its own folder"
	case NetworkHTTPS:
		if base, ok := strings.CutPrefix(res, "*."); ok {
			return "Connect to every host below " + base
		}
		return "Connect to " + res
	case NetworkLocalhost:
		if strings.Contains(res, "-") {
			return "Connect to this computer on ports " + res
		}
		return "Connect to this computer on port " + res
	case NetworkSMTP:
		server, from, _ := strings.Cut(res, "/")
		return "Send e-mail as " + from + " through " + server
	case State:
		return "Keep up to " + res + " of its own data"
	case Secret:
		return "Use the secret " + res
	case ToolCall:
		return "Run the tool " + res
	case MCP:
		return "Use the MCP tool " + res
	case Call:
		if res == Privileged.String() {
			return "Do something that may change this computer"
		}
		if res == SideEffecting.String() {
			return "Do something that has effects outside"
		}
		return "Run"
	}
	return string(c) + " " + res
}

func friendly(p string) string {
	switch {
	case strings.HasPrefix(p, "$HOME"):
		return "~" + p[len("$HOME"):]
	case strings.HasPrefix(p, "$WORKSPACE"):
		return "the workspace" + p[len("$WORKSPACE"):]
	case strings.HasPrefix(p, "$STATE"):
		return "its own folder" + p[len("$STATE"):]
	}
	return p
}

// kindWord returns the word for a kind of subject.
func kindWord(kind string) string {
	if kind == "wasm" {
		return "skill"
	}
	return strings.ReplaceAll(kind, "_", " ")
}

func subjectWords(kind, name string) string {
	kind = kindWord(kind)
	if name == "" {
		return "This " + kind
	}
	return "The " + kind + " “" + Sanitize(name) + "”"
}
