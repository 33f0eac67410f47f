package discovery

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/openapi"
	"helix/backend/storage"
)

// ImportOpenAPIParams choose operations of an inspected description for a tool.
type ImportOpenAPIParams struct {
	SpecID     string            `json:"specId"`
	Operations []string          `json:"operations,omitempty"` // keys
	Tags       []string          `json:"tags,omitempty"`       // all operations with one of these tags, too
	Name       string            `json:"name,omitempty"`       // default: from the title
	Server     string            `json:"server,omitempty"`     // an address of the description, or another one; default: its first
	Variables  map[string]string `json:"serverVariables,omitempty"`
	// OnConflict is what happens if a tool has the name: upgrade, rename or skip. Absent: a Conflict.
	OnConflict string `json:"onConflict,omitempty"`
	DryRun     bool   `json:"dryRun,omitempty"` // only return what would be imported
}

// ImportResult is a tool that was, or would be, imported.
type ImportResult struct {
	Manifest       Manifest   `json:"manifest"`
	DefinitionHash string     `json:"definitionHash"`
	SourceShape    string     `json:"sourceShape,omitempty"` // of a manifest: canonical, guide or schema
	Warnings       []string   `json:"warnings"`
	Diff           *Diff      `json:"diff,omitempty"`       // from the definition that it replaces
	ManifestID     *uuid.UUID `json:"manifestId,omitempty"` // absent: nothing was stored
	Status         string     `json:"status,omitempty"`
}

// Diff is what changes between two definitions of a tool.
type Diff struct {
	Added   []string `json:"added"`   // operations
	Removed []string `json:"removed"` // operations
	Changed []string `json:"changed"` // operations, the server or hosts
}

// ImportOpenAPI makes a tool of operations of an inspected description. It waits for approval: an
// import gives no permission. The same operations of the same description change nothing.
func (s *Service) ImportOpenAPI(ctx context.Context, p ImportOpenAPIParams) (ImportResult, error) {
	x, err := s.spec(ctx, p.SpecID)
	if err != nil {
		return ImportResult{}, err
	}
	raw, err := s.description(x)
	if err != nil {
		return ImportResult{}, err
	}
	d, err := openapi.Parse(raw, x.location)
	if err != nil {
		return ImportResult{}, err
	}
	t := &Tool{Name: p.Name, Version: "1.0.0", Description: clipText(d.Title, 300), SourceType: "local", SourceLocation: x.location, Type: "http", user: identity.UserID(ctx)}
	if u, err := parseURL(x.location); err == nil && u.Scheme != "" {
		t.SourceType = "openapi_url"
	}
	if t.Name == "" {
		t.Name = slug(d.Title)
	}
	if toolVersion.MatchString(d.Version) {
		t.Version = d.Version
	}
	if !toolName.MatchString(t.Name) { // before it is part of other names
		return ImportResult{}, (&Manifest{Name: t.Name}).check()
	}
	chosen, err := choose(d, p)
	if err != nil {
		return ImportResult{}, err
	}
	server, err := chooseServer(d, p)
	if err != nil {
		return ImportResult{}, err
	}
	warnings, err := s.define(ctx, t, d, chosen, server)
	if err != nil {
		return ImportResult{}, err
	}
	out := ImportResult{Manifest: t.manifest, DefinitionHash: fmt.Sprintf("%x", t.hash), Warnings: warnings}
	return s.commit(ctx, t, out, conflict{p.DryRun, p.OnConflict, func(name string) (ImportResult, error) {
		p.Name, p.OnConflict = name, ""
		return s.ImportOpenAPI(ctx, p)
	}})
}

// conflict says how an import is stored.
type conflict struct {
	dryRun     bool
	onConflict string
	again      func(name string) (ImportResult, error) // the same import with another name
}

// choose returns the chosen operations, by path.
func choose(d *openapi.Document, p ImportOpenAPIParams) ([]openapi.Operation, error) {
	out := []openapi.Operation{}
	for _, key := range p.Operations {
		if _, ok := d.Operation(key); !ok {
			return nil, fault.InvalidField("operations", fault.CodeInvalid, "The API has no operation %.200q.", key)
		}
	}
	for _, o := range d.Operations {
		if slices.Contains(p.Operations, o.Key) || slices.ContainsFunc(o.Tags, func(t string) bool { return slices.Contains(p.Tags, t) }) {
			out = append(out, o)
		}
	}
	if len(out) == 0 || len(out) > maxOperations {
		return nil, fault.InvalidField("operations", fault.CodeRange, "Choose 1 to %d operations.", maxOperations)
	}
	return out, nil
}

// chooseServer returns the address that requests go to.
func chooseServer(d *openapi.Document, p ImportOpenAPIParams) (string, error) {
	if p.Server == "" {
		return d.ServerURL(d.Servers[0], p.Variables)
	}
	if i := slices.IndexFunc(d.Servers, func(s openapi.Server) bool { return s.URL == p.Server }); i >= 0 {
		return d.ServerURL(d.Servers[i], p.Variables)
	}
	return d.CheckServer(p.Server)
}

// define fills in the manifest of t and stores the kept part of the description.
func (s *Service) define(ctx context.Context, t *Tool, d *openapi.Document, chosen []openapi.Operation, server string) (warnings []string, err error) {
	warnings = []string{}
	if err := checkProtocol(d.Protocol, chosen); err != nil {
		return nil, err
	}
	if len(chosen) > manyChosen {
		warnings = append(warnings, fmt.Sprintf("%d operations are many for a model to choose from. Consider fewer.", len(chosen)))
	}
	host, err := hostOf(server)
	if err != nil {
		return nil, err
	}
	hosts, keys := []string{host}, []string{}
	for _, o := range chosen {
		keys = append(keys, o.Key)
		plan, err := d.Plan(o.Key)
		if err != nil {
			return nil, err
		}
		for _, note := range plan.Notes() {
			warnings = append(warnings, o.Key+": "+note)
		}
		own, err := ownServer(d, plan)
		if err != nil {
			return nil, err
		}
		if own == "" {
			continue
		}
		if host, err = hostOf(own); err != nil {
			return nil, err
		}
		if !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	slices.Sort(hosts)
	kept, err := d.Keep(keys)
	if err != nil {
		return nil, err
	}
	ref, err := s.db.Blobs().PutBytes(ctx, kept)
	if err != nil {
		return nil, err
	}
	t.spec = "sha256:" + ref.String()
	t.manifest = Manifest{
		ManifestVersion: 1, Name: t.Name, Version: t.Version, Description: t.Description, Capabilities: capabilities(t.Name, chosen),
		Execution: ExecutionSpec{Type: "http", OpenAPI: ref.String(), Server: server, Protocol: d.Protocol, TimeoutSeconds: 30}, Permissions: Permissions{Network{hosts}},
	}
	if err := t.manifest.check(); err != nil {
		return nil, err
	}
	t.hash, err = t.manifest.hash()
	return warnings, err
}

// ownServer returns the address that an operation is sent to instead of the server of the tool; "":
// it is not.
func ownServer(d *openapi.Document, plan *openapi.Plan) (string, error) {
	if list := plan.Hosts(); len(list) > 0 {
		return d.ServerURL(list[0], nil)
	}
	return "", nil
}

// commit stores the tool unless this is a dry run, and asks for its approval.
func (s *Service) commit(ctx context.Context, t *Tool, out ImportResult, p conflict) (ImportResult, error) {
	store := s.db.Read
	if !p.dryRun {
		store = s.db.Write
	}
	var unchanged bool
	err := store(ctx, func(tx *storage.Tx) error {
		was, err := toolNamed(tx, t.Name)
		if err != nil {
			return err
		}
		if was != nil {
			out.Diff = difference(&was.manifest, &t.manifest)
			out.ManifestID, out.Status = &was.ID, was.Status
			if unchanged = was.hash == t.hash; unchanged {
				return nil
			}
		}
		if p.dryRun {
			out.ManifestID, out.Status = nil, ""
			return nil
		}
		t.Status, t.shared = StatusPending, StatusPending
		switch {
		case was == nil:
			var n int
			if err := tx.QueryRow(`SELECT count(*) FROM tool_manifest WHERE user_id = ? AND status <> 'revoked' AND deleted_at IS NULL`, t.user).Scan(&n); err != nil {
				return err
			}
			if n >= maxTools {
				return fault.Limitf("You have %d tools from API descriptions. Revoke one first.", n)
			}
			t.ID = storage.NewID()
			if err := t.insert(tx); err != nil {
				return err
			}
		case p.onConflict == "skip":
			return nil
		case p.onConflict == "upgrade":
			t.ID = was.ID
			if was.shared == StatusDisabled {
				t.shared = StatusDisabled // also once it is approved
			}
			if err := t.replace(tx); err != nil {
				return err
			}
			if t, err = s.definitionChanged(tx, t, was.hash); err != nil {
				return err
			}
		default:
			return fault.Conflictf("You already have a tool named %s. Choose another name, or upgrade it.", t.Name).WithDetails(out.Diff)
		}
		out.ManifestID, out.Status = &t.ID, t.Status
		if err := audit.Append(tx, audit.Entry{Action: "tool.imported", SubjectKind: string(Kind), SubjectID: t.ID.String(), Details: map[string]any{"name": t.Name, "source": t.SourceLocation, "hash": t.hash[:4], "operations": len(t.manifest.Capabilities)}}); err != nil {
			return err
		}
		s.announce(tx, t.user, Changed{t.ID, t.Status})
		if was != nil {
			return nil // definitionChanged has asked
		}
		return s.ask(tx, t)
	})
	if fault.Is(err, fault.Conflict) && p.onConflict == "rename" {
		return renamed(t, p)
	}
	return out, err
}

// renamed imports the tool with the next free name.
func renamed(t *Tool, p conflict) (ImportResult, error) {
	base := strings.TrimRight(t.Name[:min(len(t.Name), 58)], "-")
	for i := 2; i < 100; i++ {
		out, err := p.again(fmt.Sprintf("%s-%d", base, i))
		if !fault.Is(err, fault.Conflict) {
			return out, err
		}
	}
	return ImportResult{}, fault.Conflictf("No name like %s is free. Choose another name.", t.Name)
}

// difference compares two definitions.
func difference(was, is *Manifest) *Diff {
	d := &Diff{Added: []string{}, Removed: []string{}, Changed: []string{}}
	for _, c := range is.Capabilities {
		old, ok := was.capability(c.Name)
		switch {
		case !ok:
			d.Added = append(d.Added, c.Operation)
		case old != c:
			d.Changed = append(d.Changed, c.Operation)
		}
	}
	for _, c := range was.Capabilities {
		if _, ok := is.capability(c.Name); !ok {
			d.Removed = append(d.Removed, c.Operation)
		}
	}
	if was.Execution.Server != is.Execution.Server {
		d.Changed = append(d.Changed, "server "+is.Execution.Server)
	}
	if string(rawJSON(was.Samples)) != string(rawJSON(is.Samples)) {
		d.Changed = append(d.Changed, "samples")
	}
	for _, h := range is.Permissions.Network.Hosts {
		if !slices.Contains(was.Permissions.Network.Hosts, h) {
			d.Changed = append(d.Changed, "host "+h)
		}
	}
	return d
}
