package callable

import (
	"context"
	"encoding/json"
)

// Portable is a Provider whose callables can be included in the share files of their callers.
type Portable interface {
	// Export returns the exported form of the user's own callables with these ids, in that order. Equal
	// callables have equal forms. The error is NotFound or Denied for one that cannot be exported.
	Export(ctx context.Context, ids []string) ([]json.RawMessage, error)
	// Import returns what happens to callables from a file, in their order. With commit it adds
	// them, private and disabled. A callable that the user already has, with the same name and
	// definition, is kept; if only the name is the same, the new one gets another name.
	Import(ctx context.Context, list []json.RawMessage, commit bool) ([]Imported, error)
}

// Imported is what happens to one callable of a file.
type Imported struct {
	Name     string   // in the file
	As       string   // name after the import
	New      bool     // it was, or would be, added
	Warnings []string // such as that its signer is unknown
}

// Maker is a Provider that can create small callables.
type Maker interface {
	// Ensure returns the user's enabled callable with that name and definition, and creates it if
	// necessary. If another callable has the name, the new one gets another name.
	Ensure(ctx context.Context, d Draft) (Info, error)
}

// Draft describes a small callable without capabilities.
type Draft struct {
	Name        string
	Description string
	Language    string // javascript or typescript
	Code        string
	Parameters  json.RawMessage // JSON Schema
	Tags        []string
	Icon        string
}
