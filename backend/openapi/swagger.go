package openapi

import (
	"maps"
	"slices"
	"strings"
)

// fromSwagger converts a Swagger 2.0 description to the shape of OpenAPI 3.0.
func (d *Document) fromSwagger(in map[string]any) map[string]any {
	s := swagger{d: d, in: in}
	components := map[string]any{"schemas": rewriteRefs(in["definitions"])}
	responses := map[string]any{}
	for name, r := range object(in["responses"]) {
		responses[name] = s.response(object(r), in["produces"])
	}
	components["responses"] = responses
	schemes := map[string]any{}
	for name, x := range object(in["securityDefinitions"]) {
		schemes[name] = swaggerScheme(object(x))
	}
	components["securitySchemes"] = schemes
	paths := map[string]any{}
	for path, x := range object(in["paths"]) {
		from, item := s.find(x), map[string]any{}
		for m, op := range from {
			if slices.Contains(methods, m) {
				item[m] = s.operation(from, object(op))
			}
		}
		if from["$ref"] != nil {
			item = from // reported with the path
		}
		paths[path] = item
	}
	out := map[string]any{"openapi": "3.0.3", "info": in["info"], "paths": paths, "components": components, "servers": s.servers()}
	if in["security"] != nil {
		out["security"] = in["security"]
	}
	return out
}

type swagger struct {
	d  *Document
	in map[string]any
}

func (s *swagger) servers() []any {
	host, path := text(s.in["host"]), "/"+strings.TrimPrefix(text(s.in["basePath"]), "/")
	if host == "" {
		return []any{map[string]any{"url": path}}
	}
	schemes := texts(s.in["schemes"])
	slices.SortStableFunc(schemes, func(a, b string) int { return strings.Compare(b, a) }) // https first
	if len(schemes) == 0 {
		schemes = []string{"https"}
	}
	out := []any{}
	for _, scheme := range schemes {
		if scheme == "https" || scheme == "http" {
			out = append(out, map[string]any{"url": scheme + "://" + host + strings.TrimSuffix(path, "/")})
		}
	}
	return out
}

// find follows a reference to a parameter or response of Swagger 2.0, before the conversion.
func (s *swagger) find(v any) map[string]any {
	m := object(v)
	if ref, ok := m["$ref"].(string); ok {
		old := s.d.root
		s.d.root = s.in
		defer func() { s.d.root = old }()
		if to, err := s.d.follow(m); err == nil {
			return to
		}
		return map[string]any{"$ref": ref} // reported with the operation
	}
	return m
}

func (s *swagger) operation(item, op map[string]any) map[string]any {
	out := map[string]any{}
	for _, k := range []string{"operationId", "summary", "description", "tags", "deprecated", "security", "x-helix-tier"} {
		if v, ok := op[k]; ok {
			out[k] = v
		}
	}
	consumes, produces := op["consumes"], op["produces"]
	if consumes == nil {
		consumes = s.in["consumes"]
	}
	if produces == nil {
		produces = s.in["produces"]
	}
	var params []any
	form, encoding, required, file := map[string]any{}, map[string]any{}, []any{}, false
	own, _ := op["parameters"].([]any)
	shared, _ := item["parameters"].([]any)
	taken := map[string]bool{}
	for _, x := range append(slices.Clone(own), shared...) {
		p := s.find(x)
		key := text(p["in"]) + " " + text(p["name"])
		if taken[key] && p["$ref"] == nil {
			continue
		}
		taken[key] = true
		switch text(p["in"]) {
		case "body":
			out["requestBody"] = map[string]any{"required": truth(p["required"]), "description": p["description"], "content": content(consumes, rewriteRefs(p["schema"]))}
		case "formData":
			schema := inlineSchema(p)
			file = file || schema["format"] == "binary"
			form[text(p["name"])] = schema
			how := map[string]any{}
			collection(p, how)
			encoding[text(p["name"])] = how
			if truth(p["required"]) {
				required = append(required, text(p["name"]))
			}
		default:
			params = append(params, s.parameter(p))
		}
	}
	if len(params) > 0 {
		out["parameters"] = params
	}
	if len(form) > 0 {
		kind := "application/x-www-form-urlencoded"
		if file || !slices.Contains(texts(consumes), kind) && slices.Contains(texts(consumes), "multipart/form-data") {
			kind = "multipart/form-data"
		}
		schema := map[string]any{"type": "object", "properties": form, "required": required}
		out["requestBody"] = map[string]any{"required": len(required) > 0, "content": map[string]any{kind: map[string]any{"schema": schema, "encoding": encoding}}}
	}
	responses := map[string]any{}
	for code, r := range object(op["responses"]) {
		responses[code] = s.response(object(r), produces)
	}
	out["responses"] = responses
	return out
}

func (s *swagger) parameter(p map[string]any) map[string]any {
	if p["$ref"] != nil {
		return p
	}
	out := map[string]any{"name": p["name"], "in": p["in"], "required": p["required"], "description": p["description"], "schema": inlineSchema(p)}
	collection(p, out)
	return out
}

// collection sets the style of a parameter that is a list.
func collection(p, out map[string]any) {
	switch text(p["collectionFormat"]) {
	case "multi":
		out["style"], out["explode"] = "form", true
	case "ssv":
		out["style"], out["explode"] = "spaceDelimited", false
	case "pipes":
		out["style"], out["explode"] = "pipeDelimited", false
	case "tsv":
		out["style"], out["explode"] = tabDelimited, false
	default:
		out["explode"] = false
	}
}

func (s *swagger) response(r map[string]any, produces any) map[string]any {
	if ref, ok := r["$ref"].(string); ok {
		return map[string]any{"$ref": strings.Replace(ref, "#/responses/", "#/components/responses/", 1)}
	}
	out := map[string]any{"description": r["description"]}
	if r["schema"] != nil {
		out["content"] = content(produces, rewriteRefs(r["schema"]))
	}
	return out
}

func content(types, schema any) map[string]any {
	list := texts(types)
	if len(list) == 0 {
		list = []string{"application/json"}
	}
	out := map[string]any{}
	for _, t := range list {
		out[t] = map[string]any{"schema": schema}
	}
	return out
}

// inlineSchema returns the schema that a parameter of Swagger 2.0 consists of.
func inlineSchema(p map[string]any) map[string]any {
	out := map[string]any{}
	for _, k := range []string{"type", "format", "items", "default", "enum", "maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum", "maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "multipleOf", "description"} {
		if v, ok := p[k]; ok && v != nil {
			out[k] = rewriteRefs(v)
		}
	}
	if out["type"] == "file" {
		out["type"], out["format"] = "string", "binary"
	}
	return out
}

func swaggerScheme(x map[string]any) map[string]any {
	out := maps.Clone(x)
	switch text(x["type"]) {
	case "basic":
		return map[string]any{"type": "http", "scheme": "basic", "description": x["description"]}
	case "oauth2":
		flow := map[string]any{"authorizationUrl": x["authorizationUrl"], "tokenUrl": x["tokenUrl"], "scopes": x["scopes"]}
		name := map[string]string{"accessCode": "authorizationCode", "application": "clientCredentials", "implicit": "implicit", "password": "password"}[text(x["flow"])]
		return map[string]any{"type": "oauth2", "description": x["description"], "flows": map[string]any{name: flow}}
	}
	return out
}

// rewriteRefs returns a copy of a schema whose references lead to where the conversion puts things.
func rewriteRefs(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			if ref, ok := x.(string); ok && k == "$ref" {
				out[k] = strings.Replace(ref, "#/definitions/", "#/components/schemas/", 1)
				continue
			}
			out[k] = rewriteRefs(x)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = rewriteRefs(x)
		}
		return out
	}
	return v
}
