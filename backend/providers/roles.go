package providers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"helix/backend/audit"
	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

// ModelsParams selects models.
type ModelsParams struct {
	Provider string `json:"provider,omitempty"`
	// Query must occur in the name or the id.
	Query string `json:"query,omitempty"`
	// Capability is tools, images, files, reasoning or structured.
	Capability string `json:"capability,omitempty"`
	// Limit is 1 to 200; default 50.
	Limit  int `json:"limit,omitempty"`
	Offset int `json:"offset,omitempty"`
}

// ModelsResult is one page.
type ModelsResult struct {
	Models []ModelInfo `json:"models"`
	Total  int         `json:"total"`
}

// Models lists the models that the catalog has for the services in the registry.
func (s *Service) Models(ctx context.Context, p ModelsParams) (ModelsResult, error) {
	out := ModelsResult{Models: []ModelInfo{}}
	if err := storage.CheckPage(&p.Limit, &p.Offset, 50, 200); err != nil {
		return out, err
	}
	entries, _, err := s.config(ctx)
	if err != nil {
		return out, err
	}
	cat, err := s.catalog()
	if err != nil {
		return out, err
	}
	query := strings.ToLower(p.Query)
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		if p.Provider != "" && name != p.Provider {
			continue
		}
		provider := catalogProvider(cat, name, entries[name])
		for _, id := range slices.Sorted(maps.Keys(cat.Providers[provider].Models)) {
			i, _ := cat.Info(provider, id)
			i.Ref = ModelRef(name + "/" + id)
			s.Router.o.Override(name, &i)
			if !strings.Contains(strings.ToLower(string(i.Ref)+" "+i.Name), query) || !i.Caps.has(p.Capability) {
				continue
			}
			if out.Total++; out.Total > p.Offset && len(out.Models) < p.Limit {
				out.Models = append(out.Models, i)
			}
		}
	}
	return out, nil
}

func (c Caps) has(capability string) bool {
	switch capability {
	case "tools":
		return c.Tools
	case "images":
		return c.Images
	case "files":
		return c.Files
	case "reasoning":
		return c.Reasoning
	case "structured":
		return c.Structured
	}
	return capability == ""
}

// RoleView is a role with its models.
type RoleView struct {
	Role  Role       `json:"role"`
	Chain []ModelRef `json:"chain"`
	// Problems describe, in sentences, why models of the chain can't be used.
	Problems []string   `json:"problems"`
	Options  RoleConfig `json:"options"`
	// FromFile reports that the role is set in config.toml and must be changed there.
	FromFile bool `json:"fromFile,omitempty"`
}

// RolesResult holds all roles.
type RolesResult struct {
	Roles []RoleView `json:"roles"`
}

// Roles returns the models of each role.
func (s *Service) Roles(ctx context.Context, _ struct{}) (RolesResult, error) {
	out := RolesResult{}
	entries, roles, err := s.config(ctx)
	if err != nil {
		return out, err
	}
	for _, role := range Roles() {
		out.Roles = append(out.Roles, s.role(ctx, role, roles[role], entries))
	}
	return out, nil
}

func (s *Service) role(ctx context.Context, role Role, c RoleConfig, entries map[string]Entry) RoleView {
	v := RoleView{Role: role, Chain: c.Chain, Problems: []string{}, Options: c}
	if v.Chain == nil {
		v.Chain, v.Options.Chain = []ModelRef{}, []ModelRef{}
	}
	fromFile, problems := s.fileRoles()
	if _, v.FromFile = fromFile[role]; problems[role] != "" {
		v.Problems = append(v.Problems, problems[role])
	}
	for _, ref := range v.Chain {
		t, err := s.resolve(ctx, entries, ref)
		if err != nil {
			v.Problems = append(v.Problems, fault.As(err).Message)
			continue
		}
		window := map[Role]int{RoleChat: 16_000, RoleSynthesis: 32_000}[role]
		if role == RoleChat && !t.info.Caps.Tools {
			v.Problems = append(v.Problems, fmt.Sprintf("%s can't call tools.", ref))
		}
		switch {
		case t.info.Window >= window:
		case t.info.silent:
			v.Problems = append(v.Problems, fmt.Sprintf("%s needs a window of %d tokens. %s", role, window, silentHint(ref)))
		case t.info.LoadedWindow == t.info.Window:
			v.Problems = append(v.Problems, fmt.Sprintf("The server has loaded %s with a window of %d tokens; %s needs %d. Increase the context length there.", ref, t.info.Window, role, window))
		default:
			v.Problems = append(v.Problems, fmt.Sprintf("The window of %s is %d tokens; %s needs %d.", ref, t.info.Window, role, window))
		}
	}
	return v
}

// SetRoleParams selects the models of a role.
type SetRoleParams struct {
	Role Role `json:"role"`
	// Chain names models as provider/model, first preferred. Empty: none.
	Chain []ModelRef `json:"chain"`
	// Options are the effort, the temperature, the longest answer and the highest cost of a call.
	Options *RoleConfig `json:"options,omitempty"`
}

// SetRole sets the models of a role.
func (s *Service) SetRole(ctx context.Context, p SetRoleParams) (RoleView, error) {
	if !slices.Contains(Roles(), p.Role) {
		return RoleView{}, fault.InvalidField("role", fault.CodeUnknownValue, "A role is chat, fast, synthesis or embed.")
	}
	if fromFile, _ := s.fileRoles(); fromFile[p.Role].Chain != nil {
		return RoleView{}, fault.Conflictf("The role %s is set in config.toml. Change it there.", p.Role)
	}
	entries, roles, err := s.config(ctx)
	if err != nil {
		return RoleView{}, err
	}
	if len(p.Chain) > 8 {
		return RoleView{}, fault.InvalidField("chain", fault.CodeTooLong, "A role has at most 8 models.")
	}
	for i, ref := range p.Chain {
		name, model := ref.Split()
		e, ok := entries[name]
		if !ok || model == "" {
			return RoleView{}, fault.InvalidField(fmt.Sprintf("chain[%d]", i), fault.CodeUnknownValue, "%q isn't a model of any provider.", ref)
		}
		if _, err := s.info(name, e, model); err != nil {
			return RoleView{}, fault.In(fmt.Sprintf("chain[%d]", i), err)
		}
	}
	c := roles[p.Role]
	if p.Options != nil {
		c = *p.Options
	}
	if c.Temperature != nil && !(*c.Temperature >= 0 && *c.Temperature <= 2) || c.MaxOutput < 0 || c.MaxCostMicrosCall < 0 {
		return RoleView{}, fault.InvalidField("options", fault.CodeRange, "A temperature is 0 to 2, and limits are not negative.")
	}
	c.Chain = p.Chain
	if err := s.db.Write(ctx, func(tx *storage.Tx) error {
		if err := storeRole(tx, p.Role, c); err != nil {
			return err
		}
		return audit.Append(tx, audit.Entry{Action: "providers.role_set", SubjectKind: "model_role", SubjectID: string(p.Role), Details: map[string]any{"chain": p.Chain}})
	}); err != nil {
		return RoleView{}, err
	}
	bus.Publish(s.db.Bus(), identity.UserID(ctx), Changed{})
	return s.role(ctx, p.Role, c, entries), nil
}
