package tools

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/lifecycle"
	"helix/backend/safehttp"
	"helix/backend/storage"
)

// ImportParams contains exactly one source. The first call (dry run, the default) returns the
// review. The second, with DryRun false, adds exactly what was reviewed; it fails with a conflict
// if the source has changed since.
type ImportParams struct {
	Bundle     json.RawMessage      `json:"bundle,omitempty"` // a bundle, or one tool in the older form; ≤ 5 MiB
	URL        string               `json:"url,omitempty"`    // https address of a bundle
	ShareID    *uuid.UUID           `json:"shareId,omitempty"`
	DryRun     *bool                `json:"dryRun,omitempty"`     // default true
	OnConflict lifecycle.OnConflict `json:"onConflict,omitempty"` // default rename
}

// ImportItem is the review of one tool.
type ImportItem struct {
	Name                  string                  `json:"name"`
	Action                string                  `json:"action"` // create, rename, replace, skip or blocked
	NewName               string                  `json:"newName,omitempty"`
	DefinitionHash        string                  `json:"definitionHash"`
	Signature             lifecycle.SignatureInfo `json:"signature"`
	RequestedCapabilities []string                `json:"requestedCapabilities"`
	Warnings              []string                `json:"warnings"`
	Diff                  *DiffResult             `json:"diff,omitempty"` // for replace: the change to the existing tool
	Definition            BundleDefinition        `json:"definition"`
	Version               string                  `json:"version"`
	Author                string                  `json:"author"`
}

// ImportResult is the review and, after the second step, the added tools, which are disabled and private.
type ImportResult struct {
	Items []ImportItem `json:"items"`
	Tools []Tool       `json:"tools"`
}

// Import reviews or adds the tools of a bundle, an address or a share. It adds either all or none.
func (s *Service) Import(ctx context.Context, p ImportParams) (ImportResult, error) {
	if err := lifecycle.CheckEnum("choice for a taken name", p.OnConflict); err != nil {
		return ImportResult{}, err
	}
	if p.OnConflict == "" {
		p.OnConflict = lifecycle.Rename
	}
	list, source, origin, err := s.readSource(ctx, p)
	if err != nil {
		return ImportResult{}, err
	}
	if p.DryRun == nil || *p.DryRun {
		return s.review(ctx, list, source, p.OnConflict)
	}
	key, shown := reviewOf(ctx, list, source)
	s.mu.Lock()
	seen, ok := s.reviews[key]
	s.mu.Unlock()
	if !ok || time.Now().After(seen.until) || !slices.Equal(seen.items, shown) {
		return ImportResult{Items: []ImportItem{}, Tools: []Tool{}}, fault.Conflictf("The source has changed since the review. Nothing was imported. Review it again first.")
	}
	out, _, err := s.importList(ctx, list, p.OnConflict, origin, true)
	if err == nil {
		s.mu.Lock()
		delete(s.reviews, key)
		s.mu.Unlock()
	}
	return out, err
}

// readSource reads and checks the source.
func (s *Service) readSource(ctx context.Context, p ImportParams) (list []candidate, source string, origin Origin, err error) {
	n := 0
	for _, given := range []bool{len(p.Bundle) > 0, p.URL != "", p.ShareID != nil} {
		if given {
			n++
		}
	}
	if n != 1 {
		return nil, "", "", fault.Invalidf("Provide exactly one of bundle, url or shareId.")
	}
	switch {
	case p.ShareID != nil:
		list, err := s.readShare(ctx, *p.ShareID, false)
		return list, "share:" + p.ShareID.String(), OriginShare, err
	case strings.HasPrefix(p.URL, "helix:"):
		id, err := lifecycle.ParseShareURL(shareDomain, "tool", p.URL)
		if err != nil {
			return nil, "", "", err
		}
		list, err := s.readShare(ctx, id, false)
		return list, "share:" + id.String(), OriginShare, err
	case p.URL != "":
		raw, err := s.download(ctx, p.URL)
		if err != nil {
			return nil, "", "", err
		}
		list, err := s.checker().readBundle(ctx, raw)
		return list, "url:" + p.URL, OriginImport, err
	}
	list, err = s.checker().readBundle(ctx, p.Bundle)
	return list, "bundle", OriginImport, err
}

func (s *Service) download(ctx context.Context, address string) ([]byte, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return nil, fault.Invalidf("Tools can be imported from an https address or a helix:// link.")
	}
	r, err := s.direct.Do(ctx, safehttp.Request{URL: address, Header: http.Header{"Accept": {"application/json"}}})
	if err != nil {
		return nil, err
	}
	if r.Status != http.StatusOK {
		return nil, fault.Unavailablef("The address responded with status %d.", r.Status)
	}
	return r.Body, nil
}

// actionBlocked marks a tool with an invalid signature.
const actionBlocked = "blocked"

// item returns the review of a candidate on the wire. old is the tool that it would replace.
func (c *candidate) item(r *lifecycle.Review, on lifecycle.OnConflict, old *Tool) ImportItem {
	it := ImportItem{
		Name: c.Name, Action: "create", DefinitionHash: c.Hash, Signature: r.Signature, RequestedCapabilities: c.examined.def.Capabilities,
		Warnings: r.Warnings, Definition: c.tool.Definition, Version: c.tool.Version, Author: c.Author,
	}
	if r.Old != nil {
		it.Action = string(on)
	}
	switch {
	case r.Name != c.Name && r.Action == lifecycle.Create:
		it.NewName = r.Name
	case old != nil:
		d := compare(old.definition(), c.examined.def, old.Version, c.tool.Version)
		it.Diff = &d
	}
	if it.Signature.State == lifecycle.SignatureInvalid {
		it.Action = actionBlocked
	}
	return it
}

// reviewOf returns the key of a reviewed source, and digests of its tools.
func reviewOf(ctx context.Context, list []candidate, source string) (reviewKey, []string) {
	shown := make([]string, len(list))
	for i, c := range list {
		shown[i] = c.digest
	}
	if source == "bundle" {
		source += ":" + strings.Join(shown, ",")
	}
	return reviewKey{identity.UserID(ctx), source}, shown
}

// review performs a dry run and stores what it showed.
func (s *Service) review(ctx context.Context, list []candidate, source string, on lifecycle.OnConflict) (ImportResult, error) {
	out, _, err := s.importList(ctx, list, on, "", false)
	if err != nil {
		return out, err
	}
	s.sweep()
	key, shown := reviewOf(ctx, list, source)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.reviews) >= 1000 {
		clear(s.reviews)
	}
	s.reviews[key] = review{items: shown, until: time.Now().Add(reviewTime)}
	return out, nil
}

// importList reviews tools and, if commit is set, adds them.
func (s *Service) importList(ctx context.Context, list []candidate, on lifecycle.OnConflict, origin Origin, commit bool) (out ImportResult, reviews []lifecycle.Review, err error) {
	incoming := make([]lifecycle.Incoming, len(list))
	for i, c := range list {
		incoming[i] = c.Incoming
	}
	run := s.db.Read
	if commit {
		run = s.db.Write
	}
	err = run(ctx, func(tx *storage.Tx) (err error) {
		out = ImportResult{Items: []ImportItem{}, Tools: []Tool{}}
		if reviews, err = s.kind.Review(tx, s.db, incoming, on); err != nil {
			return err
		}
		old := make([]*Tool, len(list))
		for i := range reviews {
			r := &reviews[i]
			if r.Action == lifecycle.Update {
				if old[i], err = ownTool(tx, r.Old.ID); err != nil {
					return err
				}
			}
			out.Items = append(out.Items, list[i].item(r, on, old[i]))
		}
		if !commit {
			return nil
		}
		return lifecycle.Import(reviews, func(i int, r *lifecycle.Review) error {
			t, err := s.importOne(tx, &list[i], r, old[i], origin)
			if err == nil {
				out.Tools = append(out.Tools, *t)
			}
			return err
		})
	})
	if err != nil {
		out = ImportResult{Items: []ImportItem{}, Tools: []Tool{}}
	}
	return out, reviews, err
}

// importOne adds or replaces one tool in tx.
func (s *Service) importOne(tx *storage.Tx, c *candidate, r *lifecycle.Review, old *Tool, origin Origin) (*Tool, error) {
	user := identity.UserID(tx.Context())
	if r.Signature.State != lifecycle.SignatureTrusted {
		if err := lifecycle.AddSigner(tx, user, c.Signature); err != nil {
			return nil, err
		}
	}
	if old != nil {
		return s.replace(tx, c, old, origin)
	}
	t := &Tool{
		ID: storage.NewID(), owner: user, Mine: true, Name: r.Name, Version: c.tool.Version, Author: c.tool.Author, Icon: c.tool.Icon,
		Tags: c.tool.Tags, Samples: c.tool.Samples, Origin: origin, Visibility: Private, sig: c.tool.Signature,
	}
	t.setDefinition(c.examined.def)
	t.hash, t.DefinitionHash = c.examined.hash, hashText(c.examined.hash)
	if err := s.add(tx, t, "imported"); err != nil {
		return nil, err
	}
	for _, v := range c.tool.History {
		former := *t
		former.setDefinition(v.Definition.definition())
		hash, err := former.definition().sum()
		if err != nil {
			return nil, err
		}
		former.hash, former.Version, former.Author = hash, v.Version, v.Author
		if err := insertVersion(tx, &former, v.Note); err != nil {
			return nil, err
		}
	}
	return t, s.complete(tx, t)
}

// replace adds the imported definition as a new version of an existing tool.
func (s *Service) replace(tx *storage.Tx, c *candidate, old *Tool, origin Origin) (*Tool, error) {
	t := *old
	t.setDefinition(c.examined.def)
	t.Author, t.Icon, t.Tags, t.Samples, t.Origin, t.IsEnabled, t.Visibility = c.tool.Author, c.tool.Icon, c.tool.Tags, c.tool.Samples, origin, false, Private
	used, err := s.kind.HasVersion(tx, t.ID, c.tool.Version)
	if err != nil {
		return nil, err
	}
	if !used {
		t.Version = c.tool.Version
	}
	if _, err := s.commitDefinition(tx, old, &t, c.examined.hash, "replaced by an import"); err != nil {
		return nil, err
	}
	t.sig = c.tool.Signature
	if err := saveTool(tx, &t); err != nil {
		return nil, err
	}
	s.announce(tx, t.ID, "updated")
	if err := s.kind.Record(tx, t.item(), "imported", map[string]any{"version": t.Version, "definitionHash": t.DefinitionHash, "replaced": old.Version}); err != nil {
		return nil, err
	}
	return &t, s.complete(tx, &t)
}
