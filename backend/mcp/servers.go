package mcp

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

const (
	maxServers = 32
	undoAct    = "mcp.remove"
)

// Status is a server with its state.
type Status struct {
	Name      string     `json:"name"`
	Transport string     `json:"transport"`
	Enabled   bool       `json:"enabled"`
	State     string     `json:"state"`  // stopped, starting, ready, failed, needs_auth or suspended
	Target    string     `json:"target"` // its command line or URL
	Version   string     `json:"version,omitempty"`
	Protocol  string     `json:"protocol,omitempty"`
	PID       int        `json:"pid,omitempty"`
	Tools     int        `json:"tools"`
	Approved  int        `json:"approved"` // tools that may be called
	Waiting   int        `json:"waiting"`  // tools that are new or changed
	Tokens    int        `json:"tokens"`   // estimated cost of the approved tools in a model's context
	LastError string     `json:"lastError,omitempty"`
	StartedAt *time.Time `json:"startedAt,omitempty"`
	RSSBytes  int64      `json:"rssBytes,omitempty"`
	Source    string     `json:"source"`
}

// ServersParams filter servers.
type ServersParams struct {
	State  string `json:"state,omitempty"`
	Limit  int    `json:"limit,omitempty"` // 1 to 100; default 50
	Offset int    `json:"offset,omitempty"`
}

// ServersResult is one page, sorted by name.
type ServersResult struct {
	Servers []Status `json:"servers"`
	Total   int      `json:"total"`
}

// NameParams name a server.
type NameParams struct {
	Name string `json:"name"`
}

// ServerResult is one server with its entry.
type ServerResult struct {
	Status
	Server Server `json:"server"`
	// DefinitionHash covers the entry and the listed tools; mcp.approve_server takes it.
	DefinitionHash string   `json:"definitionHash"`
	NeedsApproval  bool     `json:"needsApproval"` // the entry itself is not approved
	Variables      []string `json:"variables"`     // names in ${…} that the entry refers to
	Auth           string   `json:"auth"`          // ready if the user has signed in with OAuth, else none
}

// ListServers lists the caller's MCP servers.
func (s *Service) ListServers(ctx context.Context, p ServersParams) (ServersResult, error) {
	out := ServersResult{Servers: []Status{}}
	if err := storage.CheckPage(&p.Limit, &p.Offset, 50, 100); err != nil {
		return out, err
	}
	if err := s.syncApprovals(ctx); err != nil {
		return out, err
	}
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		rows, err := loadServers(tx)
		if err != nil {
			return err
		}
		for i := range rows {
			st, err := s.status(tx, &rows[i])
			if err != nil {
				return err
			}
			if p.State == "" || p.State == st.State {
				out.Servers = append(out.Servers, st)
			}
		}
		return nil
	})
	out.Total = len(out.Servers)
	out.Servers = out.Servers[min(p.Offset, out.Total):]
	out.Servers = out.Servers[:min(p.Limit, len(out.Servers))]
	return out, err
}

// status returns a server with its state.
func (s *Service) status(tx *storage.Tx, r *serverRow) (Status, error) {
	st := Status{
		Name: r.Name, Transport: r.Transport, Enabled: *r.Enabled, Target: visible(r.target(), 500), Version: r.version, Protocol: r.protocol, LastError: r.lastError, State: StateStopped, Source: r.source,
	}
	s.mu.Lock()
	l := s.links[r.id]
	s.mu.Unlock()
	if l != nil {
		l.mu.Lock()
		st.State, st.LastError = l.state, l.lastError
		if l.live != nil {
			at := l.startedAt.UTC()
			st.StartedAt = &at
			if l.live.proc != nil {
				st.PID = l.live.proc.pid()
				st.RSSBytes = memoryOf(st.PID)
			}
		}
		l.mu.Unlock()
	}
	if !r.isApproved() {
		st.State = StateSuspended
	}
	return st, tx.QueryRow(`SELECT count(*) FILTER (WHERE state <> 'removed'), count(*) FILTER (WHERE state = 'approved'), count(*) FILTER (WHERE state IN ('new', 'changed')), coalesce(sum(tokens) FILTER (WHERE state = 'approved'), 0) FROM mcp_tools WHERE server_id = ?`, r.id).
		Scan(&st.Tools, &st.Approved, &st.Waiting, &st.Tokens)
}

// GetServer returns one MCP server with its entry.
func (s *Service) GetServer(ctx context.Context, p NameParams) (out ServerResult, err error) {
	if err := s.syncApprovals(ctx); err != nil {
		return out, err
	}
	var row serverRow
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		r, err := loadServer(tx, p.Name)
		if err != nil {
			return err
		}
		row = r
		out, err = s.result(tx, &r)
		return err
	})
	if err == nil {
		out.Auth, err = s.authState(ctx, &row)
	}
	return out, err
}

func (s *Service) result(tx *storage.Tx, r *serverRow) (out ServerResult, err error) {
	if out.Status, err = s.status(tx, r); err != nil {
		return out, err
	}
	tools, err := loadToolStates(tx, r.id)
	if err != nil {
		return out, err
	}
	out.Server, out.NeedsApproval = r.Server, !r.isApproved()
	if out.Variables = r.variables(); out.Variables == nil {
		out.Variables = []string{}
	}
	out.DefinitionHash = reviewHash(r, tools)
	out.Auth = AuthNone
	return out, nil
}

// AddParams contain the entry of a new server.
type AddParams struct {
	Server Server `json:"server"`
}

// SaveResult is the saved server. Warnings name what may not be as intended.
type SaveResult struct {
	Server   ServerResult `json:"server"`
	Warnings []string     `json:"warnings"`
}

// Add adds an MCP server. A person who may answer approvals thereby approves its command or URL; for
// others a question waits in Approvals. Its tools still need approval.
func (s *Service) Add(ctx context.Context, p AddParams) (SaveResult, error) {
	return s.add(ctx, p.Server, "user")
}

func (s *Service) add(ctx context.Context, e Server, source string) (SaveResult, error) {
	var out SaveResult
	err := s.write(ctx, func(tx *storage.Tx) error {
		r, err := s.addTx(tx, e, source)
		if err != nil {
			return err
		}
		out.Server, err = s.result(tx, &r)
		return err
	})
	if err != nil {
		return out, err
	}
	out.Warnings = s.warnings(ctx, &out.Server.Server)
	return out, nil
}

// addTx adds a server in tx.
func (s *Service) addTx(tx *storage.Tx, e Server, source string) (serverRow, error) {
	if err := e.normalize(); err != nil {
		return serverRow{}, err
	}
	user := identity.UserID(tx.Context())
	old, err := oneServer(tx, `user_id = ? AND name = ?`, user, e.Name)
	switch {
	case err == nil && old.deletedAt.IsZero():
		return old, fault.Conflictf("An MCP server is already named %q. Choose another name.", e.Name)
	case err == nil:
		if err := s.purge(tx, &old); err != nil {
			return old, err
		}
	case !errors.Is(err, sql.ErrNoRows):
		return old, err
	}
	var n int
	if err := tx.QueryRow(`SELECT count(*) FROM mcp_servers WHERE user_id = ? AND deleted_at IS NULL`, user).Scan(&n); err != nil {
		return old, err
	}
	if n >= maxServers {
		return old, fault.Limitf("You already have %d MCP servers. Remove one first.", maxServers)
	}
	r := serverRow{Server: e, id: storage.NewID(), user: user, source: source}
	if r.hash, err = e.hash(); err != nil {
		return r, err
	}
	text, err := entryText(e)
	if err != nil {
		return r, err
	}
	if _, err := tx.Exec(`INSERT INTO mcp_servers (id, user_id, name, entry, enabled, source, definition_hash, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8)`,
		r.id, user, e.Name, text, *e.Enabled, source, r.hash, tx.Now); err != nil {
		return r, err
	}
	if err := audit.Append(tx, audit.Entry{Action: "mcp.add", SubjectKind: string(Kind), SubjectID: e.Name, Details: map[string]any{"definition": r.Server.document(), "hash": hexHash(r.hash)}}); err != nil {
		return r, err
	}
	if who, _ := identity.From(tx.Context()); who.MayApprove() {
		if err := s.approveServer(tx, &r); err != nil {
			return r, err
		}
	}
	tx.AfterCommit(func() { bus.Publish(s.bus, user, Changed{e.Name, StateStopped}) })
	return r, nil
}

// approveServer records that the user approves what the server runs.
func (s *Service) approveServer(tx *storage.Tx, r *serverRow) error {
	if err := s.perm.ApproveDefinition(tx, r.subject(), r.approvalDocument(), nil, "user"); err != nil {
		return err
	}
	r.approved = r.hash
	_, err := tx.Exec(`UPDATE mcp_servers SET approved_hash = ? WHERE id = ?`, r.hash, r.id)
	return err
}

// warnings names what may not be as intended in an entry.
func (s *Service) warnings(ctx context.Context, e *Server) []string {
	out := []string{}
	if _, err := e.expand(s.lookup(ctx)); err != nil {
		out = append(out, fault.As(err).Message)
	}
	if e.Transport == Stdio && !variable.MatchString(e.Command) {
		if _, err := newFinder(s.o.Getenv).findOr(e.Command, s.o.ShellPath); err != nil {
			out = append(out, fault.As(err).Message)
		}
	}
	warn := func(key, _ string) string {
		out = append(out, fmt.Sprintf("%s looks like a secret. Store it with helix secrets set, and write ${NAME} here.", strings.TrimLeft(key, "-")))
		return ""
	}
	for _, m := range []map[string]string{e.Env, e.Headers} {
		for k, v := range m {
			if looksSecret(k, v) {
				warn(k, v)
			}
		}
	}
	hideInArgs(e.Args, warn)
	hideInURL(e.URL, warn)
	slices.Sort(out)
	return out
}

// UpdateParams change members of an entry. The name cannot be changed.
type UpdateParams struct {
	Name string `json:"name"`
	// Patch is a JSON merge patch (RFC 7396) of the entry.
	Patch json.RawMessage `json:"patch"`
}

// Update changes the entry of an MCP server. If what it runs or connects to changes, it is stopped and
// its tools are suspended until mcp.approve_server.
func (s *Service) Update(ctx context.Context, p UpdateParams) (SaveResult, error) {
	var out SaveResult
	var stop bool
	var id uuid.UUID
	err := s.write(ctx, func(tx *storage.Tx) error {
		r, err := loadServer(tx, p.Name)
		if err != nil {
			return err
		}
		id = r.id
		was := r
		if r.Server, err = patched(r.Server, p.Patch); err != nil {
			return err
		}
		if r.Name != was.Name {
			return fault.InvalidField("/patch/name", "name", "A server can't be renamed. Export it, then add it with another name.")
		}
		if err := r.normalize(); err != nil {
			return fault.In("/patch", err)
		}
		if r.hash, err = r.Server.hash(); err != nil {
			return err
		}
		text, err := entryText(r.Server)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(`UPDATE mcp_servers SET entry = ?, enabled = ?, definition_hash = ?, updated_at = ? WHERE id = ?`, text, *r.Enabled, r.hash, tx.Now, r.id); err != nil {
			return err
		}
		if stop = r.hash != was.hash || !*r.Enabled; r.hash != was.hash {
			if _, err := s.perm.DefinitionChanged(tx, was.subject(), was.hash, r.hash, r.approvalDocument()); err != nil {
				return err
			}
		}
		if err := s.applySelection(tx, &r); err != nil {
			return err
		}
		out.Server, err = s.result(tx, &r)
		return err
	})
	if err != nil {
		return out, err
	}
	if stop {
		s.stopLink(id, StateStopped)
		out.Server, err = s.GetServer(ctx, NameParams{p.Name})
	}
	out.Warnings = s.warnings(ctx, &out.Server.Server)
	return out, err
}

// patched applies a merge patch to an entry.
func patched(e Server, patch json.RawMessage) (Server, error) {
	var doc, change map[string]any
	b, err := json.Marshal(e)
	if err == nil {
		err = json.Unmarshal(b, &doc)
	}
	if err != nil {
		return e, err
	}
	if err := json.Unmarshal(patch, &change); err != nil {
		return e, fault.InvalidField("/patch", "object", "patch must be a JSON object.")
	}
	if b, err = json.Marshal(merge(doc, change)); err != nil {
		return e, err
	}
	var out Server
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.DisallowUnknownFields()
	if err := d.Decode(&out); err != nil {
		return e, fault.InvalidField("/patch", "field", "The patch isn't valid: %s.", strings.TrimPrefix(err.Error(), "json: "))
	}
	return out, nil
}

func merge(doc, change map[string]any) map[string]any {
	if doc == nil {
		doc = map[string]any{}
	}
	for k, v := range change {
		switch v := v.(type) {
		case nil:
			delete(doc, k)
		case map[string]any:
			old, _ := doc[k].(map[string]any)
			doc[k] = merge(old, v)
		default:
			doc[k] = v
		}
	}
	return doc
}

// applySelection updates the states of the tools after the entry changed.
func (s *Service) applySelection(tx *storage.Tx, r *serverRow) error {
	tools, err := loadTools(tx, r.id)
	if err != nil {
		return err
	}
	for i := range tools {
		t := &tools[i]
		d := described{toolDocument: t.definition(), raw: t.document, hash: t.hash, tokens: t.tokens, problem: t.problem}
		if t.state != ToolRemoved {
			if err := s.storeTool(tx, r, t, &d, &ToolsChanged{}); err != nil {
				return err
			}
		}
		if err := s.perm.SubjectChanged(tx, string(Kind), toolID(r.Name, t.name), *r.Enabled && r.isApproved() && r.Trust != TrustNone); err != nil {
			return err
		}
	}
	return nil
}

// RemoveResult has the token to undo the removal.
type RemoveResult struct {
	UndoToken string `json:"undoToken"`
}

// Remove stops and removes an MCP server with its tools. Its sign-in ends. mcp.undo restores
// the rest.
func (s *Service) Remove(ctx context.Context, p NameParams) (out RemoveResult, err error) {
	var r serverRow
	err = s.write(ctx, func(tx *storage.Tx) error {
		if r, err = loadServer(tx, p.Name); err != nil {
			return err
		}
		if _, err := tx.Exec(`UPDATE mcp_servers SET deleted_at = ?1, updated_at = ?1 WHERE id = ?2`, tx.Now, r.id); err != nil {
			return err
		}
		if err := audit.Append(tx, audit.Entry{Action: "mcp.remove", SubjectKind: string(Kind), SubjectID: r.Name}); err != nil {
			return err
		}
		if err := s.subjectsChanged(tx, &r, false); err != nil {
			return err
		}
		out.UndoToken, err = tx.KeepUndo(r.user, undoAct, r.id)
		return err
	})
	if err == nil {
		s.stopLink(r.id, StateStopped)
		_, err = s.forgetTokens(ctx, &r)
	}
	return out, err
}

// UndoParams contain the token of a removal.
type UndoParams struct {
	UndoToken string `json:"undoToken"`
}

// Undo restores a removed MCP server with its approvals.
func (s *Service) Undo(ctx context.Context, p UndoParams) (out ServerResult, err error) {
	err = s.write(ctx, func(tx *storage.Tx) error {
		act, state, err := tx.TakeUndo(identity.UserID(ctx), p.UndoToken)
		if err != nil {
			return err
		}
		var id uuid.UUID
		if act != undoAct || json.Unmarshal(state, &id) != nil {
			return fault.NotFoundf("This can no longer be undone.")
		}
		if _, err := tx.Exec(`UPDATE mcp_servers SET deleted_at = NULL, updated_at = ? WHERE id = ?`, tx.Now, id); err != nil {
			return err
		}
		r, err := oneServer(tx, `id = ? AND user_id = ?`, id, identity.UserID(ctx))
		if err != nil {
			return fault.NotFoundf("This can no longer be undone.").WithCause(err)
		}
		if err := s.subjectsChanged(tx, &r, true); err != nil {
			return err
		}
		tx.AfterCommit(func() { bus.Publish(s.bus, r.user, Changed{r.Name, StateStopped}) })
		out, err = s.result(tx, &r)
		return err
	})
	return out, err
}

// subjectsChanged drops cached decisions about a server and its tools.
func (s *Service) subjectsChanged(tx *storage.Tx, r *serverRow, usable bool) error {
	tools, err := loadToolStates(tx, r.id)
	if err != nil {
		return err
	}
	for i := range tools {
		if err := s.perm.SubjectChanged(tx, string(Kind), toolID(r.Name, tools[i].name), usable); err != nil {
			return err
		}
	}
	return s.perm.SubjectChanged(tx, string(Kind), r.Name, usable)
}

// purge deletes a removed server, so that another can have its name without its grants.
func (s *Service) purge(tx *storage.Tx, r *serverRow) error {
	tools, err := loadToolStates(tx, r.id)
	if err != nil {
		return err
	}
	for i := range tools {
		if _, err := s.perm.RevokeSubject(tx, string(Kind), toolID(r.Name, tools[i].name), "the server was removed"); err != nil {
			return err
		}
	}
	if _, err := s.perm.RevokeSubject(tx, string(Kind), r.Name, "the server was removed"); err != nil {
		return err
	}
	if _, err := tx.Exec(`DELETE FROM mcp_tools WHERE server_id = ?`, r.id); err != nil {
		return err
	}
	_, err = tx.Exec(`DELETE FROM mcp_servers WHERE id = ?`, r.id)
	return err
}

// stopLink stops a server, if it runs, and forgets its connection.
func (s *Service) stopLink(id uuid.UUID, state string) {
	s.mu.Lock()
	l := s.links[id]
	delete(s.links, id)
	s.mu.Unlock()
	if l != nil {
		l.stop(state)
	}
}
