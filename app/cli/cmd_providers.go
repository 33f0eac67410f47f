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
	List   providersListCmd `cmd:"" default:"withargs" help:"List model providers with their state."`
	Show   providersShowCmd `cmd:"" help:"Show a provider."`
	Add    providersAddCmd  `cmd:"" help:"Add or change a provider."`
	Remove struct {
		Name string `arg:"" help:"Name of the provider."`
		Yes  bool   `help:"Don't ask."`
	} `cmd:"" help:"Remove a provider and its key." confirm:"Remove $name and its key?" call:"providers.remove" say:"removed $name"`
	Enable  providersOnCmd     `cmd:"" help:"Enable a provider."`
	Disable providersOffCmd    `cmd:"" help:"Disable a provider."`
	Test    providersTestCmd   `cmd:"" help:"Test a provider step by step."`
	Detect  providersDetectCmd `cmd:"" help:"Find model servers on this computer."`
	Models  providersModelsCmd `cmd:"" help:"List models."`
	Roles   providersRolesCmd  `cmd:"" help:"Show which models are used for which role."`
	Role    providersRoleCmd   `cmd:"" help:"Choose the models of a role."`
}

type providersListCmd struct{}

func (*providersListCmd) Run(c *command) error {
	return show(c, "providers.list", nil, func(r providers.ListResult) {
		list(c, r.Providers, "", []string{"NAME", "TYPE", "STATE", "KEY", "MODELS", "URL"}, func(p providers.View) []string {
			return []string{p.Name, p.Type, p.State, first(p.KeySource, "-"), strconv.Itoa(p.Models), p.BaseURL}
		})
	})
}

type providersShowCmd struct {
	Name string `arg:"" help:"Name of the provider."`
}

func (*providersShowCmd) Run(c *command) error { return answer(c, "providers.get", c.printProvider) }

func (c *command) printProvider(p providers.View) {
	c.fields("name", p.Name, "type", p.Type, "URL", p.BaseURL, "state", p.State, "key", first(p.KeySource, "none"), "circuit", p.Circuit.State, "last error", p.LastError, "problem", p.Problem)
}

type providersAddCmd struct {
	Name    string `arg:"" help:"Name of the provider: a-z, 0-9, _ and -."`
	Type    string `required:"" enum:"openai,openai_responses,anthropic,gemini,scripted" help:"Kind of service (${enum})."`
	BaseURL string `name:"base-url" placeholder:"URL" help:"Address, if it isn't the default for the kind."`
	KeyEnv  string `placeholder:"VARIABLE" help:"Environment variable with the key."`
	Private bool   `name:"private-network" help:"Allow an address on your private network, such as 192.168.1.5, even without https."`
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
	Model string `help:"Model to call with --call."`
	Call  bool   `help:"Also send one short message. This costs money."`
}

func (*providersTestCmd) Run(c *command) error {
	params, err := c.given()
	if err != nil {
		return err
	}
	return shown(c, "providers.test", params, func(r providers.TestResult) {
		list(c, r.Steps, "", []string{"STEP", "RESULT", "TIME", "MESSAGE"}, func(s providers.TestStep) []string {
			state := "ok"
			if !s.OK {
				state = "failed"
			}
			return []string{s.Step, state, fmt.Sprintf("%d ms", s.Ms), strings.TrimSpace(s.Message + " " + s.Hint)}
		})
	}, func(r providers.TestResult) int {
		if n := len(r.Steps); n > 0 && !r.Steps[n-1].OK {
			return ExitCode(r.Steps[n-1].Kind)
		}
		return 0
	})
}

type providersDetectCmd struct{}

func (*providersDetectCmd) Run(c *command) error {
	return show(c, "providers.detect", nil, func(r providers.DetectResult) {
		list(c, r.Found, "No model server responded on this computer.", []string{"PRODUCT", "URL", "MODELS"}, func(f providers.Detected) []string {
			return []string{f.Product, f.BaseURL, strings.Join(f.Models, ", ")}
		})
	})
}

type providersModelsCmd struct {
	Query      string `arg:"" optional:"" help:"Text in the name."`
	Provider   string `help:"Only from this provider."`
	Capability string `default:"" enum:",tools,images,files,reasoning,structured" placeholder:"WHAT" help:"Only models with this capability (tools, images, files, reasoning, structured)."`
	Limit      int    `default:"50"`
	Offset     int    `default:"0"`
}

func (*providersModelsCmd) Run(c *command) error {
	return answer(c, "providers.models", func(r providers.ModelsResult) {
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
	list(c, models, "", []string{"MODEL", "WINDOW", "OUTPUT", "IN/M", "OUT/M"}, func(m providers.ModelInfo) []string {
		return []string{string(m.Ref), strconv.Itoa(m.Window), strconv.Itoa(m.Output), price(m.Prices.Input), price(m.Prices.Output)}
	})
}

type providersRolesCmd struct{}

func (*providersRolesCmd) Run(c *command) error {
	return show(c, "providers.roles", nil, func(r providers.RolesResult) {
		list(c, r.Roles, "", []string{"ROLE", "MODELS", "PROBLEMS"}, func(v providers.RoleView) []string {
			return c.roleRow(v)
		})
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
	Show   catalogShowCmd   `cmd:"" default:"withargs" help:"Show details about models."`
	Fetch  catalogFetchCmd  `cmd:"" help:"Fetch the public model catalog."`
	Verify catalogVerifyCmd `cmd:"" help:"Compare the catalog with the one built into this version."`
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
	}, func(r providers.VerifyResult) int { return failIf(!r.Equal, 1) })
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
