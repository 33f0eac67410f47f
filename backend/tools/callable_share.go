package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/callable"
	"helix/backend/fault"
)

// bundled is how many tools travel in one bundle.
const bundled = 100

// Export implements callable.Portable. The tools carry the signatures that they have;
// the share file itself is what this device signs.
func (r *toolProvider) Export(ctx context.Context, ids []string) ([]json.RawMessage, error) {
	order := make([]uuid.UUID, 0, len(ids))
	for _, text := range ids {
		id, err := uuid.Parse(text)
		if err != nil {
			return nil, fault.NotFoundf("Tool not found.")
		}
		order = append(order, id)
	}
	out := []json.RawMessage{}
	sign := false
	for _, id := range order {
		b, err := r.s.Export(ctx, ExportParams{ToolIDs: []uuid.UUID{id}, Sign: &sign})
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

// Import implements callable.Portable.
func (r *toolProvider) Import(ctx context.Context, list []json.RawMessage, commit bool) ([]callable.Imported, error) {
	if len(list) == 0 {
		return []callable.Imported{}, nil
	}
	items, err := r.review(ctx, list)
	if err != nil {
		return nil, err
	}
	out := make([]callable.Imported, len(list))
	var fresh []json.RawMessage
	var places []int
	for i, it := range items {
		out[i] = callable.Imported{Name: it.Name, As: it.Name, Warnings: it.Warnings}
		if it.Action == "blocked" {
			return nil, fault.Invalidf("The signature of the tool %q does not match it.", it.Name)
		}
		mine, err := r.Find(ctx, "", it.Name)
		if err != nil {
			return nil, err
		}
		if len(mine) == 1 && mine[0].Blocked != callable.ReasonForeign && mine[0].Hash == it.DefinitionHash {
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
	done, err := r.s.Import(ctx, ImportParams{Bundle: bundleOf(fresh), DryRun: &dry, OnConflict: Rename})
	if err != nil {
		return nil, err
	}
	for n, t := range done.Tools {
		out[places[n]].As = t.Name
	}
	return out, nil
}

func (r *toolProvider) review(ctx context.Context, list []json.RawMessage) ([]ImportItem, error) {
	if len(list) > bundled {
		return nil, fault.Limitf("A share file holds at most %d tools.", bundled)
	}
	dry := true
	res, err := r.s.Import(ctx, ImportParams{Bundle: bundleOf(list), DryRun: &dry, OnConflict: Rename})
	return res.Items, err
}

func bundleOf(list []json.RawMessage) json.RawMessage {
	b, err := json.Marshal(map[string]any{"format": "helix-tools", "formatVersion": 1, "exportedAt": time.Time{}, "tools": list})
	if err != nil {
		return json.RawMessage("{}") // a value of the file is no JSON: the reader says so
	}
	return b
}

// Ensure implements callable.Maker.
func (r *toolProvider) Ensure(ctx context.Context, d callable.Draft) (callable.Info, error) {
	v, err := r.s.Validate(ctx, ValidateParams{Code: d.Code, Language: Language(d.Language), Description: d.Description, Parameters: d.Parameters})
	if err != nil {
		return callable.Info{}, err
	}
	mine, err := r.List(ctx)
	if err != nil {
		return callable.Info{}, err
	}
	for i := range mine {
		c := &mine[i]
		if c.Hash == v.DefinitionHash && c.Blocked == "" && (c.Name == d.Name || strings.HasPrefix(c.Name, d.Name+" ")) {
			return *c, nil
		}
	}
	p := CreateParams{Name: d.Name, Description: d.Description, Language: Language(d.Language), Code: d.Code, Parameters: d.Parameters, Tags: d.Tags, Icon: d.Icon}
	made, err := r.s.Create(ctx, p)
	for n := 2; n < 100 && fault.Is(err, fault.Conflict); n++ {
		p.Name = fmt.Sprintf("%s %d", d.Name, n)
		made, err = r.s.Create(ctx, p)
	}
	if err != nil {
		return callable.Info{}, err
	}
	found, err := r.Find(ctx, made.Tool.ID.String(), "")
	if err != nil || len(found) == 0 {
		return callable.Info{}, err
	}
	return found[0], nil
}
