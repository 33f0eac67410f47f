package cli

import (
	_ "embed" // examples
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"helix/backend/fault"
)

type helpCmd struct {
	Command []string `arg:"" optional:"" help:"The command, or environment or exit-codes."`
}

// topics are help pages that do not belong to a command.
var topics = map[string]func() (title string, rows [][2]string){
	"environment": func() (string, [][2]string) { return "Environment", environment() },
	"exit-codes":  func() (string, [][2]string) { return "Exit status", exitCodes() },
}

func (h *helpCmd) Run(c *command) error {
	n := c.grammar.Node
	if len(h.Command) == 1 {
		if topic, ok := topics[h.Command[0]]; ok {
			var b strings.Builder
			title, rows := topic()
			section(&b, title, rows)
			_, err := io.WriteString(c.env.Stdout, strings.TrimPrefix(b.String(), "\n"))
			return err
		}
	}
	for _, word := range h.Command {
		if n = child(n, word); n == nil {
			return fault.Invalidf("No command is named %q. See `helix help`.", strings.Join(h.Command, " "))
		}
	}
	return writeHelp(c.env.Stdout, c.grammar.Node, n)
}

// exampleLines has one command line per line. A test parses them.
//
//go:embed examples.txt
var exampleLines string

// examplesOf returns the examples of one command.
func examplesOf(root, n *kong.Node) (out []string) {
	for line := range strings.Lines(exampleLines) {
		_, words, _ := strings.Cut(line, "helix ")
		if find(root, strings.FieldsFunc(words, func(r rune) bool { return strings.ContainsRune(" )\n", r) })) == n {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
}

// find returns the command that the first words identify.
func find(n *kong.Node, words []string) *kong.Node {
	for _, w := range words {
		c := child(n, w)
		if c == nil {
			break
		}
		n = c
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

// exitStatus is shown in the help and in the manual page.
const exitStatus = "0 done, 1 failed, 2 wrong usage or input, 3 not found, 4 denied, 5 timeout or limit, 6 Helix or a part of it is not available, 7 conflict, 130 canceled."

// exitCodes returns them as rows.
func exitCodes() (rows [][2]string) {
	for _, s := range strings.Split(strings.TrimSuffix(exitStatus, "."), ", ") {
		code, meaning, _ := strings.Cut(s, " ")
		rows = append(rows, [2]string{code, meaning})
	}
	return rows
}

// printHelp implements --help: it prints the help of the command before it, or of the program.
func printHelp(_ kong.HelpOptions, k *kong.Context) error {
	n := k.Selected()
	if n == nil {
		n = k.Model.Node
	}
	return writeHelp(k.Stdout, k.Model.Node, n)
}

func writeHelp(w io.Writer, root, n *kong.Node) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage: %s\n\n%s\n", synopsis(n), wrap(n.Help, 0))
	if len(n.Aliases) > 0 {
		section(&b, "Aliases", [][2]string{{strings.Join(n.Aliases, ", "), ""}})
	}
	if n == root {
		for _, g := range groups {
			section(&b, strings.TrimSuffix(g.Title, ":"), commandRows(n, g.Key))
		}
	} else {
		section(&b, "Commands", commandRows(n, ""))
	}
	var arguments [][2]string
	for _, a := range n.Positional {
		arguments = append(arguments, [2]string{a.Summary(), a.Help})
	}
	section(&b, "Arguments", arguments)
	if n != root {
		section(&b, "Flags", flagRows(n.Flags))
	}
	section(&b, "Global flags", flagRows(root.Flags))
	var lines [][2]string
	for _, e := range examplesOf(root, n) {
		lines = append(lines, [2]string{e, ""})
	}
	section(&b, "Examples", lines)
	if n == root {
		section(&b, "Environment", environment())
		fmt.Fprintf(&b, "\nExit status:\n  %s\n", wrap(exitStatus, 2))
	}
	if len(n.Children) > 0 {
		fmt.Fprintf(&b, "\nRun `%s <command> --help` for more about a command.\n", fullName(n))
	}
	if n == root {
		b.WriteString("Run `helix help environment` or `helix help exit-codes` for these topics.\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func synopsis(n *kong.Node) string {
	out := fullName(n)
	for _, f := range n.Flags {
		if f.Required {
			out += " " + f.Summary()
		}
	}
	for _, a := range n.Positional {
		out += " " + a.Summary()
	}
	if len(n.Children) > 0 {
		out += " <command>"
	}
	return out + " [flags]"
}

// fullName returns the command with its parents, without their aliases.
func fullName(n *kong.Node) string {
	if n.Parent == nil {
		return n.Name
	}
	return fullName(n.Parent) + " " + n.Name
}

// commandRows returns the commands of n in a group; "" means every group.
func commandRows(n *kong.Node, group string) (rows [][2]string) {
	for _, c := range n.Children {
		if !c.Hidden && (group == "" || c.Group != nil && c.Group.Key == group) {
			rows = append(rows, [2]string{c.Name, c.Help})
		}
	}
	return rows
}

func flagRows(flags []*kong.Flag) (rows [][2]string) {
	for _, f := range flags {
		if f.Hidden {
			continue
		}
		name := f.String()
		if f.Tag.Negatable != "" {
			name = strings.Replace(name, "--", "--[no-]", 1)
		}
		if f.Short == 0 {
			name = "    " + name
		}
		rows = append(rows, [2]string{name, f.Help})
	}
	return rows
}

// helpWidth is the width of a common terminal; helpColumn is the rightmost column at which
// explanations begin.
const helpWidth, helpColumn = 80, 30

// section prints a title and rows of names and explanations, or nothing if there are no rows.
func section(b *strings.Builder, title string, rows [][2]string) {
	if len(rows) == 0 {
		return
	}
	width := 0
	for _, r := range rows {
		if len(r[0]) <= helpColumn-4 {
			width = max(width, len(r[0]))
		}
	}
	fmt.Fprintf(b, "\n%s:\n", title)
	for _, r := range rows {
		line := fmt.Sprintf("  %-*s  ", width, r[0])
		if len(r[0]) > width && r[1] != "" {
			line = fmt.Sprintf("  %s\n%*s", r[0], width+4, "")
		}
		b.WriteString(strings.TrimRight(line+wrap(r[1], width+4), " ") + "\n")
	}
}

// wrap breaks a text into lines indented to the column indent.
func wrap(text string, indent int) string {
	var b strings.Builder
	at := indent
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case at+1+len(word) > helpWidth:
			fmt.Fprintf(&b, "\n%*s", indent, "")
			at = indent
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += len(word)
	}
	return b.String()
}

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish,powershell" help:"bash, zsh, fish or powershell."`
}

// completeWord is the command with which the scripts request candidates; the words of the command
// line follow, the last of them incomplete.
const completeWord = "__complete"

// completions are the scripts by shell. If there is no candidate, the shell offers files.
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
	"fish": `function __helix
	helix __complete (commandline -opc)[2..] (commandline -ct) 2>/dev/null
end
complete -c helix -n 'count (__helix) >/dev/null' -f -a '(__helix)'
complete -c helix -n 'not count (__helix) >/dev/null' -F
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

// complete prints the candidates for the last of the words, one per line.
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

// findFlag returns the flag that a word such as --name, --name=value or -n sets.
func findFlag(path []*kong.Node, word string) *kong.Flag {
	name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
	for _, n := range path {
		for _, f := range n.Flags {
			if f.Name == name || string(f.Short) == name || slices.Contains(f.Aliases, name) {
				return f
			}
		}
	}
	return nil
}
