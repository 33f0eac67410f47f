package permission

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// AnyCommand is the declaration of a subject that may ask for every command. It can't be granted.
const AnyCommand = "*"

// anyArguments ends the pattern of a command that also covers further arguments. It can't be the end of a
// command itself, because FormatCommand quotes a star.
const anyArguments = " *"

// bareWord are the characters that have no meaning for any shell.
const bareWord = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./:=,+%@"

// ParseCommand splits a command into its words. ok is false if only a shell could run it, because it has
// operators, redirections, variables, globs, substitutions, comments or several lines. The words of a command
// that FormatCommand wrote are the original ones.
func ParseCommand(text string) (argv []string, ok bool) {
	var word strings.Builder
	open := false // a word has begun, which may still be empty
	end := func() {
		if open {
			argv = append(argv, word.String())
		}
		word.Reset()
		open = false
	}
	for rest := text; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		switch {
		case r == ' ':
			end()
			rest = rest[1:]
			continue
		case r == '\'':
			quoted, after, closed := strings.Cut(rest[1:], "'")
			if !closed {
				return nil, false
			}
			word.WriteString(quoted)
			rest = after
		case r == '"':
			quoted, after, closed := strings.Cut(rest[1:], `"`)
			if !closed || strings.ContainsAny(quoted, "$`\\!") {
				return nil, false
			}
			word.WriteString(quoted)
			rest = after
		case strings.HasPrefix(rest, "$'"):
			quoted, after, closed := unescapeWord(rest[2:])
			if !closed {
				return nil, false
			}
			word.WriteString(quoted)
			rest = after
		case r < utf8.RuneSelf && strings.ContainsRune(bareWord, r), r >= utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r)):
			word.WriteRune(r)
			rest = rest[size:]
		default:
			return nil, false
		}
		open = true
	}
	end()
	return argv, len(argv) > 0
}

const escapeLength = len(`\U00000000`)

// unescapeWord reads the rest of a word in $'…', with the escapes that FormatCommand writes.
func unescapeWord(text string) (word, after string, ok bool) {
	var b strings.Builder
	for text != "" {
		switch c := text[0]; {
		case c == '\'':
			return b.String(), text[1:], true
		case c != '\\':
			b.WriteByte(c)
			text = text[1:]
			continue
		case len(text) > 1 && (text[1] == '\\' || text[1] == '\''):
			b.WriteByte(text[1])
			text = text[2:]
			continue
		}
		if len(text) < escapeLength || text[1] != 'U' {
			return "", "", false
		}
		n, err := strconv.ParseUint(text[2:escapeLength], 16, 31)
		if err != nil || !utf8.ValidRune(rune(n)) {
			return "", "", false
		}
		b.WriteRune(rune(n))
		text = text[escapeLength:]
	}
	return "", "", false
}

// FormatCommand writes a command so that a person can read it and ParseCommand returns the same words:
// words with special characters are quoted, and invisible characters are escaped.
func FormatCommand(argv []string) string {
	words := make([]string, len(argv))
	for i, w := range argv {
		switch {
		case w != "" && strings.Trim(w, bareWord) == "":
			words[i] = w
		case !strings.ContainsRune(w, '\'') && !strings.ContainsFunc(w, invisible):
			words[i] = "'" + w + "'"
		default:
			var b strings.Builder
			b.WriteString("$'")
			for _, r := range w {
				switch {
				case r == '\'' || r == '\\':
					b.WriteRune('\\')
					b.WriteRune(r)
				case invisible(r):
					fmt.Fprintf(&b, `\U%08x`, r)
				default:
					b.WriteRune(r)
				}
			}
			b.WriteString("'")
			words[i] = b.String()
		}
	}
	return strings.Join(words, " ")
}

// invisible reports characters that a person can't see or can't tell from a space.
func invisible(r rune) bool {
	return r != ' ' && !unicode.IsPrint(r) || unicode.Is(unicode.Variation_Selector, r) || unprintable(r) || strings.ContainsRune("\u115f\u1160\u3164\uffa0", r)
}

// launchers are programs and words of shells that run other programs, or code among their arguments.
var launchers = strings.Fields(`
	sh ash bash csh dash fish ksh mksh tcsh zsh busybox toybox
	alias bg builtin command coproc declare eval exec export fg local readonly set source trap typeset unalias unset
	case do done elif else esac fi for function if in select then time until while
	at batch chroot chrt crontab doas env flock fakeroot ionice nice nohup nsenter parallel pkexec prlimit proot runuser
	script setarch setpriv setsid start-stop-daemon stdbuf strace ltrace gdb su sudo systemd-run taskset timeout unbuffer
	unshare watch xargs
	docker kubectl podman rsh rsync scp sftp socat ssh nc ncat telnet
	awk gawk mawk nawk bun deno erl escript expect ghci guile irb java julia lua luajit node nodejs ocaml osascript perl
	php pwsh python pypy rscript ruby scala tclsh wish sed tar zip unzip
	ed emacs ex less man more nano nvim vi view vim
	ant bazel bundle cargo cmake composer gmake go gradle just make meson mvn ninja npm npx pip pipx pnpm rake tox uv uvx yarn
	dpkg apt apt-get apk rpm dnf yum pacman brew
`)

// launchingOptions are the options and subcommands with which an otherwise simple program runs others, or
// changes files though it usually reads them.
var launchingOptions = map[string][]string{
	"find": {"-exec", "-execdir", "-ok", "-okdir", "-delete", "-fls", "-fprint", "-fprint0", "-fprintf"},
	"fd":   {"-x", "-X", "--exec", "--exec-batch"},
	"git": {"-c", "-O", "-u", "-x", "--config-env", "--exec", "--exec-path", "--ext-diff", "--open-files-in-pager", "--output", "--receive-pack",
		"--textconv", "--upload-pack", "bisect", "config", "credential", "difftool", "filter-branch", "foreach", "hook", "mergetool", "rebase", "send-email"},
	"rg":   {"-z", "--hostname-bin", "--pre", "--search-zip"},
	"sort": {"-o", "--compress-program", "--output"},
}

// IsSimple reports whether argv is one command that runs nothing but the program it names. Only such a
// command can be allowed lastingly; every other one is asked for each time.
func IsSimple(argv []string) bool {
	if len(argv) == 0 || strings.ContainsFunc(strings.Join(argv, ""), func(r rune) bool { return r < ' ' || r > '~' }) {
		return false // other characters may look like the approved ones
	}
	// A path may name another program of the same name, and an assignment may change which one is found.
	program := argv[0]
	if program == "" || strings.Trim(program, bareWord) != "" || strings.ContainsAny(program, "/=") || strings.Trim(program, ".-") == "" {
		return false
	}
	base := strings.TrimRight(strings.ToLower(strings.TrimSuffix(program, ".exe")), "0123456789.-") // python3.11
	if slices.Contains(launchers, base) || slices.Contains(launchers, strings.ToLower(program)) {
		return false
	}
	for _, arg := range argv[1:] {
		name, _, _ := strings.Cut(arg, "=")
		for _, o := range launchingOptions[base] {
			group := len(o) == 2 && len(name) > 1 && name[0] == '-' && name[1] != '-' && strings.Contains(name[1:], o[1:])
			long := strings.HasPrefix(o, "--") && len(name) > 2 && strings.HasPrefix(o, name) // abbreviated
			if name == o || group || long {
				return false
			}
		}
	}
	return true
}

// lastingCommand returns the pattern of a lasting permission for a command: the command with any further
// arguments. A program alone is allowed only without arguments, so that its name never stands for whatever it
// can do. ok is false if the command must be asked for each time.
func lastingCommand(command string) (pattern string, ok bool) {
	argv, ok := ParseCommand(command)
	switch {
	case !ok || !IsSimple(argv):
		return "", false
	case len(argv) == 1:
		return command, true
	}
	return command + anyArguments, true
}

// normalizeCommand accepts commands as FormatCommand writes them, also with any further arguments.
func normalizeCommand(s string) (string, error) {
	command, wild := strings.CutSuffix(s, anyArguments)
	argv, ok := ParseCommand(command)
	switch {
	case !ok || FormatCommand(argv) != command:
		return "", broken(string(Shell), s, "command", "A command is written as its quoted words.")
	case wild && (len(argv) < 2 || !IsSimple(argv)):
		return "", broken(string(Shell), s, "lasting", "Only a simple command with an argument can be allowed with further arguments.")
	}
	return s, nil
}

// coversCommand compares normalized commands. A pattern with further arguments covers only simple commands,
// whatever the arguments are.
func coversCommand(p, o string) bool {
	if p == o || p == AnyCommand {
		return true
	}
	begin, wild := strings.CutSuffix(p, anyArguments)
	if !wild {
		return false
	}
	command, _ := strings.CutSuffix(o, anyArguments)
	have, ok := ParseCommand(begin)
	want, ok2 := ParseCommand(command)
	return ok && ok2 && IsSimple(want) && len(want) >= len(have) && slices.Equal(have, want[:len(have)])
}
