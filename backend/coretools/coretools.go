// Package coretools is what a model and the steps of skills work with: files in a workspace of
// the user's own, files elsewhere that the user allowed to be read, and the web. Each tool is a
// built-in callable. Nothing here runs code or follows a link out of a folder. The composition
// root imports it.
package coretools

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"helix/backend/callable"
	"helix/backend/permission"
	"helix/backend/safehttp"
	"helix/backend/storage"
)

// Options connect the tools with the rest of Helix.
type Options struct {
	DB   *storage.DB
	Gate callable.Gate
	// Dir holds the workspaces, each in a folder named by its user.
	Dir string
	// Own lists Helix's own folders, Dir among what they hold; nothing else in them can be read.
	Own      []string
	TrashAge func() time.Duration // how long deleted files are kept; nil: 30 days
	Logger   *slog.Logger         // nil: slog.Default
	Now      func() time.Time     // nil: time.Now

	// HTTP makes the client of the web tools, for tests; nil: safehttp.New.
	HTTP func(safehttp.Options) *safehttp.Client
	// DenyPort names ports of this computer that belong to Helix; nil: none.
	DenyPort func(port int) bool
	// Search is the engine of web.search: brave, tavily or the address of a SearXNG; "": there
	// is no such tool.
	Search string
	// Secret gives a secret of the user in the context, such as the key of a search engine.
	Secret func(ctx context.Context, name string) ([]byte, error)
}

// Service is the tools of all users. It is safe for concurrent use.
type Service struct {
	o      Options
	fetch  *web
	find   *web
	engine string // address of the search engine

	changing sync.Mutex // one change of files at a time

	mu     sync.Mutex
	purged map[uuid.UUID]time.Time
}

// New returns the tools. Close it when they are no longer used.
func New(o Options) *Service {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.HTTP == nil {
		o.HTTP = safehttp.New
	}
	if o.TrashAge == nil {
		o.TrashAge = func() time.Duration { return 30 * day }
	}
	s := &Service{o: o, engine: engineAddress(o.Search), purged: map[uuid.UUID]time.Time{}}
	s.fetch, s.find = s.newWeb("web.fetch"), s.newWeb("web.search")
	return s
}

// Close drops idle connections.
func (s *Service) Close() error {
	s.fetch.client.Close()
	s.find.client.Close()
	return nil
}

// Callables are the built-in tools.
func (s *Service) Callables() []callable.Func {
	list := []callable.Func{s.readTool(), s.listTool(), s.searchTool(), s.writeTool(), s.editTool(), s.deleteTool(), s.copyTool(), s.fetchTool()}
	if s.o.Search != "" {
		list = append(list, s.webSearchTool())
	}
	return list
}

// Subjects tells permission about what the tools ask for.
func (s *Service) Subjects() callable.Subjects {
	return callable.Subjects{
		filesSubject: source(s.filesInfo), vaultSubject: source(s.vaultInfo), copyName: source(s.copyInfo),
		s.fetch.gate.Step: s.fetch.gate, s.find.gate.Step: s.find.gate,
	}
}

// source is a permission.Source for one kind of id.
type source func(ctx context.Context, id string) (permission.SubjectInfo, error)

// Subject implements permission.Source.
func (f source) Subject(ctx context.Context, _, id string) (permission.SubjectInfo, error) {
	return f(ctx, id)
}

// subjectInfo describes a subject of this package. Its definition is part of this program.
func subjectInfo(id, name string, declared ...permission.Want) permission.SubjectInfo {
	doc, _ := json.Marshal(map[string]string{"step": id, "name": name}) // two texts
	return permission.SubjectInfo{
		Name: cmp.Or(name, id), State: permission.Active, DefinitionHash: callable.BuiltinSubject(id).DefinitionHash, Definition: doc, Approved: true, Declared: declared,
	}
}

// object is JSON Schema of an object with these properties, which are given as JSON.
func object(required, properties string) json.RawMessage {
	return json.RawMessage(`{"type":"object","additionalProperties":false,"required":[` + required + `],"properties":{` + properties + `}}`)
}

// output is object for a result: later versions may add to it.
func output(required, properties string) json.RawMessage {
	return json.RawMessage(`{"type":"object","required":[` + required + `],"properties":{` + properties + `}}`)
}

const day = 24 * time.Hour
