package skills

import (
	"context"
	"encoding/json"

	"helix/backend/skills/definition"
)

// ToolSharer is what a ToolRunner may also offer: tools that travel in share files. Without
// it skills travel alone.
type ToolSharer interface {
	// ExportTools gives the user's own tools of these ids as they travel, in that order.
	// Equal tools give equal values: no time of the export is in them. A tool that may not
	// travel is NotFound or Denied.
	ExportTools(ctx context.Context, ids []string) ([]json.RawMessage, error)
	// ImportTools says what becomes of tools that came with a skill, one answer each and in
	// their order; with commit it does it. A tool that the user has already, with that name
	// and that definition, is kept; another one of that name makes the new tool take a free
	// name. New tools are as tools.import makes them: private and disabled.
	ImportTools(ctx context.Context, tools []json.RawMessage, commit bool) ([]ImportedTool, error)
	// TrustedSigner tells the name that the user gave to a signing key, by the SHA-256 of the
	// key in hex, and whether the user trusts it.
	TrustedSigner(ctx context.Context, fingerprint string) (name string, trusted bool, err error)
}

// ImportedTool says what becomes of one tool of a share file.
type ImportedTool struct {
	Name     string   // in the file
	As       string   // here
	New      bool     // it is, or would be, added
	Warnings []string // such as that its signature is unknown
}

// ToolMaker is what a ToolRunner may also offer: making the small tools that a template
// needs.
type ToolMaker interface {
	// EnsureTool gives the user's enabled tool of that name and that definition, and makes it
	// when there is none. When another tool has the name, the new one takes a free name.
	EnsureTool(ctx context.Context, d ToolDraft) (definition.Callable, error)
}

// ToolDraft describes a small tool. It asks for no capability.
type ToolDraft struct {
	Name        string
	Description string
	Language    string // javascript or typescript
	Code        string
	Parameters  json.RawMessage // JSON Schema
	Tags        []string
	Icon        string
}
