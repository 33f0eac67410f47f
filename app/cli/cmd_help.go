package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"helix/backend/fault"
)

// helpCmd is there for the list of commands: Main turns `help COMMAND` into `COMMAND --help`.
type helpCmd struct {
	Command []string `arg:"" optional:"" help:"The command."`
}

func (h *helpCmd) Run(*command) error { return nil }

// examples by command, shown at the end of its help. A test parses each of them.
var examples = map[string][]string{
	"serve":              {"helix serve", "helix serve --link"},
	"ui":                 {"helix ui", "helix ui --print"},
	"rpc":                {"helix rpc memory.stats", `helix rpc tools.list '{"limit":5}'`},
	"events":             {"helix events 'memory.*'"},
	"call":               {"helix call --list", `helix call "Text Counter" --input '{"text":"one two"}'`},
	"tool create":        {"helix tool create counter.ts", "helix tool create fetch.ts --capability 'network:https(api.example.com)'"},
	"tool run":           {`helix tool run "Text Counter" --params '{"text":"one two"}'`, "helix tool run draft.ts"},
	"tool import":        {"helix tool import tools.json --yes"},
	"tool delete":        {`helix tool delete "Text Counter"`},
	"skill run":          {`helix skill run Digest --input '{"topic":"go"}'`, "helix skill run digest.json --dry-run"},
	"skill import":       {"helix skill import digest.helixskill.json"},
	"schedule create":    {`helix schedule create --name Report --skill Digest --cron "30 8 * * 1-5"`, "helix schedule create --name Ping --tool Ping --every 1h"},
	"schedule next":      {`helix schedule next --cron "30 8 * * 1-5"`},
	"schedule history":   {"helix schedule history --status missed"},
	"memory import":      {"helix memory import chatgpt-export.zip", "helix memory import ~/notes --dry-run"},
	"memory search":      {`helix memory search "where is the spare key"`, "helix memory search invoice --from 2024-01 --tag tax"},
	"memory add":         {`helix memory add "The spare key is with Nora." --tag home`, "helix memory add -"},
	"approvals":          {"helix approvals"},
	"approvals decide":   {"helix approvals decide 018f3c5e-0000-7000-8000-000000000000 --approve --scope session"},
	"permissions revoke": {"helix permissions revoke 018f3c5e-0000-7000-8000-000000000000"},
	"audit list":         {"helix audit list --limit 20"},
	"audit verify":       {"helix audit verify", "helix audit verify --file helix-audit.jsonl"},
	"backup create":      {"helix backup create", "helix backup create /mnt/usb/helix.zip --passphrase-file pass.txt"},
	"restore":            {"helix restore helix.zip --dry-run"},
	"sandbox run":        {`helix sandbox run counter.ts --params '{"text":"one two"}'`},
	"config set":         {"helix config set app.theme dark"},
	"token create":       {"helix token create script --scopes read"},
	"completion":         {"source <(helix completion bash)", "helix completion fish > ~/.config/fish/completions/helix.fish"},
	"man":                {"helix man > /usr/local/share/man/man1/helix.1"},
}

func addExamples(p *kong.Kong) {
	for path, lines := range examples {
		if n := find(p.Model.Node, strings.Fields(path)); n != nil {
			n.Detail = "Examples:\n\n  " + strings.Join(lines, "\n\n  ")
		}
	}
}

// find returns the command that the words lead to, or nil.
func find(n *kong.Node, words []string) *kong.Node {
	for _, w := range words {
		if n = child(n, w); n == nil {
			return nil
		}
	}
	return n
}

func child(n *kong.Node, name string) *kong.Node {
	for _, c := range n.Children {
		if c.Name == name || slices.Contains(c.Aliases, name) {
			return c
		}
	}
	return nil
}

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish,powershell" help:"bash, zsh, fish or powershell."`
}

// completeWord is the command by which the scripts ask for candidates: the words of the command
// line follow, the last of them unfinished.
const completeWord = "__complete"

// completions are the scripts by shell. Where there is no candidate the shell offers files.
var completions = map[string]string{
	"bash": `_helix() {
	local IFS=$'\n'
	COMPREPLY=($(compgen -W "$(helix __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _helix helix
`,
	"zsh": `#compdef helix
_helix() {
	local -a found
	found=("${(@f)$(helix __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
	if [[ -n "${found[1]}" ]]; then compadd -a found; else _files; fi
}
if [[ "$funcstack[1]" = _helix ]]; then _helix "$@"; else compdef _helix helix; fi
`,
	"fish": `complete -c helix -a '(helix __complete (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
`,
	"powershell": `Register-ArgumentCompleter -Native -CommandName helix -ScriptBlock {
	param($word, $ast, $position)
	$words = @($ast.CommandElements | Select-Object -Skip 1 | ForEach-Object { $_.ToString() })
	if ($word -eq '') { $words += '""' }
	helix __complete @words | Where-Object { $_ -like "$word*" } | ForEach-Object {
		[System.Management.Automation.CompletionResult]::new($_)
	}
}
`,
}

func (s *completionCmd) Run(c *command) error {
	_, err := io.WriteString(c.env.Stdout, completions[s.Shell])
	return err
}

// complete prints the candidates for the last of the words, one a line.
func complete(w io.Writer, n *kong.Node, words []string) {
	last, value := "", (*kong.Flag)(nil)
	if len(words) > 0 {
		last, words = words[len(words)-1], words[:len(words)-1]
	}
	root, path := n, []*kong.Node{n}
	for _, word := range words {
		switch {
		case value != nil:
			value = nil
		case strings.HasPrefix(word, "-"):
			if f := findFlag(path, word); f != nil && !f.IsBool() && !strings.Contains(word, "=") {
				value = f
			}
		default:
			if c := child(n, word); c != nil {
				n, path = c, append(path, c)
			}
		}
	}
	var found []string
	switch {
	case value != nil:
		found = value.EnumSlice()
	case strings.HasPrefix(last, "-"):
		for _, p := range path {
			for _, f := range p.Flags {
				if !f.Hidden {
					found = append(found, "--"+f.Name)
				}
			}
		}
	default:
		for _, c := range n.Children {
			if !c.Hidden {
				found = append(found, c.Name)
			}
		}
		if n != root && len(n.Positional) > 0 && n.Positional[0].Enum != "" {
			found = append(found, n.Positional[0].EnumSlice()...)
		}
	}
	for _, f := range found {
		if f != "" && strings.HasPrefix(f, last) {
			fmt.Fprintln(w, f)
		}
	}
}

// findFlag finds the flag that a word such as --name, --name=value or -n sets.
func findFlag(path []*kong.Node, word string) *kong.Flag {
	name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
	for _, n := range path {
		for _, f := range n.Flags {
			if f.Name == name || string(f.Short) == name {
				return f
			}
		}
	}
	return nil
}

type manCmd struct{}

// Run prints one page for the whole program, as man-pages(7) lays it out.
func (*manCmd) Run(c *command) error {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH HELIX 1\n.SH NAME\nhelix \\- %s\n.SH SYNOPSIS\n.B helix\n.I command\n[flags]\n.SH DESCRIPTION\n%s\n.SH OPTIONS\n", "private assistant workbench", roff(c.grammar.Help))
	manFlags(&b, c.grammar.Flags)
	b.WriteString(".SH COMMANDS\n")
	manNode(&b, "", c.grammar.Node)
	b.WriteString(".SH EXIT STATUS\n0 done, 1 failed, 2 wrong usage or input, 3 not found, 4 denied, 5 timeout or limit, 6 Helix or a part of it is not available, 7 conflict, 130 canceled.\n")
	if _, err := io.WriteString(c.env.Stdout, b.String()); err != nil {
		return fault.Unavailablef("Couldn't write the page.").WithCause(err)
	}
	return nil
}

func manNode(b *strings.Builder, path string, n *kong.Node) {
	for _, c := range n.Children {
		if c.Hidden {
			continue
		}
		fmt.Fprintf(b, ".SS %s\n%s\n", roff(path+c.Name), roff(c.Help))
		manFlags(b, c.Flags)
		if c.Detail != "" {
			fmt.Fprintf(b, ".PP\n.nf\n%s\n.fi\n", roff(c.Detail))
		}
		manNode(b, path+c.Name+" ", c)
	}
}

func manFlags(b *strings.Builder, flags []*kong.Flag) {
	for _, f := range flags {
		if !f.Hidden {
			fmt.Fprintf(b, ".TP\n.B %s\n%s\n", roff(f.String()), roff(f.Help))
		}
	}
}

// roff escapes what groff reads as a request or an escape.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
	return strings.NewReplacer("\n.", "\n\\&.", "\n'", "\n\\&'").Replace(s)
}
