package config

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
)

// Changed is published when settings have changed.
type Changed struct {
	Keys []string `json:"keys"`
}

// AuditFunc writes the audit entry of a change. If it fails, the change is not made.
type AuditFunc func(ctx context.Context, keys []string) error

// SetAudit sets the function that writes the audit entries of config.set. Call it once, before
// serving.
func (s *Service) SetAudit(fn AuditFunc) { s.audit = fn }

// AllowFunc returns an error if the rest of the program forbids a change. A nil value is the default.
type AllowFunc func(ctx context.Context, values map[string]any) error

// SetAllow sets the function that config.set asks. Call it once, before serving.
func (s *Service) SetAllow(fn AllowFunc) { s.allow = fn }

// GetParams select settings.
type GetParams struct {
	// Keys to return; none means all.
	Keys []string `json:"keys,omitempty"`
}

// GetResult contains values by key.
type GetResult struct {
	Values map[string]any `json:"values"`
	// Sources is where each value came from: default, file, .env, environment or flag.
	Sources map[string]Source `json:"sources"`
}

// Get returns the current settings and where each came from.
func (s *Service) Get(_ context.Context, p GetParams) (GetResult, error) {
	r := GetResult{Values: map[string]any{}, Sources: map[string]Source{}}
	s.state.RLock()
	defer s.state.RUnlock()
	add := func(set Setting) { r.Values[set.Key], r.Sources[set.Key] = set.get(&s.current), s.sources[set.Key] }
	if len(p.Keys) == 0 {
		for _, set := range settings() {
			add(set)
		}
	}
	for _, key := range p.Keys {
		set, ok := lookup(key)
		if !ok {
			return GetResult{}, unknownKey(key)
		}
		add(set)
	}
	return r, nil
}

// SetParams change settings.
type SetParams struct {
	// Values by key; null resets to the default.
	Values map[string]any `json:"values"`
}

// SetResult describes the effect of a change.
type SetResult struct {
	// Applied lists the keys whose value changed, sorted.
	Applied []string `json:"applied"`
	// Restart lists those of them that take effect after a restart.
	Restart []string `json:"restart"`
}

// Set writes settings to config.toml, all or none. An invalid value or an unknown key is Invalid; a
// key that is overridden by a variable or flag is Conflict.
func (s *Service) Set(ctx context.Context, p SetParams) (SetResult, error) {
	r := SetResult{Applied: []string{}, Restart: []string{}}
	if len(p.Values) == 0 {
		return r, fault.Invalidf("Provide at least one setting.")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.RLock()
	was, sources := s.current, maps.Clone(s.sources)
	s.state.RUnlock()

	var edits []edit
	seen := map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(p.Values)) {
		set, ok := lookup(key)
		if !ok {
			return r, unknownKey(key)
		}
		if seen[set.Key] {
			return r, fault.Invalidf("%s is listed twice.", set.Key)
		}
		seen[set.Key] = true
		if from := sources[set.Key]; from == FromEnv || from == FromDotenv || from == FromFlag {
			return r, fault.Conflictf("%s is set by %s and can't be changed here.", set.Key, sourceWords[from]).
				WithDetails(map[string]any{"key": set.Key, "source": from})
		}
		e := edit{key: set.Key}
		if v := p.Values[key]; v != nil {
			var err error
			if e.value, err = set.Accept(v); err != nil {
				return r, err
			}
		}
		edits = append(edits, e)
	}
	if s.allow != nil {
		values := map[string]any{}
		for _, e := range edits {
			values[e.key] = e.value
		}
		if err := s.allow(ctx, values); err != nil {
			return r, err
		}
	}
	if err := s.write(ctx, edits); err != nil {
		return r, err
	}
	s.Reload()
	now := s.Current()
	for _, e := range edits {
		set, _ := lookup(e.key)
		if equal(set.get(&was), set.get(&now)) {
			continue
		}
		r.Applied = append(r.Applied, set.Key)
		if set.Restart {
			r.Restart = append(r.Restart, set.Key)
		}
	}
	if len(r.Applied) > 0 {
		bus.Publish(s.o.Bus, publishTo(ctx), Changed{Keys: r.Applied})
	}
	return r, nil
}

var sourceWords = map[Source]string{FromEnv: "an environment variable", FromDotenv: "a .env file", FromFlag: "the command line"}

// write edits the current file, which the user may have changed since the start.
func (s *Service) write(ctx context.Context, edits []edit) error {
	path := s.paths.ConfigFile()
	unlock, err := lockFile(ctx, path+".lock")
	if err != nil {
		return err
	}
	defer unlock()
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if text, err = editTOML(text, edits); err != nil {
		return err
	}
	if s.audit != nil {
		keys := make([]string, len(edits))
		for i, e := range edits {
			keys[i] = e.key
		}
		if err := s.audit(ctx, keys); err != nil {
			return err
		}
	}
	return replaceFile(path, text)
}

// FileChanged reads config.toml again after something other than Set has replaced it, such as a
// restore by user. It publishes Changed with the keys whose value changed.
func (s *Service) FileChanged(user uuid.UUID) {
	s.mu.Lock()
	was := s.Current()
	s.Reload()
	now := s.Current()
	s.mu.Unlock()
	var keys []string
	for _, set := range settings() {
		if !equal(set.get(&was), set.get(&now)) {
			keys = append(keys, set.Key)
		}
	}
	if len(keys) > 0 {
		bus.Publish(s.o.Bus, user, Changed{Keys: keys})
	}
}

func equal(a, b any) bool {
	if l, ok := a.([]string); ok {
		return slices.Equal(l, b.([]string))
	}
	return a == b
}

func publishTo(ctx context.Context) uuid.UUID { return identity.UserID(ctx) }

// Schema returns a JSON Schema of all settings: an object with one property per key. Besides type,
// default, minimum, maximum, enum and description, a property has x-unit, x-env and x-restart.
func (s *Service) Schema(context.Context, struct{}) (map[string]any, error) {
	props := map[string]any{}
	for _, set := range settings() {
		p := map[string]any{"type": set.Type, "description": set.Help, "default": set.Default(), "x-env": set.Env, "x-restart": set.Restart, "x-range": set.Range()}
		if set.Bounded {
			p["minimum"], p["maximum"] = set.Min, set.Max
		}
		if set.Enum != nil {
			p["enum"] = set.Enum
		}
		if set.Unit != "" {
			p["x-unit"] = set.Unit
		}
		if set.Type == "array" {
			p["items"] = map[string]any{"type": "string"}
		}
		props[set.Key] = p
	}
	return map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Helix settings",
		"type": "object", "additionalProperties": false, "properties": props,
	}, nil
}
