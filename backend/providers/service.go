package providers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"path/filepath"
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

// Sources of keys.
const (
	sourceSealed = "secret"
	sourceEnv    = "environment"
)

// secretOf is the name of the sealed secret of an entry.
func secretOf(name string) string { return "provider/" + name }

// Service keeps the registry of model services, the roles and the catalogue, and has the Router.
type Service struct {
	*Router
	db      *storage.DB
	secrets *storage.Secrets
	o       ServiceOptions

	mu      sync.Mutex
	fetched *Catalog
	read    bool // the fetched catalogue was looked for
}

// ServiceOptions of New. HTTP and Meter are required.
type ServiceOptions struct {
	HTTP  *safehttp.Client
	Meter Meter
	// Env returns a variable of the environment.
	Env func(name string) (string, bool)
	// CacheDir keeps the fetched catalogue; empty: it is not kept.
	CacheDir string
	// CatalogURL is where the catalogue is fetched from; empty: models.dev.
	CatalogURL    string
	AllowScripted bool
	Logger        *slog.Logger
}

// New makes the service. It makes no call by itself.
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
	r, err := Open(Options{Config: s.config, Key: s.key, Catalog: s.catalog, HTTP: o.HTTP, Meter: o.Meter, AllowScripted: o.AllowScripted, Logger: o.Logger})
	s.Router = r
	return s, err
}

// Changed is published when an entry or what is known of it changed.
type Changed struct {
	Name  string `json:"name"`
	State string `json:"state"`
}

// CatalogChanged is published when another catalogue is in force.
type CatalogChanged struct {
	Date string `json:"date"`
}

// key finds the key of an entry: the sealed secret, the named variable, those of the type's own
// service, and API_KEY only where it can't go to a stranger.
func (s *Service) key(ctx context.Context, name string, e Entry) (key, source string, err error) {
	value, err := s.secrets.Value(ctx, secretOf(name))
	switch {
	case err == nil:
		return string(value), sourceSealed, nil
	case !fault.Is(err, fault.NotFound):
		return "", "", err
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

// Keys returns the keys that the caller's entries use, by the name of the entry, for their removal
// from text. They must not leave the backend.
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

// catalog returns the fetched catalogue, if it is younger, else the one of the build.
func (s *Service) catalog() (*Catalog, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own, err := embeddedCatalog()
	if !s.read && s.o.CacheDir != "" {
		s.read = true
		if text, err := os.ReadFile(s.catalogFile()); err == nil {
			if s.fetched, err = ParseCatalog(text); err != nil {
				s.o.Logger.Warn("read the fetched catalogue of models", "err", err)
			}
		}
	}
	if s.fetched != nil && (err != nil || s.fetched.Date >= own.Date) {
		return s.fetched, nil
	}
	return own, err
}

func (s *Service) catalogFile() string { return filepath.Join(s.o.CacheDir, "catalog.json") }

// View is an entry as the interface shows it.
type View struct {
	Name    string `json:"name"`
	Type    string `json:"type"`
	BaseURL string `json:"baseUrl"`
	Enabled bool   `json:"enabled"`
	// Local says that the service runs on this computer.
	Local bool `json:"local"`
	// KeySource says where the key comes from; empty: no key is set. The key itself is never returned.
	KeySource string `json:"keySource"`
	// State is ready, no_key, unreachable, open or disabled.
	State     string       `json:"state"`
	Circuit   CircuitState `json:"circuit"`
	LastError string       `json:"lastError,omitempty"`
	// Models counts those in the catalogue.
	Models int   `json:"models"`
	Entry  Entry `json:"entry"`
}

// ListResult holds the registry, by name.
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
	if err != nil && !fault.Is(err, fault.Unavailable) { // locked: as if there were none
		return View{}, err
	}
	v := View{Name: name, Type: e.Type, BaseURL: e.base(), Enabled: !e.Disabled, Local: e.local(), KeySource: source, State: "ready", Entry: e}
	v.Circuit = s.circuit(name + " " + e.host()).state(time.Now())
	v.LastError = scrub(s.lastError(name), key)
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

// NameParams name an entry.
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

// SetParams add or change an entry.
type SetParams struct {
	// Name is a-z, 0-9, _ and -, and begins with a letter.
	Name  string `json:"name"`
	Entry Entry  `json:"entry"`
	// APIKey is stored as a sealed secret; empty leaves the key as it is.
	APIKey string `json:"apiKey,omitempty"`
}

// Set adds or changes an entry, and stores its key.
func (s *Service) Set(ctx context.Context, p SetParams) (View, error) {
	if !entryName.MatchString(p.Name) {
		return View{}, fault.InvalidField("name", fault.CodeSyntax, "A provider's name has at most 32 of a-z 0-9 _ - and begins with a letter.")
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
		// A key belongs to the host that it was given for.
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

// ModelsParams choose models.
type ModelsParams struct {
	Provider string `json:"provider,omitempty"`
	// Query must occur in the name or the id.
	Query string `json:"query,omitempty"`
	// Capability is tools, images, files, reasoning or structured.
	Capability string `json:"capability,omitempty"`
	// Limit is 1 to 200; default 50.
	Limit  int `json:"limit,omitempty"`
	Offset int `json:"offset,omitempty"`
}

// ModelsResult is one page.
type ModelsResult struct {
	Models []ModelInfo `json:"models"`
	Total  int         `json:"total"`
}

// Models lists what the catalogue has for the registry.
func (s *Service) Models(ctx context.Context, p ModelsParams) (ModelsResult, error) {
	out := ModelsResult{Models: []ModelInfo{}}
	if err := storage.CheckPage(&p.Limit, &p.Offset, 50, 200); err != nil {
		return out, err
	}
	entries, _, err := s.config(ctx)
	if err != nil {
		return out, err
	}
	cat, err := s.catalog()
	if err != nil {
		return out, err
	}
	query := strings.ToLower(p.Query)
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		if p.Provider != "" && name != p.Provider {
			continue
		}
		provider := catalogProvider(cat, name, entries[name])
		for _, id := range slices.Sorted(maps.Keys(cat.Providers[provider].Models)) {
			i, _ := cat.Info(provider, id)
			i.Ref = ModelRef(name + "/" + id)
			if !strings.Contains(strings.ToLower(string(i.Ref)+" "+i.Name), query) || !i.Caps.has(p.Capability) {
				continue
			}
			if out.Total++; out.Total > p.Offset && len(out.Models) < p.Limit {
				out.Models = append(out.Models, i)
			}
		}
	}
	return out, nil
}

func (c Caps) has(capability string) bool {
	switch capability {
	case "tools":
		return c.Tools
	case "images":
		return c.Images
	case "files":
		return c.Files
	case "reasoning":
		return c.Reasoning
	case "structured":
		return c.Structured
	}
	return capability == ""
}

// RoleView is a role with its models.
type RoleView struct {
	Role  Role       `json:"role"`
	Chain []ModelRef `json:"chain"`
	// Problems say in words why a model of the chain can't do the work.
	Problems []string   `json:"problems"`
	Options  RoleConfig `json:"options"`
}

// RolesResult holds all roles.
type RolesResult struct {
	Roles []RoleView `json:"roles"`
}

// Roles returns which models answer for which role.
func (s *Service) Roles(ctx context.Context, _ struct{}) (RolesResult, error) {
	out := RolesResult{}
	entries, roles, err := s.config(ctx)
	if err != nil {
		return out, err
	}
	for _, role := range Roles() {
		out.Roles = append(out.Roles, s.role(ctx, role, roles[role], entries))
	}
	return out, nil
}

func (s *Service) role(ctx context.Context, role Role, c RoleConfig, entries map[string]Entry) RoleView {
	v := RoleView{Role: role, Chain: c.Chain, Problems: []string{}, Options: c}
	if v.Chain == nil {
		v.Chain, v.Options.Chain = []ModelRef{}, []ModelRef{}
	}
	for _, ref := range v.Chain {
		t, err := s.resolve(ctx, entries, ref)
		if err != nil {
			v.Problems = append(v.Problems, fault.As(err).Message)
			continue
		}
		window := map[Role]int{RoleChat: 16_000, RoleSynthesis: 32_000}[role]
		if role == RoleChat && !t.info.Caps.Tools {
			v.Problems = append(v.Problems, fmt.Sprintf("%s can't call tools.", ref))
		}
		if t.info.Window < window {
			v.Problems = append(v.Problems, fmt.Sprintf("The window of %s is %d tokens; %s needs %d.", ref, t.info.Window, role, window))
		}
	}
	return v
}

// SetRoleParams choose the models of a role.
type SetRoleParams struct {
	Role Role `json:"role"`
	// Chain names models as provider/model, first preferred. Empty: none.
	Chain []ModelRef `json:"chain"`
	// Options are the effort, the temperature, the longest answer and the highest cost of a call.
	Options *RoleConfig `json:"options,omitempty"`
}

// SetRole chooses the models that answer for a role.
func (s *Service) SetRole(ctx context.Context, p SetRoleParams) (RoleView, error) {
	if !slices.Contains(Roles(), p.Role) {
		return RoleView{}, fault.InvalidField("role", fault.CodeUnknownValue, "A role is chat, fast, synthesis or embed.")
	}
	entries, roles, err := s.config(ctx)
	if err != nil {
		return RoleView{}, err
	}
	if len(p.Chain) > 8 {
		return RoleView{}, fault.InvalidField("chain", fault.CodeTooLong, "A role has at most 8 models.")
	}
	for i, ref := range p.Chain {
		name, model := ref.Split()
		e, ok := entries[name]
		if !ok || model == "" {
			return RoleView{}, fault.InvalidField(fmt.Sprintf("chain[%d]", i), fault.CodeUnknownValue, "%q names no model of a provider.", ref)
		}
		if _, err := s.info(name, e, model); err != nil {
			return RoleView{}, fault.In(fmt.Sprintf("chain[%d]", i), err)
		}
	}
	c := roles[p.Role]
	if p.Options != nil {
		c = *p.Options
	}
	if c.Temperature != nil && !(*c.Temperature >= 0 && *c.Temperature <= 2) || c.MaxOutput < 0 || c.MaxCostMicrosCall < 0 {
		return RoleView{}, fault.InvalidField("options", fault.CodeRange, "A temperature is 0 to 2, and limits are not negative.")
	}
	c.Chain = p.Chain
	if err := s.db.Write(ctx, func(tx *storage.Tx) error {
		if err := storeRole(tx, p.Role, c); err != nil {
			return err
		}
		return audit.Append(tx, audit.Entry{Action: "providers.role_set", SubjectKind: "model_role", SubjectID: string(p.Role), Details: map[string]any{"chain": p.Chain}})
	}); err != nil {
		return RoleView{}, err
	}
	return s.role(ctx, p.Role, c, entries), nil
}

// CountParams name a model and what is counted.
type CountParams struct {
	Model    ModelRef   `json:"model,omitempty"`
	Text     string     `json:"text,omitempty"`
	Messages []Message  `json:"messages,omitempty"`
	Tools    []ToolDecl `json:"tools,omitempty"`
}

// CountResult is an estimate.
type CountResult struct {
	Tokens int64 `json:"tokens"`
	// Method is calibrated where services reported the sizes of earlier prompts, else estimate.
	Method string      `json:"method"`
	Parts  []CountPart `json:"parts"`
}

// CountPart is the share of one part.
type CountPart struct {
	Name   string `json:"name"`
	Tokens int64  `json:"tokens"`
}

// CountTokens estimates how many tokens a text or a conversation has for a model.
func (s *Service) CountTokens(_ context.Context, p CountParams) (CountResult, error) {
	ratio, learned := s.ratios.of(p.Model)
	out := CountResult{Method: "estimate", Parts: []CountPart{}}
	if learned {
		out.Method = "calibrated"
	}
	add := func(name string, q Request) {
		bytes, images := size(q)
		if bytes+images == 0 {
			return
		}
		n := int64(float64(bytes)*1.1/ratio) + int64(images*imageTokens) + 1 // a tenth in reserve
		out.Parts = append(out.Parts, CountPart{name, n})
		out.Tokens += n
	}
	add("text", Request{System: []Part{TextPart(p.Text)}})
	add("messages", Request{Messages: p.Messages})
	add("tools", Request{Tools: p.Tools})
	return out, nil
}

// TestParams choose what is tried.
type TestParams struct {
	Name string `json:"name"`
	// Model is asked with call; without one, the chat role's model of this provider.
	Model string `json:"model,omitempty"`
	// Call sends one short message, which costs money.
	Call bool `json:"call,omitempty"`
}

// TestResult holds the steps up to the first that failed.
type TestResult struct {
	Steps      []TestStep `json:"steps"`
	CostMicros Micros     `json:"costMicros"`
}

// TestStep is one of key, connect, models and stream.
type TestStep struct {
	Step    string `json:"step"`
	OK      bool   `json:"ok"`
	Ms      int64  `json:"ms"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	// Kind of the error.
	Kind fault.Kind `json:"kind,omitempty"`
}

// Test tries a service step by step. Only call makes it cost anything.
func (s *Service) Test(ctx context.Context, p TestParams) (TestResult, error) {
	out := TestResult{Steps: []TestStep{}}
	entries, roles, err := s.config(ctx)
	if err != nil {
		return out, err
	}
	e, ok := entries[p.Name]
	if !ok {
		return out, fault.NotFoundf("Provider %q not found.", p.Name)
	}
	began := time.Now()
	step := func(name, good string, err error) bool {
		st := TestStep{Step: name, OK: err == nil, Ms: time.Since(began).Milliseconds(), Message: good}
		if err != nil {
			f := fault.As(err)
			st.Message, st.Kind = f.Message, f.Kind
			if f.Kind == fault.Denied {
				st.Hint = "Enter its key, or another one."
			} else if f.Kind == fault.Unavailable || f.Kind == fault.NotFound {
				st.Hint = "Check the base URL and that the service runs."
			}
		}
		out.Steps = append(out.Steps, st)
		began = time.Now()
		return err == nil
	}
	key, source, err := s.key(ctx, p.Name, e)
	if err == nil && source == "" && !e.local() {
		err = fault.Deniedf("No key for %s.", p.Name)
	}
	if !step("key", cmp.Or(source, "not needed"), err) {
		return out, nil
	}
	model := p.Model
	if e.Type != WireScripted {
		ids, err := s.served(ctx, target{name: p.Name, entry: e, key: key})
		if !step("models", fmt.Sprintf("%d models", len(ids)), err) {
			return out, nil
		}
		if model == "" && len(ids) > 0 && e.local() {
			model = ids[0]
		}
	}
	if !p.Call {
		return out, nil
	}
	for _, ref := range roles[RoleChat].Chain {
		if name, id := ref.Split(); model == "" && name == p.Name {
			model = id
		}
	}
	if model == "" {
		return out, fault.InvalidField("model", fault.CodeMissing, "Name the model that is asked.")
	}
	reply, err := s.Complete(ctx, Request{
		Model: ModelRef(p.Name + "/" + model), MaxOutput: 64, Purpose: "providers.test",
		Messages: []Message{{Role: User, Parts: []Part{TextPart("Reply with the word OK.")}}},
	})
	if t, resolveErr := s.resolve(ctx, entries, ModelRef(p.Name+"/"+model)); resolveErr == nil {
		cost, _ := s.cost(t, reply.Usage)
		out.CostMicros = max(cost, reply.Usage.ReportedMicros)
	}
	step("stream", fmt.Sprintf("%d tokens in, %d out", reply.Usage.Prompt(), reply.Usage.Output), err)
	return out, nil
}

// maxModelsList bounds the list of a server's models.
const maxModelsList = 4 << 20

// served asks a service for its models.
func (r *Router) served(ctx context.Context, t target) ([]string, error) {
	stream, err := r.open(ctx, t, t.entry.modelsEndpoint(), nil)
	if err != nil {
		return nil, err
	}
	defer stream.Body.Close()
	text, err := io.ReadAll(io.LimitReader(stream.Body, maxModelsList+1))
	if err != nil {
		return nil, err
	}
	c := cursor{b: text}
	if c.peek() != '{' || len(text) > maxModelsList {
		return nil, fault.Unavailablef("%s gave no list of models. Check the base URL.", t.name)
	}
	ids := []string{}
	c.object(func(key []byte) {
		switch string(key) {
		case "data", "models":
			c.array(func() {
				var id string
				c.object(func(key []byte) {
					switch string(key) {
					case "id", "name":
						id = cmp.Or(id, strings.TrimPrefix(c.str(), "models/"))
					}
				})
				if id != "" && !slices.Contains(ids, id) {
					ids = append(ids, id)
				}
			})
		}
	})
	return ids, c.end()
}

// DetectResult holds the servers that answered.
type DetectResult struct {
	Found []Detected `json:"found"`
}

// Detected is a model server on this computer.
type Detected struct {
	Type    string   `json:"type"`
	BaseURL string   `json:"baseUrl"`
	Product string   `json:"product"`
	Models  []string `json:"models"`
}

// localPorts are where model servers listen by default.
var localPorts = []struct {
	port    int
	product string
}{{11434, "Ollama"}, {1234, "LM Studio"}, {8080, "llama.cpp"}, {8000, "vLLM"}}

// Detect looks for model servers on this computer.
func (s *Service) Detect(ctx context.Context, _ struct{}) (DetectResult, error) {
	out := DetectResult{Found: []Detected{}}
	for _, l := range localPorts {
		e := Entry{Type: WireChat, BaseURL: fmt.Sprintf("http://127.0.0.1:%d/v1", l.port), TimeoutIdleMs: 2000}
		ids, err := s.served(ctx, target{name: l.product, entry: e})
		if ctx.Err() != nil {
			return out, fault.As(ctx.Err())
		}
		if err == nil {
			out.Found = append(out.Found, Detected{e.Type, e.BaseURL, l.product, ids})
		}
	}
	return out, nil
}

// ShowParams choose a part of the catalogue.
type ShowParams struct {
	Provider string `json:"provider,omitempty"`
	Model    string `json:"model,omitempty"`
}

// ShowResult is what the catalogue knows.
type ShowResult struct {
	Date      string   `json:"date"`
	SHA256    string   `json:"sha256"`
	Providers []string `json:"providers"`
	// Models are those of the provider that was named.
	Models []ModelInfo `json:"models"`
}

// Show returns the catalogue in force: its providers, the models of one, or one model.
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
		return out, fault.NotFoundf("The catalogue has no provider %q.", p.Provider)
	}
	out.Providers = []string{p.Provider}
	for _, id := range slices.Sorted(maps.Keys(provider.Models)) {
		if p.Model == "" || p.Model == id {
			i, _ := cat.Info(p.Provider, id)
			out.Models = append(out.Models, i)
		}
	}
	if p.Model != "" && len(out.Models) == 0 {
		return out, fault.NotFoundf("The catalogue has no model %q of %s.%s", p.Model, p.Provider, similar(cat.nearest(p.Provider, p.Model)))
	}
	return out, nil
}

// FetchResult says what a fetch brought.
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

// Fetch fetches the public catalogue. A broken one, and one that lost more than three tenths of its
// models, is refused, and the former stays.
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
		return FetchResult{}, fault.Unavailablef("The catalogue can't be fetched: status %d.", stream.Status)
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
		return FetchResult{}, fault.Invalidf("The new catalogue has %d models, the old one %d. The old one stays.", c.Models(), old.Models())
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

// writeWhole replaces a file, so that a reader sees the old or the new text.
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

// Difference is one model that two catalogues do not agree on.
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

// VerifyResult compares the catalogue in force with that of the build.
type VerifyResult struct {
	Equal bool `json:"equal"`
	// Differences are at most 1,000.
	Differences []Difference `json:"differences"`
}

// Verify compares the catalogue in force with the one that came with this version.
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
