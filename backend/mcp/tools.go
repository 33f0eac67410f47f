package mcp

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/permission"
	"helix/backend/storage"
)

// list reads the tools of a server and stores what changed.
func (l *link) list(ctx context.Context, c *connection) error {
	ctx, cancel := l.limited(ctx)
	defer cancel()
	select {
	case l.refreshing <- struct{}{}:
		defer func() { <-l.refreshing }()
	case <-ctx.Done():
		return c.translate(l.name, ctx.Err())
	}
	l.mu.Lock()
	l.stale = false
	l.mu.Unlock()
	found, more, err := readTools(ctx, l.name, c, l.checked)
	if err != nil {
		l.mu.Lock()
		l.stale = true
		l.mu.Unlock()
		return c.translate(l.name, err)
	}
	if more {
		l.log.add("rpc", "The server has more than 1000 tools, or pages of them. Only the first 1000 are used.")
	}
	l.checked = make(map[[32]byte]string, len(found))
	for _, d := range found {
		l.checked[d.hash] = d.problem
	}
	if err := l.s.storeTools(context.WithoutCancel(ctx), l, found); err != nil {
		return err
	}
	l.s.lists.Add(1)
	l.mu.Lock()
	l.listedAt = l.s.o.Now()
	l.mu.Unlock()
	return nil
}

// refresh lists the tools again. It starts the server if necessary.
func (l *link) refresh(ctx context.Context) error {
	c, release, err := l.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	return l.list(ctx, c)
}

// relistPause is how long a server may announce more changes before its tools are listed again.
const relistPause = 250 * time.Millisecond

// relist lists the tools after the server announced a change, unless it was stopped.
func (l *link) relist() {
	ctx := l.s.as(l.user)
	select {
	case <-time.After(relistPause):
	case <-ctx.Done():
		return
	}
	c, release, ok := l.open()
	if !ok {
		return
	}
	defer release()
	if err := l.list(ctx, c); err != nil {
		l.log.add("rpc", "Couldn't list the tools again: "+fault.As(err).Message)
	}
}

// ensureFresh starts the server if necessary. It lists the tools again if the server announced a
// change or the list is old.
func (l *link) ensureFresh(ctx context.Context) error {
	c, release, err := l.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	l.mu.Lock()
	due := l.stale || l.s.o.Now().Sub(l.listedAt) > listAge
	l.mu.Unlock()
	if !due {
		return nil
	}
	return l.list(ctx, c)
}

// readTools reads all pages of the list.
func readTools(ctx context.Context, server string, c *connection, checked map[[32]byte]string) (out []described, more bool, err error) {
	if caps := c.session.InitializeResult(); caps != nil && (caps.Capabilities == nil || caps.Capabilities.Tools == nil) {
		return nil, false, nil
	}
	seen := map[string]bool{}
	cursor := ""
	for range maxTools { // pages, some of which may be empty
		page, err := c.session.ListTools(ctx, &sdk.ListToolsParams{Cursor: cursor})
		if err != nil {
			return nil, false, err
		}
		for _, t := range page.Tools {
			if len(out) >= maxTools {
				return out, true, nil
			}
			d, err := describe(server, t, checked)
			if err != nil || seen[d.Name] {
				continue // it cannot be addressed
			}
			seen[d.Name] = true
			out = append(out, d)
		}
		if page.NextCursor == "" || page.NextCursor == cursor {
			return out, false, nil
		}
		cursor = page.NextCursor
	}
	return out, true, nil
}

// storeTools compares a list with the stored one and stores the differences. A tool whose definition
// changed cannot be called until it is approved again.
func (s *Service) storeTools(ctx context.Context, l *link, found []described) error {
	slices.SortFunc(found, func(a, b described) int { return strings.Compare(a.Name, b.Name) })
	e := ToolsChanged{Name: l.name, Added: []string{}, Changed: []string{}, Removed: []string{}}
	err := s.write(ctx, func(tx *storage.Tx) error {
		e.Added, e.Changed, e.Removed = e.Added[:0], e.Changed[:0], e.Removed[:0]
		row, err := oneServer(tx, `id = ?`, l.id)
		if err != nil {
			return err
		}
		stored, err := loadToolStates(tx, l.id)
		if err != nil {
			return err
		}
		old := map[string]*toolRow{}
		for i := range stored {
			old[stored[i].name] = &stored[i]
		}
		for i := range found {
			d := &found[i]
			if err := s.storeTool(tx, &row, old[d.Name], d, &e); err != nil {
				return err
			}
			delete(old, d.Name)
		}
		for name, t := range old {
			if t.state == ToolRemoved {
				continue
			}
			e.Removed = append(e.Removed, name)
			if _, err := tx.Exec(`UPDATE mcp_tools SET state = ?, last_seen = coalesce(?, last_seen) WHERE id = ?`, ToolRemoved, row.listedAt, t.id); err != nil {
				return err
			}
			if err := s.perm.SubjectChanged(tx, string(Kind), toolID(row.Name, name), false); err != nil {
				return err
			}
		}
		// A tool that is listed was last seen now; only one that was removed has a time of its own.
		_, err = tx.Exec(`UPDATE mcp_servers SET listed_at = ? WHERE id = ?`, tx.Now, l.id)
		return err
	})
	if err == nil && len(e.Added)+len(e.Changed)+len(e.Removed) > 0 {
		slices.Sort(e.Removed)
		bus.Publish(s.bus, l.user, e)
	}
	return err
}

func (s *Service) storeTool(tx *storage.Tx, row *serverRow, was *toolRow, d *described, e *ToolsChanged) error {
	tier, fn := d.tier(row.Trust), functionName(row.Name, d.Name)
	if was == nil {
		e.Added = append(e.Added, d.Name)
		_, err := tx.Exec(`INSERT INTO mcp_tools (id, user_id, server_id, name, function_name, document, definition_hash, tier, state, problem, tokens, first_seen, last_seen) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?12)`,
			storage.NewID(), row.user, row.id, d.Name, fn, d.raw, d.hash, tier.String(), stateOf(row, d.Name, d.problem, ToolNew), d.problem, d.tokens, tx.Now)
		return err
	}
	state := ToolNew
	switch {
	case was.approved == d.hash:
		state = ToolApproved
	case was.approved != [32]byte{}:
		state = ToolChanged
	}
	state = stateOf(row, d.Name, d.problem, state)
	if was.hash != d.hash {
		e.Changed = append(e.Changed, d.Name)
		if _, err := s.perm.DefinitionChanged(tx, was.subject(row.Name), was.hash, d.hash, approvalDocument(row.Name, d.raw)); err != nil {
			return err
		}
		if was.state != ToolRemoved { // the user chose the tier for another definition
			tier = max(tier, was.permissionTier())
		}
	} else if was.state != ToolNew && was.state != ToolDenied {
		tier = was.permissionTier()
	}
	if was.hash == d.hash && was.state == state && was.tier == tier.String() && was.problem == d.problem {
		return nil
	}
	if was.state == ToolRemoved && was.hash == d.hash {
		e.Added = append(e.Added, d.Name)
	}
	_, err := tx.Exec(`UPDATE mcp_tools SET document = ?, definition_hash = ?, tier = ?, state = ?, problem = ?, tokens = ?, last_seen = ? WHERE id = ?`,
		d.raw, d.hash, tier.String(), state, d.problem, d.tokens, tx.Now, was.id)
	if err == nil {
		err = s.perm.SubjectChanged(tx, string(Kind), toolID(row.Name, d.Name), state == ToolApproved)
	}
	return err
}

// stateOf returns the state of a tool, given what it would be if the entry and its definition allow it.
func stateOf(row *serverRow, name, problem, state string) string {
	if problem != "" || !row.Tools.allows(name) {
		return ToolDenied
	}
	return state
}

// approvalMayHaveChanged notes that someone may have approved a definition in Approvals.
func (s *Service) approvalMayHaveChanged(user uuid.UUID, e permission.Changed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed[user] == nil {
		s.changed[user] = map[string]bool{}
	}
	s.changed[user][e.SubjectID] = true
}

// syncApprovals brings the stored states up to date with definitions that were approved in Approvals.
func (s *Service) syncApprovals(ctx context.Context) error {
	user := identity.UserID(ctx)
	s.mu.Lock()
	subjects := s.changed[user]
	delete(s.changed, user)
	s.mu.Unlock()
	if len(subjects) == 0 {
		return nil
	}
	waiting, err := s.waiting(ctx, subjects)
	if err != nil {
		return err
	}
	for _, w := range waiting {
		p, err := s.perm.Preview(ctx, permission.PreviewParams{Subject: permission.PreviewSubject{Kind: string(Kind), ID: w.subject.ID}})
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if slices.ContainsFunc(p.Stops, func(st permission.PreviewStop) bool { return st.Reason == permission.ReasonDefinitionChanged }) {
			continue
		}
		if err := s.write(ctx, w.approve); err != nil {
			return err
		}
	}
	return nil
}

// unapproved is a server or a tool that waits for approval.
type unapproved struct {
	subject permission.Subject
	server  uuid.UUID
	tool    uuid.UUID // zero: the server itself
}

func (u *unapproved) approve(tx *storage.Tx) (err error) {
	if u.tool == uuid.Nil {
		_, err = tx.Exec(`UPDATE mcp_servers SET approved_hash = ?1, updated_at = ?2 WHERE id = ?3 AND definition_hash = ?1`, u.subject.DefinitionHash, tx.Now, u.server)
	} else {
		_, err = tx.Exec(`UPDATE mcp_tools SET approved_hash = ?1, state = 'approved' WHERE id = ?2 AND definition_hash = ?1 AND state IN ('new', 'changed')`, u.subject.DefinitionHash, u.tool)
	}
	return err
}

// waiting returns what is unapproved of the given subjects; * stands for all.
func (s *Service) waiting(ctx context.Context, subjects map[string]bool) (out []unapproved, err error) {
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		out = nil
		servers, err := loadServers(tx)
		if err != nil {
			return err
		}
		for i := range servers {
			r := &servers[i]
			if !r.isApproved() && (subjects["*"] || subjects[r.Name]) {
				out = append(out, unapproved{r.subject(), r.id, uuid.Nil})
			}
			if !subjects["*"] && !hasPrefix(subjects, r.Name+".") {
				continue
			}
			tools, err := loadTools(tx, r.id)
			if err != nil {
				return err
			}
			for k := range tools {
				t := &tools[k]
				if (t.state == ToolNew || t.state == ToolChanged) && (subjects["*"] || subjects[toolID(r.Name, t.name)]) {
					out = append(out, unapproved{t.subject(r.Name), r.id, t.id})
				}
			}
		}
		return nil
	})
	return out, err
}

func hasPrefix(m map[string]bool, prefix string) bool {
	for k := range m {
		if strings.HasPrefix(k, prefix) {
			return true
		}
	}
	return false
}

// Subject implements permission.Source for servers and tools.
func (s *Service) Subject(ctx context.Context, _, id string) (out permission.SubjectInfo, err error) {
	server, tool, isTool := strings.Cut(id, ".")
	if !isTool {
		r, err := s.row(ctx, server)
		if err != nil {
			return out, err
		}
		out = permission.SubjectInfo{Name: r.Name, State: permission.Active, DefinitionHash: r.hash, Definition: r.approvalDocument()}
		if !*r.Enabled {
			out.State = permission.Disabled
		}
		return out, nil
	}
	t, ok, err := s.stored(ctx, id)
	if err != nil {
		return out, err
	}
	if !ok {
		return out, fault.NotFoundf("%s has no tool %q.", server, visible(tool, 128))
	}
	out = permission.SubjectInfo{
		Name: id, State: permission.Active, DefinitionHash: t.tool.hash, Definition: t.document,
		Declared: []permission.Want{{Capability: permission.MCP, Resource: id}},
	}
	switch {
	case !*t.row.Enabled, t.row.isApproved() && t.row.Trust == TrustNone, t.tool.state == ToolRemoved, t.tool.state == ToolDenied:
		out.State = permission.Disabled
	case !t.row.isApproved():
		out.State = permission.Suspended
	}
	return out, nil
}
