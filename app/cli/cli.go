// Package cli is the command line of Helix: a client of the running backend, or, when none
// runs, of a backend that it opens in its own process for one command. Only a main package
// imports it.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"helix/backend"
	"helix/backend/config"
	"helix/backend/fault"
)

// Env is what a command sees of the world. The zero Stdin, Stdout and Stderr are the
// process's own.
type Env struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Web            fs.FS          // the web interface that `serve` offers; nil: none
	Keyring        config.Keyring // nil: the system's
	Worker         []string       // what sandbox.ServeWorker returned
	// Open shows a file in the browser; nil: with the system's opener.
	Open func(ctx context.Context, file string) error
}

// grammar is the whole command line; the commands are in cmd_*.go.
type grammar struct {
	Globals

	Serve   serveCmd   `cmd:"" help:"Run the backend in the foreground and print its URL."`
	Status  statusCmd  `cmd:"" help:"Show whether Helix runs, and how it is."`
	Stop    stopCmd    `cmd:"" help:"Stop the running backend in good order."`
	Doctor  doctorCmd  `cmd:"" help:"Check the installation; every finding comes with a hint."`
	Version versionCmd `cmd:"" help:"Print the version."`
	UI      uiCmd      `cmd:"" name:"ui" help:"Open the interface in the browser with a one-time link."`

	RPC    rpcCmd    `cmd:"" name:"rpc" help:"Call one method. PARAMS is JSON, - for standard input, or @file."`
	Events eventsCmd `cmd:"" help:"Print events as JSON lines until interrupted."`
	Token  tokenCmd  `cmd:"" aliases:"tokens" help:"Make and revoke tokens for other programs."`
	Config configCmd `cmd:"" help:"Read and change settings."`

	Call        callCmd        `cmd:"" help:"Call a tool, a skill or a built-in by name; --list shows them all."`
	Tool        toolCmd        `cmd:"" aliases:"tools" help:"Write, run and share tools."`
	Skill       skillCmd       `cmd:"" aliases:"skills" help:"Run, check and share skills, which are chains of steps."`
	Schedule    scheduleCmd    `cmd:"" aliases:"schedules" help:"Have skills and tools started at times, and see what ran."`
	Memory      memoryCmd      `cmd:"" aliases:"memories" help:"Import, search and keep what was said and written."`
	Sandbox     sandboxCmd     `cmd:"" help:"Run untrusted code with hard limits, and see how it is shut in."`
	Audit       auditCmd       `cmd:"" help:"Look back at what was done, and prove that the log is intact."`
	Approvals   approvalsCmd   `cmd:"" aliases:"approval" help:"Answer what tools ask for."`
	Permissions permissionsCmd `cmd:"" aliases:"permission" help:"See and take back rights."`

	Backup  backupCmd  `cmd:"" aliases:"backups" help:"Make, list and verify backups."`
	Restore restoreCmd `cmd:"" help:"Put a backup in the place of the present data, which is kept."`
	Export  exportCmd  `cmd:"" help:"Write everything in a form that is readable without Helix."`
	Import  importCmd  `cmd:"" help:"Read an export into this installation."`
	DB      dbCmd      `cmd:"" name:"db" help:"Check, migrate, roll back, salvage and prune the database."`
	Keys    keysCmd    `cmd:"" aliases:"key" help:"Where the key lives, rotation and the recovery code."`
	Secrets secretsCmd `cmd:"" aliases:"secret" help:"Stored secrets by name; values are never shown."`
}

// Globals are the flags that every command takes.
type Globals struct {
	DataDir   string        `help:"Keep everything under this folder instead of the system's places." placeholder:"DIR" type:"path"`
	JSON      bool          `name:"json" help:"Print exactly the result of the call."`
	Quiet     bool          `short:"q" help:"No progress and no messages."`
	Timeout   time.Duration `default:"60s" help:"Give up after this long."`
	URL       string        `name:"url" help:"Talk to this backend instead of the one in the endpoint file." placeholder:"URL"`
	TokenFile string        `help:"File with the token for --url." placeholder:"FILE" type:"path"`
	EnvFile   string        `help:"Read settings from this .env file too." placeholder:"FILE" type:"path"`
	LogLevel  string        `default:"warn" enum:"debug,info,warn,error" help:"What to log to standard error (${enum})."`
}

// Main runs one command and returns the exit code of gateway.md: 0 done, 1 internal or the
// thing that was run failed, 2 usage or invalid, 3 not found, 4 denied, 5 timeout or limit,
// 6 unavailable, 7 conflict, 130 canceled.
func Main(ctx context.Context, args []string, env Env) int {
	if env.Stdin == nil {
		env.Stdin = os.Stdin
	}
	if env.Stdout == nil {
		env.Stdout = os.Stdout
	}
	if env.Stderr == nil {
		env.Stderr = os.Stderr
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()

	var g grammar
	exit := -1
	parser, err := kong.New(&g,
		kong.Name("helix"),
		kong.Description("A private assistant workbench. Without a running Helix, a command opens the data folder itself."),
		kong.Writers(env.Stdout, env.Stderr),
		kong.Exit(func(code int) { exit = code; panic(exited{}) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
		kong.Vars{"version": backend.Version},
	)
	if err != nil {
		fmt.Fprintln(env.Stderr, "helix:", err)
		return 1
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	kctx, err := parse(parser, expandAliases(args))
	if exit >= 0 {
		return exit
	}
	if err != nil {
		fmt.Fprintf(env.Stderr, "helix: %v\nTry `helix --help`.\n", err)
		return 2
	}
	c := &command{Globals: g.Globals, env: env, ctx: ctx}
	defer c.close()
	if err := kctx.Run(c); err != nil {
		return c.report(err)
	}
	return 0
}

type exited struct{}

// parse turns kong's exit on --help, which must not end a test's process, into a return.
func parse(p *kong.Kong, args []string) (k *kong.Context, err error) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(exited); !ok {
				panic(r)
			}
		}
	}()
	return p.Parse(args)
}

// expandAliases turns the one-word forms that start a single service into `serve` with the
// port of that service.
func expandAliases(args []string) []string {
	ports := map[string]string{"skill-sandbox": "--sandbox-port", "voice-pipeline": "--voice-port", "sync-coordinator": "--sync-port"}
	flag, ok := ports[args[0]]
	if !ok {
		return args
	}
	out := []string{"serve", "--only-ports"}
	for i := 1; i < len(args); i++ {
		switch a := args[i]; {
		case a == "-p" || a == "--port":
			out = append(out, flag)
		case strings.HasPrefix(a, "--port="):
			out = append(out, flag+"="+strings.TrimPrefix(a, "--port="))
		default:
			out = append(out, a)
		}
	}
	return out
}

// command is the state of one run of the program.
type command struct {
	Globals
	env  Env
	ctx  context.Context
	conn caller
	// background has a backend that is opened for this command do background work too, such
	// as starting what schedules name.
	background bool
	// memoryWork has it import and embed besides.
	memoryWork bool
	// runsCode has it prepare the sandbox while it opens.
	runsCode bool
}

// failed ends a command with an exit code after it has said everything itself.
type failed struct{ code int }

func (f failed) Error() string { return fmt.Sprintf("exit %d", f.code) }

// ExitCode maps a kind of error to the exit code of the program.
func ExitCode(k fault.Kind) int {
	switch k {
	case "":
		return 0
	case fault.Invalid:
		return 2
	case fault.NotFound:
		return 3
	case fault.Denied:
		return 4
	case fault.Timeout, fault.Limit:
		return 5
	case fault.Unavailable:
		return 6
	case fault.Conflict:
		return 7
	case fault.Canceled:
		return 130
	}
	return 1
}

func (c *command) report(err error) int {
	var f failed
	if errors.As(err, &f) {
		return f.code
	}
	e := fault.As(err)
	if c.ctx.Err() != nil {
		e = fault.New(fault.Canceled, "Canceled.")
	}
	fmt.Fprintln(c.env.Stderr, "helix:", e.Message)
	if e.Details != nil && !c.Quiet {
		if b, err := json.Marshal(e.Details); err == nil && len(b) < 2000 && string(b) != "{}" {
			fmt.Fprintln(c.env.Stderr, "  "+string(b))
		}
	}
	if e.Kind == fault.Internal && e.Err != nil && c.LogLevel == "debug" {
		fmt.Fprintln(c.env.Stderr, "  "+e.Err.Error())
	}
	return ExitCode(e.Kind)
}

// say prints a message for a person on standard error.
func (c *command) say(format string, args ...any) {
	if !c.Quiet {
		fmt.Fprintf(c.env.Stderr, format+"\n", args...)
	}
}

// call runs one method and decodes its result into out, which may be nil. The raw result
// is returned for --json.
func (c *command) call(method string, params, out any) (json.RawMessage, error) {
	if err := c.connect(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(c.ctx, c.Timeout)
	defer cancel()
	var raw json.RawMessage
	if err := c.conn.Call(ctx, method, params, &raw); err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, fault.New(fault.Timeout, "No answer to %s within %s.", method, c.Timeout)
		}
		return nil, err
	}
	if out != nil {
		if err := json.Unmarshal(raw, out); err != nil {
			return nil, fault.Internalf(err, "The backend's answer to %s was not understood.", method)
		}
	}
	return raw, nil
}

// show calls a method and prints the raw result with --json, else what render writes.
func show[T any](c *command, method string, params any, render func(T)) error {
	var out T
	raw, err := c.call(method, params, &out)
	if err != nil {
		return err
	}
	if c.JSON {
		return c.printJSON(raw)
	}
	render(out)
	return nil
}
