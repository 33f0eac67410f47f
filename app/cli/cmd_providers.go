package cli

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"helix/backend/fault"
	"helix/backend/providers"
)

type providersCmd struct {
	List    providersListCmd   `cmd:"" default:"withargs" help:"List model providers with their state."`
	Show    providersShowCmd   `cmd:"" help:"Show a provider."`
	Add     providersAddCmd    `cmd:"" help:"Add or change a provider."`
	Remove  providersRemoveCmd `cmd:"" help:"Remove a provider and its key."`
	Enable  providersOnCmd     `cmd:"" help:"Enable a provider."`
	Disable providersOffCmd    `cmd:"" help:"Disable a provider."`
	Test    providersTestCmd   `cmd:"" help:"Try a provider step by step."`
	Detect  providersDetectCmd `cmd:"" help:"Find model servers on this computer."`
	Models  providersModelsCmd `cmd:"" help:"List models."`
	Roles   providersRolesCmd  `cmd:"" help:"Show which models are used for what."`
	Role    providersRoleCmd   `cmd:"" help:"Choose the models of a role."`
}

type providersListCmd struct{}

func (*providersListCmd) Run(c *command) error {
	return show(c, "providers.list", nil, func(r providers.ListResult) {
		rows := [][]string{}
		for _, p := range r.Providers {
			rows = append(rows, []string{p.Name, p.Type, p.State, first(p.KeySource, "-"), strconv.Itoa(p.Models), p.BaseURL})
		}
		c.table([]string{"NAME", "TYPE", "STATE", "KEY", "MODELS", "URL"}, rows)
	})
}

type providersShowCmd struct {
	Name string `arg:"" help:"Name of the provider."`
}

func (p *providersShowCmd) Run(c *command) error {
	return show(c, "providers.get", map[string]any{"name": p.Name}, c.printProvider)
}

func (c *command) printProvider(p providers.View) {
	c.fields("name", p.Name, "type", p.Type, "URL", p.BaseURL, "state", p.State, "key", first(p.KeySource, "none"), "circuit", p.Circuit.State, "last error", p.LastError, "problem", p.Problem)
}

type providersAddCmd struct {
	Name    string `arg:"" help:"Name of the provider: a-z, 0-9, _ and -."`
	Type    string `required:"" enum:"openai,openai_responses,anthropic,gemini,scripted" help:"Kind of service (${enum})."`
	BaseURL string `name:"base-url" placeholder:"URL" help:"Address, if it is not the kind's own."`
	KeyEnv  string `placeholder:"VARIABLE" help:"Variable that holds the key."`
	Private bool   `name:"private-network" help:"Also reach an address of your private network, such as 192.168.1.5, without https."`
	Key     string `enum:",-" default:"" placeholder:"-" help:"- reads the key from standard input."`
}

func (p *providersAddCmd) Run(c *command) error {
	params := map[string]any{"name": p.Name, "entry": providers.Entry{Type: p.Type, BaseURL: p.BaseURL, APIKeyEnv: p.KeyEnv, AllowPrivateNetwork: p.Private}}
	if p.Key != "" {
		key, err := c.secret("Enter the key ")
		if err != nil {
			return err
		}
		params["apiKey"] = key
	}
	return show(c, "providers.set", params, c.printProvider)
}

type providersRemoveCmd struct {
	Name string `arg:"" help:"Name of the provider."`
	Yes  bool   `help:"Don't ask."`
}

func (p *providersRemoveCmd) Run(c *command) error {
	if err := c.confirm(p.Yes, fmt.Sprintf("Remove %s and its key?", p.Name)); err != nil {
		return err
	}
	return show(c, "providers.remove", map[string]any{"name": p.Name}, func(struct{}) { c.say("removed %s", p.Name) })
}

type providersOnCmd struct {
	Name string `arg:"" help:"Name of the provider."`
}

func (p *providersOnCmd) Run(c *command) error { return c.enableProvider(p.Name, true) }

type providersOffCmd struct {
	Name string `arg:"" help:"Name of the provider."`
}

func (p *providersOffCmd) Run(c *command) error { return c.enableProvider(p.Name, false) }

func (c *command) enableProvider(name string, on bool) error {
	var p providers.View
	if _, err := c.call("providers.get", map[string]any{"name": name}, &p); err != nil {
		return err
	}
	p.Entry.Disabled = !on
	return show(c, "providers.set", map[string]any{"name": name, "entry": p.Entry}, c.printProvider)
}

type providersTestCmd struct {
	Name  string `arg:"" help:"Name of the provider."`
	Model string `help:"Model that is asked with --call."`
	Call  bool   `help:"Send one short message, which costs money."`
}

func (p *providersTestCmd) Run(c *command) error {
	params := map[string]any{"name": p.Name, "call": p.Call}
	setIf(params, "model", p.Model)
	return shown(c, "providers.test", params, func(r providers.TestResult) {
		rows := [][]string{}
		for _, s := range r.Steps {
			state := "ok"
			if !s.OK {
				state = "failed"
			}
			rows = append(rows, []string{s.Step, state, fmt.Sprintf("%d ms", s.Ms), strings.TrimSpace(s.Message + " " + s.Hint)})
		}
		c.table([]string{"STEP", "RESULT", "TIME", "MESSAGE"}, rows)
	}, func(r providers.TestResult) int {
		if n := len(r.Steps); n > 0 && !r.Steps[n-1].OK {
			return ExitCode(r.Steps[n-1].Kind)
		}
		return 0
	})
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

type providersDetectCmd struct{}

func (*providersDetectCmd) Run(c *command) error {
	return show(c, "providers.detect", nil, func(r providers.DetectResult) {
		if len(r.Found) == 0 {
			c.say("No model server answers on this computer.")
			return
		}
		rows := [][]string{}
		for _, f := range r.Found {
			rows = append(rows, []string{f.Product, f.BaseURL, strings.Join(f.Models, ", ")})
		}
		c.table([]string{"PRODUCT", "URL", "MODELS"}, rows)
	})
}

type providersModelsCmd struct {
	Query      string `arg:"" optional:"" help:"Text in the name."`
	Provider   string `help:"Only of this provider."`
	Capability string `default:"" enum:",tools,images,files,reasoning,structured" placeholder:"WHAT" help:"Only those that can do this (tools, images, files, reasoning, structured)."`
	Limit      int    `default:"50"`
	Offset     int    `default:"0"`
}

func (p *providersModelsCmd) Run(c *command) error {
	return show(c, "providers.models", map[string]any{"query": p.Query, "provider": p.Provider, "capability": p.Capability, "limit": p.Limit, "offset": p.Offset}, func(r providers.ModelsResult) {
		c.printModels(r.Models)
		c.say("%d of %d models", len(r.Models), r.Total)
	})
}

func (c *command) printModels(models []providers.ModelInfo) {
	price := func(m *providers.Micros) string {
		if m == nil {
			return "-"
		}
		return fmt.Sprintf("$%.2f", float64(*m)/1e6)
	}
	rows := [][]string{}
	for _, m := range models {
		rows = append(rows, []string{string(m.Ref), strconv.Itoa(m.Window), strconv.Itoa(m.Output), price(m.Prices.Input), price(m.Prices.Output)})
	}
	c.table([]string{"MODEL", "WINDOW", "OUTPUT", "IN/M", "OUT/M"}, rows)
}

type providersRolesCmd struct{}

func (*providersRolesCmd) Run(c *command) error {
	return show(c, "providers.roles", nil, func(r providers.RolesResult) {
		rows := [][]string{}
		for _, v := range r.Roles {
			rows = append(rows, c.roleRow(v))
		}
		c.table([]string{"ROLE", "MODELS", "PROBLEMS"}, rows)
	})
}

func (c *command) roleRow(v providers.RoleView) []string {
	chain := []string{}
	for _, ref := range v.Chain {
		chain = append(chain, string(ref))
	}
	return []string{string(v.Role), first(strings.Join(chain, ", "), "-"), strings.Join(v.Problems, " ")}
}

type providersRoleCmd struct {
	Role   string   `arg:"" enum:"chat,fast,synthesis,embed" help:"Role (${enum})."`
	Models []string `arg:"" optional:"" help:"Models as provider/model, first preferred; none clears the role."`
}

func (p *providersRoleCmd) Run(c *command) error {
	chain := append([]string{}, p.Models...)
	return show(c, "providers.set_role", map[string]any{"role": p.Role, "chain": chain}, func(v providers.RoleView) {
		c.table([]string{"ROLE", "MODELS", "PROBLEMS"}, [][]string{c.roleRow(v)})
	})
}

type catalogCmd struct {
	Show   catalogShowCmd   `cmd:"" default:"withargs" help:"Show what is known about models."`
	Fetch  catalogFetchCmd  `cmd:"" help:"Fetch the public catalogue of models."`
	Verify catalogVerifyCmd `cmd:"" help:"Compare the catalogue with the one of this version."`
}

type catalogShowCmd struct {
	Ref string `arg:"" optional:"" name:"provider" help:"Provider, or provider/model."`
}

func (p *catalogShowCmd) Run(c *command) error {
	provider, model := providers.ModelRef(p.Ref).Split()
	return show(c, "catalog.show", map[string]any{"provider": provider, "model": model}, func(r providers.ShowResult) {
		if provider == "" {
			c.fields("date", r.Date, "sha256", r.SHA256, "providers", strings.Join(r.Providers, ", "))
			return
		}
		c.printModels(r.Models)
	})
}

type catalogFetchCmd struct{}

func (*catalogFetchCmd) Run(c *command) error {
	return show(c, "catalog.fetch", nil, func(r providers.FetchResult) {
		c.fields("date", r.Date, "models", strconv.Itoa(r.Models), "added", strconv.Itoa(r.Changed.Added), "removed", strconv.Itoa(r.Changed.Removed), "new prices", strconv.Itoa(r.Changed.Priced))
	})
}

type catalogVerifyCmd struct{}

func (*catalogVerifyCmd) Run(c *command) error {
	return shown(c, "catalog.verify", nil, func(r providers.VerifyResult) {
		rows := [][]string{}
		for _, d := range r.Differences {
			rows = append(rows, []string{string(d.Model), d.Kind})
		}
		if len(rows) > 0 {
			c.table([]string{"MODEL", "CHANGE"}, rows)
		}
	}, func(r providers.VerifyResult) int {
		if r.Equal {
			return 0
		}
		return 1
	})
}

type tokensCmd struct {
	Model string `help:"Model as provider/model."`
	File  string `arg:"" optional:"" default:"-" help:"File, or - for standard input."`
}

func (p *tokensCmd) Run(c *command) error {
	var b []byte
	var err error
	if p.File == "-" {
		b, err = io.ReadAll(io.LimitReader(c.env.Stdin, maxInput))
	} else {
		b, err = os.ReadFile(p.File)
	}
	if err != nil {
		return fault.Invalidf("Couldn't read %s.", p.File).WithCause(err)
	}
	return show(c, "providers.count_tokens", map[string]any{"model": p.Model, "text": string(b)}, func(r providers.CountResult) {
		fmt.Fprintf(c.env.Stdout, "%d (%s)\n", r.Tokens, r.Method)
	})
}
