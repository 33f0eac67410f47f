package providers

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"helix/backend/audit"
	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/safehttp"
	"helix/backend/storage"
)

// The sources of keys.
const (
	sourceSealed = "secret"
	sourceEnv    = "environment"
	sourceFile   = "config.toml"
)

// secretOf returns the name of the encrypted secret that holds the key of an entry.
func secretOf(name string) string { return "provider/" + name }

// Service keeps the registry of model services, the roles and the catalog, and owns the Router.
type Service struct {
	*Router
	db      *storage.DB
	secrets *storage.Secrets
	o       ServiceOptions

	vocabularies vocabularies

	mu      sync.Mutex
	fetched *Catalog
	read    bool // the fetched catalog has been looked up
}

// ServiceOptions configures New. HTTP and Meter are required.
type ServiceOptions struct {
	HTTP  *safehttp.Client
	Meter Meter
	// Env returns a variable of the environment.
	Env func(name string) (string, bool)
	// File returns the section providers of config.toml, keyed by the rest of the key.
	File func() map[string]any
	// Roles and Caps return the sections models and caps of config.toml in the same way.
	Roles func() map[string]any
	Caps  func() map[string]any
	// CacheDir is the folder of the fetched catalog; empty: it is not stored.
	CacheDir string
	// CatalogURL is the address of the catalog; empty: models.dev.
	CatalogURL    string
	AllowScripted bool
	Logger        *slog.Logger
}

// New returns the service. It makes no calls itself.
func New(db *storage.DB, o ServiceOptions) (*Service, error) {
	if o.Env == nil {
		o.Env = func(string) (string, bool) { return "", false }
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.CatalogURL == "" {
		o.CatalogURL = "https://models.dev/api.json"
	}
	s := &Service{db: db, secrets: storage.NewSecrets(db), o: o}
	r, err := Open(Options{Config: s.config, Key: s.key, Catalog: s.catalog, HTTP: o.HTTP, Meter: o.Meter, AllowScripted: o.AllowScripted, Logger: o.Logger, Override: func(provider string, i *ModelInfo) bool {
		all, _ := s.overridden()
		all.change(provider, i)
		return all[string(i.Ref)] != nil
	}})
	s.Router = r
	return s, err
}

// Changed is published when an entry, what is known about it, or the models of a role have changed.
type Changed struct {
	// Name is the entry; empty: a role.
	Name  string `json:"name"`
	State string `json:"state"`
}

// CatalogChanged is published when another catalog becomes active.
type CatalogChanged struct {
	Date string `json:"date"`
}

// key returns the key of an entry and its source: the encrypted secret, the named variable, the
// variables of the service, or API_KEY where it can't be sent to a third party.
func (s *Service) key(ctx context.Context, name string, e Entry) (key, source string, err error) {
	if f := s.file()[name]; f != nil {
		if key, source, err = f.key(ctx, s.secrets); err != nil || key != "" {
			return key, source, err
		}
	} else {
		value, err := s.secrets.Value(ctx, secretOf(name))
		switch {
		case err == nil:
			return string(value), sourceSealed, nil
		case !fault.Is(err, fault.NotFound):
			return "", "", err
		}
	}
	var variables []string
	if e.APIKeyEnv != "" {
		variables = append(variables, e.APIKeyEnv)
	}
	if e.official() {
		variables = append(variables, defaults[e.Type].env...)
	} else if cat, err := s.catalog(); err == nil {
		p := cat.Providers[catalogProvider(cat, name, e)]
		if u, err := url.Parse(p.API); err == nil && u.Host != "" && u.Host == e.host() {
			variables = append(variables, p.Env...)
		}
	}
	if e.BaseURL == "" || e.GenericKey {
		variables = append(variables, "API_KEY")
	}
	for _, v := range variables {
		if value, ok := s.o.Env(v); ok && value != "" {
			return value, sourceEnv + " " + v, nil
		}
	}
	return "", "", nil
}

// Keys returns the keys that the caller's entries use, by entry name, for removing them from texts.
// They must not leave the backend.
func (s *Service) Keys(ctx context.Context) (map[string]string, error) {
	entries, _, err := s.config(ctx)
	out := map[string]string{}
	for name, e := range entries {
		key, _, kerr := s.key(ctx, name, e)
		if err = errors.Join(err, kerr); key != "" {
			out[name] = key
		}
	}
	return out, err
}

// SecretUsers calls add with the name and the user of each secret that the caller's entries refer to.
func (s *Service) SecretUsers(ctx context.Context, add func(secret, user string)) error {
	entries, _, err := s.config(ctx)
	file := s.file()
	for name := range entries {
		secret, stored := secretOf(name), true
		if f := file[name]; f != nil {
			secret, stored = strings.CutPrefix(f.Key, secretPrefix)
		}
		if stored {
			add(secret, "model provider "+name)
		}
	}
	return err
}

// View is an entry as the interface shows it.
type View struct {
	Name    string `json:"name"`
	Type    string `json:"type"`
	BaseURL string `json:"baseUrl"`
	Enabled bool   `json:"enabled"`
	// Local reports that the service runs on this computer.
	Local bool `json:"local"`
	// KeySource is the source of the key; empty: no key is set. The key itself is never returned.
	KeySource string `json:"keySource"`
	// State is ready, no_key, unreachable, open or disabled.
	State     string       `json:"state"`
	Circuit   CircuitState `json:"circuit"`
	LastError string       `json:"lastError,omitempty"`
	// Problem describes what is wrong with an entry of config.toml. FromFile entries must be changed
	// there.
	Problem  string `json:"problem,omitempty"`
	FromFile bool   `json:"fromFile,omitempty"`
	// Models is the number of the service's models in the catalog.
	Models int   `json:"models"`
	Entry  Entry `json:"entry"`
}

// ListResult holds the registry, sorted by name.
type ListResult struct {
	Providers []View `json:"providers"`
}

// List returns the registry with the state of each service. It makes no call.
func (s *Service) List(ctx context.Context, _ struct{}) (ListResult, error) {
	out := ListResult{Providers: []View{}}
	entries, _, err := s.config(ctx)
	if err != nil {
		return out, err
	}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		v, err := s.view(ctx, name, entries[name])
		if err != nil {
			return out, err
		}
		out.Providers = append(out.Providers, v)
	}
	return out, nil
}

func (s *Service) view(ctx context.Context, name string, e Entry) (View, error) {
	key, source, err := s.key(ctx, name, e)
	if err != nil && !fault.Is(err, fault.Unavailable) { // a locked store is treated as having no keys
		return View{}, err
	}
	v := View{Name: name, Type: e.Type, BaseURL: e.base(), Enabled: !e.Disabled, Local: e.local(), KeySource: source, State: "ready", Entry: e}
	v.Circuit = s.circuit(name + " " + e.host()).state(time.Now())
	v.LastError = scrub(s.lastError(name), key)
	if f := s.file()[name]; f != nil {
		v.FromFile, v.Problem = true, f.Problem
	}
	if _, problems := s.overridden(); v.Problem == "" {
		v.Problem = problems[name]
	}
	if cat, err := s.catalog(); err == nil {
		v.Models = len(cat.Providers[catalogProvider(cat, name, e)].Models)
	}
	switch {
	case e.Disabled:
		v.State = "disabled"
	case source == "" && !v.Local:
		v.State = "no_key"
	case v.Circuit.State == "open":
		v.State = "open"
	case v.LastError != "":
		v.State = "unreachable"
	}
	return v, nil
}

// NameParams names an entry.
type NameParams struct {
	Name string `json:"name"`
}

// Get returns one entry.
func (s *Service) Get(ctx context.Context, p NameParams) (View, error) {
	entries, _, err := s.config(ctx)
	if err != nil {
		return View{}, err
	}
	e, ok := entries[p.Name]
	if !ok {
		return View{}, fault.NotFoundf("Provider %q not found.", p.Name)
	}
	return s.view(ctx, p.Name, e)
}

// SetParams adds or changes an entry.
type SetParams struct {
	// Name is a-z, 0-9, _ and -, and begins with a letter.
	Name  string `json:"name"`
	Entry Entry  `json:"entry"`
	// APIKey is stored as an encrypted secret; empty leaves the stored key unchanged.
	APIKey string `json:"apiKey,omitempty"`
}

// Set adds or changes an entry, and stores its key.
func (s *Service) Set(ctx context.Context, p SetParams) (View, error) {
	if !entryName.MatchString(p.Name) {
		return View{}, fault.InvalidField("name", fault.CodeSyntax, "A provider's name has at most 32 of a-z 0-9 _ - and begins with a letter.")
	}
	if err := s.notFromFile(p.Name); err != nil {
		return View{}, err
	}
	if err := p.Entry.check(); err != nil {
		return View{}, err
	}
	if strings.TrimSpace(p.APIKey) != p.APIKey || len(p.APIKey) > 4096 {
		return View{}, fault.InvalidField("apiKey", fault.CodeSyntax, "That is not a key.")
	}
	entries, _, err := s.config(ctx)
	if err != nil {
		return View{}, err
	}
	old, had := entries[p.Name]
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		// A key is only valid for the host that it was given for.
		if had && old.host() != p.Entry.host() && p.APIKey == "" {
			if err := s.secrets.DeleteTx(tx, secretOf(p.Name)); err != nil && !fault.Is(err, fault.NotFound) {
				return err
			}
		}
		if p.APIKey != "" {
			if err := s.secrets.SetTx(tx, secretOf(p.Name), []byte(p.APIKey)); err != nil {
				return err
			}
		}
		if err := storeEntry(tx, p.Name, p.Entry, false); err != nil {
			return err
		}
		return audit.Append(tx, audit.Entry{Action: "providers.set", SubjectKind: "provider", SubjectID: p.Name, Details: map[string]any{"type": p.Entry.Type, "host": p.Entry.host(), "key": p.APIKey != "", "enabled": !p.Entry.Disabled}})
	})
	if err != nil {
		return View{}, err
	}
	s.succeeded(p.Name)
	v, err := s.view(ctx, p.Name, p.Entry)
	bus.Publish(s.db.Bus(), identity.UserID(ctx), Changed{p.Name, v.State})
	return v, err
}

// Remove removes an entry and its key.
func (s *Service) Remove(ctx context.Context, p NameParams) (struct{}, error) {
	entries, _, err := s.config(ctx)
	if err != nil {
		return struct{}{}, err
	}
	e, ok := entries[p.Name]
	if !ok {
		return struct{}{}, fault.NotFoundf("Provider %q not found.", p.Name)
	}
	if err := s.notFromFile(p.Name); err != nil {
		return struct{}{}, err
	}
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		if err := s.secrets.DeleteTx(tx, secretOf(p.Name)); err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		var err error
		if _, comes := shipped()[p.Name]; comes {
			err = storeEntry(tx, p.Name, e, true)
		} else {
			err = deleteEntry(tx, p.Name)
		}
		if err != nil {
			return err
		}
		return audit.Append(tx, audit.Entry{Action: "providers.removed", SubjectKind: "provider", SubjectID: p.Name})
	})
	if err == nil {
		bus.Publish(s.db.Bus(), identity.UserID(ctx), Changed{p.Name, "removed"})
	}
	return struct{}{}, err
}
