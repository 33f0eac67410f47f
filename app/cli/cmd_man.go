package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/alecthomas/kong"

	"helix/backend/config"
	"helix/backend/fault"
)

// environment returns the variables that are not settings, and how those of settings are named.
func environment() (rows [][2]string) {
	keys := []string{}
	for _, v := range config.Variables() {
		switch {
		case v.Key != "" || v.Unread:
		case strings.HasSuffix(v.Name, "_API_KEY"):
			keys = append(keys, v.Name)
		default:
			rows = append(rows, [2]string{v.Name, v.Help})
		}
	}
	return append(rows,
		[2]string{"VISUAL, EDITOR", "Editor of `helix tool edit`, `helix memory edit` and the like. Default: vi."},
		[2]string{"*_API_KEY", "Keys of model providers: " + strings.Join(keys, ", ") + "."},
		[2]string{"HELIX_*", "Each setting has a variable: gateway.addr is HELIX_GATEWAY_ADDR. See `helix config list`."},
	)
}

type manCmd struct {
	Command []string `arg:"" optional:"" help:"The command. Default: one page for all."`
	Dir     string   `type:"path" placeholder:"DIR" help:"Write a page for each command to this folder, such as ~/.local/share/man/man1."`
}

// Run prints a page in the layout of man-pages(7), or writes all pages.
func (m *manCmd) Run(c *command) error {
	root := c.grammar.Node
	if m.Dir != "" {
		return c.writeManual(m.Dir)
	}
	page := manual(root, root, true)
	if len(m.Command) > 0 {
		n := root
		for _, word := range m.Command {
			if n = child(n, word); n == nil {
				return fault.Invalidf("No command is named %q. See `helix help`.", strings.Join(m.Command, " "))
			}
		}
		page = manual(root, n, true)
	}
	if _, err := io.WriteString(c.env.Stdout, page); err != nil {
		return fault.Unavailablef("Couldn't write the page.").WithCause(err)
	}
	return nil
}

// writeManual writes helix.1 and one page per command to dir.
func (c *command) writeManual(dir string) error {
	root := c.grammar.Node
	err := os.MkdirAll(dir, 0o755)
	written := 0
	for _, n := range append([]*kong.Node{root}, root.Children...) {
		if n.Hidden || err != nil {
			continue
		}
		err = os.WriteFile(filepath.Join(dir, pageName(n)+".1"), []byte(manual(root, n, n != root)), 0o644)
		written++
	}
	if err != nil {
		return fault.Unavailablef("Couldn't write the pages to %s.", dir).WithCause(err)
	}
	c.say("Wrote %d pages to %s.", written, dir)
	return nil
}

// pageName returns helix-memory-search for `helix memory search`.
func pageName(n *kong.Node) string { return strings.ReplaceAll(fullName(n), " ", "-") }

// manual returns the page of a command. With deep, it contains the pages of its subcommands;
// otherwise they are only listed, because each has its own page.
func manual(root, n *kong.Node, deep bool) string {
	var b strings.Builder
	name, help := roff(pageName(n)), n.Help
	if n == root {
		help = "private assistant workbench"
	}
	fmt.Fprintf(&b, ".TH %s 1\n.SH NAME\n%s \\- %s\n.SH SYNOPSIS\n%s\n.SH DESCRIPTION\n%s\n", strings.ToUpper(name), name, roff(strings.TrimSuffix(help, ".")), roff(synopsis(n)), roff(n.Help))
	if len(n.Aliases) > 0 {
		fmt.Fprintf(&b, ".PP\nAliases: %s\n", roff(strings.Join(n.Aliases, ", ")))
	}
	manArguments(&b, n)
	if flags := flagRows(n.Flags); len(flags) > 0 {
		b.WriteString(".SH OPTIONS\n")
		manRows(&b, flags)
	}
	if len(n.Children) > 0 {
		b.WriteString(".SH COMMANDS\n")
		if deep {
			manNode(&b, root, n)
		} else {
			manRows(&b, commandRows(n, ""))
		}
	}
	manExamples(&b, root, n, ".SH EXAMPLES\n")
	if n == root {
		b.WriteString(".SH ENVIRONMENT\n")
		rows := environment()
		manRows(&b, rows[:len(rows)-1]) // the last row describes the settings, which follow
		for _, v := range config.Variables() {
			if v.Key != "" {
				manRows(&b, [][2]string{{v.Name, v.Help + " Setting " + v.Key + "."}})
			}
		}
		b.WriteString(".SH EXIT STATUS\n" + exitStatus + "\n")
		if !deep {
			var all []string
			for _, c := range n.Children {
				if !c.Hidden {
					all = append(all, fmt.Sprintf(".BR %s (1)", roff(pageName(c))))
				}
			}
			fmt.Fprintf(&b, ".SH SEE ALSO\n%s\n", strings.Join(all, ",\n"))
		}
		return b.String()
	}
	b.WriteString(".SH SEE ALSO\n.BR helix (1)\nfor the options of all commands, the environment and the exit status\n")
	return b.String()
}

func manNode(b *strings.Builder, root, n *kong.Node) {
	for _, c := range n.Children {
		if c.Hidden {
			continue
		}
		fmt.Fprintf(b, ".SS %s\n%s\n", roff(strings.TrimPrefix(synopsis(c), fullName(root)+" ")), roff(c.Help))
		manArguments(b, c)
		manRows(b, flagRows(c.Flags))
		manExamples(b, root, c, ".PP\nExamples:\n")
		manNode(b, root, c)
	}
}

func manArguments(b *strings.Builder, n *kong.Node) {
	for _, a := range n.Positional {
		if a.Help != "" {
			manRows(b, [][2]string{{a.Summary(), a.Help}})
		}
	}
}

func manExamples(b *strings.Builder, root, n *kong.Node, title string) {
	if lines := examplesOf(root, n); len(lines) > 0 {
		fmt.Fprintf(b, "%s.nf\n%s\n.fi\n", title, roff(strings.Join(lines, "\n")))
	}
}

func manRows(b *strings.Builder, rows [][2]string) {
	for _, r := range rows {
		fmt.Fprintf(b, ".TP\n.B %s\n%s\n", roff(strings.TrimSpace(r[0])), roff(r[1]))
	}
}

// roff escapes what groff would interpret as a request or an escape.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", "...").Replace(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	return strings.NewReplacer("\n.", "\n\\&.", "\n'", "\n\\&'").Replace(s)
}
