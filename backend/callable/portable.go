package callable

import (
	"context"
	"encoding/json"
)

// Portable is a Provider whose callables travel in the share files of what calls them.
type Portable interface {
	// Export gives the user's own callables of these ids as they travel, in that order. Equal
	// ones give equal values. One that may not travel is NotFound or Denied.
	Export(ctx context.Context, ids []string) ([]json.RawMessage, error)
	// Import says what becomes of callables that came in a file, one answer each and in their
	// order; with commit it adds them, private and disabled. One that the user has already, with
	// that name and definition, is kept; another one of that name makes the new one take a free
	// name.
	Import(ctx context.Context, list []json.RawMessage, commit bool) ([]Imported, error)
}

// Imported says what becomes of one callable of a file.
type Imported struct {
	Name     string   // in the file
	As       string   // here
	New      bool     // it is, or would be, added
	Warnings []string // such as that its signature is unknown
}

// Maker is a Provider that can make small callables.
type Maker interface {
	// Ensure gives the user's enabled callable of that name and definition, and makes it when
	// there is none. When another one has the name, the new one takes a free name.
	Ensure(ctx context.Context, d Draft) (Info, error)
}

// Draft describes a small callable. It asks for no capability.
type Draft struct {
	Name        string
	Description string
	Language    string // javascript or typescript
	Code        string
	Parameters  json.RawMessage // JSON Schema
	Tags        []string
	Icon        string
}
