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

// ImportParams give exactly one source. The first call (dry run, the default) returns the
// review; the second, with DryRun false, adds exactly what was reviewed and is a conflict
// when the source has changed since.
type ImportParams struct {
	Bundle     json.RawMessage `json:"bundle,omitempty"` // a bundle, or one tool in the older form; ≤ 5 MiB
	URL        string          `json:"url,omitempty"`    // https address of a bundle
	ShareID    *uuid.UUID      `json:"shareId,omitempty"`
	DryRun     *bool           `json:"dryRun,omitempty"`     // default true
	OnConflict OnConflict      `json:"onConflict,omitempty"` // default rename
}

// OnConflict says what to do with a tool whose name is taken.
type OnConflict string

// What to do when the name is taken.
const (
	Rename  OnConflict = "rename"
	Replace OnConflict = "replace"
	Skip    OnConflict = "skip"
)

// Enum lists the values for the generated client.
func (OnConflict) Enum() []string { return []string{"rename", "replace", "skip"} }

// ImportItem is the review of one tool.
type ImportItem struct {
	Name                  string                  `json:"name"`
	Action                string                  `json:"action"` // create, rename, replace, skip or blocked
	NewName               string                  `json:"newName,omitempty"`
	DefinitionHash        string                  `json:"definitionHash"`
	Signature             lifecycle.SignatureInfo `json:"signature"`
	RequestedCapabilities []string                `json:"requestedCapabilities"`
	Warnings              []string                `json:"warnings"`
	Diff                  *DiffResult             `json:"diff,omitempty"` // replace: what changes in the tool that is here
	Definition            BundleDefinition        `json:"definition"`
	Version               string                  `json:"version"`
	Author                string                  `json:"author"`
}

// ImportResult is the review and, after the second step, the tools that were added; they are
// disabled and private.
type ImportResult struct {
	Items []ImportItem `json:"items"`
	Tools []Tool       `json:"tools"`
}

// Import reviews or adds the tools of a bundle, an address or a share. It is all or nothing.
func (s *Service) Import(ctx context.Context, p ImportParams) (ImportResult, error) {
	if err := checkEnum("choice for a taken name", p.OnConflict); err != nil {
		return ImportResult{}, err
	}
	if p.OnConflict == "" {
		p.OnConflict = Rename
	}
	list, source, origin, err := s.readSource(ctx, p)
	if err != nil {
		return ImportResult{}, err
	}
	if p.DryRun == nil || *p.DryRun {
		return s.review(ctx, list, source, p.OnConflict)
	}
	return s.commit(ctx, list, source, origin, p.OnConflict)
}

// readSource reads and checks the one source that p names.
func (s *Service) readSource(ctx context.Context, p ImportParams) (list []candidate, source string, origin Origin, err error) {
	n := 0
	for _, given := range []bool{len(p.Bundle) > 0, p.URL != "", p.ShareID != nil} {
		if given {
			n++
		}
	}
	if n != 1 {
		return nil, "", "", fault.Invalidf("Give exactly one of bundle, url and shareId.")
	}
	switch {
	case p.ShareID != nil:
		list, err := s.readShare(ctx, *p.ShareID, false)
		return list, "share:" + p.ShareID.String(), OriginShare, err
	case strings.HasPrefix(p.URL, shareScheme):
		id, err := parseShareURL(p.URL)
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
		return nil, fault.Invalidf("Tools are imported from an https address or a helix:// link.")
	}
	r, err := s.direct.Do(ctx, safehttp.Request{URL: address, Header: http.Header{"Accept": {"application/json"}}})
	if err != nil {
		return nil, err
	}
	if r.Status != http.StatusOK {
		return nil, fault.Unavailablef("The address answered with status %d.", r.Status)
	}
	return r.Body, nil
}

// actionBlocked marks a tool whose signature does not match it.
const actionBlocked = "blocked"

// plan is the review of one candidate and where an import puts it.
type plan struct {
	lifecycle.Place
	item ImportItem
	old  *Tool // of the user, with this name
	same bool  // old has this definition
}

// plans decides for each candidate what an import would do, without doing it.
func (s *Service) plans(tx *storage.Tx, list []candidate, on OnConflict) ([]plan, error) {
	user := identity.UserID(tx.Context())
	taken := map[string]bool{}
	for _, c := range list {
		taken[strings.ToLower(c.tool.Definition.Name)] = true
	}
	out := make([]plan, 0, len(list))
	for _, c := range list {
		it := ImportItem{
			Name: c.tool.Definition.Name, Action: "create", DefinitionHash: hashText(c.examined.hash), RequestedCapabilities: c.examined.def.Capabilities,
			Warnings: append([]string{}, c.warnings...), Definition: c.tool.Definition, Version: c.tool.Version, Author: c.tool.Author,
		}
		var err error
		if it.Signature, err = lifecycle.Trust(tx, s.db, user, c.tool.Signature, c.state); err != nil {
			return nil, err
		}
		if it.Signature.State == lifecycle.SignatureUnknown {
			it.Warnings = append(it.Warnings, "The signature is valid, but its key is new here. Compare the fingerprint with the signer before you trust it.")
		}
		known, err := lifecycle.AuthorHasOtherKey(tx, user, c.tool.Author, it.Signature.Fingerprint)
		if err != nil {
			return nil, err
		}
		if known {
			it.Warnings = append(it.Warnings, "You know an author named \""+c.tool.Author+"\" with another key. This may be someone else.")
		}
		p := plan{}
		if p.Place, err = s.kind.Place(tx, user, it.Name, lifecycle.OnConflict(on), taken); err != nil {
			return nil, err
		}
		if p.Old != nil {
			if p.old, err = ownTool(tx, p.Old.ID); err != nil {
				return nil, err
			}
			p.same = p.old.hash == c.examined.hash
			it.Action = string(on)
		}
		switch {
		case p.Name != it.Name && p.Action == lifecycle.Create:
			it.NewName = p.Name
		case p.Action == lifecycle.Update:
			d := compare(p.old.definition(), c.examined.def, p.old.Version, c.tool.Version)
			it.Diff = &d
		}
		if it.Signature.State == lifecycle.SignatureInvalid {
			it.Action = actionBlocked
		}
		p.item = it
		out = append(out, p)
	}
	return out, nil
}

func digests(list []candidate) []string {
	out := make([]string, len(list))
	for i, c := range list {
		out[i] = c.digest
	}
	return out
}

// review answers a dry run and remembers what it showed.
func (s *Service) review(ctx context.Context, list []candidate, source string, on OnConflict) (ImportResult, error) {
	out := ImportResult{Items: []ImportItem{}, Tools: []Tool{}}
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		ps, err := s.plans(tx, list, on)
		for _, p := range ps {
			out.Items = append(out.Items, p.item)
		}
		return err
	})
	if err != nil {
		return out, err
	}
	s.sweep()
	shown := digests(list)
	if source == "bundle" {
		source += ":" + strings.Join(shown, ",")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.reviews) >= 1000 {
		clear(s.reviews)
	}
	s.reviews[reviewKey{identity.UserID(ctx), source}] = review{items: shown, until: time.Now().Add(reviewTime)}
	return out, nil
}

// commit adds exactly what was reviewed.
func (s *Service) commit(ctx context.Context, list []candidate, source string, origin Origin, on OnConflict) (ImportResult, error) {
	out := ImportResult{Items: []ImportItem{}, Tools: []Tool{}}
	user := identity.UserID(ctx)
	now := digests(list)
	if source == "bundle" {
		source += ":" + strings.Join(now, ",")
	}
	s.mu.Lock()
	seen, ok := s.reviews[reviewKey{user, source}]
	s.mu.Unlock()
	if !ok || time.Now().After(seen.until) || !slices.Equal(seen.items, now) {
		return out, fault.Conflictf("The source has changed since the review. Nothing was imported. Review it again first.")
	}
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		ps, err := s.plans(tx, list, on)
		if err != nil {
			return err
		}
		for i, p := range ps {
			if p.item.Action == actionBlocked {
				return bundleError(i, "signature", "The signature does not match the tool. To import it as unsigned, remove the signature from the file first.")
			}
		}
		for i, p := range ps {
			out.Items = append(out.Items, p.item)
			if p.Action == lifecycle.Leave {
				continue
			}
			t, err := s.importOne(tx, &list[i], p, origin)
			if err != nil {
				return err
			}
			out.Tools = append(out.Tools, *t)
		}
		return nil
	})
	if err != nil {
		return ImportResult{Items: []ImportItem{}, Tools: []Tool{}}, err
	}
	s.mu.Lock()
	delete(s.reviews, reviewKey{user, source})
	s.mu.Unlock()
	return out, nil
}

// importOne adds or replaces one tool in tx.
func (s *Service) importOne(tx *storage.Tx, c *candidate, p plan, origin Origin) (*Tool, error) {
	user := identity.UserID(tx.Context())
	if p.item.Signature.State != lifecycle.SignatureTrusted {
		if err := lifecycle.AddSigner(tx, user, c.tool.Signature); err != nil {
			return nil, err
		}
	}
	if p.Action == lifecycle.Update {
		return s.replace(tx, c, p.old, origin)
	}
	t := &Tool{
		ID: storage.NewID(), owner: user, Mine: true, Name: p.Name, Version: c.tool.Version, Author: c.tool.Author, Icon: c.tool.Icon,
		Tags: c.tool.Tags, Samples: c.tool.Samples, Origin: origin, Visibility: Private, sig: c.tool.Signature,
	}
	t.setDefinition(c.examined.def)
	t.hash, t.DefinitionHash = c.examined.hash, hashText(c.examined.hash)
	if err := s.add(tx, t, "imported"); err != nil {
		return nil, err
	}
	for _, v := range c.tool.History {
		old := *t
		old.setDefinition(v.Definition.definition())
		hash, err := old.definition().sum()
		if err != nil {
			return nil, err
		}
		old.hash, old.Version, old.Author = hash, v.Version, v.Author
		if err := insertVersion(tx, &old, v.Note); err != nil {
			return nil, err
		}
	}
	return t, s.complete(tx, t)
}

// replace makes the imported definition a new version of a tool that is here.
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
