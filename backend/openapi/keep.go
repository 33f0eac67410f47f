package openapi

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"helix/backend/fault"
	"helix/backend/jcs"
)

// Keep returns a description with only some operations and what they need, in canonical JSON.
// Parse reads it again. The same operations of the same document give the same bytes.
func (d *Document) Keep(keys []string) (json.RawMessage, error) {
	k := keeper{d: d, done: map[string]bool{}, stubs: map[string]bool{}, out: map[string]any{
		"openapi": "3.1.0", "info": map[string]any{"title": d.Title, "version": d.Version}, "paths": map[string]any{}, "components": map[string]any{},
	}}
	if d.legacy {
		k.out["openapi"] = "3.0.3"
	}
	if d.root["servers"] != nil {
		k.out["servers"] = d.root["servers"]
	}
	if d.Protocol != "" {
		k.out["x-helix-protocol"] = d.Protocol
	}
	schemes := map[string]any{}
	for _, key := range slices.Sorted(slices.Values(keys)) {
		o, ok := d.Operation(key)
		if !ok {
			return nil, fault.NotFoundf("The API has no operation %.200q.", key)
		}
		item, err := d.follow(object(d.root["paths"])[o.Path])
		if err != nil {
			return nil, fault.Invalidf("Couldn't read %s: %s.", key, err)
		}
		method := strings.ToLower(o.Method)
		op := maps.Clone(object(item[method]))
		for name := range op {
			if strings.HasPrefix(name, "x-") && name != "x-helix-tier" || name == "callbacks" || name == "externalDocs" {
				delete(op, name)
			}
		}
		security := []any{}
		for _, names := range o.Security {
			alternative := map[string]any{}
			for _, n := range names {
				alternative[n] = []any{}
				schemes[n] = object(object(d.root["components"])["securitySchemes"])[n]
			}
			security = append(security, alternative)
		}
		op["security"] = security
		paths := object(k.out["paths"])
		kept := object(paths[o.Path])
		if kept == nil {
			kept = map[string]any{}
			for _, name := range []string{"parameters", "servers"} {
				if item[name] != nil {
					kept[name] = item[name]
				}
			}
			paths[o.Path] = kept
		}
		kept[method] = op
	}
	if len(schemes) > 0 {
		object(k.out["components"])["securitySchemes"] = schemes
	}
	k.reach(k.out)
	raw, err := jcs.Marshal(k.out)
	if err != nil {
		return nil, fault.Internalf(err, "Couldn't store the API description.")
	}
	return jcs.Canonicalize(raw)
}

// keeper copies what references lead to into out, at the same place.
type keeper struct {
	d     *Document
	out   map[string]any
	done  map[string]bool
	stubs map[string]bool // objects that were only made to hold a part of the original
}

func (k *keeper) reach(v any) {
	switch v := v.(type) {
	case map[string]any:
		if ref, ok := v["$ref"].(string); ok {
			k.copy(ref)
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if name != "example" && name != "examples" {
				k.reach(v[name])
			}
		}
	case []any:
		for _, x := range v {
			k.reach(x)
		}
	}
}

// copy copies the value of a reference. A place inside an array, or inside something that is there already,
// is copied with the object around it.
func (k *keeper) copy(ref string) {
	if k.done[ref] {
		return
	}
	k.done[ref] = true
	parts, err := pointer(ref)
	if err != nil || len(parts) == 0 {
		return
	}
	from, to := k.d.root, k.out
	for i, p := range parts {
		v, ok := from[p]
		if !ok {
			return
		}
		next, isObject := v.(map[string]any)
		if i == len(parts)-1 || !isObject {
			if place := strings.Join(parts[:i+1], "\x00"); to[p] == nil || k.stubs[place] {
				delete(k.stubs, place)
				to[p] = v
				k.reach(v)
			}
			return
		}
		there := object(to[p])
		if there == nil {
			there = map[string]any{}
			to[p] = there
			k.stubs[strings.Join(parts[:i+1], "\x00")] = true
		}
		from, to = next, there
	}
}
