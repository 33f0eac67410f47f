// Package cli is the command line of Helix: a client of the running backend, or, if none is
// running, of a backend that it opens in its own process for one command. Only a main package
// imports it.
package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/alecthomas/kong"

	"helix/backend"
	"helix/backend/config"
	"helix/backend/fault"
)

// Env is the environment of a command. If nil, Stdin, Stdout and Stderr are those of the process.
type Env struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Web            fs.FS          // the web interface that `serve` offers; nil: none
	Keyring        config.Keyring // nil: the system's
	Worker         []string       // the result of sandbox.ServeWorker
	// Open opens a file in the browser; nil: with the system's opener.
	Open func(ctx context.Context, file string) error
}

// grammar is the whole command line; the commands are in cmd_*.go.
type grammar struct {
	Globals

	Serve   serveCmd   `cmd:"" group:"start" help:"Run Helix in the foreground and print its URL."`
	Status  statusCmd  `cmd:"" group:"start" help:"Show whether Helix is running, and its state."`
	Stop    stopCmd    `cmd:"" group:"start" help:"Stop the running Helix gracefully."`
	Doctor  doctorCmd  `cmd:"" group:"start" help:"Check the installation and suggest fixes."`
	Version versionCmd `cmd:"" group:"start" help:"Print the version."`
	UI      uiCmd      `cmd:"" group:"start" name:"ui" help:"Open Helix in the browser."`

	RPC    rpcCmd    `cmd:"" group:"advanced" name:"rpc" help:"Call a method of the API."`
	Events eventsCmd `cmd:"" group:"advanced" help:"Print events as JSON lines until interrupted."`
	Token  tokenCmd  `cmd:"" group:"advanced" help:"Manage access tokens for other programs."`
	Config configCmd `cmd:"" group:"advanced" help:"Read and change settings."`

	Providers providersCmd `cmd:"" group:"advanced" aliases:"provider" help:"Manage language model providers."`
	Catalog   catalogCmd   `cmd:"" group:"advanced" help:"See details about models."`
	Tokens    tokensCmd    `cmd:"" group:"advanced" help:"Estimate the tokens of a text."`

	Chat        chatCmd        `cmd:"" group:"work" aliases:"chats" help:"Chat with a model that can use your tools, and read earlier chats."`
	Eval        evalCmd        `cmd:"" group:"advanced" help:"Test the agent with scenarios."`
	Agent       agentCmd       `cmd:"" group:"work" help:"See what the agent can call and what it has spent."`
	Call        callCmd        `cmd:"" group:"work" help:"Call a tool, a skill or a built-in by name; --list shows them all."`
	Tool        toolCmd        `cmd:"" group:"work" aliases:"tools" help:"Write, run and share tools."`
	Skill       skillCmd       `cmd:"" group:"work" aliases:"skills" help:"Run, check and share skills."`
	Schedule    scheduleCmd    `cmd:"" group:"work" aliases:"schedules" help:"Manage schedules and see their runs."`
	Memory      memoryCmd      `cmd:"" group:"work" aliases:"memories" help:"Import, search and edit memories."`
	Synthesis   synthesisCmd   `cmd:"" group:"work" aliases:"memory-synthesis" help:"Find patterns in your memories, with evidence."`
	Psychology  psychologyCmd  `cmd:"" group:"work" help:"View and edit the seven layers of your inner map."`
	Decay       decayCmd       `cmd:"" group:"work" aliases:"psychology-decay" help:"See how memories fade, and why."`
	Voice       voiceCmd       `cmd:"" group:"work" help:"Transcribe recordings, and find what was said."`
	MCP         mcpCmd         `cmd:"" group:"work" name:"mcp" help:"Connect MCP servers and call their tools."`
	Channels    channelsCmd    `cmd:"" group:"work" aliases:"channel" help:"Reach the agent from another program; nobody is allowed by default."`
	Discover    discoverCmd    `cmd:"" group:"work" help:"Find APIs that can do what is missing."`
	OpenAPI     openapiCmd     `cmd:"" group:"work" name:"openapi" help:"Make tools of API descriptions, and call their operations."`
	Manifest    manifestCmd    `cmd:"" group:"work" aliases:"manifests" help:"Approve, switch off and revoke tools from API descriptions."`
	Container   containerCmd   `cmd:"" group:"work" aliases:"containers" help:"Run programs of container images as tools."`
	Shell       shellCmd       `cmd:"" group:"work" help:"Run commands in a container that sees your workspace."`
	Sandbox     sandboxCmd     `cmd:"" group:"safety" help:"Run untrusted code with hard limits."`
	Audit       auditCmd       `cmd:"" group:"safety" help:"View and verify the activity log."`
	Approvals   approvalsCmd   `cmd:"" group:"safety" aliases:"approval" help:"Answer permission requests."`
	Permissions permissionsCmd `cmd:"" group:"safety" aliases:"permission" help:"List and revoke permissions."`

	Backup  backupCmd  `cmd:"" group:"data" aliases:"backups" help:"Create, list and verify backups."`
	Restore restoreCmd `cmd:"" group:"data" help:"Restore a backup. The current data is kept aside."`
	Sync    syncCmd    `cmd:"" group:"data" help:"Sync your devices through your own database."`
	Trash   trashCmd   `cmd:"" group:"data" help:"List, restore or permanently delete items in the trash."`
	Export  exportCmd  `cmd:"" group:"data" help:"Export all data in open formats." call:"storage.export" say:"Exported to $dir. It contains no secrets or keys."`
	Import  importCmd  `cmd:"" group:"data" help:"Import an export of Helix." call:"storage.import"`
	DB      dbCmd      `cmd:"" group:"data" name:"db" help:"Check, migrate, roll back, salvage and prune the database."`
	Keys    keysCmd    `cmd:"" group:"data" aliases:"key" help:"Manage the encryption key and recovery code."`
	Secrets secretsCmd `cmd:"" group:"data" aliases:"secret" help:"Manage stored secrets."`

	Help       helpCmd       `cmd:"" group:"help" help:"Show help for a command or a topic."`
	Completion completionCmd `cmd:"" group:"help" help:"Print a completion script for a shell."`
	Man        manCmd        `cmd:"" group:"help" help:"Print the manual page, in roff."`
}

// groups are the sections of the command list in the help.
var groups = []kong.Group{
	{Key: "work", Title: "Everyday commands:"},
	{Key: "start", Title: "Start and stop:"},
	{Key: "safety", Title: "Permissions and safety:"},
	{Key: "data", Title: "Data:"},
	{Key: "advanced", Title: "Settings and automation:"},
	{Key: "help", Title: "Help:"},
}

// Globals are the flags that every command takes.
type Globals struct {
	DataDir   string        `help:"Data folder. Default: the system's standard locations." placeholder:"DIR" type:"path"`
	JSON      bool          `name:"json" help:"Print JSON."`
	Quiet     bool          `short:"q" help:"Don't print progress or messages."`
	Timeout   time.Duration `default:"60s" help:"Time limit of the command."`
	URL       string        `name:"url" help:"URL of the Helix to use instead of the local one." placeholder:"URL"`
	TokenFile string        `help:"File with the token for --url." placeholder:"FILE" type:"path"`
	EnvFile   string        `help:"Also read settings from this .env file." placeholder:"FILE" type:"path"`
	LogLevel  string        `default:"warn" enum:"debug,info,warn,error" help:"Log level on standard error (${enum})."`
}

// grammarFor returns a grammar, or a struct with its global flags and only the command that args
// name. Building every command takes longer than most commands take.
func grammarFor(args []string) reflect.Value {
	t := reflect.TypeFor[grammar]()
	global, name := t.Field(0), commandIn(args)
	for i := 1; i < t.NumField() && name != ""; i++ {
		f := t.Field(i)
		names := append(strings.Split(f.Tag.Get("aliases"), ","), cmp.Or(f.Tag.Get("name"), strings.ToLower(f.Name)))
		if slices.Contains(names, name) && f.Tag.Get("group") != "help" { // help is about all commands
			return reflect.New(reflect.StructOf([]reflect.StructField{global, f})).Elem()
		}
	}
	return reflect.New(t).Elem()
}

// commandIn returns the first argument that is neither a global flag nor its value; "" if there is
// none, or if help is requested.
func commandIn(args []string) string {
	if slices.Contains(args, "--help") || slices.Contains(args, "-h") {
		return ""
	}
	for i := 0; i < len(args); i++ {
		name, isFlag := strings.CutPrefix(args[i], "--")
		switch {
		case !isFlag && args[i] != "-q":
			return args[i]
		case isFlag && !strings.Contains(name, "=") && name != "json" && name != "quiet":
			i++
		}
	}
	return ""
}

// Main runs one command and returns the exit code of gateway.md: 0 done, 1 internal error or a
// failed run, 2 wrong usage or input, 3 not found, 4 denied, 5 timeout or limit, 6 unavailable, 7
// conflict, 130 canceled.
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

	g := grammarFor(args)
	exit := -1
	parser, err := kong.New(g.Addr().Interface(),
		kong.Name("helix"),
		kong.Description("A private assistant workbench. Without a running Helix, a command opens the data folder itself."),
		kong.Writers(env.Stdout, env.Stderr),
		kong.Exit(func(code int) { exit = code; panic(exited{}) }),
		kong.Help(printHelp),
		kong.Vars{"version": backend.Version},
		kong.ExplicitGroups(groups),
	)
	if err != nil {
		fmt.Fprintln(env.Stderr, "helix:", err)
		return 1
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	parser.Model.HelpFlag.Help = "Show help."
	if args[0] == completeWord {
		complete(env.Stdout, parser.Model.Node, args[1:])
		return 0
	}
	kctx, err := parse(parser, expandAliases(parser.Model.Node, args))
	if exit >= 0 {
		return exit
	}
	if err != nil {
		fmt.Fprintf(env.Stderr, "helix: %v\nTry `%s`.\n", err, cmp.Or(chatWith(args), commandOf(err)+" --help"))
		return 2
	}
	c := &command{Globals: g.Field(0).Interface().(Globals), env: env, ctx: ctx, grammar: parser.Model, node: kctx.Selected()}
	defer c.close()
	switch {
	case c.node == nil: // only flags
		err = fault.Invalidf("Enter a command. See `helix help`.")
	case c.node.Tag.Has("call"):
		err = c.declared()
	default:
		err = kctx.Run(c)
	}
	if err != nil {
		return c.report(err)
	}
	return 0
}

type exited struct{}

// parse turns kong's exit on --help into a return, since an exit would end the process of a test.
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

// commandOf returns the command that a parse error is about, as far as it was parsed.
func commandOf(err error) string {
	name := "helix"
	var at *kong.ParseError
	if errors.As(err, &at) {
		for _, p := range at.Context.Path {
			if p.Command != nil {
				name += " " + p.Command.Name
			}
		}
	}
	return name
}

// chatWith returns the command for a text given to `helix chat`; "" for anything else.
func chatWith(args []string) string {
	if len(args) < 2 || args[0] != "chat" || slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "-") }) {
		return ""
	}
	text := strings.Join(args[1:], " ")
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		text = "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	return "helix chat -p " + text
}

// expandAliases turns --version, alone or after global flags, into `version`, and the one-word
// forms that start a single service into `serve` with the port of that service.
func expandAliases(root *kong.Node, args []string) []string {
	for i := 0; i < len(args) && strings.HasPrefix(args[i], "-"); i++ {
		if args[i] == "--version" {
			return append([]string{"version"}, slices.Delete(slices.Clone(args), i, i+1)...)
		}
		if f := findFlag([]*kong.Node{root}, args[i]); f != nil && !f.IsBool() && !strings.Contains(args[i], "=") {
			i++
		}
	}
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

// command is the state of one invocation of the program.
type command struct {
	Globals
	env     Env
	ctx     context.Context
	conn    caller
	grammar *kong.Application
	node    *kong.Node // the command; nil: none was entered
	// background makes a backend that is opened for this command also do background work, such as
	// starting scheduled runs.
	background bool
	// listens makes it also serve other programs, for a command that uses the data folder for long.
	listens bool
	// memoryWork makes it also import and embed.
	memoryWork bool
	// runsCode makes it prepare the sandbox while it opens.
	runsCode bool
}

// failed ends a command with an exit code after it has printed all messages itself.
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
	var coded *fault.Error
	switch {
	case c.ctx.Err() != nil:
		e = fault.New(fault.Canceled, "Canceled.")
	case errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &coded): // before there was anything to say more about
		e = fault.New(fault.Timeout, "Not finished within %s.", c.Timeout)
	}
	fmt.Fprintln(c.env.Stderr, "helix:", e.Message)
	if e.Details != nil && !c.Quiet {
		var draft validated
		b, err := json.Marshal(e.Details)
		switch {
		case err != nil:
		case json.Unmarshal(b, &draft) == nil && len(draft.Errors) > 0:
			for _, d := range draft.Errors {
				if d.Line == 0 { // in an input or a skill; the message names the first
					if len(draft.Errors) > 1 {
						fmt.Fprintf(c.env.Stderr, "  %s: %s\n", first(plain(d.Path), "the whole"), plain(d.Message))
					}
					continue
				}
				fmt.Fprintf(c.env.Stderr, "  line %d, column %d: %s\n", d.Line, d.Column, plain(d.Message))
			}
		case len(b) < 2000 && string(b) != "{}":
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
			return nil, fault.Internalf(err, "Couldn't read the answer to %s.", method)
		}
	}
	return raw, nil
}

// show calls a method and prints the raw result with --json, else what render writes.
func show[T any](c *command, method string, params any, render func(T)) error {
	return shown(c, method, params, render, func(T) int { return 0 })
}

// shown is show for a command whose result determines the exit code.
func shown[T any](c *command, method string, params any, render func(T), code func(T) int) error {
	var out T
	raw, err := c.call(method, params, &out)
	if err != nil {
		return err
	}
	if c.JSON {
		err = c.printJSON(raw)
	} else {
		render(out)
	}
	if n := code(out); err == nil && n != 0 {
		return failed{n}
	}
	return err
}

// failIf returns the exit code of a command that has failed if bad is set.
func failIf(bad bool, code int) int {
	if bad {
		return code
	}
	return 0
}
