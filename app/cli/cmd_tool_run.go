package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"time"

	"helix/backend/fault"
	"helix/backend/tools"
)

type toolRunCmd struct {
	Tool    string `arg:"" help:"ID, name, or a .ts or .js file, which runs as a draft."`
	Input   string `help:"JSON object, @file or -." aliases:"params" placeholder:"JSON"`
	Version string `help:"Run this version of a stored tool."`
}

type toolRun struct {
	Success           bool
	Output            json.RawMessage
	Error, ErrorClass string
	ExecutionID       string
	ExecutionTimeMs   float64
	PendingApprovalID string
	Logs              []struct{ Level, Message string }
}

func (r *toolRunCmd) Run(c *command) error {
	c.runsCode = true
	params, err := c.input(r.Input)
	if err != nil {
		return err
	}
	p := map[string]any{}
	if params != nil {
		p["params"] = params
	}
	setIf(p, "version", r.Version)
	if code, lang, err := source(r.Tool); err == nil {
		p["code"], p["language"] = code, lang
	} else if p["toolId"], err = c.toolID(r.Tool); err != nil {
		if _, statErr := os.Stat(r.Tool); errors.Is(statErr, fs.ErrNotExist) && filepath.Ext(r.Tool) != "" {
			return fault.NotFoundf("No tool or file is named %q.", r.Tool)
		}
		return err
	}
	return c.finishRun(p)
}

// finishRun makes a run and exits with its outcome: its output goes to standard output, its log and
// errors to standard error.
func (c *command) finishRun(p map[string]any) error {
	var res toolRun
	raw, err := c.call("tools.execute_custom", p, &res)
	if err != nil {
		var waiting struct{ PendingApprovalID string }
		if b, jerr := json.Marshal(fault.As(err).Details); jerr == nil && json.Unmarshal(b, &waiting) == nil && waiting.PendingApprovalID != "" {
			fmt.Fprintf(c.env.Stderr, "helix: %s\nAnswer it with: helix approvals decide %s --approve --rerun\n", fault.As(err).Message, waiting.PendingApprovalID)
			return failed{ExitCode(fault.As(err).Kind)}
		}
		return err
	}
	for _, l := range res.Logs {
		c.say("[%s] %s", l.Level, plain(l.Message))
	}
	if c.JSON {
		if err := c.printJSON(raw); err != nil {
			return err
		}
	} else if res.Success {
		if err := c.printJSON(res.Output); err != nil {
			return err
		}
	}
	if res.Success {
		return nil
	}
	c.say("%s: %s", first(res.ErrorClass, "error"), plain(res.Error))
	if res.PendingApprovalID != "" {
		fmt.Fprintf(c.env.Stderr, "It waits for your approval: %s\n", res.PendingApprovalID)
		return failed{4}
	}
	return failed{classExit(res.ErrorClass)}
}

// classExit maps a sandbox error class to an exit code, according to its kind.
func classExit(class string) int {
	switch class {
	case "compile", "missing_export", "input":
		return ExitCode(fault.Invalid)
	case "timeout", "cpu":
		return ExitCode(fault.Timeout)
	case "memory", "output":
		return ExitCode(fault.Limit)
	case "host_denied", "denied":
		return ExitCode(fault.Denied)
	case "canceled":
		return ExitCode(fault.Canceled)
	case "unavailable":
		return ExitCode(fault.Unavailable)
	}
	return 1
}

type toolTestCmd struct{ toolRef }

func (t *toolTestCmd) Run(c *command) error {
	c.runsCode = true
	id, err := c.toolID(t.Tool)
	if err != nil {
		return err
	}
	var got struct {
		Tool struct {
			Samples []struct {
				Name             string
				Params, Expected json.RawMessage
			}
		}
	}
	if _, err := c.call("tools.get", map[string]any{"toolId": id}, &got); err != nil {
		return err
	}
	if len(got.Tool.Samples) == 0 {
		return fault.NotFoundf("This tool doesn't have any saved samples. Save one in its editor.")
	}
	type sampleResult struct {
		Name            string          `json:"name"`
		OK              bool            `json:"ok"`
		Output          json.RawMessage `json:"output,omitempty"`
		Expected        json.RawMessage `json:"expected,omitempty"`
		Error           string          `json:"error,omitempty"`
		ExecutionTimeMs float64         `json:"executionTimeMs"`
	}
	results, rows, failures := []sampleResult{}, [][]string{}, 0
	for _, s := range got.Tool.Samples {
		var res toolRun
		if _, err := c.call("tools.execute_custom", map[string]any{"toolId": id, "params": s.Params}, &res); err != nil {
			return err
		}
		ok := res.Success && (s.Expected == nil || sameJSON(res.Output, s.Expected))
		results = append(results, sampleResult{s.Name, ok, res.Output, s.Expected, res.Error, res.ExecutionTimeMs})
		row := []string{"ok", s.Name, fmt.Sprintf("%.0f ms", res.ExecutionTimeMs), "", ""}
		if !ok {
			failures++
			row[0], row[3], row[4] = "FAILED", cut(first(res.Error, string(res.Output)), 300), cut(string(s.Expected), 300)
		}
		rows = append(rows, row)
	}
	if !c.JSON {
		c.table([]string{"RESULT", "SAMPLE", "TIME", "GOT", "EXPECTED"}, rows)
	} else if err := c.printJSON(map[string]any{"results": results}); err != nil {
		return err
	}
	if failures > 0 {
		return failed{1}
	}
	return nil
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

type toolEditCmd struct{ toolRef }

func (e *toolEditCmd) Run(c *command) error {
	id, err := c.toolID(e.Tool)
	if err != nil {
		return err
	}
	var got struct {
		Tool struct{ Name, Code, Language string }
	}
	if _, err := c.call("tools.get", map[string]any{"toolId": id}, &got); err != nil {
		return err
	}
	ext := ".js"
	if got.Tool.Language == "typescript" {
		ext = ".ts"
	}
	code, file, err := c.editText(got.Tool.Code, ext)
	if err != nil {
		return err
	}
	if code == got.Tool.Code {
		c.say("Nothing was changed.")
		return os.Remove(file)
	}
	if err := c.saveCode(id, map[string]any{"code": code}, ""); err != nil {
		c.say("Not saved. Your text is in %s.", file)
		return err
	}
	return os.Remove(file)
}

type toolExportCmd struct {
	Tools   []string `arg:""`
	Output  string   `short:"o" type:"path" help:"Default: standard output."`
	History bool     `help:"Include earlier versions."`
}

func (e *toolExportCmd) Run(c *command) error {
	ids := []string{}
	for _, t := range e.Tools {
		id, err := c.toolID(t)
		if err != nil {
			return err
		}
		ids = append(ids, id)
	}
	var r struct{ Bundle json.RawMessage }
	if _, err := c.call("tools.export", map[string]any{"toolIds": ids, "includeHistory": e.History}, &r); err != nil {
		return err
	}
	if e.Output == "" {
		return c.printJSON(r.Bundle)
	}
	return os.WriteFile(e.Output, append(r.Bundle, '\n'), 0o600)
}

type toolImportCmd struct {
	Source     string `arg:"" help:"File, https address or helix:// link."`
	Yes        bool   `help:"Add the tools after the review, without asking."`
	OnConflict string `default:"rename" enum:"rename,replace,skip" help:"If a name is taken (${enum})."`
}

func (i *toolImportCmd) Run(c *command) error {
	p := map[string]any{"onConflict": i.OnConflict, "dryRun": true}
	if b, err := os.ReadFile(i.Source); err == nil {
		if !json.Valid(b) {
			return fault.Invalidf("%s isn't valid JSON.", filepath.Base(i.Source))
		}
		p["bundle"] = json.RawMessage(b)
	} else {
		p["url"] = i.Source
	}
	var r tools.ImportResult
	raw, err := c.call("tools.import", p, &r)
	if err != nil {
		return err
	}
	if c.JSON && !i.Yes {
		if err := c.printJSON(raw); err != nil {
			return err
		}
	}
	for _, it := range r.Items {
		c.say("%s: %s, signature %s %s", plain(it.Name), it.Action, it.Signature.State, plain(it.Signature.Signer))
		for _, k := range it.RequestedCapabilities {
			c.say("  asks for %s", plain(k))
		}
		for _, w := range it.Warnings {
			c.say("  warning: %s", plain(w))
		}
	}
	if err := c.confirm(i.Yes, "Add these tools, disabled?"); err != nil {
		return err
	}
	p["dryRun"] = false
	// The commit contains what was reviewed, so a source that changed meanwhile is rejected.
	hashes := []string{}
	for _, it := range r.Items {
		hashes = append(hashes, it.DefinitionHash)
	}
	p["reviewed"] = hashes
	return c.raw("tools.import", p)
}

type toolShareCmd struct {
	toolRef
	shareFlags
}

func (s *toolShareCmd) Run(c *command) error { return s.with(c, "tools.share", s.params()) }

// shareFlags say who can open a share, and until when.
type shareFlags struct {
	Public  bool          `help:"Also list it in search."`
	Expires time.Duration `help:"The link expires after this long."`
}

func (s shareFlags) params() map[string]any {
	p := map[string]any{"access": "link"}
	if s.Public {
		p["access"] = "public"
	}
	if s.Expires > 0 {
		p["expiresAt"] = time.Now().Add(s.Expires).UTC()
	}
	return p
}

type toolSecretCmd struct {
	Set    toolSecretSetCmd `cmd:"" help:"Store a value read from standard input."`
	List   struct{}         `cmd:"" help:"List names and hosts." call:"tools.secrets"`
	Delete struct {
		Name string `arg:""`
	} `cmd:"" aliases:"rm,remove" help:"Delete a secret." call:"tools.secret_delete"`
}

type toolSecretSetCmd struct {
	Name string   `arg:""`
	Host []string `required:"" help:"Allowed host; may be repeated."`
	Tool []string `help:"Only this tool or skill can use it; may be repeated. Default: any you allow."`
}

func (s *toolSecretSetCmd) Run(c *command) error {
	v, err := c.secret("Value: ")
	if err != nil {
		return err
	}
	ids := []string{}
	for _, t := range s.Tool {
		id, err := c.toolID(t)
		if err != nil {
			return err
		}
		ids = append(ids, id)
	}
	return c.raw("tools.secret_set", map[string]any{"name": s.Name, "value": v, "hosts": s.Host, "toolIds": ids})
}

type toolStateCmd struct {
	Show  struct{ toolRef } `cmd:"" help:"List keys and sizes." call:"tools.state"`
	Clear struct {
		toolRef
		Key string `help:"Only this key."`
	} `cmd:"" help:"Delete one key, or all." call:"tools.state_clear"`
}

type toolTemplatesCmd struct {
	New  string `help:"Create a tool from this template." placeholder:"NAME"`
	Name string `help:"Name of the new tool; default: the template's."`
}

func (t *toolTemplatesCmd) Run(c *command) error {
	if t.New == "" {
		return show(c, "tools.templates", struct{}{}, func(r tools.TemplatesResult) {
			list(c, r.Templates, "", []string{"ID", "NAME", "DESCRIPTION"}, func(t tools.Template) []string {
				return []string{t.ID, t.Name, t.Description}
			})
		})
	}
	var r tools.TemplatesResult
	if _, err := c.call("tools.templates", struct{}{}, &r); err != nil {
		return err
	}
	for _, tpl := range r.Templates {
		if tpl.ID != t.New && tpl.Name != t.New {
			continue
		}
		p := map[string]any{"name": first(t.Name, tpl.Name), "description": tpl.Description, "code": tpl.Code, "parameters": tpl.Parameters, "capabilities": tpl.Capabilities}
		setIf(p, "language", string(tpl.Language))
		return show(c, "tools.create", p, c.created)
	}
	return fault.NotFoundf("No template is named %q. `helix tool templates` lists them.", t.New)
}
