package discovery

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/openapi"
)

// UpgradeParams name another definition of a tool: an API description or a manifest.
type UpgradeParams struct {
	ManifestID uuid.UUID `json:"manifestId"`
	Path       string    `json:"path,omitempty"`    // a file that the user chose
	Content    string    `json:"content,omitempty"` // the text itself
	URL        string    `json:"url,omitempty"`
	DryRun     bool      `json:"dryRun,omitempty"` // only return what would change
}

// UpgradeResult is a tool with another definition, which waits for approval.
type UpgradeResult struct {
	ImportResult
	Breaking []string `json:"breaking"` // operations that are gone, and inputs that are accepted no longer
}

// Upgrade replaces the definition of a tool and keeps its ID, name, credentials and history. Of an API
// description it takes the operations that the tool has. It must be approved again, and until then doesn't run.
// The same definition changes nothing.
func (s *Service) Upgrade(ctx context.Context, p UpgradeParams) (UpgradeResult, error) {
	out := UpgradeResult{Breaking: []string{}}
	t, err := s.load(ctx, p.ManifestID)
	if err != nil {
		return out, err
	}
	if t.Status == StatusRevoked {
		return out, fault.Conflictf("The tool %s is revoked. Import it again to use it.", t.Name)
	}
	was, err := s.open(ctx, t)
	if err != nil {
		return out, err
	}
	raw, location, err := s.read(ctx, Source{p.Path, p.Content, p.URL})
	if err != nil {
		return out, err
	}
	doc, err := openapi.Decode(raw)
	if err != nil {
		return out, err
	}
	if doc["openapi"] == nil && doc["swagger"] == nil {
		out.ImportResult, err = s.ImportManifest(ctx, ImportManifestParams{Content: string(raw), DryRun: &p.DryRun, OnConflict: "upgrade", as: t.Name, from: location})
	} else {
		out.ImportResult, err = s.upgradeOperations(ctx, t, raw, location, p.DryRun)
	}
	if err != nil {
		return out, err
	}
	kept, err := s.blob(out.Manifest.Execution.OpenAPI)
	if err != nil {
		return out, err
	}
	d, err := openapi.Parse(kept, location)
	if err != nil {
		return out, err
	}
	for _, c := range t.manifest.Capabilities {
		is, ok := out.Manifest.capability(c.Name)
		if !ok {
			out.Breaking = append(out.Breaking, c.Name+": the operation is gone")
			continue
		}
		plan, err := d.Plan(is.Operation)
		if err != nil {
			return out, err
		}
		for _, why := range openapi.Narrowed(was.plans[c.Name].Input, plan.Input) {
			out.Breaking = append(out.Breaking, c.Name+": "+why)
		}
	}
	return out, nil
}

// upgradeOperations imports the operations of a tool from another description.
func (s *Service) upgradeOperations(ctx context.Context, was *Tool, raw []byte, location string, dryRun bool) (ImportResult, error) {
	d, err := openapi.Parse(raw, location)
	if err != nil {
		return ImportResult{}, err
	}
	chosen := slices.DeleteFunc(slices.Clone(d.Operations), func(o openapi.Operation) bool {
		return !slices.ContainsFunc(was.manifest.Capabilities, func(c Capability) bool { return c.Operation == o.Key })
	})
	if len(chosen) == 0 {
		return ImportResult{}, fault.Invalidf("The API description has none of the operations of %s. Import it as another tool.", was.Name)
	}
	t := &Tool{Name: was.Name, Version: was.Version, Description: was.Description, SourceType: was.SourceType, SourceLocation: location, Type: "http", user: identity.UserID(ctx)}
	if toolVersion.MatchString(d.Version) {
		t.Version = d.Version
	}
	warnings, err := s.define(ctx, t, d, chosen, was.manifest.Execution.Server)
	if err != nil {
		return ImportResult{}, err
	}
	m, old := &t.manifest, &was.manifest
	m.Author, m.Homepage, m.License, m.Execution.TimeoutSeconds = old.Author, old.Homepage, old.License, old.Execution.TimeoutSeconds
	m.Samples = slices.DeleteFunc(slices.Clone(old.Samples), func(x Sample) bool { _, ok := m.capability(x.Capability); return !ok })
	if t.hash, err = m.hash(); err != nil {
		return ImportResult{}, err
	}
	out := ImportResult{Manifest: *m, DefinitionHash: fmt.Sprintf("%x", t.hash), Warnings: warnings}
	return s.commit(ctx, t, out, conflict{dryRun: dryRun, onConflict: "upgrade"})
}
