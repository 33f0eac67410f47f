package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"helix/backend"
	"helix/backend/fault"
	"helix/backend/mcp"
)

type mcpImportCmd struct {
	File   string   `arg:"" optional:"" help:"Configuration of another program. Default: list the ones on this computer."`
	From   string   `placeholder:"PROGRAM" help:"A program that the list names, such as cursor."`
	Only   []string `placeholder:"NAME" help:"Only this server; may be repeated."`
	DryRun bool     `help:"Only show what would be imported."`
}

func (m *mcpImportCmd) Run(c *command) error {
	if m.File == "" && m.From == "" {
		return show(c, "mcp.sources", struct{}{}, func(r mcp.SourcesResult) {
			if len(r.Sources) == 0 {
				c.say("No configurations of other programs were found. Name a file: helix mcp import FILE")
				return
			}
			list(c, r.Sources, "", []string{"FROM", "PROGRAM", "SERVERS", "FILE"}, func(s mcp.Source) []string {
				return []string{s.ID, s.Title, fmt.Sprint(s.Servers), first(s.Error, s.Path)}
			})
			c.say("To import them: helix mcp import --from NAME")
		})
	}
	p := mcp.ImportParams{Source: m.From, Names: m.Only, DryRun: &m.DryRun}
	if m.File != "" {
		path, err := filepath.Abs(m.File)
		if err != nil {
			return fault.Invalidf("%s is not a path.", m.File)
		}
		p.Path = path
	}
	return show(c, "mcp.import", p, func(r mcp.ImportResult) {
		list(c, r.Found, "", []string{"NAME", "RUNS", "SECRETS", "SKIPPED"}, func(i mcp.Imported) []string {
			what := ""
			if i.Server != nil {
				what = first(i.Server.URL, strings.TrimSpace(i.Server.Command+" "+strings.Join(i.Server.Args, " ")))
			}
			return []string{i.Name, cut(what, 60), strings.Join(append(i.Secrets, i.Missing...), ", "), first(i.Skipped, i.Conflict)}
		})
		for _, i := range r.Found {
			for _, s := range i.Missing {
				c.say("Fill in: helix secrets set %s", plain(s))
			}
		}
		c.say("Added: %s", first(strings.Join(r.Added, ", "), "none"))
	})
}

type mcpExportCmd struct {
	Names []string `arg:"" optional:"" help:"Names of servers. Default: all."`
}

func (m *mcpExportCmd) Run(c *command) error {
	var r mcp.ExportResult
	if _, err := c.call("mcp.export", mcp.ExportParams{Names: m.Names}, &r); err != nil {
		return err
	}
	_, err := fmt.Fprint(c.env.Stdout, r.Content)
	return err
}

type mcpExposeCmd struct {
	Kind string `arg:"" optional:"" help:"tool, skill or memory. Without it: list what is exposed."`
	ID   string `arg:"" optional:"" help:"Name or ID; for memory: memory.search."`
	Stop bool   `help:"No longer expose it."`
}

func (m *mcpExposeCmd) Run(c *command) error {
	method, params := "mcp.exposed", any(struct{}{})
	if m.Kind != "" {
		method, params = "mcp.expose", mcp.ExposeParams{Kind: m.Kind, ID: m.ID, Exposed: !m.Stop}
	}
	return show(c, method, params, func(r mcp.ExposedResult) {
		list(c, r.Tools, "", []string{"NAME", "KIND", "ID", "PROBLEM"}, func(t mcp.Exposed) []string {
			return []string{t.Name, t.Kind, t.ID, t.Problem}
		})
		c.say("Over HTTP: %s", first(r.URL, "off; to turn it on: helix config set mcp.serve.http true"))
	})
}

type mcpServeCmd struct{}

// Run serves MCP on standard input and output, as a client of the running Helix. Nothing else is
// written to standard output.
func (m *mcpServeCmd) Run(c *command) error {
	ctx := c.ctx
	c.Timeout = max(c.Timeout, 11*time.Minute) // a call may report progress for 10 minutes
	server := mcp.NewServer(backend.Version)
	var list mcp.ExposedResult
	if _, err := c.call("mcp.exposed", struct{}{}, &list); err != nil {
		return err
	}
	for _, t := range list.Tools {
		if t.Problem != "" {
			fmt.Fprintf(c.env.Stderr, "helix: %s is left out: %s\n", plain(t.Name), plain(t.Problem))
			continue
		}
		mcp.AddExposed(server, t, func(_ context.Context, p mcp.ExposedCallParams) (mcp.ExposedCallResult, error) {
			var out mcp.ExposedCallResult
			_, err := c.call("mcp.call_exposed", p, &out)
			return out, err
		})
	}
	in, ok := c.env.Stdin.(io.ReadCloser)
	if !ok {
		in = io.NopCloser(c.env.Stdin)
	}
	err := server.Run(ctx, &sdk.IOTransport{Reader: in, Writer: nopWriteCloser{c.env.Stdout}, MaxLineLength: 16 << 20})
	if err != nil && ctx.Err() == nil && !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) {
		return fault.Unavailablef("The other program ended the connection.").WithCause(err)
	}
	return nil
}

type nopWriteCloser struct{ io.Writer }

func (nopWriteCloser) Close() error { return nil }
