package backend

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/skills"
	"helix/backend/skills/definition"
	"helix/backend/tools"
)

// bundled is how many tools travel in one bundle.
const bundled = 100

// ExportTools implements skills.ToolSharer. The tools carry the signatures that they have;
// the share file itself is what this device signs.
func (r *toolRunner) ExportTools(ctx context.Context, ids []string) ([]json.RawMessage, error) {
	order := make([]uuid.UUID, 0, len(ids))
	for _, text := range ids {
		id, err := uuid.Parse(text)
		if err != nil {
			return nil, fault.NotFoundf("There is no such tool.")
		}
		order = append(order, id)
	}
	out := []json.RawMessage{}
	sign := false
	for _, id := range order {
		b, err := r.tools.Export(ctx, tools.ExportParams{ToolIDs: []uuid.UUID{id}, Sign: &sign})
		if err != nil {
			return nil, err
		}
		raw, err := json.Marshal(b.Bundle.Tools[0])
		if err != nil {
			return nil, err
		}
		out = append(out, raw)
	}
	return out, nil
}

// ImportTools implements skills.ToolSharer.
func (r *toolRunner) ImportTools(ctx context.Context, list []json.RawMessage, commit bool) ([]skills.ImportedTool, error) {
	if len(list) == 0 {
		return []skills.ImportedTool{}, nil
	}
	items, err := r.review(ctx, list)
	if err != nil {
		return nil, err
	}
	out := make([]skills.ImportedTool, len(list))
	var fresh []json.RawMessage
	var places []int
	for i, it := range items {
		out[i] = skills.ImportedTool{Name: it.Name, As: it.Name, Warnings: it.Warnings}
		if it.Action == "blocked" {
			return nil, fault.Invalidf("The signature of the tool %q does not match it.", it.Name)
		}
		mine, err := r.tools.FindCallable(ctx, uuid.Nil, it.Name)
		if err != nil {
			return nil, err
		}
		if len(mine) == 1 && mine[0].Mine && mine[0].DefinitionHash == it.DefinitionHash {
			continue // it is here already
		}
		out[i].New, fresh, places = true, append(fresh, list[i]), append(places, i)
		if it.NewName != "" {
			out[i].As = it.NewName
		}
	}
	if len(fresh) == 0 || !commit {
		return out, nil
	}
	if _, err := r.review(ctx, fresh); err != nil { // an import adds exactly what was reviewed
		return nil, err
	}
	dry := false
	done, err := r.tools.Import(ctx, tools.ImportParams{Bundle: bundleOf(fresh), DryRun: &dry, OnConflict: tools.Rename})
	if err != nil {
		return nil, err
	}
	for n, t := range done.Tools {
		out[places[n]].As = t.Name
	}
	return out, nil
}

func (r *toolRunner) review(ctx context.Context, list []json.RawMessage) ([]tools.ImportItem, error) {
	if len(list) > bundled {
		return nil, fault.Limitf("A share file holds at most %d tools.", bundled)
	}
	dry := true
	res, err := r.tools.Import(ctx, tools.ImportParams{Bundle: bundleOf(list), DryRun: &dry, OnConflict: tools.Rename})
	return res.Items, err
}

func bundleOf(list []json.RawMessage) json.RawMessage {
	b, err := json.Marshal(map[string]any{"format": "helix-tools", "formatVersion": 1, "exportedAt": time.Time{}, "tools": list})
	if err != nil {
		return json.RawMessage("{}") // a value of the file is no JSON: the reader says so
	}
	return b
}

// TrustedSigner implements skills.ToolSharer: one list of signers serves tools and skills.
func (r *toolRunner) TrustedSigner(ctx context.Context, fingerprint string) (name string, trusted bool, err error) {
	known, err := r.tools.Signers(ctx, struct{}{})
	if err != nil {
		return "", false, err
	}
	for _, s := range known.Signers {
		if strings.EqualFold(s.Fingerprint, fingerprint) {
			return s.Name, s.Trusted, nil
		}
	}
	return "", false, nil
}

// EnsureTool implements skills.ToolMaker.
func (r *toolRunner) EnsureTool(ctx context.Context, d skills.ToolDraft) (definition.Callable, error) {
	v, err := r.tools.Validate(ctx, tools.ValidateParams{Code: d.Code, Language: tools.Language(d.Language), Description: d.Description, Parameters: d.Parameters})
	if err != nil {
		return definition.Callable{}, err
	}
	mine, err := r.tools.Callables(ctx)
	if err != nil {
		return definition.Callable{}, err
	}
	for i := range mine {
		c := &mine[i]
		if c.DefinitionHash != v.DefinitionHash || c.Name != d.Name && !strings.HasPrefix(c.Name, d.Name+" ") {
			continue
		}
		if m, err := r.tools.Metadata(ctx, tools.ToolID{ToolID: c.ID}); err == nil && m.IsEnabled {
			return callable(definition.Custom, c), nil
		}
	}
	p := tools.CreateParams{Name: d.Name, Description: d.Description, Language: tools.Language(d.Language), Code: d.Code, Parameters: d.Parameters, Tags: d.Tags, Icon: d.Icon}
	made, err := r.tools.Create(ctx, p)
	for n := 2; n < 100 && fault.Is(err, fault.Conflict); n++ {
		p.Name = fmt.Sprintf("%s %d", d.Name, n)
		made, err = r.tools.Create(ctx, p)
	}
	if err != nil {
		return definition.Callable{}, err
	}
	found, err := r.tools.FindCallable(ctx, made.Tool.ID, "")
	if err != nil || len(found) == 0 {
		return definition.Callable{}, err
	}
	return callable(definition.Custom, &found[0]), nil
}

var (
	_ skills.ToolSharer = (*toolRunner)(nil)
	_ skills.ToolMaker  = (*toolRunner)(nil)
)
