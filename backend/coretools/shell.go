package coretools

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"helix/backend/audit"
	"helix/backend/callable"
	"helix/backend/duration"
	"helix/backend/fault"
	"helix/backend/permission"
)

const (
	shellName    = "shell.exec"
	maxCommand   = 4000 // bytes of what a person reads before allowing it
	shellTime    = 30 * time.Second
	maxShellTime = time.Minute
)

// Shell runs commands in containers that see the shared and temporary folders of a user's workspace and
// nothing else of this computer.
type Shell interface {
	// Available reports whether there is something that runs commands.
	Available() bool
	// Ready returns why no command can run now, so that nobody is asked in vain.
	Ready(ctx context.Context) error
	// Exec runs a command of the user in ctx. The workspace is the user's folder on this computer.
	Exec(ctx context.Context, workspace string, c Command) (CommandResult, error)
}

// Command is what a Shell runs. No shell interprets Argv, unless it names one.
type Command struct {
	Argv    []string
	Timeout time.Duration
}

// CommandResult is the end of a command.
type CommandResult struct {
	Status    string `json:"status"`             // success, failure, timeout, cancelled or oom
	ExitCode  *int   `json:"exitCode,omitempty"` // nil: it was ended before it could exit
	Output    string `json:"output"`             // standard output and error, in the order of their arrival
	Truncated bool   `json:"truncated"`          // the middle of the output is missing
}

func (s *Service) shellTool() callable.Func {
	info := callable.Info{
		Name: shellName, Title: "Runs a command in a container.", Effects: callable.Effects{Destructive: true}, Untrusted: true,
		Capabilities: []string{permission.FormatCapability(permission.Shell, "the command")},
		Description: "Runs one command in a container that has no network and sees /shared and /tmp/workspace, which are the shared and temporary folders. A person allows each command, so prefer few and simple ones. " +
			"Give argv, or command for a shell. Returns the output, at most 64 KiB with its begin and end, and the exit code.",
		Input: object(``, `"command":{"type":"string","minLength":1,"maxLength":3000,"description":"For sh -c, such as: grep -c error *.log | sort"},
			"argv":{"type":"array","minItems":1,"maxItems":200,"items":{"type":"string","maxLength":3000},"description":"A program and its arguments, without a shell."},
			"timeoutMs":{"type":"integer","minimum":1,"maximum":60000,"default":30000}`),
		Output: output(`"status","output","truncated"`, `"status":{"type":"string"},"exitCode":{"type":"integer"},"output":{"type":"string"},"truncated":{"type":"boolean"}`),
	}
	return callable.Func{
		Info: info, Records: true,
		Hidden: func() bool { return !s.o.Shell.Available() },
		Run: callable.Typed(func(ctx context.Context, c callable.Request, in struct {
			Command   string
			Argv      []string
			TimeoutMs int
		}) (any, error) {
			argv, err := commandOf(in.Command, in.Argv)
			if err != nil {
				return nil, err
			}
			limit := shellTime
			if in.TimeoutMs > 0 {
				limit = min(duration.Of(in.TimeoutMs, time.Millisecond), maxShellTime)
			}
			return s.runCommand(ctx, &c, Command{argv, limit})
		}),
	}
}

// commandOf returns the words of a command. A text that needs no shell gets none, so that what runs is what
// the permission was decided for.
func commandOf(text string, argv []string) ([]string, error) {
	if (text == "") == (len(argv) == 0) {
		return nil, fault.Invalidf("Give command or argv.")
	}
	if text != "" {
		var ok bool
		if argv, ok = permission.ParseCommand(text); !ok || !permission.IsSimple(argv) {
			argv = []string{"sh", "-c", text}
		}
	}
	all := strings.Join(argv, "")
	switch {
	case argv[0] == "":
		return nil, fault.Invalidf("The command names no program.")
	case !utf8.ValidString(all) || strings.ContainsRune(all, 0):
		return nil, fault.Invalidf("A command must be text in UTF-8.")
	case len(permission.FormatCommand(argv)) > maxCommand:
		return nil, fault.Limitf("The command is too long for a person to review. Write it to a file in /shared, then run that file.")
	}
	return argv, nil
}

// runCommand asks for exactly this command, and runs it.
func (s *Service) runCommand(ctx context.Context, c *callable.Request, cmd Command) (any, error) {
	if err := s.o.Shell.Ready(ctx); err != nil {
		return nil, err
	}
	pass, err := s.o.Gate.Pass(ctx, c, callable.Reach{
		Name: shellName, Subject: callable.BuiltinSubject(shellName), Cap: permission.Shell, Resource: permission.FormatCommand(cmd.Argv), Tier: permission.Privileged, Action: audit.ResourceAccess,
	})
	if err != nil {
		return nil, err
	}
	defer pass.End()
	w, err := s.workspace(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := pass.Context(ctx)
	defer cancel()
	return s.o.Shell.Exec(ctx, w.dir, cmd)
}

// shellInfo is the subject of the permissions to run commands.
func (s *Service) shellInfo(_ context.Context, id string) (permission.SubjectInfo, error) {
	return subjectInfo(id, "The shell", permission.Want{Capability: permission.Shell, Resource: permission.AnyCommand}), nil
}
