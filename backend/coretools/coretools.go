// Package coretools provides the tools that models and steps of skills work with: files in the user's
// workspace, other files that the user permits to read, the web, and commands in containers. Each tool is a
// built-in callable. The tools run no code on this computer itself and follow no link out of a folder. The
// composition root imports this package.
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

// Options are the dependencies of the tools.
type Options struct {
	DB   *storage.DB
	Gate callable.Gate
	// Dir contains the workspaces, one folder per user.
	Dir string
	// Own lists Helix's own folders, including Dir. Nothing in them can be read, except the workspaces.
	Own      []string
	TrashAge func() time.Duration // how long deleted files are kept; nil: 30 days
	Logger   *slog.Logger         // nil: slog.Default
	Now      func() time.Time     // nil: time.Now

	// Shell runs commands; nil: there is no such tool.
	Shell Shell

	// HTTP creates the client of the web tools, for tests; nil: safehttp.New.
	HTTP func(safehttp.Options) *safehttp.Client
	// DenyPort reports whether a port of this computer belongs to Helix; nil: none does.
	DenyPort func(port int) bool
	// Search is the engine of web.search: brave, tavily or the address of a SearXNG instance; "":
	// there is no such tool.
	Search string
	// Secret returns a secret of the user in the context, such as the API key of a search engine.
	Secret func(ctx context.Context, name string) ([]byte, error)
}

// Service provides the tools for all users. It is safe for concurrent use.
type Service struct {
	o      Options
	fetch  *web
	find   *web
	engine string // address of the search engine

	changing sync.Mutex // held while files are changed

	mu     sync.Mutex
	purged map[uuid.UUID]time.Time
}

// New returns a Service. Close it when it is no longer used.
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

// Callables returns the built-in tools.
func (s *Service) Callables() []callable.Func {
	list := []callable.Func{s.readTool(), s.listTool(), s.searchTool(), s.writeTool(), s.editTool(), s.deleteTool(), s.copyTool(), s.fetchTool()}
	if s.o.Search != "" {
		list = append(list, s.webSearchTool())
	}
	if s.o.Shell != nil {
		list = append(list, s.shellTool())
	}
	return list
}

// Subjects returns the permission subjects of the tools.
func (s *Service) Subjects() callable.Subjects {
	return callable.Subjects{
		filesSubject: source(s.filesInfo), vaultSubject: source(s.vaultInfo), copyName: source(s.copyInfo), shellName: source(s.shellInfo),
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
	doc, _ := json.Marshal(map[string]string{"step": id, "name": name}) // cannot fail: two strings
	return permission.SubjectInfo{
		Name: cmp.Or(name, id), State: permission.Active, DefinitionHash: callable.BuiltinSubject(id).DefinitionHash, Definition: doc, Approved: true, Declared: declared,
	}
}

// object returns the JSON Schema of an object with the given properties, as JSON.
func object(required, properties string) json.RawMessage {
	return json.RawMessage(`{"type":"object","additionalProperties":false,"required":[` + required + `],"properties":{` + properties + `}}`)
}

// output returns the object schema of a result, which later versions may extend.
func output(required, properties string) json.RawMessage {
	return json.RawMessage(`{"type":"object","required":[` + required + `],"properties":{` + properties + `}}`)
}

const day = 24 * time.Hour
