package cli

import (
	"fmt"
	"strings"
	"time"

	"helix/backend/fault"
	"helix/backend/mcp"
)

type mcpCmd struct {
	List    mcpListCmd           `cmd:"" default:"withargs" help:"List MCP servers with their state."`
	Show    mcpShowCmd           `cmd:"" help:"Show what a server runs and its state."`
	Add     mcpAddCmd            `cmd:"" help:"Add a server that a command starts or that has a URL."`
	Approve mcpApproveCmd        `cmd:"" help:"Approve what a server runs, and tools of it."`
	Remove  struct{ mcpNameArg } `cmd:"" help:"Stop and remove a server." call:"mcp.remove" say:"Removed. Undo within ten minutes: helix mcp undo $undoToken"`
	Undo    mcpUndoCmd           `cmd:"" help:"Restore a removed server."`
	Enable  mcpSwitchCmd         `cmd:"" help:"Enable a server." with:"{\"patch\":{\"enabled\":true}}"`
	Disable mcpSwitchCmd         `cmd:"" help:"Disable a server." with:"{\"patch\":{\"enabled\":false}}"`
	Start   struct{ mcpNameArg } `cmd:"" help:"Start a server now. Calls start servers by themselves." call:"mcp.start" say:"$name: $state"`
	Stop    struct{ mcpNameArg } `cmd:"" help:"Stop a server and everything it started." call:"mcp.stop" say:"$name: $state"`
	Restart struct{ mcpNameArg } `cmd:"" help:"Stop a server and start it again." call:"mcp.restart" say:"$name: $state"`
	Tools   mcpToolsCmd          `cmd:"" help:"List tools, with the differences of those that changed."`
	Call    mcpCallCmd           `cmd:"" help:"Call a tool."`
	Logs    mcpLogsCmd           `cmd:"" help:"Show what a server wrote to standard error."`
	Import  mcpImportCmd         `cmd:"" help:"Import servers from the configuration of another program."`
	Export  mcpExportCmd         `cmd:"" help:"Print servers in the form that other programs read."`
	Expose  mcpExposeCmd         `cmd:"" help:"Choose what other programs may call through Helix."`
	Serve   mcpServeCmd          `cmd:"" help:"Serve what is exposed on standard input and output, for another program to start."`
	Auth    mcpAuthCmd           `cmd:"" help:"Sign in to a server with a URL, or out."`
	Test    mcpTestCmd           `cmd:"" help:"Check a server step by step."`
}

type mcpNameArg struct {
	Name string `arg:"" help:"Name of the server."`
}

func (n *mcpNameArg) params() mcp.NameParams { return mcp.NameParams{Name: n.Name} }

type mcpListCmd struct {
	State  string `placeholder:"STATE" help:"Only servers in this state."`
	Limit  int    `default:"50"`
	Offset int    `default:"0"`
}

func (*mcpListCmd) Run(c *command) error {
	return answer(c, "mcp.servers", func(r mcp.ServersResult) {
		list(c, r.Servers, "No MCP servers yet. To add one: helix mcp add NAME -- COMMAND ARGS…", []string{"NAME", "STATE", "TRANSPORT", "TOOLS", "TOKENS", "RUNS", "LAST ERROR"}, func(s mcp.Status) []string {
			state := s.State
			if !s.Enabled {
				state = "disabled"
			}
			return []string{s.Name, state, s.Transport, fmt.Sprintf("%d/%d", s.Approved, s.Tools), fmt.Sprint(s.Tokens), cut(s.Target, 60), cut(s.LastError, 60)}
		})
	})
}

type mcpShowCmd struct{ mcpNameArg }

func (m *mcpShowCmd) Run(c *command) error {
	return show(c, "mcp.server", m.params(), c.printServer)
}

func (c *command) printServer(r mcp.ServerResult) {
	state := r.State
	if r.NeedsApproval {
		state = "needs approval: helix mcp approve " + r.Name
	}
	pid := ""
	if r.PID != 0 {
		pid = fmt.Sprint(r.PID)
	}
	c.fields("Name", r.Name, "State", state, "Transport", r.Transport, first(map[string]string{"stdio": "Command"}[r.Transport], "URL"), r.Target, "Folder", r.Server.Cwd, "Environment", strings.Join(sortedKeys(r.Server.Env), ", "),
		"Headers", strings.Join(sortedKeys(r.Server.Headers), ", "), "Variables", strings.Join(r.Variables, ", "), "Version", r.Version, "Protocol", r.Protocol, "Process", pid,
		"Tools", fmt.Sprintf("%d approved, %d waiting, %d in total", r.Approved, r.Waiting, r.Tools), "Tokens", fmt.Sprint(r.Tokens), "Trust", r.Server.Trust, "Last error", r.LastError, "Source", r.Source)
}

type mcpAddCmd struct {
	mcpNameArg
	Command     []string          `arg:"" optional:"" passthrough:"" name:"command" help:"The command with its arguments after --, or the URL of a server."`
	SSE         bool              `name:"sse" help:"The URL speaks the older HTTP+SSE."`
	Env         map[string]string `placeholder:"NAME=VALUE" help:"A variable for the command; may be repeated. Write a secret as NAME=$${SECRET}."`
	Header      []string          `placeholder:"NAME: VALUE" sep:"none" help:"A header for the URL; may be repeated."`
	Cwd         string            `placeholder:"DIR" type:"path" help:"Folder that the command runs in."`
	Trust       string            `default:"ask" enum:"ask,read,none" help:"ask, read (believe which tools only read) or none."`
	Description string            `help:"What it is for."`
}

func (m *mcpAddCmd) Run(c *command) error {
	s := mcp.Server{Name: m.Name, Env: m.Env, Cwd: m.Cwd, Trust: m.Trust, Description: m.Description}
	if args := m.Command; len(args) > 0 {
		if args[0] == "--" {
			args = args[1:]
		}
		if len(args) == 1 && (strings.HasPrefix(args[0], "https://") || strings.HasPrefix(args[0], "http://")) {
			s.URL = args[0]
		} else if len(args) > 0 {
			s.Command, s.Args = args[0], args[1:]
		}
	}
	if m.SSE {
		s.Transport = mcp.SSE
	}
	for _, h := range m.Header {
		k, v, ok := strings.Cut(h, ":")
		if !ok {
			return fault.Invalidf("Write a header as NAME: VALUE, not %q.", h)
		}
		if s.Headers == nil {
			s.Headers = map[string]string{}
		}
		s.Headers[strings.TrimSpace(k)] = strings.TrimSpace(v)
	}
	return show(c, "mcp.add", mcp.AddParams{Server: s}, func(r mcp.SaveResult) {
		c.printServer(r.Server)
		for _, w := range r.Warnings {
			c.say("Warning: %s", w)
		}
		c.say("To see its tools: helix mcp tools %s. To allow them: helix mcp approve %s", m.Name, m.Name)
	})
}

type mcpApproveCmd struct {
	mcpNameArg
	Tools []string `arg:"" optional:"" help:"Names of tools; readOnly for those that claim to only read, all for all. None: only what the server runs."`
	Tier  string   `placeholder:"TIER" help:"What calls of them can do: read_only, side_effecting or privileged."`
}

func (m *mcpApproveCmd) Run(c *command) error {
	var r mcp.ServerResult
	if _, err := c.call("mcp.server", m.params(), &r); err != nil {
		return err
	}
	if len(m.Tools) > 0 && !r.NeedsApproval { // what is listed now is what gets approved
		if _, err := c.call("mcp.tools", mcp.ToolsParams{Name: m.Name}, &mcp.ToolsResult{}); err != nil {
			return err
		}
		if _, err := c.call("mcp.server", m.params(), &r); err != nil {
			return err
		}
	}
	names := m.Tools
	for i, n := range names {
		if n == "all" {
			names[i] = "*"
		}
	}
	return show(c, "mcp.approve_server", mcp.ApproveParams{Name: m.Name, DefinitionHash: r.DefinitionHash, Tools: names, Tier: m.Tier}, func(a mcp.ApproveResult) {
		c.say("%s may run: %s", m.Name, plain(r.Target))
		if len(a.Tools) > 0 {
			c.say("Approved: %s", plain(strings.Join(a.Tools, ", ")))
		}
	})
}

type mcpUndoCmd struct {
	Token string `arg:"" param:"undoToken" help:"The token that remove printed."`
}

func (*mcpUndoCmd) Run(c *command) error { return answer(c, "mcp.undo", c.printServer) }

// mcpSwitchCmd changes whether a server is enabled.
type mcpSwitchCmd struct{ mcpNameArg }

func (*mcpSwitchCmd) Run(c *command) error {
	return answer(c, "mcp.update", func(r mcp.SaveResult) { c.printServer(r.Server) })
}

type mcpToolsCmd struct {
	Name   string `arg:"" optional:"" help:"Name of the server. Default: all."`
	Query  string `help:"Only tools with this in their name or description."`
	Limit  int    `default:"100"`
	Offset int    `default:"0"`
}

func (*mcpToolsCmd) Run(c *command) error {
	return answer(c, "mcp.tools", func(r mcp.ToolsResult) {
		list(c, r.Tools, "", []string{"TOOL", "STATE", "TIER", "TOKENS", "HINT", "DESCRIPTION"}, func(t mcp.Tool) []string {
			hint := ""
			if t.Hints.ReadOnly {
				hint = "claims to only read"
			}
			return []string{t.ID, t.State, t.Tier, fmt.Sprint(t.Tokens), hint, cut(first(t.Problem, t.Title, t.Description), 60)}
		})
		for _, t := range r.Tools {
			for _, d := range t.Changes {
				c.say("%s changed at %s:\n  - %s\n  + %s", plain(t.ID), plain(d.Path), plain(string(d.Before)), plain(string(d.After)))
			}
		}
	})
}

type mcpCallCmd struct {
	mcpNameArg
	Tool    string        `arg:"" help:"Name of the tool."`
	Params  string        `default:"{}" placeholder:"JSON" help:"The arguments, as JSON."`
	Limit   time.Duration `name:"call-timeout" placeholder:"TIME" help:"Time limit of the call. Default: that of the entry."`
	Details bool          `help:"Print the whole result as JSON."`
}

func (m *mcpCallCmd) Run(c *command) error {
	var r mcp.CallResult
	raw, err := c.call("mcp.call", mcp.CallParams{Server: m.Name, Tool: m.Tool, Arguments: []byte(m.Params), TimeoutMs: m.Limit.Milliseconds()}, &r)
	if err != nil {
		return err
	}
	if c.JSON || m.Details {
		if err := c.printJSON(raw); err != nil {
			return err
		}
	} else {
		for _, p := range r.Output {
			text := p.Text
			if p.Type != "text" {
				text = fmt.Sprintf("[%s %s %s, %d bytes]", p.Type, p.MIMEType, p.URI, len(p.Data))
			}
			for line := range strings.Lines(text) {
				fmt.Fprintln(c.env.Stdout, plain(strings.TrimRight(line, "\r\n")))
			}
		}
	}
	switch {
	case r.Success:
		return nil
	case r.PendingApprovalID != nil:
		return fault.Deniedf("%s", r.Error)
	case r.ErrorClass == "timeout":
		return fault.New(fault.Timeout, "%s", r.Error)
	case r.ErrorClass == "unavailable":
		return fault.Unavailablef("%s", r.Error)
	}
	return fault.Internalf(nil, "%s", plain(r.Error))
}

type mcpLogsCmd struct {
	mcpNameArg
	Follow bool `short:"f" help:"Keep printing new lines until interrupted."`
	Limit  int  `default:"200"`
}

func (m *mcpLogsCmd) Run(c *command) error {
	for after := int64(0); ; {
		var r mcp.LogsResult
		raw, err := c.call("mcp.logs", mcp.LogsParams{Name: m.Name, AfterSeq: after, Limit: m.Limit}, &r)
		if err != nil {
			return err
		}
		if c.JSON && !m.Follow {
			return c.printJSON(raw)
		}
		for _, l := range r.Lines {
			fmt.Fprintf(c.env.Stdout, "%s %-6s %s\n", l.At.Local().Format(time.TimeOnly), l.Stream, plain(l.Text))
			after = l.Seq
		}
		if !m.Follow {
			return nil
		}
		select {
		case <-c.ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}

type mcpTestCmd struct{ mcpNameArg }

func (m *mcpTestCmd) Run(c *command) error {
	return shown(c, "mcp.test", m.params(), func(r mcp.TestResult) {
		for _, s := range r.Steps {
			c.fields(s.Step, first(s.Error, fmt.Sprintf("OK, %d ms", s.Ms)))
		}
	}, func(r mcp.TestResult) int { return failIf(!r.OK, 1) })
}
