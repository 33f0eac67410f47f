package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"helix/backend/container"
	"helix/backend/fault"
	"helix/backend/shell"
)

type shellCmd struct {
	Open shellOpenCmd `cmd:"" default:"withargs" help:"Type commands, each run in the same container."`
	Exec shellExecCmd `cmd:"" help:"Run one command and end."`
	List shellListCmd `cmd:"" help:"List shell sessions."`
	Kill shellKillCmd `cmd:"" help:"End a shell session."`
}

type shellFlags struct {
	Image string        `help:"Name or id of an image on this computer. Default: the setting container.shell_image." placeholder:"IMAGE"`
	Limit time.Duration `name:"time-limit" help:"How long a command may run, up to 10m." default:"30s"`
}

type shellOpenCmd struct{ shellFlags }

// Run implements helix shell: a session that lasts until the end of the input. Each line is a command of sh.
func (o *shellOpenCmd) Run(c *command) error {
	return o.with(c, func(s *openShell) error {
		terminal := isTerminal(c.env.Stdin)
		prompt := func() {
			if terminal {
				fmt.Fprint(c.env.Stderr, "helix$ ")
			}
		}
		lines := bufio.NewScanner(c.env.Stdin)
		lines.Buffer(nil, 64<<10)
		for prompt(); lines.Scan(); prompt() {
			line := strings.TrimSpace(lines.Text())
			if line == "exit" {
				return nil
			}
			if line == "" {
				continue
			}
			r, err := s.run(shell.ExecParams{Command: line})
			if err != nil {
				return err
			}
			if r.ExitCode == nil || *r.ExitCode != 0 {
				fmt.Fprintln(c.env.Stderr, commandEnd(r))
			}
		}
		return lines.Err()
	})
}

type shellExecCmd struct {
	shellFlags
	Argv []string `arg:"" passthrough:"" help:"Command after --."`
}

// Run implements helix shell exec. Its exit code is that of the command.
func (o *shellExecCmd) Run(c *command) error {
	argv := o.Argv
	if len(argv) > 0 && argv[0] == "--" {
		argv = argv[1:]
	}
	return o.with(c, func(s *openShell) error {
		r, err := s.run(shell.ExecParams{Argv: argv})
		switch {
		case err != nil:
			return err
		case r.Status == container.TimedOut:
			return fault.New(fault.Timeout, "The command didn't end within its time limit.")
		case r.ExitCode == nil:
			return fault.New(fault.Canceled, "The command was ended: %s.", r.Status)
		case *r.ExitCode != 0:
			return failed{*r.ExitCode}
		}
		return nil
	})
}

func commandEnd(r shell.ExecResult) string {
	if r.ExitCode == nil {
		return fmt.Sprintf("[%s]", r.Status)
	}
	return fmt.Sprintf("[exit code %d]", *r.ExitCode)
}

// openShell is a session for one command of the command line.
type openShell struct {
	c     *command
	id    shell.SpawnResult
	limit time.Duration
}

// with starts a session, calls fn and ends the session.
func (o *shellFlags) with(c *command, fn func(*openShell) error) error {
	s := &openShell{c: c, limit: o.Limit}
	if _, err := c.call("shell.spawn", shell.SpawnParams{Image: o.Image}, &s.id); err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), time.Minute)
		defer cancel()
		c.conn.Call(ctx, "shell.kill", shell.SessionParams{SessionID: s.id.SessionID}, nil) //nolint:errcheck // it has ended then
	}()
	return fn(s)
}

// run runs a command. Its output is printed while it runs.
func (s *openShell) run(p shell.ExecParams) (r shell.ExecResult, err error) {
	p.SessionID, p.TimeoutMs = s.id.SessionID, s.limit.Milliseconds()
	if s.c.JSON {
		raw, err := s.c.call("shell.exec", p, &r)
		if err == nil {
			err = s.c.printJSON(raw)
		}
		return r, err
	}
	follow, stop := context.WithCancel(s.c.ctx)
	printed := make(chan int64, 1)
	go func() {
		last := int64(0)
		_ = s.c.conn.Events(follow, []string{"shell.output"}, -1, func(e event) error { // what is missed is printed at the end
			var p struct{ Data shell.Output }
			if json.Unmarshal(e.Params, &p) == nil && p.Data.SessionID == s.id.SessionID && p.Data.Seq == last+1 {
				last = p.Data.Seq
				s.print(p.Data.Chunk)
			}
			return nil
		})
		printed <- last
	}()
	_, err = s.c.call("shell.exec", p, &r)
	stop()
	last := <-printed
	if err != nil {
		return r, err
	}
	var rest shell.StreamResult
	if _, err = s.c.call("shell.stream", shell.StreamParams{SessionID: s.id.SessionID, ExecID: r.ExecID, AfterSeq: last}, &rest); err == nil {
		for _, chunk := range rest.Chunks {
			s.print(chunk)
		}
	}
	return r, err
}

func (s *openShell) print(c container.Chunk) {
	to := s.c.env.Stdout
	if c.Stream == "stderr" {
		to = s.c.env.Stderr
	}
	text := c.Data
	if isTerminal(to) { // control characters could imitate this program
		lines := strings.Split(text, "\n")
		for i, l := range lines {
			lines[i] = plain(l)
		}
		text = strings.Join(lines, "\n")
	}
	fmt.Fprint(to, text)
}

type shellListCmd struct{}

// Run implements helix shell list.
func (shellListCmd) Run(c *command) error {
	return show(c, "shell.list", struct{}{}, func(r shell.ListResult) {
		list(c, r.Sessions, "", []string{"SESSION", "IMAGE", "STARTED", "LAST COMMAND"}, func(s shell.Session) []string {
			last := ""
			if n := len(s.Execs); n > 0 {
				last = s.Execs[n-1].Command
			}
			return []string{s.SessionID.String(), plain(s.Image), s.StartedAt.Local().Format(time.DateTime), cut(plain(last), 40)}
		})
	})
}

type shellKillCmd struct {
	Session string `arg:"" help:"Id of the session."`
}

// Run implements helix shell kill.
func (o *shellKillCmd) Run(c *command) error {
	return show(c, "shell.kill", map[string]string{"sessionId": o.Session}, func(r shell.KillResult) {
		if r.Killed {
			c.say("Ended.")
		} else {
			c.say("There is no such session.")
		}
	})
}
