package permission

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"helix/backend/fault"
)

// asShell returns the resource of a command as the shell tool asks for it.
func asShell(command string) string {
	if argv, ok := ParseCommand(command); ok && IsSimple(argv) {
		return FormatCommand(argv)
	}
	return FormatCommand([]string{"sh", "-c", command})
}

// escapes are commands that do something else than the approved "git log" or "ls /shared", though they start
// with it or look like it.
var escapes = []string{
	"git log; rm -rf /shared", "git log;rm x", "git log && rm x", "git log || rm x", "git log & rm x", "git log &", "git log | sh", "git log |& sh",
	"git log\nrm x", "git log\r\nrm x", "git log\u2028rm x", "git log $(rm x)", "git log `rm x`", "git log \"$(rm x)\"", "git log \"`rm x`\"",
	"git log > /shared/x", "git log >> x", "git log 2>x", "git log < x", "git log >| x", "git log <(rm x)", "git log << END\nrm x\nEND", "git log <<< x",
	"git log $HOME", "git log ${IFS}rm", "git log $'a\\nb'", "git log \"$x\"", "git log *", "git log ?", "git log [a-z]", "git log ~/x", "git log {a,b}", "git log \\; rm", "git log ^ rm",
	"git log # quiet", "git log !$", "PATH=/shared git log", "git=1 log", "(git log)", "{ git log; }", "! git log",
	"env git log", "env rm x", "/usr/bin/env git log", "xargs git log", "sh -c 'git log'", "bash -c \"git log\"", "sudo git log", "nohup git log", "time git log", "timeout 5 git log",
	"eval git log", "exec git log", "command git log", "builtin git log", "busybox git log", "python3.11 -c x", "perl5 -e x", "find /shared -exec rm {} +", "find /shared -delete",
	"/usr/bin/git log", "./git log", "../git log", "alias git='rm x'", "function git { rm x; }", "git -c alias.log='!rm x' log", "git --exec-path=/shared log", "git log --ext-diff", "git log --ext", "git log --output=x",
	"\u0261it log", "g\u0456t log", "\uff47it log", "git\u00a0log", "git\u2003log", "git log \uff1b rm x", "git log \u037e rm x", "git\u200b log", "git log \u202eхm", "git log \u0445m", "git log \x00rm", "git log \x1b[2K",
	"Git log", "git  -p log", "gitlog", "'git log'", "", " ", "git", "git lo", "log git", "'' git log", "'git log", "git log \"", "git log \\",
	"ls /shared; rm x", "ls", "ls /share", "ls /sharedx", "ls -l /shared", "env ls /shared", "/bin/ls /shared", "l\u0455 /shared",
}

func TestLastingPermissionsOfCommandsCoverOnlyTheSameSimpleCommand(t *testing.T) {
	t.Parallel()
	patterns := []string{}
	for _, c := range []string{"git log", "ls /shared"} {
		p, ok := lastingCommand(c)
		if !ok || p != c+" *" {
			t.Fatalf("%s can't be allowed lastingly: %q", c, p)
		}
		if n, err := Normalize(Shell, p); err != nil || n != p {
			t.Fatalf("%s: %q, %v", p, n, err)
		}
		patterns = append(patterns, p)
	}
	for _, c := range escapes {
		resource := asShell(c)
		for _, p := range patterns {
			if Covers(Shell, p, resource) {
				t.Errorf("%s covers %q, which runs as %s", p, c, resource)
			}
		}
		if again, err := Normalize(Shell, resource); err != nil || again != resource {
			t.Errorf("%q: the command %s isn't in normal form: %q, %v", c, resource, again, err)
		}
	}
	for _, argv := range [][]string{{"git", "log", "--ext-diff"}, {"git", "log", "--output=x"}, {"git", "log", "\u0445m"}, {"git", "log", "a\nb"}, {"env", "git", "log"}, {"sh", "-c", "git log"}} {
		if resource := FormatCommand(argv); Covers(Shell, patterns[0], resource) {
			t.Errorf("%s covers the words %s", patterns[0], resource)
		}
	}
	for _, c := range []string{"git log", " git  log ", "'git' log", `git "log" -5`, "git log --oneline -- backend/x.go", "git log 'a;b' '$(rm x)' '*'"} {
		if resource := asShell(c); !Covers(Shell, patterns[0], resource) {
			t.Errorf("%s doesn't cover %q, which runs as %s", patterns[0], c, resource)
		}
	}
}

func TestCommandsThatAreNotSimpleAreAskedForEachTime(t *testing.T) {
	t.Parallel()
	simple := []string{"Git log", "git  -p log", "gitlog", "git", "git lo", "log git", "ls", "ls /share", "ls /sharedx", "ls -l /shared"}
	for _, c := range escapes {
		if p, lasting := lastingCommand(asShell(c)); lasting != slices.Contains(simple, c) {
			t.Errorf("%q can be allowed lastingly as %q: %v", c, p, lasting)
		}
	}
	if p, ok := lastingCommand("ls"); !ok || p != "ls" || Covers(Shell, p, "ls -l") {
		t.Errorf("a program alone is allowed as %q", p)
	}
	for _, p := range []string{"*", "ls *", "sh -c *", "git log  *", "git log*", "git  log", "git log; *", "'git' log"} {
		if _, err := Normalize(Shell, p); err == nil {
			t.Errorf("%q is a pattern", p)
		}
	}
	for _, text := range []string{"shell", "shell(git log)", "shell(*)"} {
		if _, _, err := ParseCapability(text); !fault.Is(err, fault.Invalid) {
			t.Errorf("a definition can declare %s: %v", text, err)
		}
	}
}

// What a person reads contains every word, and nothing that is hidden.
func FuzzFormatCommandKeepsEveryWord(f *testing.F) {
	for _, c := range append(slices.Clone(escapes), "echo 'it'", `a "b c"`, "a\tb", "a\\b", "a'b\\'c") {
		f.Add(c, "x'y", "\u202e\n")
	}
	f.Add("\ufffd", "\u3164", "\ufe0f")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		argv := []string{strings.ToValidUTF8(a, ""), strings.ToValidUTF8(b, ""), strings.ToValidUTF8(c, "")}
		text := FormatCommand(argv)
		if got, ok := ParseCommand(text); !ok || !slices.Equal(got, argv) {
			t.Errorf("%q: %s was read as %q", argv, text, got)
		}
		if strings.ContainsFunc(text, unprintable) {
			t.Errorf("%q contains characters that can't be seen", text)
		}
		if got, ok := ParseCommand(a); ok && IsSimple(got) && strings.ContainsAny(strings.NewReplacer("'", "", `"`, "").Replace(a), ";&|<>$`\n") && !strings.ContainsAny(a, `'"`) {
			t.Errorf("%q counts as simple", a)
		}
	})
}

// One answer applies to exactly what it was shown for.
func TestShellAnswers(t *testing.T) {
	t.Parallel()
	e := setup(t, Options{})
	sub := e.toolAs(e.ctx, "box", func(i *SubjectInfo) { i.Declared = []Want{{Capability: Shell, Resource: AnyCommand}} })
	decide := func(command string) Decision {
		t.Helper()
		d, err := e.s.Decide(e.ctx, Request{Subject: sub, Cap: Shell, Resource: asShell(command), Tier: Privileged, RunID: uuid.New()})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	answer := func(d Decision, p AnswerParams) error {
		t.Helper()
		ap, err := e.s.GetApproval(e.ctx, GetApprovalParams{ID: d.PendingID})
		if err != nil {
			t.Fatal(err)
		}
		p.ID, p.DefinitionHash = ap.ID, ap.DefinitionHash
		_, err = e.s.AnswerApproval(e.ctx, p)
		return err
	}
	d := decide("git log; ls")
	if d.Effect != Deny || d.PendingID == uuid.Nil {
		t.Fatalf("%+v", d)
	}
	long := "true " + strings.Repeat("x", 400) + "; rm y"
	if ap, err := e.s.GetApproval(e.ctx, GetApprovalParams{ID: decide(long).PendingID}); err != nil || ap.Sentence != "Run "+asShell(long) {
		t.Errorf("a long command is shown as %q, %v", ap.Sentence, err)
	}
	for _, scope := range []string{"run", "session", "always"} {
		if err := answer(d, AnswerParams{Decision: "approve", Scope: scope}); !fault.Is(err, fault.Invalid) {
			t.Errorf("a command with operators was allowed %s: %v", scope, err)
		}
	}
	if err := answer(d, AnswerParams{Decision: "approve"}); err != nil {
		t.Fatal(err)
	}
	if d := decide("git log; rm x"); d.Effect != Deny {
		t.Errorf("another command: %+v", d)
	}
	if d := decide("git log; ls"); d.Effect != Allow {
		t.Errorf("the approved command: %+v", d)
	}
	if d := decide("git log; ls"); d.Effect != Deny {
		t.Errorf("the approved command, again: %+v", d)
	}

	if err := answer(decide("git log -5"), AnswerParams{Decision: "approve"}); err != nil {
		t.Fatal(err)
	}
	if d := decide("git log -5 --patch"); d.Effect != Deny {
		t.Errorf("an answer for once allowed further arguments: %+v", d)
	}
	if err := answer(decide("git log"), AnswerParams{Decision: "approve", Scope: "always"}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if d := decide("git log --oneline"); d.Effect != Allow {
			t.Errorf("further arguments: %+v", d)
		}
	}
	for _, c := range escapes {
		if c == "" || c == " " {
			continue
		}
		d, err := e.s.Decide(e.ctx, Request{Subject: sub, Cap: Shell, Resource: asShell(c), Tier: Privileged, RunID: uuid.New()})
		if err != nil || d.Effect == Allow {
			t.Errorf("%q: %+v, %v", c, d, err)
		}
	}
	if err := answer(decide("rm -rf /shared"), AnswerParams{Decision: "deny", Remember: true}); err != nil {
		t.Fatal(err)
	}
	if d := decide("rm -rf /shared -v"); d.Reason != ReasonDeniedByUser {
		t.Errorf("a denied command with further arguments: %+v", d)
	}
}
