package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"

	"helix/backend/discovery"
	"helix/backend/fault"
	"helix/backend/gateway"
)

type openapiCmd struct {
	Inspect    openapiInspectCmd    `cmd:"" help:"Show what an API description contains. Nothing is imported."`
	Operations openapiOperationsCmd `cmd:"" help:"List the operations of an API description."`
	Import     openapiImportCmd     `cmd:"" help:"Make a tool of operations. It runs only after its approval."`
	Call       openapiCallCmd       `cmd:"" help:"Run an operation of a tool, or with --dry-run show its request."`
	Auth       openapiAuthCmd       `cmd:"" help:"Set up the authentication of a tool."`
}

// openapiSource is a description on the command line.
type openapiSource struct {
	Source string `arg:"" name:"file" help:"A file in JSON or YAML, an https address, catalog: and the name of an API of the directory, or - for standard input."`
}

// source returns where to read the text from.
func (o openapiSource) source(c *command) (p discovery.Source, err error) {
	switch {
	case o.Source == "-":
		b, err := io.ReadAll(c.env.Stdin)
		if err != nil {
			return p, fault.Invalidf("Couldn't read standard input.").WithCause(err)
		}
		p.Content = string(b)
	case strings.Contains(o.Source, "://"), strings.HasPrefix(o.Source, "catalog:"), strings.HasPrefix(o.Source, "directory:"):
		p.URL = o.Source
	default:
		if p.Path, err = filepath.Abs(o.Source); err != nil {
			return p, fault.Invalidf("%s is not a path.", o.Source)
		}
	}
	return p, nil
}

// inspect reads the description, so that the following calls can refer to it.
func (o openapiSource) inspect(c *command) (out discovery.Inspection, raw json.RawMessage, err error) {
	p, err := o.source(c)
	if err != nil {
		return out, nil, err
	}
	raw, err = c.call("discovery.inspect_openapi", p, &out)
	return out, raw, err
}

type openapiInspectCmd struct{ openapiSource }

func (o *openapiInspectCmd) Run(c *command) error {
	x, raw, err := o.inspect(c)
	if err != nil {
		return err
	}
	if c.JSON {
		return c.printJSON(raw)
	}
	servers := make([]string, len(x.Servers))
	for i, s := range x.Servers {
		servers[i] = s.URL
	}
	auth := []string{}
	for _, s := range x.Auth {
		auth = append(auth, strings.TrimSpace(s.Name+" ("+first(s.Kind, s.Why)+")"))
	}
	c.fields("Title", x.Title, "Version", x.Version, "OpenAPI", x.OpenAPI, "Servers", strings.Join(servers, ", "), "Authentication", strings.Join(auth, ", "),
		"Operations", fmt.Sprintf("%d (%d read-only, %d deprecated, %d not supported)", x.Counts.Operations, x.Counts.ReadOnly, x.Counts.Deprecated, x.Counts.Skipped),
		"Tokens", fmt.Sprint(x.Tokens))
	rows := make([][]string, 0, len(x.Tags))
	for _, t := range x.Tags {
		rows = append(rows, []string{t.Name, fmt.Sprint(t.Operations), fmt.Sprint(t.Tokens)})
	}
	if len(rows) > 0 {
		c.table([]string{"TAG", "OPERATIONS", "TOKENS"}, rows)
	}
	for _, w := range slices.Concat(x.Warnings, x.Skipped) {
		c.say("%s: %s", plain(w.Pointer), plain(w.Message))
	}
	return nil
}

type openapiOperationsCmd struct {
	openapiSource
	Query  string `help:"Only operations with these words."`
	Tag    string `help:"Only operations with this tag."`
	Method string `help:"Only operations with this method."`
	Limit  int    `default:"50"`
	Offset int    `default:"0"`
}

func (o *openapiOperationsCmd) Run(c *command) error {
	x, _, err := o.inspect(c)
	if err != nil {
		return err
	}
	p := discovery.OperationsParams{SpecID: x.SpecID, Query: o.Query, Tag: o.Tag, Method: o.Method, Limit: o.Limit, Offset: o.Offset}
	return show(c, "discovery.operations", p, func(r discovery.OperationsResult) {
		rows := make([][]string, len(r.Operations))
		for i, op := range r.Operations {
			rows[i] = []string{op.Key, op.Tier, fmt.Sprint(op.Tokens), op.Summary}
		}
		c.table([]string{"KEY", "TIER", "TOKENS", "SUMMARY"}, rows)
		if r.Total > o.Offset+len(rows) {
			c.say("%d more; see --offset.", r.Total-o.Offset-len(rows))
		}
	})
}

type openapiImportCmd struct {
	openapiSource
	Op      []string          `sep:"none" placeholder:"KEY" help:"An operation, such as \"get /users/{id}\"; may be repeated."`
	Tag     []string          `help:"All operations with this tag; may be repeated."`
	Name    string            `help:"Name of the tool. Default: from the title."`
	Server  string            `placeholder:"URL" help:"Address to send requests to. Default: the first of the description."`
	Var     map[string]string `placeholder:"NAME=VALUE" help:"A variable of the server's address; may be repeated."`
	Upgrade bool              `help:"Replace the tool with the same name. It must be approved again."`
	DryRun  bool              `help:"Show the definition, and import nothing."`
}

func (o *openapiImportCmd) Run(c *command) error {
	x, _, err := o.inspect(c)
	if err != nil {
		return err
	}
	p := discovery.ImportOpenAPIParams{SpecID: x.SpecID, Operations: o.Op, Tags: o.Tag, Name: o.Name, Server: o.Server, Variables: o.Var, DryRun: o.DryRun}
	if o.Upgrade {
		p.OnConflict = "upgrade"
	}
	return show(c, "discovery.import_openapi", p, func(r discovery.ImportResult) { printImport(c, r) })
}

func printImport(c *command, r discovery.ImportResult) {
	printManifest(c, r.Manifest)
	for _, w := range r.Warnings {
		c.say("%s", plain(w))
	}
	if r.ManifestID != nil && r.Status == discovery.StatusPending {
		c.say("Imported. It waits for your approval: helix manifest approve %s", r.ManifestID)
	}
}

func printManifest(c *command, m discovery.Manifest) {
	c.fields("Name", m.Name, "Version", m.Version, "Description", m.Description, "Server", m.Execution.Server, "May reach", strings.Join(m.Permissions.Network.Hosts, ", "))
	list(c, m.Capabilities, "", []string{"OPERATION", "REQUEST", "TIER"}, func(x discovery.Capability) []string {
		tier := x.Tier
		if x.Destructive {
			tier += ", destructive"
		}
		return []string{x.Name, x.Operation, tier}
	})
}

type openapiCallCmd struct {
	toolArg
	Op     string `arg:"" name:"operation" help:"Name of the operation, or its method and path."`
	Params string `help:"JSON, @file or -. Default: {}." placeholder:"JSON"`
	DryRun bool   `help:"Show the request, and send nothing."`
	Pages  int    `placeholder:"N" help:"Get up to N pages of a list, at most 20. Default: 1."`
}

func (o *openapiCallCmd) Run(c *command) error {
	params, err := c.input(o.Params)
	if err != nil {
		return err
	}
	id, err := o.id(c)
	if err != nil {
		return err
	}
	var r discovery.RunResult
	raw, err := c.call("discovery.run", discovery.RunParams{ManifestID: &id, Operation: o.Op, Params: params, DryRun: o.DryRun, MaxPages: o.Pages}, &r)
	if err != nil {
		return c.refused(err)
	}
	for _, w := range r.Warnings {
		c.say("%s", plain(w))
	}
	switch {
	case c.JSON:
		err = c.printJSON(raw)
	case r.Request != nil:
		fmt.Fprintln(c.env.Stdout, plain(r.Request.Method+" "+r.Request.URL))
		for _, name := range sortedKeys(r.Request.Header) {
			fmt.Fprintln(c.env.Stdout, plain(name+": "+strings.Join(r.Request.Header[name], ", ")))
		}
		if r.Request.Body != "" {
			fmt.Fprintf(c.env.Stdout, "\n%s\n", plain(r.Request.Body))
		}
	default:
		for _, page := range append([]json.RawMessage{r.Output}, r.Pages...) {
			err = errors.Join(err, c.printJSON(page))
		}
	}
	if err == nil && !r.Success {
		return failed{1}
	}
	return err
}

type openapiAuthCmd struct {
	Start openapiAuthStartCmd `cmd:"" help:"Sign in with OAuth in the browser."`
	Set   openapiAuthSetCmd   `cmd:"" help:"Store a key, token or password, read from standard input."`
	Clear struct {
		toolArg
		Scheme string `arg:"" help:"Name of the authentication."`
	} `cmd:"" help:"Remove a stored credential." call:"discovery.clear_auth" say:"Removed."`
}

type openapiAuthSetCmd struct {
	toolArg
	Scheme string `arg:"" help:"Name of the authentication, from helix manifest show."`
	User   string `help:"User name of basic authentication."`
}

func (o *openapiAuthSetCmd) Run(c *command) error {
	id, err := o.id(c)
	if err != nil {
		return err
	}
	value, err := io.ReadAll(io.LimitReader(c.env.Stdin, 16<<10))
	if err != nil {
		return fault.Invalidf("Couldn't read standard input.").WithCause(err)
	}
	p := discovery.AuthParams{ManifestID: id, Scheme: o.Scheme, User: o.User, Value: strings.TrimRight(string(value), "\r\n")}
	return show(c, "discovery.set_auth", p, func(discovery.AuthResult) { c.say("Stored.") })
}

// toolArg names a tool from an API description.
type toolArg struct {
	Tool string `arg:"" param:"manifestId" ref:"manifest" help:"Name or ID of the tool."`
}

func (a toolArg) id(c *command) (id uuid.UUID, err error) {
	text, err := c.idOf(manifestKind, a.Tool, false)
	if err == nil {
		id, err = uuid.Parse(text)
	}
	return id, err
}

type manifestCmd struct {
	List     manifestListCmd     `cmd:"" default:"withargs" help:"List tools from API descriptions."`
	Validate manifestValidateCmd `cmd:"" help:"Check a manifest in YAML or JSON. Nothing is imported."`
	Import   manifestImportCmd   `cmd:"" help:"Import a tool from a manifest. It runs only after its approval."`
	Show     manifestShowCmd     `cmd:"" help:"Show the definition of a tool and its authentication."`
	Approve  manifestApproveCmd  `cmd:"" help:"Review a tool and allow it to run."`
	Install  manifestVerifyCmd   `cmd:"" help:"Verify an approved tool and make it ready on this device."`
	Verify   manifestVerifyCmd   `cmd:"" help:"Try the samples of a tool."`
	Upgrade  manifestUpgradeCmd  `cmd:"" help:"Replace the definition of a tool by another one. It must be approved again."`
	Run      openapiCallCmd      `cmd:"" help:"Run an operation."`
	Enable   struct{ toolArg }   `cmd:"" help:"Switch a tool on." call:"discovery.set_enabled" with:"{\"enabled\":true}" say:"It is $status now."`
	Disable  struct{ toolArg }   `cmd:"" help:"Switch a tool off. Its runs end." call:"discovery.set_enabled" with:"{\"enabled\":false}" say:"It is $status now."`
	Revoke   manifestRevokeCmd   `cmd:"" help:"Remove a tool for ever, with its permissions and credentials."`
	Logs     manifestLogsCmd     `cmd:"" help:"List the runs of a tool, the latest first."`
}

type manifestListCmd struct {
	Query  string `arg:"" optional:"" help:"Words of the name or description."`
	Status string `help:"Only tools in this state: pending_approval, active, disabled or revoked."`
}

func (m *manifestListCmd) Run(c *command) error {
	return show(c, "discovery.list", discovery.ListParams{Query: m.Query, Status: m.Status, Limit: 100}, func(r discovery.ListResult) {
		list(c, r.Tools, "No tools. Import one with: helix openapi import FILE --op KEY", []string{"NAME", "STATE", "OPERATIONS", "HOSTS", "ID"}, func(t *discovery.Tool) []string {
			return []string{t.Name, t.Status, fmt.Sprint(t.Operations), strings.Join(t.Hosts, ", "), t.ID.String()}
		})
	})
}

type manifestValidateCmd struct{ openapiSource }

func (m *manifestValidateCmd) Run(c *command) error { return m.manifest(c, true, "") }

type manifestImportCmd struct {
	openapiSource
	Upgrade bool `help:"Replace the tool with the same name. It must be approved again."`
}

func (m *manifestImportCmd) Run(c *command) error {
	conflict := ""
	if m.Upgrade {
		conflict = "upgrade"
	}
	return m.manifest(c, false, conflict)
}

// manifest imports a manifest, or only checks it.
func (o openapiSource) manifest(c *command, dryRun bool, conflict string) error {
	s, err := o.source(c)
	if err != nil {
		return err
	}
	p := discovery.ImportManifestParams{Path: s.Path, Content: s.Content, URL: s.URL, DryRun: &dryRun, OnConflict: conflict}
	return show(c, "discovery.import_manifest", p, func(r discovery.ImportResult) { printImport(c, r) })
}

type manifestShowCmd struct{ toolArg }

func (*manifestShowCmd) Run(c *command) error {
	return answer(c, "discovery.get", func(r discovery.ToolResult) {
		c.fields("State", r.Status, "Source", first(r.SourceLocation, "pasted"), "Hash", r.DefinitionHash)
		printManifest(c, r.Manifest)
		printVerification(c, r)
		for _, x := range r.Credentials {
			c.fields("Authentication", x.Name+" ("+first(x.Kind, x.Why)+"): "+x.State)
		}
	})
}

type manifestApproveCmd struct{ toolArg }

func (m *manifestApproveCmd) Run(c *command) error {
	id, err := m.id(c)
	if err != nil {
		return err
	}
	var t discovery.ToolResult
	if _, err := c.call("discovery.get", discovery.ToolParams{ManifestID: id}, &t); err != nil {
		return err
	}
	if err := c.approveByName(t.Name, func() { printManifest(c, t.Manifest) }); err != nil {
		return err
	}
	return show(c, "discovery.approve", discovery.ApproveParams{ManifestID: id, DefinitionHash: t.DefinitionHash}, func(discovery.StatusResult) { c.say("Approved.") })
}

func printVerification(c *command, r discovery.ToolResult) {
	if r.Verification == nil {
		c.fields("Verified", "no", "On this device", r.InstallState)
		return
	}
	c.fields("Verified", strings.ReplaceAll(r.Verification.State, "_", " "), "On this device", r.InstallState, "Problem", r.Verification.Error)
	for _, x := range r.Verification.Samples {
		c.say("%s: %s %s", plain(x.Capability), x.Result, plain(x.Reason))
	}
}

type manifestVerifyCmd struct {
	toolArg
	SideEffects bool `help:"Also try samples that change something."`
}

// Run waits until the samples have been tried.
func (m *manifestVerifyCmd) Run(c *command) error {
	id, err := m.id(c)
	if err != nil {
		return err
	}
	var before gateway.EventsState
	if _, err := c.call("events.subscribe", gateway.TopicsParams{Topics: []string{"discovery.job"}}, &before); err != nil {
		return err
	}
	var job discovery.JobResult
	if _, err := c.call("discovery.verify", discovery.VerifyParams{ManifestID: id, Effects: m.SideEffects}, &job); err != nil {
		return c.refused(err)
	}
	ctx, done := context.WithCancel(c.ctx)
	defer done()
	err = c.conn.Events(ctx, []string{"discovery.job"}, int64(min(before.Seq, 1<<62)), func(e event) error { //nolint:gosec // bounded
		var p struct{ Data discovery.JobChanged }
		if json.Unmarshal(e.Params, &p) == nil && p.Data.JobID == job.JobID && p.Data.Step == "done" {
			done()
		}
		return nil
	})
	if err == nil {
		err = c.ctx.Err()
	}
	if err != nil {
		return err
	}
	return shown(c, "discovery.get", discovery.ToolParams{ManifestID: id}, func(t discovery.ToolResult) { printVerification(c, t) }, func(t discovery.ToolResult) int { return failIf(t.InstallState != "ready", 1) })
}

type manifestUpgradeCmd struct {
	toolArg
	openapiSource
	DryRun bool `help:"Show what would change, and change nothing."`
}

func (m *manifestUpgradeCmd) Run(c *command) error {
	id, err := m.id(c)
	if err != nil {
		return err
	}
	s, err := m.source(c)
	if err != nil {
		return err
	}
	p := discovery.UpgradeParams{ManifestID: id, Path: s.Path, Content: s.Content, URL: s.URL, DryRun: m.DryRun}
	return show(c, "discovery.upgrade", p, func(r discovery.UpgradeResult) {
		printImport(c, r.ImportResult)
		for _, b := range r.Breaking {
			c.say("Breaking: %s", plain(b))
		}
	})
}

type manifestRevokeCmd struct {
	toolArg
	Yes bool `help:"Don't ask."`
}

func (m *manifestRevokeCmd) Run(c *command) error {
	id, err := m.id(c)
	if err != nil {
		return err
	}
	if err := c.confirm(m.Yes, "Revoke the tool? It can't be restored, only imported again."); err != nil {
		return err
	}
	return show(c, "discovery.revoke", discovery.RevokeParams{ManifestID: id}, func(r discovery.RevokeResult) {
		c.say("Revoked, with %d permissions and %d credentials.", r.Removed.Grants, len(r.Removed.Credentials))
	})
}

type manifestLogsCmd struct {
	toolArg
	Limit int `default:"20"`
}

func (*manifestLogsCmd) Run(c *command) error {
	return answer(c, "discovery.executions", func(r discovery.ExecutionsResult) {
		list(c, r.Executions, "", []string{"STARTED", "OPERATION", "STATE", "HTTP", "TOOK", "ERROR"}, func(x discovery.Execution) []string {
			took, code := "", ""
			if x.DurationMs != nil {
				took = fmt.Sprintf("%d ms", *x.DurationMs)
			}
			if x.HTTPStatus != nil {
				code = fmt.Sprint(*x.HTTPStatus)
			}
			return []string{ago(x.StartedAt), x.Operation, x.Status, code, took, x.ErrorMessage}
		})
	})
}
