package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"helix/backend/audit"
	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

// What may be exposed to other programs. Approvals, permissions, settings, secrets and the tools of
// other MCP servers are not among it.
const (
	ExposeTool      = "tool"
	ExposeSkill     = "skill"
	ExposeDiscovery = "discovery" // an operation of an API
	ExposeMemory    = "memory"    // only the search
	memorySearch    = "memory.search"
)

// Exposed is a callable that other programs may call.
type Exposed struct {
	Kind        string          `json:"kind"`
	ID          string          `json:"id"`
	Name        string          `json:"name"` // as other programs see it
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"inputSchema,omitempty"`
	ReadOnly    bool            `json:"readOnly"`
	ExposedAt   time.Time       `json:"exposedAt"`
	// Problem is why calls are refused now, such as that its definition changed since.
	Problem string `json:"problem,omitempty"`

	ref  callable.Ref
	hash string
}

// ExposedResult lists what other programs may call, and where.
type ExposedResult struct {
	Enabled bool      `json:"enabled"`       // over HTTP; helix mcp serve always works
	URL     string    `json:"url,omitempty"` // with Enabled
	Tools   []Exposed `json:"tools"`
}

// ExposeParams name a callable.
type ExposeParams struct {
	// Kind is tool, skill, discovery or memory.
	Kind    string `json:"kind"`
	ID      string `json:"id"` // or its name; for memory: memory.search
	Exposed bool   `json:"exposed"`
}

// ListExposed lists what other MCP programs may call through Helix.
func (s *Service) ListExposed(ctx context.Context) ([]Exposed, error) {
	out, err := storage.Result(ctx, s.db.Read, func(tx *storage.Tx) ([]Exposed, error) {
		return storage.Collect(tx.Select(`SELECT kind, ref_id, name, definition_hash, exposed_at FROM mcp_exposed WHERE user_id = ? ORDER BY name`, identity.UserID(ctx)), func(row storage.Row) (e Exposed, err error) {
			err = row.Scan(&e.Kind, &e.ID, &e.Name, &e.hash, storage.Time(&e.ExposedAt))
			return e, err
		})
	})
	if err != nil {
		return nil, err
	}
	for k := range out {
		e := &out[k]
		e.ref = callable.Ref{Kind: exposedKind(e.Kind), ID: e.ID}
		i, err := s.o.Callables.One(ctx, e.ref.Kind, e.ID, "")
		switch {
		case fault.Is(err, fault.NotFound):
			e.Problem = "It no longer exists."
			continue
		case err != nil:
			return nil, err
		case i.Hash != e.hash:
			e.Problem = "It has changed since it was exposed. Expose it again."
		case i.Blocked != "":
			e.Problem = "It can't be called now: " + string(i.Blocked) + "."
		}
		e.Title, e.Description, e.InputSchema, e.ReadOnly = i.Title, cmp.Or(i.Description, i.Title, i.Name), i.Input, i.Effects.ReadOnly
		if !isObject(e.InputSchema) {
			e.InputSchema = json.RawMessage(`{"type":"object"}`)
		}
	}
	return out, nil
}

func exposedKind(kind string) callable.Kind {
	switch kind {
	case ExposeMemory:
		return callable.Builtin
	case ExposeDiscovery:
		return "api"
	}
	return callable.Kind(kind)
}

// isObject reports whether a schema describes an object, which MCP requires.
func isObject(schema json.RawMessage) bool {
	var s struct{ Type any }
	return json.Unmarshal(schema, &s) == nil && s.Type == "object"
}

// Expose lets other MCP programs call a callable, or no longer. Its current definition is pinned: after
// a change it must be exposed again.
func (s *Service) Expose(ctx context.Context, p ExposeParams) ([]Exposed, error) {
	if !slices.Contains([]string{ExposeTool, ExposeSkill, ExposeDiscovery, ExposeMemory}, p.Kind) || p.Kind == ExposeMemory && p.ID != memorySearch {
		return nil, fault.Invalidf("Only tools, skills, operations of APIs and %s can be exposed to other programs.", memorySearch)
	}
	kind := exposedKind(p.Kind)
	i, err := s.o.Callables.One(ctx, kind, p.ID, "")
	if fault.Is(err, fault.NotFound) {
		i, err = s.o.Callables.One(ctx, kind, "", p.ID)
	}
	if fault.Is(err, fault.NotFound) && !p.Exposed {
		i.ID, err = p.ID, nil // it was deleted
	}
	if err != nil {
		return nil, err
	}
	if p.Exposed && i.Blocked == callable.ReasonForeign {
		return nil, fault.Deniedf("%q belongs to someone else. Clone it first, then expose your copy.", i.Name)
	}
	if p.Exposed && len(i.Input) > 0 && string(i.Input) != "null" && !isObject(i.Input) {
		return nil, fault.Invalidf("%q can't be exposed, because its input isn't an object.", i.Name)
	}
	user := identity.UserID(ctx)
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		action := "mcp.unexpose"
		if !p.Exposed {
			if _, err := tx.Exec(`DELETE FROM mcp_exposed WHERE user_id = ? AND kind = ? AND ref_id = ?`, user, p.Kind, i.ID); err != nil {
				return err
			}
		} else {
			action = "mcp.expose"
			name, err := exposedName(tx, user, i)
			if err != nil {
				return err
			}
			if _, err := tx.Exec(`INSERT INTO mcp_exposed (user_id, kind, ref_id, name, definition_hash, exposed_at) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET definition_hash = excluded.definition_hash, exposed_at = excluded.exposed_at`,
				user, p.Kind, i.ID, name, i.Hash, tx.Now); err != nil {
				return err
			}
		}
		return audit.Append(tx, audit.Entry{Action: action, SubjectKind: string(kind), SubjectID: i.ID})
	})
	if err != nil {
		return nil, err
	}
	list, err := s.ListExposed(ctx)
	if err == nil {
		s.updateServed(user, list)
	}
	return list, err
}

// exposedName returns a name for a callable that no other exposed callable has.
func exposedName(tx *storage.Tx, user uuid.UUID, i callable.Info) (string, error) {
	slug := strings.Trim(strings.Map(func(r rune) rune {
		if r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) || r == '-' {
			return unicode.ToLower(r)
		}
		return '_'
	}, i.Name), "_")
	slug = cmp.Or(slug[:min(len(slug), maxFunctionName-9)], "tool")
	var n int
	if err := tx.QueryRow(`SELECT count(*) FROM mcp_exposed WHERE user_id = ? AND name = ? AND ref_id <> ?`, user[:], slug, i.ID).Scan(&n); err != nil || n == 0 {
		return slug, err
	}
	return slug + "_" + clip(strings.ReplaceAll(i.ID, "-", ""), 32)[max(0, min(len(i.ID), 32)-8):], nil
}

// ExposedCallParams are a call by another program.
type ExposedCallParams struct {
	Name      string          `json:"name"` // as in mcp.exposed
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Client    string          `json:"client,omitempty"` // how the program calls itself
}

// ExposedCallResult is the result in the form of MCP.
type ExposedCallResult struct {
	Text       string          `json:"text"`
	Structured json.RawMessage `json:"structured,omitempty"`
	IsError    bool            `json:"isError"`
}

// CallExposed makes a call for another MCP program. It reaches only what is exposed, as it was
// exposed. It does not wait for a person: a missing permission is an error whose text names the
// question.
func (s *Service) CallExposed(ctx context.Context, p ExposedCallParams) (ExposedCallResult, error) {
	list, err := s.ListExposed(ctx)
	if err != nil {
		return ExposedCallResult{}, err
	}
	k := slices.IndexFunc(list, func(e Exposed) bool { return e.Name == p.Name })
	if k < 0 {
		return ExposedCallResult{}, fault.NotFoundf("No tool is named %q.", visible(p.Name, 128))
	}
	e := &list[k]
	who, _ := identity.From(ctx)
	out, err := s.o.Callables.Call(ctx, e.ref, callable.Request{Input: p.Arguments, Hash: e.hash, Caller: callable.Caller{Kind: string(Kind), ID: who.Token.String(), Label: visible(cmp.Or(p.Client, "another program"), 64), Run: storage.NewID()}})
	if err != nil {
		text := fault.As(err).Message
		if r, ok := callable.RefusalOf(err); ok && r.PendingApprovalID != uuid.Nil {
			text += " Pending approval: " + r.PendingApprovalID.String()
		}
		return ExposedCallResult{Text: text, IsError: true}, nil
	}
	res := ExposedCallResult{Text: string(out.Output)}
	var text string
	if json.Unmarshal(out.Output, &text) == nil {
		res.Text = text
	}
	if strings.HasPrefix(strings.TrimSpace(string(out.Output)), "{") {
		res.Structured = out.Output
	}
	return res, nil
}

// Limits of sessions with other programs.
const (
	maxServedBody = 4 << 20
	servedIdle    = 30 * time.Minute
)

// served is the MCP server of a user.
type served struct {
	server *sdk.Server
	names  map[string]string // hash of the definition by name
}

// caller is a call of a program, with its verified identity.
type exposedCall = func(ctx context.Context, p ExposedCallParams) (ExposedCallResult, error)

// NewServer returns an MCP server without tools. SetTools adds them.
func NewServer(version string) *sdk.Server {
	return sdk.NewServer(&sdk.Implementation{Name: "helix", Title: "Helix", Version: version}, &sdk.ServerOptions{
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{ListChanged: true}},
	})
}

// AddExposed adds a tool to a server. call makes its calls.
func AddExposed(server *sdk.Server, e Exposed, call exposedCall) {
	server.AddTool(&sdk.Tool{
		Name: e.Name, Title: e.Title, Description: e.Description, InputSchema: e.InputSchema, Annotations: &sdk.ToolAnnotations{ReadOnlyHint: e.ReadOnly},
	}, func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if x := req.Extra; x != nil && x.TokenInfo != nil {
			if id, ok := x.TokenInfo.Extra[identityKey].(identity.Identity); ok {
				ctx = identity.With(ctx, id)
			}
		}
		p := ExposedCallParams{Name: e.Name, Arguments: req.Params.Arguments}
		if init := req.Session.InitializeParams(); init != nil && init.ClientInfo != nil {
			p.Client = init.ClientInfo.Name
		}
		r, err := call(ctx, p)
		if err != nil {
			r = ExposedCallResult{Text: fault.As(err).Message, IsError: true}
		}
		out := &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: r.Text}}, IsError: r.IsError}
		if len(r.Structured) > 0 {
			out.StructuredContent = r.Structured
		}
		return out, nil
	})
}

// identityKey is where the caller's identity is among the details of its token.
const identityKey = "identity"

// Handler serves MCP over HTTP. The gateway has checked Host, Origin, token and scope, and put the
// caller's identity into the context of the request.
func (s *Service) Handler() http.Handler {
	handler := sdk.NewStreamableHTTPHandler(func(r *http.Request) *sdk.Server {
		list, err := s.ListExposed(r.Context())
		if err != nil {
			s.log.Warn("list what is exposed to MCP programs", "err", err)
			return nil
		}
		return s.updateServed(identity.UserID(r.Context()), list).server
	}, &sdk.StreamableHTTPOptions{SessionTimeout: servedIdle, MaxRequestBodyBytes: maxServedBody, Logger: s.log})
	return auth.RequireBearerToken(func(_ context.Context, _ string, r *http.Request) (*auth.TokenInfo, error) {
		id, ok := identity.From(r.Context())
		if !ok || id.User == uuid.Nil {
			return nil, auth.ErrInvalidToken
		}
		// A session belongs to the token that began it.
		return &auth.TokenInfo{UserID: id.User.String() + " " + id.Token.String(), Expiration: time.Now().Add(servedIdle), Extra: map[string]any{identityKey: id}}, nil
	}, nil)(handler)
}

// updateServed brings the tools of a user's server up to date. Its clients are notified of changes.
func (s *Service) updateServed(user uuid.UUID, list []Exposed) *served {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.served[user]
	if v == nil {
		v = &served{server: NewServer(s.o.Version), names: map[string]string{}}
		s.served[user] = v
	}
	current := map[string]bool{}
	for _, e := range list {
		if e.Problem != "" {
			continue
		}
		current[e.Name] = true
		if v.names[e.Name] != e.hash {
			AddExposed(v.server, e, s.CallExposed)
			v.names[e.Name] = e.hash
		}
	}
	for name := range v.names {
		if !current[name] {
			v.server.RemoveTools(name)
			delete(v.names, name)
		}
	}
	return v
}

// closeServed ends the sessions of other programs.
func (s *Service) closeServed() {
	s.mu.Lock()
	var sessions []*sdk.ServerSession
	for _, v := range s.served {
		for ss := range v.server.Sessions() {
			sessions = append(sessions, ss)
		}
	}
	s.mu.Unlock()
	for _, ss := range sessions {
		_ = ss.Close() // the program may be gone
	}
}
