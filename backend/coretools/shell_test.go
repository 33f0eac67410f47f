package coretools

import (
	"context"
	"strings"
	"sync"
	"testing"

	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/permission"
)

// recordingShell runs nothing and records what it was given.
type recordingShell struct {
	mu   sync.Mutex
	ran  [][]string
	gone bool
}

func (r *recordingShell) Available() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.gone
}

func (r *recordingShell) Ready(context.Context) error {
	if !r.Available() {
		return fault.Unavailablef("There is no container engine.")
	}
	return nil
}

func (r *recordingShell) Exec(_ context.Context, workspace string, c Command) (CommandResult, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ran = append(r.ran, c.Argv)
	code := 0
	return CommandResult{Status: "success", ExitCode: &code, Output: "in " + workspace}, nil
}

func setupShell(t *testing.T) (*env, *recordingShell) {
	t.Helper()
	sh := &recordingShell{}
	return setup(t, func(o *Options) { o.Shell = sh }), sh
}

func TestShellRunsExactlyWhatWasAllowed(t *testing.T) {
	t.Parallel()
	e, sh := setupShell(t)
	for _, x := range []struct {
		input in
		shown string
		argv  []string
	}{
		{in{"command": "git log -5"}, "git log -5", []string{"git", "log", "-5"}},
		{in{"command": "cat notes.txt | sort > out\nrm notes.txt"}, `sh -c $'cat notes.txt | sort > out\U0000000arm notes.txt'`, []string{"sh", "-c", "cat notes.txt | sort > out\nrm notes.txt"}},
		{in{"argv": []string{"grep", "a b", "$(x)", "it's"}}, `grep 'a b' '$(x)' $'it\'s'`, []string{"grep", "a b", "$(x)", "it's"}},
		{in{"command": "set -e"}, "sh -c 'set -e'", []string{"sh", "-c", "set -e"}},
		{in{"command": "echo a\u202eb"}, `sh -c $'echo a\U0000202eb'`, []string{"sh", "-c", "echo a\u202eb"}},
	} {
		sh.ran = nil
		ap := e.asks("shell.exec", x.input, "once")
		if len(ap.Requested) != 1 || ap.Requested[0].Resource != x.shown || ap.Requested[0].Capability != permission.Shell || ap.Tier != permission.Privileged.String() {
			t.Errorf("%v was asked for as %+v", x.input, ap)
		}
		if len(sh.ran) > 0 {
			t.Fatalf("%v ran before the answer", x.input)
		}
		out := e.must("shell.exec", x.input)
		if len(sh.ran) != 1 || strings.Join(sh.ran[0], "\x00") != strings.Join(x.argv, "\x00") || out["output"] != "in "+e.in() {
			t.Errorf("%v ran %q: %v", x.input, sh.ran, out)
		}
		if err := e.fails(fault.Denied, "shell.exec", x.input); err != nil {
			e.answer("deny", "once")
		}
	}
}

func TestShellLastingPermissionEndsWhereAnotherCommandBegins(t *testing.T) {
	t.Parallel()
	e, sh := setupShell(t)
	e.asks("shell.exec", in{"command": "git log"}, "always")
	for range 2 {
		e.must("shell.exec", in{"command": "git log --oneline"})
	}
	e.must("shell.exec", in{"argv": []string{"git", "log", "; rm x"}}) // an argument, not a command
	ran := len(sh.ran)
	for _, command := range []string{
		"git log; rm x", "git log && rm x", "git log | sh", "git log\nrm x", "git log $(rm x)", "git log `rm x`", "env git log", "find . -exec git log ';'", "/usr/bin/git log",
		"alias git=rm; git log", "git log <<END\nEND", "g\u0456t log", "git\u00a0log", "git -c core.pager=rm log", "git log > x",
	} {
		e.fails(fault.Denied, "shell.exec", in{"command": command})
	}
	for _, argv := range [][]string{{"sh", "-c", "git log"}, {"env", "git", "log"}, {"./git", "log"}, {"git"}, {"git", "-c", "alias.log=!rm", "log"}} {
		e.fails(fault.Denied, "shell.exec", in{"argv": argv})
	}
	if len(sh.ran) != ran {
		t.Errorf("it ran %q", sh.ran[ran:])
	}
}

func TestShellRefusesCommandsThatNobodyCanReview(t *testing.T) {
	t.Parallel()
	e, sh := setupShell(t)
	for _, x := range []in{{}, {"command": "ls", "argv": []string{"ls"}}, {"argv": []string{""}}, {"argv": []string{"a\x00b"}}} {
		e.fails(fault.Invalid, "shell.exec", x)
	}
	e.fails(fault.Limit, "shell.exec", in{"command": strings.Repeat("\n", 2000)})
	e.fails(fault.Limit, "shell.exec", in{"argv": []string{strings.Repeat("a", 2500), strings.Repeat("b", 2500)}})
	if open, err := e.perm.ListApprovals(e.ctx, permission.ListApprovalsParams{}); err != nil || len(open.Approvals) > 0 || len(sh.ran) > 0 {
		t.Errorf("%+v, %v, %q", open.Approvals, err, sh.ran)
	}
}

func TestShellIsAbsentWithoutAnEngine(t *testing.T) {
	t.Parallel()
	e, sh := setupShell(t)
	listed := func() bool {
		list, err := e.set.List(e.ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range list {
			if i.Name == shellName {
				return true
			}
		}
		return false
	}
	if !listed() {
		t.Error("it isn't offered")
	}
	sh.gone = true
	if listed() {
		t.Error("it is offered without an engine")
	}
	e.fails(fault.Unavailable, "shell.exec", in{"command": "ls -l"})
	if found, err := setup(t).set.Find(e.ctx, shellName, ""); err != nil || len(found) > 0 {
		t.Errorf("%+v, %v", found, err)
	}
}

// A caller that may not run commands can't do it through the shell, whatever the person allowed others.
func TestShellStaysWithinItsCaller(t *testing.T) {
	t.Parallel()
	e, sh := setupShell(t)
	e.asks("shell.exec", in{"command": "git log"}, "always")
	caller, err := e.perm.Begin(e.ctx, nil, callable.BuiltinSubject(filesSubject), callable.Request{}.Caller.Run)
	if err != nil {
		t.Fatal(err)
	}
	err = e.fails(fault.Denied, "shell.exec", in{"command": "git log"}, func(r *callable.Request) { r.Caller.Authority = caller })
	if r, ok := callable.RefusalOf(err); !ok || r.Reason != permission.ReasonCallerLacks || len(sh.ran) > 0 {
		t.Errorf("%v, %q", err, sh.ran)
	}
}
