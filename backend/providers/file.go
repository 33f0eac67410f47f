package providers

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"helix/backend/fault"
	"helix/backend/storage"
)

// fileEntry is an entry from config.toml. Key is api_key: the name of a secret after "secret:", or
// the key itself. Problem describes, in a sentence, what is wrong with the entry; a broken entry is
// not used.
type fileEntry struct {
	Entry
	Key     string
	Problem string
	broken  bool
}

// fromFile reads the entries of config.toml. values is the section providers, with keys of the form
// name.field; registry.name.field is equivalent.
func fromFile(values map[string]any) map[string]*fileEntry {
	out := map[string]*fileEntry{}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		name, field, _ := strings.Cut(key, ".")
		if first, rest, nested := strings.Cut(field, "."); name == "registry" && nested {
			name, field = first, rest
		}
		e := out[name]
		if e == nil {
			e = &fileEntry{}
			out[name] = e
		}
		if err := e.set(field, values[key]); err != nil {
			e.broken, e.Problem = true, fmt.Sprintf("config.toml, providers.%s: %s", key, err)
		}
	}
	for name, e := range out {
		if e.broken {
			continue
		}
		e.Type = cmp.Or(e.Type, shipped()[name].Type)
		err := e.check()
		switch {
		case !entryName.MatchString(name):
			e.broken, e.Problem = true, "config.toml: a provider's name has at most 32 of a-z 0-9 _ - and begins with a letter."
		case err != nil:
			e.broken, e.Problem = true, "config.toml: "+fault.As(err).Message
		case e.Key != "" && !strings.HasPrefix(e.Key, secretPrefix):
			e.Problem = `The key stands in config.toml as it is. Store it as a secret, and write api_key = "secret:NAME".`
		}
	}
	return out
}

// secretPrefix is the prefix of an api_key that names a secret.
const secretPrefix = "secret:"

// set sets one field.
func (e *fileEntry) set(field string, v any) error {
	if name, of := strings.CutPrefix(field, "extra_headers."); of {
		return setMember(&e.ExtraHeaders, name, v)
	}
	if name, of := strings.CutPrefix(field, "quirks."); of {
		return setMember(&e.Quirks, name, v)
	}
	var enabled bool
	switch field {
	case "type":
		return setText(&e.Type, v)
	case "base_url":
		return setText(&e.BaseURL, v)
	case "api_key":
		return setText(&e.Key, v)
	case "api_key_env":
		return setText(&e.APIKeyEnv, v)
	case "catalog_provider":
		return setText(&e.CatalogProvider, v)
	case "organization":
		return setText(&e.Organization, v)
	case "timeout_idle":
		err := setNumber(&e.TimeoutIdleMs, v)
		e.TimeoutIdleMs *= 1000
		return err
	case "max_concurrent":
		return setNumber(&e.MaxConcurrent, v)
	case "rpm":
		return setNumber(&e.RPM, v)
	case "tpm":
		return setNumber(&e.TPM, v)
	case "skip_catalog_validation":
		return setSwitch(&e.SkipCatalogValidation, v)
	case "generic_key":
		return setSwitch(&e.GenericKey, v)
	case "allow_private_network":
		return setSwitch(&e.AllowPrivateNetwork, v)
	case "enabled":
		err := setSwitch(&enabled, v)
		e.Disabled = !enabled
		return err
	}
	return fault.Invalidf("there is no such field.")
}

func setText(to *string, v any) (err error) {
	var ok bool
	if *to, ok = v.(string); !ok {
		err = fault.Invalidf("must be text.")
	}
	return err
}

func setSwitch(to *bool, v any) (err error) {
	var ok bool
	if *to, ok = v.(bool); !ok {
		err = fault.Invalidf("must be true or false.")
	}
	return err
}

func setNumber(to *int, v any) error {
	n, ok := v.(int64)
	if !ok || n < 0 || n > math.MaxInt32/1000 {
		return fault.Invalidf("must be a number from 0 to %d.", math.MaxInt32/1000)
	}
	*to = int(n)
	return nil
}

func setMember(to *map[string]string, name string, v any) error {
	var text string
	if err := setText(&text, v); err != nil {
		return err
	}
	if *to == nil {
		*to = map[string]string{}
	}
	(*to)[name] = text
	return nil
}

// file returns the entries of config.toml, which apply to all users of this computer.
func (s *Service) file() map[string]*fileEntry {
	if s.o.File == nil {
		return nil
	}
	return fromFile(s.o.File())
}

// key returns the key of the entry and its source. A key that was set in the interface is not used,
// because it was given for the address that was set there.
func (e *fileEntry) key(ctx context.Context, secrets *storage.Secrets) (key, source string, err error) {
	name, secret := strings.CutPrefix(e.Key, secretPrefix)
	if !secret {
		if e.Key != "" {
			source = sourceFile
		}
		return e.Key, source, nil
	}
	value, err := secrets.Value(ctx, name)
	if fault.Is(err, fault.NotFound) {
		return "", "", fault.Unavailablef("config.toml names the secret %s, which is not set.", name)
	}
	return string(value), sourceSealed, err
}

func (s *Service) notFromFile(name string) error {
	if s.file()[name] != nil {
		return fault.Conflictf("Provider %s is set in config.toml. Change it there.", name)
	}
	return nil
}
