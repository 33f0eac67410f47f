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
	"helix/backend/lifecycle"
)

// Export implements callable.Portable. The tools keep their signatures; this device signs the share
// file, not the tools.
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
func (r *toolProvider) Import(ctx context.Context, raw []json.RawMessage, commit bool) ([]callable.Imported, error) {
	out := make([]callable.Imported, len(raw))
	if len(raw) == 0 {
		return out, nil
	}
	if len(raw) > maxBundleTools {
		return nil, fault.Limitf("A share file holds at most %d tools.", maxBundleTools)
	}
	list, err := r.s.checker().readBundle(ctx, bundleOf(raw))
	if err != nil {
		return nil, err
	}
	_, reviews, err := r.s.importList(ctx, list, lifecycle.Reuse, OriginImport, commit)
	if err != nil {
		return nil, err
	}
	for i, v := range reviews {
		if v.Signature.State == lifecycle.SignatureInvalid {
			return nil, fault.Invalidf("The signature of the tool %q does not match it.", list[i].Name)
		}
		out[i] = callable.Imported{Name: list[i].Name, As: v.Name, New: v.Action == lifecycle.Create, Warnings: v.Warnings}
	}
	return out, nil
}

func bundleOf(list []json.RawMessage) json.RawMessage {
	b, err := json.Marshal(map[string]any{"format": bundleFormat, "formatVersion": bundleVersion, "exportedAt": time.Time{}, "tools": list})
	if err != nil {
		return json.RawMessage("{}") // not JSON: the reader rejects the empty object
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
