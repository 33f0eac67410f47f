package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/permission"
	"helix/backend/storage"
)

// Tool is a tool of an MCP server.
type Tool struct {
	ID           string          `json:"id"` // server.tool
	Server       string          `json:"server"`
	Name         string          `json:"name"`
	Function     string          `json:"function"` // its name for models
	Title        string          `json:"title,omitempty"`
	Description  string          `json:"description,omitempty"`
	InputSchema  json.RawMessage `json:"inputSchema,omitempty"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
	Tier         string          `json:"tier"`
	Hints        Hints           `json:"hints"` // what the server claims
	Tokens       int             `json:"tokens"`
	State        string          `json:"state"` // approved, new, changed, removed or denied
	Problem      string          `json:"problem,omitempty"`
	Hash         string          `json:"hash"`
	// Changes are the differences to the approved definition, for a changed tool.
	Changes []permission.DiffChange `json:"changes,omitempty"`
}

// ToolsParams select tools.
type ToolsParams struct {
	Name   string `json:"name,omitempty"` // of the server; "": all
	Query  string `json:"query,omitempty"`
	Limit  int    `json:"limit,omitempty"` // 1 to 100; default 50
	Offset int    `json:"offset,omitempty"`
}

// ToolsResult is one page, sorted by server and name.
type ToolsResult struct {
	Tools []Tool `json:"tools"`
	Total int    `json:"total"`
}

// ListTools lists the tools of the caller's MCP servers, as last seen. Texts are what the servers say.
// A server that was never listed is started first if it is named.
func (s *Service) ListTools(ctx context.Context, p ToolsParams) (ToolsResult, error) {
	out := ToolsResult{Tools: []Tool{}}
	if err := storage.CheckPage(&p.Limit, &p.Offset, 50, 100); err != nil {
		return out, err
	}
	if err := s.syncApprovals(ctx); err != nil {
		return out, err
	}
	if p.Name != "" {
		r, err := s.row(ctx, p.Name)
		if err != nil {
			return out, err
		}
		if r.listedAt.IsZero() && r.isApproved() && *r.Enabled {
			if err := s.link(&r).refresh(ctx); err != nil {
				return out, err
			}
		}
	}
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		rows, err := loadServers(tx)
		if err != nil {
			return err
		}
		for i := range rows {
			if p.Name != "" && rows[i].Name != p.Name {
				continue
			}
			tools, err := loadTools(tx, rows[i].id)
			if err != nil {
				return err
			}
			for k := range tools {
				if v := tools[k].view(rows[i].Name); strings.Contains(strings.ToLower(v.ID+"\n"+v.Title+"\n"+v.Description), strings.ToLower(p.Query)) {
					out.Tools = append(out.Tools, v)
				}
			}
		}
		return nil
	})
	out.Total = len(out.Tools)
	out.Tools = out.Tools[min(p.Offset, out.Total):]
	out.Tools = out.Tools[:min(p.Limit, len(out.Tools))]
	for i := range out.Tools {
		if t := &out.Tools[i]; t.State == ToolChanged && err == nil {
			d, derr := s.perm.Diff(ctx, permission.DiffParams{SubjectKind: string(Kind), SubjectID: t.ID})
			if derr != nil && !fault.Is(derr, fault.NotFound) {
				return out, derr
			}
			t.Changes = d.Changes
		}
	}
	return out, err
}

func (t *toolRow) view(server string) Tool {
	d := t.definition()
	v := Tool{
		ID: toolID(server, t.name), Server: server, Name: visible(t.name, 256), Function: t.function, Title: visible(d.Title, 256), Description: visible(d.Description, 16<<10),
		InputSchema: d.Input, OutputSchema: d.Output, Tier: t.tier, Tokens: t.tokens, State: t.state, Problem: t.problem, Hash: hexHash(t.hash),
	}
	if d.Annotations != nil {
		v.Hints = *d.Annotations
	}
	return v
}

// reviewHash is the hash of what a person sees when approving a server: its entry and its tools.
func reviewHash(r *serverRow, tools []toolRow) string {
	h := sha256.New()
	h.Write(r.hash[:])
	for i := range tools {
		if tools[i].state != ToolRemoved {
			h.Write(tools[i].hash[:])
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// ApproveParams approve a server and tools of it.
type ApproveParams struct {
	Name string `json:"name"`
	// DefinitionHash is that of mcp.server, so that only what was shown is approved.
	DefinitionHash string `json:"definitionHash"`
	// Tools are the names of the tools that may be called from now on; * stands for all, readOnly for
	// those that claim to only read.
	Tools []string `json:"tools,omitempty"`
	// Tier of these tools; "": side_effecting, or read_only with trust read and the server's claim.
	Tier string `json:"tier,omitempty"`
}

// ApproveResult lists the permissions that were granted.
type ApproveResult struct {
	Grants []permission.Grant `json:"grants"`
	Tools  []string           `json:"tools"` // what was approved
}

// ApproveServer approves what an MCP server runs or connects to, and some of its tools. Calls of these
// tools are allowed until a definition changes or the permission is revoked. If the entry or the
// list is no longer what was shown, the error is Conflict and nothing is approved.
func (s *Service) ApproveServer(ctx context.Context, p ApproveParams) (ApproveResult, error) {
	out := ApproveResult{Grants: []permission.Grant{}, Tools: []string{}}
	if who, _ := identity.From(ctx); !who.MayApprove() {
		return out, fault.Deniedf("Only a person can approve an MCP server.")
	}
	if p.Tier != "" && !slices.Contains([]string{permission.ReadOnly.String(), permission.SideEffecting.String(), permission.Privileged.String()}, p.Tier) {
		return out, fault.InvalidField("/tier", "tier", "tier must be read_only, side_effecting or privileged.")
	}
	var ids []string
	err := s.write(ctx, func(tx *storage.Tx) error {
		ids, out.Tools = nil, out.Tools[:0]
		r, err := loadServer(tx, p.Name)
		if err != nil {
			return err
		}
		tools, err := loadTools(tx, r.id)
		if err != nil {
			return err
		}
		if p.DefinitionHash != reviewHash(&r, tools) {
			return fault.Conflictf("%s has changed since you opened it. Nothing was approved. Review it again.", r.Name).WithDetails(map[string]string{"definitionHash": reviewHash(&r, tools)})
		}
		if !r.isApproved() {
			if err := s.approveServer(tx, &r); err != nil {
				return err
			}
		}
		chosen, err := choose(tools, p.Tools, r.Name)
		if err != nil {
			return err
		}
		for _, t := range chosen {
			if err := s.approveTool(tx, &r, t, p.Tier); err != nil {
				return err
			}
			ids, out.Tools = append(ids, toolID(r.Name, t.name)), append(out.Tools, t.name)
		}
		tx.AfterCommit(func() { bus.Publish(s.bus, r.user, Changed{r.Name, s.stateOf(r.id)}) })
		return s.subjectsChanged(tx, &r, true)
	})
	if err != nil {
		return out, err
	}
	if r, rerr := s.row(ctx, p.Name); rerr == nil {
		l := s.link(&r)
		l.mu.Lock()
		if l.state == StateSuspended {
			l.state, l.lastError = StateStopped, ""
		}
		l.mu.Unlock()
	}
	for _, id := range ids {
		grants, _, err := s.perm.GrantsOf(ctx, string(Kind), id)
		if err != nil {
			return out, err
		}
		out.Grants = append(out.Grants, grants...)
	}
	return out, nil
}

func (s *Service) stateOf(id uuid.UUID) string {
	s.mu.Lock()
	l := s.links[id]
	s.mu.Unlock()
	if l == nil {
		return StateStopped
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}

// choose returns the tools that names stand for.
func choose(tools []toolRow, names []string, server string) ([]*toolRow, error) {
	var out []*toolRow
	for _, name := range names {
		found := false
		for i := range tools {
			t := &tools[i]
			usable := t.state != ToolRemoved && t.state != ToolDenied
			d := t.definition()
			claims := d.Annotations != nil && d.Annotations.ReadOnly
			switch {
			case t.name == name && !usable:
				return nil, fault.Invalidf("%s can't be approved: %s", toolID(server, name), first(t.problem, "it was removed or is excluded by the entry"))
			case t.name == name, name == "*" && usable, name == "readOnly" && usable && claims:
				found = true
				if !slices.Contains(out, t) {
					out = append(out, t)
				}
			}
		}
		if !found && name != "*" && name != "readOnly" {
			return nil, fault.NotFoundf("%s has no tool %q.", server, visible(name, 128))
		}
	}
	return out, nil
}

func first(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// approveTool approves the definition of a tool and grants its calls.
func (s *Service) approveTool(tx *storage.Tx, r *serverRow, t *toolRow, tier string) error {
	sub, id := t.subject(r.Name), toolID(r.Name, t.name)
	want := permission.Want{Capability: permission.MCP, Resource: id}
	if err := s.perm.ApproveDefinition(tx, sub, approvalDocument(r.Name, t.document), []permission.Want{want}, "user"); err != nil {
		return err
	}
	if err := s.perm.GrantTx(tx, sub, []permission.Want{want}); err != nil {
		return err
	}
	d := t.definition()
	tier = first(tier, d.tier(r.Trust).String())
	_, err := tx.Exec(`UPDATE mcp_tools SET approved_hash = ?, state = 'approved', tier = ? WHERE id = ?`, t.hash, tier, t.id)
	return err
}
