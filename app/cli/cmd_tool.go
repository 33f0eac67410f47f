package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"helix/backend/fault"
	"helix/backend/tools"
)

type toolCmd struct {
	List toolListCmd `cmd:"" help:"List tools."`
	Show struct {
		toolRef
		Version string
	} `cmd:"" help:"Show one tool in full." call:"tools.get"`
	Create   toolCreateCmd   `cmd:"" help:"Create a tool from a source file."`
	Edit     toolEditCmd     `cmd:"" help:"Edit the code in $EDITOR. It is checked before it is saved."`
	Update   toolUpdateCmd   `cmd:"" help:"Replace the code with a file."`
	Run      toolRunCmd      `cmd:"" help:"Run a tool, or a file as a draft."`
	Validate toolValidateCmd `cmd:"" help:"Check a source file."`
	Test     toolTestCmd     `cmd:"" help:"Run a tool on its samples and compare the results."`
	Versions toolVersionsCmd `cmd:"" help:"List versions." with:"{\"limit\":100}"`
	Diff     toolDiffCmd     `cmd:"" help:"Compare two versions."`
	Rollback struct {
		toolRef
		Version string `arg:""`
	} `cmd:"" help:"Roll back to an earlier version." call:"tools.rollback"`
	Clone struct {
		toolRef
		Name string
	} `cmd:"" help:"Copy a tool." call:"tools.clone"`
	Enable  struct{ toolRef } `cmd:"" help:"Enable a tool." call:"tools.set_enabled" with:"{\"enabled\":true}"`
	Disable struct{ toolRef } `cmd:"" help:"Disable a tool." call:"tools.set_enabled" with:"{\"enabled\":false}"`
	Delete  deleteCmd         `cmd:"" aliases:"rm,remove" help:"Delete a tool; restore brings it back for 30 days."`
	Restore restoreNamedCmd   `cmd:"" help:"Restore a deleted tool."`
	Export  toolExportCmd     `cmd:"" help:"Export tools to a bundle file."`
	Import  toolImportCmd     `cmd:"" help:"Review a bundle, then add its tools, disabled."`
	Share   toolShareCmd      `cmd:"" help:"Create a link to one version of a tool."`
	Unshare struct {
		Share string `arg:"" param:"shareId"`
	} `cmd:"" help:"Stop sharing." call:"tools.unshare"`
	Sign   struct{ toolRef } `cmd:"" help:"Sign a tool with this device's key." call:"tools.sign"`
	Secret toolSecretCmd     `cmd:"" help:"Manage the secrets that tools can use."`
	State  toolStateCmd      `cmd:"" help:"Manage the state of a tool."`
	Usage  toolUsageCmd      `cmd:"" help:"Runs, newest first."`
	Audit  struct {
		Tool  string `arg:"" optional:"" param:"toolId" ref:"tool"`
		Limit int    `default:"50"`
	} `cmd:"" help:"List audit entries of a tool." call:"tools.audit"`
	Templates toolTemplatesCmd `cmd:"" help:"List templates, or create a tool from one with --new."`
}

type toolListCmd struct {
	Query      string   `help:"Words in name or description."`
	Tag        []string `param:"tags" help:"Only tools with these tags."`
	Visibility string   `help:"private or public."`
	Enabled    *bool    `help:"Only enabled tools, or disabled ones with --enabled=false."`
	Limit      int      `default:"50"`
	Offset     int      `default:"0"`
}

func (*toolListCmd) Run(c *command) error {
	return answer(c, "tools.list", func(r tools.ListResult) {
		if r.Total == 0 {
			c.say("No tools. Start from a template: `helix tool templates --new \"Text Counter\"`.")
			return
		}
		list(c, r.Tools, "", []string{"ID", "NAME", "VERSION", "STATE", "RUNS", "DESCRIPTION"}, func(t tools.Summary) []string {
			state := "enabled"
			switch {
			case t.Suspended:
				state = "suspended"
			case !t.IsEnabled:
				state = "disabled"
			}
			return []string{t.ID.String(), t.Name, t.Version, state, fmt.Sprint(t.UsageCount), cut(t.Description, 50)}
		})
	})
}

type toolRef struct {
	Tool string `arg:"" help:"ID or name." param:"toolId" ref:"tool"`
}

// with resolves the tool, calls a method with its id and extra params and prints JSON.
func (t toolRef) with(c *command, method string, extra map[string]any) error {
	id, err := c.toolID(t.Tool)
	if err != nil {
		return err
	}
	p := map[string]any{"toolId": id}
	for k, v := range extra {
		p[k] = v
	}
	return c.raw(method, p)
}

// source returns a tool's code with its language, based on the file extension.
func source(path string) (code, language string, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", "", fault.Invalidf("Couldn't read %s.", path).WithCause(err)
	}
	switch strings.ToLower(filepath.Ext(path)) {
	case ".ts", ".mts":
		language = "typescript"
	case ".js", ".mjs":
		language = "javascript"
	default:
		return "", "", fault.Invalidf("%s isn't a .ts or .js file.", filepath.Base(path))
	}
	return string(b), language, nil
}

type toolCreateCmd struct {
	File        string   `arg:"" type:"existingfile"`
	Name        string   `help:"Default: the file's name."`
	Description string   `help:"What it does. Models read this."`
	Schema      string   `help:"File with the JSON Schema of the parameters." type:"existingfile"`
	Cap         []string `help:"Capability to declare, such as 'network:https(api.example.com)'; may be repeated." sep:"none"`
	Profile     string   `help:"strict, standard or permissive."`
}

func (t *toolCreateCmd) Run(c *command) error {
	code, lang, err := source(t.File)
	if err != nil {
		return err
	}
	name := first(t.Name, strings.TrimSuffix(filepath.Base(t.File), filepath.Ext(t.File)))
	p := map[string]any{"name": name, "code": code, "language": lang}
	setIf(p, "description", t.Description)
	setIf(p, "sandboxProfile", t.Profile)
	if len(t.Cap) > 0 {
		p["capabilities"] = t.Cap
	}
	if t.Schema != "" {
		if p["parameters"], err = c.input("@" + t.Schema); err != nil {
			return err
		}
	}
	return show(c, "tools.create", p, c.created)
}

func (c *command) created(r tools.CreateResult) {
	fmt.Fprintln(c.env.Stdout, r.Tool.ID)
	for _, w := range r.Validation.Warnings {
		c.say("warning: line %d: %s", w.Line, plain(w.Message))
	}
	c.say("%s %s is saved.", plain(r.Tool.Name), r.Tool.Version)
}

type toolUpdateCmd struct {
	toolRef
	File string `arg:"" type:"existingfile"`
	Note string `help:"Version note."`
}

func (u *toolUpdateCmd) Run(c *command) error {
	code, lang, err := source(u.File)
	if err != nil {
		return err
	}
	return c.saveCode(u.Tool, map[string]any{"code": code, "language": lang}, u.Note)
}

func (c *command) saveCode(ref string, patch map[string]any, note string) error {
	id, err := c.toolID(ref)
	if err != nil {
		return err
	}
	var got struct{ Tool struct{ Version string } }
	if _, err := c.call("tools.get", map[string]any{"toolId": id}, &got); err != nil {
		return err
	}
	p := map[string]any{"toolId": id, "baseVersion": got.Tool.Version, "patch": patch}
	setIf(p, "note", note)
	return show(c, "tools.update", p, c.created)
}

type toolValidateCmd struct {
	File   string   `arg:"" type:"existingfile"`
	Schema string   `type:"existingfile"`
	Cap    []string `sep:"none"`
}

func (v *toolValidateCmd) Run(c *command) error {
	code, lang, err := source(v.File)
	if err != nil {
		return err
	}
	p := map[string]any{"code": code, "language": lang}
	if len(v.Cap) > 0 {
		p["capabilities"] = v.Cap
	}
	if v.Schema != "" {
		if p["parameters"], err = c.input("@" + v.Schema); err != nil {
			return err
		}
	}
	err = shown(c, "tools.validate", p, func(r validated) {
		for _, e := range r.Errors {
			fmt.Fprintf(c.env.Stdout, "%s:%d:%d: error: %s\n", v.File, e.Line, e.Column, plain(e.Message))
		}
		for _, w := range r.Warnings {
			fmt.Fprintf(c.env.Stdout, "%s:%d:%d: warning: %s\n", v.File, w.Line, w.Column, plain(w.Message))
		}
	}, func(r validated) int { return failIf(!r.Valid, ExitCode(fault.Invalid)) })
	if err == nil {
		c.say("The source is valid.")
	}
	return err
}

type validated struct {
	Valid            bool
	Errors, Warnings []struct {
		Path, Message string
		Line, Column  int
	}
}

type toolVersionsCmd struct{ toolRef }

func (*toolVersionsCmd) Run(c *command) error {
	return answer(c, "tools.versions", func(r tools.VersionsResult) {
		list(c, r.Versions, "", []string{"VERSION", "DEFINITION", "SAVED", "BY", "NOTE"}, func(v tools.VersionInfo) []string {
			return []string{v.Version, cut(v.DefinitionHash, 13), v.CreatedAt.Local().Format(time.DateTime), v.Author, v.Note}
		})
	})
}

type toolDiffCmd struct {
	toolRef
	From string `arg:""`
	To   string `arg:""`
}

func (*toolDiffCmd) Run(c *command) error {
	return answer(c, "tools.diff", func(r tools.DiffResult) {
		for _, f := range r.Fields {
			fmt.Fprintf(c.env.Stdout, "%s: %s -> %s\n", f.Name, cut(string(f.From), 100), cut(string(f.To), 100))
		}
		for _, a := range r.Capabilities.Added {
			fmt.Fprintln(c.env.Stdout, "capability +", a)
		}
		for _, a := range r.Capabilities.Removed {
			fmt.Fprintln(c.env.Stdout, "capability -", a)
		}
		fmt.Fprint(c.env.Stdout, r.Code)
	})
}

type toolUsageCmd struct {
	Tool  string `arg:"" optional:"" param:"toolId" ref:"tool"`
	Limit int    `default:"50"`
}

func (*toolUsageCmd) Run(c *command) error {
	return answer(c, "tools.usage", func(r tools.UsageResult) {
		list(c, r.Entries, "", []string{"TIME", "TOOL", "VERSION", "RESULT", "TOOK", "CALLER", "ERROR"}, func(e tools.UsageEntry) []string {
			return []string{e.Timestamp.Local().Format(time.DateTime), first(e.ToolName, e.ToolID.String()), e.Version, string(e.Status), fmt.Sprintf("%.0f ms", e.ExecutionTimeMs), e.Caller, cut(e.Error, 50)}
		})
	})
}
