package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// TestEveryCommandHasAnExampleThatParses parses each example in the help, as a shell would split
// it.
func TestEveryCommandHasAnExampleThatParses(t *testing.T) {
	t.Parallel()
	p := newParser(t, nil)
	for _, n := range p.Model.Leaves(true) {
		if len(examplesOf(p.Model.Node, n)) == 0 {
			t.Errorf("%s has no example", fullName(n))
		}
	}
	redirection := regexp.MustCompile(`^.*?helix (.*?)(\)| [<>] .*)?$`)
	var examples, commands []string
	for line := range strings.Lines(exampleLines) {
		examples = append(examples, line)
		commands = append(commands, redirection.FindStringSubmatch(strings.TrimSpace(line))[1])
	}
	for i, words := range split(t, commands) {
		if _, err := newParser(t, words).Parse(words); err != nil && !strings.Contains(err.Error(), "no such file") {
			t.Errorf("%s: %v", examples[i], err)
		}
	}
}

// newParser returns a parser of the command line args: it remembers which flags were set. Without
// args it has every command.
func newParser(t *testing.T, args []string) *kong.Kong {
	t.Helper()
	p, err := kong.New(grammarFor(args).Addr().Interface(), kong.Vars{"version": "x"}, kong.ExplicitGroups(groups))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestDocumentedCommandsParse parses each command in the shell blocks of the documentation, as a
// shell would split it.
func TestDocumentedCommandsParse(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```")
	command := regexp.MustCompile(`^(?:build/bin/)?helix ((?:"[^"]*"|'[^']*'|[^#|<>&)"'])*)`)
	var places, commands []string
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range blocks.FindAllStringSubmatch(string(text), -1) {
			for line := range strings.Lines(strings.ReplaceAll(block[1], "\\\n", " ")) {
				words := command.FindStringSubmatch(line)
				if words == nil {
					continue
				}
				if comment := line[len(words[0]):]; strings.Contains(comment, "bin/helix") {
					t.Errorf("%s: %stwo commands on one line", filepath.Base(page), line)
				}
				places = append(places, filepath.Base(page)+": "+line)
				commands = append(commands, strings.TrimSpace(words[1]))
			}
		}
	}
	for i, words := range split(t, commands) {
		if _, err := newParser(t, words).Parse(words); err != nil && !strings.Contains(err.Error(), "no such file") {
			t.Errorf("%s%v", places[i], err)
		}
	}
	if len(commands) < 100 {
		t.Errorf("%d commands found: the pages are not read correctly", len(commands))
	}
}

// split splits each line with one shell, without running anything.
func split(t *testing.T, lines []string) (words [][]string) {
	t.Helper()
	var script strings.Builder
	for _, line := range lines {
		script.WriteString("for a in " + line + `; do printf '%s\0' "$a"; done; printf '\n\0'` + "\n")
	}
	out, err := exec.Command("sh", "-c", script.String()).Output()
	if err != nil {
		t.Fatalf("%q: %v", lines, err)
	}
	of := []string{}
	for word := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if word != "\n" {
			of = append(of, word)
			continue
		}
		words, of = append(words, of), nil
	}
	if len(words) != len(lines) {
		t.Fatalf("%d lines became %d", len(lines), len(words))
	}
	return words
}

func TestCompletionOffersCommandsFlagsAndValues(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"":                              "serve",
		"mem":                           "memory",
		"memory se":                     "search",
		"memory search --mo":            "--mode",
		"memory search --mode ":         "hybrid",
		"memory search --mode k":        "keyword",
		"--data-dir /tmp memory sea":    "search",
		"tools r":                       "run",
		"completion f":                  "fish",
		"memory search words --json --": "--mode",
	} {
		var out bytes.Buffer
		Main(t.Context(), append([]string{completeWord}, strings.Split(line, " ")...), Env{Stdout: &out, Stderr: &out})
		if !strings.Contains("\n"+out.String(), "\n"+want+"\n") {
			t.Errorf("%q: %q lacks %q", line, out.String(), want)
		}
	}
}

// TestCompletionScripts checks the syntax of each script with its shell, if installed.
func TestCompletionScripts(t *testing.T) {
	t.Parallel()
	for shell, check := range map[string][]string{"bash": {"-n"}, "zsh": {"-n"}, "fish": {"--no-execute"}, "powershell": nil} {
		var out bytes.Buffer
		if code := Main(t.Context(), []string{"completion", shell}, Env{Stdout: &out, Stderr: &out}); code != 0 || !strings.Contains(out.String(), completeWord) {
			t.Errorf("%s: exit %d, %s", shell, code, out.String())
		}
		path, err := exec.LookPath(shell)
		if err != nil || check == nil {
			continue
		}
		c := exec.Command(path, check...)
		c.Stdin = &out
		if text, err := c.CombinedOutput(); err != nil {
			t.Errorf("%s: %v, %s", shell, err, text)
		}
	}
}

// TestShellsComplete runs each script in its shell, if installed, with a helix that runs this
// test's program.
func TestShellsComplete(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "helix"), []byte("#!/bin/sh\n"+commandEnv+"=- exec '"+self+"' \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for shell, script := range map[string]string{
		"bash": `source <(helix completion bash)
COMP_WORDS=(helix memory se) COMP_CWORD=2; _helix; echo "${COMPREPLY[@]}"
COMP_WORDS=(helix memory search --mode k) COMP_CWORD=4; _helix; echo "${COMPREPLY[@]}"`,
		"zsh": `autoload -Uz compinit; compinit -u -D; source <(helix completion zsh)
compadd() { print "${(P)2}" }
words=(helix memory se) CURRENT=3; _helix
words=(helix memory search --mode k) CURRENT=5; _helix`,
		"fish": `helix completion fish | source
complete -C "helix memory se"
complete -C "helix memory search --mode k"`,
	} {
		path, err := exec.LookPath(shell)
		if err != nil {
			continue
		}
		c := exec.Command(path, "-c", script)
		c.Dir = dir
		c.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "HOME="+dir)
		if out, err := c.CombinedOutput(); err != nil || string(out) != "search\nkeyword\n" {
			t.Errorf("%s: %v, %q", shell, err, out)
		}
	}
}

func TestManPageNamesEveryCommand(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if code := Main(t.Context(), []string{"man"}, Env{Stdout: &out, Stderr: &out}); code != 0 {
		t.Fatal(out.String())
	}
	for _, want := range []string{".TH HELIX 1", ".SS memory", ".SS memory search", "Examples:", ".SH EXIT STATUS"} {
		if !strings.Contains(strings.ReplaceAll(out.String(), `\-`, "-"), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if man, err := exec.LookPath("groff"); err == nil {
		c := exec.Command(man, "-man", "-Tascii", "-ww")
		c.Stdin = &out
		if text, err := c.CombinedOutput(); err != nil || bytes.Contains(text, []byte("warning:")) {
			t.Errorf("%v, %.500s", err, text)
		}
	}
}

// TestManualHasAPageForEachCommand writes all pages and checks them with groff.
func TestManualHasAPageForEachCommand(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "man1")
	var out bytes.Buffer
	if code := Main(t.Context(), []string{"man", "--dir", dir}, Env{Stdout: &out, Stderr: &out}); code != 0 {
		t.Fatal(out.String())
	}
	for page, wants := range map[string][]string{
		"helix.1":        {".TH HELIX 1", ".SH ENVIRONMENT", "HELIX_PROJECT_DIR", "HELIX_GATEWAY_ADDR", "EDITOR", ".BR helix-memory (1)", ".SH EXIT STATUS"},
		"helix-memory.1": {".TH HELIX-MEMORY 1", ".SS memory search", ".SS memory watch add", "helix memory watch add ~/Notes", ".BR helix (1)"},
		"helix-serve.1":  {".SH OPTIONS", "helix-serve \\- Run Helix"},
	} {
		text, err := os.ReadFile(filepath.Join(dir, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if !strings.Contains(strings.ReplaceAll(string(text), `\-`, "-"), strings.ReplaceAll(want, `\-`, "-")) {
				t.Errorf("%s lacks %q", page, want)
			}
		}
	}
	if strings.Contains(out.String(), "SUPABASE") {
		t.Error("it names a variable that nothing reads")
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil || len(pages) < 30 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	if man, err := exec.LookPath("groff"); err == nil {
		for _, page := range pages {
			if text, err := exec.Command(man, "-man", "-Tascii", "-ww", page).CombinedOutput(); err != nil || bytes.Contains(text, []byte("warning:")) {
				t.Errorf("%s: %v, %.500s", page, err, text)
			}
		}
	}
	for args, want := range map[string]string{"man memory search": ".TH HELIX-MEMORY-SEARCH 1", "man memories": ".TH HELIX-MEMORY 1", "man memory find": "No command is named", "help": "HELIX_KEY_PASSPHRASE"} {
		out.Reset()
		Main(t.Context(), strings.Fields(args), Env{Stdout: &out, Stderr: &out})
		if !strings.Contains(strings.ReplaceAll(out.String(), `\-`, "-"), want) {
			t.Errorf("%s lacks %q", args, want)
		}
	}
}

func TestTextBehindChatIsSuggestedAsPrompt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want string
		args []string
	}{
		{"Try `helix chat -p hello`.", []string{"chat", "hello"}},
		{"Try `helix chat -p 'what'\\''s up'`.", []string{"chat", "what's", "up"}},
		{"Try `helix chat --help`.", []string{"chat", "--nope"}},
	} {
		var out bytes.Buffer
		if code := Main(t.Context(), c.args, Env{Stdout: &out, Stderr: &out}); code != 2 || !strings.Contains(out.String(), c.want) {
			t.Errorf("%v: exit %d, %s", c.args, code, out.String())
		}
	}
}

func TestVersionFlagAndHelpCommand(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, want string }{{"--version", "helix dev\n"}, {"help memory search", "Usage: helix memory"}, {"help", "Everyday commands:"}, {"--quiet help memory search", "Usage: helix memory"}, {"--version --json", `"version":"dev"`}, {"--json --version", `"version":"dev"`}, {"--timeout 5s --version", "helix dev\n"}, {"help environment", "HELIX_PROJECT_DIR"}, {"help exit-codes", "  3    not found"}} {
		var out bytes.Buffer
		if code := Main(t.Context(), strings.Fields(c.args), Env{Stdout: &out, Stderr: &out}); code != 0 || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: exit %d, %s", c.args, code, out.String())
		}
	}
}
