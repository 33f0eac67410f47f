package providers

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/safehttp"
)

// catalog returns the fetched catalog if it is newer than the embedded one, otherwise the embedded
// one.
func (s *Service) catalog() (*Catalog, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own, err := embeddedCatalog()
	if !s.read && s.o.CacheDir != "" {
		s.read = true
		if text, err := os.ReadFile(s.catalogFile()); err == nil {
			if s.fetched, err = ParseCatalog(text); err != nil {
				s.o.Logger.Warn("read the fetched catalog of models", "err", err)
			}
		}
	}
	if s.fetched != nil && (err != nil || s.fetched.Date >= own.Date) {
		return s.fetched, nil
	}
	return own, err
}

func (s *Service) catalogFile() string { return filepath.Join(s.o.CacheDir, "catalog.json") }

// ShowParams selects a part of the catalog.
type ShowParams struct {
	Provider string `json:"provider,omitempty"`
	Model    string `json:"model,omitempty"`
}

// ShowResult is the selected part of the catalog.
type ShowResult struct {
	Date      string   `json:"date"`
	SHA256    string   `json:"sha256"`
	Providers []string `json:"providers"`
	// Models are those of the selected provider.
	Models []ModelInfo `json:"models"`
}

// Show returns the active catalog: its providers, the models of one, or one model.
func (s *Service) Show(_ context.Context, p ShowParams) (ShowResult, error) {
	out := ShowResult{Providers: []string{}, Models: []ModelInfo{}}
	cat, err := s.catalog()
	if err != nil {
		return out, err
	}
	out.Date, out.SHA256 = cat.Date, cat.SHA256
	if p.Provider == "" {
		out.Providers = slices.Sorted(maps.Keys(cat.Providers))
		return out, nil
	}
	provider, ok := cat.Providers[p.Provider]
	if !ok {
		return out, fault.NotFoundf("The catalog has no provider %q.", p.Provider)
	}
	out.Providers = []string{p.Provider}
	for _, id := range slices.Sorted(maps.Keys(provider.Models)) {
		if p.Model == "" || p.Model == id {
			i, _ := cat.Info(p.Provider, id)
			out.Models = append(out.Models, i)
		}
	}
	if p.Model != "" && len(out.Models) == 0 {
		return out, fault.NotFoundf("The catalog has no model %q of %s.%s", p.Model, p.Provider, similar(cat.nearest(p.Provider, p.Model)))
	}
	return out, nil
}

// FetchResult is the result of fetching the catalog.
type FetchResult struct {
	Date      string  `json:"date"`
	SHA256    string  `json:"sha256"`
	Providers int     `json:"providers"`
	Models    int     `json:"models"`
	Changed   Changes `json:"changed"`
}

// Changes counts the models that differ.
type Changes struct {
	Added   int `json:"added"`
	Removed int `json:"removed"`
	Priced  int `json:"priced"`
}

// Fetch downloads the public catalog. It rejects a catalog that is invalid or has lost more than
// three tenths of its models, and keeps the previous one.
func (s *Service) Fetch(ctx context.Context, _ struct{}) (FetchResult, error) {
	old, err := s.catalog()
	if err != nil {
		return FetchResult{}, err
	}
	stream, err := s.o.HTTP.Stream(ctx, safehttp.StreamRequest{Request: safehttp.Request{URL: s.o.CatalogURL}, MaxBody: maxCatalog, Idle: time.Minute})
	if err != nil {
		return FetchResult{}, err
	}
	defer stream.Body.Close()
	if stream.Status != 200 {
		return FetchResult{}, fault.Unavailablef("Couldn't fetch the catalog: status %d.", stream.Status)
	}
	text, err := io.ReadAll(stream.Body)
	if err != nil {
		return FetchResult{}, err
	}
	c, err := ParseCatalog(text)
	if err != nil {
		return FetchResult{}, err
	}
	if c.Models()*10 < old.Models()*7 {
		return FetchResult{}, fault.Invalidf("The new catalog has %d models, the old one %d. The old one stays.", c.Models(), old.Models())
	}
	if s.o.CacheDir != "" {
		if err := os.MkdirAll(s.o.CacheDir, 0o700); err != nil {
			return FetchResult{}, err
		}
		if err := writeWhole(s.catalogFile(), text); err != nil {
			return FetchResult{}, err
		}
	}
	s.mu.Lock()
	s.fetched, s.read = c, true
	s.mu.Unlock()
	out := FetchResult{Date: c.Date, SHA256: c.SHA256, Providers: len(c.Providers), Models: c.Models()}
	for _, d := range differences(old, c) {
		switch d.Kind {
		case "added":
			out.Changed.Added++
		case "removed":
			out.Changed.Removed++
		default:
			out.Changed.Priced++
		}
	}
	bus.Publish(s.db.Bus(), identity.UserID(ctx), CatalogChanged{c.Date})
	return out, nil
}

// writeWhole replaces a file atomically.
func writeWhole(name string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".catalog-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = cmp.Or(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// Difference is a model that differs between two catalogs.
type Difference struct {
	Model ModelRef `json:"model"`
	// Kind is added, removed or priced.
	Kind string `json:"kind"`
}

func differences(a, b *Catalog) []Difference {
	out := []Difference{}
	for p, provider := range b.Providers {
		for id, m := range provider.Models {
			old, ok := a.Providers[p].Models[id]
			ref := ModelRef(p + "/" + id)
			switch {
			case !ok:
				out = append(out, Difference{ref, "added"})
			case fmt.Sprint(costOf(old)) != fmt.Sprint(costOf(m)):
				out = append(out, Difference{ref, "priced"})
			}
		}
	}
	for p, provider := range a.Providers {
		for id := range provider.Models {
			if _, ok := b.Providers[p].Models[id]; !ok {
				out = append(out, Difference{ModelRef(p + "/" + id), "removed"})
			}
		}
	}
	slices.SortFunc(out, func(x, y Difference) int { return strings.Compare(string(x.Model), string(y.Model)) })
	return out
}

func costOf(m CatalogModel) (out []catalogCost) {
	for c := m.Cost; c != nil; c = c.ContextOver {
		plain := *c
		plain.ContextOver = nil
		out = append(out, plain)
	}
	return out
}

// VerifyResult compares the active catalog with the embedded one.
type VerifyResult struct {
	Equal bool `json:"equal"`
	// Differences are at most 1,000.
	Differences []Difference `json:"differences"`
}

// Verify compares the active catalog with the one embedded in this version.
func (s *Service) Verify(context.Context, struct{}) (VerifyResult, error) {
	own, err := embeddedCatalog()
	if err != nil {
		return VerifyResult{}, err
	}
	now, err := s.catalog()
	if err != nil {
		return VerifyResult{}, err
	}
	d := differences(own, now)
	return VerifyResult{Equal: len(d) == 0, Differences: d[:min(len(d), 1000)]}, nil
}
