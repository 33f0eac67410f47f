package tools

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/lifecycle"
	"helix/backend/storage"
)

// Bundle is a file of tools. It never contains secrets, state, usage, grants or a user id.
type Bundle struct {
	Format        string       `json:"format"` // helix-tools
	FormatVersion int          `json:"formatVersion"`
	ExportedAt    time.Time    `json:"exportedAt"`
	Tools         []BundleTool `json:"tools"`
}

// BundleTool is one tool in a bundle.
type BundleTool struct {
	Definition BundleDefinition           `json:"definition"`
	Version    string                     `json:"version"`
	Author     string                     `json:"author"`
	Tags       []string                   `json:"tags"`
	Icon       string                     `json:"icon"`
	Samples    []Sample                   `json:"samples,omitempty"`
	Signature  *lifecycle.BundleSignature `json:"signature,omitempty"`
	History    []BundleVersion            `json:"history,omitempty"`
}

// BundleDefinition is the name of a tool and the fields covered by the definition hash.
type BundleDefinition struct {
	Name           string          `json:"name"`
	Description    string          `json:"description"`
	Language       Language        `json:"language"`
	Code           string          `json:"code"`
	Parameters     json.RawMessage `json:"parameters"`
	Capabilities   []string        `json:"capabilities"`
	SandboxProfile Profile         `json:"sandboxProfile"`
	Limits         *Limits         `json:"limits,omitempty"`
}

// BundleVersion is an earlier version of a tool in a bundle.
type BundleVersion struct {
	Version    string           `json:"version"`
	Note       string           `json:"note"`
	Author     string           `json:"author"`
	CreatedAt  time.Time        `json:"createdAt"`
	Definition BundleDefinition `json:"definition"`
}

// ExportParams lists the tools to export.
type ExportParams struct {
	ToolIDs        []uuid.UUID `json:"toolIds"` // 1..100
	IncludeHistory bool        `json:"includeHistory,omitempty"`
	Sign           *bool       `json:"sign,omitempty"` // default true: sign unsigned tools with this device's key
	Path           string      `json:"path,omitempty"` // also write the bundle to this new file, mode 0600; needs the admin scope
}

// ExportResult contains the bundle, ready to be written to a file.
type ExportResult struct {
	Bundle Bundle `json:"bundle"`
	Path   string `json:"path,omitempty"` // of the file, if one was written
}

// Limits and names of bundles.
const (
	bundleFormat   = "helix-tools"
	bundleVersion  = 1
	maxBundle      = 5 << 20
	maxBundleTools = 100
	maxBundleDepth = 48
)

// bundleContainer is the container format of bundles. Each tool has its own signature, so the file
// itself has none.
var bundleContainer = lifecycle.Container{Format: bundleFormat, Version: bundleVersion, MaxBytes: maxBundle, MaxDepth: maxBundleDepth}

// Export exports tools as a bundle. Each tool keeps its signature; an unsigned one is signed with
// this device's key, unless sign is false or the key is locked.
func (s *Service) Export(ctx context.Context, p ExportParams) (ExportResult, error) {
	out := ExportResult{Bundle: Bundle{Format: bundleFormat, FormatVersion: bundleVersion, Tools: []BundleTool{}}}
	if len(p.ToolIDs) == 0 || len(p.ToolIDs) > maxBundleTools {
		return out, fault.Invalidf("Choose 1 to %d tools to export.", maxBundleTools)
	}
	if p.Path != "" {
		if err := mayWriteFile(ctx, p.Path); err != nil {
			return out, err
		}
	}
	sign := p.Sign == nil || *p.Sign
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		out.Bundle.ExportedAt = tx.Now
		seen := map[uuid.UUID]bool{}
		for _, id := range p.ToolIDs {
			if seen[id] {
				continue
			}
			seen[id] = true
			t, err := ownTool(tx, id)
			if err != nil {
				return err
			}
			b, err := s.bundleTool(tx, t, sign)
			if err != nil {
				return err
			}
			if p.IncludeHistory {
				if b.History, err = history(tx, t); err != nil {
					return err
				}
			}
			out.Bundle.Tools = append(out.Bundle.Tools, b)
			if err := s.kind.Record(tx, t.item(), "exported", map[string]any{"version": t.Version, "definitionHash": t.DefinitionHash}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return out, err
	}
	if n := len(lifecycle.Text(out.Bundle)); n > maxBundle {
		return ExportResult{}, fault.Limitf("The bundle would have %d bytes; at most %d are allowed. Export fewer tools, or without their history.", n, maxBundle)
	}
	if p.Path != "" {
		if err := writeBundle(p.Path, out.Bundle); err != nil {
			return ExportResult{}, err
		}
		out.Path = p.Path
	}
	return out, nil
}

// bundleTool returns a tool in its exported form.
func (s *Service) bundleTool(tx *storage.Tx, t *Tool, sign bool) (BundleTool, error) {
	b := BundleTool{
		Definition: t.definition().normalize().bundle(t.Name), Version: t.Version, Author: t.Author, Tags: t.Tags, Icon: t.Icon, Samples: t.Samples,
	}
	switch state := t.sig.Verify(t.hash, t.Code); {
	case state == lifecycle.SignatureLegacy:
		b.Signature = t.sig
	case state == lifecycle.SignatureUnknown && t.sig.Name == t.Name && t.sig.Version == t.Version && t.sig.Author == t.Author:
		b.Signature = t.sig
	case sign:
		sig, err := lifecycle.Sign(tx, s.db, t.item(), t.hash, t.Author)
		if fault.Is(err, fault.Unavailable) {
			return b, nil // the key is locked: export the tool unsigned
		}
		if err != nil {
			return b, err
		}
		b.Signature, b.Author = sig, sig.Author
	}
	return b, nil
}

func history(tx *storage.Tx, t *Tool) ([]BundleVersion, error) {
	var out []BundleVersion
	err := tx.Select(`SELECT `+versionColumns+` FROM custom_tool_versions WHERE custom_tool_id = ? AND version IS NOT ? ORDER BY created_at`, t.ID, t.Version).Each(func(row storage.Row) error {
		v, err := scanVersion(row)
		if err != nil {
			return err
		}
		out = append(out, BundleVersion{Version: v.Version, Note: v.Note, Author: v.Author, CreatedAt: v.CreatedAt, Definition: v.def.normalize().bundle(t.Name)})
		return nil
	})
	return out, err
}
